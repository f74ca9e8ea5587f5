//! The architecture: what `main` is, and which blocks it has.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::Type;
use super::Lower;
use super::build::{binary, named, number, path};
use super::env::{BlockVal, Val};
use super::scan::Mentions;
use crate::ast::{AstBin, DeparserDecl, Sp, Stmt, StmtKind, TypeRef, element};
use crate::diag::codes;

/// An architecture that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arch {
    V1model,
    Psa,
}

impl Lower<'_> {
    /// Finds `main` and lowers its blocks.
    pub(super) fn main(&mut self) -> Option<()> {
        let decls = &self.checked.decls;
        let main = decls.iter().rev().find(|decl| {
            matches!(decl.kind, DeclKind::Instance { .. }) && &*decl.name.value == "main"
        });
        let Some(main) = main.cloned() else {
            let text = "the program has no `main`, so nothing of it runs";
            self.report
                .error(codes::P4_UNSUPPORTED, self.span, text)
                .help("instantiate the architecture's package: `V1Switch(..) main;`");
            return None;
        };
        let DeclKind::Instance { args, .. } = &main.kind else { return None };
        let Type::Package(package, _) = self.declared(main.id) else {
            self.unsupported(main.name.span, "`main` is the package of an architecture");
            return None;
        };
        match &*package.name.value {
            "V1Switch" => self.arch = Arch::V1model,
            "PSA_Switch" => self.arch = Arch::Psa,
            other => {
                let text = format!(
                    "programs of the architecture with the package `{other}` are checked, but cannot run"
                );
                self.unsupported(main.name.span, text)
                    .note("V1Switch of v1model.p4 and PSA_Switch of psa.p4 run");
                return None;
            }
        }
        let Val::Block(main) = self.instance(&main, args) else { return None };
        match self.arch {
            Arch::V1model => self.v1model(&main)?,
            Arch::Psa => self.psa(&main)?,
        }
        self.finish();
        Some(())
    }

    /// A block among the arguments of a package.
    pub(super) fn block_at(&mut self, main: &BlockVal, at: usize) -> Option<Rc<BlockVal>> {
        match main.args.get(at) {
            Some(Val::Block(block)) => Some(block.clone()),
            _ => {
                self.unsupported(
                    main.decl.name.span,
                    "an argument of the package is no parser or control",
                );
                None
            }
        }
    }

    /// A clone keeps the fields of its list; what else crosses the queue is zero in it.
    fn clear_clones(&mut self) {
        let span = self.span;
        let Some(first) = self.clones.first().copied() else { return };
        if self.clones.len() > 1 {
            self.unsupported(span, "clones that keep different lists of fields are not supported");
        }
        let is_kept = |name: &str| {
            first.is_some_and(|list| {
                self.listed.iter().any(|(known, lists)| known == name && lists.contains(&list))
            })
        };
        let cleared: Vec<Stmt> = self
            .unit
            .metadata
            .iter()
            .filter(|(name, decl)| decl.carried && !is_kept(&name.value))
            .map(|(name, decl)| {
                let bits = match &decl.ty {
                    TypeRef::Bits(bits) => bits.value as u32,
                    TypeRef::Named(_) => 0,
                };
                let place = Sp::new(path(&["meta", &name.value], span), span);
                Stmt { kind: StmtKind::Assign(place, None, number(0, bits, span)), span }
            })
            .collect();
        let Some(egress) = &mut self.unit.egress else { return };
        if cleared.is_empty() {
            return;
        }
        let is = |kind: &str| {
            let which = named(&["path", kind], span);
            binary(AstBin::Eq, named(&["std", "packet_path"], span), which, span)
        };
        let cloned = binary(AstBin::LogicalOr, is("clone_ingress"), is("clone_egress"), span);
        egress.value.insert(0, Stmt { kind: StmtKind::If(cloned, cleared, Vec::new()), span });
    }

    /// What is known only when everything is made: the deparser, and metadata that crosses the queue or is not used.
    fn finish(&mut self) {
        let span = self.span;
        let (mut ingress, mut egress) = (Mentions::default(), Mentions::default());
        for (_, state) in &self.unit.parser {
            ingress.state(&self.unit, state);
            if let crate::ast::NextDecl::Select { keys, .. } = &state.next {
                keys.iter().for_each(|key| ingress.expr(key));
            }
        }
        if let Some(body) = &self.unit.ingress {
            ingress.statements(&self.unit, &body.value);
        }
        if let Some(body) = &self.unit.egress {
            egress.statements(&self.unit, &body.value);
        }
        for (_, fields) in &self.unit.digests {
            fields.iter().for_each(|(_, value)| ingress.expr(value));
        }
        self.unit.metadata.retain_mut(|(name, decl)| {
            let name = &name.value;
            decl.carried = egress.read.contains(name) && ingress.written.contains(name);
            [&ingress, &egress]
                .iter()
                .any(|part| part.read.contains(name) || part.written.contains(name))
        });
        self.clear_clones();
        let emit = std::mem::take(&mut self.emits);
        let mut used = ingress.first;
        used.extend(egress.first);
        for (_, state) in &self.unit.parser {
            let names = state.extract.iter().map(|name| element(&name.value).0.to_owned());
            used.extend(names);
        }
        self.unit.instances.retain(|(name, _)| used.contains(&name.value));
        let is_there =
            |name: &str| self.unit.instances.iter().any(|(known, _)| known.value == name);
        let emit: Vec<_> =
            emit.into_iter().filter(|name| is_there(element(&name.value).0)).collect();
        let discard = self
            .unit
            .instances
            .iter()
            .map(|(name, _)| name.clone())
            .filter(|name| !emit.iter().any(|one| one.value == name.value))
            .collect();
        for (_, members) in &mut self.unit.unions {
            members.retain(|name| used.contains(&name.value));
        }
        self.unit.unions.retain(|(_, members)| members.len() > 1);
        let deparser =
            DeparserDecl { emit: Some(emit), after: Vec::new(), discard, strip_slack: false, span };
        self.unit.deparser = Some(deparser);
        let no_states = self.unit.parser.is_empty();
        if no_states {
            self.unit.parser.push((Sp::new("start".to_owned(), span), empty_state(span)));
        }
    }
}

fn empty_state(span: crate::ir::SourceSpan) -> crate::ast::StateDecl {
    crate::ast::StateDecl {
        extract: Vec::new(),
        verify: Vec::new(),
        statements: Vec::new(),
        extract_at: Vec::new(),
        body_end: None,
        call: None,
        next: crate::ast::NextDecl::To(None),
        span,
    }
}
