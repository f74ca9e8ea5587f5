//! `wireyard test`: packet tests pass, and fail where a program or a packet is not what they say.

use std::fs;

use wireyard_tests::binary::{Ended, run};

use crate::cli::Copy;

#[test]
fn every_packet_test_passes() {
    let ended = run(&["test", "programs/"]);
    ended.expect(0, &[]);
    assert!(ended.out.contains("ok    programs/rocev2_lossless/bridge.stf"), "{}", ended.out);
    assert!(ended.out.trim_end().ends_with(" 0 failed"), "{}", ended.out);
}

fn tested(copy: &Copy) -> Ended {
    run(&["test", "--engine", "interp", copy.path()])
}

#[test]
fn packets_to_the_control_plane_are_compared_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let program = "pipeline: to_cpu\nheaders: { h: { fields: { n: 8 } } }\nparser: { start: { extract: h } }\ningress: [ punt why ]\n";
    fs::write(folder.path().join("program.yaml"), program).unwrap();
    for (expected, status) in
        [("01\nexpect cpu 02", 0), ("02\nexpect cpu 01", 1), ("02\nexpect_punt why", 0)]
    {
        let script = format!("packet 1 01\npacket 1 02\nexpect cpu {expected}\n");
        fs::write(folder.path().join("order.stf"), &script).unwrap();
        let ended = run(&["test", folder.path().to_str().unwrap()]);
        assert_eq!(ended.status, Some(status), "{script}{}{}", ended.out, ended.err);
    }
}

/// A program broken on purpose fails its tests, with a byte diff and the packet's trace.
#[test]
fn broken_programs_fail_their_tests() {
    let breaks = [
        ("ipv4_router", "ipv4.ttl = ipv4.ttl - 1", "ipv4.ttl = ipv4.ttl - 2"),
        ("ipv4_router", "if: ipv4.ttl <= 1", "if: ipv4.ttl == 0"),
        ("rocev2_lossless", "ipv4.ecn = 3", "ipv4.ecn = 1"),
        ("rocev2_lossless", "- std.ect = ipv4.ecn != 0 || ipv6.ecn != 0", "- std.ect = false"),
        ("rocev2_lossless", "ethernet.dst = dst", "ethernet.dst = src"),
    ];
    for (program, old, new) in breaks {
        let copy = Copy::of(program);
        tested(&copy).expect(0, &[]);
        copy.change("program.yaml", old, new);
        let ended = tested(&copy);
        assert_eq!(ended.status, Some(1), "{program}, {new}: {}{}", ended.out, ended.err);
        assert!(ended.out.contains("FAIL  "), "{}", ended.out);
        assert!(ended.out.contains("state "), "no trace: {}", ended.out);
    }
    // Entries that cannot be read are not left out.
    let copy = Copy::of("ipv4_router");
    fs::remove_file(copy.file("entries.yaml")).unwrap();
    std::os::unix::fs::symlink("nowhere", copy.file("entries.yaml")).unwrap();
    let ended = tested(&copy);
    assert_eq!(ended.status, Some(2), "{}", ended.out);
    assert!(ended.out.contains("E0002"), "{}", ended.out);
    let copy = Copy::of("ipv4_router");
    fs::write(copy.file("bad.stf"), "pakcet 1 00\n").unwrap();
    let ended = tested(&copy);
    assert_eq!(ended.status, Some(2), "{}", ended.out);
    assert!(ended.out.contains("bad.stf:1"), "{}", ended.out);
}

/// A table may have the name of the statement that it stands in.
#[test]
fn an_error_about_a_table_points_at_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let program = "pipeline: p\nheaders: { h: { fields: { n: 8 } } }\nparser: { start: { extract: h } }\ningress: [ drop ]\n";
    fs::write(folder.path().join("program.yaml"), program).unwrap();
    for (statement, column) in [("add add h.n:1 drop()", 5), ("setdefault default drop()", 12)] {
        fs::write(folder.path().join("named.stf"), format!("{statement}\n")).unwrap();
        let ended = run(&["test", folder.path().to_str().unwrap()]);
        let place = format!("named.stf:1:{column}\n");
        assert!(ended.out.contains(&place), "{place}{}{}", ended.out, ended.err);
    }
}

/// What is behind the body, in every engine at every level.
#[test]
fn trailers_and_pads_that_were_not_received_are_made() {
    for script in ["pad", "made"] {
        let script = format!("tests/data/trailers/{script}.stf");
        run(&["test", &script, "--every-level"]).expect(0, &[]);
    }
}

/// A program that does not compile is no program at any level.
#[test]
fn an_error_of_the_program_is_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("program.yaml"), "pipeline: p\ningress: [ std.no = 1 ]\n")
        .unwrap();
    fs::write(folder.path().join("t.stf"), "packet 1 00\nexpect_drop no_decision\n").unwrap();
    let ended = run(&["test", "--every-level", folder.path().to_str().unwrap()]);
    assert_eq!(ended.status, Some(2), "{}{}", ended.out, ended.err);
    assert_eq!(ended.out.matches("E0104").count(), 1, "{}", ended.out);
    assert!(ended.out.ends_with("0 passed, 1 failed\n"), "{}", ended.out);
}
