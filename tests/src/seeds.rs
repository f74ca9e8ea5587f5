//! The seed that a run of random tests begins with.

/// A number from the environment, if the variable is there.
///
/// # Panics
/// It is no number.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|why| panic!("{name}={text}: {why}")))
}

/// `WIREYARD_SEED`, which runs a seed again; else `WIREYARD_FIRST_SEED`, to search elsewhere; else 1, so that each run of the same
/// sources has the same result.
pub fn first() -> u64 {
    number("WIREYARD_SEED").or_else(|| number("WIREYARD_FIRST_SEED")).unwrap_or(1)
}
