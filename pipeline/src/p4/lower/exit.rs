//! `exit`. In ingress and egress it ends the pass, behind what the architecture does then. What follows another control of the architecture
//! runs all the same, so there `exit` is a bit: each block returns where it finds it set. So it is in ingress and egress where a block that
//! exits is applied with several arguments, as each call copies out to its own.

use std::rc::Rc;

use super::Lower;
use super::arguments::CopyOut;
use super::build::number;
use super::env::{BlockVal, Val};
use super::need::Need;
use crate::ast::{AstExpr, Stmt, StmtKind as Made};
use crate::diag::codes;
use crate::ir::SourceSpan;

/// The control that is being made, where `exit` ends it alone.
#[derive(Clone, Debug)]
pub(super) struct Alone {
    block: usize,
    /// The bit, if there is an `exit`.
    exited: Option<AstExpr>,
}

impl Lower<'_> {
    /// A control of the architecture that something follows.
    pub(super) fn block_alone(&mut self, block: &Rc<BlockVal>, values: &[Val]) {
        let span = block.decl.name.span;
        let exited = self.is_needed(&Need::Exits(block.number)).then(|| {
            let bit = self.new_meta("exited", 1, span);
            self.set(&bit, number(0, 1, span), span);
            bit
        });
        let alone = Some(Alone { block: block.number, exited });
        let outer = std::mem::replace(&mut self.alone, alone);
        self.architecture_block(block, values);
        self.alone = outer;
    }

    /// The control of ingress or egress.
    pub(super) fn pass_block(&mut self, block: &Rc<BlockVal>, values: &[Val]) {
        self.pass = block.number;
        match self.is_needed(&Need::Exits(block.number)) {
            true => self.block_alone(block, values),
            false => self.architecture_block(block, values),
        }
    }

    /// The bit that `exit` sets here, if it sets one.
    pub(super) fn exited(&self) -> Option<&AstExpr> {
        self.alone.as_ref().and_then(|alone| alone.exited.as_ref())
    }

    /// The statement `exit`.
    pub(super) fn exit(&mut self, span: SourceSpan) {
        self.exits += 1;
        self.bound += 1;
        for copies in self.leaving.clone().into_iter().rev() {
            self.copy_out(copies, span);
        }
        match self.alone.clone() {
            Some(Alone { exited: Some(bit), .. }) => {
                self.set(&bit, number(1, 1, span), span);
                self.push(Made::Return, span);
            }
            Some(Alone { block, exited: None }) => self.need(Need::Exits(block)),
            None => {
                let epilogue = self.epilogue.clone();
                self.out.extend(epilogue);
                self.push(Made::Exit, span);
            }
        }
    }

    /// A body of the architecture with what stands behind it, where it goes on to that: an `exit` has it in front of it.
    pub(super) fn ended(&mut self, mut body: Vec<Stmt>) -> Vec<Stmt> {
        let end = std::mem::take(&mut self.epilogue);
        if !always_exits(&body) {
            body.extend(end);
        }
        body
    }

    /// Warns of a statement behind `exit` or `return`, once, however often its block is made.
    pub(super) fn note_dead(&mut self, span: SourceSpan) {
        if self.noted.insert(span) {
            self.report
                .warning(codes::UNREACHABLE_CODE, span, "this is never reached")
                .note("`exit` and `return` end what stands before it");
        }
    }

    /// Behind what may have exited: the block around ends too.
    pub(super) fn leave_if_exited(&mut self, span: SourceSpan) {
        let leaves = self.exit_check(span);
        self.out.extend(leaves);
    }

    /// `return` where the bit is set.
    pub(super) fn exit_check(&self, span: SourceSpan) -> Option<Stmt> {
        let leaves = vec![Stmt { kind: Made::Return, span }];
        self.exited().map(|bit| Stmt { kind: Made::If(bit.clone(), leaves, Vec::new()), span })
    }

    /// Makes a block or an action of the language, behind which there is this to copy out: an `exit` in it does that itself where it
    /// ends the pass, and leaves it to the caller where it ends the block.
    pub(super) fn in_block<T>(
        &mut self,
        copies: Vec<CopyOut>,
        makes: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let mut outer = self.leaving.clone();
        match self.exited() {
            Some(_) => self.leaving.clear(),
            None => self.leaving.push(copies),
        }
        let value = makes(self);
        std::mem::swap(&mut self.leaving, &mut outer);
        value
    }
}

/// True if these statements do not go on to what stands behind them.
fn always_exits(statements: &[Stmt]) -> bool {
    match statements.last().map(|last| &last.kind) {
        Some(Made::Exit) => true,
        Some(Made::If(_, then, other)) => always_exits(then) && always_exits(other),
        _ => false,
    }
}
