//! Whole devices under simulation: everything that one seed chooses, in virtual time, against a slow model.
//!
//! A seed makes a chain of devices with random ports, rates, thresholds and engines, and hosts that send frames of a lossy and of a lossless class and obey
//! pauses. Meanwhile control changes entries one by one and in batches, replaces programs, takes links down, removes and adds ports, holds ports, and hosts pause the
//! devices. Every frame carries its sender, and what each device wrote: the entry, the marks of both programs, a number from a register. So the model needs
//! no queues: it has the times at which each entry was in force.
//!
//! * A frame arrives once, or is dropped once under a reason; nothing else arrives.
//! * It arrives whole, by entries that were in force when it met them (at the first device: at that picosecond), at the host that they lead to, done by one program at
//!   each device from ingress to egress.
//! * Frames of a class between two hosts arrive in order.
//! * A lossless class loses nothing to a buffer, where pauses reach the sender: the link is up, the port is there and transmits, and the first pause since
//!   has had the time to arrive ([`host::Host::pauses_go_on`]). A port that is held sends no pauses, so headroom cannot cover it.
//! * A device begins no lossless frame while the host behind the port pauses it, none at a port that is held, and none before the end of the last.
//! * A reason of a drop that names a port without a link, or one that is not there, needs an outage of a port that the frame could have met. Of the
//!   lossy class a share arrives.
//! * A batch with one update that is wrong changes nothing.
//! * Ledgers and the accounts of the traffic manager add up all the time. A swap keeps registers and counters. In the end the counters have every
//!   frame, all is empty, and all packet memory is free.
//!
//! What is not modelled: copies, workers, and when frames arrive. [`planted`] has defects that it must find.

pub mod host;
pub mod model;
pub mod network;
pub mod operations;
pub mod planted;
pub mod program;

use std::collections::BTreeMap;

use wireyard_tables::time::{Span, Time};

use crate::differ::random::Random;
use network::Network;
pub use planted::Defect;

/// How long hosts send, in microseconds.
const TRAFFIC_US: [u64; 4] = [20, 50, 150, 400];
/// How long frames may take to leave when nobody sends or pauses any more, looked at so often.
const QUIET: Span = Span::from_ms(2);
const QUIET_LOOKS: usize = 50;
/// Between two operations of control, at most.
const PAUSE_MOST_NS: usize = 4000;

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Frames that hosts sent.
    pub sent: u64,
    /// Frames that hosts received.
    pub received: u64,
    /// Frames of the lossy class that arrived, and that found no room.
    pub lossy: (u64, u64),
    /// Operations of control.
    pub operations: u64,
    /// Frames that were dropped under a reason.
    pub dropped: u64,
    /// The same by reason.
    pub reasons: BTreeMap<String, u64>,
    /// Pauses that hosts received.
    pub pauses: u64,
}

/// Runs a seed, with a planted defect or without.
///
/// # Errors
/// The first promise that was broken, with its time.
pub fn run(seed: u64, defect: Option<Defect>) -> Result<Done, String> {
    let mut random = Random::new(seed);
    let mut network = Network::new(&mut random, defect)?;
    go(&mut random, &mut network).map_err(|why| why + &network.history())
}

fn go(random: &mut Random, network: &mut Network) -> Result<Done, String> {
    let end = Time::ZERO + Span::from_us(random.pick(&TRAFFIC_US));
    let mut operate_at = Time::ZERO + Span::from_ns(random.below(PAUSE_MOST_NS) as u64);
    let mut operations = 0;
    loop {
        let sender = network.next_sender().instant();
        let next = operate_at.min(end).min(sender.unwrap_or(end));
        network.run_until(next)?;
        if next == end {
            break;
        }
        if next == operate_at {
            network.operate(random)?;
            operations += 1;
            operate_at = next + Span::from_ns(1 + random.below(PAUSE_MOST_NS) as u64);
        } else {
            network.send_next(random);
        }
    }
    network.calm()?;
    for _ in 0..QUIET_LOOKS {
        let next = network.now() + QUIET;
        network.run_until(next)?;
        if network.is_empty() {
            break;
        }
    }
    network.finish()?;
    let (sent, received, dropped) = network.counts();
    let (reasons, pauses) = (network.reasons(), network.pauses());
    let lossy = network.lossy();
    Ok(Done { sent, received, lossy, operations, dropped, reasons, pauses })
}
