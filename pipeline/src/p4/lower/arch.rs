//! The architecture: what `main` is, and which blocks it has.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{Checked, Type};
use super::Lower;
use super::env::{BlockVal, Val};
use super::scan::Mentions;
use super::storage::HIDDEN_FIELD;
use crate::ast::{DeparserDecl, Named, NextDecl, Sp, StateDecl, Stmt, StmtKind, Unit, element};
use crate::diag::codes;

/// An architecture that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arch {
    V1model,
    Psa,
}

/// What runs.
const RUNNING: &str = "V1Switch of v1model.p4 and PSA_Switch of psa.p4 run";

impl Arch {
    /// By its package; one of this name with other parameters is another one's.
    fn of(package: &Decl) -> Option<Self> {
        let DeclKind::Package { params, .. } = &package.kind else { return None };
        match (&*package.name.value, params.len()) {
            ("V1Switch", 6) => Some(Arch::V1model),
            ("PSA_Switch", 4) => Some(Arch::Psa),
            _ => None,
        }
    }
}

fn main_of(checked: &Checked) -> Option<&Rc<Decl>> {
    checked
        .decls
        .iter()
        .rev()
        .find(|decl| matches!(decl.kind, DeclKind::Instance { .. }) && &*decl.name.value == "main")
}

/// Why a program that is right cannot run here; `None`: it is of an architecture that runs.
pub(in crate::p4) fn not_run(checked: &Checked) -> Option<String> {
    let main = main_of(checked).and_then(|main| checked.declared.get(&main.id));
    let Some(Type::Package(package, _)) = main else { return Some("it has no `main`".to_owned()) };
    Arch::of(package).is_none().then(|| {
        format!(
            "it is for the architecture with the package `{}`, and {RUNNING}",
            package.name.value
        )
    })
}

impl Lower<'_> {
    /// Finds `main` and lowers its blocks.
    pub(super) fn main(&mut self) -> Option<()> {
        let Some(main) = main_of(self.checked).cloned() else {
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
        let Some(arch) = Arch::of(&package) else {
            let text = format!(
                "programs of the architecture with the package `{}` are checked, but cannot run",
                package.name.value
            );
            self.unsupported(main.name.span, text).note(RUNNING);
            return None;
        };
        self.arch = arch;
        let Val::Block(main) = self.instance(&main, args) else { return None };
        match self.arch {
            Arch::V1model => self.v1model(&main)?,
            Arch::Psa => self.psa(&main)?,
        }
        self.headers_as_structs();
        self.finish();
        self.refuse_unfilled();
        self.headers_inside();
        self.share_metadata();
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

    /// Headers for values that are no numbers are valid from where they are used first: the parser, or else the control. None of them
    /// crosses the queue.
    fn validate_hidden(&mut self, ingress: &Mentions, egress: &Mentions) {
        let span = self.span;
        for name in std::mem::take(&mut self.beside_headers) {
            if [ingress, egress].iter().any(|seen| seen.first.contains(&name.value)) {
                self.unsupported(name.span, "a header in the metadata beside a packet")
                    .help("give its fields as numbers");
            }
        }
        let parsers = [&self.unit.parser, &self.unit.egress_parser]
            .map(|states| of_states(&self.unit, states).first);
        for name in std::mem::take(&mut self.hidden) {
            let field = format!("{name}.{HIDDEN_FIELD}");
            if egress.fields_read.contains(&field) && ingress.fields_written.contains(&field) {
                let text = format!(
                    "`{name}` has more than 128 bits, or is a varbit, and egress reads what ingress wrote"
                );
                self.unsupported(span, text).help("put it into a header that leaves");
            }
            let arg = super::build::named(&[&name], span);
            let call = StmtKind::Call(Sp::new("set_valid".to_owned(), span), vec![arg]);
            let Unit { parser, egress_parser, ingress: control, egress: egress_control, .. } =
                &mut self.unit;
            let halves = [
                (&parsers[0], parser, &ingress.first, control),
                (&parsers[1], egress_parser, &egress.first, egress_control),
            ];
            for (in_parser, states, in_half, body) in halves {
                let start = states.iter_mut().find(|(state, _)| state.value == "start");
                let first = match (start, body) {
                    (Some((_, start)), _) if in_parser.contains(&name) => &mut start.statements,
                    (_, Some(body)) if in_half.contains(&name) => &mut body.value,
                    _ => continue,
                };
                first.insert(0, Stmt { kind: call.clone(), span });
            }
        }
    }

    /// What ingress and egress mention, each with its parser.
    pub(super) fn mentions(&self) -> (Mentions, Mentions) {
        let unit = &self.unit;
        let half = |states: &Named<StateDecl>, body: Option<&Vec<Stmt>>| {
            let mut seen = of_states(unit, states);
            seen.statements(unit, body.map_or(&[], |body| body.as_slice()));
            seen
        };
        let mut ingress = half(&unit.parser, unit.ingress.as_ref().map(|body| &body.value));
        for (_, fields) in &unit.digests {
            fields.iter().for_each(|(_, value)| ingress.expr(value));
        }
        (ingress, half(&unit.egress_parser, unit.egress.as_ref().map(|body| &body.value)))
    }

    /// What is known only when everything is made: the deparser, and metadata that crosses the queue or is not used.
    fn finish(&mut self) {
        let span = self.span;
        let (ingress, egress) = self.mentions();
        let kept_again: Vec<String> = self
            .unit
            .metadata
            .iter()
            .map(|(name, _)| name.value.clone())
            .filter(|name| self.is_kept_again(name))
            .collect();
        self.unit.metadata.retain_mut(|(name, decl)| {
            let name = &name.value;
            decl.carried = egress.read.contains(name) && ingress.written.contains(name)
                || kept_again.contains(name);
            [&ingress, &egress]
                .iter()
                .any(|part| part.read.contains(name) || part.written.contains(name))
        });
        self.clear_clones();
        self.clear_again();
        self.validate_hidden(&ingress, &egress);
        let emit = std::mem::take(&mut self.emits);
        let mut used = ingress.first;
        used.extend(egress.first);
        for (_, state) in self.unit.parser.iter().chain(&self.unit.egress_parser) {
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

pub(super) fn empty_state(span: crate::ir::SourceSpan) -> crate::ast::StateDecl {
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

/// What the states of a parser mention.
fn of_states(unit: &Unit, states: &Named<StateDecl>) -> Mentions {
    let mut seen = Mentions::default();
    for (_, state) in states {
        seen.state(unit, state);
        if let NextDecl::Select { keys, .. } = &state.next {
            keys.iter().for_each(|key| seen.expr(key));
        }
    }
    seen
}
