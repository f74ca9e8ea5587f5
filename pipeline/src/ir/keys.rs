//! Match keys: those of tables, and the keys and members of value sets.

use super::decl::Display;
use crate::ids::*;
use wireyard_tables::{FieldSpec, Match, MatchKind};

/// A match key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The expression that is looked up.
    pub value: ExprId,
    /// Its form in entries.
    pub field: MatchField,
}

impl std::ops::Deref for Key {
    type Target = MatchField;

    fn deref(&self) -> &MatchField {
        &self.field
    }
}

/// A key as entries and members refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchField {
    /// Name in entries and for the control plane: the expression's text unless given.
    pub name: String,
    /// Width.
    pub bits: u32,
    /// Its match kind.
    pub kind: MatchKind,
    /// The display form of its values.
    pub display: Display,
}

impl MatchField {
    /// The field in the form of tables.
    pub fn spec(&self) -> FieldSpec {
        FieldSpec { name: self.name.clone(), bits: self.bits, kind: self.kind }
    }
}

/// A value set of the parser, filled at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSet {
    /// Name.
    pub name: String,
    /// The keys that a member matches; one without a name is the only one. Together they have at most 128 bits.
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

    /// Whether members are single values, without masks and ranges.
    pub fn is_exact(&self) -> bool {
        self.keys.iter().all(|key| key.kind == MatchKind::Exact)
    }
}
