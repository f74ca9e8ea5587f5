//! Places for the labels of edges: on their edge or beside it, away from nodes, other labels and, if possible, other
//! edges.
//!
//! Labels are placed in the order of the edges, each at the first free place of a fixed list; so the same graph has the
//! same picture.

use super::layout::Layout;

/// Steps along a piece of an edge.
const STEPS: i32 = 16;
/// Positions on a piece of an edge where a label is tried, in steps: near the target first, where the labels of one
/// select's cases are apart.
const PLACES: [i32; 7] = [12, 10, 8, 14, 6, 4, 2];
/// Width of a character of the 11 px monospaced font, in tenths of a pixel.
const CHAR_TENTHS: i32 = 67;
/// Extent of a label above and below its base line.
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

/// The area of a label with this centre.
pub(super) fn area(x: i32, y: i32, label: &str) -> Area {
    let half = label.chars().count() as i32 * CHAR_TENTHS / 20 + 1;
    [x - half, y - ABOVE, x + half, y + BELOW]
}

/// The point of a piece of an edge, as drawn: a curve with vertical ends.
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

/// Cost of each point of another edge that a label covers: less than that of covering another label.
const ON_EDGE: i32 = 20;

/// A piece of an edge: which edge, and its ends.
type Piece = (usize, (i32, i32), (i32, i32));

/// The points of pieces of other edges in the area of the possible labels of this edge, with half width `half`.
fn others(pieces: &[Piece], edge: usize, half: i32) -> Vec<(i32, i32)> {
    let own = pieces.iter().filter(|piece| piece.0 == edge);
    let reach = own.fold([i32::MAX, i32::MAX, i32::MIN, i32::MIN], |all, (_, a, b)| {
        let (left, right) = (a.0.min(b.0) - 2 * half - GAP, a.0.max(b.0) + 2 * half + GAP);
        let (top, bottom) = (a.1.min(b.1) - ABOVE, a.1.max(b.1) + BELOW);
        [all[0].min(left), all[1].min(top), all[2].max(right), all[3].max(bottom)]
    });
    let is_near = |(of, a, b): &&Piece| {
        let piece = [a.0.min(b.0), a.1.min(b.1), a.0.max(b.0) + 1, a.1.max(b.1) + 1];
        *of != edge && overlap(piece, reach) > 0
    };
    let near = pieces.iter().filter(is_near);
    near.flat_map(|(_, a, b)| (1..STEPS).map(|step| point(*a, *b, step))).collect()
}

/// The middle of the base line of each label; `None` for edges without one.
pub(super) fn places(laid: &Layout, nodes: &[Area], labels: &[String]) -> Vec<Option<(i32, i32)>> {
    let mut taken = nodes.to_vec();
    let of_edge = |(edge, points): (usize, &Vec<(i32, i32)>)| {
        points.windows(2).map(move |pair| (edge, pair[0], pair[1])).collect::<Vec<Piece>>()
    };
    let pieces: Vec<Piece> = laid.edges.iter().enumerate().flat_map(of_edge).collect();
    let place = |edge: usize| {
        let (points, label) = (&laid.edges[edge], &labels[edge]);
        if label.is_empty() {
            return None;
        }
        let half = area(0, 0, label)[2];
        let others = others(&pieces, edge, half);
        let own: Vec<_> = points.windows(2).map(|pair| (pair[0], pair[1])).rev().collect();
        let mut best: Option<(i32, (i32, i32))> = None;
        'found: for (from, to) in own {
            for step in PLACES {
                let (x, y) = point(from, to, step);
                for x in [x, x + half + GAP, x - half - GAP] {
                    let here = area(x, y - 2, label);
                    let outside = (-here[0]).max(here[2] - laid.width).max(0) * (ABOVE + BELOW);
                    let covers = |(x, y): &&(i32, i32)| {
                        (here[0]..here[2]).contains(x) && (here[1]..here[3]).contains(y)
                    };
                    let edges = others.iter().filter(covers).count() as i32 * ON_EDGE;
                    let covered = taken.iter().map(|other| overlap(here, *other)).sum::<i32>();
                    let cost = outside + edges + covered;
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
    (0..laid.edges.len().min(labels.len())).map(place).collect()
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

    /// An additional edge through a label moves the label.
    #[test]
    fn a_label_is_beside_other_edges_if_it_can_be() {
        let own = vec![(40, 0), (40, 100), (150, 200)];
        let laid = |edges| Layout { nodes: vec![(150, 210)], edges, width: 400, height: 220 };
        let nodes = [[110, 200, 190, 220]];
        let alone = places(&laid(vec![own.clone()]), &nodes, &["default".to_owned()]);
        let (x, _) = alone[0].unwrap();
        let other = vec![(x, 0), (x, 220)];
        let labels = ["default".to_owned(), String::new()];
        let beside = places(&laid(vec![own, other.clone()]), &nodes, &labels);
        let (x, y) = beside[0].unwrap();
        let here = area(x, y, "default");
        let covers = |step| {
            let (x, y) = point(other[0], other[1], step);
            (here[0]..here[2]).contains(&x) && (here[1]..here[3]).contains(&y)
        };
        assert!(!(1..STEPS).any(covers), "{alone:?} {beside:?}");
    }

    #[test]
    fn points_are_on_the_edge() {
        assert_eq!(point((0, 0), (100, 50), 0), (0, 0));
        assert_eq!(point((0, 0), (100, 50), STEPS), (100, 50));
        assert_eq!(point((0, 0), (100, 50), STEPS / 2), (50, 25));
    }
}
