//! The commands of programs/control.md work, in their order, on the switches that it runs.

use wireyard_tests::live::Switch;
use wireyard_tests::workspace_root;

use super::split;
use crate::rig::{ip, private_network, veth};

#[test]
fn the_commands_of_the_control_page_work() {
    let Some(_network) = private_network("commands of programs/control.md") else { return };
    ip("link set lo up");
    (1..=3).for_each(|n| veth(&format!("veth{n}"), &format!("far{n}")));
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("events.pcap");
    let page = std::fs::read_to_string(workspace_root().join("programs/control.md")).unwrap();
    let lines = page.lines().filter_map(|line| line.strip_prefix("    wireyard "));
    let (mut switch, mut run): (Option<Switch>, usize) = (None, 0);
    for line in lines {
        if let Some(arguments) = line.strip_prefix("run ") {
            if let Some(before) = switch.take() {
                before.end("TERM").expect(0, &[]);
            }
            let arguments = arguments.replace("events.pcap", capture.to_str().unwrap());
            switch = Some(Switch::start(&split(&arguments)));
            continue;
        }
        let line =
            &line.replace("port1.pcapng", folder.path().join("port1.pcapng").to_str().unwrap());
        let ended = switch.as_ref().expect("the page runs a switch first").command(&split(line));
        assert_eq!(ended.status, Some(0), "wireyard {line}: {}{}", ended.out, ended.err);
        run += 1;
    }
    assert!(run > 45, "{run} commands");
    switch.expect("a switch").end("TERM").expect(0, &[]);
}
