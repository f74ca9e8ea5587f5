//! The checks of links: frames add up, and no direction carries more than its rate.
//!
//! A direction may be ahead of its rate by two frames, however long it is in use: so its bytes are counted since it was
//! last idle, and not from one check to the next.

use wireyard_tables::time::Time;

use super::Violation;
use crate::lab::engine::Lab;
use crate::units::{BitsPerSec, Bytes};

/// Check sequence, preamble and gap of a frame, bytes (IEEE 802.3 3.1.1, 4.4.2).
const ETHERNET_OVERHEAD: u64 = 24;

/// The frames of a direction of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// At the last check: frames and bytes since the beginning.
    sent: (u64, u64),
    /// The check since which the direction has been in use without a break, and the bytes since then.
    since: Time,
    bytes: u64,
}

impl Line {
    /// Takes the counters of a check; returns when the last bit can have left at this rate, at the earliest. `before`
    /// is the check before; each frame has `overhead` bytes beside its own.
    fn add(&mut self, sent: (u64, u64), before: Time, overhead: u64, rate: BitsPerSec) -> Time {
        if self.since + rate.time_for(Bytes::new(self.bytes)) <= before {
            (self.since, self.bytes) = (before, 0);
        }
        self.bytes += overhead * (sent.0 - self.sent.0) + (sent.1 - self.sent.1);
        self.sent = sent;
        self.since + rate.time_for(Bytes::new(self.bytes))
    }
}

impl Lab {
    /// Checks that frames add up, and that no direction carried more than its rate.
    pub(super) fn check_links(&mut self) -> Result<(), Violation> {
        let now = self.now();
        let before = std::mem::replace(&mut self.checks.looked, now);
        self.checks.links.resize(self.links.len(), Default::default());
        // Least cost on the wire: check sequence, preamble, gap.
        let overhead = if self.scenario.host.is_infiniband() { 0 } else { ETHERNET_OVERHEAD };
        for (link, directions) in self.links.iter().enumerate() {
            let setup = &self.scenario.fabric.links[link].setup;
            // A frame passed to the link now may still be in transmission, and one that it waits for.
            let slack = Bytes::new(2 * (setup.mtu.get() + ETHERNET_OVERHEAD));
            let slack = setup.rate.time_for(slack) + self.checks.late_max;
            for (side, direction) in directions.iter().enumerate() {
                let counters = direction.counters();
                if counters.under_way().is_none() {
                    let what = format!("{}: {counters:?}", self.scenario.fabric.link_name(link));
                    return Err(self.violation("conservation", what));
                }
                let line = &mut self.checks.links[link][side];
                let sent = (counters.sent, counters.sent_bytes);
                let over = line.add(sent, before, overhead, setup.rate);
                if over > now + slack {
                    let what = format!(
                        "{}: {} bytes in {} are more than {}",
                        self.scenario.fabric.link_name(link),
                        line.bytes,
                        now.since(line.since),
                        setup.rate
                    );
                    return Err(Violation::new("rates", now, what));
                }
            }
        }
        Ok(())
    }
}
