//! `update`: one atomic read-modify-write of a register entry.

use crate::ast::*;
use crate::check::cx::{Binding, Cx};
use crate::check::flow::Flow;
use crate::check::scope::Symbol;
use crate::ir::{ExprKind, LValue, Op, SourceSpan};

impl Cx<'_> {
    /// Lowers to a locked load, the statements on locals, and a locked store of every cell.
    pub(super) fn update(
        &mut self,
        flow: &mut Flow,
        register: &Name,
        index: &AstExpr,
        alias: &Name,
        body: &[Stmt],
        span: SourceSpan,
    ) {
        let Some(Symbol::Register(at)) = self.scope.symbol(&register.value) else {
            self.offset(index);
            self.no_such(register, "a register", |symbol| matches!(symbol, Symbol::Register(_)));
            return;
        };
        let index_value = self.register_index(at, index);
        let Some(id) = self.ids.registers.get(at).copied().flatten() else { return };
        // The index is kept in a local: statements of the update may change its operands.
        let slot = self.new_local("index", 32);
        if let Some(value) = index_value {
            flow.op(Op::Set(LValue::Local(slot), value), index.span);
        }
        let index = self.node(ExprKind::Local(slot), 32, index.span);
        let first = self.cells_of(id, &alias.value);
        flow.op(Op::RegisterLoad { register: id, index, first, locked: true }, span);
        self.env.open();
        self.bind_local(alias, Binding::Entry { register: at, first });
        self.env.in_update = true;
        self.statements(flow, body);
        self.env.in_update = false;
        self.env.close();
        let count = self.ir.registers.get(id).map_or(0, |known| known.cells.len());
        let cells = (0..count as u32).collect();
        flow.op(Op::RegisterStore { register: id, index, first, cells, locked: true }, span);
    }
}
