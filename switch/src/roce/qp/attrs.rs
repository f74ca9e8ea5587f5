//! Queue pair states, attributes, and those of each transition (`ibv_modify_qp(3)`).

use super::super::memory::Access;
use super::super::opcode::Service;

/// Queue pair state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpState {
    /// Created, or reset.
    Reset,
    /// Receives can be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Send queue drained: finishes started requests, starts none.
    Sqd,
    /// Error: everything is flushed.
    Err,
}

/// Path MTU: payload bytes of a full packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu(u32);

impl PathMtu {
    /// 1,024 bytes: the default of a queue pair.
    pub const DEFAULT: PathMtu = PathMtu(1024);

    /// 256, 512, 1024, 2048 or 4096 bytes.
    pub fn new(bytes: u32) -> Option<PathMtu> {
        [256, 512, 1024, 2048, 4096].contains(&bytes).then_some(PathMtu(bytes))
    }

    /// Any multiple of 4 bytes, which no adapter supports: to compare packets with those of another simulator. `None`
    /// for less than 256, with which a long message has too many packets, and for more than 16,384.
    pub fn any(bytes: u32) -> Option<PathMtu> {
        ((256..=16_384).contains(&bytes) && bytes.is_multiple_of(4)).then_some(PathMtu(bytes))
    }

    /// Payload bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }

    /// Packets of a message of `len` bytes; an empty message is one packet.
    pub fn packets(self, len: u32) -> u32 {
        len.div_ceil(self.0).max(1)
    }
}

/// Attributes of a transition. `None` is "not given".
#[derive(Clone, Copy, Debug, Default)]
pub struct Attrs {
    /// Partition key (the value, not a table index).
    pub pkey: Option<u16>,
    /// Physical port.
    pub port: Option<u8>,
    /// Permissions of the peer.
    pub access: Option<Access>,
    /// Queue key (UD).
    pub qkey: Option<u32>,
    /// Address vector, opaque here.
    pub path: Option<u32>,
    /// Path MTU. For UD the limit of a datagram.
    pub path_mtu: Option<PathMtu>,
    /// The peer's queue pair.
    pub dest_qp: Option<u32>,
    /// First PSN expected.
    pub rq_psn: Option<u32>,
    /// READs and ATOMICs the peer may have outstanding here.
    pub max_dest_rd_atomic: Option<u8>,
    /// Timer code put into RNR NAKs.
    pub min_rnr_timer: Option<u8>,
    /// First PSN sent.
    pub sq_psn: Option<u32>,
    /// READs and ATOMICs outstanding from here.
    pub max_rd_atomic: Option<u8>,
    /// Retries after timeouts and sequence errors, 0 to 7.
    pub retry_count: Option<u8>,
    /// Retries after RNR NAKs, 0 to 7; 7 is unlimited.
    pub rnr_retry: Option<u8>,
    /// ACK timeout code, 0 to 31; 0 disables it.
    pub timeout: Option<u8>,
}

const PKEY: u16 = 1 << 0;
const PORT: u16 = 1 << 1;
const ACCESS: u16 = 1 << 2;
const QKEY: u16 = 1 << 3;
const PATH: u16 = 1 << 4;
const PATH_MTU: u16 = 1 << 5;
const DEST_QP: u16 = 1 << 6;
const RQ_PSN: u16 = 1 << 7;
const MAX_DEST_RD: u16 = 1 << 8;
const MIN_RNR: u16 = 1 << 9;
const SQ_PSN: u16 = 1 << 10;
const MAX_RD: u16 = 1 << 11;
const RETRY: u16 = 1 << 12;
const RNR_RETRY: u16 = 1 << 13;
const TIMEOUT: u16 = 1 << 14;

/// Names in bit order.
const NAMES: [&str; 15] = [
    "pkey",
    "port",
    "access",
    "qkey",
    "path",
    "path_mtu",
    "dest_qp",
    "rq_psn",
    "max_dest_rd_atomic",
    "min_rnr_timer",
    "sq_psn",
    "max_rd_atomic",
    "retry_count",
    "rnr_retry",
    "timeout",
];

/// Why a transition was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModifyError {
    /// There is no such transition.
    #[error("a queue pair in {0:?} cannot go to {1:?}")]
    NoTransition(QpState, QpState),
    /// A required attribute is not given.
    #[error("this transition needs {0}")]
    Missing(&'static str),
    /// An attribute that this transition does not allow.
    #[error("this transition does not take {0}")]
    NotAllowed(&'static str),
    /// A value out of range.
    #[error("{0} is out of range")]
    OutOfRange(&'static str),
}

/// Required and optional attributes of a transition; `None` if there is none.
fn rule(service: Service, from: QpState, to: QpState) -> Option<(u16, u16)> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd};
    let (rc, ud) = (service == Service::Rc, service == Service::Ud);
    let pick = |on: bool, bits: u16| if on { bits } else { 0 };
    let who = if ud { QKEY } else { ACCESS };
    let soft = who | pick(rc, MIN_RNR);
    Some(match (from, to) {
        (_, Reset | Err) => (0, 0),
        (Reset, Init) => (PKEY | PORT | who, 0),
        (Init, Init) => (0, PKEY | PORT | who),
        (Init, Rtr) if ud => (0, PKEY | QKEY | PATH_MTU),
        (Init, Rtr) => {
            let required = PATH | PATH_MTU | DEST_QP | RQ_PSN;
            (required | pick(rc, MAX_DEST_RD | MIN_RNR), PKEY | ACCESS)
        }
        (Rtr, Rts) => (SQ_PSN | pick(rc, MAX_RD | RETRY | RNR_RETRY | TIMEOUT), soft),
        (Rts, Rts) | (Sqd, Rts) => (0, soft),
        (Rts, Sqd) => (0, 0),
        (Sqd, Sqd) => (0, soft | pick(!ud, PATH) | pick(rc, MAX_RD | RETRY | RNR_RETRY | TIMEOUT)),
        _ => return None,
    })
}

impl Attrs {
    fn present(&self) -> u16 {
        let given = [
            self.pkey.is_some(),
            self.port.is_some(),
            self.access.is_some(),
            self.qkey.is_some(),
            self.path.is_some(),
            self.path_mtu.is_some(),
            self.dest_qp.is_some(),
            self.rq_psn.is_some(),
            self.max_dest_rd_atomic.is_some(),
            self.min_rnr_timer.is_some(),
            self.sq_psn.is_some(),
            self.max_rd_atomic.is_some(),
            self.retry_count.is_some(),
            self.rnr_retry.is_some(),
            self.timeout.is_some(),
        ];
        given.iter().enumerate().fold(0, |bits, (i, &on)| bits | u16::from(on) << i)
    }

    /// Checks a transition: that it exists, has exactly its attributes, and their ranges.
    ///
    /// # Errors
    /// The first error, by name.
    pub fn check(&self, service: Service, from: QpState, to: QpState) -> Result<(), ModifyError> {
        let (required, optional) =
            rule(service, from, to).ok_or(ModifyError::NoTransition(from, to))?;
        let present = self.present();
        if let Some(name) = first_name(required & !present) {
            return Err(ModifyError::Missing(name));
        }
        if let Some(name) = first_name(present & !(required | optional)) {
            return Err(ModifyError::NotAllowed(name));
        }
        let wide = |v: Option<u32>| v.is_some_and(|v| v > 0x00ff_ffff);
        let over = |v: Option<u8>, max: u8| v.is_some_and(|v| v > max);
        let ranges = [
            (wide(self.dest_qp), "dest_qp"),
            (wide(self.rq_psn), "rq_psn"),
            (wide(self.sq_psn), "sq_psn"),
            (over(self.min_rnr_timer, 31), "min_rnr_timer"),
            (over(self.retry_count, 7), "retry_count"),
            (over(self.rnr_retry, 7), "rnr_retry"),
            (over(self.timeout, 31), "timeout"),
            (self.port == Some(0), "port"),
            (self.pkey.is_some_and(|pkey| pkey & 0x7fff == 0), "pkey"),
        ];
        match ranges.iter().find(|(bad, _)| *bad) {
            Some((_, name)) => Err(ModifyError::OutOfRange(name)),
            None => Ok(()),
        }
    }
}

fn first_name(bits: u16) -> Option<&'static str> {
    NAMES.get(bits.trailing_zeros() as usize).copied().filter(|_| bits != 0)
}
