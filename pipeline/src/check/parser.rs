//! The parser: states of the program, and a copy of a sub-parser's states for each call of it.

pub(super) mod ops;
mod select;

use super::cx::{Cx, Env, InstanceRef, Place};
use super::scope::Symbol;
use super::uses::{bindings, sub_parser};
use crate::ast::*;
use crate::diag::{codes, suggest};
use crate::ids::*;
use crate::ir::{BuiltinError, ParserOp, SourceSpan, State, Target, Transition};

/// Most states, copies of sub-parsers included.
pub(crate) const STATES_MAX: usize = 1024;
/// Deepest nesting of sub-parsers.
const CALLS_MAX: usize = 16;

/// A parser whose states are being lowered.
pub(super) struct Scheme<'a> {
    unit: usize,
    /// Prefix of the names of states: `caller.`.
    prefix: String,
    names: Vec<(&'a str, StateId)>,
    bind: Vec<(String, String)>,
    /// The target of `accept`.
    accept: Target,
}

impl<'a> Cx<'a> {
    /// Lowers the parser of the program.
    pub(crate) fn lower_parser(&mut self) {
        let Some(&root) = self.units.first() else { return };
        if !root.parser.is_empty() {
            self.parser_states(0, &root.parser, String::new(), Vec::new(), Target::Accept, None);
        }
        if let Some((name, _)) = root.egress_parser.first() {
            if root.parser.is_empty() {
                let text = "egress parses again, and there is no `parser`";
                self.report.error(codes::NO_START, name.span, text);
            }
            let (prefix, states) = ("egress.".to_string(), &root.egress_parser);
            let start =
                self.parser_states(0, states, prefix, Vec::new(), Target::Accept, Some(name));
            self.ir.parser.egress = start;
        }
        self.main_states = self.ir.parser.states.len();
        // A packet that visits no state twice has no error for that.
        let bound = &mut self.ir.parser.max_states;
        *bound = (*bound).max(u32::try_from(self.main_states).unwrap_or(u32::MAX));
        for (name, states) in &root.parsers {
            if !self.called.contains(&(0, name.value.clone())) {
                let prefix = format!("{}.", name.value);
                self.parser_states(0, states, prefix, Vec::new(), Target::Accept, Some(name));
            }
        }
        self.ir.parser.locals = std::mem::take(&mut self.locals);
        self.ir.parser.drop_on_error = match &root.on_parser_error {
            Some(word) if word.value == "drop" => true,
            Some(word) if word.value != "ingress" => {
                let text = format!("`{}` is not `ingress` or `drop`", word.value);
                self.report.error(codes::UNKNOWN, word.span, text);
                false
            }
            _ => false,
        };
    }

    /// Lowers all states of a parser; the id of its `start`.
    fn parser_states(
        &mut self,
        unit: usize,
        states: &'a Named<StateDecl>,
        prefix: String,
        bind: Vec<(String, String)>,
        accept: Target,
        caller: Option<&Name>,
    ) -> Option<StateId> {
        let start = states.iter().position(|(name, _)| name.value == "start");
        let Some(start) = start else {
            let near = suggest("start", states.iter().map(|(name, _)| name.value.as_str()));
            let near = states.iter().map(|(name, _)| name).find(|name| Some(&*name.value) == near);
            if let Some(place) = near.or(caller).or(states.first().map(|(name, _)| name)) {
                let text = "a parser begins in the state `start`, and there is none";
                let error = self.report.error(codes::NO_START, place.span, text);
                match near {
                    Some(_) => error.did_you_mean(&place.value, ["start"]),
                    None => error.help("call its first state `start`"),
                };
            }
            return None;
        };
        let first = states.get(start..=start).unwrap_or_default();
        let order = first
            .iter()
            .chain(states.iter().enumerate().filter(|(at, _)| *at != start).map(|(_, s)| s));
        let order: Vec<&'a (Name, StateDecl)> = order.collect();
        if self.ir.parser.states.len() + order.len() > STATES_MAX {
            if let Some((name, _)) = order.first() {
                let text = format!("the parser has more than {STATES_MAX} states");
                let why = "every call of a sub-parser counts its states again";
                self.report.error(codes::LIMITS, caller.unwrap_or(name).span, text).note(why);
            }
            return None;
        }
        let mut scheme = Scheme { unit, prefix, names: Vec::new(), bind, accept };
        for (name, decl) in &order {
            if matches!(name.value.as_str(), "accept" | "reject") {
                let text = format!("`{}` is where a parser ends, not a state", name.value);
                self.report.error(codes::RESERVED, name.span, text);
            }
            let id = self.placeholder(&format!("{}{}", scheme.prefix, name.value), decl.span);
            scheme.names.push((&name.value, id));
        }
        for ((_, decl), (_, id)) in order.iter().zip(scheme.names.clone()) {
            self.lower_state(&scheme, id, decl);
        }
        scheme.names.first().map(|(_, id)| *id)
    }

    fn placeholder(&mut self, name: &str, span: SourceSpan) -> StateId {
        let next = Transition::To(Target::Accept);
        let (name, ops) = (name.to_string(), Vec::new());
        self.op_spans.push(Vec::new());
        self.ir.parser.states.push(State { name, ops, next, span: Some(span) })
    }

    fn lower_state(&mut self, scheme: &Scheme<'a>, id: StateId, decl: &'a StateDecl) {
        self.env = Env::at(Place::Parser);
        self.env.bind.clone_from(&scheme.bind);
        self.env.open();
        let mut ops = ops::Ops::default();
        for name in &decl.extract {
            self.extract(&mut ops, name);
        }
        for (cond, error) in &decl.verify {
            self.verify(&mut ops, cond, error);
        }
        for statement in &decl.statements {
            self.parser_statement(&mut ops, statement);
        }
        for (name, offset) in &decl.extract_at {
            self.extract_at(&mut ops, name, offset);
        }
        if let Some(end) = &decl.body_end
            && let Some(offset) = self.offset(end)
        {
            ops.push(ParserOp::BodyEnd(offset), end.span);
        }
        let next = match &decl.call {
            None => self.transition(scheme, &decl.next),
            Some(call) => self.sub_parser_call(scheme, id, call, decl),
        };
        let (ops, spans) = ops.parts();
        if let Some(slot) = self.op_spans.get_mut(id.index()) {
            *slot = spans;
        }
        if let Some(state) = self.ir.parser.states.iter_mut().nth(id.index()) {
            state.ops = ops;
            state.next = next;
        }
    }

    /// A call: goes to a copy of the sub-parser, whose `accept` continues after the caller's call.
    fn sub_parser_call(
        &mut self,
        scheme: &Scheme<'a>,
        caller: StateId,
        call: &'a CallDecl,
        decl: &'a StateDecl,
    ) -> Transition {
        let after = match &decl.next {
            NextDecl::To(to) => to.as_ref().map_or(scheme.accept, |to| self.target(scheme, to)),
            NextDecl::Select { .. } => {
                let name = self.ir.parser.states.get(caller).map(|state| state.name.clone());
                let id =
                    self.placeholder(&format!("{}.return", name.unwrap_or_default()), decl.span);
                let next = self.transition(scheme, &decl.next);
                if let Some(state) = self.ir.parser.states.iter_mut().nth(id.index()) {
                    state.next = next;
                }
                Target::State(id)
            }
        };
        let target = &call.target;
        let Some((unit, states)) = sub_parser(self.units, scheme.unit, &target.value) else {
            self.no_sub_parser(scheme.unit, target);
            return Transition::To(after);
        };
        let key = (unit, target.value.rsplit('.').next().unwrap_or_default().to_string());
        self.called.insert(key.clone());
        if self.calls.contains(&key) || self.calls.len() >= CALLS_MAX {
            let text = format!("sub-parser `{}` calls itself, or is nested too deep", target.value);
            self.report.error(codes::RECURSION, target.span, text).note(
                "a loop of states inside one parser is allowed, when every iteration moves the cursor",
            );
            return Transition::To(after);
        }
        self.check_bind(&call.bind, &scheme.bind);
        let name = self.ir.parser.states.get(caller).map(|state| state.name.clone());
        let prefix = format!("{}.", name.unwrap_or_default());
        let bind = bindings(&call.bind, &scheme.bind);
        self.calls.push(key);
        let start = self.parser_states(unit, states, prefix, bind, after, Some(target));
        self.calls.pop();
        Transition::To(start.map_or(after, Target::State))
    }

    fn no_sub_parser(&mut self, unit: usize, target: &Name) {
        let mut names: Vec<String> = Vec::new();
        for (at, known) in self.units.iter().enumerate() {
            for (name, _) in &known.parsers {
                if at == unit {
                    names.push(name.value.clone());
                }
                if let Some(library) = &known.name {
                    names.push(format!("{}.{}", library.value, name.value));
                }
            }
        }
        let text = format!("there is no sub-parser `{}`", target.value);
        let error = self.report.error(codes::UNKNOWN, target.span, text);
        error.note("`name` is a sub-parser of this file, `library.name` one of a library");
        // The same name elsewhere is nearer than a similar one in the same library.
        let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        let same: Vec<&str> = names
            .iter()
            .map(String::as_str)
            .filter(|name| last(name) == last(&target.value))
            .collect();
        match same.as_slice() {
            [] => error.did_you_mean(&target.value, names.iter().map(String::as_str)),
            [one] => error.fix(format!("did you mean `{one}`?"), target.span, *one),
            several => error.help(format!("there are {}", several.join(", "))),
        };
    }

    /// Both sides of a binding are instances, or stacks, of one header type.
    fn check_bind(&mut self, bind: &[(Name, Name)], outer: &[(String, String)]) {
        for (from, to) in bind {
            let through = outer.iter().find(|(known, _)| *known == to.value);
            let to_name = through.map_or(to.value.clone(), |(_, to)| to.clone());
            let a = self.scope.symbol(&from.value);
            let b = self.scope.symbol(&to_name);
            let (Some(Symbol::Instance(a)), Some(Symbol::Instance(b))) = (a, b) else {
                let wrong = if matches!(a, Some(Symbol::Instance(_))) { to } else { from };
                let is_instance = |symbol| matches!(symbol, Symbol::Instance(_));
                self.no_such(wrong, "a header", is_instance);
                continue;
            };
            let (Some(a), Some(b)) = (self.scope.instances.get(a), self.scope.instances.get(b))
            else {
                continue;
            };
            if a.header.value != b.header.value || a.stack.is_some() != b.stack.is_some() {
                let text = format!("`{}` cannot stand for `{}`", to.value, from.value);
                let note = "both are headers, or both stacks, of one header type";
                self.report.error(codes::WRONG_KIND, to.span, text).note(note);
            }
        }
    }

    /// The target of a name.
    pub(super) fn target(&mut self, scheme: &Scheme<'a>, to: &Name) -> Target {
        match to.value.as_str() {
            "accept" => return scheme.accept,
            "reject" => return Target::Reject(BuiltinError::NoMatch.id()),
            _ => {}
        }
        if let Some(error) =
            to.value.strip_prefix("reject(").and_then(|rest| rest.strip_suffix(')'))
        {
            let name = Sp::new(error.trim().to_string(), span_inside(to, error.trim()));
            return Target::Reject(self.error_named(&name).unwrap_or(BuiltinError::NoMatch.id()));
        }
        if let Some((_, id)) = scheme.names.iter().find(|(name, _)| *name == to.value) {
            return Target::State(*id);
        }
        let text = format!("there is no state `{}`", to.value);
        let names = scheme.names.iter().map(|(name, _)| *name).chain(["accept", "reject"]);
        let error = self.report.error(codes::UNKNOWN, to.span, text);
        match to.value.as_str() {
            "drop" => error.help("a parser drops a packet by `reject`, or `reject(ERROR)`"),
            _ => error.did_you_mean(&to.value, names),
        };
        scheme.accept
    }

    /// A parser error by name.
    pub(super) fn error_named(&mut self, name: &Name) -> Option<ErrorId> {
        let found = self.ir.errors.entries().find(|(_, known)| **known == name.value);
        if let Some((id, _)) = found {
            return Some(id);
        }
        let text = format!("there is no parser error `{}`", name.value);
        let names: Vec<String> = self.ir.errors.iter().cloned().collect();
        self.report
            .error(codes::UNKNOWN, name.span, text)
            .did_you_mean(&name.value, names.iter().map(String::as_str))
            .help(format!("declare it: `errors: [{}]`", name.value));
        None
    }

    /// The instance or stack that an `extract` names.
    fn extracted(&mut self, name: &Name) -> Option<InstanceRef> {
        let (header, at) = element(&name.value);
        let bound = Sp::new(self.env.bound(header).to_string(), name.span);
        match self.scope.symbol(&bound.value) {
            Some(Symbol::Instance(index)) => {
                let found = self.instance_ref(index)?;
                self.element_named(found, at, name)
            }
            _ => {
                self.no_such(&bound, "a header", |symbol| matches!(symbol, Symbol::Instance(_)));
                None
            }
        }
    }
}

/// The place of a part of a name; of the whole name if it is not written as it is.
fn span_inside(name: &Name, part: &str) -> SourceSpan {
    let is_as_written = (name.span.end - name.span.start) as usize == name.value.len();
    match name.value.find(part).filter(|_| is_as_written) {
        Some(at) => {
            let start = name.span.start + at as u32;
            SourceSpan { start, end: start + part.len() as u32, ..name.span }
        }
        None => name.span,
    }
}
