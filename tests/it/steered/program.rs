//! `swap` under traffic: no packet is lost, none is done by two programs, and what fits is kept.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wireyard_tests::binary::wireyard;
use wireyard_tests::workspace_root;

use super::{Rig, rig};
use crate::rig::private_network;

/// A program that writes its mark into the source address in ingress, and into the EtherType in egress. Its packets leave by port 2 where
/// the entry of `ways` says so; all are counted in a register.
fn program(mark: u8, more: &str) -> String {
    format!(
        "pipeline: marked_{mark}\ninclude: [ethernet]\nparser: {{ start: {{ extract: ethernet }} }}\n\
         registers: {{ seen: {{ bits: 64, size: 1 }} }}\n\
         tables:\n  ways: {{ key: {{ std.ingress_port: exact }}, actions: [out, drop], default: drop, size: 64 }}\n{more}\
         actions: {{ out: {{ params: {{ to: port }}, do: [ std.egress_port = to ] }} }}\n\
         ingress: [ {{ update: \"seen[0]\", as: n, do: [ \"n.value = n.value + 1\" ] }}, ethernet.src = {mark}, {{ apply: ways }} ]\n\
         egress: [ ethernet.ether_type = {mark} ]\n\
         deparser: {{ emit: [ethernet] }}\n"
    )
}

/// Frames that are in the switch at once at most.
const UNDER_WAY_MAX: u64 = 256;

/// Frames that went in and came out, by their marks.
#[derive(Default)]
struct Traffic {
    sent: u64,
    received: [u64; 4],
}

impl Traffic {
    /// A few frames in, and out what is there. Never more under way than the socket of a port has room for, however late the switch is served:
    /// what the kernel drops is no loss of the switch.
    fn go_on(&mut self, rig: &mut Rig) {
        if self.sent - self.received.iter().sum::<u64>() >= UNDER_WAY_MAX {
            return self.take(rig);
        }
        let frame =
            [&[2, 0, 0, 0, 0, 9][..], &[2, 0, 0, 0, 0, 8], &[0x88, 0xb5], &[0; 50]].concat();
        rig.wires[0].send(&vec![frame; 16]);
        self.sent += 16;
        self.take(rig);
    }

    fn take(&mut self, rig: &mut Rig) {
        while let Some(frame) = rig.wires[1].next() {
            let (ingress, egress) = (frame[11], frame[13]);
            assert_eq!(ingress, egress, "a packet was done by two programs");
            self.received[usize::from(ingress)] += 1;
        }
    }

    /// Everything that went in has come out.
    fn settle(&mut self, rig: &mut Rig, on: &[&str]) {
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.received.iter().sum::<u64>() < self.sent && Instant::now() < deadline {
            self.take(rig);
        }
        // By the switch's own account first: what the system around it lost is another matter.
        let stats = rig.switch.objects(&[&["stats"], on].concat()).remove(0);
        let [one, two] = [0, 1].map(|port| stats["ports"][port].clone());
        assert_eq!(stats["total"]["dropped"], serde_json::json!([]), "{stats:#}");
        assert_eq!(one["ledger"]["balanced"], true, "{one:#}");
        let passed = (&one["ledger"]["received"], &two["medium"]["tx_frames"]);
        assert_eq!(passed, (&self.sent.into(), &self.sent.into()), "{stats:#}");
        assert_eq!(self.received.iter().sum::<u64>(), self.sent, "lost: {:?}", self.received);
    }

    /// Runs a command while frames pass; its standard output.
    fn during(&mut self, rig: &mut Rig, arguments: &[&str]) -> String {
        let mut command = Command::new(wireyard());
        command.args(arguments).env("WIREYARD_RUN_DIR", rig.switch.run_folder());
        command.current_dir(workspace_root()).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the command starts");
        let deadline = Instant::now() + Duration::from_secs(60);
        while child.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < deadline, "{arguments:?} does not end");
            self.go_on(rig);
        }
        let output = child.wait_with_output().expect("its output");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

#[test]
fn swaps_under_traffic_lose_and_mix_no_packet() {
    let Some(_network) = private_network("swap under traffic") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |mark: u8| folder.path().join(format!("{mark}.yaml")).display().to_string();
    for mark in 1..=3 {
        std::fs::write(path(mark), program(mark, "")).unwrap();
    }
    let mut rig = rig(&path(1), &["--control", folder.path().join("s.sock").to_str().unwrap()]);
    let switch = folder.path().join("s.sock").display().to_string();
    let on = ["--switch", switch.as_str()];
    let command = |rig: &Rig, words: &[&str]| rig.switch.command(&[words, &on].concat());
    command(&rig, &["table", "add", "ways", "std.ingress_port=1", "out", "2"]).expect(0, &[]);
    let mut traffic = Traffic::default();
    // The long form: WIREYARD_LONG=1.
    let swaps = if std::env::var_os("WIREYARD_LONG").is_some() { 100 } else { 20 };
    for n in 1..=swaps {
        let next = path((n % 3 + 1) as u8);
        let shown =
            traffic.during(&mut rig, &[&["swap", &next, "--keep-all", "--json"], &on[..]].concat());
        assert!(shown.contains(r#""done":true"#), "{shown}");
        assert!(
            shown.contains(r#"{"kind":"table","name":"ways","fate":"kept","entries":1}"#),
            "{shown}"
        );
        traffic.go_on(&mut rig);
    }
    traffic.settle(&mut rig, &on);
    assert!(traffic.received[1..].iter().all(|count| *count > 0), "{:?}", traffic.received);
    // The register was kept over all of them and counted each frame once.
    let seen = command(&rig, &["register", "dump", "seen", "--json"]);
    assert!(
        seen.out.contains(&format!(r#""value":{}"#, traffic.sent)),
        "{} {}",
        seen.out,
        traffic.sent
    );
    eprintln!("{swaps} swaps, {} frames, by program {:?}", traffic.sent, &traffic.received[1..]);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn a_swap_says_what_survives_and_changes_nothing_when_it_is_refused() {
    let Some(_network) = private_network("swap refused") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("one.yaml"), program(1, "")).unwrap();
    let more =
        "  news: { key: { ethernet.dst: exact }, actions: [drop, nop], default: nop, size: 8 }\n";
    let two = program(2, more).replace("size: 64 }", "size: 128 }");
    std::fs::write(path("two.yaml"), two).unwrap();
    std::fs::write(path("wrong.yaml"), program(3, "").replace("apply: ways", "apply: way"))
        .unwrap();
    let mut rig = rig(&path("one.yaml"), &[]);
    rig.does("table add ways std.ingress_port=1 out 2");
    let mut traffic = Traffic::default();
    traffic.go_on(&mut rig);
    let dry = rig.switch.objects(&["swap", &path("two.yaml"), "--dry-run"]).remove(0);
    assert_eq!(dry["done"], false, "{dry}");
    let fate = |name: &str| {
        let objects = dry["objects"].as_array().unwrap().iter();
        objects.clone().find(|one| one["name"] == name).map(|one| one["fate"].clone())
    };
    assert_eq!(fate("ways"), Some("changed".into()));
    assert_eq!((fate("seen"), fate("news")), (Some("kept".into()), Some("new".into())));
    rig.refuses(&format!("swap {} --keep-all", path("two.yaml")), "table ways would not keep");
    rig.refuses(&format!("swap {}", path("wrong.yaml")), "the switch runs on as it was");
    traffic.go_on(&mut rig);
    traffic.settle(&mut rig, &[]);
    assert_eq!(traffic.received, [0, 32, 0, 0], "the program is the first one");
    // Without --keep-all it begins with an empty table of the new shape.
    rig.does(&format!("swap {}", path("two.yaml")));
    assert_eq!(rig.switch.objects(&["table", "dump", "ways"]), [] as [serde_json::Value; 0]);
    rig.does("table add ways std.ingress_port=1 out 2");
    traffic.go_on(&mut rig);
    traffic.settle(&mut rig, &[]);
    assert_eq!(traffic.received, [0, 32, 16, 0]);
    let seen = rig.switch.objects(&["register", "dump", "seen"]).remove(0);
    assert_eq!(seen["cells"]["value"], 48);
    rig.switch.end("TERM").expect(0, &[]);
}
