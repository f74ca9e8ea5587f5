//! Sums over all devices: drops by reason, frames on links, events.

use std::collections::BTreeMap;

use super::Window;
use crate::frames::envelope::Refused;
use crate::lab::fabric::NodeKind;
use crate::report::{Column, Report, Table, Unit};

pub(super) fn fill(report: &mut Report, window: &Window<'_>) {
    drops(report, window);
    lossless(report, window);
    links(report, window);
    let seconds = window.lab.measured_to().as_ps() as f64 / 1e12;
    report.figure("run.time", seconds, Unit::Seconds);
    report.figure("run.events", window.lab.events as f64, Unit::Count);
}

/// Drops by device and reason, in the whole run.
fn drops(report: &mut Report, window: &Window<'_>) {
    let fabric = &window.lab.scenario.fabric;
    let mut table = Table::new(
        "Drops by reason",
        "In the whole run, warm-up included. What a host's end point does not take (`bad_icrc`: a bit was wrong) is among it.",
        vec![
            Column::words("device"),
            Column::words("reason"),
            Column::numbers("packets", Unit::Count),
        ],
    );
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (node, core) in window.lab.cores.iter().enumerate() {
        let discarded = window.discarded.iter().filter(|of| of.0 == node);
        let discarded = discarded.map(|(_, reason, count)| ((*reason).to_owned(), *count));
        for (reason, count) in core.report().dropped.into_iter().chain(discarded) {
            table.rows.push(vec![
                fabric.nodes[node].name.clone().into(),
                reason.clone().into(),
                count.into(),
            ]);
            *sums.entry(reason).or_default() += count;
        }
    }
    report.figure("drops.total", sums.values().sum::<u64>() as f64, Unit::Count);
    // Figures of all possible reasons exist, so that expectations can refer to them.
    for reason in Refused::ALL {
        sums.entry(reason.name().to_owned()).or_default();
    }
    for reason in crate::tm::DropReason::ALL {
        sums.entry(reason.name().to_owned()).or_default();
    }
    for generation in window.lab.cores.iter().filter_map(|core| core.generation()) {
        for reason in generation.program.reasons.iter() {
            sums.entry(reason.clone()).or_default();
        }
    }
    for (reason, count) in sums {
        report.figure(format!("drops.{reason}"), count as f64, Unit::Count);
    }
    if !table.rows.is_empty() {
        report.tables.push(table);
    }
}

/// Drops of lossless classes, and their use of headroom.
fn lossless(report: &mut Report, window: &Window<'_>) {
    let fabric = &window.lab.scenario.fabric;
    let (mut at_groups, mut at_queues, mut headroom) = (0, 0, 0);
    for (node, core) in window.lab.cores.iter().enumerate() {
        for port in fabric.nodes[node].ports() {
            let Some(id) = core.ports().traffic_port(port) else { continue };
            let lossless = core.manager().tm.lossless_groups(id);
            let Some(status) = window.port(node, port) else { continue };
            for class in (0..8).filter(|class| lossless & 1 << class != 0) {
                at_groups += status.groups[class].counters.refused.packets;
                at_queues += status.queues[class].counters.refused.packets;
                headroom = headroom.max(status.groups[class].account.peak_headroom);
            }
        }
    }
    // A drop by a group is also counted at the queue of the packet.
    report.figure("drops.lossless", at_groups.max(at_queues) as f64, Unit::Count);
    report.figure("lossless.headroom_peak", headroom as f64, Unit::Bytes);
}

fn links(report: &mut Report, window: &Window<'_>) {
    let fabric = &window.lab.scenario.fabric;
    let mut sums = [0u64; 5];
    let mut table = Table::new(
        "Links that lost, changed or delayed frames",
        "",
        vec![
            Column::words("link"),
            Column::numbers("sent", Unit::Count),
            Column::numbers("lost", Unit::Count),
            Column::numbers("cut", Unit::Count),
            Column::numbers("corrupted", Unit::Count),
            Column::numbers("reordered", Unit::Count),
        ],
    );
    for (link, directions) in window.lab.links.iter().enumerate() {
        for (side, direction) in directions.iter().enumerate() {
            let c = direction.counters();
            let counts = [c.sent, c.lost, c.cut, c.corrupted, c.reordered];
            (0..5).for_each(|n| sums[n] += counts[n]);
            if counts[1..].iter().any(|count| *count > 0) {
                let [a, b] = fabric.links[link].ends;
                let (from, to) = if side == 0 { (a, b) } else { (b, a) };
                let name = format!("{}->{}", fabric.nodes[from].name, fabric.nodes[to].name);
                let mut row = vec![name.into()];
                row.extend(counts.map(Into::into));
                table.rows.push(row);
            }
        }
    }
    for (name, count) in ["sent", "lost", "cut", "corrupted", "reordered"].into_iter().zip(sums) {
        report.figure(format!("links.{name}"), count as f64, Unit::Count);
    }
    if !table.rows.is_empty() {
        report.tables.push(table);
    }
    let kinds = |kind| fabric.nodes.iter().filter(|node| node.kind == kind).count() as f64;
    report.figure("fabric.hosts", kinds(NodeKind::Host), Unit::Count);
    report.figure("fabric.switches", kinds(NodeKind::Switch), Unit::Count);
}
