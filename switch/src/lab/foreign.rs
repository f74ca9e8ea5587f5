//! Results in the columns of HPCC's simulator, for the scripts that read them.
//!
//! `fct.txt`: sip dip sport dport bytes start_ns fct_ns standalone_ns, in the order of completion; addresses by
//! `node_id_to_ip` from the numbers of nodes, which are those of `pfc.txt` and of a topology file, and the port is the
//! kind of flow, as in `fct_analysis.py`: 100 background, 200 incast. The last column is the time on an empty network
//! as in slowdown here (`lab::ideal_completion`).
//!
//! `pfc.txt`: time_ns node type port 1|0, a line for each frame of flow control when it arrives: the receiving node (by
//! its number), 0 for a host and 1 for a switch, its port, 1 for stop. Each repetition of a pause has a line, also
//! those of a broken adapter.

use std::fmt::Write;

use super::engine::Lab;
use super::fabric::NodeKind;
use super::ideal_completion::least_time;
use super::scenario::Scenario;
use super::workload::Source;

use crate::ports::PortNumber;

/// Destination ports: background, incast.
const PORTS: (u16, u16) = (100, 200);
/// First source port of a pair of hosts.
const FIRST_PORT: usize = 10_000;

/// The address of a node's number.
fn address(number: usize) -> u32 {
    0x0b00_0001 + ((number as u32 / 256) << 16) + ((number as u32 % 256) << 8)
}

/// Which of the flows are part of an incast.
pub(super) fn incasts(scenario: &Scenario) -> Vec<bool> {
    let mut found = vec![false; scenario.flows.len()];
    for (source, part) in scenario.sources.iter().zip(&scenario.parts) {
        found[part.flows.clone()].fill(matches!(source, Source::Incasts(_)));
    }
    found
}

/// `pfc.txt`: pauses and resumptions, in the order of time.
fn pauses(lab: &Lab) -> String {
    let fabric = &lab.scenario().fabric;
    let mut rows = Vec::new();
    for (node, core) in lab.cores.iter().enumerate() {
        for event in core.manager().tm.received_pauses() {
            let Some(port) = lab.linked_port(node, event.port) else { continue };
            let kind = u8::from(fabric.nodes[node].kind == NodeKind::Switch);
            for (bits, what) in [(event.resumed, 0), (event.stopped, 1)] {
                if bits != 0 {
                    rows.push((event.at.as_ps() / 1000, node, kind, port, what));
                }
            }
        }
    }
    rows.sort_unstable();
    let line = |(at, node, kind, port, what): &(u64, usize, u8, PortNumber, u8)| {
        format!("{at} {node} {kind} {port} {what}\n")
    };
    rows.iter().map(line).collect()
}

/// Both files, by name.
pub fn files(lab: &Lab) -> Vec<(&'static str, String)> {
    vec![("fct.txt", completions(lab)), ("pfc.txt", pauses(lab))]
}

/// `fct.txt`: flows with a size that are done. A flow with several rounds has no line: only their sum is recorded.
fn completions(lab: &Lab) -> String {
    let scenario = lab.scenario();
    let is_incast = incasts(scenario);
    let mut rows = Vec::new();
    for (index, (spec, status)) in scenario.flows.iter().zip(&lab.last).enumerate() {
        let (Some(size), Some(started), Some(finished)) =
            (spec.size, status.started, status.finished)
        else {
            continue;
        };
        if spec.rounds > 1 {
            continue;
        }
        rows.push((
            finished,
            index,
            size.get(),
            started,
            least_time(scenario, spec, lab.balances()),
        ));
    }
    rows.sort_unstable_by_key(|row| (row.0, row.1));
    let mut out = String::new();
    for (finished, index, bytes, started, least) in rows {
        let spec = &scenario.flows[index];
        let port = if is_incast[index] { PORTS.1 } else { PORTS.0 };
        let ns = |ps: u64| ps / 1000;
        let _ = writeln!(
            out,
            "{:08x} {:08x} {} {port} {bytes} {} {} {}",
            address(spec.from),
            address(spec.to),
            FIRST_PORT + index % 50_000,
            ns(started.as_ps()),
            ns(finished.since(started).as_ps()),
            ns(least.map_or(0, |least| least.as_ps())),
        );
    }
    out
}
