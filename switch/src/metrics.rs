//! The statistics in the exposition format of OpenMetrics, which Prometheus reads.
//!
//! Each family is a line of a list: name, help, and the place of the number in [`Statistics`]. Nothing is computed
//! here; a table, JSON and this page have the same numbers. Names follow the conventions of Prometheus: base units,
//! counters in `_total`, a label for each object of several.

mod steered;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use crate::core::{
    CellReport, GroupReport, NotificationReport, PauseReport, PoolReport, PortQueues, PortReport,
    ProgramReport, QueueReport, Statistics, TableReport,
};
use crate::ports::PortNumber;
use crate::ports::faults::FaultCounters;
use crate::recorder::RecorderReport;
use crate::stats::{LedgerReport, LinuxReport};

use Value::{Counter, Gauge, Nanoseconds, Reasons};

/// The content type of the page.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page.
pub fn page(statistics: &Statistics) -> String {
    let mut registry = Registry::with_prefix("wireyard");
    registry.register_collector(Box::new(Snapshot(statistics.clone())));
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut out, &registry);
    out
}

/// A family of samples, of which every `T` has one or more.
struct Family<T> {
    name: &'static str,
    help: &'static str,
    value: Value<T>,
}

enum Value<T> {
    /// Only rises.
    Counter(fn(&T) -> u64),
    /// Only rises, one for each reason.
    Reasons(fn(&T) -> Vec<(&str, u64)>),
    /// Nanoseconds of a counter, shown as seconds.
    Nanoseconds(fn(&T) -> u64),
    /// A gauge; `None` has no sample.
    Gauge(fn(&T) -> Option<u64>),
}

const fn family<T>(name: &'static str, help: &'static str, value: Value<T>) -> Family<T> {
    Family { name, help, value }
}

fn pairs(counts: &[(String, u64)]) -> Vec<(&str, u64)> {
    counts.iter().map(|(reason, count)| (reason.as_str(), *count)).collect()
}

const LEDGER: &[Family<LedgerReport>] = &[
    family("packets_received", "Packets taken from the port.", Counter(|l| l.received)),
    family("packets_generated", "Copies, and packets the device made.", Counter(|l| l.generated)),
    family("packets_sent", "Of these, handed to an egress port.", Counter(|l| l.sent)),
    family("packets_dropped", "Of these, dropped.", Reasons(|l| pairs(&l.dropped))),
    family("packets_consumed", "Of these, for the device itself.", Reasons(|l| pairs(&l.consumed))),
    family("packets_queued", "Of these, in the device now.", Gauge(|l| Some(l.queued))),
    family(
        "packets_balanced",
        "1: received + generated = sent + dropped + consumed + queued.",
        Gauge(|l| Some(l.balanced.into())),
    ),
];

const PORT: &[Family<PortReport>] = &[
    family("port_received_frames", "Frames that arrived.", Counter(|p| p.medium.rx_frames)),
    family("port_received_bytes", "Bytes of these.", Counter(|p| p.medium.rx_bytes)),
    family(
        "port_receive_dropped_frames",
        "Frames that arrived and never reached the switch.",
        Reasons(|p| {
            let medium = &p.medium;
            vec![
                ("kernel", medium.rx_kernel_drops),
                ("too_long", medium.rx_too_long),
                ("gso", medium.rx_gso),
                ("error", medium.rx_errors),
                ("down", medium.rx_down),
            ]
        }),
    ),
    family(
        "port_received_large_frames",
        "Frames of several segments that the port cut.",
        Counter(|p| p.medium.rx_segmented),
    ),
    family(
        "port_receive_waits",
        "Times that receiving stopped for want of packet memory.",
        Counter(|p| p.medium.rx_no_memory),
    ),
    family(
        "port_checksums_finished",
        "Frames whose checksum the port finished.",
        Counter(|p| p.medium.rx_checksums_finished),
    ),
    family("port_sent_frames", "Frames handed to the medium.", Counter(|p| p.medium.tx_frames)),
    family("port_sent_bytes", "Bytes of these.", Counter(|p| p.medium.tx_bytes)),
    family(
        "port_send_dropped_frames",
        "Frames that the port gave up.",
        Reasons(|p| {
            let medium = &p.medium;
            vec![
                ("down", medium.tx_down),
                ("too_long", medium.tx_too_long),
                ("error", medium.tx_errors),
            ]
        }),
    ),
    family("port_send_waits", "Times the medium had no room.", Counter(|p| p.medium.tx_full)),
];

const LINUX: &[Family<LinuxReport>] = &[
    family(
        "linux_received_packets",
        "Punted packets that the kernel received.",
        Counter(|l| l.packets_to_kernel),
    ),
    family(
        "linux_receive_dropped_packets",
        "Punted packets that the kernel did not receive.",
        Reasons(|l| {
            vec![("interface_down", l.packets_refused_by_kernel), ("too_many", l.packets_lost)]
        }),
    ),
    family(
        "linux_sent_packets",
        "Packets that the kernel sent by ports.",
        Counter(|l| l.packets_from_kernel),
    ),
    family(
        "linux_send_dropped_packets",
        "Packets of the kernel that found no room.",
        Counter(|l| l.packets_not_sent),
    ),
    family(
        "linux_news_lost",
        "Times that news of routes were lost and all was read again.",
        Counter(|l| l.news_lost),
    ),
    family("linux_resyncs", "Times that all was read.", Counter(|l| l.resyncs)),
    family("linux_writes_refused", "Entries that a table refused.", Counter(|l| l.writes_refused)),
    family("linux_neighbours", "Neighbours that the kernel knows.", Gauge(|l| Some(l.neighbours))),
    family("linux_routes4", "IPv4 prefixes in the table.", Gauge(|l| Some(l.routes4))),
    family("linux_routes6", "IPv6 prefixes in the table.", Gauge(|l| Some(l.routes6))),
    family("linux_next_hops", "Next hops in use.", Gauge(|l| Some(l.next_hops))),
    family("linux_groups", "Sets of next hops.", Gauge(|l| Some(l.groups))),
    family(
        "linux_routes_of_kernel",
        "Routes that the kernel follows itself.",
        Gauge(|l| Some(l.routes_of_kernel)),
    ),
    family(
        "linux_routes_missing",
        "Prefixes that the table refused.",
        Gauge(|l| Some(l.routes_missing)),
    ),
];

const PROGRAM: &[Family<ProgramReport>] = &[
    family(
        "program_stray_counts",
        "Counts at an index that a counter does not have.",
        Reasons(|p| pairs(&p.stray_counts)),
    ),
    family(
        "program_learned",
        "Entries that packets made or changed.",
        Reasons(|p| pairs(&p.learned)),
    ),
    family(
        "program_learn_failures",
        "Entries that could not be learned.",
        Reasons(|p| pairs(&p.learn_failures)),
    ),
    family(
        "program_idle_notices",
        "Entries that became idle and stay.",
        Reasons(|p| pairs(&p.idle_notices)),
    ),
    family(
        "program_idle_removals",
        "Idle entries that were removed.",
        Reasons(|p| pairs(&p.idle_removals)),
    ),
    family(
        "program_parser_error_packets",
        "What parsers found wrong.",
        Reasons(|p| pairs(&p.parser_errors)),
    ),
    family(
        "program_wrong_checksum_packets",
        "Packets with a wrong checksum.",
        Reasons(|p| pairs(&p.checksum_errors)),
    ),
    family(
        "program_wrong_crc_packets",
        "Packets with a wrong CRC.",
        Reasons(|p| pairs(&p.crc_errors)),
    ),
    family("program_lost_clones", "Clones requested and not made.", Counter(|p| p.lost_clones)),
];

const CELL: &[Family<CellReport>] = &[
    family("program_counter_packets", "A counter of the program.", Counter(|c| c.packets)),
    family("program_counter_bytes", "Bytes of it.", Counter(|c| c.bytes)),
];

const TABLE: &[Family<TableReport>] = &[
    family("table_entries", "Entries in the table.", Gauge(|t| Some(t.entries.into()))),
    family("table_size", "Most entries.", Gauge(|t| Some(t.size.into()))),
    family("table_hit_packets", "Packets that met an entry.", Gauge(|t| t.hit_packets)),
    family("table_hit_bytes", "Bytes of these.", Gauge(|t| t.hit_bytes)),
];

const QUEUES: &[Family<PortQueues>] = &[
    family("port_rate_bits_per_second", "Rate of the port.", Gauge(|p| p.rate_bps)),
    family(
        "port_pauses_ignored",
        "Received pauses that the port does not honour.",
        Counter(|p| p.pauses_ignored),
    ),
    family("port_control_sent_frames", "MAC control frames sent.", Counter(|p| p.control_sent)),
    family(
        "port_queueing_dropped_packets",
        "Packets that the traffic manager dropped or refused.",
        Reasons(|p| p.drops.clone()),
    ),
];

const QUEUE: &[Family<QueueReport>] = &[
    family("queue_waiting_packets", "Packets in the queue.", Gauge(|q| Some(q.waiting.into()))),
    family("queue_waiting_bytes", "Bytes in the queue.", Gauge(|q| Some(q.waiting_bytes))),
    family("queue_peak_bytes", "Most bytes so far: watermark.", Gauge(|q| Some(q.peak_bytes))),
    family("queue_admitted_packets", "Packets that entered.", Counter(|q| q.admitted)),
    family("queue_sent_packets", "Packets that left by the wire.", Counter(|q| q.sent)),
    family("queue_sent_bytes", "Bytes of these.", Counter(|q| q.sent_bytes)),
    family("queue_passed_packets", "Packets sent without waiting.", Counter(|q| q.passed)),
    family("queue_passed_bytes", "Bytes of these.", Counter(|q| q.passed_bytes)),
    family("queue_dropped_packets", "Dropped after they entered.", Counter(|q| q.dropped)),
    family("queue_refused_packets", "Not admitted.", Counter(|q| q.refused)),
    family(
        "queue_eligible_packets",
        "ECN-capable packets that the congestion point looked at.",
        Counter(|q| q.eligible),
    ),
    family("queue_marked_packets", "Of these, marked by the program.", Counter(|q| q.marked)),
    family("queue_mark_decisions", "Of these, chosen to be marked.", Counter(|q| q.mark_decisions)),
    family("queue_wred_dropped_packets", "Dropped by WRED.", Counter(|q| q.wred_dropped)),
    family(
        "queue_trimmed_packets",
        "Not admitted, cut and offered to the queue for trimmed packets.",
        Counter(|q| q.trimmed),
    ),
    family(
        "queue_trim_dropped_packets",
        "Of these, what that queue had no room for.",
        Counter(|q| q.trim_dropped),
    ),
    family("queue_paused", "1: stopped by the peer.", Gauge(|q| Some(q.paused.into()))),
    family("queue_storms", "Pause storms that the watchdog found.", Counter(|q| q.storms)),
];

const GROUP: &[Family<GroupReport>] = &[
    family("group_bytes", "Bytes that the group holds.", Gauge(|g| Some(g.bytes))),
    family("group_peak_bytes", "Most so far: watermark.", Gauge(|g| Some(g.peak_bytes))),
    family(
        "group_headroom_peak_bytes",
        "Most of the headroom in use so far.",
        Gauge(|g| Some(g.peak_headroom_bytes)),
    ),
    family("group_xoff_bytes", "XOFF is sent at so many.", Gauge(|g| Some(g.xoff_at_bytes))),
    family("group_stopped", "1: the peer is paused.", Gauge(|g| Some(g.stopped.into()))),
    family("group_admitted_packets", "Packets charged.", Counter(|g| g.admitted)),
    family("group_refused_packets", "Packets refused.", Counter(|g| g.refused)),
    family("group_xoff", "Times that XOFF was decided.", Counter(|g| g.xoff)),
    family("group_xon", "Times that XON was decided.", Counter(|g| g.xon)),
    family(
        "group_not_honoured_packets",
        "Packets that came later after XOFF than a peer that honours it sends.",
        Counter(|g| g.not_honoured),
    ),
];

const PAUSE: &[Family<PauseReport>] = &[
    family("pause_sent_frames", "Pauses sent, refreshes too.", Counter(|p| p.sent)),
    family("pause_resumes_sent_frames", "Resumes sent.", Counter(|p| p.resumes_sent)),
    family("pause_received_frames", "Pauses received.", Counter(|p| p.received)),
    family("pause_resumes_received_frames", "Resumes received.", Counter(|p| p.resumes_received)),
    family("pause_paused_seconds", "Time spent paused.", Nanoseconds(|p| p.paused_ns)),
];

const POOL: &[Family<PoolReport>] = &[
    family("pool_reserved_bytes", "Reserved bytes in use.", Gauge(|p| Some(p.reserved_bytes))),
    family("pool_shared_bytes", "Shared bytes in use.", Gauge(|p| Some(p.shared_bytes))),
    family("pool_headroom_bytes", "Headroom in use.", Gauge(|p| Some(p.headroom_bytes))),
    family("pool_peak_bytes", "Most bytes so far: watermark.", Gauge(|p| Some(p.peak_bytes))),
];

const DIGESTS: &[Family<Statistics>] = &[family(
    "lost_digests",
    "Digests that found no room in front of their readers.",
    Counter(|s| s.lost_digests),
)];

const NOTIFICATION: &[Family<NotificationReport>] = &[
    family("congestion_reported_packets", "Marks that programs reported.", Counter(|n| n.reported)),
    family("cnp_sent", "CNPs sent.", Counter(|n| n.cnp_sent)),
    family(
        "cnp_not_sent",
        "Reported marks that no CNP answered.",
        Reasons(|n| {
            vec![
                ("suppressed", n.cnp_suppressed),
                ("no_queue_pair", n.cnp_no_qp_pair),
                ("never_answered", n.ignored),
                ("not_transport", n.not_transport),
                ("unbuildable", n.unbuildable),
            ]
        }),
    ),
    family("cnp_intervals_evicted", "Intervals ended early.", Counter(|n| n.evicted)),
];

const FAULTS: &[Family<FaultCounters>] = &[
    family("port_fault_frames", "Frames that a fault was put on.", Reasons(|f| f.named().to_vec())),
    family("port_fault_under_way_frames", "Frames that are late.", Gauge(|f| Some(f.under_way))),
];

const CAPTURE: &[Family<RecorderReport>] = &[
    family("capture_records", "Records made for the file.", Counter(|c| c.records)),
    family("capture_lost_records", "Records that found no room.", Counter(|c| c.lost)),
    family(
        "capture_left_out_records",
        "Records that did not meet the filter.",
        Counter(|c| c.left_out),
    ),
    family("capture_failed", "1: it cannot be written.", Gauge(|c| Some(c.error.is_some().into()))),
];

/// The labels of a sample.
type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Snapshot(Statistics);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut encoder;
        let statistics = &self.0;
        names(out, &statistics.ports)?;
        let port = |number: PortNumber| vec![("port", number.to_string())];
        let ledgers = statistics.ports.iter().map(|p| (port(p.port), &p.ledger));
        let cpu = (vec![("port", "cpu".to_owned())], &statistics.cpu);
        let removed = statistics.removed.iter();
        let removed = removed.map(|ledger| (vec![("port", "removed".to_owned())], ledger));
        families(out, LEDGER, &ledgers.chain([cpu]).chain(removed).collect::<Vec<_>>())?;
        let ports = statistics.ports.iter().map(|p| (port(p.port), p));
        families(out, PORT, &ports.collect::<Vec<_>>())?;
        let faults = statistics.ports.iter().filter_map(|p| Some((p.port, p.faults.as_ref()?)));
        let ways = faults.flat_map(|(p, f)| [(p, "received", &f.received), (p, "sent", &f.sent)]);
        let ways = ways
            .map(|(p, way, f)| (vec![("port", p.to_string()), ("direction", way.to_owned())], f));
        families(out, FAULTS, &ways.collect::<Vec<_>>())?;
        if let Some(program) = &statistics.program {
            engine(out, program)?;
            families(out, PROGRAM, &[(Labels::new(), program)])?;
            let cell = |cell: &CellReport| {
                vec![("counter", cell.counter.clone()), ("index", cell.index.to_string())]
            };
            let cells = program.counters.iter().map(|c| (cell(c), c));
            families(out, CELL, &cells.collect::<Vec<_>>())?;
            let tables = program.tables.iter().map(|t| (vec![("table", t.table.clone())], t));
            families(out, TABLE, &tables.collect::<Vec<_>>())?;
        }
        if let Some(queueing) = &statistics.queueing {
            let ports = &queueing.ports;
            let with = |p: &PortQueues, name, number: u8| {
                vec![("port", p.port.to_string()), (name, number.to_string())]
            };
            let pause_labels = |p: &PortQueues, s: &PauseReport| {
                let of = s.priority.map_or("link".to_owned(), |priority| priority.to_string());
                vec![("port", p.port.to_string()), ("priority", of)]
            };
            let of_port = ports.iter().map(|p| (port(p.port), p));
            families(out, QUEUES, &of_port.collect::<Vec<_>>())?;
            let queues = ports.iter();
            let queues =
                queues.flat_map(|p| p.queues.iter().map(move |q| (with(p, "queue", q.queue), q)));
            families(out, QUEUE, &queues.collect::<Vec<_>>())?;
            let groups = ports.iter();
            let groups =
                groups.flat_map(|p| p.groups.iter().map(move |g| (with(p, "group", g.group), g)));
            families(out, GROUP, &groups.collect::<Vec<_>>())?;
            let pauses = ports.iter();
            let pauses = pauses.flat_map(|p| p.pauses.iter().map(move |s| (pause_labels(p, s), s)));
            families(out, PAUSE, &pauses.collect::<Vec<_>>())?;
            let pools = queueing.pools.iter().map(|p| (vec![("pool", p.name.clone())], p));
            families(out, POOL, &pools.collect::<Vec<_>>())?;
        }
        let linux = statistics.linux.iter().map(|l| (Labels::new(), l));
        families(out, LINUX, &linux.collect::<Vec<_>>())?;
        steered::encode(out, statistics)?;
        let notification = statistics.notification.iter().map(|n| (Labels::new(), n));
        families(out, NOTIFICATION, &notification.collect::<Vec<_>>())?;
        families(out, DIGESTS, &[(Labels::new(), statistics)])?;
        let captures = statistics.captures.iter().map(|c| (vec![("file", c.file.clone())], c));
        families(out, CAPTURE, &captures.collect::<Vec<_>>())
    }
}

/// Names of the ports, beside their numbers.
fn names(out: &mut DescriptorEncoder<'_>, ports: &[PortReport]) -> fmt::Result {
    let mut family = out.encode_descriptor("port", "A port.", None, MetricType::Info)?;
    for port in ports {
        let labels = [("port", port.port.to_string()), ("name", port.name.clone())];
        family.encode_info(&labels)?;
    }
    Ok(())
}

/// The engine: a label, as its name is no number.
fn engine(out: &mut DescriptorEncoder<'_>, program: &ProgramReport) -> fmt::Result {
    let help = "The program, and the engine that runs its packets now.";
    let mut family = out.encode_descriptor("program", help, None, MetricType::Info)?;
    family.encode_info(&[("name", program.name.as_str()), ("engine", program.engine)])
}

/// Every family of a list, with a sample of each item.
fn families<T>(
    out: &mut DescriptorEncoder<'_>,
    families: &[Family<T>],
    items: &[(Labels, &T)],
) -> fmt::Result {
    for Family { name, help, value } in families {
        // In every family with a unit, the name ends with it.
        let units = [("_bytes", Unit::Bytes), ("_seconds", Unit::Seconds)];
        let split = units.iter().find_map(|(end, unit)| Some((name.strip_suffix(end)?, unit)));
        let (name, unit) = split.map_or((*name, None), |(name, unit)| (name, Some(unit)));
        let kind = match value {
            Gauge(_) => MetricType::Gauge,
            _ => MetricType::Counter,
        };
        let mut family = out.encode_descriptor(name, help, unit, kind)?;
        for (labels, item) in items {
            samples(&mut family, labels, value, item)?;
        }
    }
    Ok(())
}

fn samples<T>(
    family: &mut MetricEncoder<'_>,
    labels: &Labels,
    value: &Value<T>,
    item: &T,
) -> fmt::Result {
    let none = None::<&Exemplar<NoLabelSet, f64>>;
    match value {
        Counter(count) => family.encode_family(labels)?.encode_counter(&count(item), none)?,
        Nanoseconds(count) => {
            let seconds = count(item) as f64 / 1e9;
            family.encode_family(labels)?.encode_counter(&seconds, none)?;
        }
        Gauge(level) => {
            if let Some(level) = level(item) {
                family.encode_family(labels)?.encode_gauge(&level)?;
            }
        }
        Reasons(counts) => {
            for (reason, count) in counts(item) {
                let labels = [labels.as_slice(), &[("reason", reason.to_owned())]].concat();
                family.encode_family(&labels)?.encode_counter(&count, none)?;
            }
        }
    }
    Ok(())
}
