//! Work requests and completions, named as in `ibv_post_send(3)` and `ibv_poll_cq(3)`.

/// One contiguous piece of registered local memory. A work request has exactly one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Key of the region.
    pub key: u32,
    /// First byte.
    pub va: u64,
    /// Length; a message is at most 2^31 bytes.
    pub len: u32,
}

/// A place in the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Virtual address.
    pub va: u64,
    /// R_Key.
    pub rkey: u32,
}

/// The operation of a send work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImm(u32),
    /// SEND that invalidates an R_Key of the peer.
    SendInv(u32),
    /// RDMA WRITE.
    Write(Remote),
    /// RDMA WRITE with immediate data.
    WriteImm(Remote, u32),
    /// RDMA READ into the local piece.
    Read(Remote),
    /// ATOMIC: store `swap` if the word equals `compare`; the old word goes to the local piece (8 bytes).
    CmpSwap {
        /// The word.
        remote: Remote,
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// ATOMIC: add to the word; the old word goes to the local piece (8 bytes).
    FetchAdd {
        /// The word.
        remote: Remote,
        /// Addend, wrapping.
        add: u64,
    },
    /// SEND of one datagram.
    Datagram {
        /// Address handle, opaque here, returned with the packet.
        path: u32,
        /// Queue pair of the receiver.
        dest_qp: u32,
        /// Q_Key; with the high bit set the queue pair's own is used (IBTA 10.2.5).
        qkey: u32,
        /// Immediate data.
        imm: Option<u32>,
    },
}

/// A send work request.
#[derive(Clone, Copy, Debug)]
pub struct SendWr {
    /// Handed back in the completion.
    pub wr_id: u64,
    /// Operation.
    pub op: SendOp,
    /// Local memory: source, or target of READ and ATOMIC.
    pub local: Sge,
    /// Report success; failures are always reported.
    pub signaled: bool,
    /// Sets the solicited event bit on the last packet.
    pub solicited: bool,
    /// Wait for earlier READs and ATOMICs.
    pub fence: bool,
}

impl SendWr {
    /// A signaled, unsolicited, unfenced request.
    pub fn new(wr_id: u64, op: SendOp, local: Sge) -> Self {
        SendWr { wr_id, op, local, signaled: true, solicited: false, fence: false }
    }
}

/// A receive work request.
#[derive(Clone, Copy, Debug)]
pub struct RecvWr {
    /// Handed back in the completion.
    pub wr_id: u64,
    /// Memory for the message. A datagram's first 40 bytes (GRH area) are left to the caller.
    pub local: Sge,
}

/// Outcome of a work request, `IBV_WC_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Successful.
    Success,
    /// The receive buffer was too short.
    LocalLength,
    /// Local memory could not be used.
    LocalProtection,
    /// The queue pair went to ERR before this request was done.
    WorkRequestFlushed,
    /// The responder's response is invalid.
    BadResponse,
    /// NAK 0x61, or the status of the responder that sent one.
    RemoteInvalidRequest,
    /// NAK 0x62.
    RemoteAccess,
    /// NAK 0x63.
    RemoteOperation,
    /// Timeouts or sequence errors beyond the retry count.
    RetryExceeded,
    /// RNR NAKs beyond the RNR retry count.
    RnrRetryExceeded,
}

impl Status {
    /// Its name in reports and in the session of `host`.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::LocalLength => "local_length",
            Status::LocalProtection => "local_protection",
            Status::WorkRequestFlushed => "flushed",
            Status::BadResponse => "bad_response",
            Status::RemoteInvalidRequest => "remote_invalid_request",
            Status::RemoteAccess => "remote_access",
            Status::RemoteOperation => "remote_operation",
            Status::RetryExceeded => "retry_exceeded",
            Status::RnrRetryExceeded => "rnr_retry_exceeded",
        }
    }
}

/// The operation that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionOp {
    /// SEND of any form.
    Send,
    /// WRITE of any form.
    Write,
    /// READ.
    Read,
    /// ATOMIC.
    Atomic,
    /// A message was received.
    Recv,
    /// A WRITE with immediate data was received.
    RecvWriteImm,
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Of the work request.
    pub wr_id: u64,
    /// The queue pair.
    pub qp: u32,
    /// Outcome. All but the first three fields count only on success.
    pub status: Status,
    /// Operation.
    pub op: CompletionOp,
    /// Bytes moved.
    pub len_bytes: u32,
    /// Immediate data received.
    pub imm: Option<u32>,
    /// R_Key that the peer invalidated.
    pub invalidated: Option<u32>,
    /// Sender of a datagram: queue pair and path.
    pub source: Option<(u32, u32)>,
    /// The message had the solicited event bit.
    pub solicited: bool,
}

impl Completion {
    /// One of these first fields: nothing moved, nothing received.
    pub fn new(wr_id: u64, qp: u32, status: Status, op: CompletionOp) -> Completion {
        Completion {
            wr_id,
            qp,
            status,
            op,
            len_bytes: 0,
            imm: None,
            invalidated: None,
            source: None,
            solicited: false,
        }
    }
}

/// Why a work request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The queue is full: poll completions first.
    #[error("the work queue is full: poll completions first")]
    QueueFull,
    /// The queue pair's state does not accept work of this kind.
    #[error("the queue pair's state takes no such work")]
    WrongState,
    /// The service (RC, UC, UD) does not have this operation.
    #[error("the queue pair's service has no such operation")]
    Unsupported,
    /// Longer than 2^31 bytes, a datagram longer than the path MTU, or an ATOMIC that is not 8 bytes.
    #[error("message over 2^31 bytes, datagram over the path MTU, or ATOMIC that is not 8 bytes")]
    BadLength,
    /// The local key, bounds or permission is wrong.
    #[error("local memory: {0}")]
    BadMemory(super::memory::AccessError),
}
