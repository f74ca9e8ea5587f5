//! Counters of the store.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::control::Changes;
use crate::stats::StorageReport;

/// Counters of one store.
#[derive(Debug, Default)]
pub struct StorageCounts {
    requests: AtomicU64,
    commits: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    commit_ns: AtomicU64,
    errors: AtomicU64,
}

impl StorageCounts {
    /// Counts a commit.
    pub(super) fn commit(&self, units: &[Changes], took: Duration) {
        let changes = units.iter().flat_map(|unit| &unit.changes);
        let bytes =
            changes.clone().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len));
        self.requests.fetch_add(units.len() as u64, Relaxed);
        self.commits.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes.sum::<usize>() as u64, Relaxed);
        self.records.fetch_add(changes.count() as u64, Relaxed);
        self.commit_ns.fetch_add(took.as_nanos() as u64, Relaxed);
    }

    /// Counts a failure of the store.
    pub(in crate::p4runtime) fn failed(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    /// All counts so far.
    pub fn report(&self) -> StorageReport {
        StorageReport {
            requests: self.requests.load(Relaxed),
            commits: self.commits.load(Relaxed),
            records: self.records.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            commit_ns: self.commit_ns.load(Relaxed),
            errors: self.errors.load(Relaxed),
        }
    }
}
