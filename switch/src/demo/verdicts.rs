//! What must hold, and whether it does.

use super::Options;
use super::cables::{HOSTS, RECEIVER, switch_port};
use super::drain::Drained;
use super::incast::Incast;
use super::pages::Settled;
use super::setting::DATA_CLASS;
use crate::host::WIRE_PORT;
use crate::lab::theory::FixedPoint;
use crate::ports::PortStats;
use crate::report::{Report, Unit, stats};
use crate::stats::LedgerReport;

/// How far from the fixed point the loop may settle: the model is one of a fluid, this is a queue of packets that a
/// random number marks, watched for some dozens of its swings.
const PROBABILITY_TOLERANCE: f64 = 0.25;
const QUEUE_TOLERANCE: f64 = 0.35;
/// Jain's index of the flows' goodput.
const FAIRNESS_MIN: f64 = 0.95;

/// All of them.
pub(super) fn fill(
    report: &mut Report,
    options: &Options,
    drained: &Drained,
    incast: &Incast,
    settled: Option<&Settled>,
    theory: Option<(FixedPoint, f64)>,
) {
    let (holds, found) = drained.tally.verdict(&options.law);
    report.verdict("marking curve", holds, found);
    marks(report, drained);
    lossless(report, drained, incast);
    conservation(report, drained, incast);
    notifications(report, incast);
    if let (Some(settled), Some((point, queue))) = (settled, theory) {
        settled_at(report, settled, point.probability, queue);
    } else {
        report.fact(
            "closed loop not judged",
            "the devices' clock did not come far enough behind the warm-up: give --seconds more, or the machine less else to do",
        );
    }
}

/// What the switch says that it marked is what the receiver saw.
fn marks(report: &mut Report, drained: &Drained) {
    let wred = drained.port.queues[usize::from(DATA_CLASS)].wred.unwrap_or_default();
    report.verdict(
        "marks on the wire",
        wred.marked == drained.ce && wred.eligible == drained.received,
        format!(
            "the switch counts {} marks in {} packets, the receiver {} in {}",
            wred.marked, wred.eligible, drained.ce, drained.received
        ),
    );
}

fn dropped_in(ledger: &LedgerReport) -> u64 {
    ledger.dropped.iter().map(|(_, count)| count).sum()
}

/// What a port lost, on either side of its socket.
fn lost_at(medium: &PortStats) -> u64 {
    medium.rx_kernel_drops
        + medium.rx_too_long
        + medium.rx_gso
        + medium.rx_errors
        + medium.tx_dropped()
}

/// Packets dropped anywhere.
pub(super) fn dropped(drained: &Drained, incast: &Incast) -> u64 {
    let of = |device: &super::incast::Device| {
        let media: u64 = device.media.iter().map(|(_, medium)| lost_at(medium)).sum();
        dropped_in(&device.ledger) + media
    };
    dropped_in(&drained.ledger) + incast.devices.iter().map(of).sum::<u64>()
}

fn lossless(report: &mut Report, drained: &Drained, incast: &Incast) {
    let sum = |of: fn(&super::incast::Track) -> u64| incast.flows.iter().map(of).sum::<u64>();
    let again = sum(|flow| flow.sent.retransmitted_packets);
    let disordered = sum(|flow| flow.received.out_of_sequence);
    let failed: Vec<&str> = incast.flows.iter().filter_map(|flow| flow.failed.as_deref()).collect();
    let lost = dropped(drained, incast);
    let missing = drained.sent - drained.received.min(drained.sent);
    let mut found = format!(
        "{lost} dropped, {missing} missing in the open loop, {again} sent again, {disordered} out of order, {} bytes wrong",
        incast.wrong_bytes
    );
    if !failed.is_empty() {
        found += &format!("; flows ended: {}", failed.join(", "));
    }
    for device in &incast.devices {
        for (reason, count) in &device.ledger.dropped {
            found += &format!("; {}: {reason} {count}", device.name);
        }
    }
    let holds = lost + missing + again + disordered + incast.wrong_bytes == 0 && failed.is_empty();
    report.verdict("nothing is lost", holds, found);
}

/// Every device accounts for every packet, and what one end of a cable sent the other received.
fn conservation(report: &mut Report, drained: &Drained, incast: &Incast) {
    let unbalanced: Vec<&str> = [("switch, open loop", &drained.ledger)]
        .into_iter()
        .chain(incast.devices.iter().map(|d| (d.name.as_str(), &d.ledger)))
        .filter(|(_, ledger)| !ledger.balanced)
        .map(|(name, _)| name)
        .collect();
    let medium = |device: usize, port: u16| {
        let media = &incast.devices[device].media;
        media.iter().find(|(number, _)| *number == port).map(|(_, m)| *m).unwrap_or_default()
    };
    let (mut carried, mut missing) = (0, 0);
    for host in 0..HOSTS {
        let (near, far) = (medium(host, WIRE_PORT), medium(HOSTS, switch_port(host)));
        for (sent, received) in [(near.tx_frames, far.rx_frames), (far.tx_frames, near.rx_frames)] {
            carried += received;
            missing += sent.abs_diff(received);
        }
    }
    let found = match unbalanced.as_slice() {
        [] => format!(
            "{} devices balance; {carried} frames came over {HOSTS} cables, {missing} differ between their ends",
            incast.devices.len() + 1
        ),
        names => format!("does not balance: {}", names.join(", ")),
    };
    report.verdict("conservation", unbalanced.is_empty() && missing == 0, found);
}

/// Every CNP reaches its sender, and there are no more than marks.
fn notifications(report: &mut Report, incast: &Incast) {
    let received: u64 = incast.flows.iter().map(|flow| flow.sent.cnps_received).sum();
    let marked = incast.bottleneck().queues[usize::from(DATA_CLASS)].wred.map_or(0, |w| w.marked);
    let sent = incast.cnps_sent;
    report.verdict(
        "notifications",
        sent == received && sent <= marked && (sent > 0) == (marked > 0),
        format!("{marked} marks, {sent} CNPs sent, {received} CNPs received"),
    );
    let paused = &incast.switch().ports[RECEIVER].pauses;
    if paused.rx_xoff.iter().sum::<u64>() > 0 {
        report.fact(
            "receiver",
            "paused the switch at times: the bottleneck was slower than its link",
        );
    }
}

/// Where the loop settled.
fn settled_at(report: &mut Report, settled: &Settled, probability: f64, queue: f64) {
    let near = |found: f64, wanted: f64, tolerance: f64, unit: Unit| {
        let away = found / wanted - 1.0;
        let text = format!(
            "{} measured, {} in theory: {:+.1} %, allowed {:.0} %",
            unit.show(found),
            unit.show(wanted),
            away * 100.0,
            tolerance * 100.0
        );
        (away.abs() <= tolerance, text)
    };
    let (holds, found) =
        near(settled.probability(), probability, PROBABILITY_TOLERANCE, Unit::Share);
    report.verdict("marking probability of the loop", holds, found);
    let (holds, found) = near(settled.queue_mean, queue, QUEUE_TOLERANCE, Unit::Bytes);
    report.verdict("queue of the loop", holds, found);
    let jain = stats::jain(&settled.rates);
    let found = format!("Jain's index {jain:.4}, at least {FAIRNESS_MIN}");
    report.verdict("fairness", jain >= FAIRNESS_MIN, found);
}
