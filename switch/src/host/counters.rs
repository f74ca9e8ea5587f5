//! Counters of an end point itself. Its queue pairs, its notification point, its pauses and its port have their own.

use crate::frames::envelope::Refused;

/// Counters of an end point beside its queue pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Packets given to queue pairs.
    pub delivered: u64,
    /// Frames that are no valid transport packet, by [`Refused`].
    pub refused: [u64; Refused::ALL.len()],
    /// Packets that came without their payload, by the DSCP of trimmed ones.
    pub trimmed: u64,
    /// Packets for another address.
    pub not_for_us: u64,
    /// PFC and PAUSE frames obeyed.
    pub pauses: u64,
    /// MAC control frames that are no flow control.
    pub bad_mac_control: u64,
    /// Requests for our addresses that were answered.
    pub neighbour_answers: u64,
    /// CNPs sent.
    pub cnps_sent: u64,
    /// Packets that could not be built: their path or their memory no longer exists.
    pub unbuildable: u64,
}
