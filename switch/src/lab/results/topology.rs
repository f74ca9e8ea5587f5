//! The network of a run, as facts, a table of its links and, if it is small enough, a picture.

use std::collections::BTreeMap;

use super::Window;
use crate::lab::fabric::{Fabric, NodeKind};
use crate::lab::sampler::QueueKey;
use crate::report::{Column, Diagram, Report, Table, Unit};

/// Nodes of a row in the picture; a network with more is listed only by its links.
const ROW_MAX: usize = 32;

pub(super) fn fill(report: &mut Report, window: &Window<'_>, bottleneck: Option<QueueKey>) {
    let fabric = &window.lab.scenario().fabric;
    links(report, fabric);
    let layers = layers(fabric);
    if layers.iter().any(|layer| layer.len() > ROW_MAX) {
        return;
    }
    let marked = bottleneck.and_then(|(node, port, _)| fabric.nodes[node].link(port));
    let name = |node: usize| fabric.nodes[node].name.clone();
    let links = fabric.links.iter().enumerate();
    report.diagrams.push(Diagram {
        id: "topology".to_owned(),
        title: "Topology".to_owned(),
        caption: match marked {
            Some(link) => format!("Hosts below. The bottleneck is on {}.", fabric.link_name(link)),
            None => "Hosts below.".to_owned(),
        },
        layers: layers.iter().map(|layer| layer.iter().map(|node| name(*node)).collect()).collect(),
        links: links
            .map(|(link, of)| (name(of.ends[0]), name(of.ends[1]), Some(link) == marked))
            .collect(),
    });
}

/// Hosts last; switches by the distance of the nearest host, the farthest first.
fn layers(fabric: &Fabric) -> Vec<Vec<usize>> {
    let mut distance: Vec<Option<usize>> = vec![None; fabric.nodes.len()];
    let mut reached: Vec<usize> = fabric.hosts().collect();
    let mut layers = Vec::new();
    while !reached.is_empty() {
        reached.iter().for_each(|node| distance[*node] = Some(layers.len()));
        let mut next = Vec::new();
        for &node in &reached {
            for &link in &fabric.nodes[node].links {
                let far = fabric.far(link, node);
                if distance[far].is_none() && !next.contains(&far) {
                    next.push(far);
                }
            }
        }
        next.sort_unstable();
        layers.push(std::mem::replace(&mut reached, next));
    }
    layers.reverse();
    layers
}

/// Links of one kind in one row.
fn links(report: &mut Report, fabric: &Fabric) {
    let kind = |node: usize| match fabric.nodes[node].kind {
        NodeKind::Host => "host",
        NodeKind::Switch => "switch",
    };
    let mut kinds: BTreeMap<_, u64> = BTreeMap::new();
    for link in &fabric.links {
        let [a, b] = link.ends;
        let between = if kind(a) <= kind(b) { (kind(a), kind(b)) } else { (kind(b), kind(a)) };
        let setup = &link.setup;
        *kinds.entry((between, setup.rate.get(), setup.delay, setup.mtu.get())).or_default() += 1;
    }
    let mut table = Table::new(
        "Links",
        "",
        vec![
            Column::words("between"),
            Column::numbers("links", Unit::Count),
            Column::numbers("rate", Unit::BitRate),
            Column::numbers("delay", Unit::Seconds),
            Column::numbers("MTU", Unit::Bytes),
        ],
    );
    for (((a, b), rate, delay, mtu), count) in kinds {
        table.rows.push(vec![
            format!("{a} and {b}").into(),
            count.into(),
            rate.into(),
            (delay.as_ps() as f64 / 1e12).into(),
            mtu.into(),
        ]);
    }
    report.tables.push(table);
}
