//! The configuration of a host: names, addresses, classes, and the link that its packets are paced for.

use crate::frames::Mac;
use crate::frames::cnp::CnpConfig;
use crate::frames::envelope::Class;
use crate::ports::LinkType;
use crate::roce::np::NpConfig;
use crate::units::BitsPerSec;

/// Preamble, start delimiter and gap of Ethernet (12 + 8), and the FCS.
const ETHERNET_OVERHEAD_BYTES: u32 = 24;

/// Classes of what a host sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Requests and READ responses.
    pub data: Class,
    /// Acknowledgements.
    pub ack: Class,
    /// Data packets have room for path telemetry of switches, as in HPCC.
    pub telemetry: bool,
    /// Number of UDP source ports that data packets use in turn, a power of two; 0: all the same.
    pub spray: u16,
}

impl Default for Classes {
    /// Data DSCP 26 priority 3 ECT(0); ACK DSCP 46 priority 5.
    fn default() -> Classes {
        let ack = Class { dscp: 46, ecn: 0, pcp: 5, vl: 5 };
        Classes { data: Class::DATA, ack, telemetry: false, spray: 0 }
    }
}

/// The configuration of a host. The PFC priority of a class is its `pcp`.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Name for messages.
    pub name: String,
    /// Ethernet or InfiniBand.
    pub link: LinkType,
    /// Its MAC address.
    pub mac: Mac,
    /// Its addresses (IPv6, IPv4-mapped, GID, LID): it accepts packets for them and answers requests for them.
    pub addresses: Vec<u128>,
    /// Classes of what it sends.
    pub classes: Classes,
    /// Settings of the CNPs that it sends; their hop limit and UDP port are those of the path.
    pub cnp: CnpConfig,
    /// Rate of its link: the limit of all its queue pairs together. It also defines PFC's quantum. Without one, only
    /// the queue pairs' own pace applies, and a quantum is that of 10 Gbit/s.
    pub rate: Option<BitsPerSec>,
    /// Bytes of a packet on the link that are not in its frame.
    pub link_overhead_bytes: u32,
    /// DSCPs of packets that switches trimmed, one bit each: an otherwise invalid packet with one of them is answered
    /// as a trimmed one.
    pub trimmed_dscps: u64,
    /// The notification point; `None` when the device's program reports marks instead.
    pub np: Option<NpConfig>,
}

impl HostConfig {
    /// A host on Ethernet with one address, 100 Gbit/s and the paper's notification point.
    pub fn ethernet(name: &str, mac: Mac, address: u128) -> HostConfig {
        HostConfig {
            name: name.to_owned(),
            link: LinkType::Ethernet,
            mac,
            addresses: vec![address],
            classes: Classes::default(),
            cnp: CnpConfig::default(),
            rate: Some(BitsPerSec::gbit(100)),
            link_overhead_bytes: ETHERNET_OVERHEAD_BYTES,
            trimmed_dscps: 0,
            np: Some(NpConfig::default()),
        }
    }

    /// A host on InfiniBand with one LID.
    pub fn infiniband(name: &str, lid: u16) -> HostConfig {
        HostConfig {
            link: LinkType::Infiniband,
            link_overhead_bytes: 0,
            ..HostConfig::ethernet(name, Mac::default(), lid.into())
        }
    }
}
