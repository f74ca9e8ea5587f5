//! The parser: a graph of states that moves a cursor over the packet.
//!
//! The cursor starts at the first byte and only moves forward; `extract_at` reads elsewhere and does not move it.
//! Running past the end is the error `packet_too_short`; the header under extraction stays invalid. On an error parsing
//! stops, `std.parser_error` is set, and ingress runs (or the packet drops, if the program says so). Loops are allowed
//! when every iteration moves the cursor; a packet may visit at most [`Parser::max_states`] states (`too_many_states`).

use super::SourceSpan;
use super::code::LValue;
use crate::ids::*;
use petgraph::graph::{DiGraph, NodeIndex};

/// A parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parser {
    /// States; the first one is `start`.
    pub states: IdVec<StateId, State>,
    /// Where every packet is parsed again when egress begins, with states of its own; `None`: egress finds the headers
    /// that ingress left.
    pub egress: Option<StateId>,
    /// `let` locals of the parser.
    pub locals: IdVec<LocalId, super::code::Local>,
    /// A packet that visits more states is in error.
    pub max_states: u32,
    /// Drop a packet with a parser error (reason `parser_error`) instead of running ingress.
    pub drop_on_error: bool,
}

impl Default for Parser {
    fn default() -> Self {
        Parser {
            states: IdVec::new(),
            egress: None,
            locals: IdVec::new(),
            max_states: 256,
            drop_on_error: false,
        }
    }
}

/// A parser state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its name; a state of a bound sub-parser is `caller.state`.
    pub name: String,
    /// The operations, in order.
    pub ops: Vec<ParserOp>,
    /// The next state.
    pub next: Transition,
    /// Its place in the source.
    pub span: Option<SourceSpan>,
}

/// An operation of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParserOp {
    /// Read a header at the cursor and move behind it. A header that is already valid is overwritten.
    Extract(InstanceId),
    /// Read the next free element of a stack; none free is the error `stack_overflow`.
    ExtractNext(StackId),
    /// Read a header at a byte offset from the start of the packet (a trailer); the cursor stays.
    /// Outside the packet is the error `packet_too_short`.
    ExtractAt(InstanceId, ExprId),
    /// Make a header valid, with zeros, unless it is.
    SetValid(InstanceId),
    /// Make a header invalid.
    SetInvalid(InstanceId),
    /// Move the cursor by this many bits; they must be whole bytes at the end of the state.
    Advance(ExprId),
    /// The payload stops at this byte offset from the start of the packet: trailers and slack follow it. Beyond the end
    /// of the packet, or before the cursor at the end of parsing, is the error `body_end`.
    BodyEnd(ExprId),
    /// Assignment to metadata, a local or an intrinsic field.
    Set(LValue, ExprId),
    /// The condition must be 1, else parsing stops with this error.
    Verify(ExprId, ErrorId),
}

/// The transition of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Unconditional.
    To(Target),
    /// The first case all of whose patterns match.
    Select {
        /// The values that are compared.
        keys: Vec<ExprId>,
        /// Cases in order.
        cases: Vec<Case>,
        /// When none matches.
        default: Target,
    },
}

/// A case of a select.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// One pattern for each key.
    pub patterns: Vec<Pattern>,
    /// The next state.
    pub to: Target,
    /// Its place in the source.
    pub span: Option<SourceSpan>,
}

/// The pattern of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Anything.
    Any,
    /// Equal.
    Value(u128),
    /// `key & mask == value`.
    Mask {
        /// Value; no bit outside the mask.
        value: u128,
        /// Mask.
        mask: u128,
    },
    /// `low <= key <= high`.
    Range {
        /// Lowest.
        low: u128,
        /// Highest.
        high: u128,
    },
    /// Member of a value set filled at run time.
    Set(ValueSetId),
}

/// The target of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Another state.
    State(StateId),
    /// Parsing is done; ingress runs.
    Accept,
    /// Parsing fails with this error.
    Reject(ErrorId),
}

impl Transition {
    /// Targets in the order written.
    pub fn targets(&self) -> Vec<Target> {
        match self {
            Transition::To(target) => vec![*target],
            Transition::Select { cases, default, .. } => {
                cases.iter().map(|case| case.to).chain([*default]).collect()
            }
        }
    }
}

impl Parser {
    /// Where ingress and egress begin to parse.
    pub fn entries(&self) -> Vec<StateId> {
        self.states.ids().take(1).chain(self.egress).collect()
    }

    /// The graph of states, for reachability, cycles and pictures; accept and reject are left out.
    pub fn graph(&self) -> DiGraph<StateId, ()> {
        let mut graph = DiGraph::with_capacity(self.states.len(), self.states.len());
        for id in self.states.ids() {
            graph.add_node(id);
        }
        for (id, state) in self.states.entries() {
            for target in state.next.targets() {
                if let Target::State(next) = target {
                    graph.add_edge(NodeIndex::new(id.index()), NodeIndex::new(next.index()), ());
                }
            }
        }
        graph
    }
}
