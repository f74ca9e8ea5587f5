use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// The check makes no file, and leaves links and pipes as they are.
#[test]
#[cfg(feature = "lab")]
fn a_check_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink("target.html", at("dangling")).unwrap();
    check(&at("dangling")).unwrap();
    assert!(at("dangling").is_symlink() && !at("target.html").exists());
    check(&at("new.html")).unwrap();
    assert!(!at("new.html").exists());
    fs::write(at("old.html"), "old").unwrap();
    check(&at("old.html")).unwrap();
    assert_eq!(fs::read(at("old.html")).unwrap(), b"old");
    // Nobody reads it: opening it would wait.
    let made = std::process::Command::new("mkfifo").arg(at("pipe")).status();
    assert!(made.unwrap().success());
    check(&at("pipe")).unwrap();
    assert!(matches!(check(folder.path()), Err(OutputError::Folder(_))));
    assert!(matches!(check(&at("none/x.html")), Err(OutputError::NoFolder(_))));
}

/// What a process of the same number has left beside it keeps nobody from writing.
#[test]
fn a_file_that_was_left_by_a_kill_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("result.yaml");
    let left = folder.path().join(format!(".wireyard-{}-0.new", std::process::id()));
    fs::write(&left, "half").unwrap();
    write(&target, b"whole", &[]).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
    write(&target, b"again", &[]).unwrap();
    assert_eq!(fs::read(&target).unwrap(), b"again");
    assert_eq!(fs::metadata(&target).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read(&left).unwrap(), b"half");
}
