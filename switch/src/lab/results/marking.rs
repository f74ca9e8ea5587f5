//! Marks by depth of the bottleneck queue against the configured curve.

use super::Window;
use crate::lab::sampler::QueueKey;
use crate::report::{Axis, Cell, Column, Layer, Plot, Report, Table, Unit, stats};
use crate::tm::MarkingHistogram;

/// Packets of a bucket below which it is not judged.
const FEW: u64 = 20;
/// Rows of the table.
const GROUPS: usize = 20;

pub(super) fn fill(report: &mut Report, window: &Window<'_>, bottleneck: Option<QueueKey>) {
    let outside = by_depth(report, window, bottleneck);
    report.figure("bottleneck.buckets_off_curve", outside, Unit::Count);
}

/// The law: the share of marked packets at a depth.
fn law(depth: f64, (kmin, kmax, pmax): (u64, u64, f64)) -> f64 {
    match depth {
        d if d <= kmin as f64 => 0.0,
        d if d > kmax as f64 => 1.0,
        d => pmax * (d - kmin as f64) / (kmax - kmin) as f64,
    }
}

/// Table and picture of marks by depth; returns the number of buckets that miss the curve.
fn by_depth(report: &mut Report, window: &Window<'_>, bottleneck: Option<QueueKey>) -> f64 {
    let Some(key) = bottleneck else { return f64::NAN };
    let Some(curve) = window.lab.sampler.curve(key) else { return f64::NAN };
    let core = &window.lab.cores[key.0];
    let histogram =
        core.ports().traffic_port(key.1).and_then(|id| core.manager().tm.marking(id, key.2));
    let Some(histogram) = histogram else { return f64::NAN };
    let groups = grouped(histogram, curve);
    let mut table = Table::new(
        "Marks by depth of the bottleneck queue",
        "The interval is Wilson's, 95 %. The law is the mean of the curve over the packets of the row.",
        vec![
            Column::numbers("from", Unit::Bytes),
            Column::numbers("to", Unit::Bytes),
            Column::numbers("packets", Unit::Count),
            Column::numbers("marked", Unit::Count),
            Column::numbers("share", Unit::Share),
            Column::numbers("low", Unit::Share),
            Column::numbers("high", Unit::Share),
            Column::numbers("law", Unit::Share),
        ],
    );
    let (mut points, mut outside) = (Vec::new(), 0);
    for group in &groups {
        let (low, high) = stats::wilson(group.marked, group.packets);
        let share = group.marked as f64 / group.packets as f64;
        if group.packets >= FEW {
            points.push((group.middle(), low, share, high));
            outside += u32::from(group.misses());
        }
        table.rows.push(vec![
            group.from.into(),
            group.to.map_or(Cell::Empty, Cell::from),
            group.packets.into(),
            group.marked.into(),
            share.into(),
            low.into(),
            high.into(),
            (group.expected / group.packets as f64).into(),
        ]);
    }
    report.tables.push(table);
    let (kmin, kmax, pmax) = curve;
    let deepest = points.last().map_or(kmax as f64, |point| point.0 * 1.05).max(kmin as f64 * 1.5);
    let mut line = vec![(0.0, 0.0), (kmin as f64, 0.0)];
    if deepest <= kmax as f64 {
        line.push((deepest, law(deepest, curve)));
    } else {
        line.extend([(kmax as f64, pmax), (kmax as f64, 1.0), (deepest, 1.0)]);
    }
    report.plots.push(Plot {
        id: "marking".to_owned(),
        title: "Marking probability by depth".to_owned(),
        caption:
            "Shares of packets that were marked, with 95 % intervals, against the configured curve."
                .to_owned(),
        x: Axis { to: Some(deepest), ..Axis::from_zero("depth", Unit::Bytes) },
        y: Axis::from_zero("marked", Unit::Share),
        layers: vec![
            Layer::Measured { name: "measured".to_owned(), points },
            Layer::Reference { name: "law".to_owned(), points: line },
        ],
    });
    f64::from(outside)
}

/// Depths that are shown together.
struct Group {
    from: u64,
    /// `None` is open.
    to: Option<u64>,
    packets: u64,
    marked: u64,
    /// Marks that the law expects, at the middle of each fine bucket.
    expected: f64,
    /// The same at the lower and at the upper edges: the range of the curve.
    bounds: (f64, f64),
}

impl Group {
    fn middle(&self) -> f64 {
        self.to.map_or(self.from as f64, |to| (self.from + to) as f64 / 2.0)
    }

    /// The marks cannot come from the curve: more than 4 standard deviations outside of its range.
    fn misses(&self) -> bool {
        let (n, marked) = (self.packets as f64, self.marked as f64);
        let far = |expected: f64| 4.0 * (expected * (1.0 - expected / n).max(0.0)).sqrt() + 1.0;
        let (low, high) = self.bounds;
        marked < low - far(low) || marked > high + far(high)
    }
}

/// The fine buckets that hold packets, in at most [`GROUPS`] of equal width, and the open one.
fn grouped(histogram: &MarkingHistogram, curve: (u64, u64, f64)) -> Vec<Group> {
    let width = histogram.bucket_bytes();
    let Some((open, closed)) = histogram.buckets().split_last() else { return Vec::new() };
    let used = closed.iter().rposition(|bucket| bucket.0 > 0).map_or(0, |last| last + 1);
    let each = used.div_ceil(GROUPS).max(1);
    let mut groups: Vec<Group> = Vec::new();
    for (index, part) in closed[..used].chunks(each).enumerate() {
        let from = (index * each) as u64 * width;
        let mut group = Group {
            from,
            to: Some(from + each as u64 * width),
            packets: 0,
            marked: 0,
            expected: 0.0,
            bounds: (0.0, 0.0),
        };
        for (n, &(packets, marked)) in part.iter().enumerate() {
            let (low, count) = ((from + n as u64 * width) as f64, packets as f64);
            group.packets += packets;
            group.marked += marked;
            group.expected += count * law(low + width as f64 / 2.0, curve);
            group.bounds.0 += count * law(low, curve);
            group.bounds.1 += count * law(low + width as f64, curve);
        }
        groups.push(group);
    }
    let from = closed.len() as u64 * width;
    let all = open.0 as f64 * law(from as f64, curve);
    groups.push(Group {
        from,
        to: None,
        packets: open.0,
        marked: open.1,
        expected: all,
        bounds: (all, open.0 as f64),
    });
    groups.retain(|group| group.packets > 0);
    groups
}
