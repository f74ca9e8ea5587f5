//! Names of the tree: one space for all, without the words of the language.

use std::collections::{HashMap, HashSet};

use super::super::types::{StructType, Type};
use crate::syntax::RESERVED;

/// Words that mean something in one place, and the one that is no name in YAML.
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
];

/// Names that are given.
pub(super) struct Names {
    taken: HashSet<String>,
    /// The number that a name had last.
    numbers: HashMap<String, u32>,
    /// Names of parameters of actions, which hide other names in their bodies.
    params: HashSet<String>,
}

impl Names {
    pub(super) fn new() -> Self {
        let taken = RESERVED.iter().chain(TAKEN).map(|word| (*word).to_owned()).collect();
        Names { taken, numbers: HashMap::new(), params: HashSet::new() }
    }

    /// An action has a parameter of this name.
    pub(super) fn param(&mut self, name: &str) {
        self.params.insert(name.to_owned());
    }

    /// A name for a value.
    pub(super) fn value(&mut self) -> String {
        self.visible("value", "")
    }

    /// A name for what bodies of actions name, which no parameter hides.
    pub(super) fn visible(&mut self, wanted: &str, around: &str) -> String {
        loop {
            let name = self.fresh(wanted, around);
            if !self.params.contains(&name) {
                return name;
            }
        }
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
        let mut number = self.numbers.get(&base).copied().unwrap_or(1);
        let name = loop {
            number += 1;
            let name = format!("{base}_{number}");
            if self.taken.insert(name.clone()) {
                break name;
            }
        };
        self.numbers.insert(base, number);
        name
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

/// Whether a header of the tree has something of this name beside its fields.
pub(super) fn is_of_tree(name: &str) -> bool {
    matches!(name, "valid" | "length" | "last" | "depth")
}

/// The name of a field of a digest.
pub(super) fn field(name: &str) -> String {
    if is_of_tree(name) { format!("{name}_") } else { plain(name) }
}

/// Names of the fields of a header or register in the tree, by their paths in the source (`s.a`), where they are other ones. A field of the
/// source keeps its name; what is made of several names, or may not have its own, has `_` behind it until it has one of its own.
#[derive(Debug, Default)]
pub(super) struct Fields(HashMap<String, String>);

impl Fields {
    pub(super) fn of(of: &StructType) -> Fields {
        let mut made = Vec::new();
        let mut taken = HashSet::new();
        for (name, ty) in &of.fields {
            let is_one = !matches!(ty.unwrapped(), Type::Struct(_) | Type::Stack(..));
            match is_one && !is_of_tree(name) {
                true => _ = taken.insert(plain(name)),
                false => parts(name, ty, &mut made),
            }
        }
        let mut fields = Fields::default();
        for path in made {
            let mut name = plain(&path);
            while is_of_tree(&name) || !taken.insert(name.clone()) {
                name.push('_');
            }
            fields.0.insert(path, name);
        }
        fields
    }

    /// The name of the field at a path.
    pub(super) fn name(&self, path: &str) -> String {
        self.0.get(path).cloned().unwrap_or_else(|| plain(path))
    }
}

/// Paths of the numbers in a field.
fn parts(path: &str, ty: &Type, into: &mut Vec<String>) {
    match ty.unwrapped() {
        Type::Struct(of) => {
            of.fields.iter().for_each(|(name, ty)| parts(&format!("{path}.{name}"), ty, into));
        }
        Type::Stack(of, size) => {
            (0..*size).for_each(|at| parts(&format!("{path}.{at}"), of, into));
        }
        _ => into.push(path.to_owned()),
    }
}

/// A word of the language.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}
