//! Checks that are independent of the model: invariants of every scenario.
//!
//! * conservation: every device's ledger balances, every link's frames have arrived, are lost or in flight, the buffers
//!   add up;
//! * lossless: nothing of a lossless class is dropped while the sender honours its pause;
//! * pauses: XOFF and XON alternate;
//! * rates: no link carries more than its rate, no reaction point leaves its bounds;
//! * order: where no link reorders, no route changes and no flow sprays or sends selectively, no packet of a flow
//!   arrives before one that was sent earlier; gaps are permitted;
//! * marking: no packet without ECT is marked;
//! * liveness: as long as there is something to send, something arrives; a deadlock is shown as its cycle.

mod links;

use wireyard_tables::time::{Deadline, Span, Time};

use self::links::Line;
use super::engine::Lab;
use super::fabric::{Fabric, NodeKind};
use super::host;
use super::scenario::{Fault, FaultKind, FlowSpec, HostSetup, Scenario};
use crate::ports::PortNumber;
use crate::roce::qp::Retransmission;
use crate::tm::{CLASSES, DropReason, PortStatus};
use crate::units::BitsPerSec;

/// Samples between two full audits of the buffers.
const AUDIT_EVERY: u64 = 256;
/// No delivery for this long, while flows have data to send, is a standstill.
const STANDSTILL: Span = Span::from_ms(2);

/// Full frames in front of one that arrives in time, on the slowest link.
const FRAMES_ON_THE_WAY: u64 = 16;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the check.
    pub check: &'static str,
    /// When it was found.
    pub at: Time,
    /// The violation, with names and numbers.
    pub what: String,
}

impl Violation {
    /// A broken promise.
    pub fn new(check: &'static str, at: Time, what: impl Into<String>) -> Violation {
        Violation { check, at, what: what.into() }
    }
}

/// State of the checks between samples.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    samples: u64,
    /// Bytes delivered by all flows, and the time of the last change.
    delivered: (u64, Time),
    /// By link and direction.
    links: Vec<[Line; 2]>,
    /// By node, packets that its buffers refused.
    dropped: Vec<u64>,
    looked: Time,
    /// How late a device may be polled, and catch up: zero in virtual time.
    pub late_max: Span,
    /// When every check last passed.
    pub(super) held: Time,
    /// Checks that were made, for the report.
    pub made: u64,
}

impl Lab {
    /// The checks of every sample.
    pub(super) fn check_sample(&mut self) -> Result<(), Violation> {
        self.checks.samples += 1;
        self.checks.made += 1;
        self.check_links()?;
        self.check_drops()?;
        self.check_standstill(false)?;
        if self.checks.samples.is_multiple_of(AUDIT_EVERY) {
            self.check_all()?;
        }
        Ok(())
    }

    /// Every check.
    pub(super) fn check_all(&mut self) -> Result<(), Violation> {
        self.checks.made += 1;
        (0..self.cores.len()).try_for_each(|node| self.check_core(node))?;
        self.check_flows(None)?;
        self.checks.held = self.now();
        Ok(())
    }

    /// Every check of one node and its flows.
    pub(super) fn check_node(&mut self, node: usize) -> Result<(), Violation> {
        self.check_core(node)?;
        self.check_flows(Some(node))
    }

    fn check_core(&mut self, node: usize) -> Result<(), Violation> {
        self.check_device(node)?;
        self.check_groups(node)
    }

    /// Checks that drops since the last check were permitted.
    fn check_drops(&mut self) -> Result<(), Violation> {
        self.checks.dropped.resize(self.cores.len(), 0);
        for node in 0..self.cores.len() {
            let now = self.now();
            let dropped = self.cores[node].view(now).dropped_packets();
            if std::mem::replace(&mut self.checks.dropped[node], dropped) != dropped {
                self.check_groups(node)?;
            }
        }
        Ok(())
    }

    fn violation(&self, check: &'static str, what: String) -> Violation {
        Violation::new(check, self.now(), what)
    }

    fn check_device(&mut self, node: usize) -> Result<(), Violation> {
        let now = self.now();
        let (name, core) = (&self.scenario.fabric.nodes[node].name, &mut self.cores[node]);
        let (audit, ledger) = (core.view(now).audit(), core.report());
        if !ledger.balanced {
            let what = format!("the ledger of `{name}` does not balance: {ledger:?}");
            return Err(self.violation("conservation", what));
        }
        audit.map_err(|error| self.violation("conservation", format!("`{name}`: {error}")))
    }

    /// Lossless groups and their pauses.
    fn check_groups(&mut self, node: usize) -> Result<(), Violation> {
        let (fabric, now) = (&self.scenario.fabric, self.now);
        let mut ports = Vec::new();
        for port in fabric.nodes[node].ports() {
            let core = &mut self.cores[node];
            let Some(id) = core.ports().traffic_port(port) else { continue };
            let lossless = core.manager().tm.lossless_groups(id);
            let Some(status) = core.view(now).port(id) else { continue };
            let name = port_name(fabric, node, port);
            for (group, status) in status.groups.iter().enumerate() {
                let (xoff, xon) = (status.counters.xoff, status.counters.xon);
                if xoff.checked_sub(xon) != Some(u64::from(status.xoff)) {
                    let what = format!(
                        "{name} priority group {group}: {xoff} XOFF and {xon} XON, and it {}",
                        if status.xoff { "is stopped" } else { "is not stopped" }
                    );
                    return Err(self.violation("pauses", what));
                }
            }
            for (queue, status) in status.queues.iter().enumerate() {
                if let Some(wred) = status.wred.filter(|wred| wred.marked > wred.eligible) {
                    let what = format!("{name} queue {queue}: {wred:?}");
                    return Err(self.violation("marking", what));
                }
            }
            ports.push((name, lossless, status));
        }
        // Groups of all ports first: the queue of another port counts what they refuse.
        let lost =
            ports.iter().find_map(|(name, lossless, status)| of_group(name, *lossless, status));
        let lost = lost.or_else(|| {
            ports.iter().find_map(|(name, lossless, status)| of_queue(name, *lossless, status))
        });
        lost.map_or(Ok(()), |what| Err(self.violation("lossless", what)))
    }

    /// All flows, or those of one node.
    fn check_flows(&mut self, only: Option<usize>) -> Result<(), Violation> {
        let ordered = keeps_order(&self.scenario);
        for (number, (spec, flow)) in self.scenario.flows.iter().zip(&self.flows).enumerate() {
            if only.is_some_and(|node| node != spec.from && node != spec.to) {
                continue;
            }
            let status = flow.status(&mut self.cores);
            if status.started.is_none() {
                continue;
            }
            let name = flow_name(&self.scenario.fabric, spec.from, spec.to, number);
            // After a loss the sender goes back: only more steps back than rewinds mean that packets were overtaken.
            if ordered && status.steps_back > status.rewinds {
                let what = format!(
                    "{name}: {} packets came behind one that was sent later",
                    status.steps_back - status.rewinds
                );
                return Err(self.violation("order", what));
            }
            let own = spec.own.as_ref().and_then(|own| own.ecn);
            let ecn = own.unwrap_or(self.scenario.host_of(spec.from).ecn);
            if !ecn && status.cnps > 0 {
                let what =
                    format!("{name} says that it cannot be marked, and got {} CNPs", status.cnps);
                return Err(self.violation("marking", what));
            }
            let (low, high) = host::rate_bounds(&self.scenario, spec);
            if let Some(rate) = status.rate
                && !(rate.rate_bps >= low && rate.rate_bps <= high)
            {
                let what = format!("{name}: {} bit/s is not from {low} to {high}", rate.rate_bps);
                return Err(self.violation("rates", what));
            }
        }
        Ok(())
    }

    /// Checks that something arrives as long as there is data to send and no host is paused. At the end of a run, flows
    /// that had the time and delivered nothing at all are at a standstill, whatever timers they have.
    pub(super) fn check_standstill(&mut self, is_end: bool) -> Result<(), Violation> {
        let now = self.now();
        let (statuses, delivered) = self.open_statuses();
        let is_open = |flow: &host::FlowStatus| {
            let is_begun = flow.started.is_some() && flow.posted > flow.completed;
            is_begun && flow.finished.is_none() && flow.failed.is_none()
        };
        let wants = statuses.iter().any(is_open);
        let excused = self.scenario.faults.iter().any(|fault| {
            let over = Deadline::from(fault.until) + standstill(&self.scenario);
            fault.kind.stops_packets() && fault.at <= now && !over.is_before(now)
        });
        if delivered != self.checks.delivered.0 || !wants || excused {
            self.checks.delivered = (delivered, now);
            return Ok(());
        }
        // A flow that has just begun has not waited.
        let begun = statuses.iter().filter(|flow| is_open(flow)).filter_map(|flow| flow.started);
        let since = begun.min().unwrap_or(now).max(self.checks.delivered.1);
        let waited = now.since(since);
        if waited < standstill(&self.scenario) || waited < self.standstill() {
            return Ok(());
        }
        // A cycle stays, even with retransmissions.
        let circle = self.deadlock();
        let is_lost = is_end && delivered == 0;
        if circle.is_none() && !is_lost && waited < self.longest_wait() {
            return Ok(());
        }
        let why = match circle {
            Some(circle) => format!("a deadlock of pauses: {circle}"),
            None => self.who_waits(),
        };
        Err(self.violation("liveness", format!("nothing was delivered since {since}: {why}")))
    }

    /// A cycle of queues of which each waits for the next, as text.
    pub(super) fn deadlock(&mut self) -> Option<String> {
        let circle = self.circle()?;
        let name = |(node, port, queue): (usize, PortNumber, u8)| {
            format!("{} queue {queue}", port_name(&self.scenario.fabric, node, port))
        };
        let mut names: Vec<String> = circle.into_iter().map(name).collect();
        names.push(names.first().cloned().unwrap_or_default());
        Some(names.join(" waits for "))
    }

    /// The cycle: node, port and queue of each.
    pub(super) fn circle(&mut self) -> Option<Vec<(usize, PortNumber, u8)>> {
        let (fabric, now) = (&self.scenario.fabric, self.now);
        let mut edges = Vec::new();
        for (node, core) in self.cores.iter_mut().enumerate() {
            for edge in core.view(now).wait_edges() {
                let (Some(inward), Some(outward)) = (
                    core.ports().port_of_traffic(edge.ingress),
                    core.ports().port_of_traffic(edge.egress),
                ) else {
                    continue;
                };
                let Some(link) = fabric.nodes[node].link(inward) else { continue };
                let far = fabric.far(link, node);
                let far_port = fabric.port(far, link);
                for priority in (0..CLASSES as u8).filter(|p| edge.priorities & 1 << p != 0) {
                    edges.push(((far, far_port, priority), (node, outward, edge.queue)));
                }
            }
        }
        crate::tm::pfc::find_cycle(&edges)
    }

    /// Details of a standstill that is no cycle.
    fn who_waits(&mut self) -> String {
        let paused = self.paused();
        let fabric = &self.scenario.fabric;
        let paused = paused.into_iter().map(|(node, port, queue)| {
            let name = port_name(fabric, node, port);
            format!("{name} queue {queue} is paused with packets in it")
        });
        let paused: Vec<String> = paused.collect();
        match paused.as_slice() {
            [] => {
                let mut drops = Vec::new();
                for (node, core) in self.cores.iter().enumerate() {
                    let (report, name) = (core.report(), &fabric.nodes[node].name);
                    for (reason, count) in report.dropped {
                        drops.push(format!("{name} dropped {count} as {reason}"));
                    }
                    // Packets that a program punts end here; MAC control frames end in every device.
                    let generation = core.generation();
                    let reasons = generation.map(|generation| &generation.program.reasons);
                    let is_punt = |reason: &String| {
                        reasons.is_some_and(|all| all.iter().any(|known| known == reason))
                    };
                    for (reason, count) in report.consumed.into_iter().filter(|(r, _)| is_punt(r)) {
                        drops.push(format!("{name} punted {count} as {reason}"));
                    }
                }
                drops.truncate(8);
                match drops.as_slice() {
                    [] => self.lost_on_links(),
                    drops => drops.join("; "),
                }
            }
            paused => paused[..paused.len().min(8)].join("; "),
        }
    }
}

fn standstill(scenario: &Scenario) -> Span {
    scenario.host.dilation.span(STANDSTILL).unwrap_or(Span::MAX)
}

impl Lab {
    /// Longest permitted time without a delivery, if nothing is lost.
    fn standstill(&self) -> Span {
        let scenario = &self.scenario;
        // On slow links there are long times without an arrival in normal operation.
        let hop = |(number, link): (usize, &super::fabric::Link)| {
            let rate = self.least_rate(number).unwrap_or(link.setup.rate).min(link.setup.rate);
            link.setup.delay + rate.time_for(link.setup.mtu) + link.setup.reorder_by
        };
        let slowest = scenario.fabric.links.iter().enumerate().map(hop).max().unwrap_or(Span::ZERO);
        let slow = Span::from_ps(slowest.as_ps().saturating_mul(FRAMES_ON_THE_WAY));
        standstill(scenario) + slow
    }

    /// The lowest rate of a queue in front of a link.
    fn least_rate(&self, link: usize) -> Option<BitsPerSec> {
        let fabric = &self.scenario.fabric;
        let ends = fabric.links[link].ends.into_iter().filter_map(|node| {
            let core = &self.cores[node];
            let port = core.ports().traffic_port(fabric.port(node, link))?;
            (0..CLASSES as u8).filter_map(|queue| core.manager().tm.max_rate(port, queue)).min()
        });
        ends.min()
    }

    /// Longest permitted time without a delivery. With losses, a packet that is lost repeatedly waits for its timer.
    fn longest_wait(&self) -> Span {
        let (scenario, standstill) = (&self.scenario, self.standstill());
        if is_clean(scenario) && self.checks.dropped.iter().all(|dropped| *dropped == 0) {
            return standstill;
        }
        let timeouts = scenario.host_setups().filter_map(HostSetup::longest_ack_timeout);
        let timeout = timeouts.max().unwrap_or(Span::from_ns(4096));
        standstill + timeout + timeout + timeout + timeout
    }

    /// Counters of the links, if no device is the cause.
    fn lost_on_links(&self) -> String {
        let counters = self.links.iter().flatten().map(|direction| direction.counters());
        let lost: u64 = counters.map(|c| c.lost + c.cut + c.corrupted).sum();
        match (lost, self.scenario.host.ack_timeout) {
            (0, _) => "no queue is paused, nothing was dropped or lost".to_owned(),
            (_, 0) => format!(
                "links lost {lost} frames, and with `ack_timeout: 0` nothing is sent again by itself"
            ),
            _ => format!("links lost {lost} frames"),
        }
    }

    /// Queues with packets that a pause keeps from sending: node, port and queue.
    pub(super) fn paused(&mut self) -> Vec<(usize, PortNumber, u8)> {
        let (mut paused, now) = (Vec::new(), self.now);
        for (node, core) in self.cores.iter_mut().enumerate() {
            for port in self.scenario.fabric.nodes[node].ports() {
                let status = core.ports().traffic_port(port).and_then(|id| core.view(now).port(id));
                let queues = status.iter().flat_map(|status| status.queues.iter().zip(0u8..));
                let stuck = queues.filter(|(status, _)| status.paused && status.packets > 0);
                paused.extend(stuck.map(|(_, queue)| (node, port, queue)));
            }
        }
        paused
    }
}

/// What a lossless priority group of a port has dropped.
fn of_group(name: &str, lossless: u8, status: &PortStatus) -> Option<String> {
    let groups = (0..CLASSES).filter(|class| lossless & 1 << class != 0);
    groups.map(|class| (class, &status.groups[class].counters)).find_map(|(class, group)| {
        let refused = group.refused.packets;
        (refused > 0).then(|| {
            format!(
                "{name}: {refused} packets of lossless class {class} were dropped; {} came after XOFF, {} of them \
                 later than a peer that obeys would send",
                group.after_xoff, group.not_honoured
            )
        })
    })
}

/// What the queue of a lossless class has dropped.
fn of_queue(name: &str, lossless: u8, status: &PortStatus) -> Option<String> {
    // Drops by a storm's watchdog or on a cut link break no promise.
    let excused = [DropReason::WatchdogStorm, DropReason::PortDown];
    let excused: u64 = excused.map(|why| status.drops[why as usize].packets).iter().sum();
    let queues = (0..CLASSES).filter(|class| lossless & 1 << class != 0);
    queues.map(|class| (class, status.queues[class].counters.refused.packets)).find_map(
        |(class, refused)| {
            let refused = refused.saturating_sub(excused);
            (refused > 0).then(|| {
                format!(
                    "{name}: {refused} packets of lossless class {class} were dropped in its queue"
                )
            })
        },
    )
}

/// No link reorders packets, and they stay on their routes.
fn keeps_order(scenario: &Scenario) -> bool {
    let sprays = |flow: &FlowSpec| scenario.sender(flow).spray > 1;
    // Packets that a selective sender repeats arrive after later ones without a rewind.
    let selective =
        |flow: &FlowSpec| scenario.sender(flow).retransmission != Retransmission::GoBackN;
    if scenario.flows.iter().any(|flow| sprays(flow) || selective(flow)) {
        return false;
    }
    let zero = crate::units::Probability::ZERO;
    let reroutes =
        |fault: &Fault| matches!(fault.kind, FaultKind::LinkDown { reroute_after: Some(_), .. });
    scenario.fabric.links.iter().all(|link| link.setup.reordering == zero)
        && !scenario.faults.iter().any(reroutes)
}

/// Nothing in the scenario loses, corrupts or reorders packets on links.
fn is_clean(scenario: &Scenario) -> bool {
    let quiet = |link: &super::fabric::Link| {
        let zero = crate::units::Probability::ZERO;
        link.setup.loss == zero && link.setup.corruption == zero && link.setup.reordering == zero
    };
    scenario.fabric.links.iter().all(quiet)
        && !scenario.faults.iter().any(|fault| fault.kind.stops_packets())
}

/// `s1->h2`.
pub(super) fn port_name(fabric: &Fabric, node: usize, port: PortNumber) -> String {
    let here = &fabric.nodes[node];
    let far =
        here.link(port).map_or("?", |link| fabric.nodes[fabric.far(link, node)].name.as_str());
    format!("{}->{far}", here.name)
}

/// `h1->sink`, with its number where there are several between the same hosts.
pub(super) fn flow_name(fabric: &Fabric, from: usize, to: usize, number: usize) -> String {
    debug_assert_eq!(fabric.nodes[from].kind, NodeKind::Host);
    format!("{}->{} ({})", fabric.nodes[from].name, fabric.nodes[to].name, number + 1)
}
