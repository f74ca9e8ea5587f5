//! What the language asks of a declaration as a whole: annotations, entries of a table, states that lead nowhere, arguments
//! that must be known when the program is compiled.

use std::rc::Rc;

use num_bigint::{BigInt, Sign};

use super::super::tree::*;
use super::check::Checker;
use super::{Callee, Const, Def, Type};
use crate::diag::codes;

/// Annotations that hold one string.
const OF_TEXT: [&str; 4] = ["name", "alias", "deprecated", "noWarn"];

/// Whether words of an annotation are one string, or strings that are joined.
fn is_text(words: &str) -> bool {
    let mut rest = words.trim();
    loop {
        let Some(string) = rest.strip_prefix('"') else { return false };
        let mut is_escaped = false;
        let end = string.find(|c: char| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        let Some(end) = end else { return false };
        rest = string[end + 1..].trim_start();
        match rest.strip_prefix("++") {
            Some(more) => rest = more.trim_start(),
            None => return rest.is_empty(),
        }
    }
}

/// Properties of tables in P4-16, and in the architectures v1model, PSA, PNA and TNA.
const PROPERTIES: &[&str] = &[
    "key",
    "actions",
    "entries",
    "default_action",
    "size",
    "largest_priority_wins",
    "priority_delta",
    "counters",
    "meters",
    "implementation",
    "support_timeout",
    "psa_direct_counter",
    "psa_direct_meter",
    "psa_empty_group_action",
    "psa_idle_timeout",
    "psa_implementation",
    "add_on_miss",
    "default_idle_timeout_for_data_plane_added_entries",
    "idle_timeout_with_auto_delete",
    "pna_direct_counter",
    "pna_direct_meter",
    "pna_empty_group_action",
    "pna_idle_timeout",
    "pna_implementation",
    "registers",
    "filters",
    "idle_timeout",
    "atcam",
    "alpm",
    "proxy_hash",
    "requires_versioning",
];

impl Checker<'_> {
    /// Warns of a property that nothing reads; not of one with annotations, which another target may have.
    pub(super) fn note_unknown_property(&mut self, table: &TableDecl, property: &Ident) {
        let name = &*property.value;
        let is_annotated = table.property_annotations.iter().any(|(of, _)| **of == *name);
        if is_annotated || PROPERTIES.contains(&name) {
            return;
        }
        let text = format!("`{name}` is no property of tables, and has no effect");
        self.report
            .warning(codes::NO_EFFECT, property.span, text)
            .did_you_mean(name, PROPERTIES.iter().copied());
    }

    /// What annotations of one declaration say together.
    pub(super) fn annotated(&mut self, all: &[Annotation]) {
        for (at, one) in all.iter().enumerate() {
            let name = &one.name.value;
            let twice = |known: &&Annotation| {
                known.name.value == *name && (known.structured || one.structured)
            };
            if all[..at].iter().any(|known| twice(&known)) {
                let text = format!("`@{name}` is given twice");
                self.error(codes::TWICE, one.name.span, text);
            }
            let is_value =
                |arg: &Arg| matches!(&*arg.value.kind, ExprKind::Number(..) | ExprKind::Bool(_));
            if OF_TEXT.contains(&&**name) && one.args.iter().any(is_value) {
                let text = format!("`@{name}` needs a string: `@{name}(\"x\")`");
                self.error(codes::P4_SYNTAX, one.name.span, text);
            }
            let has_text = one.structured || is_text(&one.text);
            if &**name == "name" && (one.args.len() > 1 || !has_text) {
                let text = "`@name` has one string: `@name(\"x\")`";
                self.error(codes::P4_SYNTAX, one.name.span, text);
            } else if &**name == "deprecated" && !has_text && !one.text.is_empty() {
                let text = "`@deprecated` has one string: `@deprecated(\"x\")`";
                self.error(codes::P4_SYNTAX, one.name.span, text);
            }
            if &**name == "pkginfo" && one.args.is_empty() && one.text.is_empty() {
                let text = "`@pkginfo` needs values: `@pkginfo(version=\"1\")`";
                self.error(codes::P4_SYNTAX, one.name.span, text);
            }
        }
    }

    /// Bound arguments of a default or an entry are those of the list of actions.
    pub(super) fn same_bound(&mut self, given: &Expr, listed: &Arg) {
        if !same(&self.consts, given, &listed.value) {
            let text = "this argument is another one than in the list of actions";
            self.error(codes::ARGUMENTS, given.span, text)
                .label(listed.value.span, "given here")
                .help("repeat the argument of the list");
        }
    }

    /// Priorities of entries that say none follow from the one before; the first must say one if any does.
    pub(super) fn priorities(&mut self, table: &TableDecl, entries: &Entries) {
        let number = |checker: &Self, expr: &Expr| match checker.consts.get(&expr.id) {
            Some(Const::Int(value)) => Some(value.clone()),
            _ => None,
        };
        let Some(first) = entries.list.first() else { return };
        let any = entries.list.iter().find_map(|entry| entry.priority.as_ref());
        if first.priority.is_none() {
            if let Some(any) = any {
                let text = "one entry has a priority, so the first one needs one too";
                self.error(codes::PRIORITY, first.keys.span, text)
                    .label(any.span, "a priority is given here");
            }
            return;
        }
        let property = |name: &str| {
            table
                .properties
                .iter()
                .find(|(known, ..)| &*known.value == name)
                .map(|(_, value, _)| value)
        };
        let largest =
            property("largest_priority_wins").and_then(|value| self.consts.get(&value.id));
        let down = !matches!(largest, Some(Const::Bool(false)));
        let delta = property("priority_delta").and_then(|value| number(self, value));
        let delta = delta.unwrap_or_else(|| BigInt::from(1));
        let mut last = BigInt::ZERO;
        for entry in &entries.list {
            last = match &entry.priority {
                Some(priority) => number(self, priority).unwrap_or_default(),
                None if down => last - &delta,
                None => last + &delta,
            };
            if last.sign() == Sign::Minus {
                let text = format!("this entry has the priority {last}, and priorities begin at 0");
                self.error(codes::PRIORITY, entry.keys.span, text)
                    .help("begin with a higher priority, or choose a smaller `priority_delta`");
                return;
            }
        }
    }

    /// Functions that are computed by the compiler, so that numbers need no width.
    pub(super) fn is_static(&self, name: &str) -> bool {
        matches!(name, "static_assert" | "assert" | "assume" | "log_msg")
    }

    /// A parser has a way to an end.
    pub(super) fn parser_ends(&mut self, decl: &Decl, states: &[State]) {
        let targets = |state: &State| -> Vec<Rc<str>> {
            match &state.next {
                Transition::None => vec!["reject".into()],
                Transition::To(to) => vec![to.value.clone()],
                // What no case takes is rejected.
                Transition::Select(select) => {
                    let all =
                        select.cases.iter().any(|(set, _)| matches!(&*set.kind, ExprKind::Any));
                    let cases = select.cases.iter().map(|(_, to)| to.value.clone());
                    cases.chain((!all).then(|| "reject".into())).collect()
                }
            }
        };
        let (mut reached, mut next): (Vec<Rc<str>>, Vec<Rc<str>>) =
            (Vec::new(), vec!["start".into()]);
        while let Some(name) = next.pop() {
            if matches!(&*name, "accept" | "reject") {
                return;
            }
            if reached.contains(&name) {
                continue;
            }
            match states.iter().find(|state| state.name.value == name) {
                Some(state) => next.extend(targets(state)),
                // Reported where it is named.
                None => return,
            }
            reached.push(name);
        }
        let text = format!(
            "parser `{}` never ends: no state that is reached goes to `accept` or `reject`",
            decl.name.value
        );
        self.error(codes::RECURSION, decl.name.span, text);
    }

    /// An argument of a constructor is known when the program is compiled.
    pub(super) fn known_argument(&mut self, value: &Expr) {
        if !self.is_known(value) {
            let text = "an argument of a constructor must be known when the program is compiled";
            self.error(codes::NOT_CONSTANT, value.span, text);
        }
    }

    /// Whether a constant or a default can be this: an instance is none.
    pub(super) fn is_known_value(&self, value: &Expr) -> bool {
        let is_call = matches!(&*value.kind, ExprKind::Call { .. });
        self.consts.contains_key(&value.id) || !is_call && self.is_known(value)
    }

    pub(super) fn is_known(&self, value: &Expr) -> bool {
        self.is_known_with(value, &|id| self.constructor_params.contains(&id))
    }

    /// The same, where these parameters are known.
    pub(super) fn is_known_with(&self, value: &Expr, is_given: &dyn Fn(u32) -> bool) -> bool {
        let is_known = |value: &Expr| self.is_known_with(value, is_given);
        if self.consts.contains_key(&value.id) {
            return true;
        }
        match &*value.kind {
            // A parameter of a constructor is known where the instance is.
            ExprKind::Name(..) => match self.defs.get(&value.id) {
                Some(Def::Param(id)) => is_given(*id),
                Some(Def::Decl(decl)) => !matches!(decl.kind, DeclKind::Variable(..)),
                None => true,
            },
            ExprKind::Member(of, _)
            | ExprKind::Slice(of, ..)
            | ExprKind::Unary(_, of)
            | ExprKind::Cast(_, of) => is_known(of),
            ExprKind::Index(a, b)
            | ExprKind::PlusSlice(a, b, _)
            | ExprKind::Binary(_, a, b)
            | ExprKind::Mask(a, b)
            | ExprKind::Range(a, b) => is_known(a) && is_known(b),
            ExprKind::Mux(a, b, c) => [a, b, c].iter().all(|one| is_known(one)),
            ExprKind::List(items, _) | ExprKind::Tuple(items) => items.iter().all(is_known),
            ExprKind::Record(fields, _) => fields.iter().all(|(_, value)| is_known(value)),
            // What a call gives is known when a packet runs, but for an instance, and the size of a type parameter.
            ExprKind::Call { args, .. } => {
                let gives_known = match self.calls.get(&value.id).map(|call| &call.callee) {
                    Some(Callee::Decl(_) | Callee::Method(..) | Callee::Apply) => {
                        matches!(self.noted(value), Type::Extern(..))
                    }
                    Some(Callee::Builtin) => matches!(self.noted(value), Type::Integer),
                    Some(Callee::Constructor) | None => true,
                };
                gives_known && args.iter().all(|arg| is_known(&arg.value))
            }
            ExprKind::Number(..)
            | ExprKind::Bool(_)
            | ExprKind::Text(_)
            | ExprKind::Type(_)
            | ExprKind::Invalid
            | ExprKind::Dots
            | ExprKind::Any
            | ExprKind::Poison => true,
        }
    }

    /// `main` is the instance of a package.
    pub(super) fn main_is_a_package(&mut self, decls: &[Rc<Decl>]) {
        for decl in decls.iter().filter(|decl| &*decl.name.value == "main") {
            let is_package = matches!(decl.kind, DeclKind::Instance { .. })
                && matches!(self.declared.get(&decl.id), Some(Type::Package(..) | Type::Any));
            if !is_package {
                self.type_error(decl.name.span, "`main` is the instance of a package");
            }
        }
    }

    /// `packet_out.emit` of something that is no header and has none.
    pub(super) fn emitted(&mut self, ty: &Type, span: crate::ir::SourceSpan) {
        if !is_emitted(ty) {
            let text =
                format!("`emit` takes headers, and stacks, unions and structs of them, not {ty}");
            self.type_error(span, text);
        }
    }

    /// `packet_in` by what it is asked for.
    pub(super) fn packet_call(
        &mut self,
        name: &str,
        args: &[Arg],
        ty: &Type,
        span: crate::ir::SourceSpan,
    ) {
        let is_varbit = |ty: &Type| matches!(ty, Type::Varbit(_));
        let of = if let Type::Struct(of) = ty { of.fields.as_slice() } else { &[] };
        let varies = is_varbit(ty) || of.iter().any(|(_, ty)| is_varbit(ty));
        match (name, args.len()) {
            ("extract", 1) if varies => {
                let text = format!("{ty} has a varbit field, so `extract` needs its length");
                self.type_error(span, text).help("`extract(header, bits)`");
            }
            ("extract", 2) if !varies && !of.is_empty() => {
                let text = format!("{ty} has no varbit field, so `extract` takes no length");
                self.type_error(span, text);
            }
            ("lookahead", _) if varies => {
                self.type_error(
                    span,
                    format!("{ty} has a varbit field, whose length `lookahead` cannot know"),
                );
            }
            _ => {}
        }
    }
}

/// What `emit` takes (P4-16, data transmission of the deparser).
fn is_emitted(ty: &Type) -> bool {
    match ty {
        Type::Struct(of) if of.kind == StructKind::Struct => {
            of.fields.iter().all(|(_, ty)| is_emitted(ty))
        }
        Type::Stack(of, _) => is_emitted(of),
        Type::Tuple(parts) => parts.iter().all(is_emitted),
        Type::Listed(parts, _) => parts.iter().all(is_emitted),
        other => matches!(other, Type::Struct(_) | Type::Any | Type::Var(..) | Type::Infer(_)),
    }
}

/// The same expression, by its values or word for word.
fn same(consts: &std::collections::HashMap<u32, Const>, a: &Expr, b: &Expr) -> bool {
    if let (Some(a), Some(b)) = (consts.get(&a.id), consts.get(&b.id)) {
        return a == b;
    }
    let all = |a: &[Expr], b: &[Expr]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(consts, a, b))
    };
    match (&*a.kind, &*b.kind) {
        (ExprKind::Name(a, x), ExprKind::Name(b, y)) => a.value == b.value && x == y,
        (ExprKind::Member(a, x), ExprKind::Member(b, y)) => {
            x.value == y.value && same(consts, a, b)
        }
        (ExprKind::Index(a, x), ExprKind::Index(b, y)) => same(consts, a, b) && same(consts, x, y),
        (ExprKind::Slice(a, x, z), ExprKind::Slice(b, y, w))
        | (ExprKind::PlusSlice(a, x, z), ExprKind::PlusSlice(b, y, w)) => {
            same(consts, a, b) && same(consts, x, y) && same(consts, z, w)
        }
        (ExprKind::Unary(x, a), ExprKind::Unary(y, b)) => x == y && same(consts, a, b),
        (ExprKind::Cast(_, a), ExprKind::Cast(_, b)) => same(consts, a, b),
        (ExprKind::Binary(x, a, c), ExprKind::Binary(y, b, d)) => {
            x == y && same(consts, a, b) && same(consts, c, d)
        }
        (ExprKind::Mux(a, c, e), ExprKind::Mux(b, d, f)) => {
            same(consts, a, b) && same(consts, c, d) && same(consts, e, f)
        }
        (ExprKind::List(a, _), ExprKind::List(b, _)) => all(a, b),
        (ExprKind::Record(a, _), ExprKind::Record(b, _)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|((x, a), (y, b))| x.value == y.value && same(consts, a, b))
        }
        (ExprKind::Any, ExprKind::Any) => true,
        (ExprKind::Call { callee: a, args: x, .. }, ExprKind::Call { callee: b, args: y, .. }) => {
            same(consts, a, b)
                && x.len() == y.len()
                && x.iter().zip(y).all(|(x, y)| same(consts, &x.value, &y.value))
        }
        _ => false,
    }
}
