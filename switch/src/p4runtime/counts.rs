//! Counters of the server: streams, requests by kind and status, packets, digests.
//!
//! They are read without the locks of the device, which a long write holds: the reader may be the thread that forwards.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tonic::{Code, Status};
use wireyard_pipeline::ids::{DigestId, Id};
use wireyard_pipeline::ir::Program;

use super::arbitration::Arbitration;
use super::digests::DigestCounts;
use crate::stats::{ControllersReport, DigestReport, RequestReport};
use crate::sync;

/// A request of P4Runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the calls are")]
pub enum Kind {
    Write,
    Read,
    SetPipeline,
    GetPipeline,
    Stream,
    Capabilities,
}

const KINDS: [&str; 6] =
    ["write", "read", "set_pipeline", "get_pipeline", "stream", "capabilities"];

/// By the number of the status code.
const STATUSES: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
];

/// Counters of one device.
#[derive(Debug, Default)]
pub struct Counts {
    requests: [[AtomicU64; STATUSES.len()]; KINDS.len()],
    streams: AtomicU64,
    primaries: AtomicU64,
    /// Times that a role got another primary or lost its primary.
    pub primary_changes: AtomicU64,
    /// Updates of the writes that were completed.
    pub updates: AtomicU64,
    /// Packets sent to controllers.
    pub packets_in: AtomicU64,
    /// Packets dropped because no primary reads them.
    pub packets_in_dropped: AtomicU64,
    /// Packets of controllers that the device accepted.
    pub packets_out: AtomicU64,
    /// Packets of controllers that were refused.
    pub packets_out_refused: AtomicU64,
    /// Notices of the device lost because they were not passed on in time.
    pub notices_lost: AtomicU64,
    digests: Mutex<BTreeMap<DigestId, DigestCounts>>,
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

impl Counts {
    /// Counts a completed request by kind and status.
    pub fn request<T>(&self, kind: Kind, answer: &Result<T, Status>) {
        let code = answer.as_ref().map_or_else(Status::code, |_| Code::Ok);
        add(&self.requests[kind as usize][(code as i32 as usize).min(STATUSES.len() - 1)], 1);
    }

    /// Updates the counts of streams and primaries, after one of them changed.
    pub fn arbitration(&self, now: &Arbitration) {
        self.streams.store(now.streams() as u64, Relaxed);
        self.primaries.store(now.primaries().count() as u64, Relaxed);
    }

    /// Sets the counts of digests, after a list was sent or acknowledged.
    pub fn digests(&self, counts: BTreeMap<DigestId, DigestCounts>) {
        *sync::lock(&self.digests) = counts;
    }

    /// All counts so far, with the names of this program.
    pub fn report(&self, program: &Program) -> ControllersReport {
        let digests = sync::lock(&self.digests).clone();
        let digest = |(id, c): (DigestId, DigestCounts)| DigestReport {
            digest: program.digests.get(id).map_or(id.index().to_string(), |one| one.name.clone()),
            waiting: c.waiting,
            unacknowledged: c.unacknowledged,
            lists: c.lists,
            sent: c.sent,
            acknowledged: c.acknowledged,
            expired: c.expired,
            dropped: c.dropped,
        };
        let requests = KINDS.iter().zip(&self.requests).flat_map(|(kind, counts)| {
            STATUSES.iter().zip(counts).map(|(status, count)| RequestReport {
                kind,
                status,
                requests: count.load(Relaxed),
            })
        });
        ControllersReport {
            streams: self.streams.load(Relaxed),
            primaries: self.primaries.load(Relaxed),
            primary_changes: self.primary_changes.load(Relaxed),
            requests: requests.filter(|one| one.requests > 0).collect(),
            updates: self.updates.load(Relaxed),
            packets_in: self.packets_in.load(Relaxed),
            packets_in_dropped: self.packets_in_dropped.load(Relaxed),
            packets_out: self.packets_out.load(Relaxed),
            packets_out_refused: self.packets_out_refused.load(Relaxed),
            notices_lost: self.notices_lost.load(Relaxed),
            digests: digests.into_iter().map(digest).collect(),
        }
    }
}
