//! `--entry-counters`: what each entry counted, in words of an entries file, in the table and in JSON.

use std::path::Path;

use serde_json::{Value, json};
use wireyard_tests::binary::run;

use crate::run::write_pcap;

/// UDP from 10.0.1.5, port 4096.
const UDP: &str =
    "0200000001010200000000010800 4500001c00004000401123c80a0001050a000205 1000100000080000";
/// An echo request to 192.0.2.80.
const PING: &str =
    "0200000001010200000000010800 4500001c000040004001 6d8c 0a000105c0000250 0800f7fe00010000";

fn frame(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn replay(folder: &Path, program: &str, from: &[(u16, &str)], more: &[&str]) -> String {
    let mut arguments = vec!["replay".to_owned(), program.to_owned()];
    for (port, hex) in from {
        let file = folder.join(format!("{port}.pcap"));
        write_pcap(&file, &[frame(hex)]);
        arguments.extend(["--in".to_owned(), format!("{port}={}", file.display())]);
    }
    arguments.extend(more.iter().map(|text| (*text).to_owned()));
    run(&arguments).expect(0, &[]).out.clone()
}

/// The entries of a table in JSON.
fn entries(report: &str, table: &str) -> Value {
    let report: Value = serde_json::from_str(report).expect("JSON");
    let tables = report["entry_counters"].as_array().expect("asked for");
    tables.iter().find(|one| one["table"] == table).expect("a table that counts").clone()
}

#[test]
fn entries_are_counted_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let show = |more: &[&str]| {
        replay(folder.path(), "programs/acl_firewall", &[(1, UDP), (2, PING)], more)
    };
    let all = entries(&show(&["--json", "--entry-counters=all"]), "acl4");
    assert_eq!(all["more"], 0);
    let all = all["entries"].as_array().unwrap();
    let literals: Vec<&Value> = all.iter().map(|entry| &entry["match"]).collect();
    let expected = json!([
        { "ipv4.src": "127.0.0.0/8" },
        { "std.ingress_port": "1", "meta.l4_protocol": "0x11", "meta.dst_port": "137..139" },
        { "std.ingress_port": "2", "meta.l4_protocol": "0x6", "meta.tcp_flags": "0x3 &&& 0x3" },
        { "std.ingress_port": "1" },
        { "std.ingress_port": "2", "ipv4.dst": "192.0.2.80", "meta.l4_protocol": "0x6", "meta.dst_port": "80..81" },
        { "std.ingress_port": "2", "meta.l4_protocol": "0x1" },
    ]);
    assert_eq!(json!(literals), expected);
    let packets: Vec<u64> = all.iter().map(|entry| entry["packets"].as_u64().unwrap()).collect();
    assert_eq!(packets, [0, 0, 0, 1, 0, 1], "{all:#?}");
    assert_eq!((&all[3]["action"], &all[3]["priority"]), (&json!("permit_and_return"), &json!(10)));
    assert_eq!(all[3]["bytes"], all[5]["bytes"]);

    let most = entries(&show(&["--json", "--entry-counters=1"]), "acl4");
    assert_eq!((&most["entries"], &most["more"]), (&json!([all[3]]), &json!(5)));
    let twenty = entries(&show(&["--json", "--entry-counters"]), "acl4");
    let order = [3, 5, 0, 1, 2, 4].map(|place| all[place].clone());
    assert_eq!(twenty["entries"], json!(order), "most packets first, then the oldest");

    let table = show(&["--entry-counters=2"]);
    let line = table.lines().position(|line| line.starts_with("table acl4: ")).expect("a table");
    let lines: Vec<&str> = table.lines().skip(line + 1).take(3).collect();
    let bytes = &all[3]["bytes"];
    assert_eq!(
        lines,
        [
            format!(
                "  std.ingress_port: 1, priority 10 -> permit_and_return: 1 packets, {bytes} B"
            ),
            format!(
                "  std.ingress_port: 2, meta.l4_protocol: 0x1, priority 10 -> permit: 1 packets, {bytes} B"
            ),
            "  4 more entries".to_owned(),
        ]
    );
    let silent = show(&["--json"]);
    assert!(!silent.contains("entry_counters"), "only on request");
}

/// A meter counts no colours: its rates are shown. Addresses and arguments are as people write them.
#[test]
fn meters_and_arguments_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program.yaml");
    let text = "pipeline: metered
include: [ethernet, ip]
parser:
  start: { extract: ethernet, select: ethernet.ether_type, cases: { 0x0800: ipv4 }, default: accept }
  ipv4: { extract: ipv4, next: accept }
actions:
  send: { params: { port: port, next_hop: mac }, do: [ std.egress_port = port, ethernet.dst = next_hop ] }
tables:
  fib:
    key: { ipv4.dst: lpm }
    actions: [send, drop]
    default: drop
    size: 16
    counters: true
    meter: { type: srtcm, unit: packets }
    entries:
      - { match: { ipv4.dst: 10.0.0.0/16 }, action: \"send(2, 02:00:00:00:00:09)\", meter: { cir: 1pps, cbs: 5, ebs: 7 } }
      - { match: { ipv4.dst: 192.0.2.0/24 }, action: drop }
ingress: [ apply: fib ]
";
    std::fs::write(&program, text).unwrap();
    let options = ["--json", "--entry-counters"];
    let report = replay(folder.path(), &program.display().to_string(), &[(1, UDP)], &options);
    let fib = entries(&report, "fib");
    let first = &fib["entries"][0];
    assert_eq!(first["match"], json!({ "ipv4.dst": "10.0.0.0/16" }));
    assert_eq!(first["action"], "send(2, 02:00:00:00:00:09)");
    assert_eq!(first["meter"], "cir 1/s, cbs 5, ebs 7");
    assert_eq!((&first["packets"], first.get("priority")), (&json!(1), None));
    assert_eq!(fib["entries"][1]["match"], json!({ "ipv4.dst": "192.0.2.0/24" }));
    assert_eq!(fib["entries"][1].get("meter"), None);

    // Counts in a file are those of the entry, also where the program declares it.
    let more = folder.path().join("more.yaml");
    let entry = "{ match: { ipv4.dst: 10.0.0.0/16 }, action: 'send(2, 02:00:00:00:00:09)', counter: { packets: 7, bytes: 700 } }";
    std::fs::write(&more, format!("entries:\n  fib:\n    - {entry}\n")).unwrap();
    let more = more.display().to_string();
    let options = [&options[..], &["--entries", &more]].concat();
    let report = replay(folder.path(), &program.display().to_string(), &[(1, UDP)], &options);
    assert_eq!(entries(&report, "fib")["entries"][0]["packets"], 8);
}

#[test]
fn a_number_of_entries_is_a_number() {
    for wrong in ["0", "-1", "some"] {
        let option = format!("--entry-counters={wrong}");
        let arguments = ["replay", "programs/acl_firewall", "--in", "1=x.pcap", &option];
        run(&arguments).expect(2, &["write how many entries of each table, or `all`"]);
    }
}
