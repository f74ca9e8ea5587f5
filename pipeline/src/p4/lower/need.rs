//! Facts that one round of lowering finds and the next one needs (see [`super::program`]).

use super::Lower;
use super::standard::Half;

/// Something that is known at the end of a round only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// A field of the architecture's metadata is written in this half.
    Written(Half, String),
    /// A parameter of a block is not the same number in all applications.
    Argument(String, u32),
    /// Packets enter ingress again,
    EntersAgain,
    /// and some of them by recirculation,
    Recirculates,
    /// which ingress requests.
    RecirculatesLater,
    /// Clones keep different lists.
    CloneLists,
    /// Several places clone.
    LastClone,
    /// Egress of PSA parses.
    ParsesInEgress,
    /// There is an `exit` in this block, which ends it alone.
    Exits(usize),
    /// The deparser writes this header behind its `emit`.
    WrittenLate(String),
    /// Egress reads this header, which does not leave.
    ReadInEgress(String),
    /// A parser does more to elements of this stack than to extract its `next`.
    Counted(String),
}

impl Lower<'_> {
    /// Whether the round before found this.
    pub(super) fn is_needed(&self, need: &Need) -> bool {
        self.known.contains(need)
    }

    /// Notes a fact that the next round needs.
    pub(super) fn need(&mut self, need: Need) {
        self.found.insert(need);
    }
}
