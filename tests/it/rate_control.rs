//! Rate controls as programs: schemes of papers in the laboratory, the tutorial as it is written, settings of hosts and flows.

use std::fs;
use std::path::Path;

use serde_json::Value;
use wireyard_tests::binary::run;
use wireyard_tests::capture;
use wireyard_tests::workspace_root;

use crate::emitted::tshark;
use crate::lab::{figure, lab, scenario};

#[track_caller]
fn report(path: &str) -> Value {
    let ended = lab(&[path, "--json"]);
    ended.expect(0, &[]);
    serde_json::from_str(&ended.out).expect("JSON")
}

/// The model of section 3.3 of DCTCP, the fixed point of patched TIMELY, the target delay of Swift.
#[test]
fn queues_are_those_of_the_papers() {
    let of = |name: &str| report(&format!("programs/lab/{name}.yaml"));
    // What the scenario says must hold, its status says: within 10 %.
    let dctcp = of("dctcp");
    assert_eq!(figure(&dctcp, "flows.cnps"), 0.0, "marks come back in acknowledgements");
    assert!(figure(&dctcp, "bottleneck.marked") > 0.0);
    assert!(figure(&of("timely"), "bottleneck.queue_mean") > 0.0);
    let swift = of("swift");
    assert!(figure(&swift, "bottleneck.queue_mean") > 0.0);
    assert!(swift["facts"].to_string().contains("an acknowledgement for 1 packets"));
}

/// The blocks of the tutorial that begin with these words.
fn block(page: &str, begins: &str) -> String {
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.starts_with(begins)).collect()
}

#[test]
fn the_tutorial_runs_as_it_is_written() {
    let page = fs::read_to_string(workspace_root().join("programs/rate_control/README.md"))
        .expect("the page");
    let folder = tempfile::tempdir().expect("a folder");
    let program = block(&page, "rate_control: halving");
    assert!(program.lines().count() <= 40, "the page says that 40 lines are enough");
    fs::write(folder.path().join("halving.yaml"), program).expect("writes");
    let two = folder.path().join("two.yaml");
    fs::write(&two, block(&page, "lab: two")).expect("writes");
    let report = report(&two.display().to_string());
    assert!(figure(&report, "bottleneck.marked") > 10.0, "it was marked, and went on");
    assert_eq!(figure(&report, "flows.cnps"), 0.0);
    let facts = report["facts"].to_string();
    assert!(facts.contains("step 50 Mbit/s, least 100 Mbit/s"), "{facts}");
}

const MIXED: &str = "
lab: mixed
duration: 2 ms
link: { rate: 10 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { incast: { senders: 4 } }
switch: { qos: { preset: onyx_roce } }
host: { rate_control: slow.yaml }
hosts: [ { of: h2, rate_control: slow.yaml, parameters: { speed: 2 Gbit/s } } ]
flows:
  - { from: [h1, h2], to: sink }
  - { from: h3, to: sink, rate_control: slow.yaml, parameters: { speed: 500 Mbit/s } }
  - { from: h4, to: sink, rate_control: window.yaml }
";

/// Sends at the rate of its parameter.
const SLOW: &str = "rate_control: slow
parameters: { speed: { unit: bit/s, default: 1 Gbit/s, min: 1 Mbit/s } }
on: { start: [ std.rate = speed ], ack: [ std.rate = speed ] }
";

/// Two packets in a round trip.
const WINDOW: &str = "rate_control: window
notification: { ack_every: 1 }
on: { start: [ std.window = 2 * std.packet_bytes ] }
";

fn mixed(folder: &Path, slow: &str) -> String {
    fs::write(folder.join("slow.yaml"), slow).expect("writes");
    fs::write(folder.join("window.yaml"), WINDOW).expect("writes");
    scenario(folder, MIXED)
}

#[test]
fn hosts_and_flows_have_rate_controls_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = report(&mixed(folder.path(), SLOW));
    let rate = |host: &str| figure(&report, &format!("flow.{host}.sink.throughput"));
    // Payload is 1024 of 1086 bytes that are paced.
    for (host, speed) in [("h1", 1e9), ("h2", 2e9), ("h3", 0.5e9)] {
        let payload = speed * 1024.0 / 1086.0;
        assert!((rate(host) / payload - 1.0).abs() < 0.02, "{host}: {}", rate(host));
    }
    // Two packets of 1024 B in a round trip of 4 us of links and four times a packet or acknowledgement on 10 Gbit/s.
    let round_trip = 4e-6 + 2.0 * (1106.0 + 86.0) * 8.0 / 10e9;
    let expected = 2.0 * 1024.0 * 8.0 / round_trip;
    assert!(rate("h4") < expected && rate("h4") > 0.75 * expected, "{} of {expected}", rate("h4"));
}

/// A file that only a collective names.
#[test]
fn a_collective_has_a_rate_control_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("slow.yaml"), SLOW).expect("writes");
    let text = "lab: slow\nduration: 10 ms\nlink: { rate: 10 Gbit/s, delay: 1 us, mtu: 1500 B }\n\
                topology: { incast: { senders: 1 } }\nswitch: { qos: { preset: onyx_roce } }\n\
                collectives: { name: c, operation: all_reduce, size: 100 KB, rate_control: slow.yaml, parameters: { speed: 500 Mbit/s } }\n";
    let report = report(&scenario(folder.path(), text));
    assert_eq!(figure(&report, "collective.c.iterations"), 1.0);
    // Two hosts send the size once each.
    let rate = figure(&report, "collective.c.bus_rate");
    assert!((0.3e9..0.55e9).contains(&rate), "{rate}");
}

#[test]
fn what_is_wrong_in_a_file_is_told_at_its_place_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let zero = SLOW.replace("on: {", "on: { cnp: [ \"std.rate = div(speed, std.rate - 1)\" ],");
    let refused = |text: &str, said: &[&str]| {
        let ended = lab(&["--check", &mixed(folder.path(), text)]);
        ended.expect(2, said);
    };
    refused(&zero, &["E0210", "slow.yaml:3:", "this divisor can be 0 or less"]);
    for (statement, says) in [
        ("std.rate = std.rate % 2", "`div(a, b)` divides"),
        ("std.rate = std.rate / 2", "in a rate control write `div(a, b)`"),
        ("std.rate = std.rate - std.rate >> 3 + std.rate", "bind stronger: write `(a >> 3) + b`"),
    ] {
        let text = SLOW.replace("on: {", &format!("on: {{ cnp: [ \"{statement}\" ],"));
        refused(&text, &["slow.yaml:3:", says]);
    }
    refused(&SLOW.replace("speed:", "pace:"), &["there is no `speed`", "slow.yaml"]);
    let other = MIXED.replace("speed: 2 Gbit/s", "sped: 2 Gbit/s");
    fs::write(folder.path().join("slow.yaml"), SLOW).expect("writes");
    let path = scenario(folder.path(), &other);
    lab(&["--check", &path]).expect(2, &["there is no parameter `sped`", "speed"]);
    let path = scenario(folder.path(), &MIXED.replace("2 Gbit/s }", "2 ms }"));
    lab(&["--check", &path]).expect(2, &["scenario.yaml"]);
    let path = scenario(folder.path(), &MIXED.replace("window.yaml", "no/such.yaml"));
    lab(&["--check", &path]).expect(2, &["no/such.yaml", "there is no such file"]);
    let path = scenario(folder.path(), &MIXED.replace("window.yaml", "timly"));
    lab(&["--check", &path]).expect(2, &["there is no rate control `timly`", "timely"]);
    let slow = folder.path().join("slow.yaml").display().to_string();
    run(&["check", &slow]).shows(&["rate control slow: 1 parameter"]);
    fs::write(&slow, zero).expect("writes");
    let ended = run(&["check", &slow]);
    let said = ended.expect(1, &[]).out.clone() + &ended.err;
    assert!(said.contains("E0210") && said.contains("slow.yaml:3:"), "{said}");
    run(&["schema", "rate-control"]).shows(&["rate_control_parameter"]);
}

/// U = eta + N W_AI / (B T) of sixteen flows, as the scenario expects it, and of four with a W_AI five times as large.
#[test]
fn hpcc_holds_links_at_its_utilisation_and_queues_empty() {
    let sixteen = report("programs/lab/hpcc.yaml");
    // Data has 1024 bytes of payload in 1148 on the link.
    let used = |report: &Value| figure(report, "flows.throughput") * 1148.0 / 1024.0 / 100e9;
    let expected = 0.95 + 16.0 * 80.0 / 162_500.0;
    assert!((used(&sixteen) / expected - 1.0).abs() < 0.02, "{} of {expected}", used(&sixteen));
    let folder = tempfile::tempdir().expect("a folder");
    let text =
        fs::read_to_string(workspace_root().join("programs/lab/hpcc.yaml")).expect("it is there");
    let text = text[..text.find("expect:").expect("expectations")]
        .replace("../hpcc_int", "PROGRAMS/hpcc_int")
        .replace("senders: 16", "senders: 4")
        .replace("rate_control: hpcc", "rate_control: hpcc, parameters: { eta: 0.7, w_ai: 400 B }");
    let four = report(&scenario(folder.path(), &text));
    let expected = 0.7 + 4.0 * 400.0 / 162_500.0;
    assert!((used(&four) / expected - 1.0).abs() < 0.03, "{} of {expected}", used(&four));
    assert!(figure(&four, "bottleneck.queue_mean") < 3000.0);
}

const TELEMETRY: &str = "
lab: telemetry
duration: 40 us
link: { rate: 100 Gbit/s, delay: 1 us, mtu: 1500 B }
topology: { leaf_spine: { leaves: 2, spines: 2, hosts: 2 } }
switch: { program: PROGRAMS/hpcc_int, qos: { preset: onyx_roce } }
host: { rate_control: hpcc }
flows: [ { from: h1, to: h3 }, { from: h2, to: h3, rate_control: fixed } ]
captures: { leaf2-h3: 400 }
";

/// The enhanced packet blocks of a pcapng file of this machine's byte order (draft-ietf-opsawg-pcapng, 4.3).
fn packets(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).expect("the capture");
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if word(at) == 6 {
            found.push(bytes[at + 28..at + 28 + word(at + 20) as usize].to_vec());
        }
        at += (word(at + 4) as usize).max(12);
    }
    found
}

/// Three switches write three hops, the receiver sends them back, a flow that does not ask has the frames that it always had, and
/// tshark finds nothing wrong.
#[test]
fn telemetry_goes_to_the_receiver_and_back_on_the_wire() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results");
    let path = scenario(folder.path(), TELEMETRY);
    lab(&[&path, "-o", &results.display().to_string()]).expect(0, &[]);
    let files = capture::files(&results, &["pcapng"]);
    let frames: Vec<Vec<u8>> = files.iter().flat_map(|file| packets(file)).collect();
    let of_port =
        |port: u16| frames.iter().filter(move |frame| frame[36..38] == port.to_be_bytes());
    let (mut stacks, mut last) = (Vec::new(), 0);
    for frame in of_port(54322) {
        let stack = &frame[42..84];
        assert_eq!((stack[0] >> 4, &stack[26..]), (3, &[0; 16][..]), "three hops");
        // All of 100 Gbit/s; the clocks of switches go together here, and the newest hop is first.
        let words: Vec<u64> = stack[2..26]
            .chunks(8)
            .map(|hop| u64::from_be_bytes(hop.try_into().expect("8")))
            .collect();
        assert!(words.iter().all(|word| word >> 60 == 10), "{words:x?}");
        let times: Vec<u64> = words.iter().map(|word| word >> 36 & 0xff_ffff).collect();
        assert!(times[0] > times[1] && times[1] > times[2] && times[0] > last, "{times:?}");
        last = times[0];
        stacks.push(stack.to_vec());
    }
    assert!(stacks.len() > 50, "{} of {}", stacks.len(), frames.len());
    // Opcode, then AETH, 42 bytes, pad and ICRC.
    let acks = of_port(4791).filter(|frame| frame[42] == 0x11);
    let echoes: Vec<&[u8]> =
        acks.filter(|frame| frame.len() > 62).map(|frame| &frame[58..100]).collect();
    assert!(
        echoes.len() > 40 && echoes.iter().all(|echo| stacks.iter().any(|stack| stack == echo))
    );
    assert!(
        of_port(4791).any(|frame| frame[42] == 0x07),
        "the flow at a fixed rate sends as always"
    );
    if !wireyard_tests::has_tool("tshark") {
        return wireyard_tests::skip("telemetry on the wire", "tshark is not there");
    }
    for file in &files {
        let wrong = tshark(file, "_ws.malformed", &["frame.number", "_ws.col.Info"]);
        assert!(wrong.is_empty(), "{wrong:?}");
        let acks =
            tshark(file, "infiniband.bth.opcode == 17 && frame.len > 62", &["infiniband.aeth.msn"]);
        assert_eq!(acks.len(), echoes.len());
    }
}

#[test]
fn telemetry_that_nobody_writes_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |from: &str, to: &str, said: &[&str]| {
        assert!(TELEMETRY.contains(from), "{from}");
        lab(&["--check", &scenario(folder.path(), &TELEMETRY.replace(from, to))]).expect(2, said);
    };
    refused(
        "program: PROGRAMS/hpcc_int, ",
        "",
        &["`hpcc` needs telemetry", "rocev2_lossless", "hpcc_int", "scenario.yaml:7"],
    );
    refused("hpcc_int", "rocev2_lossless", &["no table `links`", "hpcc_int"]);
    refused("100 Gbit/s", "30 Gbit/s", &["no code for the 30", "leaf", "25 Gbit/s"]);
    refused("mtu: 1500 B", "mtu: 1100 B", &["a full packet of the hosts has 1140 B"]);
    refused("host: {", "host: { transport: rocev1,", &["frames of rocev1 have no room"]);
}

/// Parameters that do not go together are refused where they are written, of hosts and of single flows, with the values.
#[test]
fn parameters_that_contradict_each_other_are_refused_at_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = |host: &str, flow: &str| {
        format!(
            "lab: relations\nduration: 1 ms\nlink: {{ rate: 25 Gbit/s, delay: 1 us, mtu: 1500 B }}\n\
             topology: {{ incast: {{ senders: 2 }} }}\nhost: {{ {host} }}\nflows:\n  - {{ from: h1, to: sink }}\n  \
             - {{ from: h2, to: sink{flow} }}\n"
        )
    };
    let refused = |text: String, said: &[&str]| {
        lab(&["--check", &scenario(folder.path(), &text)]).expect(2, said);
    };
    let timely = "rate_control: timely, parameters: { t_low: 600 us }";
    refused(
        text(timely, ""),
        &[
            "scenario.yaml:5:",
            "`t_low <= t_high` does not hold: t_low is 600000 ns, t_high is 500000 ns",
        ],
    );
    let swift = ", rate_control: swift, parameters: { min_cwnd: 20 }";
    refused(
        text("rate_control: fixed", swift),
        &[
            "scenario.yaml:8:",
            "`min_cwnd <= initial_cwnd` does not hold: min_cwnd is 20, initial_cwnd is 12",
        ],
    );
    // A relation with the link: the same parameter is right on a faster one.
    let fast = "rate_control: timely, parameters: { initial_rate: 40 Gbit/s }";
    refused(text(fast, ""), &["initial_rate is 40 Gbit/s", "std.line_rate is 25 Gbit/s"]);
    let faster = text(fast, "").replace("rate: 25 Gbit/s", "rate: 100 Gbit/s");
    lab(&["--check", &scenario(folder.path(), &faster)]).expect(0, &[]);
    // Ten times slower, the link has a tenth of the rate and the relation is about the one that is written.
    lab(&["--check", &scenario(folder.path(), &format!("{faster}dilate: 10\n"))]).expect(0, &[]);
}
