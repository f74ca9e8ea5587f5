//! The commands from outside: bad input is refused where it is wrong and nothing is half done, good
//! input gives results that are true.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wireyard_switch::cli::args::command_line;
use wireyard_tests::binary::{Ended, run, wireyard};
use wireyard_tests::workspace_root;

/// A copy of a program's folder, to break.
pub(crate) struct Copy {
    folder: tempfile::TempDir,
}

impl Copy {
    pub(crate) fn of(program: &str) -> Copy {
        let folder = tempfile::tempdir().unwrap();
        let from = workspace_root().join("programs").join(program);
        for entry in fs::read_dir(from).unwrap().map(|e| e.unwrap().path()) {
            fs::copy(&entry, folder.path().join(entry.file_name().unwrap())).unwrap();
        }
        Copy { folder }
    }

    pub(crate) fn path(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the only occurrence of `old`.
    #[track_caller]
    pub(crate) fn change(&self, name: &str, old: &str, new: &str) {
        let text = fs::read_to_string(self.file(name)).unwrap();
        assert_eq!(text.matches(old).count(), 1, "`{old}` in {name}");
        fs::write(self.file(name), text.replace(old, new)).unwrap();
    }
}

/// One frame in a pcap file.
fn one_frame(folder: &Path) -> PathBuf {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([0, 0, 4, 0, 1, 0, 0, 0]);
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 60, 0, 0, 0]);
    bytes.extend([7; 60]);
    let path = folder.join("one.pcap");
    fs::write(&path, bytes).unwrap();
    path
}

/// `check` fails (1), or has nothing to check (2), and `replay` and `run` refuse (2), all with `says`; nothing is written.
#[track_caller]
fn refused(copy: &Copy, says: &[&str]) {
    let program = copy.path();
    let unread = says.contains(&"E0002");
    run(&["check", program]).expect(if unread { 2 } else { 1 }, says);
    let frames = format!("1={}", one_frame(copy.folder.path()).display());
    let out = copy.file("out.pcap");
    let to = format!("2={}", out.display());
    let ended = run(&["replay", program, "--in", &frames, "--out", &to]);
    ended.expect(2, says);
    assert!(ended.err.contains("nothing was loaded"), "{}", ended.err);
    assert!(ended.out.is_empty() && !out.exists(), "half done: {}", ended.out);
    let source = frames.replace("1=", "1=pcap:");
    run(&["run", program, "--port", &source]).expect(2, says);
}

#[test]
fn bad_programs_are_refused_with_their_place() {
    let broken = |file: &str, old: &str, new: &str, says: &[&str]| {
        let copy = Copy::of("ipv4_router");
        copy.change(file, old, new);
        refused(&copy, says);
    };
    let name = "pipeline: ipv4_router\n";
    broken(
        "program.yaml",
        name,
        "pipeline: ipv4_router\nheadrs: {}\n",
        &["E0008", "program.yaml:2:1", "did you mean `headers`?"],
    );
    broken(
        "program.yaml",
        name,
        "pipeline: ipv4_router\npipeline: again\n",
        &["E0007", "program.yaml:2:1", "written first here"],
    );
    broken(
        "program.yaml",
        "{ next_hop: 16, l4_src",
        "{ next_hop: [16], l4_src",
        &["E0010", "program.yaml:8:23", "found a list"],
    );
    broken(
        "program.yaml",
        "include: [ethernet,",
        "include: [ethernt,",
        &["E0003", "program.yaml:6:11", "did you mean `ethernet`?"],
    );
    broken(
        "program.yaml",
        "ipv4.ttl = ipv4.ttl - 1",
        "ipv4.ttl = ethernet.dst",
        &["E0109", "program.yaml:80:16", "8 bits are wanted here, this has 48"],
    );
    broken(
        "program.yaml",
        "size: 1048576",
        "size: 2",
        &["E0133", "entries.yaml:11:3", "room for 2"],
    );
    broken(
        "entries.yaml",
        "  fib:\n",
        "  fibb:\n",
        &["E0100", "entries.yaml:11:3", "no table `fibb`", "did you mean `fib`?"],
    );
    broken(
        "entries.yaml",
        "action: via(1)",
        "action: via(70000)",
        &["E0110", "entries.yaml:12:55", "does not fit in 16 bits"],
    );
    broken(
        "entries.yaml",
        "ipv4.dst: 10.0.1.0/24",
        "ipv4.dst: 10.0.2.0/24",
        &["E0101", "entries.yaml:13:7", "first here"],
    );
    broken(
        "entries.yaml",
        "entries:\n",
        "settings: [ { port: 2, queue: 3, set: [kmax=400KB, kmim=100KB] } ]\nentries:\n",
        &["E0016", "entries.yaml:2:52", "`kmim` cannot be set", "did you mean kmin?"],
    );
    broken(
        "switch.yaml",
        "ports: {",
        "prots: {",
        &["E0008", "switch.yaml", "did you mean `ports`?"],
    );
}

/// What is wrong with a file as a whole has no column, and is still reported with the file's name.
#[test]
fn files_that_are_no_programs_are_refused() {
    let copy = Copy::of("ipv4_router");
    fs::write(copy.file("program.yaml"), [0xff, 0xfe, 0x00]).unwrap();
    refused(&copy, &["program.yaml"]);
    fs::write(copy.file("program.yaml"), "").unwrap();
    refused(&copy, &["program.yaml"]);
    fs::write(copy.file("program.yaml"), "pipeline: [").unwrap();
    refused(&copy, &["E0001", "program.yaml:1:"]);
    fs::remove_file(copy.file("program.yaml")).unwrap();
    refused(&copy, &["E0002", "program.yaml"]);
    // What stands beside the program is read, whatever it is.
    let copy = Copy::of("ipv4_router");
    fs::remove_file(copy.file("entries.yaml")).unwrap();
    std::os::unix::fs::symlink("nowhere", copy.file("entries.yaml")).unwrap();
    refused(&copy, &["E0002", "entries.yaml"]);
    fs::remove_file(copy.file("entries.yaml")).unwrap();
    fs::create_dir(copy.file("entries.yaml")).unwrap();
    refused(&copy, &["E0002", "entries.yaml"]);
    run(&["check", "programs/no_such_program"]).expect(2, &["E0002", "no_such_program"]);
    run(&["check", "--config", "nowhere.yaml"]).expect(2, &["E0002", "nowhere.yaml"]);
}

#[test]
fn a_file_of_another_kind_is_named_with_its_command() {
    let scenario = "programs/lab/incast.yaml";
    let program = "programs/ipv4_router/program.yaml";
    let study = "programs/lab/studies/marking.yaml";
    for (words, status, what, command) in [
        (
            ["check", scenario],
            1,
            "a scenario of the laboratory, not a program",
            "`wireyard lab --check",
        ),
        (["check", study], 1, "a study of the laboratory, not a program", "`wireyard lab sweep"),
        (
            ["check", "programs/ipv4_router/entries.yaml"],
            1,
            "a file of table entries",
            "`--entries",
        ),
        (["dump", "programs/ipv4_router/switch.yaml"], 2, "a switch configuration", "`--config"),
        (["lab", program], 2, "a program, not a scenario", "`wireyard check"),
        (["lab", study], 2, "a study of the laboratory, not a scenario", "`wireyard lab sweep"),
        (["lab sweep", scenario], 2, "a scenario of the laboratory, not a study", "`wireyard lab "),
    ] {
        let [command_words, file] = words;
        let words: Vec<&str> = command_words.split(' ').chain([file]).collect();
        let ended = run(&words);
        ended.expect(status, &[file, what, command]);
        let errors = ended.err.lines().filter(|line| line.starts_with("error")).count();
        assert!(errors <= 2, "{}", ended.err);
    }
}

#[test]
fn port_specifications_are_refused_with_a_way_out() {
    let says = [
        ("1=foo:bar", "known are xdp, raw, pnet, tap, pcap"),
        ("x=raw:lo", "`x` is not a port number"),
        ("65533=raw:lo", "use 0 to 65532"),
        ("70000=raw:lo", "use 0 to 65532"),
        ("1=raw:", "names no interface"),
        ("1=raw:a_name_of_16_byte", "at most 15 bytes"),
        ("1=raw:lo,link=token_ring", "known are ethernet, infiniband, opa, erf"),
        ("1=raw:lo,qeue=1", "did you mean `queue`?"),
        ("1=pcap:no_such_file.pcap", "no_such_file.pcap"),
        ("1=pcap:,out=-", "name a file"),
        ("", "port"),
    ];
    for (spec, text) in says {
        let ended = run(&["run", "programs/l2_switch", "--port", spec]);
        ended.expect(2, &["error: ", text]);
        assert!(ended.out.is_empty(), "{spec}: {}", ended.out);
    }
    let twice = ["run", "programs/l2_switch", "--port", "1=raw:a", "--port", "1=raw:b"];
    run(&twice).expect(2, &["number 1 is taken"]);
    let same = ["run", "programs/l2_switch", "--port", "1=raw:a", "--port", "2=xdp:a"];
    run(&same).expect(2, &["2=xdp:a", "its interface is port 1 already"]);
    run(&["run", "programs/l2_switch"]).expect(2, &["no ports", "--port 1=veth0"]);
    let misspelt = run(&["run", "l2_swich", "--port", "1=raw:lo"]);
    misspelt.expect(2, &["did you mean `l2_switch`, which is inside wireyard?"]);
    let out = ["replay", "l2_switch", "--in", "1=a.pcap", "--out", "2=-"];
    run(&out).expect(2, &["standard output has the counters: name a file"]);
    run(&["run", "programs/l2_switch", "--duration", "-1"]).expect(2, &[]);
}

#[test]
fn captures_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    let out = folder.path().join("out.pcap");
    let replay = || {
        let (from, to) = (format!("1={}", input.display()), format!("2={}", out.display()));
        let ended = run(&["replay", "programs/parse_all", "--in", &from, "--out", &to]);
        assert!(!out.exists(), "half done");
        assert!(ended.out.is_empty(), "a report of nothing: {}", ended.out);
        ended
    };
    replay().expect(2, &["in.pcap", "No such file"]);
    fs::write(&input, "").unwrap();
    replay().expect(2, &["in.pcap", "empty"]);
    fs::write(&input, "this is no capture file at all").unwrap();
    let ended = replay();
    ended.expect(2, &["not a pcap or pcapng file: `editcap -F pcapng` converts"]);
    assert!(!ended.err.contains("74 68 69 73"), "nothing of its contents: {}", ended.err);
    let mut header = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header.extend([0, 0, 4, 0]);
    fs::write(&input, &header).unwrap();
    replay().expect(2, &["in.pcap", "offset"]);
    for (link, name) in [(113, "LINUX_SLL"), (101, "RAW"), (9999_u32, "no registered name")] {
        fs::write(&input, [header.as_slice(), &link.to_le_bytes()].concat()).unwrap();
        replay().expect(2, &[&format!("link type {link}"), name, "InfiniBand (247)"]);
    }
    for bad in ["1", "=x", "x=y", "1="] {
        run(&["replay", "programs/parse_all", "--in", bad]).expect(2, &["NUMBER=FILE"]);
    }
}

/// An output never destroys what is read, nor another output.
#[test]
fn an_output_over_an_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let input = one_frame(folder.path());
    let before = fs::read(&input).unwrap();
    let name = input.display();
    let from = format!("1={name}");
    let again = format!("2={}/./one.pcap", folder.path().display());
    let ended = run(&["replay", "programs/parse_all", "--in", &from, "--out", &again]);
    ended.expect(2, &["one.pcap", "the output is an input"]);
    assert_eq!(fs::read(&input).unwrap(), before);
    let (one, two) = (format!("1={name}.out"), format!("2={name}.out"));
    let twice = ["replay", "programs/parse_all", "--in", &from, "--out", &one, "--out", &two];
    run(&twice).expect(2, &["one.pcap.out", "two ports"]);
}

/// A file is the same by every name: over a hard link, a way round, a link to where nothing is yet. `replay` and `run` ask the
/// same, and what is refused is as it was.
#[test]
fn a_file_is_known_by_every_name() {
    let copy = Copy::of("l2_switch");
    let folder = copy.folder.path();
    let input = one_frame(folder);
    let name = |path: &str| folder.join(path).display().to_string();
    fs::create_dir(name("sub")).unwrap();
    fs::hard_link(&input, name("hard.pcap")).unwrap();
    std::os::unix::fs::symlink("new.pcap", name("soft.pcap")).unwrap();
    fs::write(name("kept.pcap"), "kept").unwrap();
    let program = copy.path();
    let (around, new) = (name("sub/../new.pcap"), name("new.pcap"));
    let yaml = copy.file("program.yaml").display().to_string();
    let inside = [
        (vec![name("hard.pcap")], "the output is an input too"),
        (vec![new.clone(), around.clone()], "two ports cannot write one file"),
        (vec![new.clone(), name("soft.pcap")], "two ports cannot write one file"),
        (vec![name("kept.pcap"), name("sub/../kept.pcap")], "two ports cannot write one file"),
        (vec![yaml.clone()], "the program is read from this file"),
        (vec![name("kept.pcap"), name("none/x.pcap")], "port 3: "),
        (vec![name("kept.pcap"), name("sub")], "Is a directory"),
    ];
    let before = |path: &Path| fs::read(path).unwrap();
    let (frames, text) = (before(&input), before(&copy.file("program.yaml")));
    let unharmed = |what: &str, ended: &Ended| {
        assert!(ended.out.is_empty(), "{what}: {}", ended.out);
        assert!(before(&input) == frames, "{what}: the input is gone");
        assert!(before(&copy.file("program.yaml")) == text, "{what}: the program is gone");
        assert_eq!(before(&copy.file("kept.pcap")), b"kept", "{what}");
        assert!(!Path::new(&new).exists(), "{what}: half done");
    };
    let from = format!("1={}", input.display());
    let live = format!("1=pcap:{}", input.display());
    for (outputs, says) in &inside {
        let (mut replayed, mut ran) =
            (vec!["replay", program, "--in", &from], vec!["run", program, "--port", &live]);
        let to: Vec<String> = (2..).zip(outputs).map(|(n, file)| format!("{n}={file}")).collect();
        let ports = (2..).zip(outputs).map(|(n, file)| format!("{n}=pcap:,out={file}"));
        let ports: Vec<String> = ports.collect();
        to.iter().for_each(|to| replayed.extend(["--out", to]));
        ports.iter().for_each(|port| ran.extend(["--port", port]));
        for command in [replayed, ran] {
            let ended = run(&command);
            ended.expect(2, &[says]);
            unharmed(&format!("{command:?}"), &ended);
        }
    }
    let own = format!("{live},out={}", input.display());
    let (other, over) = (format!("2=pcap:,out={new}"), format!("2=raw:no,capture={around}"));
    let (two, three) = (format!("{live},capture={new}"), format!("3=raw:no,capture={around}"));
    let (of_input, of_program) =
        (format!("2=raw:no,capture={}", name("hard.pcap")), format!("{live},capture={yaml}"));
    let recorded: [(&[&str], &str); 6] = [
        (&[&own], "the output is an input too"),
        (&[&other, &over.replace("2=", "1=")], "an output and a capture cannot be one file"),
        (&[&two, &three], "name it alike"),
        (&[&live, &of_input], "the output is an input too"),
        (&[&of_program], "the program is read from this file"),
        // Nothing is wrong with the files here, and nothing is written for a device that cannot be.
        (&[&format!("{live},out={}", name("kept.pcap")), "2=raw:no_such"], "no_such"),
    ];
    for (ports, says) in recorded {
        let options = ports.iter().flat_map(|port| ["--port", port]);
        let ended = run(&["run", program].into_iter().chain(options).collect::<Vec<_>>());
        ended.expect(2, &[says]);
        unharmed(&format!("{ports:?}"), &ended);
    }
}

/// What an output file did not take at the end is reported, and is no success.
#[test]
fn an_output_that_is_full_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let input = one_frame(folder.path());
    let (from, live) = (format!("1={}", input.display()), format!("1=pcap:{}", input.display()));
    let l2 = "programs/l2_switch";
    let replayed = ["replay", l2, "--in", &from, "--out", "2=/dev/full"];
    run(&replayed).expect(2, &["/dev/full", "No space left"]);
    let ran = ["run", l2, "--port", &live, "--port", "2=pcap:,out=/dev/full", "--duration", "0.2"];
    run(&ran).expect(2, &["/dev/full", "No space left"]);
}

/// A replay that cannot begin leaves its outputs as they were, whatever was looked at first.
#[test]
fn a_replay_that_cannot_begin_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let input = one_frame(folder.path());
    let kept = folder.path().join("kept.pcap");
    let bad = folder.path().join("bad.pcap");
    fs::write(&kept, "kept").unwrap();
    fs::write(&bad, "this is no capture file at all").unwrap();
    let (from, out) = (format!("1={}", input.display()), format!("1={}", kept.display()));
    for second in [&bad, &folder.path().join("missing.pcap")] {
        let second = format!("2={}", second.display());
        let inputs = ["replay", "programs/l2_switch", "--in", &from, "--in", &second];
        for more in [vec!["--out", &out], vec!["--out", &out, "--json"]] {
            let ended = run(&inputs.iter().copied().chain(more).collect::<Vec<_>>());
            ended.expect(2, &["error: "]);
            assert!(ended.out.is_empty(), "a report of nothing: {}", ended.out);
            assert_eq!(fs::read(&kept).unwrap(), b"kept");
        }
    }
}

#[test]
fn frames_that_are_none_are_refused() {
    let trace = |hex: &str| run(&["trace", "programs/l2_switch", "--hex", hex]);
    trace("0").expect(2, &["1 hexadecimal digits are not whole bytes"]);
    trace("").expect(2, &["--hex: there is no byte of a frame"]);
    trace("zz").expect(2, &["`z` is not a hexadecimal digit"]);
    trace("\u{e9}0").expect(2, &["is not a hexadecimal digit"]);
    let folder = tempfile::tempdir().unwrap();
    let file = one_frame(folder.path());
    let frame = |n: &str| {
        run(&["trace", "programs/l2_switch", "--pcap", file.to_str().unwrap(), "--frame", n])
    };
    frame("2").expect(2, &["one.pcap has 1 frames, not 2"]);
    frame("0").expect(2, &["counted from 1"]);
    frame("1").expect(0, &[]);
    run(&["trace", "programs/l2_switch"]).expect(2, &["--hex"]);
    run(&["trace", "programs/l2_switch", "--hex", "00", "--link", "x"]).expect(2, &["infiniband"]);
}

/// Shorter than a header: a parser error that the trace shows and the program decides about.
#[test]
fn a_trace_tells_what_happens() {
    let short = run(&["trace", "programs/ipv4_router", "--hex", "0200"]);
    short.expect(0, &[]);
    assert!(short.out.contains("parser error packet_too_short"), "{}", short.out);
    assert!(short.out.contains("drop: runt"), "{}", short.out);
    // An IPv4 packet of TTL 2 from 10.0.2.9 to 10.0.1.9, for port 2's router address.
    let ip = "4500001c 0000 0000 02 fd a0d4 0a000209 0a000109 0000000000000000".replace(' ', "");
    let hex = format!("020000000201 020000000909 0800 {ip}");
    let ended = run(&["trace", "programs/ipv4_router", "--port", "2", "--hex", &hex]);
    ended.expect(0, &[]);
    for text in ["state ipv4", "ttl 0x2", "table fib", "via", "out of port 1: 42 bytes"] {
        assert!(ended.out.contains(text), "no `{text}` in {}", ended.out);
    }
    // New addresses, TTL 1, and the checksum greater by 0x0100.
    assert!(ended.out.contains("02 00 00 00 01 02 02 00 00 00 01 01 08 00"), "{}", ended.out);
    assert!(ended.out.contains("01 fd a1 d4"), "{}", ended.out);
}

#[test]
fn commands_tell_the_truth() {
    let out = |arguments: &[&str]| -> String {
        let ended = run(arguments);
        ended.expect(0, &[]);
        ended.out
    };
    let has = |text: &str, parts: &[&str]| {
        for part in parts {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
    };
    let router = "programs/ipv4_router";
    has(&out(&["check", router]), &["ipv4_router: ", "4 tables", "0 warnings"]);
    has(&out(&["explain", "E0003"]), &["E0003", "## Wrong"]);
    has(&out(&["explain"]), &["E0001  ", "E0133  "]);
    has(
        &out(&["explain", "bth"]),
        &["`include: [infiniband]`, 12 bytes", "bth.opcode", "bth.dqpn                   24 bits"],
    );
    has(&out(&["explain", "bth"]), &["bth.fecn                    1 bit\n"]);
    has(&out(&["explain", "ipv6_ext"]), &["ipv6_ext.data                 variable"]);
    has(&out(&["explain", "ipv6_ext", "--json"]), &["null"]);
    has(&out(&["explain", "roce"]), &["library: roce", "parsers:"]);
    let tag: serde_json::Value =
        serde_json::from_str(&out(&["explain", "vlan_tag", "--json"])).unwrap();
    assert_eq!(tag["library"], "ethernet", "{tag}");
    run(&["explain", "E9999"]).expect(2, &["E9999", "wireyard explain", "infiniband"]);
    for kind in ["program", "entries"] {
        let schema: serde_json::Value = serde_json::from_str(&out(&["schema", kind])).unwrap();
        assert!(schema["properties"].is_object(), "{kind}");
    }
    has(&out(&["dump", router, "--stage", "ast"]), &["pipeline: ipv4_router", "next_hops:"]);
    let ir = out(&["dump", router, "--stage", "ir"]);
    has(&ir, &["program ipv4_router", "ethernet, 14 bytes", "fib", "next_hops"]);
    assert_eq!(ir, out(&["dump", router, "--stage", "ir"]), "twice the same");
    assert!(!out(&["--version"]).is_empty());
    run(&["chekc", router]).expect(2, &["check"]);
}

#[test]
fn graphs_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let draw = |name: &str| run(&["graph", "programs/ipv4_router", "-o", &file(name)]);
    draw("x.svg").expect(0, &[]);
    let svg = fs::read_to_string(file("x.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    draw("x.dot").expect(0, &[]);
    let dot = fs::read_to_string(file("x.dot")).unwrap();
    assert!(dot.starts_with("digraph ") && dot.trim_end().ends_with('}'));
    for text in ["extract ethernet", "fib", "next_hops", "accept"] {
        assert!(svg.contains(text) && dot.contains(text), "{text}");
    }
    let parts = run(&["graph", "programs/ipv4_router", "--json"]);
    let graphs: serde_json::Value = serde_json::from_str(&parts.expect(0, &[]).out).unwrap();
    let titles: Vec<_> = graphs.as_array().unwrap().iter().map(|one| &one["graph"]).collect();
    let expected = ["ipv4_router: parser", "ipv4_router: ingress", "ipv4_router: egress"];
    assert_eq!(titles, expected);
    let nodes = graphs[1]["nodes"].as_array().unwrap();
    assert!(nodes.iter().any(|node| node["kind"] == "table" && node["lines"][0] == "apply fib"));
    for edge in graphs[1]["edges"].as_array().unwrap() {
        let end = |name: &str| edge[name].as_u64().unwrap() as usize;
        assert!(end("from").max(end("to")) < nodes.len() && edge["label"].is_string(), "{edge}");
    }
    run(&["graph", "programs/ipv4_router"]).expect(2, &["--output"]);
    draw("x.png").expect(2, &["x.png", ".svg or .dot"]);
    assert!(!folder.path().join("x.png").exists());
    draw("no_such_folder/x.svg").expect(2, &["no_such_folder"]);
}

/// Help has an example for every command, and what the examples name is there.
#[test]
fn every_command_has_an_example_of_things_that_exist() {
    let listed = run(&["--help"]).expect(0, &[]).out.clone();
    let commands = listed.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<&str> = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() >= 13, "{names:?}");
    for name in names {
        let help = run(&[name, "--help"]).expect(0, &[]).out.clone();
        let example = help.rsplit("Example").next().unwrap();
        assert!(example.contains(&format!("wireyard {name}")), "{name}: no example in\n{help}");
        for path in example.split_whitespace().filter(|word| word.starts_with("programs/")) {
            assert!(workspace_root().join(path).exists(), "{name} --help: there is no {path}");
        }
    }
}

/// Whoever closes standard error (`2>&1 | head -1`) gets the exit status all the same.
#[test]
fn a_closed_standard_error_ends_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(wireyard());
    command.args(["check", "--config", "no-such.yaml"]).stderr(writer);
    assert_eq!(command.status().expect("it runs").code(), Some(2));
}

/// A disk that is full loses results: that is no success, of no command. Who closed the pipe (`| head`) has enough.
#[test]
fn results_that_are_lost_are_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let capture = one_frame(folder.path()).display().to_string();
    let from = format!("1={capture}");
    let live = format!("1=pcap:{capture}");
    let l2 = "programs/l2_switch";
    let commands: [&[&str]; 16] = [
        &["--help"],
        &["--version"],
        &["check", l2],
        &["check", l2, "--json"],
        &["explain", "E0101"],
        &["schema", "program"],
        &["dump", l2],
        &["dump", l2, "--stage", "ir"],
        &["run", l2, "--port", &live, "--duration", "0.01"],
        &["replay", l2, "--in", &from],
        &["replay", l2, "--in", &from, "--json"],
        &["trace", l2, "--hex", "0200000000010200000000020800"],
        &["trace", l2, "--json", "--hex", "0200000000010200000000020800"],
        &["test", l2, "--engine", "interp"],
        &["decode", &capture],
        &["lab", "programs/lab/incast.yaml", "--quiet"],
    ];
    for command in commands {
        let with = |out: std::process::Stdio| {
            let mut started = Command::new(wireyard());
            started.args(command).current_dir(workspace_root()).stdout(out);
            Ended::of(&started.output().expect("it runs"))
        };
        let lost = with(fs::File::options().write(true).open("/dev/full").unwrap().into());
        lost.expect(2, &["standard output: No space left"]);
        assert_eq!(lost.err.matches("standard output").count(), 1, "{command:?}: {}", lost.err);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = with(writer.into());
        closed.expect(0, &[]);
        assert!(!closed.err.contains("error"), "{command:?}: {}", closed.err);
    }
}

#[test]
fn every_command_and_option_has_a_help_text() {
    let mut commands = vec![command_line()];
    let mut without = Vec::new();
    while let Some(command) = commands.pop() {
        let name = command.get_name();
        let no_help = command.get_arguments().filter(|option| option.get_help().is_none());
        without.extend(no_help.map(|option| format!("{name} {}", option.get_id())));
        if command.get_about().is_none() {
            without.push(name.to_owned());
        }
        commands.extend(command.get_subcommands().cloned());
    }
    assert!(without.is_empty(), "{without:?}");
}
