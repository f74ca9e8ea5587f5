//! Code: basic blocks of operations, for ingress, egress and actions.
//!
//! A body is a directed acyclic graph of blocks (there are no loops outside the parser). Operations are done in order;
//! an expression includes the effect of every operation before it. `drop`, `punt` and `exit` end the whole pass, also
//! from inside an action; `return` ends the body.

use super::SourceSpan;
use super::std_meta::StdField;
use crate::ids::*;
use petgraph::graph::{DiGraph, NodeIndex};

/// A control-flow graph with one entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// Blocks; the entry is the first one. An empty body does nothing.
    pub blocks: IdVec<BlockId, Block>,
    /// Locals: name and width; in an action the parameters come first.
    pub locals: IdVec<LocalId, Local>,
}

/// A local variable of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// Name, for people.
    pub name: String,
    /// Width, 1 to 128. Initially zero.
    pub bits: u32,
}

/// Operations in order, then the terminator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Operations.
    pub ops: Vec<OpAt>,
    /// The terminator.
    pub term: Term,
    /// Place of the terminator in the source.
    pub span: Option<SourceSpan>,
}

/// An operation and its place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpAt {
    /// The operation.
    pub op: Op,
    /// Its place in the source.
    pub span: Option<SourceSpan>,
}

/// The end of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// Continue there.
    Jump(BlockId),
    /// On a one-bit condition.
    Branch {
        /// Condition.
        cond: ExprId,
        /// When it is 1.
        then: BlockId,
        /// When it is 0.
        otherwise: BlockId,
    },
    /// By value; the cases are distinct.
    Switch {
        /// The value that is compared.
        value: ExprId,
        /// Value and block.
        cases: Vec<(u128, BlockId)>,
        /// When no case is equal.
        default: BlockId,
    },
    /// Look the table up, run the action, continue by the result. Controls only, not actions.
    Apply {
        /// Table.
        table: TableId,
        /// After one of these actions ran (hit or default) go there; they win over hit and miss.
        by_action: Vec<(ActionId, BlockId)>,
        /// After a hit.
        hit: BlockId,
        /// After a miss, the default action having run.
        miss: BlockId,
    },
    /// End of the body.
    Return,
    /// End of the pass.
    Exit,
    /// End of the pass, the packet is dropped for this reason.
    Drop(ReasonId),
    /// End of the pass, the packet goes to the CPU port with this reason.
    Punt(ReasonId),
}

impl Term {
    /// Blocks that may be next, in the order written.
    pub fn successors(&self) -> Vec<BlockId> {
        match self {
            Term::Jump(to) => vec![*to],
            Term::Branch { then, otherwise, .. } => vec![*then, *otherwise],
            Term::Switch { cases, default, .. } => {
                cases.iter().map(|(_, to)| *to).chain([*default]).collect()
            }
            Term::Apply { by_action, hit, miss, .. } => {
                by_action.iter().map(|(_, to)| *to).chain([*hit, *miss]).collect()
            }
            Term::Return | Term::Exit | Term::Drop(_) | Term::Punt(_) => Vec::new(),
        }
    }
}

/// A place that can be assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LValue {
    /// A scalar field; nothing happens when the header is not valid.
    Field(InstanceId, FieldId),
    /// Bits `high..=low` of a scalar field.
    FieldSlice {
        /// Header.
        instance: InstanceId,
        /// Field.
        field: FieldId,
        /// Highest bit.
        high: u32,
        /// Lowest bit.
        low: u32,
    },
    /// An element of an array field; index out of range drops with reason `array_index`.
    Element {
        /// Header.
        instance: InstanceId,
        /// Array field.
        field: FieldId,
        /// Index of the element.
        index: ExprId,
    },
    /// User metadata.
    Meta(MetaId),
    /// Intrinsic metadata that this control may write.
    Std(StdField),
    /// A local.
    Local(LocalId),
}

/// An operation. Its expressions have the width of what they are assigned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Assignment.
    Set(LValue, ExprId),
    /// Make a header valid; one that was not valid starts as all zeros, its variable part empty.
    SetValid(InstanceId),
    /// Make a header invalid.
    SetInvalid(InstanceId),
    /// Copy all bytes and validity of a header of the same type.
    CopyHeader {
        /// Destination.
        to: InstanceId,
        /// Source.
        from: InstanceId,
    },
    /// Copy the bytes of a variable part, or of a field over 128 bits, to one like it; nothing happens when the
    /// destination is not valid. A source that is not valid is empty, or zeros.
    CopyBytes {
        /// Destination.
        to: (InstanceId, FieldId),
        /// Source.
        from: (InstanceId, FieldId),
    },
    /// Move elements towards the end; the first `count` become invalid, the last are dropped (P4 `push_front`).
    PushFront(StackId, u32),
    /// Move elements towards the front; the first `count` are dropped, the last become invalid (P4 `pop_front`).
    PopFront(StackId, u32),
    /// Run an action with arguments (its first locals).
    Call(ActionId, Vec<ExprId>),
    /// Add the packet to an indirect counter; an index out of range adds to nothing and is counted.
    Count(CounterId, ExprId),
    /// Run an indirect meter; the colour (0 green, 1 yellow, 2 red) goes to `to`.
    Meter {
        /// The target of the colour, 2 bits.
        to: LValue,
        /// Meter array.
        meter: MeterId,
        /// Index of the meter; out of range is red.
        index: ExprId,
        /// Colour before, for a colour-aware meter.
        color: Option<ExprId>,
    },
    /// Load all cells of a register entry into consecutive locals; out of range loads zeros.
    RegisterLoad {
        /// Register array.
        register: RegisterId,
        /// Index of the entry.
        index: ExprId,
        /// Local of the first cell.
        first: LocalId,
        /// True when a [`Op::RegisterStore`] follows and the entry must not change in between.
        locked: bool,
    },
    /// Store consecutive locals to a register entry; out of range stores nothing.
    RegisterStore {
        /// Register array.
        register: RegisterId,
        /// Which entry: the same expression value as at the load.
        index: ExprId,
        /// Local of the first cell.
        first: LocalId,
        /// Cells to store (all of them under a lock).
        cells: Vec<u32>,
        /// True when it ends a locked update.
        locked: bool,
    },
    /// A uniform random number in `low..=high` from the program's seeded stream.
    Random {
        /// The target of the number.
        to: LValue,
        /// Lowest.
        low: ExprId,
        /// Highest.
        high: ExprId,
    },
    /// Send a digest to control.
    Digest(DigestId, Vec<ExprId>),
    /// Copy the packet to a mirror session at the end of this pass. Ingress copies the packet as it
    /// was received, egress as it leaves.
    Clone(ExprId),
    /// Parse again from the start.
    Resubmit {
        /// With the packet as it was received, not as this pass leaves it.
        received: bool,
    },
    /// After egress, enter ingress again.
    Recirculate,
    /// The packet carries its congestion mark: [`crate::exec::flags::MARKED`]. The checker puts it behind statements
    /// that write one.
    MarkWritten,
    /// Cut the packet to at most this many bytes when it leaves this pass.
    Truncate(ExprId),
    /// Write the CRC's field from the packet as this pass leaves it.
    UpdateCrc(CrcId),
    /// Insert or refresh an entry from the data plane; seen by the next packet of this worker.
    Learn {
        /// Table.
        table: TableId,
        /// One value for each key.
        key: Vec<ExprId>,
        /// Action of the entry.
        action: ActionId,
        /// Its data.
        args: Vec<ExprId>,
    },
    /// Call a device extern.
    Extern {
        /// The extern.
        external: ExternId,
        /// Arguments.
        args: Vec<ExprId>,
        /// The target of its result.
        to: Option<LValue>,
    },
}

impl Body {
    /// The graph of blocks, for reachability, order and pictures.
    pub fn graph(&self) -> DiGraph<BlockId, ()> {
        let mut graph = DiGraph::with_capacity(self.blocks.len(), self.blocks.len());
        for id in self.blocks.ids() {
            graph.add_node(id);
        }
        for (id, block) in self.blocks.entries() {
            for next in block.term.successors() {
                graph.add_edge(NodeIndex::new(id.index()), NodeIndex::new(next.index()), ());
            }
        }
        graph
    }
}
