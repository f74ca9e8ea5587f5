//! Test harness shared by the integration tests.

pub mod binary;
pub mod browser;
pub mod capture;
pub mod differ;
pub mod fuzz;
pub mod live;
pub mod p4;
pub mod p4client;
pub mod scripts;
pub mod seeds;
pub mod simulation;
pub mod skip;
pub mod skips;
pub mod store;
pub mod wires;

use std::path::PathBuf;

pub use skip::skip;
// The fuzz target `endpoints` has files of the switch's own tests by their path, which say `crate::roce`.
use wireyard_switch::roce;

/// The root of the workspace.
pub fn workspace_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace")
}

/// The folder of shared references and captures beside the workspace, if it is there.
pub fn shared() -> Option<PathBuf> {
    let folder = workspace_root().join("../shared");
    folder.is_dir().then_some(folder)
}

/// True for root, which may make interfaces and namespaces.
pub fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| status.lines().any(|line| line.starts_with("Uid:\t0\t")))
}

/// True where a process may have a network namespace of its own; skips `test` loudly otherwise.
pub fn has_namespaces(test: &str) -> bool {
    let probe = std::process::Command::new("unshare").args(["--user", "--net", "true"]).output();
    let allowed = is_root() || probe.is_ok_and(|output| output.status.success());
    if !allowed {
        skip(test, "neither root nor user namespaces");
    }
    allowed
}

/// True when a program can be started.
pub fn has_tool(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(name).is_file())
}

/// One end of a cable here, the other in the network of a process: the kernel removes both when nothing keeps that network any
/// more, be it a process, a descriptor or a mount.
pub struct Witness {
    name: String,
}

impl Witness {
    /// A cable into the network of a process; `None` without root or ip(8).
    pub fn in_network_of(process: u32) -> Option<Witness> {
        if !is_root() || !has_tool("ip") {
            return None;
        }
        let name = format!("wit{process}");
        let peer = process.to_string();
        let end = ["link", "add", &name, "type", "veth", "peer", "name", "witness", "netns", &peer];
        let made = std::process::Command::new("ip").args(end).status();
        assert!(
            made.is_ok_and(|status| status.success()),
            "no cable into the network of {process}"
        );
        Some(Witness { name })
    }

    /// True if the network of the other end is gone within five seconds.
    pub fn sees_the_end(&self) -> bool {
        let is_here = || {
            let all = std::fs::read_to_string("/proc/thread-self/net/dev").expect("the interfaces");
            all.lines().any(|line| line.trim().starts_with(&format!("{}:", self.name)))
        };
        let started = std::time::Instant::now();
        while is_here() {
            if started.elapsed() > std::time::Duration::from_secs(5) {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        true
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ip").args(["link", "del", &self.name]).output();
    }
}
