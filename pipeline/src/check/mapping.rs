//! `linux:`: tables, keys and actions of the program that hold external state, with words for it.
//!
//! The words and their meaning are defined by the device.

use super::cx::Cx;
use crate::ast::{Ast, AstExpr, MappingDecl, Name};
use crate::diag::codes;
use crate::ids::TableId;
use crate::ir::{MappedCall, MappedValue, Mapping};

impl Cx<'_> {
    /// Lowers the tables with external state.
    pub(crate) fn lower_mappings(&mut self) {
        let Some(&root) = self.units.first() else { return };
        for (name, decl) in &root.linux {
            let lowered = self.mapping(name, decl);
            self.ir.linux.extend(lowered);
        }
    }

    fn mapping(&mut self, name: &Name, decl: &MappingDecl) -> Option<Mapping> {
        let tables = self.ir.tables.entries();
        let found = tables.into_iter().find(|(_, table)| table.name == decl.table.value);
        let Some(id) = found.map(|(id, _)| id) else {
            let text = format!("no table `{}` is applied by the program", decl.table.value);
            let names: Vec<String> = self.ir.tables.iter().map(|t| t.name.clone()).collect();
            let error = self.report.error(codes::UNKNOWN, decl.table.span, text);
            error.did_you_mean(&decl.table.value, names.iter().map(String::as_str));
            return None;
        };
        let keys = self.mapped_keys(id, decl);
        let calls: Vec<Option<MappedCall>> =
            decl.actions.iter().map(|(role, call)| self.mapped_call(id, role, call)).collect();
        let calls = calls.into_iter().collect::<Option<Vec<_>>>()?;
        Some(Mapping { name: name.value.clone(), table: id, keys: keys?, calls, span: name.span })
    }

    fn mapped_keys(&mut self, id: TableId, decl: &MappingDecl) -> Option<Vec<Option<MappedValue>>> {
        let table = &self.ir.tables[id];
        let names: Vec<String> = table.keys.iter().map(|key| key.name.clone()).collect();
        let mut keys = vec![None; names.len()];
        let mut is_right = true;
        for (name, value) in &decl.key {
            let Some(at) = names.iter().position(|known| *known == name.value) else {
                let text = format!("table `{}` has no key `{}`", decl.table.value, name.value);
                let error = self.report.error(codes::NO_MEMBER, name.span, text);
                error.did_you_mean(&name.value, names.iter().map(String::as_str));
                is_right = false;
                continue;
            };
            keys[at] = self.mapped_value(value);
            is_right &= keys[at].is_some();
        }
        is_right.then_some(keys)
    }

    fn mapped_call(&mut self, id: TableId, role: &Name, call: &AstExpr) -> Option<MappedCall> {
        let (name, args) = self.call_parts(call)?;
        let (table, actions) = (&self.ir.tables[id], &self.ir.actions);
        let listed = table.actions.iter().copied();
        let action = listed.into_iter().find(|action| actions[*action].name == name.value);
        let Some(action) = action else {
            let text = format!("table `{}` does not list action `{}`", table.name, name.value);
            let names: Vec<String> =
                table.actions.iter().map(|action| actions[*action].name.clone()).collect();
            let error = self.report.error(codes::NOT_LISTED, name.span, text);
            error.did_you_mean(&name.value, names.iter().map(String::as_str));
            return None;
        };
        let expected = actions[action].params.len();
        if args.len() != expected {
            let text = format!(
                "action `{}` has {expected} parameters, and {} are given",
                name.value,
                args.len()
            );
            return self.report.refuse(codes::ARGUMENTS, call.span, text);
        }
        let args: Vec<Option<MappedValue>> =
            args.iter().map(|arg| self.mapped_value(arg)).collect();
        let args = args.into_iter().collect::<Option<Vec<_>>>()?;
        Some(MappedCall { role: role.value.clone(), action, args, span: call.span })
    }

    /// A word, or a number.
    fn mapped_value(&mut self, value: &AstExpr) -> Option<MappedValue> {
        let span = value.span;
        match &value.value {
            Ast::Number { value, .. } => Some(MappedValue::Number(*value)),
            Ast::Path(path) if path.plain().is_some() => {
                Some(MappedValue::Word(path.plain()?, span))
            }
            _ => {
                let text = "a word for what is mapped, or a number, is expected here";
                self.report.refuse(codes::NOT_CONSTANT, span, text)
            }
        }
    }
}
