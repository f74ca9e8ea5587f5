//! Links, and names that lead out of the folder.

use super::*;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};

#[test]
fn files_are_written_and_removed_beneath_it_only() {
    let place = tempfile::tempdir().unwrap();
    let (out, other) = (place.path().join("out"), place.path().join("other"));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("kept.txt"), "kept").unwrap();
    let folder = Folder::make(&out).unwrap();
    folder.write("tables/a.csv", b"1").unwrap();
    folder.write("tables/a.csv", b"22").unwrap();
    assert_eq!(folder.read("tables/a.csv", 100).unwrap(), "22");
    // A link on the way, and one in the place of the file.
    symlink(&other, out.join("linked")).unwrap();
    symlink(other.join("kept.txt"), out.join("report.html")).unwrap();
    assert!(
        folder.write("linked/kept.txt", b"lost").unwrap_err().to_string().contains("symbolic link")
    );
    assert!(
        folder.write("report.html", b"lost").unwrap_err().to_string().contains("symbolic link")
    );
    assert!(folder.can_write("report.html").is_err());
    folder.remove("linked/kept.txt").unwrap();
    folder.remove("report.html").unwrap();
    assert!(!out.join("report.html").exists(), "the link itself is of this folder");
    assert_eq!(fs::read_to_string(other.join("kept.txt")).unwrap(), "kept");
    for name in ["../other/kept.txt", "/etc/passwd", "", ".", "a/../b"] {
        assert!(folder.write(name, b"x").is_err(), "{name}");
        assert!(folder.read(name, 10).is_none(), "{name}");
    }
    folder.remove("tables/a.csv").unwrap();
    assert!(!out.join("tables").exists(), "an empty folder goes with its last file");
}

#[test]
fn a_file_that_another_writes_is_not_emptied() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("both.pcap");
    let mut first = create_output(&file).unwrap();
    assert_eq!(first.metadata().unwrap().mode() & 0o777, 0o600, "for its owner alone");
    first.write_all(b"first").unwrap();
    let refused = create_output(&file).unwrap_err();
    assert_eq!(refused.to_string(), "it is being written already: name another file");
    assert!(is_unwritten(&file).is_err() && keep_old(&file).is_err());
    assert_eq!(fs::read(&file).unwrap(), b"first");
    drop(first);
    is_unwritten(&file).unwrap();
    create_output(&file).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"");
}

#[test]
fn the_contents_of_a_file_are_kept_under_another_name() {
    let place = tempfile::tempdir().unwrap();
    let (file, link) = (place.path().join("a.pcapng"), place.path().join("link"));
    let old = place.path().join("a.pcapng.1");
    symlink(&file, &link).unwrap();
    assert_eq!(keep_old(&link).unwrap(), None, "there is no file");
    for text in ["one", "two"] {
        fs::write(&link, text).unwrap();
        assert_eq!(keep_old(&link).unwrap().unwrap().file_name(), old.file_name());
        assert_eq!(fs::read_to_string(&old).unwrap(), text);
        assert!(!file.exists() && link.is_symlink());
    }
    fs::write(&file, "").unwrap();
    assert_eq!(keep_old(&file).unwrap(), None, "an empty file has nothing to keep");
}

#[test]
fn a_pipe_is_no_file_and_blocks_nobody() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::make(place.path()).unwrap();
    let mode = Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(&folder.root, "report.html", kind, mode, 0).unwrap();
    assert!(folder.write("report.html", b"x").unwrap_err().to_string().contains("no file"));
    assert!(folder.read("report.html", 10).is_none());
    folder.remove("report.html").unwrap();
    folder.can_write("report.html").unwrap();
    assert!(!place.path().join("report.html").exists());
}
