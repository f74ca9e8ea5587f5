//! The `wireyard` binary as a user starts it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::workspace_root;

/// The binary of the profile that the tests were built with, brought up to date once per process:
/// Cargo builds no other package's binary for a test by itself.
pub fn wireyard() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(build)
}

fn build() -> PathBuf {
    // target/PROFILE/deps/it-HASH
    let test = std::env::current_exe().expect("the test has a path");
    let profile = test.parent().and_then(Path::parent).expect("a profile's folder").to_owned();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--locked", "-p", "wireyard-switch", "--bin", "wireyard"]);
    cargo.current_dir(workspace_root());
    // Cargo gives a test the variables of its package. Build scripts that watch them (ring's) would run again here, and
    // all that depends on them would be built again, now and when the tests are built next.
    let of_package = |name: &str| {
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "OUT_DIR"
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_package)) {
        cargo.env_remove(name);
    }
    cargo.arg("--target-dir").arg(profile.parent().expect("the target folder"));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "the binary does not build");
    profile.join("wireyard")
}

/// How a command ended and what it printed.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit status; `None` after a signal.
    pub status: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ended {
    /// What a finished process left; a panic message fails the test at once.
    pub fn of(output: &Output) -> Ended {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let ended = Ended {
            status: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        };
        assert!(!ended.err.contains("panicked at"), "{}", ended.err);
        ended
    }

    /// Checks the exit status and that standard error holds all of these.
    #[track_caller]
    pub fn expect(&self, status: i32, in_err: &[&str]) -> &Ended {
        assert_eq!(self.status, Some(status), "stdout: {}\nstderr: {}", self.out, self.err);
        for text in in_err {
            assert!(self.err.contains(text), "no `{text}` in: {}", self.err);
        }
        self
    }

    /// Checks that the command succeeded and that standard output or standard error holds all of these.
    #[track_caller]
    pub fn shows(&self, texts: &[&str]) -> &Ended {
        self.expect(0, &[]);
        for text in texts {
            assert!(self.out.contains(text) || self.err.contains(text), "no `{text}` in: {self:?}");
        }
        self
    }
}

/// Runs the binary in the workspace's root.
pub fn run<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Ended {
    run_in(&workspace_root(), arguments)
}

/// Runs the binary in this folder.
pub fn run_in<S: AsRef<std::ffi::OsStr>>(folder: &Path, arguments: &[S]) -> Ended {
    let mut command = Command::new(wireyard());
    command.args(arguments).current_dir(folder);
    Ended::of(&command.output().expect("the binary runs"))
}
