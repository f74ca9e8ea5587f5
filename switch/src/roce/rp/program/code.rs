//! The code of a rate control: operations on the registers of one frame, which hold exact integers.

use crate::roce::telemetry::{HOPS_MAX, QUEUE_BYTES_MAX, SENT_BYTES_MODULUS, TIME_NS_MODULUS};

/// A register of a frame.
pub(super) type Reg = u16;

/// An operation; the first register is that of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Copy(Reg, Reg),
    Add(Reg, Reg, Reg),
    Sub(Reg, Reg, Reg),
    Mul(Reg, Reg, Reg),
    /// Rounds down; the divisor is above zero.
    Div(Reg, Reg, Reg),
    Shl(Reg, Reg, u8),
    /// Rounds down.
    Shr(Reg, Reg, u8),
    Root(Reg, Reg),
    Min(Reg, Reg, Reg),
    Max(Reg, Reg, Reg),
    Equal(Reg, Reg, Reg),
    Less(Reg, Reg, Reg),
    Not(Reg, Reg),
    And(Reg, Reg, Reg),
    Or(Reg, Reg, Reg),
    /// Condition, value if it is 1, value if it is 0.
    Select(Reg, Reg, Reg, Reg),
    /// Jumps there when the condition is 0.
    Unless(Reg, u32),
    Jump(u32),
    /// Starts a timer, nanoseconds from now.
    Arm(u8, Reg),
    Stop(u8),
    /// Starts a byte counter.
    Count(u8, Reg),
    StopCount(u8),
    End,
}

/// Built-in names of every rate control: their place, their range, whether they can be set and where they are defined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) low: i128,
    pub(super) high: i128,
    pub(super) place: Place,
}

/// The context in which a name is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Everywhere.
    Always,
    /// Everywhere, and it can be set.
    Set,
    /// Also where a default is computed.
    Fixed,
    /// With an acknowledgement.
    Ack,
    /// In handlers of losses.
    Loss,
    /// For each hop of its telemetry.
    Hop,
}

pub(super) const NOW: Reg = 0;
pub(super) const LINE: Reg = 1;
pub(super) const PACKET: Reg = 2;
pub(super) const ACKED: Reg = 3;
pub(super) const SENT: Reg = 4;
pub(super) const RATE: Reg = 5;
pub(super) const WINDOW: Reg = 6;
pub(super) const ACK_PACKETS: Reg = 7;
pub(super) const ACK_MARKED: Reg = 8;
pub(super) const ACK_RTT: Reg = 9;
pub(super) const ACK_HOPS: Reg = 10;
pub(super) const ACK_PATH: Reg = 11;
pub(super) const LOST_PACKETS: Reg = 12;
pub(super) const GAP: Reg = 13;
/// The values of the first hop of telemetry, in the order of [`HOP`]; those of the next hop follow.
pub(super) const FIRST_HOP: Reg = 14;

/// The highest rate.
pub(super) const RATE_MAX: i128 = 1 << 50;
/// A window without a bound, the initial one of every queue pair.
pub(super) const WINDOW_MAX: i128 = 1 << 48;

const fn known(name: &'static str, low: i128, high: i128, place: Place) -> Known {
    Known { name, low, high, place }
}

/// In the order of their registers.
pub(super) const KNOWN: &[Known] = &[
    known("std.now_ns", 0, 1 << 60, Place::Always),
    known("std.line_rate", 1, RATE_MAX, Place::Fixed),
    known("std.packet_bytes", 1, 1 << 14, Place::Fixed),
    known("std.acked", 0, 1 << 56, Place::Always),
    known("std.sent", 0, 1 << 56, Place::Always),
    known("std.rate", 1, RATE_MAX, Place::Set),
    known("std.window", 1, WINDOW_MAX, Place::Set),
    known("ack.packets", 1, 1 << 23, Place::Ack),
    known("ack.marked", 0, 1 << 23, Place::Ack),
    known("ack.rtt_ns", 0, 1 << 40, Place::Ack),
    known("ack.hops", 0, HOPS_MAX as i128, Place::Ack),
    known("ack.path", 0, 0xfff, Place::Ack),
    known("lost.packets", 1, 1 << 23, Place::Loss),
    known("std.gap_ns", 0, 1 << 40, Place::Set),
];

/// The values of each hop of telemetry.
pub(super) const HOP: &[Known] = &[
    known("hop.rate", 1, RATE_MAX, Place::Hop),
    known("hop.time_ns", 0, TIME_NS_MODULUS as i128 - 1, Place::Hop),
    known("hop.tx_bytes", 0, SENT_BYTES_MODULUS as i128 - 1, Place::Hop),
    known("hop.queue_bytes", 0, QUEUE_BYTES_MAX as i128, Place::Hop),
];
