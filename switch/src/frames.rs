//! Frames that this device itself sends and receives: flow control, CNPs, transport, neighbours.
//!
//! The only builder of the device's own frames. Every offset comes from the YAML header libraries through [`layout`],
//! resolved once; per packet there are shifts and masks. The meaning of a frame is not here: the traffic manager
//! decides about flow control, `roce` about CNPs and transport.
//!
//! * [`flow_control`]: PFC and PAUSE.
//! * [`envelope`]: the headers in front of a BTH in every encapsulation, lengths, checksum, ICRC and VCRC.
//! * [`transport`]: RoCE and InfiniBand packets to and from the transport's values.
//! * [`cnp`]: congestion notification packets.
//! * [`neighbour`]: ARP and neighbour discovery.
//! * `words`: big-endian words, and the offset behind VLAN tags, for code that parses frames of others.

pub mod cnp;
mod crc;
pub mod envelope;
mod extension;
pub mod flow_control;
pub mod layout;
pub mod neighbour;
pub mod transport;
pub(crate) mod words;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use layout::{LayoutError, Layouts};

/// The MAC control multicast address (IEEE 802.3 annex 31B.1): never forwarded by a bridge.
const MAC_CONTROL_ADDRESS: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
/// EtherType of MAC control (IEEE 802.3 clause 31.4.1.3).
const MAC_CONTROL_TYPE: [u8; 2] = [0x88, 0x08];

/// A MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl From<Mac> for u64 {
    fn from(mac: Mac) -> u64 {
        let [a, b, c, d, e, f] = mac.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

impl From<u64> for Mac {
    /// The low 48 bits.
    fn from(value: u64) -> Mac {
        let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
        Mac([a, b, c, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Text that is not a MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no MAC address: 02:00:00:00:00:01")]
pub struct NoMac(pub String);

impl FromStr for Mac {
    type Err = NoMac;

    /// Six octets in hexadecimal, separated by colons.
    fn from_str(text: &str) -> Result<Mac, NoMac> {
        let hex = |octet: &&str| octet.bytes().all(|byte| byte.is_ascii_hexdigit());
        let octets = text.split(':').map(|octet| match octet.len() {
            1..=2 => Some(octet).filter(hex).and_then(|o| u8::from_str_radix(o, 16).ok()),
            _ => None,
        });
        let octets: Option<Vec<u8>> = octets.collect();
        let mac = octets.and_then(|octets| octets.try_into().ok()).map(Mac);
        mac.ok_or_else(|| NoMac(text.to_owned()))
    }
}

/// Builders and parsers of all frames of the device's own.
#[derive(Debug)]
pub struct Frames {
    /// PFC and PAUSE.
    pub flow_control: flow_control::FlowControlFrames,
    /// RoCE and InfiniBand packets.
    pub transport: transport::TransportFrames,
    /// ARP and neighbour discovery.
    pub neighbour: neighbour::NeighbourFrames,
}

impl Frames {
    /// Resolves the layouts of the embedded libraries.
    ///
    /// # Errors
    /// An error in the libraries, which a tested build does not have.
    pub fn new() -> Result<Frames, LayoutError> {
        let layouts = Layouts::new()?;
        Ok(Frames {
            flow_control: flow_control::FlowControlFrames::new(&layouts)?,
            transport: transport::TransportFrames::new(&layouts)?,
            neighbour: neighbour::NeighbourFrames::new(&layouts)?,
        })
    }

    /// Like [`Frames::new`], once for the whole process: the libraries are embedded and do not change.
    ///
    /// # Errors
    /// As [`Frames::new`].
    pub fn shared() -> Result<Arc<Frames>, LayoutError> {
        static SHARED: OnceLock<Result<Arc<Frames>, LayoutError>> = OnceLock::new();
        SHARED.get_or_init(|| Frames::new().map(Arc::new)).clone()
    }
}

/// True for any frame with the EtherType of MAC control, regardless of its address.
pub fn has_mac_control_type(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&MAC_CONTROL_TYPE)
}

/// True for a MAC control frame (PAUSE, PFC), which is not forwarded.
pub fn is_mac_control(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&MAC_CONTROL_TYPE) && frame.get(..6) == Some(&MAC_CONTROL_ADDRESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_control_is_address_and_type() {
        let mut frame = [0u8; 60];
        frame[..6].copy_from_slice(&MAC_CONTROL_ADDRESS);
        frame[12..14].copy_from_slice(&MAC_CONTROL_TYPE);
        assert!(is_mac_control(&frame));
        frame[13] = 0;
        assert!(!is_mac_control(&frame));
        assert!(!is_mac_control(&[1, 2, 3]));
    }

    #[test]
    fn a_mac_is_48_bits() {
        let mac = Mac([2, 0, 0, 0xab, 0, 1]);
        assert_eq!((u64::from(mac), Mac::from(u64::from(mac))), (0x0200_00ab_0001, mac));
        assert_eq!(mac.to_string(), "02:00:00:ab:00:01");
        assert_eq!("02:00:00:ab:00:1".parse(), Ok(mac));
        for wrong in
            ["", "02:00:00:ab:00", "02:00:00:ab:00:01:02", "02:00:00:ab:00:+1", "0g:0:0:0:0:0"]
        {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
    }
}
