//! What commands that need no switch say about arguments and files that are wrong: what, why, and what to do.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use wireyard_switch::ports::LinkType;
use wireyard_tests::binary::{Ended, run_in, wireyard};
use wireyard_tests::scripts;

/// Wrong files of all kinds.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).unwrap();
    write("empty", b"");
    write("empty.pcap", b"");
    write("binary", b"\x7fELF\0\0\0\0\0\0");
    write("gzip", b"\x1f\x8b\x08\0\0\0");
    write("zstd", b"\x28\xb5\x2f\xfd\0");
    write("xz", b"\xfd7zXZ\0");
    write("bzip2", b"BZh91AY");
    write("lz4", b"\x04\x22\x4d\x18");
    write("snoop", b"snoop\0\0\0\0\0\0\x02");
    fs::create_dir(place.path().join("folder")).unwrap();
    fs::create_dir(place.path().join("yaml")).unwrap();
    write("yaml/base.yaml", b"pipeline: base\n");
    let made = Command::new("mkfifo").arg(place.path().join("pipe")).status();
    assert!(made.expect("mkfifo runs").success());
    std::os::unix::fs::symlink("loop", place.path().join("loop")).unwrap();
    let frame: &[u8] = &[7; 60];
    scripts::write_pcap(&place.path().join("one.pcap"), LinkType::Ethernet, [(1, frame)]);
    place
}

#[test]
fn messages_say_what_is_wrong_and_what_to_do() {
    let place = place();
    let cases: [(&[&str], &[&str]); 65] = [
        (&["test", "folder"], &["folder: no .stf file there"]),
        (&["test", "pipe"], &["pipe: neither a script nor a folder of scripts"]),
        (&["restore", "pipe"], &["pipe: it is a pipe, and only files are read"]),
        (
            &["restore", "/dev/zero"],
            &["/dev/zero: it is a device or a socket, and only files are read"],
        ),
        (&["table", "load", "pipe"], &["pipe: it is a pipe"]),
        (&["test", "nowhere"], &["nowhere: there is no such script or folder"]),
        (&["test", "l2_swich"], &["did you mean `l2_switch`, which is inside wireyard?"]),
        (&["convert", "nowhere"], &["cannot read nowhere: there is no such file"]),
        (&["convert", "pipe"], &["pipe is not a program in P4", "NAME.p4"]),
        (&["convert", "l2_switch"], &["l2_switch is not a program in P4"]),
        (&["convert", "folder"], &["folder is not a program in P4"]),
        (&["new", ".."], &["..: the name of the new folder is missing", "wireyard new my_switch"]),
        (&["new", "none/mine"], &["none/mine: there is no folder none: make it first"]),
        (&["new", "folder"], &["folder is already there"]),
        (&["new", "1st"], &["`1st` is no name for a program"]),
        (&["new", "true"], &["`true` is no name for a program"]),
        (&["man", "-o", "empty"], &["empty: a file stands there: name a folder"]),
        (&["lab", "incast", "-o", "empty"], &["empty: a file stands there: name a folder"]),
        (&["lab", "incast", "-o", "empty/below"], &["empty/below: a file stands there"]),
        (&["graph", "l2_switch", "-o", "none/x.svg"], &["none/x.svg: there is no such folder"]),
        (&["graph", "l2_switch", "-o", "x.png"], &["x.png", ".svg or .dot", "--format"]),
        (&["decode", "nowhere"], &["nowhere: No such file"]),
        (&["decode", "folder"], &["folder: Is a directory: name a file in it"]),
        (&["trace", "l2_switch", "--pcap", "folder"], &["folder: Is a directory: name a file"]),
        (&["trace", "l2_switch", "--pcap", "nowhere"], &["nowhere: No such file or directory\n"]),
        (&["trace", "l2_switch", "--hex", "00", "--frame", "3"], &["--hex", "--frame"]),
        (&["trace", "l2_switch", "--pcap", "one.pcap", "--link", "opa"], &["--pcap", "--link"]),
        (&["demo", "-o", "folder"], &["folder: it is a folder: name a file in it"]),
        (&["demo", "-o", "none/x.html"], &["none/x.html: there is no such folder: make it first"]),
        (
            &["explain", "bht"],
            &["no code, adapter, library or header `bht`", "did you mean `bth`?"],
        ),
        (&["explain", "Ethernet"], &["did you mean `ethernet`?"]),
        (&["explain", "nothing_like_it"], &["the libraries are", "ethernet"]),
        (
            &["explain", "ipv4.tll"],
            &["header `ipv4` has no field `tll`", "did you mean `ipv4.ttl`?"],
        ),
        (&["explain", "ipv4.zzz"], &["its fields are version, ihl"]),
        (&["explain", "arp.opcode"], &["its fields are hw_type"]),
        (&["check", "yaml"], &["yaml/program.yaml", "in the folder are base.yaml"]),
        (&["check", "nowhere.yaml"], &["cannot read nowhere.yaml: there is no such file"]),
        (&["lab", "x", "--live", "--compare", "live"], &["'live'", "write --compare=15"]),
        (&["run", "--linux", "linux_router"], &["name the program in front of it"]),
        (&["stats", "--watch", "1"], &["--watch=2"]),
        (&["table", "load", "empty"], &["empty: the file is empty"]),
        (&["decode", "empty.pcap"], &["empty.pcap: the file is empty"]),
        (&["decode", "binary"], &["not a pcap or pcapng file", "editcap"]),
        (&["decode", "snoop"], &["not a pcap or pcapng file", "editcap"]),
        (&["decode", "gzip"], &["compressed with gzip: unpack it with gunzip"]),
        (&["decode", "zstd"], &["compressed with zstd: unpack it with unzstd"]),
        (&["decode", "xz"], &["compressed with xz: unpack it with unxz"]),
        (&["decode", "bzip2"], &["compressed with bzip2: unpack it with bunzip2"]),
        (&["decode", "lz4"], &["compressed with lz4: unpack it with unlz4"]),
        (&["replay", "l2_switch", "--in", "1=gzip"], &["compressed with gzip"]),
        (&["replay", "l2_switch", "--in", "70000=one.pcap"], &["port numbers are 0 to 65532"]),
        (&["replay", "l2_switch", "--in", "65533=one.pcap"], &["port numbers are 0 to 65532"]),
        (&["replay", "l2_switch", "--in", "1=folder"], &["folder", "Is a directory"]),
        (&["trace", "l2_switch", "--pcap", "one.pcap", "--frame", "0"], &["counted from 1"]),
        (&["check", "loop"], &["loop: Too many levels of symbolic links"]),
        (
            &["host", "--port", "raw:x", "--ip", "0.0.0.0"],
            &["--ip 0.0.0.0: not the address of a host"],
        ),
        (&["host", "--port", "raw:x", "--ip", "ff02::1"], &["--ip ff02::1: not the address"]),
        (&["host", "--port", "raw:x", "--ip", "10.0.0.256"], &["--ip", "10.0.0.256"]),
        (
            &["host", "--port", "raw:x", "--ip", "10.0.0.1", "--mac", "01:00:5e:00:00:01"],
            &["--mac 01:00:5e:00:00:01: not the address of an interface"],
        ),
        (&["host", "--port", "raw:x", "--ip", "10.0.0.1", "--mac", "02:00"], &["--mac", "02:00"]),
        (&["run", "l2_switch", "--packet-memory", "0B"], &["--packet-memory", "at least 2 MiB"]),
        (&["dump", "l2_switch", "-D", "PORTS=4"], &["-D (--define)", "l2_switch is none"]),
        (
            &["run", "l2_switch", "-D", "PORTS=4", "--port", "1=raw:x"],
            &["-D (--define)", "l2_switch is none"],
        ),
        (&["register", "set", "seen", "0x1g", "1"], &["0x1g"]),
        (&["register", "set", "seen", "1.5", "1"], &["<INDEX>", "expected a whole number"]),
    ];
    for (arguments, says) in cases {
        let ended = run_in(place.path(), arguments);
        ended.expect(2, says);
        assert!(ended.out.is_empty(), "{arguments:?}: {}", ended.out);
    }
    assert_eq!(fs::read(place.path().join("empty")).unwrap(), b"");
}

/// What `check` says of mistakes that beginners make, in files that are right otherwise.
#[test]
fn small_mistakes_lead_to_what_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let program = "pipeline: p
include: [ethernet, ip]
parser:
  start: { extract: ethernet, select: ethernet.ether_type, cases: { 0x0800: ipv4 } }
  ipv4: { extract: ipv4 }
actions: { fwd: { params: { port: port }, do: [ std.egress_port = port ] } }
tables:
  fib: { key: { ipv4.dst: lpm }, actions: [fwd, drop], default: drop }
ingress:
  - std.egress_port = 1
  - apply: fib
";
    let in_program: [(&str, &str, &str); 9] = [
        ("  - apply: fib", "  - apply fib", "a `:` is missing: `apply: fib`"),
        ("  - apply: fib", "  - if ipv4.valid: [ { apply: fib } ]", "`- if: ipv4.valid`"),
        (
            "  - apply: fib",
            "  - if: ipv4.dst == 10.0.0.0/8\n    then: [drop]",
            "compare with a mask",
        ),
        ("  - apply: fib", "  - apply: fib\n  - count(c, 1)", "declare it: `counters: { c: 4 }`"),
        ("  - apply: fib", "  - apply: route", "there are: fib"),
        ("start:", "begin:", "call its first state `start`"),
        ("default: drop", "default: forward", "there are: nop, drop, fwd"),
        ("{ port: port }", "{ port }", "write it behind the name: `name: 16`"),
        ("std.egress_port = 1", "ethernet.dst = 02:00:00:00:00", "a MAC address has six bytes"),
    ];
    for (old, new, says) in in_program {
        assert_eq!(program.matches(old).count(), 1, "{old}");
        fs::write(path("program.yaml"), program.replace(old, new)).unwrap();
        let ended = run_in(folder.path(), &["check", "program.yaml"]);
        assert!(ended.status == Some(1) && ended.err.contains(says), "{new}: {}", ended.err);
    }
    // A header is no value: there is none of that name to propose.
    fs::write(path("program.yaml"), program.replace("0x0800:", "IPV4:")).unwrap();
    let ended = run_in(folder.path(), &["check", "program.yaml"]);
    assert!(!ended.err.contains("did you mean `ipv4`"), "{}", ended.err);
    fs::write(path("program.yaml"), program).unwrap();
    let entry = |entry: &str| format!("entries: {{ fib: [ {entry} ] }}\n");
    let in_entries: [(String, &str); 9] = [
        (entry("{ match: { ipv4.dst: * }, action: fwd(1) }"), "`_` matches any value"),
        (entry("{ match: { ipv4.dst: \"*\" }, action: fwd(1) }"), "`_` matches any value"),
        (entry("{ match: { ipv4.dst: any }, action: fwd(1) }"), "`_` matches any value"),
        (entry("{ match: { ipv4.dst: default }, action: fwd(1) }"), "the table's default action"),
        (entry("{ match: { ipv4.dst: 10.0.0.1 }, action: fwd 1 }"), "stand in parentheses"),
        (entry("{ match: 10.0.0.0/8, action: fwd(1) }"), "`{ KEY: 10.0.0.0/8 }`"),
        (entry("{ ipv4.dst: 10.0.0.1, action: fwd(1) }"), "`match: { ipv4.dst: .. }`"),
        ("fib: [ { action: fwd(1) } ]\n".to_owned(), "stand under `entries:`"),
        ("multicast_groups: { 1: { ports: 1-3 } }\n".to_owned(), "write each port: `[1, 2, 3]`"),
    ];
    for (text, says) in in_entries {
        fs::write(path("entries.yaml"), &text).unwrap();
        let words = ["check", "program.yaml", "--entries", "entries.yaml"];
        let ended = run_in(folder.path(), &words);
        assert!(ended.status == Some(1) && ended.err.contains(says), "{text}: {}", ended.err);
    }
    fs::write(path("one.stf"), "# A comment: /* no YAML\npacket 1 00\n").unwrap();
    run_in(folder.path(), &["check", "one.stf"])
        .expect(1, &["one.stf is a packet test", "`wireyard test one.stf` runs it"]);
    for (text, says) in [
        ("qos: onyx_roce\n", "`qos: { preset: onyx_roce }`"),
        ("qos: { preset: sonic }\n", "did you mean `sonic_azure`?"),
        ("ports: { 1: { interface: \"1=lo\" } }\n", "the key here: write `lo`"),
        ("qos: { buffer_pools: { ingress: { size: 10MB } } }\n", "`direction` is missing"),
        ("qos: { buffer_pools: plain }\n", "expected a map"),
    ] {
        fs::write(path("switch.yaml"), text).unwrap();
        let ended = run_in(folder.path(), &["check", "--config", "switch.yaml"]);
        ended.expect(1, &["switch.yaml:1:", says]);
        assert!(!ended.err.contains("struct "), "{text}: {}", ended.err);
    }
}

/// A pipe that nobody writes to holds up no command that reads programs.
#[test]
fn pipes_are_no_programs() {
    let place = place();
    for command in ["check", "dump", "p4info", "convert", "test"] {
        let mut started = Command::new("timeout");
        started.arg("20").arg(wireyard()).args([command, "pipe"]).current_dir(place.path());
        Ended::of(&started.output().expect("timeout runs")).expect(2, &["pipe"]);
    }
    fs::write(place.path().join("of_pipe.stf"), "program pipe\n").unwrap();
    let mut started = Command::new("timeout");
    started.arg("20").arg(wireyard()).args(["test", "of_pipe.stf"]).current_dir(place.path());
    Ended::of(&started.output().expect("timeout runs")).expect(2, &[]);
}

/// `-` is a capture on standard input, in every command that reads one.
#[test]
fn captures_come_by_standard_input() {
    let place = place();
    let bytes = fs::read(place.path().join("one.pcap")).unwrap();
    let commands: [(&[&str], &str); 3] = [
        (&["decode", "-", "--frame", "1"], "07:07:07:07:07:07"),
        (&["trace", "l2_switch", "--pcap", "-"], "ethernet"),
        (&["replay", "l2_switch", "--json", "--in", "1=-"], "\"received\": 1"),
    ];
    for (arguments, shows) in commands {
        let mut command = Command::new(wireyard());
        command.args(arguments).current_dir(place.path()).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let ended = Ended::of(&child.wait_with_output().unwrap());
        assert!(ended.expect(0, &[]).out.contains(shows), "{arguments:?}: {}", ended.out);
    }
}
