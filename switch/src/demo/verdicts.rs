//! The conditions of a correct run, and whether they are met.

use super::Options;
use super::drain::Drained;
use super::incast::Incast;
use super::setting::DATA_CLASS;
use crate::report::{Report, Verdict};

/// Why the closed loop could not be judged.
const TOO_SHORT: &str = "the devices' clock did not come far enough behind the warm-up: give --seconds more, or the machine less \
                         else to do";

/// All of them; those of the closed loop as the laboratory judged it are among them.
pub(super) fn fill(
    report: &mut Report,
    options: &Options,
    drained: &Drained,
    incast: &Incast,
    of_loop: Vec<Verdict>,
) {
    let (holds, found) = drained.tally.verdict(&options.law);
    report.verdict("marking curve", holds, found);
    marks(report, drained);
    lossless(report, drained, incast);
    conservation(report, drained);
    notifications(report, incast);
    report.verdicts.extend(of_loop);
    for expect in &incast.expect {
        if !incast.is_judged {
            report.skip(expect.figure.clone(), TOO_SHORT);
            continue;
        }
        let (passed, found) = match expect.condition.judge(&expect.figure, report) {
            Ok(judged) => judged,
            Err(error) => (false, format!("{error:?}")),
        };
        report.verdict(expect.figure.clone(), passed, found);
    }
}

/// Compares the marks that the switch counted with those received.
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

/// Packets dropped anywhere, the kernel included.
pub(super) fn dropped(drained: &Drained, incast: &Incast) -> u64 {
    let cables = &incast.live.cables;
    drained.ledger.dropped_packets() + incast.live.end.dropped + cables.lost + cables.refused
}

fn lossless(report: &mut Report, drained: &Drained, incast: &Incast) {
    let count = |name: &str| report.find(name).map_or(f64::NAN, |figure| figure.value);
    let (again, disordered, failed) =
        (count("flows.sent_again"), count("flows.out_of_order"), count("flows.failed"));
    let (lost, wrong) = (dropped(drained, incast), incast.live.end.wrong_bytes);
    let missing = drained.sent - drained.received.min(drained.sent);
    let found = format!(
        "{lost} dropped, {missing} missing in the open loop, {again} sent again, {disordered} out of order, {failed} flows \
         ended, {wrong} bytes wrong"
    );
    let holds = lost + missing + wrong == 0 && again + disordered + failed == 0.0;
    report.verdict("nothing is lost", holds, found);
}

/// The switch of the open loop accounts for every packet, and no cable of the closed one retained any; `checks` has the
/// ledgers of its devices.
fn conservation(report: &mut Report, drained: &Drained) {
    let ledger = &drained.ledger;
    let found = match ledger.balanced {
        true => format!("{} packets of the open loop are accounted for", ledger.received),
        false => format!("the ledger of the open loop does not balance: {ledger:?}"),
    };
    report.verdict("conservation", ledger.balanced, found);
}

/// Checks that marks become CNPs, and that there are no more of them than marks.
fn notifications(report: &mut Report, incast: &Incast) {
    let end = &incast.live.end;
    let holds = end.cnps <= end.marked && (end.cnps > 0) == (end.marked > 0);
    let found = format!("{} marks, {} CNPs received", end.marked, end.cnps);
    report.verdict("notifications", holds, found);
}
