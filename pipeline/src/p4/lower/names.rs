//! Names of the tree: one space for all, without the words of the language.

use std::collections::HashSet;

use crate::syntax::RESERVED;

/// Words that mean something in one place, or that YAML reads as something else.
const TAKEN: &[&str] = &[
    "rest",
    "body",
    "pad",
    "default",
    "all",
    "notify_congestion",
    "apply",
    "none",
    "valid",
    "length",
    "last",
    "depth",
    "next",
    "null",
    "yes",
    "no",
    "on",
    "off",
    "y",
    "n",
    "Y",
    "N",
];

/// Names that are given.
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    pub(super) fn new() -> Self {
        Names { taken: RESERVED.iter().chain(TAKEN).map(|word| (*word).to_owned()).collect() }
    }

    /// This name, or with what is around it, or with a number.
    pub(super) fn fresh(&mut self, wanted: &str, around: &str) -> String {
        let wanted = plain(wanted);
        if self.taken.insert(wanted.clone()) {
            return wanted;
        }
        let base = if around.is_empty() { wanted } else { format!("{}_{wanted}", plain(around)) };
        if self.taken.insert(base.clone()) {
            return base;
        }
        let mut number = 2;
        loop {
            let name = format!("{base}_{number}");
            if self.taken.insert(name.clone()) {
                return name;
            }
            number += 1;
        }
    }
}

/// Letters, digits and `_` only.
pub(super) fn plain(name: &str) -> String {
    let mut plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if !plain.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        plain.insert(0, '_');
    }
    plain
}

/// The name of a field of a header.
pub(super) fn field(name: &str) -> String {
    if matches!(name, "valid" | "length" | "last" | "depth") {
        format!("{name}_")
    } else {
        plain(name)
    }
}

/// A word of the language.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}
