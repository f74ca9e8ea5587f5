//! Kinds of ports: what the notation, packet memory and the opening of a port must know of each, in one list.
//!
//! A kind is a file with its [`Kind`], and its line in the list below. Not in a [`Kind`]: how frames move, which is its
//! [`Port`](super::Port).

use wireyard_pipeline::packet::PacketMemory;

use super::open::Opened;
use super::{PortError, PortSpec};

/// A kind of port, as it says of itself.
pub(crate) struct Kind {
    /// Its name before the colon.
    pub(crate) name: &'static str,
    pub(crate) medium: Medium,
    /// Number of its queues where the specification has none.
    pub(crate) queues: QueueCount,
    /// Options that other kinds do not have, of `queue`, `queues`, `ring`, `mtu`.
    pub(crate) options: &'static [&'static str],
    /// Opens it with so many queues.
    pub(crate) open: fn(&PortSpec, &PacketMemory, u32) -> Result<Opened, PortError>,
}

/// Where the frames of a port go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Out of an interface, as its kernel would send them.
    Interface,
    /// To the kernel, which receives them from an interface of the port's own.
    OwnInterface,
    /// Into a file, and from one.
    Files,
}

/// How many queues a port has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueCount {
    One,
    /// Those of its interface.
    OfInterface,
    /// As many as workers need.
    Any,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $module:ident,)*) => {
        /// How a port reaches its medium.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PortKind {
            /// A bare interface name: the fastest kind that works.
            Auto,
            $($(#[$doc])* $kind,)*
        }

        impl PortKind {
            /// All that have a name in the notation.
            pub(crate) const NAMED: &[PortKind] = &[$(PortKind::$kind,)*];

            /// `None` for a bare name.
            pub(crate) const fn kind(self) -> Option<&'static Kind> {
                match self {
                    PortKind::Auto => None,
                    $(PortKind::$kind => Some(&super::$module::KIND),)*
                }
            }
        }
    };
}

kinds! {
    /// AF_XDP.
    Xdp: xdp,
    /// AF_PACKET.
    Raw: raw,
    /// pnet's data link channel.
    Pnet: pnet,
    /// A TAP device.
    Tap: tap,
    /// Capture files.
    Pcap: capture,
}

impl PortKind {
    /// Options of a bare name: those that one of the kinds it may become has, and the others ignore.
    const OF_ANY: &[&str] = &["queues", "ring"];

    /// Its name before the colon.
    pub const fn name(self) -> &'static str {
        match self.kind() {
            Some(kind) => kind.name,
            None => "auto",
        }
    }

    /// True if a port of this kind may have an option that not all kinds have.
    pub(crate) fn takes(self, option: &str) -> bool {
        self.kind().map_or(PortKind::OF_ANY, |kind| kind.options).contains(&option)
    }

    /// True if several workers can serve a port of this kind.
    pub fn takes_queues(self) -> bool {
        self.takes("queues")
    }

    /// True if its frames are in files, and it needs no interface.
    pub(crate) fn is_file(self) -> bool {
        self.medium() == Medium::Files
    }

    pub(crate) fn medium(self) -> Medium {
        self.kind().map_or(Medium::Interface, |kind| kind.medium)
    }
}

/// The kinds that have an option, as `xdp:, raw: and tap:`.
pub(crate) fn kinds_with(option: &str) -> String {
    let names = PortKind::NAMED.iter().filter(|kind| kind.takes(option));
    let names: Vec<String> = names.map(|kind| format!("{}:", kind.name())).collect();
    match names.as_slice() {
        [first @ .., second, last] => {
            let mut all = first.to_vec();
            all.push(format!("{second} and {last}"));
            all.join(", ")
        }
        names => names.concat(),
    }
}
