//! What a running switch says by itself, packets for it, captures, settings of queues, and `top`.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wireyard_switch::pcap::PcapReader;
use wireyard_tests::binary::{Ended, run, wireyard};
use wireyard_tests::workspace_root;

use super::{A, B, PROGRAM, Rig, frame, rig};
use crate::queues;
use crate::rig::private_network;

/// A command that listens, beside the test.
pub(super) fn listen(rig: &Rig, arguments: &[&str]) -> Child {
    let mut command = Command::new(wireyard());
    command.args(arguments).arg("--json").env("WIREYARD_RUN_DIR", rig.switch.run_folder());
    command.current_dir(workspace_root()).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().expect("the command starts")
}

/// What it printed, after `again` was done as often as needed.
pub(super) fn heard(mut child: Child, mut again: impl FnMut()) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while child.try_wait().expect("a child").is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("it heard nothing");
        }
        again();
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut text = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn digests_packets_and_events_are_heard_and_packets_are_sent() {
    let Some(_network) = private_network("notices") else { return };
    let mut rig = rig(PROGRAM, &[]);
    rig.does("table default fdb forward 2");
    rig.does("table add acl ethernet.src=02:00:00:00:00:0b learn_it --priority 1");
    let packet = frame(A, B);
    let child = listen(&rig, &["digest", "learn", "--count", "2"]);
    let digests = heard(child, || rig.wires[0].send(std::slice::from_ref(&packet)));
    assert_eq!(digests.len(), 2);
    assert_eq!(digests[0]["fields"]["src"], "02:00:00:00:00:0b", "{digests:?}");
    rig.refuses("digest lern", "did you mean learn?");
    rig.does("table add fdb ethernet.dst=02:00:00:00:00:0a to_controller");
    let child = listen(&rig, &["packet", "listen", "--count", "1"]);
    let packets = heard(child, || rig.wires[0].send(std::slice::from_ref(&packet)));
    // Two bytes of the program's own header are in front.
    let hex: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(packets[0]["ingress_port"], 1);
    assert!(packets[0]["bytes"].as_str().is_some_and(|bytes| bytes.ends_with(&hex)), "{packets:?}");
    let child = listen(&rig, &["events", "--count", "1"]);
    let mut is_down = false;
    let events = heard(child, || {
        is_down = !is_down;
        rig.does(if is_down { "port down 2" } else { "port up 2" });
    });
    assert_eq!((&events[0]["event"], &events[0]["port"]), (&"link".into(), &2.into()));
    rig.does("port up 2");
    // A table takes its last entry, and has room again. The command may begin to listen behind any of them.
    let child = listen(&rig, &["events", "--count", "4"]);
    let mut is_full = false;
    let events = heard(child, || {
        is_full = !is_full;
        match is_full {
            true => (1..=16).for_each(|n| {
                rig.does(&format!("table add short_lived ethernet.ether_type={n} drop"));
            }),
            false => rig.does("table clear short_lived"),
        }
        // The device looks at its tables five times a second.
        std::thread::sleep(Duration::from_millis(500));
    });
    let over = |event: &Value| event["over"].as_bool().expect("true or false");
    for (at, event) in events.iter().enumerate() {
        assert_eq!(
            (&event["event"], &event["table"]),
            (&"table_full".into(), &"short_lived".into())
        );
        assert_eq!(over(event), over(&events[0]) ^ (at % 2 == 1), "{events:?}");
    }
    rig.does("table clear short_lived");
    // Out of a port as it is; into ingress, where the program drops it; nothing.
    while rig.wires[1].next().is_some() {}
    rig.does(&format!("packet send --out 2 {hex}"));
    assert_eq!(rig.wires[1].receive(1), std::slice::from_ref(&packet));
    rig.does("table modify fdb ethernet.dst=02:00:00:00:00:0a forward 2");
    rig.does(&format!("packet send --port 1 {hex}"));
    assert_eq!(rig.wires[1].receive(1), std::slice::from_ref(&packet));
    rig.refuses("packet send --port 9 00", "there is no port 9");
    rig.refuses("packet send 0g", "hexadecimal");
    rig.switch.end("TERM").expect(0, &[]);
}

/// Ctrl-C is the end that was asked for, of whatever shows something until then.
#[test]
fn what_goes_on_until_ctrl_c_ends_well_with_it() {
    let Some(_network) = private_network("commands until Ctrl-C") else { return };
    let rig = rig(PROGRAM, &[]);
    for words in [
        &["top", "--watch=0.05"][..],
        &["stats", "--watch=0.05"],
        &["events"],
        &["trace", "--live", "--filter", "std.ingress_port == 9"],
    ] {
        let mut command = Command::new(wireyard());
        command.args(words).env("WIREYARD_RUN_DIR", rig.switch.run_folder());
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = piped.spawn().expect("the command starts");
        std::thread::sleep(Duration::from_millis(500));
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
        let ended = Ended::of(&child.wait_with_output().expect("it ends"));
        assert_eq!(ended.status, Some(0), "{words:?}: {ended:?}");
        let is_trace = words[0] == "trace";
        assert_eq!(ended.err.contains("0 of 1 packets met the filter"), is_trace, "{ended:?}");
    }
    // A trace may begin as soon as the reader of the last one has gone.
    rig.does("trace --live --seconds 0.1");
    rig.switch.end("TERM").expect(0, &[]);
}

/// `wireyard top --json | head -1` ends.
#[test]
fn what_is_printed_again_and_again_ends_with_its_reader() {
    let Some(_network) = private_network("readers that go away") else { return };
    let rig = rig(PROGRAM, &[]);
    for words in [["top", "--watch=0.1"], ["stats", "--watch=0.1"]] {
        let mut child = listen(&rig, &words);
        drop(child.stdout.take());
        let deadline = Instant::now() + Duration::from_secs(20);
        while child.try_wait().expect("a child").is_none() {
            if Instant::now() > deadline {
                let _ = child.kill();
                panic!("{words:?} goes on without a reader");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn captures_begin_and_end_while_packets_pass() {
    let Some(_network) = private_network("captures by command") else { return };
    let mut rig = rig(PROGRAM, &[]);
    rig.does("table default fdb forward 2");
    let packet = frame(A, B);
    let folder = tempfile::tempdir().unwrap();
    let (one, all) = (folder.path().join("one.pcapng"), folder.path().join("all.pcapng"));
    let start = |rig: &Rig, port: &str, file: &std::path::Path| {
        rig.switch.command(&["capture", "start", port, file.to_str().unwrap()])
    };
    rig.passes(&packet);
    start(&rig, "1", &one).expect(0, &[]);
    rig.passes(&packet);
    rig.passes(&packet);
    rig.does("capture stop 1");
    rig.passes(&packet);
    start(&rig, "1", &one).expect(2, &["already exists"]);
    start(&rig, "all", &all).expect(0, &[]);
    rig.passes(&packet);
    // What goes on is not ended by another that begins.
    let other = folder.path().join("other.pcapng");
    let first =
        format!("port 1 is being recorded into {}: `wireyard capture stop 1`", all.display());
    start(&rig, "1", &other).expect(2, &[&first]);
    start(&rig, "all", &other).expect(2, &[&first]);
    assert!(!other.exists());
    let listed = |rig: &Rig| -> Vec<(Value, Value)> {
        let list = rig.switch.objects(&["capture", "list"]).into_iter();
        list.map(|one| (one["ports"].clone(), one["state"].clone())).collect()
    };
    let first = (json!([1]), json!("stopped"));
    assert_eq!(listed(&rig), [first.clone(), (json!([1, 2]), json!("recording"))]);
    // One file, of two ports.
    assert_eq!(rig.switch.objects(&["capture", "stop", "all"]), [json!({ "stopped": 1 })]);
    assert_eq!(rig.switch.objects(&["capture", "stop", "all"]), [json!({ "stopped": 0 })]);
    let begun = format!("wireyard: capture {} of all ports was begun", all.display());
    let err = rig.switch.err();
    assert!(err.contains(&begun) && err.contains("captures of all ports were ended"), "{err}");
    assert_eq!(listed(&rig)[0], first);
    assert_eq!(listed(&rig)[1].1, json!("stopped"));
    // A name that is written again is listed once.
    let again = folder.path().join("again.pcapng");
    for _ in 0..3 {
        let _ = std::fs::remove_file(&again);
        start(&rig, "1", &again).expect(0, &[]);
        rig.does("capture stop 1");
    }
    assert_eq!(listed(&rig).len(), 3);
    rig.passes(&packet);
    // A capture ends with its last port.
    start(&rig, "all", &other).expect(0, &[]);
    rig.does("port remove 2");
    assert_eq!(listed(&rig)[3], (json!([1]), json!("recording")));
    rig.does("port remove 1");
    assert_eq!(listed(&rig)[3], (json!([1]), json!("stopped")));
    rig.switch.end("TERM").expect(0, &[]);
    let frames = |file| {
        let mut reader = PcapReader::new(std::fs::File::open(file).unwrap()).unwrap();
        let mut count = 0;
        while reader.next_record().unwrap().is_some() {
            count += 1;
        }
        count
    };
    assert_eq!((frames(&one), frames(&all)), (2u32, 2u32), "port 1 in twice; in and out once");
    // What the switch has seen is shown, and a replay takes what came in.
    let all = all.to_str().unwrap();
    let lines = run(&["decode", all]).expect(0, &[]).out.clone();
    let ends: Vec<&str> =
        lines.lines().filter_map(|line| line.rsplit_once(" [")).map(|(_, end)| end).collect();
    assert_eq!(ends, ["port 1 in]", "port 2 out]"], "{lines}");
    for (port, received) in [("1", 1), ("2", 0), ("3", 1)] {
        let input = format!("{port}={all}");
        let ended = run(&["replay", "l2_switch", "--in", &input, "--json"]);
        let report: Value = serde_json::from_str(
            &ended.expect(0, if received == 0 { &[] } else { &["a capture of a switch"] }).out,
        )
        .unwrap();
        assert_eq!(report["total"]["received"], received, "as port {port}: {report:#}");
    }
}

/// A filter takes records by their headers, their port and their length, in, out and dropped; what is wrong with one begins nothing.
#[test]
fn a_capture_has_what_meets_its_filter() {
    let Some(_network) = private_network("captures with a filter") else { return };
    let mut rig = rig(PROGRAM, &[]);
    rig.does("table add fdb ethernet.dst=02:00:00:00:00:0a forward 2");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let start = |rig: &Rig, name: &str, filter: &str| {
        let file = file(name);
        let words = ["capture", "start", "all", file.to_str().unwrap(), "--filter", filter];
        rig.switch.command(&words)
    };
    for (filter, why) in [
        ("ethernet.dts == 1", "did you mean ethernet.dst?"),
        ("ethernet.dst ==", "filter: "),
        ("ethernet.dst + 1 == 2", "there are =="),
    ] {
        start(&rig, "wrong.pcapng", filter).expect(2, &[why]);
    }
    assert!(!file("wrong.pcapng").exists());
    let (known, unknown) = (frame(A, B), frame(B, A));
    let mut counts = Vec::new();
    for (name, filter) in [
        ("dst.pcapng", "ethernet.dst == 02:00:00:00:00:0a"),
        ("port.pcapng", "std.ingress_port == 2 || ethernet.src == 02:00:00:00:00:0a"),
        ("none.pcapng", "packet_out.valid || std.packet_length > 1000"),
    ] {
        start(&rig, name, filter).expect(0, &[]);
        assert_eq!(rig.passes(&known), std::slice::from_ref(&known));
        rig.stops(&unknown);
        rig.does("capture stop all");
        let deadline = Instant::now() + Duration::from_secs(10);
        let ended = |rig: &Rig| {
            let list = rig.switch.objects(&["capture", "list"]);
            let found = list.into_iter().find(|one| one["file"].as_str().unwrap().ends_with(name));
            let count = |one: &Value, name: &str| one[name].as_u64().unwrap_or(0);
            found.map(|one| (count(&one, "records"), count(&one, "left_out")))
        };
        // In and out of the one, in and dropped of the other.
        while ended(&rig).is_none_or(|(records, left_out)| records + left_out < 4) {
            assert!(Instant::now() < deadline, "{:?}", ended(&rig));
        }
        let mut reader = PcapReader::new(std::fs::File::open(file(name)).unwrap()).unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            records.push(record.data.to_vec());
        }
        assert_eq!(ended(&rig), Some((records.len() as u64, 4 - records.len() as u64)));
        counts.push(records);
    }
    assert_eq!(counts[0], [known.clone(), known.clone()]);
    assert_eq!(counts[1], [known, unknown.clone(), unknown]);
    assert!(counts[2].is_empty());
    rig.switch.end("TERM").expect(0, &[]);
}

const QUEUES: &str = "\
ports: { 1: { rate: 1Gbps }, 2: { rate: 1Gbps } }
qos:
  preset: sonic_azure
";

#[test]
fn queues_change_at_run_time() {
    let Some(_network) = private_network("queues by command") else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("switch.yaml");
    std::fs::write(&config, QUEUES).unwrap();
    let mut rig = rig(PROGRAM, &["--config", config.to_str().unwrap()]);
    rig.does("table default fdb forward 2");
    let before = rig.switch.objects(&["queue", "list", "2", "4"]).remove(0);
    assert_eq!(
        (&before["rate"], &before["lossless"]),
        (&"1 Gbit/s".into(), &true.into()),
        "{before}"
    );
    let words = ["queue", "set", "2", "4", "kmin=10KB", "kmax=20KB", "pmax=50%", "limit=100KB"];
    let after = rig.switch.objects(&words).remove(0);
    for (name, value) in
        [("kmin", "10 KB"), ("kmax", "20 KB"), ("pmax", "50 %"), ("limit", "100 KB")]
    {
        assert_eq!(after[name], value, "{after}");
    }
    assert_eq!(rig.switch.objects(&["queue", "list", "2", "4"]), [after]);
    for (words, reason) in [
        ("queue set 2 4 kmin=30KB", "kmin 30 KB is above kmax 20 KB"),
        ("queue set 2 4 kmim=30KB", "did you mean kmin?"),
        ("queue set 2 4 kmin=30", "kmin"),
        ("queue set 2 9 kmin=3KB", "there is no queue 9"),
        ("queue set 2 port rate=2Gbit/s", "headroom is for 1 Gbit/s"),
        ("queue set 2 port kmin=3KB", "say which queue"),
        ("queue set 2 4 limit=1GB", "limit 1 GB is above the"),
        ("queue set 2 4 xon_at=200KB", "XON at 200 KB is not below XOFF at 100 KB"),
        ("queue set 2 4 xon_at=50KB limit=40KB", "XON at 50 KB is not below XOFF at 40 KB"),
        ("queue set 2 0 xon_at=1KB", "priority group 0 of port 2 is lossy"),
        ("queue set 2 port pfc=3,4,5", "priority group 5 of port 2 is lossy"),
        ("queue set 2 port pfc=8", "no priority from 0 to 7"),
        ("queue set 2 4 pfc=4", "of the whole port"),
        ("queue set 2 port pfc=4 rate=2Gbit/s", "headroom is for 1 Gbit/s"),
    ] {
        rig.refuses(words, reason);
    }
    // What is refused changes nothing.
    let now = rig.switch.objects(&["queue", "list", "2", "4"]).remove(0);
    assert_eq!(now["pfc"], serde_json::json!([3, 4]), "{now}");
    assert_eq!((&now["limit"], now.get("xon_at")), (&"100 KB".into(), None), "{now}");
    let set = rig.switch.objects(&["queue", "set", "2", "4", "xon_at=50KB"]).remove(0);
    assert_eq!((&set["xon_at"], set.get("xon_below_xoff")), (&"50 KB".into(), None), "{set}");
    // A port of 4 Mbit/s takes a fifth of a second for 100,000 B; the frames leave all.
    rig.does("queue set 2 port rate=4Mbit/s");
    let long = [frame(A, B), vec![0; 1186]].concat();
    let began = Instant::now();
    rig.wires[0].send(&vec![long; 80]);
    let received = rig.wires[1].receive(80).len();
    let took = began.elapsed();
    assert_eq!(received, 80);
    assert!(took > Duration::from_millis(150), "80 frames at 4 Mbit/s took {took:?}");
    let top = rig.switch.objects(&["top", "--once", "--watch=0.1"]).remove(0);
    assert_eq!(top["ports"].as_array().map(Vec::len), Some(2), "{top}");
    assert_eq!(top["waits"].as_array().map(Vec::len), Some(0));
    rig.switch.end("TERM").expect(0, &[]);
}

/// A pause is obeyed while its priority has PFC, ends when it has none any more, and is ignored then.
#[test]
fn priorities_get_and_lose_pfc_at_run_time() {
    let Some(_network) = private_network("PFC by command") else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("switch.yaml");
    let watchdog = "pfcwd: { detection_time: 60 s, action: alert }";
    // A pause of 8 s at the rate of port 2.
    let queues = QUEUES.replace("2: { rate: 1Gbps }", "2: { rate: 4Mbps }");
    let text = format!("{queues}  port_defaults: {{ default_tc: 4, {watchdog} }}\n");
    std::fs::write(&config, text).unwrap();
    let mut rig = rig(PROGRAM, &["--config", config.to_str().unwrap()]);
    rig.does("table default fdb forward 2");
    let pause = queues::pfc(4, 65_535).to_vec();
    let ignored = |rig: &Rig| {
        let stats = rig.switch.objects(&["stats"]).remove(0);
        let ports = stats["queueing"]["ports"].as_array().cloned().unwrap_or_default();
        ports.iter().find(|port| port["port"] == 2).map(|port| port["pauses_ignored"].clone())
    };
    rig.wires[1].send(std::slice::from_ref(&pause));
    std::thread::sleep(Duration::from_millis(50));
    let packet = frame(A, B);
    rig.stops(&packet);
    // The text has pauses, groups and pools as the JSON has, and the pause lasts.
    let stats = rig.switch.command(&["stats"]).out;
    for word in ["resumes_received", "xoff_at_bytes", "headroom_bytes", "kernel drops"] {
        assert!(stats.contains(word), "no {word} in {stats}");
    }
    let set = rig.switch.objects(&["queue", "set", "2", "port", "pfc=3"]).remove(0);
    assert_eq!(set["pfc"], serde_json::json!([3]), "{set}");
    assert_eq!(rig.wires[1].receive(1), std::slice::from_ref(&packet), "it waited for the pause");
    rig.wires[1].send(std::slice::from_ref(&pause));
    let deadline = Instant::now() + Duration::from_secs(10);
    while ignored(&rig) != Some(1.into()) {
        assert!(Instant::now() < deadline, "{:?}", ignored(&rig));
    }
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet), "ignored");
    rig.does("queue set 2 port pfc=4,3");
    rig.wires[1].send(&[pause]);
    std::thread::sleep(Duration::from_millis(50));
    rig.stops(&packet);
    rig.does("queue set 2 port pfc=none");
    assert_eq!(rig.wires[1].receive(1), [packet]);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn top_shows_rates_drops_and_the_busiest_entries() {
    let Some(_network) = private_network("top") else { return };
    let mut rig = rig(PROGRAM, &[]);
    rig.does("table add fdb ethernet.dst=02:00:00:00:00:0a forward 2");
    let (known, unknown) = (frame(A, B), frame(B, A));
    let child = listen(&rig, &["top", "--once", "--watch=1"]);
    let shown = heard(child, || {
        rig.wires[0].send(&[vec![known.clone(); 3], vec![unknown.clone()]].concat());
        while rig.wires[1].next().is_some() {}
    });
    let top = &shown[0];
    let rate = |value: &Value| value.as_u64().unwrap_or(0);
    let entry = &top["entries"][0];
    assert_eq!(entry["match"]["ethernet.dst"], "02:00:00:00:00:0a", "{top}");
    let (hits, received) = (rate(&entry["packets_s"]), rate(&top["ports"][0]["rx_packets_s"]));
    assert!(hits > 10 && received > hits, "{top}");
    assert_eq!(top["drops"][0]["reason"], "dropped");
    assert!(rate(&top["drops"][0]["dropped_s"]) > 0, "{top}");
    let people = rig.switch.command(&["top", "--once", "--watch=0.1"]);
    assert!(people.out.contains("rx packet/s"), "{}", people.out);
    rig.switch.end("TERM").expect(0, &[]);
}
