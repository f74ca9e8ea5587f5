//! Congestion notification packets: the notification point's decision as a frame.
//!
//! A RoCE CNP is a BTH with opcode 0x81 and 16 reserved zero bytes (IBTA A17), an InfiniBand one is a BTH with opcode
//! 0x80 and nothing after it (IBTA A10). BECN is set, PSN 0, the partition key is that of the marked packet. A CNP over
//! RoCEv1 is an extension: RoCEv1 has no marking, and the notification point requests none.

use crate::roce::np::{Cnp, Mark, Marked};
use crate::roce::opcode::{CNP_NATIVE, CNP_ROCEV2};
use crate::roce::packet::{Bth, Headers};
use crate::roce::psn::Psn;

use super::Mac;
use super::envelope::{Address, AddressError, Class, Encap, Envelope};
use super::transport::{BuildError, TransportFrames};

/// Maximum length of a CNP: tagged Ethernet, IPv6, UDP, BTH, reserved bytes, ICRC.
pub const FRAME_BYTES_MAX: usize = 14 + 4 + 40 + 8 + 12 + 16 + 4;

/// The configurable fields of a CNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CnpConfig {
    /// DSCP and ECN, and PCP on Ethernet.
    pub class: Class,
    /// Service level on InfiniBand; `None` for that of the marked packet.
    pub sl: Option<u8>,
    /// Virtual lane of each service level.
    pub sl_to_vl: SlToVl,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// UDP source port; ConnectX sends 0.
    pub udp_src_port: u16,
}

/// The SL-to-VL map of a port that sends CNPs (IBTA 7.6.6): the virtual lane of each service level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlToVl(pub [u8; 16]);

impl Default for SlToVl {
    /// Data lanes 0 to 7, as on most links: the low three bits of the service level.
    fn default() -> SlToVl {
        SlToVl(std::array::from_fn(|sl| sl as u8 & 7))
    }
}

impl Default for CnpConfig {
    /// As ConnectX-4 Lx: DSCP 48 (priority 6), ECT(0), TTL 64, UDP source port 0. On InfiniBand, the
    /// service level of the marked packet.
    fn default() -> CnpConfig {
        let sl_to_vl = SlToVl::default();
        CnpConfig { class: Class::CNP, sl: None, sl_to_vl, hop_limit: 64, udp_src_port: 0 }
    }
}

impl CnpConfig {
    /// The class of the CNP for this mark.
    pub fn class_of(&self, mark: Mark, marked: &Marked) -> Class {
        match mark {
            Mark::IpCe => self.class,
            Mark::Fecn => {
                let sl = self.sl.unwrap_or(marked.sl) & 15;
                Class { pcp: sl, vl: self.sl_to_vl.0[usize::from(sl)], ..self.class }
            }
        }
    }
}

/// The link addresses of a CNP, which the notification point does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CnpLink {
    /// Ethernet: addresses of the CNP itself, and its VLAN.
    Ethernet {
        /// The sender of the CNP.
        src: Mac,
        /// The next hop to the sender of the flow.
        dst: Mac,
        /// VLAN; `None` for untagged.
        vlan: Option<u16>,
    },
    /// InfiniBand: LIDs of the CNP itself.
    Infiniband {
        /// The sender of the CNP.
        slid: u16,
        /// The sender of the flow.
        dlid: u16,
    },
}

/// Why a CNP could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CnpError {
    /// Its addresses are invalid.
    #[error("CNP: {0}")]
    Address(AddressError),
    /// A mark of one kind of network with a link of the other.
    #[error("CNP: an InfiniBand mark on Ethernet, or the reverse")]
    Link,
    /// The frame could not be built.
    #[error("CNP: {0}")]
    Build(BuildError),
}

impl CnpLink {
    /// The return link of a marked packet: its link addresses exchanged.
    pub fn back(marked: &Address) -> CnpLink {
        match marked.encap.is_infiniband() {
            true => CnpLink::Infiniband { slid: marked.dlid, dlid: marked.slid },
            false => {
                CnpLink::Ethernet { src: marked.dst_mac, dst: marked.src_mac, vlan: marked.vlan }
            }
        }
    }
}

/// The headers of a CNP to this queue pair.
pub fn headers(encap: Encap, sender_qp: u32, pkey: u16) -> Headers {
    Headers::new(Bth {
        opcode: if encap.is_infiniband() { CNP_NATIVE } else { CNP_ROCEV2 },
        solicited: false,
        pad: 0,
        pkey,
        fecn: false,
        becn: true,
        dest_qp: sender_qp,
        ack_req: false,
        psn: Psn::new(0),
    })
}

/// The addresses of a CNP: back from the receiver of the flow to its sender.
///
/// # Errors
/// The link is of the other kind of network.
pub fn address(cnp: &Cnp, link: &CnpLink, config: &CnpConfig) -> Result<Address, CnpError> {
    let (src, dst) = (cnp.flow.dst, cnp.flow.src);
    let address = match (*link, cnp.mark) {
        (CnpLink::Ethernet { src: src_mac, dst: dst_mac, vlan }, Mark::IpCe) => {
            let to = Address::rocev2(src_mac, dst_mac, src, dst).map_err(CnpError::Address)?;
            Address { vlan, ..to }
        }
        (CnpLink::Infiniband { slid, dlid }, Mark::Fecn) => {
            let local = src <= 0xffff && dst <= 0xffff;
            let encap = if local { Encap::IbLocal } else { Encap::IbGlobal };
            let mac = Mac::default();
            Address { slid, dlid, ..Address::new(encap, mac, mac, src, dst) }
        }
        _ => return Err(CnpError::Link),
    };
    Ok(Address { hop_limit: config.hop_limit, udp_src_port: config.udp_src_port, ..address })
}

impl TransportFrames {
    /// Builds the frame of a CNP into `out` ([`FRAME_BYTES_MAX`] is always enough) and returns its length.
    ///
    /// # Errors
    /// The reason.
    pub fn build_cnp(
        &self,
        cnp: &Cnp,
        link: &CnpLink,
        config: &CnpConfig,
        out: &mut [u8],
    ) -> Result<usize, CnpError> {
        let to = address(cnp, link, config)?;
        let class = config.class_of(cnp.mark, &cnp.marked);
        let envelope = self.envelope(&to, &class).map_err(CnpError::Address)?;
        self.build_cnp_in(&envelope, cnp.sender_qp, cnp.marked.pkey, out).map_err(CnpError::Build)
    }

    /// Builds a CNP behind finished headers.
    ///
    /// # Errors
    /// The reason.
    pub fn build_cnp_in(
        &self,
        envelope: &Envelope,
        sender_qp: u32,
        pkey: u16,
        out: &mut [u8],
    ) -> Result<usize, BuildError> {
        let headers = headers(envelope.encap(), sender_qp, pkey);
        self.build_with(envelope, &headers, 0, out, |_| Ok(()))
    }
}

#[cfg(test)]
mod tests;
