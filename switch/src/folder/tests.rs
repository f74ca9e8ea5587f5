//! Links, and names that lead out of the folder.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

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
