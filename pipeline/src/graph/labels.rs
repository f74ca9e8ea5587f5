//! Places for the labels of edges: on their edge or beside it, where neither a node nor another label is.
//!
//! Labels are placed in the order of the edges, each at the first free place of a fixed list; so the same graph has the same picture.

use super::layout::Layout;

/// Steps along a piece of an edge.
const STEPS: i32 = 16;
/// Where on a piece of an edge a label is tried, in steps: near the target first, for labels of the cases of one select are apart there.
const PLACES: [i32; 7] = [12, 10, 8, 14, 6, 4, 2];
/// Width of a character of the 11 px monospaced font, in tenths of a pixel.
const CHAR_TENTHS: i32 = 67;
/// What a label has above and below its base line.
const ABOVE: i32 = 11;
const BELOW: i32 = 4;
/// Between a label and the edge that it is beside.
const GAP: i32 = 5;

/// A rectangle: left, top, right, bottom.
pub(super) type Area = [i32; 4];

fn overlap(a: Area, b: Area) -> i32 {
    let width = a[2].min(b[2]) - a[0].max(b[0]);
    let height = a[3].min(b[3]) - a[1].max(b[1]);
    if width > 0 && height > 0 { width * height } else { 0 }
}

/// What a label covers whose middle is here.
pub(super) fn area(x: i32, y: i32, label: &str) -> Area {
    let half = label.chars().count() as i32 * CHAR_TENTHS / 20 + 1;
    [x - half, y - ABOVE, x + half, y + BELOW]
}

/// The point of a piece of an edge, as it is drawn: a curve that leaves and arrives straight down.
fn point(from: (i32, i32), to: (i32, i32), step: i32) -> (i32, i32) {
    let (t, s) = (i64::from(step), i64::from(STEPS - step));
    let whole = i64::from(STEPS).pow(3);
    let middle = i64::from((from.1 + to.1) / 2);
    let (ends, starts) = (t * t * t + 3 * t * t * s, s * s * s + 3 * s * s * t);
    let x = (starts * i64::from(from.0) + ends * i64::from(to.0)) / whole;
    let between = 3 * s * s * t + 3 * s * t * t;
    let y =
        (s * s * s * i64::from(from.1) + between * middle + t * t * t * i64::from(to.1)) / whole;
    (x as i32, y as i32)
}

/// The middle of the base line of each label; `None` for edges without one.
pub(super) fn places(laid: &Layout, nodes: &[Area], labels: &[String]) -> Vec<Option<(i32, i32)>> {
    let mut taken = nodes.to_vec();
    let place = |(points, label): (&Vec<(i32, i32)>, &String)| {
        if label.is_empty() {
            return None;
        }
        let half = area(0, 0, label)[2];
        let pieces: Vec<_> = points.windows(2).map(|pair| (pair[0], pair[1])).rev().collect();
        let mut best: Option<(i32, (i32, i32))> = None;
        'found: for (from, to) in pieces {
            for step in PLACES {
                let (x, y) = point(from, to, step);
                for x in [x, x + half + GAP, x - half - GAP] {
                    let here = area(x, y - 2, label);
                    let outside = (-here[0]).max(here[2] - laid.width).max(0) * (ABOVE + BELOW);
                    let cost =
                        outside + taken.iter().map(|other| overlap(here, *other)).sum::<i32>();
                    if best.is_none_or(|(least, _)| cost < least) {
                        best = Some((cost, (x, y - 2)));
                    }
                    if cost == 0 {
                        break 'found;
                    }
                }
            }
        }
        let (_, (x, y)) = best?;
        taken.push(area(x, y, label));
        Some((x, y))
    };
    laid.edges.iter().zip(labels).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_edges_to_one_node_are_apart() {
        let to = (200, 300);
        let edges = (0..8).map(|n| vec![(40 + 40 * n, 100), (60 + 35 * n, 200), to]).collect();
        let laid = Layout { nodes: vec![to], edges, width: 400, height: 320 };
        let labels = vec!["default".to_owned(); 8];
        let node = [160, 290, 240, 310];
        let places = places(&laid, &[node], &labels);
        let mut areas: Vec<Area> = vec![node];
        for (x, y) in places.into_iter().flatten() {
            let here = area(x, y, "default");
            assert!(areas.iter().all(|other| overlap(here, *other) == 0), "{here:?} in {areas:?}");
            areas.push(here);
        }
        assert_eq!(areas.len(), 9);
    }

    #[test]
    fn points_are_on_the_edge() {
        assert_eq!(point((0, 0), (100, 50), 0), (0, 0));
        assert_eq!(point((0, 0), (100, 50), STEPS), (100, 50));
        assert_eq!(point((0, 0), (100, 50), STEPS / 2), (50, 25));
    }
}
