//! What is reported of small mistakes: in a script, a port, a configuration, an argument, at run time.

use std::fs;
use std::path::Path;

use wireyard_tests::binary::{Ended, run};

const PROGRAM: &str = "pipeline: example
metadata: { at: 8, read: 8 }
registers: { r: { bits: 8, size: 4 } }
counters: { k: { size: 4 } }
meters: { m: { size: 4 } }
actions: { send: { params: { port: port }, do: [ std.egress_port = port ] } }
tables:
  out: { key: { meta.at: exact }, actions: [send, drop], default: drop }
ingress:
  - meta.at = 5
  - \"r[meta.at] = 1\"
  - \"meta.read = r[meta.at]\"
  - count(k, meta.at)
  - std.color = execute(m, meta.at)
  - apply: out
";

const FRAME: &str = "020000000001020000000002080000";

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_trace_tells_what_an_index_outside_does() {
    let folder = tempfile::tempdir().unwrap();
    let program = write(folder.path(), "program.yaml", PROGRAM);
    let output = run(&["trace", &program, "--hex", FRAME]);
    output.expect(0, &[]);
    for line in [
        "r[5].value = 0x1 (ignored: outside)",
        "read r[5] (outside: it reads as 0)",
        "count k[5] (ignored: outside)",
        "meter m[5]: red (outside)",
    ] {
        assert!(output.out.contains(line), "no `{line}` in {}", output.out);
    }
    let inside =
        write(folder.path(), "inside.yaml", &PROGRAM.replace("meta.at = 5", "meta.at = 3"));
    let output = run(&["trace", &inside, "--hex", FRAME]);
    output.expect(0, &[]);
    assert!(output.out.contains("meter m[3]: green\n"), "{}", output.out);
    assert!(!output.out.contains("outside"), "{}", output.out);
}

/// A script of one statement, on one engine.
fn script(folder: &Path, statement: &str) -> Ended {
    write(folder, "program.yaml", PROGRAM);
    let path = write(folder, "t.stf", &format!("{statement}\n"));
    run(&["test", &path, "--engine", "interp"])
}

#[test]
fn a_script_says_what_is_wrong_in_words_of_the_script() {
    let folder = tempfile::tempdir().unwrap();
    for (statement, says) in [
        ("packet 200 00", "there is no port 200; "),
        ("add out meta.at:1 sedn(port:2)", "there is no action `sedn`; did you mean `send`?"),
        ("check_drops mispelled == 0", "there is no reason `mispelled`"),
        ("check_drops tx_ful == 0", "did you mean `tx_full`?"),
        ("check_punts puntd == 0", "there is no reason `puntd`"),
        ("check_counter k(99) == 0", "counter `k` counts at 0 to 3, not at 99"),
        (
            "check_counter k == 0",
            "counter `k` is an array: write an index, as in `check_counter k(0)`",
        ),
        ("register_read r 4", "r has 4 entries, not one of index 4"),
        ("meter_get_rates m 4", "m has 4 entries, not one of index 4"),
        ("wait 5000h\nwait 5000h", "t.stf:2: wait: all waits of a script are at most 213 days"),
        ("mirroring_add 5 99", "mirroring_add: there is no port 99"),
        ("mc_node_create 1 2 99", "mc_node_create: there is no port 99"),
        ("add out meta.at:1 send(2)\nadd out meta.at:1 send(2)", "out: exists already"),
        ("add out meta.at=1 send(2)", "`meta.at=1`: a packet test writes a key as `meta.at:1`"),
        ("add out meta.at:1 send(prot:2)", "no parameter `prot`: `send` has `port`"),
        ("add out meta.at:1 send(port:2, port:3)", "parameter `port` has two values"),
        ("remove out meta.at:7", "out: there is no such entry"),
        ("expect 12 00", "expect: there is no port 12; "),
        ("expect_drop tx_ful", "did you mean `tx_full`?"),
        ("expect_punt puntd", "there is no reason `puntd`"),
        ("packet 1 00\nports 1 2", "t.stf:2: this stands before the first packet"),
        ("packet 1 00\nentries none", "t.stf:2: this stands before the first packet"),
        ("packet 1 00\nprogram x.yaml", "x.yaml"),
    ] {
        let ended = script(folder.path(), statement);
        assert!(ended.status == Some(2) && ended.out.contains(says), "{statement}: {}", ended.out);
    }
    let long = script(folder.path(), &format!("packet 1 {}", "00".repeat(20_000)));
    assert!(
        long.status == Some(2) && long.out.contains("20000 bytes are too many"),
        "{}",
        long.out
    );
    // A packet that does not come is missed where it is expected, not where the script waits for it.
    let missed = script(
        folder.path(),
        &format!("add out meta.at:5 send(2)\npacket 1 {FRAME}\nexpect 3\n# later\nwait"),
    );
    let says = "t.stf:3: expected a packet on port 3, none came; packets that came: 1 on port 2";
    assert!(missed.status == Some(1) && missed.out.contains(says), "{}", missed.out);
    for statement in ["check_drops tx_full == 0", "check_drops dropped == 0", "mirroring_add 5 2"] {
        script(folder.path(), statement).expect(0, &[]);
    }
}

/// A link to a folder above would never end.
#[test]
fn scripts_behind_a_link_in_a_circle_are_run_once() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "program.yaml", PROGRAM);
    write(folder.path(), "t.stf", "check_drops tx_full == 0\n");
    std::os::unix::fs::symlink(".", folder.path().join("again")).unwrap();
    let ended = run(&["test", folder.path().to_str().unwrap(), "--engine", "interp"]);
    ended.expect(0, &[]);
    assert!(ended.out.ends_with("\n1 passed, 0 failed\n"), "{}", ended.out);
}

/// The parser of a frame that differs begins with the link type of its port.
#[test]
fn a_byte_that_differs_has_the_name_of_its_link() {
    let folder = tempfile::tempdir().unwrap();
    let program = "pipeline: example
headers: { e: { fields: { kind: 8 } }, i: { fields: { lane: 8 } } }
parser:
  start: { select: std.ingress_link, cases: { link.infiniband: ib }, default: eth }
  eth: { extract: e }
  ib: { extract: i }
deparser: { emit: [e, i] }
ingress: [ std.egress_port = 2 ]
";
    write(folder.path(), "program.yaml", program);
    for (links, name) in [("", "e.kind"), ("link 1 infiniband\nlink 2 infiniband\n", "i.lane")] {
        let script = format!("{links}packet 1 0102\nexpect 2 0202\n");
        let ended = run(&["test", &write(folder.path(), "t.stf", &script), "--engine", "interp"]);
        let says = format!("byte 0 is {name}\n");
        assert!(ended.status == Some(1) && ended.out.contains(&says), "{}", ended.out);
    }
}

/// A script counts, removes and adds again what the program declares, in a table that is full of it too.
#[test]
fn a_script_names_entries_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let keyed = "  out:
    key: { meta.at: exact }
    actions: [send, drop]
    default: drop
    counters: true
    size: 1
    entries: [ { match: { meta.at: 5 }, action: send(2) } ]
";
    let line = PROGRAM.lines().find(|line| line.starts_with("  out:")).unwrap();
    let program = PROGRAM.replace(&format!("{line}\n"), keyed);
    let constant = program.replace("    size: 1\n", "    const_entries: true\n");
    let passes = |program: &str, script: &str| {
        write(folder.path(), "program.yaml", program);
        let path = write(folder.path(), "t.stf", script);
        run(&["test", &path, "--engine", "interp"])
    };
    let counted = format!("packet 1 {FRAME}\nexpect 2\nwait\ncheck_counter out meta.at:5 == 1\n");
    let again = "remove out meta.at:5\ncheck_entries out == 0\nadd out meta.at:5 send(port:3)\n";
    passes(&program, &format!("{counted}{again}packet 1 {FRAME}\nexpect 3\n")).expect(0, &[]);
    passes(&constant, &counted).expect(0, &[]);
    for (program, script, says) in [
        (&program, "add out meta.at:5 send(3)", "out: exists already"),
        (&program, "check_counter out meta.at:6 == 0", "out: there is no such entry"),
        (&constant, "remove out meta.at:5", "out: const: it is fixed by the program"),
        (&constant, "add out meta.at:6 send(3)", "out: const: it is fixed by the program"),
    ] {
        let ended = passes(program, script);
        assert!(ended.status == Some(2) && ended.out.contains(says), "{script}: {}", ended.out);
    }
}

/// Every link has a word in programs.
#[test]
fn a_program_knows_the_link_of_each_port() {
    let folder = tempfile::tempdir().unwrap();
    let links = ["ethernet", "infiniband", "opa", "erf"];
    let mut program = "pipeline: example\ningress:\n".to_owned();
    let mut script = "ports 1 2 3 4\n".to_owned();
    for (port, link) in (1..).zip(links) {
        program +=
            &format!("  - if: std.ingress_link == link.{link}\n    then: [ drop on_{link} ]\n");
        script += &format!("link {port} {link}\n");
    }
    for (port, link) in (1..).zip(links) {
        script += &format!("packet {port} {FRAME}\nexpect_drop on_{link}\nwait\n");
    }
    write(folder.path(), "program.yaml", &program);
    let path = write(folder.path(), "t.stf", &script);
    run(&["test", &path]).expect(0, &[]);
}

/// The place is in the script, also where a value stands twice or the text is a part of another word.
#[test]
fn a_script_says_where_an_entry_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    for (statement, column, marked) in [
        ("add out meta.at:300 send(2)", 17, "300"),
        ("add out 7 meta.at:1 send(70000)", 26, "70000"),
        ("add out meta.at:1 sendme(1)", 19, "sendme"),
        ("add outer meta.at:1 send(1)", 5, "outer"),
        ("setdefault out send(99999)", 21, "99999"),
    ] {
        let ended = script(folder.path(), &format!("# a comment\n\n{statement}"));
        let place = format!("t.stf:3:{column}\n");
        let line = format!("3 | {statement}\n");
        let carets = format!("| {}{}", " ".repeat(column - 1), "^".repeat(marked.len()));
        for text in [&place, &line, &carets] {
            assert!(ended.out.contains(text), "{statement}: no `{text}` in {}", ended.out);
        }
        assert_eq!(statement[column - 1..].find(marked), Some(0));
    }
}

#[test]
fn a_port_has_a_number_that_ports_have() {
    let folder = tempfile::tempdir().unwrap();
    for number in ["65533", "65535", "65536", "x"] {
        let text = format!("ports: {{ {number}: {{ rate: 1Gbps }} }}\n");
        let config = write(folder.path(), "switch.yaml", &text);
        let says = format!("`{number}` is not a port number: use 0 to 65532");
        run(&["check", "--config", &config]).expect(1, &[&says]);
        if number != "x" {
            let port = format!("{number}=raw:nowhere");
            let says = format!("port `{port}`: use 0 to 65532");
            run(&["run", "programs/l2_switch", "--port", &port]).expect(2, &[&says]);
        }
    }
    let config = write(
        folder.path(),
        "switch.yaml",
        "ports: { 0: { rate: 1Gbps }, 65532: { rate: 1Gbps } }\n",
    );
    run(&["check", "--config", &config]).expect(0, &[]);
}

/// What is weak about queues is counted with the other warnings.
#[test]
fn warnings_about_queues_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let text = "ports: { 1: { rate: 1Gbps }, 2: { rate: 1Gbps } }
qos: { preset: sonic_azure, port_defaults: { pfc_enable: [3] } }
";
    let ended = run(&["check", "--config", &write(folder.path(), "switch.yaml", text)]);
    ended.expect(0, &[]);
    let output = ended.out.lines().filter(|line| line.starts_with("warning: port")).count();
    assert_eq!(output, 2, "{}", ended.out);
    assert!(ended.out.ends_with("2 ports, with queues; 2 warnings\n"), "{}", ended.out);
}

/// What a page of `explain` shows as wrong is wrong, and what it shows as right is right.
#[test]
fn the_commands_of_an_explanation_do_what_it_says() {
    let page = run(&["explain", "E0002"]);
    page.expect(0, &[]);
    let commands: Vec<&str> =
        page.out.lines().filter_map(|line| line.trim().strip_prefix("$ wireyard ")).collect();
    let [wrong, right] = commands[..] else { panic!("two commands: {}", page.out) };
    let of = |command: &str| run(&command.split(' ').collect::<Vec<_>>());
    let says = page.out.lines().find(|line| line.trim().starts_with("cannot read"));
    of(wrong).expect(2, &["error[E0002]", says.expect("the message").trim()]);
    of(right).expect(0, &[]);
}

/// Programs of every page of `explain`: the wrong ones have its error or warning, the right ones have none.
#[test]
fn the_programs_of_every_explanation_are_wrong_and_right() {
    let folder = tempfile::tempdir().unwrap();
    let pages = wireyard_tests::workspace_root().join("pipeline/src/explain");
    let (mut wrong, mut right) = (0, 0);
    for page in fs::read_dir(pages).unwrap().map(|page| page.unwrap().path()) {
        let text = fs::read_to_string(&page).unwrap();
        let code = page.file_stem().unwrap().to_str().unwrap();
        let Some((_, examples)) = text.split_once("## Wrong\n") else { continue };
        let (first, second) = examples.split_once("## Right\n").unwrap_or((examples, ""));
        let checked = |program: &str| run(&["check", &write(folder.path(), "page.yaml", program)]);
        for program in programs(first) {
            let ended = checked(program);
            assert!(ended.err.contains(&format!("[{code}]")), "{code}: {program}{}", ended.err);
            wrong += 1;
        }
        for program in programs(second) {
            let ended = checked(program);
            ended.expect(0, &[]);
            assert!(!ended.err.contains(&format!("[{code}]")), "{code}: {program}{}", ended.err);
            right += 1;
        }
    }
    assert!(wrong > 60 && right > 60, "{wrong} and {right}");
}

/// The YAML blocks of a part of a page.
fn programs(part: &str) -> impl Iterator<Item = &str> {
    part.split("```yaml\n").skip(1).filter_map(|block| Some(block.split_once("```")?.0))
}

#[test]
fn a_header_that_is_not_included_is_named_with_its_library() {
    let folder = tempfile::tempdir().unwrap();
    let says = |program: &str| {
        let ended = run(&["check", &write(folder.path(), "p.yaml", program)]);
        ended.expect(1, &[]);
        ended.err
    };
    let rest = "parser:\n  start: { extract: ethernet }\ningress:\n  - if: ipv4.valid\n    then: [ drop ]\n";
    let output = says(&format!("pipeline: x\n{rest}"));
    for help in ["`ethernet` has it: `include: [ethernet]`", "`ip` has it: `include: [ip]`"] {
        assert!(output.contains(help), "no {help} in {output}");
    }
    // A word that is nearly one of the program's own is that, and one that nobody has is nothing.
    let output = says(&format!("pipeline: x\ninclude: [ethernet, ip]\n{rest}  - ipv5.ttl = 1\n"));
    assert!(output.contains("did you mean `ipv4`?") && !output.contains("has it"), "{output}");
}

#[test]
fn arguments_that_cannot_be_are_refused_with_the_way_out() {
    run(&["check"]).expect(2, &["--config"]);
    run(&["trace", "programs/l2_switch"]).expect(2, &["--hex", "--pcap"]);
    run(&["lab", "programs/lab/incast.yaml", "--jobs", "0"]).expect(2, &["--jobs", "1..="]);
    let long = ["run", "programs/l2_switch", "--port", "1=x", "--duration", "99999999999999"];
    run(&long).expect(2, &["at most 1000000000 seconds"]);
}

/// What `run` would refuse of an interface, `check` refuses at its place.
#[test]
fn an_interface_that_cannot_be_is_refused_by_check() {
    let folder = tempfile::tempdir().unwrap();
    for (ports, column, says) in [
        ("1: { interface: 'a,los=1' }", 26, "did you mean `loss`?"),
        ("1: { interface: '' }", 26, "names no interface"),
        ("1: { interface: a }, 2: { interface: 'raw:a' }", 47, "its interface is port 1 already"),
    ] {
        let text = format!("ports: {{ {ports} }}\n");
        let config = write(folder.path(), "switch.yaml", &text);
        let place = format!("switch.yaml:1:{column}\n");
        run(&["check", "--config", &config]).expect(1, &["E0010", &place, says]);
        run(&["run", "programs/l2_switch", "--config", &config]).expect(2, &[&place, says]);
    }
    let frame = format!("frame: '{FRAME}', period: 1ms");
    let fed =
        format!("ports: {{ 1: {{ interface: a }} }}\ngenerators: [ {{ port: 2, {frame} }} ]\n");
    let config = write(folder.path(), "switch.yaml", &fed);
    run(&["check", "--config", &config]).expect(1, &["generator 1: there is no port 2"]);
    let both = ["check", "programs/l2_switch", "--config", &config];
    run(&both).expect(1, &["generator 1: there is no port 2"]);
    // Where the command line names the ports, it may name this one.
    let later = write(folder.path(), "switch.yaml", &fed.replace("interface: a", "rate: 1Gbps"));
    run(&["check", "--config", &later]).expect(0, &[]);
    let fine = "ports: { 1: { interface: 'pcap:a.pcap' }, 2: { interface: 'xdp:a,queue=1' } }\n";
    run(&["check", "--config", &write(folder.path(), "switch.yaml", fine)]).expect(0, &[]);
}

#[test]
fn a_key_of_a_port_is_looked_for_among_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let wrong =
        write(folder.path(), "wrong.yaml", "ports:\n  2: { interfce: w2 }\n  3: { zzz: 1 }\n");
    let ended = run(&["check", "--config", &wrong]);
    let all = ["did you mean `interface`?", "no key `zzz`", "`mac`", "`rate`", "2 errors\n"];
    ended.expect(1, &all);
}

#[test]
fn one_of_a_thing_has_no_s() {
    let folder = tempfile::tempdir().unwrap();
    let one = PROGRAM.replace("ingress:\n", "ingress:\n  - meta.nothing = 1\n");
    let ended = run(&["check", &write(folder.path(), "one.yaml", &one)]);
    ended.expect(1, &["1 error\n"]);
}

const METERED: &str = "pipeline: example
headers: { eth: { fields: { dst: mac, src: mac, kind: 16 } } }
parser: { start: { extract: eth } }
actions: { send: { params: { port: port }, do: [ std.egress_port = port ] } }
tables:
  rates:
    key: { eth.kind: exact }
    actions: [send, drop]
    meter: { type: srtcm, unit: packets }
    entries: [ { match: { eth.kind: 1 }, action: send(2), meter: { cir: 1pps, cbs: 1, ebs: 1 } } ]
    size: 8
ingress:
  - apply: rates
  - if: std.color == 2
    then: [ drop too_fast ]
deparser: { emit: [eth] }
";

const ENTRIES: &str = "entries:
  rates:
    - { match: { eth.kind: 2 }, action: send(2), meter: { cir: 1pps, cbs: 3 } }
    - { match: { eth.kind: 3 }, action: send(2) }
";

/// The meter of an entry has the entry's rates, in the program and in an entries file, on both engines; without rates
/// everything passes.
#[test]
fn an_entry_has_rates_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let program = write(folder.path(), "program.yaml", METERED);
    let entries = write(folder.path(), "entries.yaml", ENTRIES);
    let frame = |kind: u16| format!("020000000001020000000002{kind:04x}00");
    let mut text = String::new();
    for (kind, passes) in [(1, 2), (2, 3), (3, 6)] {
        for n in 0..6 {
            let frame = frame(kind);
            text += &format!("packet 1 {frame}\n");
            text += &if n < passes {
                format!("expect 2 {frame}\n")
            } else {
                "expect_drop too_fast\n".into()
            };
        }
    }
    let script = write(folder.path(), "t.stf", &format!("{text}wait\ncheck_drops too_fast == 7\n"));
    for engine in ["interp", "jit"] {
        run(&["test", &script, "--engine", engine]).expect(0, &[]);
    }
    let output = run(&["trace", &program, "--entries", &entries, "--hex", &frame(2)]);
    output.expect(0, &[]);
    assert!(output.out.contains("table rates: hit, entry 1, green"), "{}", output.out);
    // Of a single-rate meter `ebs` may be left out, as of entry 2, and nothing more is given.
    let two_rates = ENTRIES.replace("cbs: 3", "cbs: 3, pir: 2pps");
    let wrong = write(folder.path(), "wrong.yaml", &two_rates);
    run(&["check", &program, "--entries", &wrong]).expect(1, &["and, unless it is 0, `ebs`"]);
    // What `fmt` writes is the same program.
    let dumped = run(&["dump", &program, "--stage", "ast"]);
    assert!(dumped.out.contains("meter: { cir: 1pps, cbs: 1, ebs: 1 }"), "{}", dumped.out);
    let again = write(folder.path(), "again.yaml", &dumped.out);
    let ir = |path: &str| run(&["dump", path, "--stage", "ir"]).out;
    assert!(
        ir(&program).contains("cir 1/s, cbs 1, ebs 1") && ir(&again) == ir(&program),
        "{}",
        ir(&again)
    );
}

/// Port 0 is a port like every other; a packet without a decision is dropped all the same.
#[test]
fn port_0_receives_and_sends() {
    let folder = tempfile::tempdir().unwrap();
    let program = "pipeline: example
ingress:
  - switch: std.ingress_port
    cases:
      0: [ std.egress_port = 1 ]
      1: [ std.egress_port = 0, clone(7) ]
      2: [ std.multicast_group = 3 ]
";
    write(folder.path(), "program.yaml", program);
    let script = format!(
        "ports 0 1 2 3
mirroring_add 7 0
mc_mgrp_create 3
mc_node_create 0 0 1
mc_node_associate 3 0
packet 0 {FRAME}
expect 1 {FRAME}
wait
packet 1 {FRAME}
expect 0 {FRAME}
expect 0 {FRAME}
wait
packet 2 {FRAME}
expect 0 {FRAME}
expect 1 {FRAME}
wait
packet 3 {FRAME}
expect_drop no_decision
"
    );
    let script = write(folder.path(), "t.stf", &script);
    run(&["test", &script, "--every-level"]).expect(0, &[]);
    // Without the port the decision leads nowhere.
    let text = format!("ports 1\npacket 1 {FRAME}\nexpect_drop no_such_port\n");
    let script = write(folder.path(), "t.stf", &text);
    run(&["test", &script, "--every-level"]).expect(0, &[]);
}

/// Names of P4 lead to ours, and a field that is like no other to those that there are.
#[test]
fn an_unknown_name_shows_the_names_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    for (statement, says) in [
        ("std.egress_spec = 2", "did you mean `egress_port`?"),
        ("std.egress_port = bth.pair", "it has `opcode`, `solicited`"),
    ] {
        let text = format!("pipeline: p\ninclude: [infiniband]\ningress:\n  - {statement}\n");
        let path = write(folder.path(), "p.yaml", &text);
        run(&["check", &path]).expect(1, &["E0104", says]);
    }
    let text = PROGRAM.replace("default: drop }", "default_action: drop }");
    let path = write(folder.path(), "p.yaml", &text);
    run(&["check", &path]).expect(1, &["E0008", "did you mean `default`?"]);
}

/// The class of a packet is by its port of entry, its queue by its port of exit.
#[test]
fn a_curve_in_a_queue_that_another_port_fills_is_no_weakness() {
    let folder = tempfile::tempdir().unwrap();
    let program = "pipeline: p\ninclude: [ethernet, ip]\nparser: { start: { extract: ethernet, next: ipv4 }, ipv4: { extract: ipv4 } }\n\
                   ingress: [ std.egress_port = 2, std.ect = ipv4.ecn != 0 ]\negress: [ { if: std.congestion_mark == 1, then: [ ipv4.ecn = 3 ] } ]\n\
                   checksums: [ { field: ipv4.checksum, over: ipv4, when: ipv4.valid } ]\ndeparser: { emit: [ethernet, ipv4] }\n";
    write(folder.path(), "program.yaml", program);
    for (class, is_weak) in [(3, false), (0, true)] {
        let config = format!(
            "ports: {{ 1: {{ rate: 10Gbps }}, 2: {{ rate: 10Gbps }} }}\nqos:\n  wred_profiles: {{ w: {{ green: {{ kmin: 10 KB, kmax: 20 KB, pmax: 5 % }} }} }}\n  \
             ports: {{ 1: {{ default_tc: {class} }}, 2: {{ queue_wred: {{ 3: w }} }} }}\n"
        );
        write(folder.path(), "switch.yaml", &config);
        let ended = run(&["check", folder.path().to_str().unwrap()]);
        assert_eq!(ended.status, Some(0), "{}{}", ended.out, ended.err);
        assert_eq!(
            ended.out.contains("gives no packet a class"),
            is_weak,
            "{class}: {}",
            ended.out
        );
    }
}
