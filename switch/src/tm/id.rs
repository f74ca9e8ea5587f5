//! Identifiers inside the traffic manager: ports, pools, colours, drop reasons.

/// Queues of a port, priority groups of a port, and PFC priorities: always eight (802.1Q).
pub const CLASSES: usize = 8;

/// The queue number under which a port's own MAC control frames depart: before all others, never
/// paused, never charged to the shared buffer.
pub const CONTROL_QUEUE: u8 = 8;

/// A port of this traffic manager: a dense index given by [`super::Tm::add_port`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u16);

impl PortId {
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A buffer pool: its position in [`super::Config::pools`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u8);

/// Drop precedence of a packet (RFC 2697 and 2698 colours).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Color {
    /// Conforming.
    #[default]
    Green,
    /// Exceeding.
    Yellow,
    /// Violating.
    Red,
}

impl Color {
    /// From the lowest two bits: 0 is green, 1 yellow, others red.
    #[inline]
    pub const fn of_bits(bits: u8) -> Color {
        match bits & 3 {
            0 => Color::Green,
            1 => Color::Yellow,
            _ => Color::Red,
        }
    }
}

/// Defines an enumeration of reasons: each line is a reason and its name in counters, traces and reports, in the order
/// of counters.
macro_rules! reasons {
    ($(#[$meta:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$doc])* $variant,)*
        }

        impl $type {
            /// Every reason, in counter order.
            pub const ALL: [$type; [$($type::$variant),*].len()] = [$($type::$variant),*];

            /// The name used in counters, traces and reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)*
                }
            }
        }
    };
}
pub(crate) use reasons;

reasons! {
    /// Why the traffic manager did not deliver a packet. The set is closed: every reason has a name and a counter.
    DropReason {
        /// The ingress priority group is at its threshold and has no headroom (a lossy class).
        IngressThreshold = "ingress_threshold",
        /// A lossless priority group has used up its headroom: the peer did not stop in time.
        HeadroomExhausted = "headroom_exhausted",
        /// The ingress or egress pool itself is full.
        PoolExhausted = "pool_exhausted",
        /// The egress queue is at its threshold (tail drop).
        QueueThreshold = "queue_threshold",
        /// Dropped by WRED: above the minimum threshold and not ECN-capable.
        Wred = "wred",
        /// The PFC watchdog discards this queue while its storm lasts.
        WatchdogStorm = "watchdog_storm",
        /// The egress port is administratively removed or its link is down.
        PortDown = "port_down",
        /// No port, queue or priority group of that number exists.
        NoSuchQueue = "no_such_queue",
        /// All packet slots of the traffic manager are in use.
        NoSlot = "no_slot",
        /// The bounded store of delayed and held packets is full.
        HoldFull = "hold_full",
        /// The limit of MAC control frames that wait for this port is reached.
        ControlBacklog = "control_backlog",
        /// Egress processing dropped the packet after dequeue; the program's reason is counted by core.
        EgressProcessing = "egress_processing",
        /// The packet was trimmed, and the queue for trimmed packets had no room for it either.
        TrimRefused = "trim_refused",
    }
}

/// A number of packets and of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Frame bytes as given on enqueue.
    pub bytes: u64,
}

impl std::ops::AddAssign for Count {
    #[inline]
    fn add_assign(&mut self, other: Count) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

impl Count {
    #[inline]
    pub(crate) fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}
