//! What packages carry: the Debian package, the root of a container, the switch class for Mininet, the example for containerlab.
//!
//! Each is made by its script of the binary that the tests have, and used. What needs root, podman or Mininet skips loudly.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use wireyard_tests::binary::wireyard;
use wireyard_tests::{has_tool, is_root, skip, workspace_root};

use crate::links_on_pages::{links, prose};
use crate::rig::{Wire, frame, ip, private_network};

/// Time of the files in packages, so that two runs give the same bytes.
const EPOCH: &str = "1700000000";

/// The binary without debug information, which is four fifths of it here.
fn stripped(folder: &Path) -> PathBuf {
    let path = folder.join("wireyard");
    let done = Command::new("strip").arg("-o").arg(&path).arg(wireyard()).status();
    if !done.is_ok_and(|status| status.success()) {
        fs::copy(wireyard(), &path).expect("the binary can be copied");
    }
    path
}

fn script(name: &str) -> Command {
    let mut command = Command::new("bash");
    command.arg(workspace_root().join("switch/packaging").join(name));
    command.env("SOURCE_DATE_EPOCH", EPOCH);
    command
}

#[track_caller]
fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The package has what a user looks for, its example runs, and a second package of the same binary has the same bytes.
#[test]
fn the_debian_package_is_whole() {
    let test = "the_debian_package_is_whole";
    if !has_tool("dpkg-deb") || !has_tool("dpkg-shlibdeps") {
        return skip(test, "no dpkg-deb and dpkg-shlibdeps (Debian: dpkg-dev)");
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = stripped(folder.path());
    let make = |name: &str| {
        let out = folder.path().join(name);
        // Packing it takes most of the time, and is dpkg's.
        succeed(script("deb.sh").args([&binary, &out]).env("COMPRESSION", "none"));
        let made = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
        let mut packages = made.filter(|path| path.extension().is_some_and(|kind| kind == "deb"));
        packages.next().expect("a package")
    };
    let package = make("one");
    let inside = folder.path().join("inside");
    succeed(Command::new("dpkg-deb").arg("-x").args([&package, &inside]));
    for file in [
        "usr/bin/wireyard",
        "usr/lib/systemd/system/wireyard@.service",
        "usr/share/man/man1/wireyard-run.1.gz",
        "usr/share/bash-completion/completions/wireyard",
        "usr/share/zsh/vendor-completions/_wireyard",
        "usr/share/fish/vendor_completions.d/wireyard.fish",
        "usr/share/wireyard/mininet/wireyard.py",
        "usr/share/doc/wireyard/programs/p4runtime.md",
        "usr/lib/wireyard/simple_switch_grpc",
    ] {
        let path = inside.join(file);
        assert!(path.metadata().is_ok_and(|file| file.len() > 100), "{file} is missing");
    }
    links_lead_to_installed_files(&inside.join("usr/share/doc/wireyard"));
    let completion = inside.join("usr/share/bash-completion/completions/wireyard");
    let completion = fs::read_to_string(completion).unwrap();
    assert!(completion.contains("\"wireyard\" -- "), "{completion}");
    let described = text(&succeed(Command::new("dpkg-deb").arg("-f").arg(&package)));
    assert!(described.contains("Depends: libc6 (>= "), "{described}");
    let control = folder.path().join("control");
    succeed(Command::new("dpkg-deb").arg("-e").args([&package, &control]));
    let kept = fs::read_to_string(control.join("conffiles")).unwrap();
    assert!(kept.contains("/etc/wireyard/example/switch.yaml\n"), "{kept}");
    the_unit_runs_the_example(&inside);
    assert!(fs::read(package).unwrap() == fs::read(make("two")).unwrap(), "other bytes");
}

/// Each relative link of the pages beneath a folder leads to a file in it.
fn links_lead_to_installed_files(folder: &Path) {
    let mut folders = vec![folder.to_owned()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.extension() {
                _ if entry.is_dir() => folders.push(entry),
                Some(kind) if kind == "md" => pages.push(entry),
                _ => {}
            }
        }
    }
    assert!(pages.len() > 30, "{pages:?}");
    for page in pages {
        for link in links(&prose(&fs::read_to_string(&page).unwrap())) {
            let file = link.split('#').next().unwrap();
            let is_there = file.is_empty() || page.parent().unwrap().join(file).exists();
            assert!(link.starts_with("http") || is_there, "{}: {link}", page.display());
        }
    }
}

/// The command of the unit, with its folders of `/etc`, `/run` and `/var/lib`, on the example's files.
fn the_unit_runs_the_example(inside: &Path) {
    let unit = inside.join("usr/lib/systemd/system/wireyard@.service");
    let unit = fs::read_to_string(unit).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let root = inside.display();
    let mut line = line.replace("%i", "example");
    for folder in ["/etc/", "/usr/bin/", "/run/", "/var/lib/"] {
        line = line.replace(folder, &format!("{root}{folder}"));
    }
    // systemd makes them for the user of this instance; one that is preserved would be in /run/private.
    for (key, place) in [("RuntimeDirectory=", "run"), ("StateDirectory=", "var/lib")] {
        let name = unit.lines().find_map(|line| line.strip_prefix(key)).expect("a folder");
        assert!(name.ends_with("/%i"), "{key}{name}");
        fs::create_dir_all(inside.join(place).join(name.replace("%i", "example"))).unwrap();
    }
    assert!(!unit.contains("\nRuntimeDirectoryPreserve="), "{unit}");
    let variables = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
    let variables = variables.filter_map(|one| one.split_once('='));
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["--duration", "0.2"]).env_remove("WIREYARD_RUN_DIR").envs(variables);
    let ended = succeed(&mut command);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("rocev2_lossless runs on no port yet"), "{said}");
    // Beneath /run/wireyard, where commands search.
    let socket = format!("; control: {root}/run/wireyard/example/example.sock");
    assert!(said.contains(&socket), "{said}");
}

/// A file system that has nothing but the binary and its libraries is enough, under another root.
#[test]
fn the_root_of_the_container_is_enough() {
    let test = "the_root_of_the_container_is_enough";
    if !has_tool("ldd") || !has_tool("chroot") || !is_root() {
        return skip(test, "needs root, ldd and chroot");
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("rootfs");
    succeed(script("rootfs.sh").args([&stripped(folder.path()), &root]));
    let inside = |arguments: &[&str]| {
        text(&succeed(Command::new("chroot").arg(&root).arg("/usr/bin/wireyard").args(arguments)))
    };
    assert!(inside(&["check", "l2_switch"]).contains("l2_switch"));
    assert!(inside(&["--version"]).starts_with("wireyard "));
    let mode = fs::metadata(root.join("tmp")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o1777);
}

/// The value of a key of the node `switch` in the example for containerlab; lists have a line for each element.
fn of_switch(lab: &str, key: &str) -> Vec<String> {
    let lines = lab.lines().skip_while(|line| *line != "    switch:").skip(1);
    let node = lines.take_while(|line| line.starts_with("      "));
    let mut found = Vec::new();
    let mut is_list = false;
    for line in node {
        if let Some(value) = line.strip_prefix(&format!("      {key}:")) {
            is_list = value.is_empty();
            found.extend((!is_list).then(|| value.trim().to_owned()));
        } else if let Some(element) = line.strip_prefix("        - ").filter(|_| is_list) {
            found.push(element.to_owned());
        } else {
            is_list = false;
        }
    }
    found
}

/// Podman, in a mount namespace that hides control groups of a kind that its runtime does not take.
struct Podman {
    store: PathBuf,
}

impl Podman {
    fn command(&self, arguments: &[&str]) -> Command {
        let hide = "umount -R /sys/fs/cgroup 2> /dev/null; mount -t cgroup2 none /sys/fs/cgroup; exec podman \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", hide, "podman", "--storage-driver", "vfs"]);
        command.arg("--root").arg(self.store.join("root"));
        command.arg("--runroot").arg(self.store.join("run"));
        command.args(["--cgroup-manager", "cgroupfs"]).args(arguments);
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        text(&succeed(&mut self.command(arguments)))
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.command(&["rm", "-f", "-t", "1", "switch"]).output();
    }
}

/// The image runs in a user namespace as containerlab runs it: without a network, links that come then, and commands that make them ports.
#[test]
fn a_container_forwards_between_two_cables() {
    let test = "a_container_forwards_between_two_cables";
    if !has_tool("podman") {
        return skip(test, "podman is not there (Debian: podman)");
    }
    let Some(_network) = private_network(test) else { return };
    ip("link set lo up");
    let folder = tempfile::tempdir().unwrap();
    let podman = Podman { store: folder.path().join("store") };
    let packaging = workspace_root().join("switch/packaging");
    let context = folder.path().join("context");
    succeed(script("rootfs.sh").args([&stripped(folder.path()), &context.join("rootfs")]));
    let file = packaging.join("Containerfile").display().to_string();
    let context = context.display().to_string();
    let image = "localhost/wireyard:latest";
    podman.run(&["build", "--isolation", "chroot", "-q", "-t", image, "-f", &file, &context]);
    let lab = fs::read_to_string(packaging.join("containerlab/wireyard.clab.yaml")).unwrap();
    assert_eq!(of_switch(&lab, "image"), [image]);
    let bind = format!("{}/containerlab/{}", packaging.display(), of_switch(&lab, "binds")[0]);
    let command = of_switch(&lab, "cmd").remove(0);
    let mut arguments =
        vec!["run", "-d", "--name", "switch", "--network", "none", "--volume", &bind];
    arguments.extend(["--cgroups=disabled", "--cap-add", "NET_ADMIN,NET_RAW"]);
    arguments.extend(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]);
    arguments.extend(["--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536", image]);
    arguments.extend(command.split(' '));
    podman.run(&arguments);
    let said = |awaited: &str| {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let logs = podman.command(&["logs", "switch"]).output().expect("podman runs");
            let all = [logs.stdout, logs.stderr].concat();
            let all = String::from_utf8_lossy(&all).into_owned();
            if all.contains(awaited) {
                return;
            }
            assert!(Instant::now() < deadline, "no `{awaited}` in {all}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    said("runs on no port yet");
    let process = podman.run(&["inspect", "-f", "{{.State.Pid}}", "switch"]);
    let map = fs::read_to_string(format!("/proc/{process}/uid_map")).unwrap();
    assert_eq!(map.split_whitespace().nth(1), Some("100000"), "a user namespace");
    for n in [1, 2] {
        ip(&format!("link add host{n} type veth peer name eth{n}"));
        ip(&format!("link set host{n} up"));
        ip(&format!("link set eth{n} netns {process}"));
        // Without an IPv6 address: its neighbour discovery would be frames of the kernel among those of the switch.
        for words in [["addrgenmode", "none"].as_slice(), &["up"]] {
            let mut set = Command::new("nsenter");
            set.arg(format!("--net=/proc/{process}/ns/net"));
            set.args(["ip", "link", "set", &format!("eth{n}")]).args(words);
            succeed(&mut set);
        }
    }
    for command in of_switch(&lab, "exec") {
        let mut arguments = vec!["exec", "switch"];
        arguments.extend(command.split(' '));
        podman.run(&arguments);
    }
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    let sent: Vec<Vec<u8>> = (60..100).map(|len| frame(&[], len)).collect();
    host1.send(&sent);
    assert_eq!(host2.receive(sent.len()), sent);
    podman.run(&["stop", "-t", "10", "switch"]);
    said("total: 40 received");
}

/// Hosts of Mininet ping through two switches, and scripts use the commands of one.
#[test]
fn mininet_has_a_switch_class() {
    let test = "mininet_has_a_switch_class";
    let has = Command::new("/usr/bin/python3").args(["-c", "import mininet.net"]).output();
    if !has.is_ok_and(|done| done.status.success()) {
        return skip(test, "Mininet is not there (Debian: mininet)");
    }
    let Some(_network) = private_network(test) else { return };
    ip("link set lo up");
    let mut command = Command::new("timeout");
    command.args(["90", "/usr/bin/python3", "tests/data/mininet_wireyard.py"]);
    command.current_dir(workspace_root()).env("WIREYARD", wireyard());
    assert!(text(&succeed(&mut command)).ends_with("done"));
}
