//! The first hour of a new user: what is inside the binary, a program of one's own, what the machine can do.

use std::fs;
use std::process::Command;

use serde_json::Value;
use wireyard_tests::binary::{Ended, run, run_in, wireyard};
use wireyard_tests::skip;

/// Programs and scenarios inside the binary are known by name; a file of the same name comes first.
#[test]
fn what_is_inside_is_known_by_name() {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), &["check", "l2_switch"]).shows(&["l2_switch: 2 states"]);
    run_in(folder.path(), &["lab", "incast", "--check"]).shows(&["nothing is wrong"]);
    run_in(folder.path(), &["lab", "incast", "--check", "--json"]).shows(&["\"warnings\": ["]);
    run_in(folder.path(), &["explain", "ipv4.ttl"]).shows(&["header `ipv4`"]);
    run_in(folder.path(), &["check", "no_such"])
        .expect(2, &["E0002", "inside wireyard are", "l2_switch"]);
    run_in(folder.path(), &["lab", "no_such"]).expect(2, &["inside wireyard are", "incast"]);
    run_in(folder.path(), &["lab", "incst"]).expect(2, &["did you mean `incast`"]);
    fs::write(folder.path().join("l2_switch"), "pipeline: [").unwrap();
    run_in(folder.path(), &["check", "l2_switch"]).expect(1, &["l2_switch:1"]);
}

/// Every template is a program that checks and passes its own tests, under the new name.
#[test]
fn a_new_program_passes_its_tests() {
    let folder = tempfile::tempdir().unwrap();
    for template in ["l2", "router", "roce"] {
        run_in(folder.path(), &["new", template, "--template", template]).shows(&["wireyard test"]);
        run_in(folder.path(), &["check", template]).shows(&[&format!("{template}: ")]);
        run_in(folder.path(), &["test", template, "--engine", "interp"]).shows(&[" 0 failed"]);
    }
    let before = fs::read(folder.path().join("l2/program.yaml")).unwrap();
    let slashed = run_in(folder.path(), &["new", "slashed/"]);
    assert!(slashed.expect(0, &[]).out.starts_with("slashed/: "), "{}", slashed.out);
    run_in(folder.path(), &["new", "l2"]).expect(2, &["already there"]);
    assert_eq!(fs::read(folder.path().join("l2/program.yaml")).unwrap(), before);
    run_in(folder.path(), &["new", "2nd"]).expect(2, &["no name for a program"]);
    assert!(!folder.path().join("2nd").exists());
}

/// A file system without room for the files leaves nothing behind, so that the next try is not refused.
#[test]
fn a_new_program_that_could_not_be_written_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    // No file may be longer than 512 or 1024 bytes, by the shell.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" new mine";
    let mut shell = Command::new("sh");
    let ended = shell.args(["-c", script]).arg(wireyard()).current_dir(folder.path()).output();
    let ended = Ended::of(&ended.expect("sh runs"));
    ended.expect(2, &["mine/", "File too large"]);
    assert!(!folder.path().join("mine").exists());
    run_in(folder.path(), &["new", "mine", "--json"])
        .shows(&["\"folder\": \"mine\"", "program.yaml"]);
}

/// The doctor tries what it reports, and its exit status says whether something is missing.
#[test]
fn the_doctor_tries_ports_and_names_interfaces() {
    let ended = run(&["doctor", "--json"]);
    let findings: Vec<Value> = serde_json::from_str(&ended.out).unwrap();
    let verdict = |subject: &str| {
        let found = findings.iter().find(|finding| finding["subject"] == subject);
        found.map(|finding| finding["verdict"].as_str().unwrap().to_owned())
    };
    assert_eq!(verdict("machine code").as_deref(), Some("good"));
    assert!(verdict("private network").is_some(), "{findings:?}");
    let is_missing = findings.iter().any(|finding| finding["verdict"] == "missing");
    assert_eq!(ended.status, Some(i32::from(is_missing)));
    run(&["doctor", "no_such_interface"])
        .expect(2, &["no interface no_such_interface", "there are"]);
    let text = run(&["doctor", "lo"]).out;
    assert!(text.contains("interface lo") && text.contains("cannot be a port"), "{text}");
}

/// In a user namespace it does not say that all is there, nor advise what cannot help there.
#[test]
fn the_doctor_knows_a_user_namespace() {
    let test = "the_doctor_knows_a_user_namespace";
    let unshare = |arguments: &[&str]| {
        Command::new("unshare").args(["-U", "-r", "-n"]).args(arguments).output()
    };
    if !unshare(&["true"]).is_ok_and(|done| done.status.success()) {
        return skip(test, "there are no user namespaces (or no `unshare`)");
    }
    let binary = wireyard();
    let done = unshare(&[binary.to_str().unwrap(), "doctor", "--json"]).expect("it runs");
    let findings: Vec<Value> = serde_json::from_slice(&done.stdout).unwrap();
    let of = |subject: &str| findings.iter().find(|f| f["subject"] == subject).expect(subject);
    assert_eq!(of("privileges")["verdict"], "limited", "{findings:#?}");
    assert!(of("privileges")["found"].as_str().unwrap().contains("user namespace"));
    assert!(!of("locked memory")["found"].as_str().unwrap().contains("no limit"));
    let xdp = of("xdp:").to_string();
    assert!(xdp.contains("a user namespace do not reach AF_XDP"), "{xdp}");
    assert!(!xdp.contains("ulimit") && !xdp.contains("setcap"), "{xdp}");
}

/// The manual has a page for each command, and the schema of switch.yaml its keys.
#[test]
fn the_manual_and_schemas_are_made_of_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), &["man", "-o", "man1"]).shows(&[]);
    for page in ["wireyard.1", "wireyard-run.1", "wireyard-doctor.1"] {
        let text = fs::read_to_string(folder.path().join("man1").join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    let schema: Value = serde_json::from_str(&run(&["schema", "switch"]).out).unwrap();
    assert!(schema["properties"]["ports"].is_object() && schema["properties"]["qos"].is_object());
}

/// A service manager learns that the switch runs, by the datagram of sd_notify(3).
#[test]
fn a_service_manager_is_told_that_the_switch_runs() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    wireyard_tests::scripts::write_pcap(
        &folder.path().join("in.pcap"),
        wireyard_switch::ports::LinkType::Ethernet,
        std::iter::empty(),
    );
    let status = std::process::Command::new(wireyard_tests::binary::wireyard())
        .args(["run", "l2_switch", "--port", "1=pcap:in.pcap,out=out.pcap", "--duration", "0.2"])
        .env("NOTIFY_SOCKET", &socket)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    let mut message = [0; 64];
    let length = manager.recv(&mut message).unwrap();
    assert!(message[..length].starts_with(b"READY=1"));
}
