//! What goes along with a packet that is cloned, resubmitted or recirculated: the metadata of a list; the rest is zero there.
//!
//! A mark in metadata that is carried says which list it is. Clones are looked at when egress begins; one of ingress has what the parser wrote
//! beside its list, because bmv2 parses it again. Packets that enter ingress again are looked at in front of the parser, which may read what
//! was kept; the mark also is what the end of the pass goes by, because bmv2 resubmits whatever the ports say, and whatever is dropped.

use std::collections::BTreeMap;

use super::super::tree::*;
use super::Lower;
use super::arch::Arch;
use super::build::{binary, is, mux, named, number, path, path_is};
use super::env::Val;
use super::need::Need;
use super::scan::Mentions;
use crate::ast::{
    Ast, AstBin, AstExpr, CaseDecl, NextDecl, PathPart, PatternDecl, Sp, Stmt, StmtKind, TypeRef,
};
use crate::ir::SourceSpan;

/// Numbers of lists that are written down at the call; those of `@field_list` are below.
const WRITTEN: u128 = 1 << 64;

/// The lists that are in use (`None`: nothing is kept), and where the marks are.
#[derive(Debug, Default)]
pub(super) struct Lists {
    clones: Vec<Option<u128>>,
    again: Vec<Option<u128>>,
    clone_mark: Option<AstExpr>,
    again_mark: Option<AstExpr>,
    /// The mark of a packet that ingress recirculates, which happens when egress ends.
    later_mark: Option<AstExpr>,
    /// Where ingress and egress keep the session of their last clone, and how many places of the program clone.
    clone_sessions: Option<[AstExpr; 2]>,
    clone_calls: u32,
    /// Ingress clones; and metadata that the parser writes, with the field that keeps it where ingress writes it too.
    clones_of_ingress: bool,
    parsed: BTreeMap<String, Option<AstExpr>>,
    written: u128,
}

impl Lists {
    /// Something is cloned.
    pub(super) fn has_clones(&self) -> bool {
        !self.clones.is_empty()
    }
}

/// The mark of a list.
fn position(lists: &mut Vec<Option<u128>>, list: Option<u128>) -> u128 {
    let known = lists.iter().position(|one| *one == list);
    let at = known.unwrap_or(lists.len());
    if known.is_none() {
        lists.push(list);
    }
    at as u128 + 1
}

impl Lower<'_> {
    /// The marks that the round before found to be needed.
    pub(super) fn declare_marks(&mut self, span: SourceSpan) {
        if self.is_needed(&Need::CloneLists) {
            self.lists.clone_mark = Some(self.new_meta("clone_list", 8, span));
        }
        if self.is_needed(&Need::EntersAgain) {
            let mark = self.new_meta("again", 8, span);
            self.origin().again_mark = super::v1model::plain_meta(&mark);
            self.lists.again_mark = Some(mark);
        }
        if self.is_needed(&Need::RecirculatesLater) {
            self.lists.later_mark = Some(self.new_meta("recirculate_list", 8, span));
        }
        if self.is_needed(&Need::LastClone) {
            let names = ["clone_session", "egress_clone_session"];
            self.lists.clone_sessions = Some(names.map(|name| self.new_meta(name, 16, span)));
        }
    }

    /// A clone of v1model: of several in a pass the last one is made (v1model.p4, `clone`), so its session is kept until the control ends.
    pub(super) fn clone_to(&mut self, session: AstExpr, span: SourceSpan) {
        self.lists.clone_calls += 1;
        match self.session_here() {
            Some(place) => self.set(&place, session, span),
            None if self.lists.clone_calls > 1 => self.need(Need::LastClone),
            None => self.run("clone", vec![session], span),
        }
    }

    /// Where the control that is being made keeps the session of its last clone.
    fn session_here(&self) -> Option<AstExpr> {
        let in_egress = self.unit.ingress.is_some();
        self.lists.clone_sessions.as_ref().map(|both| both[usize::from(in_egress)].clone())
    }

    /// At the end of a control: the last clone that it requested. No session has number 0 (P4Runtime specification 1.5,
    /// section 9.5.2).
    pub(super) fn last_clone(&mut self, span: SourceSpan) -> Vec<Stmt> {
        let Some(session) = self.session_here() else { return Vec::new() };
        let asked = binary(AstBin::Ne, session.clone(), number(0, 16, span), span);
        let ((), clone) = self.apart(|lower| lower.run("clone", vec![session], span));
        vec![Stmt { kind: StmtKind::If(asked, clone, Vec::new()), span }]
    }

    /// A list that is written down where it is used: the metadata in it.
    pub(super) fn written_list(&mut self, data: &Expr) -> Option<u128> {
        let value = self.eval(data);
        self.list_of(&value)
    }

    /// A list of these values.
    pub(super) fn list_of(&mut self, value: &Val) -> Option<u128> {
        let mut parts = Vec::new();
        self.flat(value, &mut parts);
        let list = WRITTEN + self.lists.written;
        self.lists.written += 1;
        for part in parts {
            if let Ast::Path(path) = &part.value
                && let [PathPart::Name(space), PathPart::Name(name)] = path.parts.as_slice()
                && space.value == "meta"
            {
                self.listed.push((name.value.clone(), vec![list]));
            }
        }
        Some(list)
    }

    /// These values go with every packet that enters ingress again.
    pub(super) fn keep_again(&mut self, value: &Val) {
        let list = self.list_of(value);
        position(&mut self.lists.again, list);
    }

    /// The next clone keeps this list.
    pub(super) fn clone_with(&mut self, list: Option<u128>, span: SourceSpan) {
        let mark = position(&mut self.lists.clones, list);
        self.lists.clones_of_ingress |= self.unit.ingress.is_none();
        if mark > 1 {
            self.need(Need::CloneLists);
        }
        if let Some(place) = self.lists.clone_mark.clone() {
            self.set(&place, number(mark, 8, span), span);
        }
    }

    /// The packet enters ingress again with this list; `later`: not when ingress ends, but when egress does.
    pub(super) fn again_with(&mut self, list: Option<u128>, later: bool, span: SourceSpan) {
        let mark = position(&mut self.lists.again, list);
        if self.lists.again_mark.is_none() {
            self.need(Need::EntersAgain);
        }
        let place = match later {
            true => self.lists.later_mark.clone(),
            false => self.lists.again_mark.clone(),
        };
        match place {
            Some(place) => self.set(&place, number(mark, 8, span), span),
            None if later => self.need(Need::RecirculatesLater),
            None => {}
        }
    }

    /// At the beginning of ingress: no other pass was requested.
    pub(super) fn not_again(&mut self, span: SourceSpan) {
        let marks = [self.lists.again_mark.clone(), self.lists.later_mark.clone()];
        for place in marks.into_iter().flatten() {
            self.set(&place, number(0, 8, span), span);
        }
    }

    /// At the beginning of egress: what ingress requested for its end.
    pub(super) fn again_later(&mut self, span: SourceSpan) -> Vec<Stmt> {
        let (Some(later), Some(again)) =
            (self.lists.later_mark.clone(), self.lists.again_mark.clone())
        else {
            return Vec::new();
        };
        self.apart(|lower| lower.set(&again, later, span)).1
    }

    /// `procedure()` if another pass was requested, and `other` if not.
    pub(super) fn if_again(
        &mut self,
        procedure: &str,
        other: Vec<Stmt>,
        span: SourceSpan,
    ) -> Vec<Stmt> {
        let Some(place) = self.lists.again_mark.clone() else { return other };
        let asked = binary(AstBin::Ne, place, number(0, 8, span), span);
        let call = StmtKind::Call(Sp::new(procedure.to_owned(), span), Vec::new());
        let again = vec![Stmt { kind: call, span }];
        vec![Stmt { kind: StmtKind::If(asked, again, other), span }]
    }

    /// Metadata that goes with clones and with packets that enter ingress again.
    pub(super) fn is_kept_again(&self, name: &str) -> bool {
        let is_mark = |mark: &Option<AstExpr>| {
            mark.as_ref().and_then(super::v1model::plain_meta).is_some_and(|known| known == name)
        };
        let mut lists = self.lists.again.iter().chain(&self.lists.clones);
        is_mark(&self.lists.again_mark)
            || is_mark(&self.lists.clone_mark)
            || lists.any(|list| self.is_in(name, *list))
    }

    fn is_in(&self, name: &str, list: Option<u128>) -> bool {
        let holds = |list| self.listed.iter().any(|(n, lists)| n == name && lists.contains(&list));
        list.is_some_and(holds)
    }

    /// Carried metadata that is not in a list: in a clone of ingress what the parser wrote, else 0.
    fn cleared(&self, list: Option<u128>, is_clone: bool) -> Vec<Stmt> {
        let span = self.span;
        let marks = [&self.lists.again_mark, &self.lists.clone_mark];
        let marks: Vec<String> = marks
            .into_iter()
            .chain(self.lists.parsed.values())
            .flatten()
            .filter_map(super::v1model::plain_meta)
            .collect();
        let metadata = self.unit.metadata.iter();
        let cleared = metadata.filter(|(name, decl)| {
            decl.carried && !marks.contains(&name.value) && !self.is_in(&name.value, list)
        });
        let clear = |name: &str, ty: &TypeRef| {
            let bits = match ty {
                TypeRef::Bits(bits) => bits.value as u32,
                TypeRef::Named(_) => 0,
            };
            let place = Sp::new(path(&["meta", name], span), span);
            let mut value = number(0, bits, span);
            if let (true, Some(parsed)) = (is_clone, self.lists.parsed.get(name)) {
                let parsed = parsed.clone().unwrap_or_else(|| named(&["meta", name], span));
                value = mux(path_is("clone_ingress", span), parsed, value, span);
            }
            Stmt { kind: StmtKind::Assign(place, None, value), span }
        };
        cleared.map(|(name, decl)| clear(&name.value, &decl.ty)).collect()
    }

    /// Finds the metadata that clones of ingress have as the parser wrote it. What ingress writes too has a field beside it for that.
    fn keep_parsed(&mut self) {
        if self.arch != Arch::V1model || !self.lists.clones_of_ingress {
            return;
        }
        let (mut parser, mut ingress) = (Mentions::default(), Mentions::default());
        self.unit.parser.iter().for_each(|(_, state)| parser.state(&self.unit, state));
        if let Some(body) = &self.unit.ingress {
            ingress.statements(&self.unit, &body.value);
        }
        let span = self.span;
        for (name, decl) in self.unit.metadata.clone() {
            let (name, TypeRef::Bits(bits)) = (name.value, &decl.ty) else { continue };
            let is_listed = self.lists.clones.iter().all(|list| self.is_in(&name, *list));
            if !decl.carried || is_listed || !parser.written.contains(&name) {
                continue;
            }
            let copy = ingress.written.contains(&name).then(|| {
                let copy = self.new_meta(&format!("parsed_{name}"), bits.value as u32, span);
                if let Some((_, decl)) = self.unit.metadata.last_mut() {
                    decl.carried = true;
                }
                let parsed = named(&["meta", &name], span);
                let ((), keep) = self.apart(|lower| lower.set(&copy, parsed, span));
                if let Some(body) = &mut self.unit.ingress {
                    body.value.splice(0..0, keep);
                }
                copy
            });
            self.lists.parsed.insert(name, copy);
        }
    }

    /// A clone keeps the fields of its list; what else crosses the queue is in it what the parser wrote, or zero.
    pub(super) fn clear_clones(&mut self) {
        self.keep_parsed();
        let span = self.span;
        let mut all = Vec::new();
        for (at, list) in self.lists.clones.iter().enumerate() {
            let cleared = self.cleared(*list, true);
            match &self.lists.clone_mark {
                _ if cleared.is_empty() => {}
                Some(mark) => {
                    let mark = is(mark.clone(), at as u128 + 1, 8, span);
                    all.push(Stmt { kind: StmtKind::If(mark, cleared, Vec::new()), span });
                }
                None => all.extend(cleared),
            }
        }
        // A clone was not asked to enter ingress again, though its original was.
        let mark = self.lists.again_mark.as_ref().and_then(super::v1model::plain_meta);
        if let Some(mark) = mark.filter(|_| self.lists.has_clones()) {
            let place = Sp::new(path(&["meta", &mark], span), span);
            let kind = StmtKind::Assign(place, None, number(0, 8, span));
            all.push(Stmt { kind, span });
        }
        if let (Some(egress), false) = (&mut self.unit.egress, all.is_empty()) {
            let [of_ingress, of_egress] =
                ["clone_ingress", "clone_egress"].map(|one| path_is(one, span));
            let cloned = binary(AstBin::LogicalOr, of_ingress, of_egress, span);
            egress.value.insert(0, Stmt { kind: StmtKind::If(cloned, all, Vec::new()), span });
        }
    }

    /// The same for packets that enter ingress again, in states in front of the parser.
    pub(super) fn clear_again(&mut self) {
        let Some(mark) = self.lists.again_mark.clone() else { return };
        let span = self.span;
        let lists = self.lists.again.clone();
        let cleared: Vec<Vec<Stmt>> = lists.iter().map(|list| self.cleared(*list, false)).collect();
        if cleared.iter().all(Vec::is_empty) {
            return;
        }
        let first = free_name(&self.unit.parser, "parse");
        rename_start(&mut self.unit.parser, &first);
        let mut cases = Vec::new();
        for (at, statements) in cleared.into_iter().enumerate() {
            let name = free_name(&self.unit.parser, &format!("again_{}", at + 1));
            let next = NextDecl::To(Some(Sp::new(first.clone(), span)));
            let state =
                crate::ast::StateDecl { statements, next, ..super::arch::empty_state(span) };
            let value = number(at as u128 + 1, 8, span);
            let patterns = vec![Sp::new(PatternDecl::Value(value), span)];
            cases.push(CaseDecl { patterns, to: Sp::new(name.clone(), span), span });
            self.unit.parser.push((Sp::new(name, span), state));
        }
        let default = Some(Sp::new(first, span));
        let next = NextDecl::Select { keys: vec![mark], cases, default };
        let start = crate::ast::StateDecl { next, ..super::arch::empty_state(span) };
        self.unit.parser.insert(0, (Sp::new("start".to_owned(), span), start));
    }
}

/// A name that no state has.
fn free_name(states: &crate::ast::Named<crate::ast::StateDecl>, wanted: &str) -> String {
    let mut name = wanted.to_owned();
    while states.iter().any(|(known, _)| known.value == name) {
        name.push('_');
    }
    name
}

/// Gives the state `start` another name.
fn rename_start(states: &mut crate::ast::Named<crate::ast::StateDecl>, to: &str) {
    let rename = |name: &mut crate::ast::Name| {
        if name.value == "start" {
            name.value = to.to_owned();
        }
    };
    for (name, state) in states {
        rename(name);
        match &mut state.next {
            NextDecl::To(next) => next.iter_mut().for_each(rename),
            NextDecl::Select { cases, default, .. } => {
                cases.iter_mut().for_each(|case| rename(&mut case.to));
                default.iter_mut().for_each(rename);
            }
        }
    }
}
