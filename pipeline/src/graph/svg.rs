//! A self-contained SVG file: graphs below each other, no script, no embedded font.

use super::labels;
use super::layout::{Layout, Size, layout};
use super::{Graph, Node, NodeKind};
use std::fmt::Write;

/// Width of a character of the 12 px monospaced font, in tenths of a pixel.
const CHAR_TENTHS: i32 = 73;
const LINE: i32 = 16;
const PAD: i32 = 10;
const TITLE: i32 = 30;

/// Colours, for a light and a dark page.
const STYLE: &str = "\
.page { fill: #fff; } text { fill: #111; }
.box { fill: #fff; stroke: #345; } .table { fill: #e6f0fa; stroke: #345; }
.branch { fill: #fff7e0; stroke: #345; } .terminal { fill: #eee; stroke: #345; }
.edge { fill: none; stroke: #678; } .head { fill: #678; } .title { font-weight: bold; }
.label { fill: #234; font-size: 11px; paint-order: stroke; stroke: #fff; stroke-width: 3px; }
@media (prefers-color-scheme: dark) {
.page { fill: #16191d; } text { fill: #e4e6e8; }
.box { fill: #1f242a; stroke: #9ab; } .table { fill: #1d3047; stroke: #9ab; }
.branch { fill: #3a3118; stroke: #9ab; } .terminal { fill: #2c3137; stroke: #9ab; }
.edge { stroke: #89a; } .head { fill: #89a; }
.label { fill: #cde; stroke: #16191d; }
}
";

/// All graphs in one picture, from top to bottom.
pub fn write(graphs: &[Graph]) -> String {
    let laid: Vec<Layout> = graphs.iter().map(|graph| layout(graph, &sizes(graph))).collect();
    let width = laid.iter().map(|l| l.width).max().unwrap_or(0).max(320);
    let height: i32 = laid.iter().map(|l| l.height + TITLE).sum();
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"ui-monospace, Menlo, monospace\" \
         font-size=\"12\">\n<style>\n{STYLE}</style>\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" \
         refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path \
         d=\"M0 0L8 4L0 8z\" class=\"head\"/></marker></defs>\n<rect class=\"page\" width=\"100%\" \
         height=\"100%\"/>"
    );
    let mut top = 0;
    for (graph, laid) in graphs.iter().zip(&laid) {
        let _ = writeln!(out, "<g transform=\"translate(0 {top})\">");
        let _ =
            writeln!(out, "<text class=\"title\" x=\"18\" y=\"20\">{}</text>", xml(&graph.title));
        let _ = writeln!(out, "<g transform=\"translate(0 {TITLE})\">");
        draw(graph, laid, &mut out);
        out.push_str("</g>\n</g>\n");
        top += laid.height + TITLE;
    }
    out.push_str("</svg>\n");
    out
}

/// The size of each node as it is drawn, for [`layout`].
pub fn sizes(graph: &Graph) -> Vec<Size> {
    graph.nodes.iter().map(size).collect()
}

fn size(node: &Node) -> Size {
    let longest = node.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) as i32;
    let slant = if node.kind == NodeKind::Branch { 2 * PAD } else { 0 };
    Size {
        width: longest * CHAR_TENTHS / 10 + 2 * PAD + slant,
        height: node.lines.len().max(1) as i32 * LINE + PAD,
    }
}

fn draw(graph: &Graph, laid: &Layout, out: &mut String) {
    let labels: Vec<String> = graph.edges.iter().map(|edge| short(&edge.label, 40)).collect();
    let area = |(node, &(x, y)): (&Node, &(i32, i32))| {
        let Size { width, height } = size(node);
        [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    };
    let nodes: Vec<_> = graph.nodes.iter().zip(&laid.nodes).map(area).collect();
    for points in &laid.edges {
        draw_edge(points, out);
    }
    for (node, &(x, y)) in graph.nodes.iter().zip(&laid.nodes) {
        draw_node(node, x, y, out);
    }
    let places = labels::places(laid, &nodes, &labels);
    for ((place, label), edge) in places.into_iter().zip(&labels).zip(&graph.edges) {
        let Some((x, y)) = place else { continue };
        // A browser shows the whole label as a tooltip.
        let whole = match *label == edge.label {
            true => String::new(),
            false => format!("<title>{}</title>", xml(&edge.label)),
        };
        let _ = writeln!(
            out,
            "<text class=\"label\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}{whole}</text>",
            xml(label)
        );
    }
}

fn draw_edge(points: &[(i32, i32)], out: &mut String) {
    let [first, .., _] = points else { return };
    let mut path = format!("M{} {}", first.0, first.1);
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
        let middle = (y0 + y1) / 2;
        let _ = write!(path, "C{x0} {middle} {x1} {middle} {x1} {y1}");
    }
    let _ = writeln!(out, "<path class=\"edge\" d=\"{path}\" marker-end=\"url(#arrow)\"/>");
}

fn draw_node(node: &Node, x: i32, y: i32, out: &mut String) {
    let Size { width, height } = size(node);
    let (left, top) = (x - width / 2, y - height / 2);
    let (right, bottom) = (left + width, top + height);
    match node.kind {
        NodeKind::Branch => {
            let _ = writeln!(
                out,
                "<path class=\"branch\" d=\"M{} {top}H{}L{right} {y}L{} {bottom}H{}L{left} {y}z\"/>",
                left + PAD,
                right - PAD,
                right - PAD,
                left + PAD,
            );
        }
        kind => {
            let (class, radius) = match kind {
                NodeKind::Table => ("table", 3),
                NodeKind::Terminal => ("terminal", height / 2),
                _ => ("box", 3),
            };
            let _ = writeln!(
                out,
                "<rect class=\"{class}\" x=\"{left}\" y=\"{top}\" width=\"{width}\" \
                 height=\"{height}\" rx=\"{radius}\"/>"
            );
        }
    }
    for (n, line) in node.lines.iter().enumerate() {
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            top + PAD / 2 + n as i32 * LINE + 12,
            xml(line)
        );
    }
}

/// At most `most` characters.
pub(super) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most - 1).collect();
    cut.push('\u{2026}');
    cut
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_and_edge_is_drawn_and_escaped() {
        let mut graph = Graph { title: "a < b".into(), ..Graph::default() };
        let a = graph.node(NodeKind::Branch, vec!["x && y".into()]);
        let b = graph.node(NodeKind::Table, vec!["fib".into()]);
        graph.edge(a, b, "yes");
        let long = "0x6 ".repeat(20);
        graph.edge(b, a, long.clone());
        let text = write(&[graph]);
        assert!(text.contains(&format!("<title>{long}</title></text>")), "{text}");
        assert!(text.contains("x &amp;&amp; y") && text.contains("a &lt; b"));
        assert_eq!(text.matches("marker-end").count(), 2);
        assert_eq!(text.matches("class=\"table\"").count(), 1);
    }
}
