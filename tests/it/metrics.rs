//! `run --metrics`: what Prometheus reads is what the table and JSON say.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

mod dashboard;
mod numbers;
mod prometheus;
mod requests;
mod steered;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_tests::live::Switch;

use crate::queues;
use crate::rig::{Wire, ip, private_network, veth};

const PROGRAM: &str = "programs/rocev2_lossless";

/// Port 2 is so slow that a pause lasts 3.3 s, and marks everything behind the second packet.
const CONFIG: &str = "ports: { 1: { rate: 1Gbps }, 2: { rate: 10Mbps } }
qos:
  preset: sonic_azure
  wred_profiles: { all: { green: { kmin: 1 KB, kmax: 2 KB, pmax: 100 % } } }
  dscp_to_tc_maps: { roce: { 26: 3, default: 0 } }
  port_defaults: { dscp_to_tc_map: roce, queue_wred: { 3: all }, pfcwd: { detection_time: 60 s, action: alert } }
";

type Samples = BTreeMap<String, f64>;

/// An HTTP request: status and body.
fn request(address: &str, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    (status, body.to_owned())
}

/// The samples of a page, by name and labels as they are written.
fn samples(page: &str) -> Samples {
    assert!(page.ends_with("# EOF\n"), "OpenMetrics ends with # EOF: {page}");
    let lines = page.lines().filter(|line| !line.starts_with("# "));
    let mut found = Samples::new();
    for line in lines {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        let name = name.strip_prefix("wireyard_").unwrap_or_else(|| panic!("{line}"));
        // No labels may be written as empty ones.
        let name = name.trim_end_matches("{}").to_owned();
        let twice = found.insert(name, value.parse().expect("a number"));
        assert!(twice.is_none(), "{line}: twice");
    }
    found
}

fn scrape(address: &str) -> Samples {
    let (status, body) = request(address, "GET", "/metrics");
    assert_eq!(status, 200, "{body}");
    samples(&body)
}

/// The address that a switch says it serves.
fn address(switch: &mut Switch) -> String {
    switch.await_text("/metrics", Duration::from_secs(10));
    let err = switch.err();
    let at = err.split("http://").nth(1).expect("an address");
    at.split('/').next().expect("an address").to_owned()
}

const MEDIUM: [(&str, &str); 16] = [
    ("rx_frames", "port_received_frames_total{L}"),
    ("rx_bytes", "port_received_bytes_total{L}"),
    ("rx_kernel_drops", "port_receive_dropped_frames_total{L,reason=\"kernel\"}"),
    ("rx_too_long", "port_receive_dropped_frames_total{L,reason=\"too_long\"}"),
    ("rx_gso", "port_receive_dropped_frames_total{L,reason=\"gso\"}"),
    ("rx_segmented", "port_received_large_frames_total{L}"),
    ("rx_errors", "port_receive_dropped_frames_total{L,reason=\"error\"}"),
    ("rx_down", "port_receive_dropped_frames_total{L,reason=\"down\"}"),
    ("rx_no_memory", "port_receive_waits_total{L}"),
    ("rx_checksums_finished", "port_checksums_finished_total{L}"),
    ("tx_frames", "port_sent_frames_total{L}"),
    ("tx_bytes", "port_sent_bytes_total{L}"),
    ("tx_full", "port_send_waits_total{L}"),
    ("tx_down", "port_send_dropped_frames_total{L,reason=\"down\"}"),
    ("tx_too_long", "port_send_dropped_frames_total{L,reason=\"too_long\"}"),
    ("tx_errors", "port_send_dropped_frames_total{L,reason=\"error\"}"),
];

const LEDGER: [(&str, &str); 7] = [
    ("received", "packets_received_total{L}"),
    ("generated", "packets_generated_total{L}"),
    ("sent", "packets_sent_total{L}"),
    ("queued", "packets_queued{L}"),
    ("balanced", "packets_balanced{L}"),
    ("dropped", "packets_dropped_total{L,reason=\"R\"}"),
    ("consumed", "packets_consumed_total{L,reason=\"R\"}"),
];

const PORT_QUEUES: [(&str, &str); 4] = [
    ("rate_bps", "port_rate_bits_per_second{L}"),
    ("pauses_ignored", "port_pauses_ignored_total{L}"),
    ("control_sent", "port_control_sent_frames_total{L}"),
    ("drops", "port_queueing_dropped_packets_total{L,reason=\"R\"}"),
];

const QUEUE: [(&str, &str); 18] = [
    ("waiting", "queue_waiting_packets{L}"),
    ("waiting_bytes", "queue_waiting_bytes{L}"),
    ("peak_bytes", "queue_peak_bytes{L}"),
    ("admitted", "queue_admitted_packets_total{L}"),
    ("sent", "queue_sent_packets_total{L}"),
    ("sent_bytes", "queue_sent_bytes_total{L}"),
    ("passed", "queue_passed_packets_total{L}"),
    ("passed_bytes", "queue_passed_bytes_total{L}"),
    ("dropped", "queue_dropped_packets_total{L}"),
    ("refused", "queue_refused_packets_total{L}"),
    ("eligible", "queue_eligible_packets_total{L}"),
    ("marked", "queue_marked_packets_total{L}"),
    ("mark_decisions", "queue_mark_decisions_total{L}"),
    ("wred_dropped", "queue_wred_dropped_packets_total{L}"),
    ("trimmed", "queue_trimmed_packets_total{L}"),
    ("trim_dropped", "queue_trim_dropped_packets_total{L}"),
    ("paused", "queue_paused{L}"),
    ("storms", "queue_storms_total{L}"),
];

const GROUP: [(&str, &str); 10] = [
    ("bytes", "group_bytes{L}"),
    ("peak_bytes", "group_peak_bytes{L}"),
    ("peak_headroom_bytes", "group_headroom_peak_bytes{L}"),
    ("xoff_at_bytes", "group_xoff_bytes{L}"),
    ("stopped", "group_stopped{L}"),
    ("admitted", "group_admitted_packets_total{L}"),
    ("refused", "group_refused_packets_total{L}"),
    ("xoff", "group_xoff_total{L}"),
    ("xon", "group_xon_total{L}"),
    ("not_honoured", "group_not_honoured_packets_total{L}"),
];

const PAUSE: [(&str, &str); 5] = [
    ("sent", "pause_sent_frames_total{L}"),
    ("resumes_sent", "pause_resumes_sent_frames_total{L}"),
    ("received", "pause_received_frames_total{L}"),
    ("resumes_received", "pause_resumes_received_frames_total{L}"),
    ("paused_ns", "pause_paused_seconds_total{L}"),
];

const POOL: [(&str, &str); 4] = [
    ("reserved_bytes", "pool_reserved_bytes{L}"),
    ("shared_bytes", "pool_shared_bytes{L}"),
    ("headroom_bytes", "pool_headroom_bytes{L}"),
    ("peak_bytes", "pool_peak_bytes{L}"),
];

const FAULTS: [(&str, &str); 8] = [
    ("lost", "port_fault_frames_total{L,reason=\"lost\"}"),
    ("corrupted", "port_fault_frames_total{L,reason=\"corrupted\"}"),
    ("duplicated", "port_fault_frames_total{L,reason=\"duplicated\"}"),
    ("reordered", "port_fault_frames_total{L,reason=\"reordered\"}"),
    ("delayed", "port_fault_frames_total{L,reason=\"delayed\"}"),
    ("overflowed", "port_fault_frames_total{L,reason=\"overflowed\"}"),
    ("cut", "port_fault_frames_total{L,reason=\"cut\"}"),
    ("under_way", "port_fault_under_way_frames{L}"),
];

const NOTIFICATION: [(&str, &str); 8] = [
    ("reported", "congestion_reported_packets_total"),
    ("cnp_sent", "cnp_sent_total"),
    ("cnp_suppressed", "cnp_not_sent_total{reason=\"suppressed\"}"),
    ("cnp_no_qp_pair", "cnp_not_sent_total{reason=\"no_queue_pair\"}"),
    ("ignored", "cnp_not_sent_total{reason=\"never_answered\"}"),
    ("not_transport", "cnp_not_sent_total{reason=\"not_transport\"}"),
    ("unbuildable", "cnp_not_sent_total{reason=\"unbuildable\"}"),
    ("evicted", "cnp_intervals_evicted_total"),
];

const LINUX: [(&str, &str); 15] = [
    ("packets_to_kernel", "linux_received_packets_total"),
    ("packets_refused_by_kernel", "linux_receive_dropped_packets_total{reason=\"interface_down\"}"),
    ("packets_lost", "linux_receive_dropped_packets_total{reason=\"too_many\"}"),
    ("packets_from_kernel", "linux_sent_packets_total"),
    ("packets_not_sent", "linux_send_dropped_packets_total"),
    ("news_lost", "linux_news_lost_total"),
    ("resyncs", "linux_resyncs_total"),
    ("writes_refused", "linux_writes_refused_total"),
    ("neighbours", "linux_neighbours"),
    ("routes4", "linux_routes4"),
    ("routes6", "linux_routes6"),
    ("next_hops", "linux_next_hops"),
    ("groups", "linux_groups"),
    ("routes_of_kernel", "linux_routes_of_kernel"),
    ("routes_missing", "linux_routes_missing"),
];

const PROGRAM_COUNTS: [(&str, &str); 9] = [
    ("stray_counts", "program_stray_counts_total{reason=\"R\"}"),
    ("learned", "program_learned_total{reason=\"R\"}"),
    ("learn_failures", "program_learn_failures_total{reason=\"R\"}"),
    ("idle_notices", "program_idle_notices_total{reason=\"R\"}"),
    ("idle_removals", "program_idle_removals_total{reason=\"R\"}"),
    ("parser_errors", "program_parser_error_packets_total{reason=\"R\"}"),
    ("checksum_errors", "program_wrong_checksum_packets_total{reason=\"R\"}"),
    ("crc_errors", "program_wrong_crc_packets_total{reason=\"R\"}"),
    ("lost_clones", "program_lost_clones_total"),
];

const CELL: [(&str, &str); 2] =
    [("packets", "program_counter_packets_total{L}"), ("bytes", "program_counter_bytes_total{L}")];

const TABLE: [(&str, &str); 4] = [
    ("entries", "table_entries{L}"),
    ("size", "table_size{L}"),
    ("hit_packets", "table_hit_packets{L}"),
    ("hit_bytes", "table_hit_bytes{L}"),
];

const CAPTURE: [(&str, &str); 3] = [
    ("records", "capture_records_total{L}"),
    ("lost", "capture_lost_records_total{L}"),
    ("left_out", "capture_left_out_records_total{L}"),
];

/// Keys of the JSON form with the samples they are.
type Names = &'static [(&'static str, &'static str)];

/// What the page should say for an object of the JSON form. A key that is not in `names` is one that the page has not.
fn expect(
    out: &mut Samples,
    object: &Value,
    labels: &str,
    names: &[(&str, &str)],
    others: &[&str],
) {
    for (key, value) in object.as_object().expect("an object") {
        if others.contains(&key.as_str()) {
            continue;
        }
        let name = names.iter().find(|(known, _)| known == key);
        let name = name.unwrap_or_else(|| panic!("the page has no `{key}`")).1;
        let name = name.replace('L', labels);
        let number = |value: &Value| match value {
            Value::Bool(yes) => f64::from(u8::from(*yes)),
            number => number.as_f64().unwrap_or_else(|| panic!("{key}: {number}")),
        };
        match value {
            Value::Null => {}
            Value::Array(reasons) => {
                for pair in reasons {
                    let name = name.replace("\"R\"", &pair[0].to_string());
                    out.insert(name, number(&pair[1]));
                }
            }
            value if key.ends_with("_ns") => _ = out.insert(name, number(value) / 1e9),
            value => _ = out.insert(name, number(value)),
        }
    }
}

/// The page that belongs to a report in JSON.
fn page_of(report: &Value) -> Samples {
    let mut out = Samples::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    expect(&mut out, &report["cpu"], "port=\"cpu\"", &LEDGER, &[]);
    for port in list(&report["ports"]) {
        let labels = format!("port=\"{}\"", port["port"]);
        expect(&mut out, &port["ledger"], &labels, &LEDGER, &[]);
        expect(&mut out, &port["medium"], &labels, &MEDIUM, &[]);
        out.insert(format!("port_info{{{labels},name={}}}", port["name"]), 1.0);
        for way in ["received", "sent"] {
            if let Some(counters) = port["faults"].get(way) {
                expect(&mut out, counters, &format!("{labels},direction=\"{way}\""), &FAULTS, &[]);
            }
        }
    }
    if let Some(removed) = report.get("removed") {
        expect(&mut out, removed, "port=\"removed\"", &LEDGER, &[]);
    }
    let program = &report["program"];
    let others = ["name", "engine", "counters", "more_cells", "tables"];
    expect(&mut out, program, "", &PROGRAM_COUNTS, &others);
    let (name, engine) = (&program["name"], &program["engine"]);
    out.insert(format!("program_info{{name={name},engine={engine}}}"), 1.0);
    for cell in list(&program["counters"]) {
        let labels = format!("counter={},index=\"{}\"", cell["counter"], cell["index"]);
        expect(&mut out, &cell, &labels, &CELL, &["counter", "index"]);
    }
    for table in list(&program["tables"]) {
        expect(&mut out, &table, &format!("table={}", table["table"]), &TABLE, &["table"]);
    }
    if let Some(notification) = report.get("notification") {
        expect(&mut out, notification, "", &NOTIFICATION, &[]);
    }
    let lost_digests = report.get("lost_digests").and_then(Value::as_f64).unwrap_or(0.0);
    out.insert("lost_digests_total".to_owned(), lost_digests);
    if let Some(linux) = report.get("linux") {
        expect(&mut out, linux, "", &LINUX, &[]);
    }
    steered::page_of(&mut out, report);
    for capture in list(&report["captures"]) {
        let labels = format!("file={}", capture["file"]);
        expect(&mut out, &capture, &labels, &CAPTURE, &["file", "ports", "state", "error"]);
        let failed = capture.get("error").is_some();
        out.insert(format!("capture_failed{{{labels}}}"), f64::from(u8::from(failed)));
    }
    for port in list(&report["queueing"]["ports"]) {
        let labels = format!("port=\"{}\"", port["port"]);
        let others = ["port", "queues", "groups", "pauses"];
        expect(&mut out, &port, &labels, &PORT_QUEUES, &others);
        let parts: [(&str, &str, Names); 3] = [
            ("queues", "queue", &QUEUE),
            ("groups", "group", &GROUP),
            ("pauses", "priority", &PAUSE),
        ];
        for (part, number, names) in parts {
            for item in list(&port[part]) {
                let labels = format!("{labels},{number}=\"{}\"", item[number]);
                expect(&mut out, &item, &labels, names, &[number]);
                // The report leaves out what a queue that does not trim never counts.
                if part == "queues" {
                    for name in ["queue_trimmed", "queue_trim_dropped"] {
                        let name = format!("{name}_packets_total{{{labels}}}");
                        out.entry(name).or_insert(0.0);
                    }
                }
            }
        }
    }
    for pool in list(&report["queueing"]["pools"]) {
        expect(&mut out, &pool, &format!("pool={}", pool["name"]), &POOL, &["name"]);
    }
    out
}

/// The last report that the switch printed after so many.
fn reports(switch: &Switch) -> Vec<Value> {
    let out = switch.out();
    let all = serde_json::Deserializer::from_str(&out).into_iter::<Value>();
    all.map_while(Result::ok).collect()
}

/// All but the time that a priority has been paused, which grows while the pause lasts.
fn still(samples: &Samples) -> Samples {
    let moves = |name: &str| name.starts_with("pause_paused_seconds_total");
    samples.iter().filter(|(name, _)| !moves(name)).map(|(n, v)| (n.clone(), *v)).collect()
}

/// A report and the page of the same moment: nothing changed while they were taken.
fn report_and_page(switch: &Switch, address: &str) -> (Value, Samples) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < deadline, "it never stands still");
        let before = scrape(address);
        let known = reports(switch).len();
        switch.signal("USR1");
        while reports(switch).len() == known {
            assert!(Instant::now() < deadline, "no report");
            std::thread::sleep(Duration::from_millis(10));
        }
        // Older than a page is kept.
        std::thread::sleep(Duration::from_millis(60));
        if still(&scrape(address)) == still(&before) {
            return (reports(switch).pop().expect("one more"), before);
        }
    }
}

fn pfc(quanta: u16) -> Vec<u8> {
    queues::pfc(3, quanta).to_vec()
}

/// Waits until a sample has a value.
fn await_sample(address: &str, name: &str, value: f64) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while scrape(address).get(name) != Some(&value) {
        assert!(Instant::now() < deadline, "{name} is {:?}", scrape(address).get(name));
    }
}

fn write_config() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switch.yaml");
    std::fs::write(&path, CONFIG).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

/// Marks, a pause, a queue that waits, drops and a pool in use: every number of the report is on the page, and no other.
#[test]
fn the_page_says_what_the_report_says() {
    let Some(_network) = private_network("the_page_says_what_the_report_says") else { return };
    ip("link set lo up");
    veth("sw1", "host1");
    veth("sw2", "host2");
    let (_folder, config) = write_config();
    let mut switch = Switch::on(
        PROGRAM,
        &["1=raw:sw1", "2=raw:sw2"],
        &["--config", &config, "--metrics", "127.0.0.1:0", "--json"],
    );
    let address = address(&mut switch);
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    host2.send(&[pfc(65_535)]);
    await_sample(&address, "queue_paused{port=\"2\",queue=\"3\"}", 1.0);
    let frames: Vec<Vec<u8>> = (0..20).map(|n| queues::frame(1, 2, 26, 2, n, 1000)).collect();
    host1.send(&frames);
    await_sample(&address, "queue_waiting_packets{port=\"2\",queue=\"3\"}", 20.0);
    let (report, page) = report_and_page(&switch, &address);
    assert_eq!(still(&page_of(&report)), still(&page), "while packets wait");
    assert!(page["pause_paused_seconds_total{port=\"2\",priority=\"3\"}"] > 0.0, "it lasts");
    assert_eq!(page["queue_waiting_bytes{port=\"2\",queue=\"3\"}"], 20_000.0);

    host2.send(&[pfc(0)]);
    assert_eq!(host2.receive(20).len(), 20);
    let (report, page) = report_and_page(&switch, &address);
    assert_eq!(page_of(&report), page, "after they left");
    // 20 frames, the last two see 1000 and 0 bytes behind them.
    assert_eq!(page["queue_marked_packets_total{port=\"2\",queue=\"3\"}"], 18.0);
    // The program counts them too, in a counter and in a table of its own.
    assert_eq!(page["program_counter_packets_total{counter=\"ce_marked\",index=\"2\"}"], 18.0);
    assert!(page["table_hit_packets{table=\"transport_class\"}"] >= 0.0);
    assert_eq!(page["pause_resumes_received_frames_total{port=\"2\",priority=\"3\"}"], 1.0);
    assert!(page["pause_paused_seconds_total{port=\"2\",priority=\"3\"}"] > 0.0);
    assert_eq!(page["packets_consumed_total{port=\"2\",reason=\"mac_control\"}"], 2.0);
    assert_eq!(report["total"]["balanced"], true);
    switch.end("INT").expect(0, &[]);
}

/// The numbers of the table, in its order, are those of the page.
#[test]
fn the_table_says_what_the_page_says() {
    let Some(_network) = private_network("the_table_says_what_the_page_says") else { return };
    ip("link set lo up");
    veth("sw1", "host1");
    veth("sw2", "host2");
    let mut switch =
        Switch::on(PROGRAM, &["1=raw:sw1", "2=raw:sw2"], &["--metrics", "127.0.0.1:0"]);
    let address = address(&mut switch);
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    host1.send(&(0..7).map(|n| queues::frame(1, 2, 26, 2, n, 100)).collect::<Vec<_>>());
    host2.send(&[queues::frame(2, 1, 0, 0, 0, 200), pfc(0)]);
    await_sample(&address, "packets_received_total{port=\"1\"}", 7.0);
    await_sample(&address, "packets_received_total{port=\"2\"}", 2.0);
    let page = scrape(&address);
    let ended = switch.end("INT");
    let sum = |name: &str, port: &str| {
        let ours = |key: &str| key.starts_with(name) && key.contains(&format!("port=\"{port}"));
        page.iter().filter(|(key, _)| ours(key)).map(|(_, value)| *value).sum::<f64>()
    };
    for port in ["1", "2"] {
        let mut row = vec![port.parse().unwrap()];
        for name in [
            "packets_received_total",
            "port_sent_frames_total",
            "packets_dropped_total",
            "packets_consumed_total",
            "port_receive_dropped_frames_total",
        ] {
            row.push(sum(name, port));
        }
        let is_row = |line: &&str| line.trim_start().starts_with(&format!("{port}  raw:sw{port}"));
        let line = ended.expect(0, &[]).out.lines().find(is_row).expect("a row of the port");
        let numbers: Vec<f64> =
            line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(numbers, row, "{line}");
    }
    let all = |name: &str| ["1", "2", "cpu"].iter().map(|port| sum(name, port)).sum::<f64>();
    let names = ["received", "generated", "sent", "dropped", "consumed"];
    let mut total = names.map(|name| all(&format!("packets_{name}_total"))).to_vec();
    total.push(all("packets_queued"));
    let line = ended.out.lines().find(|line| line.starts_with("total: ")).expect("a total");
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers, total, "{line}");
    assert_eq!(counted_by_the_program(&page), counted_in(&ended.out));
}

/// Cells of counters and entries of tables on the page, as the table says them.
fn counted_by_the_program(page: &Samples) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, value) in page {
        let part: Vec<&str> = key.split('"').collect();
        match part[0] {
            "program_counter_packets_total{counter=" => {
                lines.push(format!("counter {}[{}]: {value} packets", part[1], part[3]));
            }
            "table_entries{table=" => lines.push(format!("table {}: {value} of", part[1])),
            _ => {}
        }
    }
    assert!(lines.iter().any(|line| line.starts_with("counter ")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("table ")), "{lines:?}");
    lines.sort();
    lines
}

/// The same lines of the table, cut behind the word that ends them here.
fn counted_in(table: &str) -> Vec<String> {
    let until = |line: &str, end: &str| line.split_inclusive(end).next().unwrap().to_owned();
    let mut lines: Vec<String> = table
        .lines()
        .filter_map(|line| match line.split(' ').next()? {
            "counter" => Some(until(line, " packets")),
            "table" => Some(until(line, " of")),
            _ => None,
        })
        .collect();
    lines.sort();
    lines
}
