//! The definition of right: a table as a list of entries, searched from end to end.
//!
//! Slow on purpose, and written from the words of the P4 specifications rather than from the engines:
//! it knows fields and values, no words, masks of words, hashes or tries.

use wireyard_tables::{ActionCall, Entry, FieldSpec, Match, MatchKind, TableSpec, Target};

/// A table of entries that run actions.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    fields: Vec<FieldSpec>,
    capacity: usize,
    default: ActionCall,
    /// In order of insertion.
    entries: Vec<Entry>,
}

/// Why an update is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// All entries are in use.
    Full,
    /// The entry exists.
    Duplicate,
    /// The entry does not exist.
    NotFound,
}

impl Oracle {
    /// An empty table.
    pub(crate) fn new(spec: &TableSpec) -> Oracle {
        Oracle {
            fields: spec.fields.clone(),
            capacity: spec.capacity as usize,
            default: spec.default.clone(),
            entries: Vec::new(),
        }
    }

    /// What one field asks for, as plain conditions: bits that must agree and bounds.
    fn condition(field: &FieldSpec, item: Match) -> (u128, u128, u128, u128) {
        let ones = u128::MAX >> (128 - field.bits);
        match item {
            Match::Exact(value) | Match::Optional(Some(value)) => (value, ones, 0, ones),
            Match::Any | Match::Optional(None) => (0, 0, 0, ones),
            Match::Ternary { value, mask } => (value, mask, 0, ones),
            Match::Lpm { value, prefix_len } => {
                let host_bits = field.bits - prefix_len;
                let mask = if host_bits == 128 { 0 } else { ones >> host_bits << host_bits };
                (value, mask, 0, ones)
            }
            Match::Range { lo, hi } if lo == hi => (lo, ones, 0, ones),
            Match::Range { lo, hi } => (0, 0, lo, hi),
        }
    }

    /// Two entries are the same if they ask for the same, however that is written.
    fn same(&self, a: (&[Match], u32), b: (&[Match], u32)) -> bool {
        a.1 == b.1
            && self.fields.iter().zip(a.0).zip(b.0).all(|((field, &a), &b)| {
                let range = |item| match item {
                    Match::Exact(value) => Match::Range { lo: value, hi: value },
                    other => other,
                };
                match field.kind {
                    MatchKind::Range => {
                        Self::condition(field, range(a)) == Self::condition(field, range(b))
                    }
                    _ => Self::condition(field, a) == Self::condition(field, b),
                }
            })
    }

    fn find(&self, matches: &[Match], priority: u32) -> Option<usize> {
        let wanted = (matches, priority);
        self.entries.iter().position(|e| self.same((&e.matches, e.priority), wanted))
    }

    /// Inserts a valid entry.
    pub(crate) fn insert(&mut self, entry: Entry) -> Result<(), Refused> {
        if self.find(&entry.matches, entry.priority).is_some() {
            return Err(Refused::Duplicate);
        }
        if self.entries.len() == self.capacity {
            return Err(Refused::Full);
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Gives an entry a new target.
    pub(crate) fn modify(&mut self, entry: Entry) -> Result<(), Refused> {
        let at = self.find(&entry.matches, entry.priority).ok_or(Refused::NotFound)?;
        self.entries[at].target = entry.target;
        self.entries[at].idle_timeout = entry.idle_timeout;
        self.entries[at].meter = entry.meter.or(self.entries[at].meter);
        Ok(())
    }

    /// Removes an entry.
    pub(crate) fn delete(&mut self, matches: &[Match], priority: u32) -> Result<(), Refused> {
        let at = self.find(matches, priority).ok_or(Refused::NotFound)?;
        self.entries.remove(at);
        Ok(())
    }

    /// Sets the default action.
    pub(crate) fn set_default(&mut self, call: ActionCall) {
        self.default = call;
    }

    /// The entries, oldest first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn matches(&self, entry: &Entry, values: &[u128]) -> bool {
        self.fields.iter().zip(&entry.matches).zip(values).all(|((field, &item), &key)| {
            let (value, mask, lo, hi) = Self::condition(field, item);
            key & mask == value && lo <= key && key <= hi
        })
    }

    /// What decides between entries that match: the priority, or in a table without priorities the
    /// length of the one prefix there is.
    fn rank(&self, entry: &Entry) -> u32 {
        let length = |(field, item): (&FieldSpec, &Match)| match (field.kind, item) {
            (MatchKind::Lpm, Match::Lpm { prefix_len, .. }) => *prefix_len,
            (MatchKind::Lpm, Match::Exact(_)) => field.bits,
            _ => 0,
        };
        let prefix_len = self.fields.iter().zip(&entry.matches).map(length).sum();
        if entry.priority > 0 { entry.priority } else { prefix_len }
    }

    /// The entry that these field values hit: the highest rank, and of those the oldest.
    pub(crate) fn lookup(&self, values: &[u128]) -> Option<&Entry> {
        let mut best: Option<&Entry> = None;
        for entry in self.entries.iter().filter(|entry| self.matches(entry, values)) {
            if best.is_none_or(|best| self.rank(entry) > self.rank(best)) {
                best = Some(entry);
            }
        }
        best
    }

    /// The action that these field values lead to, hit or miss; `None` if the entry points to a
    /// member or group.
    pub(crate) fn action(&self, values: &[u128]) -> Option<&ActionCall> {
        match self.lookup(values).map(|entry| &entry.target) {
            None => Some(&self.default),
            Some(Target::Action(call)) => Some(call),
            Some(_) => None,
        }
    }
}
