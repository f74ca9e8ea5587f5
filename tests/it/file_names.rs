//! Names of files that are not UTF-8: the file of that name is read and written, and its name is shown with its bytes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use serde_json::Value;
use wireyard_switch::ports::LinkType;
use wireyard_tests::binary::{Ended, run_in};
use wireyard_tests::{scripts, workspace_root};

fn name(bytes: &[u8]) -> OsString {
    OsStr::from_bytes(bytes).to_owned()
}

/// A folder whose own name, and those of its files, have bytes that are no text.
struct Folder {
    place: tempfile::TempDir,
}

impl Folder {
    fn new() -> Folder {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder { place };
        fs::create_dir(folder.path()).unwrap();
        let own = folder.path();
        let copy = |from: &str, to: &[u8]| {
            fs::copy(workspace_root().join(from), own.join(name(to))).unwrap();
        };
        copy("programs/l2_switch/program.yaml", b"program.yaml");
        copy("programs/l2_switch/program.yaml", b"l2\xff.yaml");
        copy("programs/l2_switch/entries.yaml", b"entries\xff.yaml");
        copy("programs/headers/ethernet.yaml", b"ethernet.yaml");
        copy("tests/data/p4/router.stf", b"test\xff.stf");
        let router = fs::read_to_string(workspace_root().join("tests/data/p4/router.p4")).unwrap();
        fs::write(own.join("router.p4"), &router).unwrap();
        fs::write(own.join("part.p4"), "").unwrap();
        fs::write(own.join(name(b"r\xff.p4")), format!("#include \"part.p4\"\n{router}")).unwrap();
        let frame: &[u8] = &[7; 60];
        let file = own.join(name(b"in\xff.pcap"));
        scripts::write_pcap(&file, LinkType::Ethernet, [(10, frame), (20, frame)]);
        folder
    }

    fn path(&self) -> PathBuf {
        self.place.path().join(name(b"folder\xfe"))
    }

    /// Runs a command, with the folder's files below its own name.
    fn run(&self, words: &[&[u8]]) -> Ended {
        let words: Vec<OsString> = words.iter().map(|word| name(word)).collect();
        let ended = run_in(self.place.path(), &words);
        let is_lossy = |text: &str| text.contains('\u{fffd}');
        assert!(!is_lossy(&ended.out) && !is_lossy(&ended.err), "{words:?}: {ended:?}");
        ended
    }
}

#[test]
fn programs_are_read_and_shown() {
    let folder = Folder::new();
    for program in [b"folder\xfe".as_slice(), b"folder\xfe/l2\xff.yaml", b"folder\xfe/r\xff.p4"] {
        for command in [b"check".as_slice(), b"dump", b"p4info"] {
            folder.run(&[command, program]).expect(0, &[]);
        }
    }
    let entries = b"folder\xfe/entries\xff.yaml";
    folder.run(&[b"check", b"folder\xfe/l2\xff.yaml", b"--entries", entries]).expect(0, &[]);
    folder.run(&[b"test", b"folder\xfe"]).shows(&[r"folder\xfe/test\xff.stf"]);
    let json = folder.run(&[b"test", b"--json", b"folder\xfe/test\xff.stf"]);
    let rows: Value = serde_json::from_str(&json.expect(0, &[]).out).unwrap();
    assert_eq!(rows[0]["script"], r"folder\xfe/test\xff.stf");
    let yaml = folder.run(&[b"convert", b"folder\xfe/r\xff.p4"]);
    assert!(yaml.expect(0, &[]).out.contains(r"r\xff.p4:"), "{}", yaml.out);
}

#[test]
fn errors_name_the_file_with_its_bytes() {
    let folder = Folder::new();
    let wrong = folder.path().join(name(b"wrong\xff.yaml"));
    fs::write(&wrong, "pipeline: p\nheadrs: {}\n").unwrap();
    let file = b"folder\xfe/wrong\xff.yaml".as_slice();
    folder.run(&[b"check", file]).expect(1, &[r"folder\xfe/wrong\xff.yaml:2:1"]);
    let json = folder.run(&[b"check", b"--json", file]);
    let found: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(found[0]["place"]["file"], r"folder\xfe/wrong\xff.yaml");
    let shown = r"none\xff";
    let commands: [&[&[u8]]; 19] = [
        &[b"check", b"none\xff"],
        &[b"dump", b"none\xff"],
        &[b"graph", b"none\xff", b"-o", b"x.svg"],
        &[b"graph", b"l2_switch", b"-o", b"none\xff/x.svg"],
        &[b"graph", b"l2_switch", b"-o", b"none\xff"],
        &[b"convert", b"none\xff"],
        &[b"convert", b"none\xff.p4"],
        &[b"pack", b"none\xff", b"-o", b"x"],
        &[b"p4info", b"none\xff.p4"],
        &[b"test", b"none\xff"],
        &[b"test", b"none\xff.stf"],
        &[b"decode", b"none\xff"],
        &[b"trace", b"l2_switch", b"--pcap", b"none\xff"],
        &[b"replay", b"l2_switch", b"--in", b"1=none\xff"],
        &[b"replay", b"l2_switch", b"--in", b"none\xff"],
        &[b"replay", b"l2_switch", b"--in", b"1=x", b"--out", b"none\xff"],
        &[b"new", b"none\xff"],
        &[b"lab", b"none\xff"],
        &[b"lab", b"compare", b"none\xff", b"none"],
    ];
    for words in commands {
        folder.run(words).expect(2, &[shown]);
    }
}

/// Two files whose names differ in such bytes only are two files.
#[test]
fn the_file_of_that_name_is_written() {
    let folder = Folder::new();
    let file = |bytes: &[u8]| folder.path().join(name(bytes));
    for command in ["graph", "pack", "p4info", "convert"] {
        let format: &[&[u8]] = if command == "graph" { &[b"--format", b"dot"] } else { &[] };
        let program = b"folder\xfe/r\xff.p4".as_slice();
        let words: [&[u8]; 4] = [command.as_bytes(), program, b"-o", b"folder\xfe/out\xff"];
        let ended = folder.run(&[words.as_slice(), format].concat());
        ended.expect(0, &[r"wrote folder\xfe/out\xff"]);
        assert!(fs::metadata(file(b"out\xff")).unwrap().len() > 500);
        assert!(!file(b"out\xfe").exists() && !file(br"out\xff").exists());
    }
    let own = [b"convert".as_slice(), b"folder\xfe/r\xff.p4", b"-o", b"folder\xfe/./r\xff.p4"];
    folder.run(&own).expect(2, &[r"r\xff.p4: the program is read from this file"]);
    let included = [b"convert".as_slice(), b"folder\xfe/r\xff.p4", b"-o", b"folder\xfe/part.p4"];
    folder.run(&included).expect(2, &["the program is read from this file"]);
}

#[test]
fn captures_are_read_and_written() {
    let folder = Folder::new();
    let input = b"folder\xfe/in\xff.pcap".as_slice();
    folder.run(&[b"decode", input]).expect(0, &[]);
    folder.run(&[b"trace", b"l2_switch", b"--pcap", input, b"--frame", b"2"]).expect(0, &[]);
    let missing = [b"trace".as_slice(), b"l2_switch", b"--pcap", input, b"--frame", b"3"];
    folder.run(&missing).expect(2, &[r"in\xff.pcap has 2 frames, not 3"]);
    let from = b"1=folder\xfe/in\xff.pcap".as_slice();
    let to = b"2=folder\xfe/out\xff.pcap".as_slice();
    let json = folder.run(&[b"replay", b"l2_switch", b"--json", b"--in", from, b"--out", to]);
    let report: Value = serde_json::from_str(&json.expect(0, &[]).out).unwrap();
    assert_eq!(report["total"]["received"], 2);
    assert!(json.out.contains(r"in\\xff.pcap"), "{}", json.out);
    assert!(folder.path().join(name(b"out\xff.pcap")).is_file());
    let own = [
        b"replay".as_slice(),
        b"l2_switch",
        b"--in",
        from,
        b"--out",
        b"2=folder\xfe/./in\xff.pcap",
    ];
    folder.run(&own).expect(2, &[r"in\xff.pcap: the output is an input too"]);
}
