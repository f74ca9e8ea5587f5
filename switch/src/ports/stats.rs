//! The counters of a port, and how structs of counters are declared.

/// A struct of counters; those in `besides` are not among the named ones.
macro_rules! counters {
    (
        $(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* $count:ident,)+ }
        $(besides { $($(#[$other_doc:meta])* $other:ident,)+ })?
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* pub $count: u64,)+
            $($($(#[$other_doc])* pub $other: u64,)+)?
        }

        impl $name {
            /// All counters that never decrease with their names, in a fixed order.
            pub fn named(&self) -> [(&'static str, u64); [$(stringify!($count)),+].len()] {
                [$((stringify!($count), self.$count)),+]
            }

            /// Adds the counts of another queue of the same link.
            pub fn add(&mut self, other: &$name) {
                $(self.$count += other.$count;)+
                $($(self.$other += other.$other;)+)?
            }
        }
    };
}
pub(super) use counters;

counters! {
    /// The counts of a port. All start at 0 when the port is opened.
    ///
    /// `rx_frames` counts the frames handed to the caller. Frames that never reached the caller are counted separately.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
    pub struct PortStats {
        /// Frames handed to the caller.
        rx_frames,
        /// Bytes of them.
        rx_bytes,
        /// Frames that the kernel dropped before the port could read them (its queue was full).
        rx_kernel_drops,
        /// Frames longer than a chunk of packet memory: dropped.
        rx_too_long,
        /// Frames of several segments, which the sender left to its network card to cut (GSO), and which could not be cut
        /// here: dropped.
        rx_gso,
        /// Frames of several segments that were cut here; the segments are counted in `rx_frames`.
        rx_segmented,
        /// Frames that could not be read for another reason: dropped.
        rx_errors,
        /// Frames that arrived while the port was shut down: dropped.
        rx_down,
        /// Times that receiving stopped for lack of a free chunk; this alone loses no frame.
        rx_no_memory,
        /// Frames whose checksum the port finished.
        rx_checksums_finished,
        /// Frames handed to the medium.
        tx_frames,
        /// Bytes of them.
        tx_bytes,
        /// Times that the medium had no room; the frames stayed with the caller.
        tx_full,
        /// Frames given up because the link was down or the interface gone.
        tx_down,
        /// Frames given up because they exceed the interface's MTU.
        tx_too_long,
        /// Frames given up for another reason.
        tx_errors,
    }
}

impl PortStats {
    /// Frames that this port gave up after it had taken them from its caller.
    pub fn tx_dropped(&self) -> u64 {
        self.tx_down + self.tx_too_long + self.tx_errors
    }
}
