//! Files that somebody else made: what they hold reaches no terminal, and what they are blocks nobody.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wireyard_tests::binary::{Ended, wireyard};

/// Runs a command that may not wait.
fn run(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new("timeout");
    command.arg("30").arg(wireyard()).args(arguments).current_dir(folder);
    Ended::of(&command.output().expect("timeout runs"))
}

fn program(folder: &Path) -> PathBuf {
    let path = folder.join("program.yaml");
    let text = "pipeline: p\ninclude: [own]\nheaders: { h: { fields: { a: 16 } } }\n\
                parser: { start: { extract: h } }\ningress: [ std.egress_port = h.a ]\n";
    fs::write(&path, text).unwrap();
    fs::write(folder.join("own.yaml"), "library: own\n").unwrap();
    path
}

/// True where a terminal would do more than print.
fn obeys(text: &str) -> bool {
    text.contains(|c: char| {
        c != '\n' && c != '\t' && (c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c))
    })
}

const EVIL: &str = "\u{1b}]0;title\u{7}\u{9b}31m\u{202e}x\r";

#[test]
fn nothing_of_a_file_or_a_name_is_obeyed_by_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    program(place);
    let name = format!("no{EVIL}.yaml");
    let name = name.as_str();
    // YAML has no controls in its text; it has escapes, and C1 and the signs of direction as they are.
    let quoted = "\\e]0;title\\a\\x9b31m\\u202e";
    fs::write(
        place.join("bad.yaml"),
        format!("pipeline: p\n\"{quoted}\": 1 # \u{9b}31m\u{202e}\ningress: [ x ] # \u{85}\n"),
    )
    .unwrap();
    fs::write(
        place.join("switch.yaml"),
        format!("ports: {{ 1: {{ interface: \"{quoted}\" }}, \"{quoted}\": 1 }}\n"),
    )
    .unwrap();
    fs::write(
        place.join("lab.yaml"),
        format!("lab: \"{quoted}\"\nabout: \"{quoted}\"\n\"{quoted}\": 1\n"),
    )
    .unwrap();
    fs::write(place.join("a.stf"), format!("packet {EVIL}\n")).unwrap();
    for arguments in [
        vec!["check", name],
        vec!["check", "bad.yaml"],
        vec!["check", "--config", "switch.yaml"],
        vec!["check", "program.yaml", "--include", name, "--entries", name],
        vec!["lab", "lab.yaml"],
        vec!["lab", name],
        vec!["test", "a.stf"],
        vec!["decode", name],
        vec!["trace", "program.yaml", "--pcap", name],
        vec!["run", "program.yaml", "--port", name],
        vec!["explain", name],
        vec!["graph", "program.yaml", "-o", name],
        vec!["check", "bad.yaml", "--json"],
        vec!["test", "a.stf", "--json"],
    ] {
        let ended = run(place, &arguments);
        assert!(ended.status.is_some_and(|status| status != 0 && status < 3), "{arguments:?}");
        assert!(!ended.err.is_empty() || !ended.out.is_empty(), "{arguments:?} says nothing");
        assert!(!obeys(&ended.err), "{arguments:?}: {:?}", ended.err);
        assert!(!obeys(&ended.out), "{arguments:?}: {:?}", ended.out);
    }
}

#[test]
fn a_pipe_or_a_device_is_refused_and_waited_for_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    program(place);
    let made = Command::new("mkfifo").args(["pipe", "library.yaml"]).current_dir(place).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo runs");
    fs::write(place.join("includes.yaml"), "pipeline: p\ninclude: [library]\ningress: [ drop ]\n")
        .unwrap();
    for file in ["pipe", "/dev/zero", "/dev/tty", "."] {
        for arguments in [
            vec!["check", "program.yaml", "--entries", file],
            vec!["check", "--config", file],
            vec!["lab", file, "--check"],
            vec!["run", "program.yaml", "--ports", file],
            vec!["convert", file],
        ] {
            let ended = run(place, &arguments);
            assert_eq!(ended.status, Some(2), "{arguments:?}: {} {}", ended.out, ended.err);
        }
    }
    run(place, &["check", "pipe"]).expect(2, &["it is a pipe", "into a file first"]);
    run(place, &["check", "/dev/zero"]).expect(2, &["a device"]);
    run(place, &["check", "includes.yaml"]).expect(2, &["library.yaml", "it is a pipe"]);
    for program in ["pipe", "/dev/zero"] {
        fs::write(place.join("a.stf"), format!("program {program}\npacket 1 00\n")).unwrap();
        let ended = run(place, &["test", "a.stf"]);
        assert_eq!(ended.status, Some(2), "{program}: {} {}", ended.out, ended.err);
    }
    let ended = run(place, &["test", "pipe"]);
    assert_eq!(ended.status, Some(2), "{} {}", ended.out, ended.err);
}

/// `lab -o` writes and removes in its folder, whatever links somebody put there.
#[test]
fn a_lab_leaves_what_is_behind_links_alone() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    fs::create_dir_all(place.join("other/tables")).unwrap();
    fs::create_dir(place.join("out")).unwrap();
    fs::write(place.join("other/kept.csv"), "kept").unwrap();
    std::os::unix::fs::symlink(place.join("other"), place.join("out/tables")).unwrap();
    fs::write(place.join("out/files.txt"), "tables/kept.csv\n").unwrap();
    let scenario = wireyard_tests::workspace_root().join("programs/lab/rocev1_pcp.yaml");
    let mut command = Command::new("timeout");
    command.arg("120").arg(wireyard()).arg("lab").arg(scenario).args(["-q", "-o", "out"]);
    let ended = Ended::of(&command.current_dir(place).output().expect("timeout runs"));
    assert_eq!(fs::read_to_string(place.join("other/kept.csv")).unwrap(), "kept");
    assert_eq!(fs::read_dir(place.join("other")).unwrap().count(), 2, "nothing new is there");
    ended.expect(2, &["symbolic link"]);
}
