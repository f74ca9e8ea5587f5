//! Building a control-flow graph, block by block.
//!
//! Code after a terminator goes to an unreachable block: it is lowered for its errors and left out at the end.

use super::cx::Cx;
use crate::ids::*;
use crate::ir::{Block, Body, Op, OpAt, SourceSpan, Term};

/// Most blocks of a body; nested calls of controls multiply.
pub(crate) const BLOCKS_MAX: usize = 16_384;
/// Most operations of a body, with those of what it calls.
pub(crate) const OPS_MAX: usize = 65_536;

/// A block under construction.
struct Part {
    ops: Vec<OpAt>,
    term: Option<(Term, Option<SourceSpan>)>,
}

/// A body under construction.
pub(crate) struct Flow {
    parts: Vec<Part>,
    ops: usize,
    current: usize,
    /// The target of `return` inside a called control; the end of the body when empty.
    pub(crate) returns: Vec<BlockId>,
    /// The current code is unreachable, and that was reported.
    pub(crate) dead: bool,
    /// It exceeds the limits, and that was reported.
    pub(crate) is_too_much: bool,
}

impl Flow {
    /// A body with an empty entry block.
    pub(crate) fn new() -> Flow {
        let entry = Part { ops: Vec::new(), term: None };
        Flow {
            parts: vec![entry],
            ops: 0,
            current: 0,
            returns: Vec::new(),
            dead: false,
            is_too_much: false,
        }
    }

    /// A new block, not connected.
    pub(crate) fn block(&mut self) -> BlockId {
        self.parts.push(Part { ops: Vec::new(), term: None });
        BlockId::new(self.parts.len() - 1)
    }

    /// True if it exceeds the limits of a body.
    pub(crate) fn is_full(&self) -> bool {
        self.parts.len() > BLOCKS_MAX || self.ops > OPS_MAX
    }

    /// Continues in a block.
    pub(crate) fn enter(&mut self, block: BlockId) {
        self.current = block.index();
    }

    /// Adds an operation to the current block.
    pub(crate) fn op(&mut self, op: Op, span: SourceSpan) {
        if let Some(part) = self.parts.get_mut(self.current)
            && part.term.is_none()
        {
            self.ops += 1;
            part.ops.push(OpAt { op, span: Some(span) });
        }
    }

    /// Ends the current block, if it has no end yet.
    pub(crate) fn end(&mut self, term: Term, span: Option<SourceSpan>) {
        if let Some(part) = self.parts.get_mut(self.current)
            && part.term.is_none()
        {
            part.term = Some((term, span));
        }
    }

    /// True when the current block has its end.
    pub(crate) fn ended(&self) -> bool {
        self.parts.get(self.current).is_none_or(|part| part.term.is_some())
    }

    /// The finished blocks; those that are not reached are left out.
    fn finish(self) -> IdVec<BlockId, Block> {
        let blocks: IdVec<BlockId, Block> = self
            .parts
            .into_iter()
            .map(|part| {
                let (term, span) = part.term.unwrap_or((Term::Return, None));
                Block { ops: part.ops, term, span }
            })
            .collect();
        let mut body = Body { blocks, locals: IdVec::new() };
        crate::passes::dead_blocks::prune(&mut body);
        body.blocks
    }
}

impl Cx<'_> {
    /// The body that was built, with the locals it uses.
    pub(crate) fn finish_body(&mut self, flow: Flow) -> Body {
        let locals = std::mem::take(&mut self.locals);
        Body { blocks: flow.finish(), locals }
    }
}
