//! Link types of capture files: the number in a file, and the link that a port has for it.

use crate::pcap::{LINK_ERF, LINK_ETHERNET, LINK_INFINIBAND, link_type_name};
use crate::ports::LinkType;

/// The private link type used for Omni-Path in capture files, for which there is no registered number: LINKTYPE_USER0.
pub const LINK_OPA: u16 = 147;

/// Why a link type of a capture cannot be used by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoLink {
    /// A private number, whose meaning the user must give.
    #[error("link type {0} is private: the file does not state what it is")]
    Private(u16),
    /// An unsupported link type.
    #[error(
        "link type {number}, {name}, is not supported: known are Ethernet (1), InfiniBand (247) and ERF (197)"
    )]
    Unknown {
        /// Its number.
        number: u16,
        /// Its name, where it is registered.
        name: &'static str,
    },
    /// The file and the user give different link types.
    #[error("the file says {known} (link type {number}), the port says link={given}")]
    Another {
        /// Its number.
        number: u16,
        /// Its meaning.
        known: LinkType,
        /// The link type that the user gave.
        given: LinkType,
    },
}

/// The link type of a link-type number; an unsupported one is refused by name. `given` is the user's `link=`.
///
/// # Errors
/// See [`NoLink`].
pub fn link_of(number: u16, given: Option<LinkType>) -> Result<LinkType, NoLink> {
    let known = match number {
        LINK_ETHERNET => LinkType::Ethernet,
        LINK_INFINIBAND => LinkType::Infiniband,
        LINK_ERF => LinkType::Erf,
        // The user gives the meaning of a private number.
        147..=162 => match given {
            Some(link) => return Ok(link),
            None if number == LINK_OPA => LinkType::Opa,
            None => return Err(NoLink::Private(number)),
        },
        _ => {
            let name = link_type_name(number).unwrap_or("no registered name");
            return Err(NoLink::Unknown { number, name });
        }
    };
    match given {
        Some(given) if given != known => Err(NoLink::Another { number, known, given }),
        _ => Ok(known),
    }
}

/// The link-type number with which a link is written.
pub fn number_of(link: LinkType) -> u16 {
    match link {
        LinkType::Ethernet => LINK_ETHERNET,
        LinkType::Infiniband => LINK_INFINIBAND,
        LinkType::Erf => LINK_ERF,
        LinkType::Opa => LINK_OPA,
    }
}
