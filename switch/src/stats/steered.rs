//! Counters of a device's clients: controllers, and the store of their writes.

use serde::Serialize;

/// Streams, requests, packets and digests of controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ControllersReport {
    /// Controllers with an open stream.
    pub streams: u64,
    /// Of these, primaries of their roles.
    pub primaries: u64,
    /// Times that a role got another primary, or lost it.
    pub primary_changes: u64,
    /// Answered requests.
    pub requests: Vec<RequestReport>,
    /// Updates of the writes that were answered, successful or not.
    pub updates: u64,
    /// Packets of the device sent to controllers.
    pub packets_in: u64,
    /// Packets of the device without a primary, or with one that does not read.
    pub packets_in_dropped: u64,
    /// Packets of controllers passed to the device.
    pub packets_out: u64,
    /// Packets of controllers that were refused.
    pub packets_out_refused: u64,
    /// Packets, digests and notices of the device lost because they could not be passed on fast enough.
    pub notices_lost: u64,
    /// Digests that were configured.
    pub digests: Vec<DigestReport>,
}

/// Requests of a kind that ended with a status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestReport {
    /// `write`, `read`.
    pub kind: &'static str,
    /// The status of gRPC: `ok`, `not_found`.
    pub status: &'static str,
    /// Their number.
    pub requests: u64,
}

/// A digest, by messages, which are sent in lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DigestReport {
    /// Its name.
    pub digest: String,
    /// Messages that wait for their list to be full, or old enough.
    pub waiting: u64,
    /// Messages of lists that wait for an acknowledgement.
    pub unacknowledged: u64,
    /// Lists that were sent.
    pub lists: u64,
    /// Messages of these.
    pub sent: u64,
    /// Messages of lists that were acknowledged.
    pub acknowledged: u64,
    /// Messages of lists that were not acknowledged in time.
    pub expired: u64,
    /// Messages of lists without a primary, or with one that does not read.
    pub dropped: u64,
}

/// The store of `--state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StorageReport {
    /// Requests that are kept.
    pub requests: u64,
    /// Commits: simultaneous requests share one.
    pub commits: u64,
    /// Records that were written or removed.
    pub records: u64,
    /// Bytes of keys and values of these.
    pub bytes: u64,
    /// Time of the commits, most of it until the disk has them.
    pub commit_ns: u64,
    /// Failures; nothing is written after the first.
    pub errors: u64,
}
