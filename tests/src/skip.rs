//! Tests that cannot run here: each is reported at once, past the capture of the test runner, and noted for the summary at the
//! end of the run (`tests/skipped.rs`).
//!
//! The unit tests of `wireyard-switch` have this file too, by its path: that package cannot depend on this one.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::parent_id;
use std::path::PathBuf;

/// Says loudly that a test is skipped; fails instead where nothing may be skipped (`WIREYARD_SKIP=never`, as in CI).
///
/// # Panics
/// Nothing may be skipped.
pub fn skip(test: &str, why: &str) {
    assert!(
        std::env::var("WIREYARD_SKIP").as_deref() != Ok("never"),
        "{test}: would be skipped: {why}"
    );
    // The runner captures `eprintln!` of a test that passes, and nothing else.
    let _ = std::io::stderr().lock().write_all(format!("SKIPPED {test}: {why}\n").as_bytes());
    let notes = OpenOptions::new().create(true).append(true).open(notes());
    let line = format!("{test}\t{}\n", why.replace(['\n', '\t'], " "));
    let _ = notes.and_then(|mut notes| notes.write_all(line.as_bytes()));
}

/// What the test binaries that one runner started have noted: a line for each, test and reason.
pub fn notes() -> PathBuf {
    let profile = std::env::current_exe().ok();
    // target/PROFILE/deps/TEST-HASH
    let profile = profile.as_deref().and_then(|test| test.parent()?.parent());
    profile.unwrap_or(std::path::Path::new(".")).join(format!("skipped-tests.{}", parent_id()))
}
