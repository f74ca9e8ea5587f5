//! A network as a picture: layers of nodes, links as lines, the link under test drawn thick.

use std::fmt::Write;

use super::{COLOURS, TOP, WIDTH, at, escaped, open};
use crate::report::plot::Diagram;

const ROW: f64 = 62.0;
/// Narrower than this a name does not fit its node, and the node is a dot.
const NAMED_WIDTH: f64 = 34.0;

/// The drawing.
pub fn diagram(diagram: &Diagram) -> String {
    let place = |name: &str| {
        diagram.layers.iter().enumerate().find_map(|(row, layer)| {
            let column = layer.iter().position(|node| node == name)?;
            let x = WIDTH * (column as f64 + 0.5) / layer.len() as f64;
            Some((x, TOP + 16.0 + row as f64 * ROW))
        })
    };
    let height = TOP + 32.0 + diagram.layers.len().saturating_sub(1) as f64 * ROW;
    let mut out = open(&diagram.title, height);
    for (from, to, is_marked) in &diagram.links {
        let (Some(a), Some(b)) = (place(from), place(to)) else { continue };
        let (colour, width) = if *is_marked { (COLOURS[1], 3.0) } else { ("#888", 1.0) };
        let _ = write!(
            out,
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            at(a.0),
            at(a.1),
            at(b.0),
            at(b.1)
        );
    }
    for (row, layer) in diagram.layers.iter().enumerate() {
        let room = WIDTH / layer.len() as f64;
        for name in layer {
            let Some((x, y)) = place(name) else { continue };
            let letters = name.chars().count() as f64 * 7.2 + 10.0;
            let colour = COLOURS[row % COLOURS.len()];
            if room < NAMED_WIDTH || letters > room {
                let _ = write!(
                    out,
                    "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{colour}\"><title>{}</title></circle>",
                    at(x),
                    at(y),
                    at((room / 2.5).min(5.0)),
                    escaped(name)
                );
                continue;
            }
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"20\" rx=\"3\" fill=\"#fff\" stroke=\"{colour}\"/>\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                at(x - letters / 2.0),
                at(y - 10.0),
                at(letters),
                at(x),
                at(y + 4.0),
                escaped(name)
            );
        }
    }
    out.push_str("</svg>");
    out
}
