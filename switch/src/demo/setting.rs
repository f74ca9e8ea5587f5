//! The experiment: an incast of the published evaluations, slowed down until a laptop can carry it.
//!
//! Dividing every rate by s and multiplying every time by s, with bytes as they are, changes nothing in DCQCN's fluid
//! model but the clock: the same marking probability, the same queue. So a link of 40 Gbit/s that becomes one of 200 Mbit/s
//! here is the same experiment, two hundred times slower; a slow link with timers as they are would not be.

use wireyard_tables::time::Span;

use super::judge::Law;
use crate::lab::theory::{self, FixedPoint, Loop};
use crate::roce::rp::ParamError;
use crate::roce::rp::dcqcn::{DcqcnParams, preset};
use crate::units::BitsPerSec;

/// s.
pub const DILATION: u64 = 200;
/// The rate of every link, before it is divided.
const ORIGINAL_BPS: u64 = 40_000_000_000;
/// Hosts that send.
pub const SENDERS: usize = 5;
/// Flows of each.
pub const FLOWS_EACH: usize = 2;
/// Payload of a full packet.
pub const PAYLOAD_BYTES: u32 = 1024;
/// Ethernet, IPv4, UDP, BTH, ICRC.
pub const FRAME_BYTES: u32 = PAYLOAD_BYTES + 14 + 20 + 8 + 12 + 4;
/// Check sequence; preamble and gap.
const FCS_BYTES: u32 = 4;
const GAP_BYTES: u32 = 20;
/// Class, queue and PFC priority of data.
pub const DATA_CLASS: u8 = 3;
/// Steps of the devices' clock: about a packet at the rate of a link.
pub const STEP: Span = Span::from_us(50);
/// Between two samples.
pub const SAMPLE: Span = Span::from_ms(10);
/// What does not count at the beginning of the incast.
pub const WARM_UP: Span = Span::from_ms(4_000);
/// What the incast must last behind it to be judged.
pub const MEASURED_MIN: Span = Span::from_ms(5_000);
/// Bytes of one sender in the buffer at which it is paused: out of the way in the open loop, whose senders do not listen; in
/// the closed one so that line rate of five into one is felt, and what the loop settles at is not.
pub const XOFF_BYTES: [u64; 2] = [600_000, 250_000];
/// MTU of the cables.
pub const MTU_BYTES: u32 = 1500;

/// The slowed link.
pub fn rate() -> BitsPerSec {
    BitsPerSec::new(ORIGINAL_BPS / DILATION).unwrap_or(BitsPerSec::gbit(1))
}

/// What the slowed link was.
pub fn original_rate() -> BitsPerSec {
    BitsPerSec::new(ORIGINAL_BPS).unwrap_or(BitsPerSec::gbit(1))
}

/// The marking curve of both phases: that of `switch.json`, which the run compares with it.
pub const LAW: Law = Law { kmin: 5e3, kmax: 2000e3, pmax: 0.1 };

/// Reaction point and CNP interval: the paper's, slowed down.
///
/// # Errors
/// The preset is not there.
pub fn rate_control() -> Result<(DcqcnParams, Span), ParamError> {
    let plain = preset::by_name("dcqcn", ORIGINAL_BPS as f64)?;
    let s = DILATION as f64;
    let slow = |span: Span| Span::from_ps(span.as_ps() * DILATION);
    let rp = DcqcnParams {
        line_rate_bps: plain.rp.line_rate_bps / s,
        min_rate_bps: plain.rp.min_rate_bps / s,
        additive_increase_bps: plain.rp.additive_increase_bps / s,
        hyper_increase_bps: plain.rp.hyper_increase_bps / s,
        alpha_period: slow(plain.rp.alpha_period),
        increase_period: slow(plain.rp.increase_period),
        decrease_period: slow(plain.rp.decrease_period),
        ..plain.rp
    };
    Ok((rp, slow(plain.cnp_interval)))
}

/// Where the model says that it settles, and the depth of the queue there.
pub fn fixed_point() -> Option<(FixedPoint, f64)> {
    let (rp, cnp_interval) = rate_control().ok()?;
    let seconds = |span: Span| span.as_ps() as f64 / 1e12;
    // Rate control counts frames with their check sequence; the link carries preamble and gap too.
    let counted = f64::from(FRAME_BYTES + FCS_BYTES);
    let of = Loop {
        capacity: rate().get() as f64 / (8.0 * (counted + f64::from(GAP_BYTES))),
        flows: (SENDERS * FLOWS_EACH) as f64,
        cnp_interval: seconds(cnp_interval),
        alpha_period: seconds(rp.alpha_period),
        increase_period: seconds(rp.increase_period),
        byte_counter: rp.byte_counter_bytes.map_or(f64::INFINITY, |bytes| bytes as f64 / counted),
        stages: f64::from(rp.fast_recovery_stages),
        increase: rp.additive_increase_bps / (8.0 * counted),
    };
    let point = theory::fixed_point(&of)?;
    Some((point, theory::queue_at(point.probability, (LAW.kmin, LAW.kmax, LAW.pmax))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published row (1,000-byte packets on a link without gaps: 0.6032 %, 122.6 KB) is near: ours are 10 % longer.
    #[test]
    fn the_slowed_experiment_is_that_of_the_literature() {
        let (point, queue) = fixed_point().unwrap();
        assert!((0.006..0.008).contains(&point.probability), "{point:?}");
        assert!((120e3..160e3).contains(&queue), "{queue}");
        assert_eq!(rate().get(), 200_000_000);
    }
}
