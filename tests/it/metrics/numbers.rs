//! Counters of which no two are the same: what stands in another's place is seen.
//!
//! Most counters of a test on real interfaces are 0. Here every one of the model has a number of its own, and the page says each under
//! the name of its key in JSON. No device is behind them.

use wireyard_switch::core::{
    CellReport, GroupReport, NotificationReport, PauseReport, PoolReport, PortQueues, PortReport,
    ProgramReport, QueueReport, QueueingReport, Statistics, TableReport,
};
use wireyard_switch::metrics;
use wireyard_switch::ports::faults::{FaultCounters, FaultReport};
use wireyard_switch::ports::{PortNumber, PortStats};
use wireyard_switch::recorder::RecorderReport;
use wireyard_switch::stats::{
    ControllersReport, DigestReport, LedgerReport, LinuxReport, RequestReport, StorageReport,
};

use super::{page_of, samples};

/// Where no two numbers are the same, none is in the place of another.
#[test]
fn every_number_is_its_own() {
    let mut last = 0;
    let mut next = || {
        last += 1;
        last
    };
    let statistics = numbered(&mut next);
    let page = samples(&metrics::page(&statistics));
    assert_eq!(page_of(&serde_json::to_value(&statistics).unwrap()), page);
}

fn ledger(next: &mut dyn FnMut() -> u64) -> LedgerReport {
    LedgerReport {
        received: next(),
        generated: next(),
        sent: next(),
        dropped: vec![("one".into(), next()), ("other".into(), next())],
        consumed: vec![("one".into(), next()), ("other".into(), next())],
        queued: next(),
        balanced: true,
    }
}

/// Every counter there is, with numbers of this source.
fn numbered(next: &mut dyn FnMut() -> u64) -> Statistics {
    let medium = PortStats {
        rx_frames: next(),
        rx_bytes: next(),
        rx_kernel_drops: next(),
        rx_too_long: next(),
        rx_gso: next(),
        rx_segmented: next(),
        rx_errors: next(),
        rx_down: next(),
        rx_no_memory: next(),
        rx_checksums_finished: next(),
        tx_frames: next(),
        tx_bytes: next(),
        tx_full: next(),
        tx_down: next(),
        tx_too_long: next(),
        tx_errors: next(),
    };
    let mut way = || FaultCounters {
        lost: next(),
        corrupted: next(),
        duplicated: next(),
        reordered: next(),
        delayed: next(),
        overflowed: next(),
        cut: next(),
        under_way: next(),
    };
    let faults = Some(FaultReport { received: way(), sent: way() });
    let port = PortReport {
        port: PortNumber(7),
        name: "seven".into(),
        ledger: ledger(next),
        medium,
        faults,
    };
    let notification = NotificationReport {
        reported: next(),
        cnp_sent: next(),
        cnp_suppressed: next(),
        cnp_no_qp_pair: next(),
        ignored: next(),
        evicted: next(),
        not_transport: next(),
        unbuildable: next(),
    };
    let capture = RecorderReport {
        file: "x.pcapng".to_owned(),
        ports: vec![PortNumber(7)],
        state: "recording",
        records: next(),
        lost: next(),
        left_out: next(),
        error: None,
    };
    Statistics {
        total: ledger(next),
        cpu: ledger(next),
        removed: Some(ledger(next)),
        ports: vec![port],
        program: Some(program(next)),
        queueing: Some(queueing(next)),
        notification: Some(notification),
        lost_digests: next(),
        linux: Some(linux(next)),
        controllers: Some(controllers(next)),
        storage: Some(storage(next)),
        captures: vec![capture],
    }
}

fn linux(next: &mut dyn FnMut() -> u64) -> LinuxReport {
    LinuxReport {
        packets_to_kernel: next(),
        packets_refused_by_kernel: next(),
        packets_lost: next(),
        packets_from_kernel: next(),
        packets_not_sent: next(),
        news_lost: next(),
        resyncs: next(),
        writes_refused: next(),
        neighbours: next(),
        routes4: next(),
        routes6: next(),
        next_hops: next(),
        groups: next(),
        routes_of_kernel: next(),
        routes_missing: next(),
    }
}

fn controllers(next: &mut dyn FnMut() -> u64) -> ControllersReport {
    let mut request = |kind, status| RequestReport { kind, status, requests: next() };
    let requests = vec![request("write", "ok"), request("write", "unknown"), request("read", "ok")];
    let digest = DigestReport {
        digest: "learn".into(),
        waiting: next(),
        unacknowledged: next(),
        lists: next(),
        sent: next(),
        acknowledged: next(),
        expired: next(),
        dropped: next(),
    };
    ControllersReport {
        streams: next(),
        primaries: next(),
        primary_changes: next(),
        requests,
        updates: next(),
        packets_in: next(),
        packets_in_dropped: next(),
        packets_out: next(),
        packets_out_refused: next(),
        notices_lost: next(),
        digests: vec![digest],
    }
}

fn storage(next: &mut dyn FnMut() -> u64) -> StorageReport {
    StorageReport {
        requests: next(),
        commits: next(),
        records: next(),
        bytes: next(),
        commit_ns: next(),
        errors: next(),
    }
}

fn program(next: &mut dyn FnMut() -> u64) -> ProgramReport {
    let cell = |index, packets, bytes| CellReport { counter: "c".into(), index, packets, bytes };
    let table = TableReport {
        table: "t".into(),
        entries: next() as u32,
        size: next() as u32,
        hit_packets: Some(next()),
        hit_bytes: Some(next()),
    };
    let mut counts = || vec![("one".into(), next()), ("other".into(), next())];
    let lists = [(); 8].map(|()| counts());
    let [stray_counts, learned, learn_failures, idle_notices, idle_removals, ..] = lists.clone();
    let [.., parser_errors, checksum_errors, crc_errors] = lists;
    ProgramReport {
        name: "p".into(),
        engine: "jit",
        counters: vec![cell(1, next(), next()), cell(2, next(), next())],
        more_cells: Vec::new(),
        stray_counts,
        tables: vec![table],
        learned,
        learn_failures,
        idle_notices,
        idle_removals,
        parser_errors,
        checksum_errors,
        crc_errors,
        lost_clones: next(),
    }
}

fn queueing(next: &mut dyn FnMut() -> u64) -> QueueingReport {
    let pool = PoolReport {
        name: "pool".into(),
        reserved_bytes: next(),
        shared_bytes: next(),
        headroom_bytes: next(),
        peak_bytes: next(),
    };
    let queue = QueueReport {
        queue: 3,
        waiting: next() as u32,
        waiting_bytes: next(),
        peak_bytes: next(),
        admitted: next(),
        sent: next(),
        sent_bytes: next(),
        passed: next(),
        passed_bytes: next(),
        dropped: next(),
        refused: next(),
        eligible: next(),
        marked: next(),
        mark_decisions: next(),
        wred_dropped: next(),
        trimmed: next(),
        trim_dropped: next(),
        paused: true,
        storms: next(),
    };
    let group = GroupReport {
        group: 3,
        bytes: next(),
        peak_bytes: next(),
        peak_headroom_bytes: next(),
        xoff_at_bytes: next(),
        stopped: true,
        admitted: next(),
        refused: next(),
        xoff: next(),
        xon: next(),
        not_honoured: next(),
    };
    let pause = PauseReport {
        priority: Some(3),
        sent: next(),
        resumes_sent: next(),
        received: next(),
        resumes_received: next(),
        paused_ns: next(),
    };
    let port = PortQueues {
        port: PortNumber(7),
        rate_bps: Some(next()),
        queues: vec![queue],
        groups: vec![group],
        pauses: vec![pause],
        pauses_ignored: next(),
        control_sent: next(),
        drops: vec![("one", next()), ("other", next())],
    };
    QueueingReport { pools: vec![pool], ports: vec![port] }
}
