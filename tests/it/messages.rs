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
    let cases: [(&[&str], &[&str]); 47] = [
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
        (&["decode", "folder"], &["folder: Is a directory"]),
        (&["decode", "empty.pcap"], &["empty.pcap: the file is empty"]),
        (&["decode", "binary"], &["7f 45 4c 46", "editcap"]),
        (&["decode", "snoop"], &["73 6e 6f 6f", "editcap"]),
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
        (&["register", "set", "seen", "1.5", "1"], &["<INDEX>", "numbers are whole"]),
    ];
    for (arguments, says) in cases {
        let ended = run_in(place.path(), arguments);
        ended.expect(2, says);
        assert!(ended.out.is_empty(), "{arguments:?}: {}", ended.out);
    }
    assert_eq!(fs::read(place.path().join("empty")).unwrap(), b"");
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
