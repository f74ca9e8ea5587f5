//! Connections: the data that two ends exchange out of band, as `ibv_rc_pingpong` does, and the way to RTS.

use crate::frames::envelope::{Address, AddressError, Encap, udp_src_port};
use crate::roce::memory::Access;
use crate::roce::opcode::Service;
use crate::roce::qp::{Attrs, ModifyError, PathMtu, QpConfig, QpState};
use crate::roce::telemetry::TELEMETRY_BYTES;

use super::config::Classes;
use super::port::EndPointPort;

/// The other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its queue pair.
    pub qpn: u32,
    /// First PSN that it sends.
    pub psn: u32,
    /// The path to it ([`EndPointPort::add_path`]).
    pub path: u32,
}

/// Attributes of a connection; see `ibv_modify_qp(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// First PSN sent.
    pub psn: u32,
    /// Payload bytes of a full packet.
    pub path_mtu: PathMtu,
    /// Partition key.
    pub pkey: u16,
    /// Permissions of the peer.
    pub access: Access,
    /// READs and ATOMICs outstanding each way.
    pub rd_atomic: u8,
    /// ACK timeout code: 4.096 us x 2^n; 0 disables it.
    pub timeout: u8,
    /// Retries after timeouts and sequence errors.
    pub retry_count: u8,
    /// Retries after RNR NAKs; 7 is unlimited.
    pub rnr_retry: u8,
    /// Timer code put into RNR NAKs.
    pub min_rnr_timer: u8,
}

impl Default for ConnectOptions {
    /// Path MTU 1,024, ACK timeout 67 ms, 7 retries, RNR timer 0.64 ms with unlimited retries.
    fn default() -> ConnectOptions {
        ConnectOptions {
            psn: 0,
            path_mtu: PathMtu::DEFAULT,
            pkey: 0xffff,
            access: Access::ALL,
            rd_atomic: 16,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
        }
    }
}

/// Why two ends could not be connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The end point has no such queue pair, or no number for another.
    #[error("no such queue pair")]
    NoQueuePair,
    /// The queue pair refuses an attribute.
    #[error("queue pair: {0}")]
    Modify(ModifyError),
    /// The address has no form in the headers.
    #[error("path: {0}")]
    Address(AddressError),
}

impl EndPointPort {
    /// Takes a reliable or unreliable connection from RESET to RTS.
    ///
    /// # Errors
    /// The refusal; the queue pair is then in the last state that was reached.
    pub fn connect(
        &mut self,
        qpn: u32,
        peer: &Peer,
        options: &ConnectOptions,
    ) -> Result<(), ConnectError> {
        let service = self.end.qp(qpn).ok_or(ConnectError::NoQueuePair)?.service();
        let reliable = service == Service::Rc;
        let only_reliable = |value: u8| reliable.then_some(value);
        let none = Attrs::default();
        let init =
            Attrs { pkey: Some(options.pkey), port: Some(1), access: Some(options.access), ..none };
        let rtr = Attrs {
            path: Some(peer.path),
            path_mtu: Some(options.path_mtu),
            dest_qp: Some(peer.qpn),
            rq_psn: Some(peer.psn),
            max_dest_rd_atomic: only_reliable(options.rd_atomic),
            min_rnr_timer: only_reliable(options.min_rnr_timer),
            ..none
        };
        let rts = Attrs {
            sq_psn: Some(options.psn),
            max_rd_atomic: only_reliable(options.rd_atomic),
            retry_count: only_reliable(options.retry_count),
            rnr_retry: only_reliable(options.rnr_retry),
            timeout: only_reliable(options.timeout),
            ..none
        };
        for (to, attrs) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
            let done = self.roce_mut().modify(qpn, to, &attrs).ok_or(ConnectError::NoQueuePair)?;
            done.map_err(ConnectError::Modify)?;
        }
        Ok(())
    }
}

/// A connection between two end points of one process.
#[derive(Clone, Debug)]
pub struct PairSpec {
    /// From the first end point to the second; the way back is its reverse. The UDP source port is replaced by that
    /// of the queue pairs.
    pub address: Address,
    /// Service.
    pub service: Service,
    /// Queue pairs of both ends; the overhead of a frame is filled in.
    pub qp: QpConfig,
    /// Attributes; both ends start at its PSN.
    pub options: ConnectOptions,
}

/// Creates and connects a queue pair in each of two end points; returns their numbers.
///
/// # Errors
/// The refusal.
pub fn connect_pair(
    a: &mut EndPointPort,
    b: &mut EndPointPort,
    spec: &PairSpec,
) -> Result<(u32, u32), ConnectError> {
    let tagged = spec.address.vlan.is_some();
    let fcs = if spec.address.encap.is_infiniband() { 0 } else { 4 };
    let overhead = spec.address.encap.overhead_bytes(tagged) + fcs;
    let telemetry = spec.qp.rate.telemetry();
    let room = if telemetry { TELEMETRY_BYTES as u32 } else { 0 };
    let config = QpConfig { frame_overhead_bytes: overhead + room, ..spec.qp.clone() };
    let create = |end: &mut EndPointPort| {
        end.end.create_qp(spec.service, &config).ok_or(ConnectError::NoQueuePair)
    };
    let (qa, qb) = (create(a)?, create(b)?);
    let with_port = |address: Address, local: u32, remote: u32| match address.encap {
        Encap::RoceV2Ipv4 | Encap::RoceV2Ipv6 => {
            Address { udp_src_port: udp_src_port(local, remote), ..address }
        }
        _ => address,
    };
    let there = with_port(spec.address, qa, qb);
    let back = with_port(spec.address.reversed(), qb, qa);
    let psn = spec.options.psn;
    let classes = |end: &EndPointPort| Classes { telemetry, ..end.config.classes };
    let path = a.add_path_as(&there, &classes(a)).map_err(ConnectError::Address)?;
    a.connect(qa, &Peer { qpn: qb, psn, path }, &spec.options)?;
    let path = b.add_path_as(&back, &classes(b)).map_err(ConnectError::Address)?;
    b.connect(qb, &Peer { qpn: qa, psn, path }, &spec.options)?;
    Ok((qa, qb))
}
