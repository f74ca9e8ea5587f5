//! `--engine` and `--opt-level` from outside: every command that runs packets takes them and does the same
//! with each, code can be looked at, and where the system gives no machine code the interpreter runs.

use std::process::Command;

use wireyard_tests::binary::{Ended, run, wireyard};
use wireyard_tests::{has_tool, skip, workspace_root};

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
        assert!(shown.contains("ingress_in_place"), "level 2 works in place");
        assert!(!dump(stage, "0").contains("ingress_in_place"), "level 0 does not");
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
    let mut stories = Vec::new();
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
            stories.push((level, with(&["trace", ROUTER, "--hex", FRAME])));
        }
    }
    assert!(outputs[0].len() > hex.len(), "a packet left");
    assert!(outputs.iter().all(|output| *output == outputs[0]));
    for (level, story) in &stories {
        let same = stories.iter().filter(|(other, _)| other == level);
        assert!(same.into_iter().all(|(_, other)| other == story), "stories at level {level}");
        assert!(story.contains("out of port 2"), "{story}");
    }
}

/// Runs the binary where no memory may become executable, as on hardened systems; `None` where the system
/// cannot be made so.
fn hardened(arguments: &[&str]) -> Option<Ended> {
    // prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN), inherited by what is executed.
    let script = "import ctypes, os, sys\n\
                  if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0): sys.exit(77)\n\
                  os.execv(sys.argv[1], sys.argv[1:])";
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(wireyard()).args(arguments).current_dir(workspace_root());
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
    assert!(auto.out.contains("1 passed, 0 failed"), "{}", auto.out);
    let jit = with("jit").expect("as before");
    assert_eq!(jit.status, Some(2), "{}", jit.out);
    assert!(jit.out.contains("--engine auto"), "{}", jit.out);
}
