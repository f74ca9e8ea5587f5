//! Intrinsic metadata: the inputs of a program from the device, and its outputs to the device.
//!
//! PSA splits this into several structs; here it is one list with, for each field, which control may
//! read and write it. The layout in memory is [`crate::exec::Intrinsic`].

/// The parts of a program that may read or write a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The parser.
    pub parser: bool,
    /// Ingress.
    pub ingress: bool,
    /// Egress and the deparser.
    pub egress: bool,
}

const ALL: Access = Access { parser: true, ingress: true, egress: true };
const INGRESS: Access = Access { parser: false, ingress: true, egress: false };
const CONTROLS: Access = Access { parser: false, ingress: true, egress: true };
const EGRESS: Access = Access { parser: false, ingress: false, egress: true };
const NOWHERE: Access = Access { parser: false, ingress: false, egress: false };

/// Defines [`StdField`] with name, width, readers and writers in one table.
macro_rules! std_fields {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $bits:literal, read $read:ident, write $write:ident;)*) => {
        /// An intrinsic metadata field.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum StdField {
            $($(#[$doc])* $variant,)*
        }

        impl StdField {
            /// Every field.
            pub const ALL: &'static [StdField] = &[$(StdField::$variant),*];

            /// Name after `std.`.
            pub fn name(self) -> &'static str {
                match self { $(StdField::$variant => $name,)* }
            }

            /// Width in bits.
            pub fn bits(self) -> u32 {
                match self { $(StdField::$variant => $bits,)* }
            }

            /// The parts that may read it.
            pub fn readers(self) -> Access {
                match self { $(StdField::$variant => $read,)* }
            }

            /// The parts that may write it.
            pub fn writers(self) -> Access {
                match self { $(StdField::$variant => $write,)* }
            }
        }
    };
}

std_fields! {
    /// The packet's ingress port.
    IngressPort = "ingress_port", 16, read ALL, write NOWHERE;
    /// Link type of that port; named by the device ([`crate::check::ExternRegistry::add_link_type`]).
    IngressLink = "ingress_link", 8, read ALL, write NOWHERE;
    /// How the packet came here: [`crate::exec::PacketPath`].
    PacketPath = "packet_path", 8, read ALL, write NOWHERE;
    /// Bytes of the packet at the start of this pass, without FCS.
    PacketLength = "packet_length", 32, read ALL, write NOWHERE;
    /// Nanoseconds since the start of the device when the packet was received.
    IngressNs = "ingress_ns", 64, read ALL, write NOWHERE;
    /// Nanoseconds since the start of the device now.
    NowNs = "now_ns", 64, read ALL, write NOWHERE;
    /// 0, or the parser error.
    ParserError = "parser_error", 8, read INGRESS, write NOWHERE;
    /// Bytes behind the headers up to the end of the body, as parsed.
    BodyLength = "body_length", 32, read CONTROLS, write NOWHERE;
    /// Bytes of the valid headers and the body if emitted now (without `after`).
    EmitLength = "emit_length", 32, read CONTROLS, write NOWHERE;
    /// Nonzero when a checksum declared `verify: count` or `drop` was wrong: bit n for the n-th.
    ChecksumError = "checksum_error", 32, read INGRESS, write NOWHERE;
    /// The same for CRCs.
    CrcError = "crc_error", 32, read INGRESS, write NOWHERE;
    /// The egress port; if neither it nor a multicast group is ever written, the packet is dropped (`no_decision`).
    EgressPort = "egress_port", 16, read CONTROLS, write INGRESS;
    /// Nonzero: a copy to every member of the group instead of `egress_port`.
    MulticastGroup = "multicast_group", 16, read INGRESS, write INGRESS;
    /// Internal class, 0 to 7: the egress queue. A program's assignment takes precedence over the maps.
    TrafficClass = "traffic_class", 3, read CONTROLS, write INGRESS;
    /// Ingress accounting unit of the shared buffer, 0 to 7.
    PriorityGroup = "priority_group", 3, read INGRESS, write INGRESS;
    /// 1: the packet may be marked instead of dropped.
    Ect = "ect", 1, read CONTROLS, write INGRESS;
    /// 0 green, 1 yellow, 2 red.
    Color = "color", 2, read CONTROLS, write INGRESS;
    /// The packet leaves the buffer at this time or later (0: at once), in `ingress_ns` time.
    NotBeforeNs = "not_before_ns", 64, read INGRESS, write INGRESS;
    /// Nonzero: hold the packet until this many later packets of its egress queue have passed.
    HoldPackets = "hold_packets", 16, read INGRESS, write INGRESS;
    /// Longest hold in nanoseconds.
    HoldTimeoutNs = "hold_timeout_ns", 64, read INGRESS, write INGRESS;
    /// Number of this copy of a multicast or mirrored packet.
    Instance = "instance", 16, read EGRESS, write NOWHERE;
    /// 1: the traffic manager decided that this packet carries a congestion mark.
    CongestionMark = "congestion_mark", 1, read EGRESS, write NOWHERE;
    /// 1: the traffic manager cut the payload, because the packet's queue had no room for all of it (`discard: trim`).
    Trimmed = "trimmed", 1, read EGRESS, write NOWHERE;
    /// When the packet entered its queue.
    EnqueueNs = "enqueue_ns", 64, read EGRESS, write NOWHERE;
    /// When it left its queue.
    DequeueNs = "dequeue_ns", 64, read EGRESS, write NOWHERE;
    /// Bytes in its queue when it entered.
    EnqueueDepthBytes = "enqueue_depth_bytes", 32, read EGRESS, write NOWHERE;
    /// Bytes in its queue when it left.
    DequeueDepthBytes = "dequeue_depth_bytes", 32, read EGRESS, write NOWHERE;
    /// Packets in its queue when it entered.
    EnqueueDepthPackets = "enqueue_depth_packets", 16, read EGRESS, write NOWHERE;
    /// Packets in its queue when it left.
    DequeueDepthPackets = "dequeue_depth_packets", 16, read EGRESS, write NOWHERE;
}

impl StdField {
    /// The field with this name.
    pub fn by_name(name: &str) -> Option<StdField> {
        StdField::ALL.iter().copied().find(|field| field.name() == name)
    }
}
