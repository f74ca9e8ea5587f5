//! The value sets of a state: members as written, and their form for engines.
//!
//! An engine looks up one number, the keys concatenated, the first on the left. A member without a mask is found by
//! searching the sorted values; all others are pairs of a value and a mask, which are tried one after the other. Ranges
//! become prefixes. There is no first match: the result is yes or no.

use crate::ir::layout::ones;
use crate::ir::{MatchField, SetMember, ValueSet};
use arc_swap::ArcSwap;
use std::collections::BTreeSet;
use std::sync::Arc;
use wireyard_tables::{FieldError, FieldSpec, Match, Pattern};

/// Most pairs of a value and a mask that the members of one set become.
const MASKS_MAX: usize = 1 << 14;

/// A value set that cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueSetError {
    /// There is no such set.
    #[error("there is no such value set")]
    NoSuchSet,
    /// More members than the set holds.
    #[error("{found} members, but the value set holds {size}; raise its size")]
    Full {
        /// Members found.
        found: usize,
        /// Most members.
        size: u32,
    },
    /// A member with more or fewer matches than the set has keys.
    #[error("a member has a match for each of the {keys} keys of the value set, not {found}")]
    Keys {
        /// Matches of the member.
        found: usize,
        /// Keys of the set.
        keys: usize,
    },
    /// A match that its key does not allow.
    #[error("{}{error}", if .key.is_empty() { "a member: ".into() } else { format!("key {}: ", .key) })]
    Field {
        /// The name of the key.
        key: String,
        /// The error.
        error: Box<FieldError>,
    },
    /// Ranges that become too many prefixes.
    #[error(
        "the ranges of the members become more than {MASKS_MAX} prefixes, which is the most of a value set; \
         let ranges begin and end at multiples of powers of two, or write fewer"
    )]
    TooManyMasks,
}

/// The members of a set, replaced only as a whole.
#[derive(Debug, Default)]
pub(crate) struct Members {
    written: Vec<SetMember>,
    /// Values of members without a mask, in order.
    pub(crate) values: Box<[u128]>,
    /// Values and masks of the others.
    masked: Box<[(u128, u128)]>,
}

impl Members {
    #[inline]
    pub(super) fn contain(&self, value: u128) -> bool {
        self.values.binary_search(&value).is_ok()
            || self.masked.iter().any(|(wanted, mask)| value & mask == *wanted)
    }
}

/// A value set of a state.
#[derive(Debug)]
pub(super) struct Set {
    keys: Vec<FieldSpec>,
    size: u32,
    pub(super) members: ArcSwap<Members>,
}

impl Set {
    /// A set with its members in the program.
    pub(super) fn new(declared: &ValueSet) -> Result<Set, ValueSetError> {
        let keys = declared.keys.iter().map(MatchField::spec).collect();
        let set = Set { keys, size: declared.size, members: ArcSwap::default() };
        set.members.store(Arc::new(set.members(&declared.initial)?));
        Ok(set)
    }

    /// Members as they were written, in order.
    pub(super) fn written(&self) -> Vec<SetMember> {
        self.members.load().written.clone()
    }

    /// The form of these members for engines.
    pub(super) fn members(&self, members: &[SetMember]) -> Result<Members, ValueSetError> {
        let (mut values, mut masked) = (Vec::new(), Vec::new());
        let all = ones(self.keys.iter().map(|key| key.bits).sum());
        let mut written = BTreeSet::new();
        for member in members {
            let (canonical, pairs) = self.member(member)?;
            for (value, mask) in pairs {
                match mask == all {
                    true => values.push(value),
                    false => masked.push((value, mask)),
                }
            }
            if masked.len() > MASKS_MAX {
                return Err(ValueSetError::TooManyMasks);
            }
            written.insert(canonical);
        }
        if written.len() > self.size as usize {
            return Err(ValueSetError::Full { found: written.len(), size: self.size });
        }
        masked.sort_unstable();
        masked.dedup();
        values.sort_unstable();
        values.dedup();
        let written = written.into_iter().collect();
        Ok(Members { written, values: values.into(), masked: masked.into() })
    }

    /// A member in canonical form, with its values and masks.
    fn member(&self, member: &[Match]) -> Result<(SetMember, Vec<(u128, u128)>), ValueSetError> {
        if member.len() != self.keys.len() {
            let (found, keys) = (member.len(), self.keys.len());
            return Err(ValueSetError::Keys { found, keys });
        }
        let (mut canonical, mut pairs) = (Vec::with_capacity(member.len()), vec![(0, 0)]);
        for (key, one) in self.keys.iter().zip(member) {
            let pattern = one.check(key).map_err(|error| ValueSetError::Field {
                key: key.name.clone(),
                error: Box::new(error),
            })?;
            canonical.push(pattern.as_match(key));
            let parts = match pattern {
                Pattern::Masked { value, mask, .. } => vec![(value, mask)],
                Pattern::Range { lo, hi } => prefixes(lo, hi, key.bits),
            };
            if parts.len() * pairs.len() > MASKS_MAX {
                return Err(ValueSetError::TooManyMasks);
            }
            let left = |value: u128| value.checked_shl(key.bits).unwrap_or(0);
            let with = |(value, mask): (u128, u128)| {
                parts.iter().map(move |(v, m)| (left(value) | v, left(mask) | m))
            };
            pairs = pairs.into_iter().flat_map(with).collect();
        }
        Ok((canonical, pairs))
    }
}

/// A range as prefixes: each the largest that begins at the end of the one before.
fn prefixes(mut low: u128, high: u128, bits: u32) -> Vec<(u128, u128)> {
    let mut found = Vec::new();
    while low <= high {
        let mut free = low.trailing_zeros().min(bits);
        while free > 0 && low | ones(free) > high {
            free -= 1;
        }
        found.push((low, ones(bits) & !ones(free)));
        let last = low | ones(free);
        if last == u128::MAX {
            break;
        }
        low = last + 1;
    }
    found
}
