//! Files of ports that are added to a running switch: none of them damages a file that is in use.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use wireyard_tests::binary::{Ended, wireyard};
use wireyard_tests::live::Switch;

use super::{A, B, PROGRAM, Rig, frame, rig};
use crate::rig::{private_network, veth};

/// A copy of the program, which a test may lose.
fn program_in(folder: &std::path::Path) -> String {
    let program = folder.join("program.yaml");
    let text = fs::read(wireyard_tests::workspace_root().join(PROGRAM)).unwrap();
    fs::write(&program, text).unwrap();
    program.display().to_string()
}

#[test]
fn an_added_port_writes_no_file_that_is_in_use() {
    let Some(_network) = private_network("files of added ports") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let program = program_in(folder.path());
    let rig = rig(&program, &["--writable", folder.path().to_str().unwrap()]);
    rig.does(&format!("capture start 1 {}", path("one.pcapng")));
    rig.does(&format!("port add 3 pcap:,out={}", path("out.pcap")));
    fs::write(path("old.pcapng"), "not to be lost").unwrap();
    let made = Command::new("mkfifo").arg(path("pipe")).status();
    assert!(made.expect("mkfifo runs").success());
    let captured = |file: &str| format!("out={},capture={file}", path("beside.pcap"));
    for (file, why) in [
        (format!("out={}", path("out.pcap")), "two ports cannot write one file"),
        (format!("out={}", path("one.pcapng")), "a capture is written into this file"),
        (captured(&path("one.pcapng")), "a capture is written into this file"),
        (format!("out={program}"), "the program is read from this file"),
        (captured(&program), "the program is read from this file"),
        (captured(&path("old.pcapng")), "already exists: name a new file"),
        (format!("out={}", path("old.pcapng")), "already exists: name a new file"),
        (format!("out={}", path("pipe")), "already exists: name a new file"),
        (path("pipe"), "it is no file but a pipe"),
        (path("old.pcapng"), "not a pcap or pcapng file: `editcap"),
    ] {
        // An input stands before the options.
        let comma = if file.starts_with('/') { "" } else { "," };
        rig.refuses(&format!("port add 4 pcap:{comma}{file}"), why);
    }
    assert_eq!(fs::read_to_string(path("old.pcapng")).unwrap(), "not to be lost");
    // A capture of ports goes on with one more, by whatever name.
    std::os::unix::fs::symlink(path("new.pcapng"), path("alias.pcapng")).unwrap();
    for (port, name) in [(4, "new.pcapng"), (5, "alias.pcapng")] {
        let out = path(&format!("{port}.pcap"));
        rig.does(&format!("port add {port} pcap:,out={out},capture={}", path(name)));
    }
    let captures = rig.switch.objects(&["capture", "list"]);
    let of = |name: &str| captures.iter().find(|one| one["file"] == path(name)).unwrap();
    assert_eq!(of("new.pcapng")["ports"], serde_json::json!([4, 5]), "{captures:?}");
    rig.does("port add 6 pcap:,out=/dev/null");
    // What a port has written stays when it is gone.
    rig.does("port remove 3");
    let again = format!("port add 3 pcap:,out={}", path("out.pcap"));
    rig.refuses(&again, "already exists: name a new file");
    for file in ["one.pcapng", "out.pcap"] {
        assert_eq!(fs::metadata(path(file)).unwrap().mode() & 0o777, 0o600, "{file}");
    }
    fs::remove_file(path("out.pcap")).unwrap();
    rig.does(&again);
    rig.switch.end("TERM").expect(0, &[]);
}

/// The file of ports is checked against ports that were added beside it.
#[test]
fn a_file_of_ports_takes_no_file_of_an_added_port() {
    let Some(_network) = private_network("files of ports") else { return };
    veth("a0", "a1");
    let folder = tempfile::tempdir().unwrap();
    let ports = folder.path().join("ports.yaml");
    let out = folder.path().join("out.pcap");
    fs::write(&ports, "ports: { 1: { interface: 'raw:a1' } }\n").unwrap();
    let arguments = [PROGRAM, "--ports", ports.to_str().unwrap(), "--writable"];
    let arguments = [&arguments[..], &[folder.path().to_str().unwrap()]].concat();
    let mut switch = Switch::start(&arguments);
    switch.command(&["port", "add", "3", &format!("pcap:,out={}", out.display())]).expect(0, &[]);
    let two = format!("2: {{ interface: 'pcap:,out={}' }} }}\n", out.display());
    fs::write(&ports, format!("ports: {{ 1: {{ interface: 'raw:a1' }}, {two}")).unwrap();
    switch.signal("HUP");
    switch.await_text("two ports cannot write one file", std::time::Duration::from_secs(10));
    switch.end("TERM").expect(0, &[]);
}

/// The switch opens the files, the user names them: from the folder of the command.
#[test]
fn paths_of_an_added_port_are_those_of_the_command() {
    let Some(_network) = private_network("relative paths of ports") else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut rig = rig(PROGRAM, &["--writable", folder.path().to_str().unwrap()]);
    let mut command = Command::new(wireyard());
    command.args(["port", "add", "3", "pcap:,out=out.pcap,capture=seen.pcapng"]);
    command.current_dir(folder.path()).env("WIREYARD_RUN_DIR", rig.switch.run_folder());
    Ended::of(&command.output().unwrap()).expect(0, &[]);
    rig.does("table add fdb ethernet.dst=02:00:00:00:00:0a forward 3");
    rig.stops(&frame(A, B));
    let Rig { switch, .. } = rig;
    switch.end("TERM").expect(0, &[]);
    for file in ["out.pcap", "seen.pcapng"] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
}

/// A file that two workers recorded into, one after the other, is one capture.
#[test]
fn a_file_that_another_worker_records_again_is_listed_once() {
    let Some(_network) = private_network("captures of two workers") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.pcapng");
    veth("a0", "a1");
    veth("b0", "b1");
    let ports = ["1=raw:a1,queues=1", "2=raw:b1,queues=1"];
    let more = ["--workers", "2", "--writable", folder.path().to_str().unwrap()];
    let switch = Switch::on(PROGRAM, &ports, &more);
    let path = file.to_str().unwrap();
    for port in ["1", "2"] {
        switch.command(&["capture", "start", port, path]).expect(0, &[]);
        let listed = switch.objects(&["capture", "list"]);
        let ports: Vec<_> = listed.iter().map(|one| one["ports"].clone()).collect();
        assert_eq!(ports, [serde_json::json!([port.parse::<u16>().unwrap()])], "{listed:?}");
        switch.command(&["capture", "stop", port]).expect(0, &[]);
        fs::remove_file(&file).unwrap();
    }
    switch.end("TERM").expect(0, &[]);
}
