//! Sockets that exist already, and their access rights.

use super::*;

#[test]
fn a_socket_has_its_mode_and_goes_with_its_switch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.sock");
    let socket = Socket::at(&path, None).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert!(Socket::at(&path, None).unwrap_err().to_string().contains("another switch listens"));
    // The file of a switch that was killed, without a listener.
    let (listener, file) = socket.split();
    drop(listener);
    assert!(path.exists());
    let next = Socket::at(&path, Some(user())).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
    drop(file);
    assert!(path.exists(), "it is another switch's by now");
    drop(next);
    assert!(!path.exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_file_of_another_kind_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    fs::write(&path, "mine").unwrap();
    assert!(Socket::at(&path, None).unwrap_err().to_string().contains("no socket"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    let long = folder.path().join("x".repeat(200));
    assert!(Socket::at(&long, None).unwrap_err().to_string().contains("107 bytes"));
}

/// Other users can open the folder, and so lock it; the lock is a file that they cannot open.
#[test]
fn a_lock_of_the_folder_keeps_no_switch_from_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.sock");
    let theirs = File::open(folder.path()).unwrap();
    flock(&theirs, FlockOperation::LockExclusive).unwrap();
    drop(Socket::at(&path, None).unwrap());
    let ours = Lock::of(&path).unwrap();
    assert_eq!(fs::metadata(&ours.file).unwrap().mode() & 0o777, 0o600);
    let refused = Socket::at(&path, None).unwrap_err().to_string();
    assert!(refused.contains(".one.sock.lock: another process has this lock"), "{refused}");
    drop(ours);
    drop(Socket::at(&path, None).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

/// As systemd makes them: the folder of a service in one of root's.
#[test]
fn folders_of_services_are_searched_where_no_other_user_makes_them() {
    let folder = tempfile::tempdir().unwrap();
    let service = folder.path().join("edge");
    fs::create_dir(&service).unwrap();
    fs::write(folder.path().join("a_file"), "").unwrap();
    let mode = |mode| fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
    mode(0o755);
    assert_eq!(folders_in(folder.path(), user()), [service]);
    assert!(folders_in(folder.path(), user() + 1).is_empty());
    mode(0o777);
    assert!(folders_in(folder.path(), user()).is_empty());
}

#[test]
fn a_path_may_have_all_bytes_of_a_sockets_address() {
    let folder = tempfile::tempdir().unwrap();
    let left = PATH_BYTES_MAX - folder.path().as_os_str().len();
    let deep = folder.path().join("f".repeat(left - 7));
    fs::create_dir(&deep).unwrap();
    let path = deep.join("a.one");
    assert_eq!(path.as_os_str().len(), PATH_BYTES_MAX);
    let socket = Socket::at(&path, None).unwrap();
    assert!(is_served(&path));
    drop(socket);
    assert_eq!(fs::read_dir(&deep).unwrap().count(), 0);
    let longer = Socket::at(&deep.join("ab.one"), None).unwrap_err().to_string();
    assert!(longer.contains("at most 107 bytes"), "{longer}");
}
