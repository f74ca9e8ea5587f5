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

/// The network namespace of a process, by which [`is_gone`] finds others that are in it.
pub fn network_of(process: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{process}/ns/net")).expect("the network of a process")
}

/// True if within five seconds no process is in this network any more, so that its interfaces are gone.
pub fn is_gone(network: &std::path::Path) -> bool {
    let is_in = |process: std::fs::DirEntry| {
        std::fs::read_link(process.path().join("ns/net")).is_ok_and(|one| one == network)
    };
    let is_used = || std::fs::read_dir("/proc").expect("/proc").flatten().any(is_in);
    let started = std::time::Instant::now();
    while is_used() {
        if started.elapsed() > std::time::Duration::from_secs(5) {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    true
}
