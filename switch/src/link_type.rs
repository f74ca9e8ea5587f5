//! Link types: the first header of a port's frames. Ports, captures, frames and programs refer to them.

use std::fmt;

use wireyard_pipeline::check::ExternRegistry;

/// The first header of a port's frames, which selects the parser's entry state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Ethernet from the destination address on, without the frame check sequence.
    Ethernet,
    /// InfiniBand from the local route header on.
    Infiniband,
    /// Omni-Path 16B packets.
    Opa,
    /// Endace ERF records, their header included; it has the type of the frame after it.
    Erf,
}

/// The names after `link.` in a program.
pub fn link_types() -> ExternRegistry {
    let mut registry = ExternRegistry::new();
    LinkType::ALL.iter().for_each(|link| registry.add_link_type(link.name(), link.code()));
    registry
}

impl LinkType {
    /// All of them, in the order of their names in port specifications.
    pub const ALL: [LinkType; 4] =
        [LinkType::Ethernet, LinkType::Infiniband, LinkType::Opa, LinkType::Erf];

    /// The value of `std.ingress_link` in programs.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            LinkType::Ethernet => 0,
            LinkType::Infiniband => 1,
            LinkType::Opa => 2,
            LinkType::Erf => 3,
        }
    }

    /// The name in programs (`std.ingress_link`) and port specifications.
    pub const fn name(self) -> &'static str {
        match self {
            LinkType::Ethernet => "ethernet",
            LinkType::Infiniband => "infiniband",
            LinkType::Opa => "opa",
            LinkType::Erf => "erf",
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
