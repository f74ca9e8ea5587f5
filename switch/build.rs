//! Makes Rust of the control messages (`proto/`), without an installed protoc, and lists the files of `programs/` that the
//! binary carries.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// Most levels of folders beneath `programs/`.
const LEVELS_MAX: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(feature = "command")]
    control_messages()?;
    embedded_files()?;
    version();
    Ok(())
}

/// Sets `WIREYARD_VERSION`: the version, in a release build with the commit of the checkout (or `WIREYARD_COMMIT`, for builds
/// without one).
fn version() {
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo::rerun-if-env-changed=WIREYARD_COMMIT");
    // A debug build would be made anew with every commit.
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit =
        std::env::var("WIREYARD_COMMIT").ok().or_else(|| is_release.then(commit).flatten());
    match commit {
        Some(commit) => println!("cargo::rustc-env=WIREYARD_VERSION={version} ({commit})"),
        None => println!("cargo::rustc-env=WIREYARD_VERSION={version}"),
    }
}

/// The commit of the checkout, where there is one and git.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(text.trim().to_owned())
    };
    // In a worktree they lie elsewhere; a file that is not there would run this again with every build.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// Writes `embedded.rs`: a list of names and texts, the libraries (`headers/`) by their plain names, the rest by path.
fn embedded_files() -> Result<(), Box<dyn std::error::Error>> {
    let folder = fs::canonicalize("../programs")?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut found = Vec::new();
    collect(&folder, LEVELS_MAX, &mut found)?;
    let mut rows = Vec::new();
    for path in found {
        let inside = path.strip_prefix(&folder)?.to_str().ok_or("a name is not UTF-8")?.to_owned();
        let library = inside.strip_prefix("headers/").and_then(|file| file.strip_suffix(".yaml"));
        rows.push((library.map(str::to_owned).unwrap_or(inside), path));
    }
    rows.sort();
    let mut text = String::from("&[\n");
    for (name, path) in rows {
        writeln!(text, "    ({name:?}, include_str!({:?})),", path.display().to_string())?;
    }
    text.push_str("]\n");
    fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("embedded.rs"), text)?;
    Ok(())
}

/// Programs, entries, configurations, scenarios and packet tests beneath a folder.
fn collect(folder: &Path, levels: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && levels > 0 {
            collect(&path, levels - 1, found)?;
        } else if path.extension().is_some_and(|kind| kind == "yaml" || kind == "stf") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(feature = "command")]
fn control_messages() -> Result<(), Box<dyn std::error::Error>> {
    use prost::Message;

    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(
        [
            "p4/v1/p4runtime.proto",
            "wireyard/v1/device.proto",
            "wireyard/v1/state.proto",
            "gnmi/gnmi.proto",
        ],
        ["proto"],
    )?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // For the text form of P4Info, which needs the names of fields at run time.
    std::fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure()
        .btree_map(".")
        .include_file("p4runtime.rs")
        .compile_fds(files)?;
    Ok(())
}
