//! What one received packet can become: a bound on its passes through ingress and on the packets made of it.
//!
//! A program can copy copies again: an egress clone whose copy is cloned, a multicast group whose members recirculate.
//! Each descriptor therefore carries its share of a budget of [`COPIES_MAX`] packets per received packet, all
//! descendants together. Where a packet becomes `n` packets, each of them has an `n`-th of the share, so no counter is
//! shared and a packet may wait in any queue of any worker. Shares are powers of two: [`Descriptor::bounds`] holds how
//! often the budget was halved, in its upper five bits, and the passes so far in its lower three.
//!
//! This is no rate limit: the number of received packets is not bounded here. [`Copies::are_enough`] keeps a poll
//! short, so that the loop around it can check signals and time.

use wireyard_pipeline::exec::Descriptor;

use crate::replicate::{COPIES_MAX, Member, MirrorCopy};

/// Most passes of one packet through ingress: resubmissions and recirculations together.
pub const PASSES_MAX: u8 = 8;
const HALVINGS_MAX: u8 = COPIES_MAX.ilog2() as u8;
const PASS_BITS: u8 = 3;
const _: () = assert!(PASSES_MAX == 1 << PASS_BITS && HALVINGS_MAX < 1 << (8 - PASS_BITS));

/// Bursts of one poll for packets that go through ingress again; the rest waits for the next poll.
pub(super) const BURSTS_AGAIN: usize = 16;
/// If more packets than this wait for another pass, or a poll made more copies than this, it receives no more.
const BUSY_ABOVE: usize = 1024;
const COPIES_ABOVE: usize = 16_384;

/// The bounds after one more pass; `None` above [`PASSES_MAX`] passes.
#[inline]
fn next_pass(bounds: u8) -> Option<u8> {
    let last = PASSES_MAX - 1;
    (bounds & last != last).then(|| bounds + 1)
}

/// The bounds of each of the `packets` packets that a packet becomes; `None` if its share does not suffice.
#[inline]
fn share(bounds: u8, packets: usize) -> Option<u8> {
    let halvings = packets.max(1).next_power_of_two().trailing_zeros();
    let halvings = u32::from(bounds >> PASS_BITS) + halvings;
    let passes = bounds & (PASSES_MAX - 1);
    (halvings <= HALVINGS_MAX.into()).then_some((halvings as u8) << PASS_BITS | passes)
}

/// Counts a pass of a packet; false above [`PASSES_MAX`] passes.
pub(super) fn begin_pass(packet: &mut Descriptor) -> bool {
    let next = next_pass(packet.bounds);
    packet.bounds = next.unwrap_or(packet.bounds);
    next.is_some()
}

/// Copies that a device makes: a list of members, and the number made.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// The copies of one packet.
    pub(super) members: Vec<Member>,
    /// The copies of one packet to mirror sessions; `None` for a session that does not exist.
    pub(super) mirrors: Vec<Option<MirrorCopy>>,
    /// Copies made in this poll.
    pub(super) made: usize,
}

impl Copies {
    /// Divides the budget of a packet among `packets` packets, including itself; false where it does not suffice.
    pub(super) fn share(&mut self, packet: &mut Descriptor, packets: usize) -> bool {
        let shared = share(packet.bounds, packets);
        packet.bounds = shared.unwrap_or(packet.bounds);
        self.made += packets - 1;
        shared.is_some()
    }

    /// True if this poll must stop receiving and generating: too many copies were made, or `again`, the number of
    /// packets that wait for another pass, is too high.
    #[inline]
    pub(super) fn are_enough(&self, again: usize) -> bool {
        again > BUSY_ABOVE || self.made > COPIES_ABOVE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_so_many_passes_and_keeps_its_share() {
        let mut bounds = share(0, 2).unwrap();
        for _ in 1..PASSES_MAX {
            bounds = next_pass(bounds).unwrap();
        }
        assert_eq!(next_pass(bounds), None);
        assert_eq!(bounds >> PASS_BITS, 1);
    }

    #[test]
    fn descendants_together_are_at_most_the_budget() {
        fn most(bounds: u8, of: usize) -> u64 {
            share(bounds, of).map_or(1, |bounds| of as u64 * most(bounds, of))
        }
        for of in [2, 3, 4, 5, 7, 64, 100, 4096] {
            assert!((of as u64..=COPIES_MAX.into()).contains(&most(0, of)), "{of}");
        }
        assert_eq!(share(0, COPIES_MAX as usize + 1), None);
        assert_eq!(share(0, 1), Some(0));
    }
}
