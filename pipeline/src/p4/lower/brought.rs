//! Headers that do not leave, and that egress of v1model reads: they lie in the packet between ingress and egress, behind those that
//! leave, and are made invalid when the deparser has ended.

use super::Lower;
use super::build::{number, path};
use super::need::Need;
use crate::ast::{Ast, PathPart, Size, Sp, Stmt, StmtKind as Made, element};
use crate::ir::SourceSpan;

impl Lower<'_> {
    /// Behind the deparser: what was brought to egress does not leave.
    pub(super) fn bring_to_egress(&mut self, span: SourceSpan) -> Vec<Stmt> {
        let brought: Vec<String> = self
            .known
            .iter()
            .filter_map(|need| match need {
                Need::ReadInEgress(name) => Some(name.clone()),
                _ => None,
            })
            .collect();
        self.emits.extend(brought.iter().map(|name| Sp::new(name.clone(), span)));
        let removed = brought.iter().map(|name| {
            let mut header = path(&[element(name).0], span);
            if let (_, Some(at)) = element(name) {
                header.parts.push(PathPart::Index(number(at.into(), 0, span)));
            }
            let args = vec![Sp::new(Ast::Path(header), span)];
            Stmt { kind: Made::Call(Sp::new("set_invalid".to_owned(), span), args), span }
        });
        removed.collect()
    }

    /// Headers that ingress has, that egress reads, and that do not leave.
    pub(super) fn note_brought(&mut self) {
        let (ingress, egress) = self.mentions();
        let extracted = self.unit.parser.iter().flat_map(|(_, state)| &state.extract);
        let extracted: Vec<&str> = extracted.map(|name| element(&name.value).0).collect();
        let mut missing = Vec::new();
        for (name, decl) in &self.unit.instances {
            let name = &name.value;
            let comes = ingress.first.contains(name) || extracted.contains(&name.as_str());
            if !comes || !egress.first.contains(name) || self.hidden.contains(name) {
                continue;
            }
            match &decl.stack {
                Some(Size::Number(size)) => {
                    missing.extend((0..size.value).map(|at| format!("{name}[{at}]")));
                }
                _ => missing.push(name.clone()),
            }
        }
        let leaves = |name: &str| {
            self.emits.iter().any(|one| one.value == name || one.value == element(name).0)
        };
        missing.retain(|name| !leaves(name));
        missing.into_iter().for_each(|name| self.need(Need::ReadInEgress(name)));
    }
}
