//! Namespaces of hosts and routers: each ends with a process of ours, so nothing is left behind.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A network namespace without a name, held by a process.
pub(super) struct Namespace {
    holder: Child,
    /// What the process is seen by.
    pub(super) path: String,
}

impl Namespace {
    pub(super) fn new() -> Namespace {
        let mut command = Command::new("unshare");
        let holder = command.args(["-n", "sleep", "600"]).stdin(Stdio::null()).spawn();
        let holder = holder.expect("unshare runs");
        let path = format!("/proc/{}/ns/net", holder.id());
        let own = std::fs::read_link("/proc/thread-self/ns/net").expect("a namespace");
        let sleeps = || {
            let name = std::fs::read_to_string(format!("/proc/{}/comm", holder.id()));
            name.is_ok_and(|name| name.trim() == "sleep")
                && std::fs::read_link(&path).is_ok_and(|link| link != own)
        };
        eventually("the namespace is there", sleeps);
        let namespace = Namespace { holder, path };
        namespace.ip("link set lo up");
        // Addresses are there at once.
        for scope in ["all", "default"] {
            namespace.run(&format!("sysctl -qw net.ipv6.conf.{scope}.accept_dad=0"));
        }
        namespace
    }

    pub(super) fn pid(&self) -> u32 {
        self.holder.id()
    }

    pub(super) fn command(&self, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path)).args(line.split_whitespace());
        command
    }

    /// Runs a command line, without a shell.
    pub(super) fn run(&self, line: &str) -> Output {
        self.command(line).stdin(Stdio::null()).output().expect("nsenter runs")
    }

    /// What it prints; it has to succeed.
    #[track_caller]
    pub(super) fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{line}: {out}{err}");
        out
    }

    #[track_caller]
    pub(super) fn ip(&self, arguments: &str) -> String {
        self.ok(&format!("ip {arguments}"))
    }

    /// Whether one packet is answered.
    pub(super) fn reaches(&self, address: &str) -> bool {
        self.run(&format!("ping -n -c 1 -W 1 {address}")).status.success()
    }

    #[track_caller]
    pub(super) fn must_reach(&self, address: &str) {
        eventually(&format!("{address} answers"), || self.reaches(address));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It was ours, whether it ended before or not.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Waits until something is so; how long that took.
#[track_caller]
pub(super) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    start.elapsed()
}

/// A cable from the switch's port (in this namespace) to an interface of another.
pub(super) fn cable(port: &str, to: &Namespace, name: &str) {
    crate::rig::ip(&format!("link add {port} type veth peer name {name} netns {}", to.pid()));
    crate::rig::ip(&format!("link set {port} up"));
    to.ip(&format!("link set {name} up"));
}
