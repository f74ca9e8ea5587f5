//! The seed that a run of random tests begins with.

/// A number from the environment, if the variable is there.
///
/// # Panics
/// It is no number.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|why| panic!("{name}={text}: {why}")))
}

/// `WIREYARD_SEED`, which runs a seed again; else that of the commit, which `ci.sh` sets, so that each commit tries others; else 1.
pub fn first() -> u64 {
    number("WIREYARD_SEED").or_else(|| number("WIREYARD_SEED_OF_COMMIT")).unwrap_or(1)
}
