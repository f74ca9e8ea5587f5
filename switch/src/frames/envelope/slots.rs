//! The fields of each header, by name, as positions in a frame.

/// Defines a struct of slots with the names of a header's fields.
macro_rules! slots {
    ($($(#[$doc:meta])* $name:ident { $($field:ident),* $(; $($wide:ident),*)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(in crate::frames) struct $name {
            $(pub(in crate::frames) $field: $crate::frames::layout::Slot,)*
            $($(pub(in crate::frames) $wide: $crate::frames::layout::Wide,)*)?
        }

        impl $name {
            /// The positions of this header's fields in a frame.
            pub(in crate::frames) fn new(stack: &$crate::frames::layout::Stack<'_>, header: &str) -> Result<$name, $crate::frames::layout::LayoutError> {
                Ok($name {
                    $($field: stack.slot(&format!("{header}.{}", stringify!($field)))?,)*
                    $($($wide: stack.wide(&format!("{header}.{}", stringify!($wide)))?,)*)?
                })
            }
        }
    )*};
}

pub(in crate::frames) use slots;

slots! {
    /// Ethernet II.
    EthernetSlots { dst, src, ether_type }
    /// 802.1Q.
    TagSlots { pcp, vid, ether_type }
    /// IPv4 without options.
    Ipv4Slots { version, ihl, dscp, ecn, total_len, flags, frag_offset, ttl, protocol, checksum, src, dst }
    /// IPv6.
    Ipv6Slots { version, dscp, ecn, flow_label, payload_len, next_header, hop_limit; src, dst }
    /// UDP.
    UdpSlots { src_port, dst_port, len }
    /// Local route header.
    LrhSlots { vl, lver, sl, lnh, dlid, pktlen, slid }
    /// Global route header.
    GrhSlots { ipver, tclass, flowlabel, paylen, nexthdr, hoplmt; sgid, dgid }
    /// Base transport header.
    BthSlots { opcode, solicited, migreq, padcount, version, pkey, fecn, becn, dqpn, ackreq, psn }
}
