//! What is matched: the keys of tables, and the keys and members of value sets.

use super::decl::Display;
use crate::ids::*;
use wireyard_tables::{FieldSpec, Match, MatchKind};

/// A match key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// What is looked up.
    pub value: ExprId,
    /// What entries say about it.
    pub field: MatchField,
}

impl std::ops::Deref for Key {
    type Target = MatchField;

    fn deref(&self) -> &MatchField {
        &self.field
    }
}

/// What entries and members say about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchField {
    /// Name in entries and for control: the expression's text unless given.
    pub name: String,
    /// Width.
    pub bits: u32,
    /// How it matches.
    pub kind: MatchKind,
    /// How people want to read it.
    pub display: Display,
}

impl MatchField {
    /// What tables have of it.
    pub fn spec(&self) -> FieldSpec {
        FieldSpec { name: self.name.clone(), bits: self.bits, kind: self.kind }
    }
}

/// A value set of the parser, filled at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSet {
    /// Name.
    pub name: String,
    /// What a member matches; one without a name is the only one. Together they have at most 128 bits.
    pub keys: Vec<MatchField>,
    /// Most members.
    pub size: u32,
    /// Members at load.
    pub initial: Vec<SetMember>,
}

/// A member of a value set: a match for each of its keys.
pub type SetMember = Vec<Match>;

impl ValueSet {
    /// Width of all keys together.
    pub fn bits(&self) -> u32 {
        self.keys.iter().map(|key| key.bits).sum()
    }

    /// Members are single values, without masks and ranges.
    pub fn is_exact(&self) -> bool {
        self.keys.iter().all(|key| key.kind == MatchKind::Exact)
    }
}
