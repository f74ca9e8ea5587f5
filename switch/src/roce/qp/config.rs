//! Configuration and counters of a queue pair.

use std::sync::Arc;

use wireyard_tables::time::Span;

use super::super::aeth;
use super::super::requester::MAX_OUTSTANDING;
use super::super::rp::RateAlgorithm;

/// Configuration of a queue pair at its creation.
#[derive(Clone, Debug)]
pub struct QpConfig {
    /// Send work requests that fit.
    pub sq_depth: usize,
    /// Receive work requests that fit.
    pub rq_depth: usize,
    /// AckReq every this many packets and on the last of each message. rxe: 64.
    pub ack_every: u32,
    /// Unacknowledged packets; at most 2^23 - 1. rxe: 128.
    pub max_outstanding_packets: u32,
    /// Bytes of a frame beside extended headers, payload and pad, for pacing and byte counters. RoCEv2
    /// over IPv4 with FCS: 14 + 20 + 8 + 12 + 4 + 4 = 62.
    pub frame_overhead_bytes: u32,
    /// Rate control.
    pub rate: RateAlgorithm,
    /// Retransmission after a loss; both ends need the same.
    pub retransmission: Retransmission,
    /// The adapter's handling of the ACK timeout.
    pub ack_timer: AckTimer,
}

/// An adapter's handling of the ACK timeout of a connection. IBTA 9.7.6.1.3 has 4.096 us x 2^code; adapters differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckTimer {
    /// Least code: a smaller one of a connection counts as this.
    pub code_min: u8,
    /// The timer ends after this many times 4.096 us x 2^code.
    pub factor: u8,
    /// Shorter waits before that one: unacknowledged packets are retransmitted after each. From the first that is
    /// longer than 4.096 us x 2^code on they are left out. The first and the last cost a retry each.
    pub early: Arc<[Span]>,
}

impl Default for AckTimer {
    /// As IBTA has it.
    fn default() -> AckTimer {
        AckTimer { code_min: 0, factor: 1, early: Arc::default() }
    }
}

impl AckTimer {
    /// The timeout of a connection with this code, and the number of waits before it; `None` for code 0, which disables
    /// it.
    pub fn timeout(&self, code: u8) -> (Option<Span>, usize) {
        let Some(nominal) = aeth::ack_timeout(code) else { return (None, 0) };
        let nominal = aeth::ack_timeout(self.code_min).map_or(nominal, |least| nominal.max(least));
        let factor = u64::from(self.factor.max(1));
        let timeout = Span::from_ps(nominal.as_ps().saturating_mul(factor));
        (Some(timeout), self.early.iter().take_while(|wait| **wait <= nominal).count())
    }
}

/// The retransmission scheme of a reliable connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retransmission {
    /// Everything from the oldest lost packet on (IBTA).
    #[default]
    GoBackN,
    /// Only lost packets; only for WRITEs.
    Selective {
        /// Packets that may overtake one before it counts as lost.
        reordering: u32,
    },
}

impl QpConfig {
    /// Depths of 128, AckReq every 64 packets, no window, RoCEv2 over IPv4.
    pub fn new(rate: RateAlgorithm) -> Self {
        QpConfig {
            sq_depth: 128,
            rq_depth: 128,
            ack_every: 64,
            max_outstanding_packets: MAX_OUTSTANDING,
            frame_overhead_bytes: 62,
            rate,
            retransmission: Retransmission::GoBackN,
            ack_timer: AckTimer::default(),
        }
    }
}

/// Event counters; names as in `/sys/class/infiniband/*/hw_counters` where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCounters {
    /// Packets handed out.
    pub sent_packets: u64,
    /// Payload bytes handed out, repeats included.
    pub sent_payload_bytes: u64,
    /// Packets handed out again.
    pub retransmitted_packets: u64,
    /// Packets taken in.
    pub received_packets: u64,
    /// Packets dropped: unknown opcode, wrong service, P_Key, Q_Key or state.
    pub dropped_packets: u64,
    /// Times the send position went back: for a NAK, a timeout, or a lost response.
    pub rewinds: u64,
    /// Requests whose PSN is not above that of the previous request. Each rewind of the peer causes at most one; more
    /// mean overtaken packets.
    pub steps_back: u64,
    /// Requests ahead of the expected PSN (`out_of_sequence`).
    pub out_of_sequence: u64,
    /// Requests behind it (`duplicate_request`).
    pub duplicate_requests: u64,
    /// NAK 0x60 sent.
    pub sequence_naks_sent: u64,
    /// NAK 0x60 received (`packet_seq_err`).
    pub sequence_naks_received: u64,
    /// NAKs 0x61 to 0x63 sent.
    pub error_naks_sent: u64,
    /// RNR NAKs sent.
    pub rnr_naks_sent: u64,
    /// RNR NAKs received.
    pub rnr_naks_received: u64,
    /// Lost responses noticed by a later packet (`implied_nak_seq_err`).
    pub implied_naks: u64,
    /// ACK timeouts (`local_ack_timeout_err`).
    pub timeouts: u64,
    /// Acknowledgements and responses outside the window, ignored.
    pub stale_acks: u64,
    /// Invalid responses, ignored.
    pub bad_responses: u64,
    /// CNPs and BECNs received (`rp_cnp_handled`).
    pub cnps_received: u64,
    /// Requests that arrived trimmed.
    pub trimmed_packets: u64,
    /// Acknowledgements sent that name a trimmed packet.
    pub trim_naks_sent: u64,
    /// The same, received.
    pub trim_naks_received: u64,
    /// Packets considered lost because later ones arrived.
    pub overtaken_packets: u64,
    /// Packets that acknowledgements reported as marked.
    pub marked_packets: u64,
    /// Round-trip time of the newest acknowledged packet that was measured.
    pub round_trip: Option<Span>,
    /// Payload bytes executed by the responder, once; in order except with selective retransmission.
    pub accepted_payload_bytes: u64,
}
