//! Packets in flight: what a compiled program and the device that runs it exchange.
//!
//! A packet in flight is a [`Descriptor`] of 64 bytes plus its bytes in packet memory. For the
//! length of one pass an [`Intrinsic`] stands beside it, with what the device gives the program and
//! what the program decided. Nothing else crosses the queue between ingress and egress: egress
//! finds its headers again from the validity mask, because ingress leaves the packet laid out in
//! deparser order.
//!
//! Both structures are `repr(C)`: generated code reads and writes them at fixed offsets. Fields that a pass sets to a
//! default are adjacent, so that a few wide stores do it. A program is run by [`crate::engine`].
//!
//! # What an engine does to them
//! At the start of ingress it sets every field that the program decides to its default; the device sets the inputs and
//! need not clear the rest. When the verdict is [`Verdict::Forward`], [`Verdict::Punt`] or [`Verdict::Resubmit`],
//! `buf`, `len` and `data_off` are the packet as the pass leaves it; after a drop they are the packet as received,
//! except after an egress that cloned, and where path-specialised code assigned fields before the drop: these are in it,
//! without the checksums that follow them. The device owns the buffer before and after the pass; an engine never frees it.
//!
//! **Clones.** An ingress pass that requested a clone leaves one more reference to the bytes as received in
//! [`Intrinsic::original`], which the device takes (or frees), once for all clones, also when the packet itself drops;
//! the descriptor of a clone is the packet's after [`Descriptor::forget_headers`], and has its metadata; egress parses
//! it, if the program has an egress. Egress clones are copies of the packet as the pass leaves it, with the metadata
//! that it leaves: the device shares `buf`.

use crate::ids::ReasonId;
use crate::packet::Buf;

/// Most packets of a burst.
pub const BURST_MAX: usize = 64;
/// `egress_port` when nothing was decided.
pub const NO_PORT: u16 = u16::MAX;
/// Most clones that a packet may request in one pass; more are counted and not made.
pub const CLONES_MAX: usize = 4;

/// A packet in flight: all that travels with its bytes.
#[repr(C, align(64))]
#[derive(Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Chunk of packet memory; `None` (0) once the packet has been passed on.
    pub buf: Option<Buf>,
    /// Bytes of the packet.
    pub len: u32,
    /// Offset of the first byte in the chunk.
    pub data_off: u16,
    /// Bytes of headers in front of the body; set by ingress.
    pub body_off: u16,
    /// Bytes of the body; trailers and slack follow it; set by ingress.
    pub body_len: u32,
    /// Validity of header instances, bit by [`crate::ids::InstanceId`]; set by ingress.
    pub valid: u64,
    /// When the packet was received, nanoseconds.
    pub ingress_ns: u64,
    /// The packet's ingress port.
    pub ingress_port: u16,
    /// Number of the copy of a multicast or mirrored packet.
    pub instance: u16,
    /// Generation of the program that did ingress and must do egress.
    pub generation: u16,
    /// For a capture record that was cut, the device's code for the number of missing bytes; otherwise 0.
    pub cut: u16,
    /// Port the packet leaves by; [`NO_PORT`] before it is decided.
    pub egress_port: u16,
    /// Internal class, 0 to 7.
    pub traffic_class: u8,
    /// Ingress accounting unit, 0 to 7; after the queue also [`TRIMMED`].
    pub priority_group: u8,
    /// [`flags`].
    pub flags: u8,
    /// [`PacketPath`].
    pub path: u8,
    /// For the device: the packet's remaining passes and copies, against endless ones.
    pub bounds: u8,
    /// Link type of the ingress port.
    pub ingress_link: u8,
    /// Metadata fields declared `carried`: from ingress for egress, and from one pass for the next. Of a program with
    /// more of them these are the first 15 bytes, and the last one is 1 when the rest is at the start of the chunk.
    pub carried: [u8; 16],
}

const _: () = assert!(size_of::<Descriptor>() == 64);

/// Bit of [`Descriptor::priority_group`]: the traffic manager cut the packet's payload. The group has three bits, which
/// are not read in egress, so that the descriptor stays one cache line and a packet that is not cut costs nothing.
pub const TRIMMED: u8 = 1 << 7;

/// Bits of [`Descriptor::flags`].
pub mod flags {
    /// The packet may be marked.
    pub const ECT: u8 = 1;
    /// Two bits of colour: 0 green, 1 yellow, 2 red.
    pub const COLOR_SHIFT: u8 = 1;
    /// The traffic class was assigned by the program.
    pub const CLASS_ASSIGNED: u8 = 1 << 3;
    /// The priority group was assigned by the program.
    pub const GROUP_ASSIGNED: u8 = 1 << 4;
    /// Recirculate after egress.
    pub const RECIRCULATE: u8 = 1 << 5;
    /// Egress wrote a congestion mark, or would have: the device keeps whether the packet had one to write.
    pub const MARKED: u8 = 1 << 6;
}

/// How a packet reached the start of a pass (PSA packet paths).
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketPath {
    /// From a port (PSA NFP), or to a port (PSA NU).
    #[default]
    Normal = 0,
    /// From the CPU port (PSA NFCPU).
    FromCpu = 1,
    /// Resubmitted by ingress (PSA RESUB).
    Resubmit = 2,
    /// Recirculated by egress (PSA RECIRC).
    Recirculate = 3,
    /// A copy of a multicast group (PSA NM).
    Multicast = 4,
    /// A mirror copy made by ingress (PSA CI2E).
    CloneIngress = 5,
    /// A mirror copy made by egress (PSA CE2E).
    CloneEgress = 6,
    /// Created by the device itself: generator, timer.
    Generated = 7,
}

impl PacketPath {
    /// Every path with its name.
    pub const ALL: [(&'static str, PacketPath); 8] = [
        ("normal", PacketPath::Normal),
        ("from_cpu", PacketPath::FromCpu),
        ("resubmit", PacketPath::Resubmit),
        ("recirculate", PacketPath::Recirculate),
        ("multicast", PacketPath::Multicast),
        ("clone_ingress", PacketPath::CloneIngress),
        ("clone_egress", PacketPath::CloneEgress),
        ("generated", PacketPath::Generated),
    ];
}

/// The verdicts: each with its name in a trace, and what it means for the packet.
macro_rules! verdicts {
    ($($(#[$meaning:meta])* $verdict:ident = $number:literal, $name:literal;)*) => {
        /// The decision about a packet at the end of a pass.
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Verdict {
            $($(#[$meaning])* $verdict = $number,)*
        }

        impl Verdict {
            /// Its name in a trace.
            pub fn name(self) -> &'static str {
                match self {
                    $(Verdict::$verdict => $name,)*
                }
            }

            /// The verdict that a pass wrote; an impossible value reads as a drop.
            #[inline]
            fn of(value: u8) -> Verdict {
                match value {
                    $($number => Verdict::$verdict,)*
                    _ => Verdict::Drop,
                }
            }
        }
    };
}

verdicts! {
    /// On to `egress_port` or `multicast_group`; from egress: out.
    #[default]
    Forward = 0, "forward";
    /// Dropped, for [`Intrinsic::reason`].
    Drop = 1, "drop";
    /// To the CPU port, for [`Intrinsic::reason`].
    Punt = 2, "punt";
    /// Ingress again with the packet as it is now.
    Resubmit = 3, "resubmit";
}

/// Intrinsic metadata for one pass: inputs by the device, decisions by the program.
///
/// All requests of a pass to the device beyond one immediate copy to the egress port are one word: the eight bytes from
/// `multicast_group` to `delayed` ([`Intrinsic::deferred`]). Both engines write its fields, [`Decision::of`] reads
/// them.
#[repr(C)]
#[derive(Debug, PartialEq, Eq)]
pub struct Intrinsic {
    /// Now, nanoseconds.
    pub now_ns: u64,
    /// In: when the packet entered its queue. Egress only.
    pub enqueue_ns: u64,
    /// In: when it left its queue. Egress only.
    pub dequeue_ns: u64,
    /// Out: leave at this time or later; 0 is at once.
    pub not_before_ns: u64,
    /// Out: longest hold.
    pub hold_timeout_ns: u64,
    /// Out: bit n when the n-th checksum was wrong.
    pub checksum_error: u32,
    /// Out: bit n when the n-th CRC was wrong.
    pub crc_error: u32,
    /// Out: group, 0 is none. Ingress only.
    pub multicast_group: u16,
    /// Out: hold until this many later packets have passed.
    pub hold_packets: u16,
    /// Out: number of clones requested.
    pub clone_count: u8,
    /// Out: [`Verdict`].
    pub verdict: u8,
    /// Out: 1 when `not_before_ns` is not 0.
    pub delayed: u16,
    /// Out: why it drops or is punted ([`ReasonId`]).
    pub reason: u16,
    /// Out: the parser error.
    pub parser_error: u8,
    /// Out: 1 when egress was done right after ingress, by [`crate::engine::Engine::fused`].
    pub egress_done: u8,
    /// Out: DSCP for the device's maps; 0xff is none.
    pub dscp: u8,
    /// Out: PCP for the device's maps; 0xff is none.
    pub pcp: u8,
    /// 0: the defaults of these eight bytes are one store.
    pub reserved: u16,
    /// In: bytes in the queue at arrival. Egress only.
    pub enqueue_depth_bytes: u32,
    /// In: bytes in the queue at departure. Egress only.
    pub dequeue_depth_bytes: u32,
    /// In: packets in the queue at arrival. Egress only.
    pub enqueue_depth_packets: u16,
    /// In: packets in the queue at departure. Egress only.
    pub dequeue_depth_packets: u16,
    /// Out: the packet as received, when ingress requested a clone.
    pub original: Option<Buf>,
    /// Out: its length.
    pub original_len: u32,
    /// Out: its first byte in the chunk.
    pub original_off: u16,
    /// Out: mirror sessions of the requested clones.
    pub clones: [u16; CLONES_MAX],
    /// In: 1 when the traffic manager requests a congestion mark. Egress only.
    pub congestion_mark: u8,
}

impl Default for Intrinsic {
    fn default() -> Self {
        Intrinsic {
            now_ns: 0,
            enqueue_ns: 0,
            dequeue_ns: 0,
            not_before_ns: 0,
            hold_timeout_ns: 0,
            enqueue_depth_bytes: 0,
            dequeue_depth_bytes: 0,
            enqueue_depth_packets: 0,
            dequeue_depth_packets: 0,
            checksum_error: 0,
            crc_error: 0,
            multicast_group: 0,
            hold_packets: 0,
            clone_count: 0,
            verdict: Verdict::Forward as u8,
            delayed: 0,
            reason: 0,
            parser_error: 0,
            egress_done: 0,
            reserved: 0,
            original: None,
            original_len: 0,
            original_off: 0,
            clones: [0; CLONES_MAX],
            congestion_mark: 0,
            dscp: 0xff,
            pcp: 0xff,
        }
    }
}

impl Default for Descriptor {
    /// No packet.
    fn default() -> Descriptor {
        Descriptor {
            buf: None,
            len: 0,
            data_off: 0,
            body_off: 0,
            body_len: 0,
            valid: 0,
            ingress_ns: 0,
            ingress_port: 0,
            egress_port: NO_PORT,
            instance: 0,
            generation: 0,
            traffic_class: 0,
            priority_group: 0,
            flags: 0,
            path: PacketPath::Normal as u8,
            bounds: 0,
            ingress_link: 0,
            cut: 0,
            carried: [0; 16],
        }
    }
}

impl Descriptor {
    /// A packet just received on a port: `len` bytes at `data_off` of the chunk.
    pub fn received(buf: Buf, data_off: u16, len: u32, port: u16, now_ns: u64) -> Descriptor {
        Descriptor {
            buf: Some(buf),
            len,
            data_off,
            ingress_ns: now_ns,
            ingress_port: port,
            ..Descriptor::default()
        }
    }

    /// The same packet with other bytes or another reference to the same ones, for copies.
    pub fn with_buf(&self, buf: Buf) -> Descriptor {
        Descriptor { buf: Some(buf), ..*self }
    }

    /// Cuts the packet to `bytes`, at least its headers, and sets [`TRIMMED`] for egress. `trailers` are the instances
    /// behind the body, which become invalid.
    pub fn trim(&mut self, bytes: u32, trailers: u64) {
        self.len = self.len.min(bytes.max(self.body_off.into()));
        self.body_len = self.body_len.min(self.len - u32::from(self.body_off).min(self.len));
        self.valid &= !trailers;
        self.priority_group |= TRIMMED;
    }

    /// The traffic manager cut it.
    pub fn is_trimmed(&self) -> bool {
        self.priority_group & TRIMMED != 0
    }

    /// Makes it a packet without parsed headers: all of it is body. For packets that enter egress without the layout of
    /// ingress: clones of the packet as received.
    pub fn forget_headers(&mut self) {
        self.valid = 0;
        self.body_off = 0;
        self.body_len = self.len;
    }
}

impl Intrinsic {
    /// The verdict; an impossible value reads as a drop.
    #[inline]
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.verdict)
    }

    /// The reason of a drop or punt.
    pub fn reason(&self) -> ReasonId {
        ReasonId(self.reason.into())
    }

    /// What the pass leaves to the device; 0 for one immediate copy to the egress port.
    #[inline]
    pub fn deferred(&self) -> u64 {
        let [a, b] = self.multicast_group.to_ne_bytes();
        let [c, d] = self.hold_packets.to_ne_bytes();
        let [e, f] = self.delayed.to_ne_bytes();
        u64::from_ne_bytes([a, b, c, d, self.clone_count, self.verdict, e, f])
    }

    /// Sets the outputs of a pass without requests: one immediate copy.
    pub fn forward_plain(&mut self) {
        (self.multicast_group, self.hold_packets, self.delayed) = (0, 0, 0);
        (self.clone_count, self.verdict) = (0, Verdict::Forward as u8);
    }
}

// Generated code writes the word with one store and reads it with one load.
const _: () = {
    use std::mem::offset_of as at;
    let word = at!(Intrinsic, multicast_group);
    assert!(word.is_multiple_of(8));
    assert!(at!(Intrinsic, hold_packets) == word + 2);
    assert!(at!(Intrinsic, clone_count) == word + 4);
    assert!(at!(Intrinsic, verdict) == word + 5);
    assert!(at!(Intrinsic, delayed) == word + 6);
    assert!(Verdict::Forward as u8 == 0);
};

/// What the device does with a packet after a pass: the only interpretation of [`Intrinsic`]'s outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// One immediate copy to the egress port; no other request.
    Plain,
    /// One copy to the egress port, with clones or a delay.
    Unicast,
    /// A copy for each member of this group.
    Multicast(u16),
    /// No copy: what the verdict means, for this reason. It is not [`Verdict::Forward`].
    NotForwarded(Verdict, ReasonId),
}

impl Decision {
    /// The decision of a pass.
    #[inline]
    pub fn of(meta: &Intrinsic) -> Decision {
        if meta.deferred() == 0 {
            return Decision::Plain;
        }
        match (meta.verdict(), meta.multicast_group) {
            (Verdict::Forward, 0) => Decision::Unicast,
            (Verdict::Forward, group) => Decision::Multicast(group),
            (verdict, _) => Decision::NotForwarded(verdict, meta.reason()),
        }
    }

    /// Whether egress may follow ingress at once: [`Decision::Plain`], to a port that is open.
    #[inline]
    pub fn is_plain(packet: &Descriptor, meta: &Intrinsic, open: &OpenPorts) -> bool {
        Decision::of(meta) == Decision::Plain && open.has(packet.egress_port)
    }
}

/// Ports by which a packet leaves at once. There is a flag for every number, so that generated code needs no bounds
/// check.
#[derive(Clone)]
pub struct OpenPorts {
    flags: Box<[bool; PORT_NUMBERS]>,
}

/// Numbers that a port could have.
const PORT_NUMBERS: usize = 1 << 16;

impl Default for OpenPorts {
    /// None is open.
    fn default() -> OpenPorts {
        let flags = vec![false; PORT_NUMBERS].into_boxed_slice();
        OpenPorts { flags: flags.try_into().unwrap_or_else(|_| Box::new([false; PORT_NUMBERS])) }
    }
}

impl OpenPorts {
    /// Opens or closes a port.
    pub fn set(&mut self, port: u16, open: bool) {
        self.flags[usize::from(port)] = open && port != NO_PORT;
    }

    /// True for a port that is open.
    pub fn has(&self, port: u16) -> bool {
        self.flags[usize::from(port)]
    }

    /// The flags by number, for generated code.
    pub(crate) fn flags(&self) -> &[bool; PORT_NUMBERS] {
        &self.flags
    }
}

impl std::fmt::Debug for OpenPorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let open = (0..=u16::MAX).filter(|port| self.has(*port));
        f.debug_set().entries(open).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_packet_that_asks_for_nothing_is_plain() {
        let of = |set: fn(&mut Intrinsic)| {
            let mut meta = Intrinsic { reason: 5, ..Intrinsic::default() };
            set(&mut meta);
            Decision::of(&meta)
        };
        assert_eq!(of(|_| {}), Decision::Plain);
        assert_eq!(of(|meta| meta.delayed = 1), Decision::Unicast);
        assert_eq!(of(|meta| meta.hold_packets = 256), Decision::Unicast);
        assert_eq!(of(|meta| meta.clone_count = 1), Decision::Unicast);
        assert_eq!(of(|meta| meta.multicast_group = 256), Decision::Multicast(256));
        let ended = |verdict| Decision::NotForwarded(verdict, ReasonId(5));
        assert_eq!(of(|meta| meta.verdict = Verdict::Resubmit as u8), ended(Verdict::Resubmit));
        assert_eq!(of(|meta| meta.verdict = Verdict::Drop as u8), ended(Verdict::Drop));
        assert_eq!(of(|meta| meta.verdict = Verdict::Punt as u8), ended(Verdict::Punt));
        assert_eq!(of(|meta| meta.verdict = 77), ended(Verdict::Drop));
        assert_eq!(of(|meta| meta.forward_plain()), Decision::Plain);
    }
}
