//! `--engine` and `--opt-level` from outside: every command that runs packets takes them and does the same
//! with each, code can be looked at, and where the system gives no machine code the interpreter runs.

use std::process::Command;
use std::time::Duration;

use wireyard_switch::control::{Control, Keep};
use wireyard_switch::program::{DeviceOptions, EngineKind, embedded, from_text};
use wireyard_tests::binary::{Ended, run, wireyard};
use wireyard_tests::live::Switch;
use wireyard_tests::{has_tool, skip, workspace_root};

use crate::congested::counters;
use crate::rig::{Wire, frame, private_network, veth};

const ROUTER: &str = "programs/ipv4_router";
/// To 10.0.2.9 by port 2.
const FRAME: &str = "0200000001010200000001020800\
                     4500002000010000401163bf0a0001050a000209\
                     03e807d0000c044e64617461";

#[test]
fn code_is_shown_with_the_lines_of_the_program() {
    let dump = |stage: &str, level: &str| {
        let ended = run(&["dump", ROUTER, "--stage", stage, "--opt-level", level]);
        assert_eq!(ended.status, Some(0), "{}", ended.err);
        ended.out
    };
    let text = std::fs::read_to_string(workspace_root().join(ROUTER).join("program.yaml"));
    let text = text.expect("the program");
    for (stage, words) in [("clif", ["iconst", "brif"]), ("asm", ["mov", "ret"])] {
        let shown = dump(stage, "2");
        for word in words {
            assert!(shown.contains(word), "no {word} in\n{shown}");
        }
        for statement in ["- apply: fib", "- ipv4.ttl = ipv4.ttl - 1", "ipv4:"] {
            let line = text.lines().position(|line| line.trim().starts_with(statement));
            let line = line.expect("a line of the program") + 1;
            let comment = format!("program.yaml:{line}: {statement}");
            assert!(shown.contains(&comment), "no {comment}");
        }
        assert!(shown.contains("ingress_specialised"), "level 2 has path-specialised code");
        assert!(!dump(stage, "0").contains("ingress_specialised"), "level 0 does not");
    }
}

#[test]
fn every_command_takes_engine_and_level() {
    let folder = tempfile::tempdir().expect("a folder");
    let hex: Vec<u8> = (0..FRAME.len())
        .step_by(2)
        .map(|n| u8::from_str_radix(&FRAME[n..n + 2], 16).unwrap())
        .collect();
    let pcap = folder.path().join("in.pcap");
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    file.extend([0, 0, 4, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    file.extend([hex.len() as u8, 0, 0, 0, hex.len() as u8, 0, 0, 0]);
    file.extend(&hex);
    std::fs::write(&pcap, file).expect("writes");
    let from = format!("1={}", pcap.display());
    let mut outputs = Vec::new();
    let mut traces = Vec::new();
    for engine in ["interp", "jit", "auto"] {
        for level in ["0", "1", "2"] {
            let with = |arguments: &[&str]| {
                let mut all: Vec<&str> = arguments.to_vec();
                all.extend(["--engine", engine, "--opt-level", level]);
                let ended = run(&all);
                assert_eq!(ended.status, Some(0), "{all:?}: {}", ended.err);
                ended.out
            };
            with(&["check", ROUTER]);
            with(&["test", "programs/ipv4_router/forward.stf"]);
            let out = folder.path().join(format!("{engine}{level}.pcap"));
            with(&["replay", ROUTER, "--in", &from, "--out", &format!("2={}", out.display())]);
            outputs.push(std::fs::read(out).expect("a capture"));
            traces.push((level, with(&["trace", ROUTER, "--hex", FRAME])));
        }
    }
    assert!(outputs[0].len() > hex.len(), "a packet left");
    assert!(outputs.iter().all(|output| *output == outputs[0]));
    for (level, trace) in &traces {
        let same = traces.iter().filter(|(other, _)| other == level);
        assert!(same.into_iter().all(|(_, other)| other == trace), "traces at level {level}");
        assert!(trace.contains("out of port 2"), "{trace}");
    }
}

/// Runs a command where no memory may become executable: prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN), inherited by
/// what is executed.
const HARDENED: &str = "import ctypes, os, sys\n\
                        if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0): sys.exit(77)\n\
                        os.execv(sys.argv[1], sys.argv[1:])";

/// Runs the binary where no memory may become executable, as on hardened systems; `None` where the system
/// cannot be made so.
fn hardened(arguments: &[&str]) -> Option<Ended> {
    let mut command = Command::new("python3");
    command.args(["-c", HARDENED]).arg(wireyard()).args(arguments).current_dir(workspace_root());
    let ended = Ended::of(&command.output().expect("python3 runs"));
    (ended.status != Some(77)).then_some(ended)
}

#[test]
fn without_executable_memory_the_interpreter_runs_and_says_so() {
    let name = "without_executable_memory_the_interpreter_runs_and_says_so";
    if !has_tool("python3") {
        return skip(name, "python3 is not there");
    }
    let test = ["test", "programs/ipv4_router/forward.stf", "--engine"];
    let with = |engine| hardened(&[test[0], test[1], test[2], engine]);
    let Some(auto) = with("auto") else {
        return skip(name, "the kernel has no PR_SET_MDWE (Linux 6.3)");
    };
    auto.expect(0, &["the interpreter runs ipv4_router: no machine code: "]);
    assert!(auto.out.contains("\n1 passed, 0 failed"), "{}", auto.out);
    let jit = with("jit").expect("as before");
    assert_eq!(jit.status, Some(2), "{}", jit.out);
    assert!(jit.out.contains("--engine auto"), "{}", jit.out);
    assert!(!(jit.err.clone() + &jit.out).contains("the interpreter runs"), "{}", jit.err);
}

/// The compiling thread notifies a live switch, which forwards on.
#[test]
fn a_live_switch_without_executable_memory_says_so() {
    let name = "a_live_switch_without_executable_memory_says_so";
    if !has_tool("python3") {
        return skip(name, "python3 is not there");
    }
    if hardened(&["explain", "E0002"]).is_none() {
        return skip(name, "the kernel has no PR_SET_MDWE (Linux 6.3)");
    }
    let Some(_network) = private_network(name) else { return };
    veth("sw1", "host1");
    veth("sw2", "host2");
    let program = "programs/rocev2_lossless";
    let arguments = [program, "--port", "1=raw:sw1", "--port", "2=raw:sw2", "--json"];
    let mut switch = Switch::start_under(&["python3", "-c", HARDENED], &arguments);
    let says = "the interpreter runs rocev2_lossless: no machine code: ";
    switch.await_text(says, Duration::from_secs(30));
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    let frames: Vec<Vec<u8>> = (60..80).map(|len| frame(&[], len)).collect();
    host1.send(&frames);
    assert_eq!(host2.receive(frames.len()), frames);
    let report = counters(&switch.end("INT"));
    assert_eq!(report["program"]["engine"], "interp");
}

/// A program that is too large to compile: every operation of every action is code wherever its table is applied.
fn large() -> String {
    let mut text = String::from(
        "pipeline: large
include: [ethernet]
metadata: { a: 64 }
parser:
  start: { extract: ethernet }
actions:
  some: { do: [",
    );
    text.push_str(&"meta.a = meta.a * 3 + 1, ".repeat(500));
    text.push_str("] }\n");
    let many = vec!["some()"; 60].join(", ");
    for n in 0..16 {
        text.push_str(&format!("  many{n}: {{ do: [ {many} ] }}\n"));
    }
    let names: Vec<String> = (0..16).map(|n| format!("many{n}")).collect();
    text.push_str(&format!(
        "tables:
  choice: {{ key: {{ ethernet.dst: exact }}, actions: [{}, nop], default: nop }}
ingress:
  - apply: choice
  - ethernet.src = meta.a[47:0]
  - std.egress_port = 2
deparser:
  emit: [ethernet]
",
        names.join(", ")
    ));
    text
}

#[test]
fn a_program_that_is_too_large_runs_on_the_interpreter_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("program.yaml"), large()).expect("writes");
    let script = "packet 1 020000000002020000000001 88b5\nexpect 2 020000000002000000000000 88b5\n";
    let path = folder.path().join("test.stf");
    std::fs::write(&path, script).expect("writes");
    let path = path.to_str().expect("a path");
    let auto = run(&["test", path, "--engine", "auto"]);
    auto.expect(
        0,
        &["the interpreter runs large: no machine code: over budget: more than 400000 operations"],
    );
    assert!(auto.out.contains("\n1 passed, 0 failed"), "{}", auto.out);
    let jit = run(&["test", path, "--engine", "jit"]);
    assert_eq!(jit.status, Some(2), "{}", jit.out);
    assert!(jit.out.contains("--engine auto"), "{}", jit.out);
    let why = "here: over budget: more than 400000 operations";
    assert!(jit.out.contains(why), "{}", jit.out);
    assert!(!(jit.err.clone() + &jit.out).contains("the interpreter runs"), "{}", jit.err);
}

/// The engine of a device is that of the programs that replace its first one, too.
#[test]
fn a_replacement_without_machine_code_is_refused_where_that_is_demanded() {
    let large = from_text("large.yaml", &large()).expect("it is correct");
    let small = embedded("l2_switch").expect("is there").expect("it is correct");
    for (engine, refused) in [(EngineKind::Jit, true), (EngineKind::Auto, false)] {
        let core = small.device(DeviceOptions { engine, ..DeviceOptions::small() });
        let core = core.expect("it is compiled");
        let control = Control::of(&core).expect("has one").clone();
        let swapped = control.swap(&large, Keep::Nothing);
        assert_eq!(swapped.is_err(), refused, "{swapped:?}");
        let runs = if refused { "l2_switch" } else { "large" };
        assert_eq!(control.program().name, runs);
        if let Err(error) = swapped {
            let why = "the compiled engine does not run this program here: over budget: ";
            assert!(error.to_string().starts_with(why), "{error}");
        }
    }
}
