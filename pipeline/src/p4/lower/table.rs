//! Tables.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{Callee, Const, Type};
use super::arch::Arch;
use super::build::{call, known, named, number};
use super::env::{Env, Object, Val};
use super::{Lower, rewrite};
use crate::ast::{
    self, ApplyStmt, AstExpr, EntryDecl, KeyDecl, PatternDecl, Sp, StmtKind as Made,
    TableDecl as Table,
};
use crate::ir::SourceSpan;
use crate::ir::layout::ones;

/// Highest priority of a declared entry.
const PRIORITY_MAX: u64 = 1 << 24;
/// Most entries of a table, and most cells of an array.
pub(super) const SIZE_MAX: u64 = 1 << 24;
/// Most members of a selector.
const MEMBERS_MAX: u64 = 1 << 16;

/// The size of a table that says none.
const SIZE_DEFAULT: u64 = 1024;

/// The value of a property of a table.
fn property(table: &TableDecl, wanted: &str) -> Option<Expr> {
    let found = table.properties.iter().find(|(name, ..)| *name.value == *wanted);
    found.map(|(_, value, _)| value.clone())
}

impl Lower<'_> {
    /// `t.apply()`, whose result is whether it hit.
    pub(super) fn apply_table(&mut self, decl: &Rc<Decl>, env: &Env, span: SourceSpan) -> Val {
        let Some(name) = self.table_name(decl, env) else { return Val::Nothing };
        let table = Sp::new(name, span);
        if !self.asks_hit(span) {
            let apply = ApplyStmt { table, hit: Vec::new(), miss: Vec::new(), actions: Vec::new() };
            self.push_apply(apply, span);
            return Val::Applied(number(0, 1, span));
        }
        let hit = self.new_meta("hit", 1, span);
        let ((), yes) = self.apart(|lower| lower.set(&hit, number(1, 1, span), span));
        let ((), no) = self.apart(|lower| lower.set(&hit, number(0, 1, span), span));
        let apply = ApplyStmt { table, hit: yes, miss: no, actions: Vec::new() };
        self.push_apply(apply, span);
        Val::Applied(hit)
    }

    /// The application of a table, behind what computes its keys.
    pub(super) fn push_apply(&mut self, mut apply: ApplyStmt, span: SourceSpan) {
        let computed = self.computed_keys.get(&apply.table.value).cloned();
        if let Some(mut computed) = computed {
            rewrite::rename_values(&mut computed, &mut || self.names.value());
            self.out.extend(computed);
        }
        // The action may have exited.
        let bodies = apply.actions.iter_mut().map(|(_, body)| body);
        for body in bodies.chain([&mut apply.hit, &mut apply.miss]) {
            if !body.is_empty() {
                body.splice(0..0, self.exit_check(span));
            }
        }
        self.push(Made::Apply(apply), span);
        self.leave_if_exited(span);
    }

    /// Whether the statement around asks for more than the application.
    fn asks_hit(&self, span: SourceSpan) -> bool {
        // A statement `t.apply();` is the call and its `;`.
        !(self.span.start == span.start
            && self.span.end <= span.end + 1
            && self.span.file == span.file)
    }

    /// The table of the tree for a declared one.
    pub(super) fn table_name(&mut self, decl: &Rc<Decl>, env: &Env) -> Option<String> {
        let key = format!("{} {}", decl.id, env.key());
        if let Some(known) = self.tables.get(&key) {
            return Some(known.clone());
        }
        let DeclKind::Table(table) = &decl.kind else { return None };
        let name = self.names.fresh(&decl.name.value, env.prefix());
        self.tables.insert(key, name.clone());
        let full = env.full(&decl.annotations, &decl.name.value);
        self.origin().tables.insert(name.clone(), full);
        let outer = std::mem::replace(&mut self.env, env.clone());
        let span = std::mem::replace(&mut self.span, decl.name.span);
        let mut made = Table {
            key: Vec::new(),
            actions: Vec::new(),
            default: None,
            const_default: table.const_default,
            size: None,
            entries: Vec::new(),
            const_entries: table.entries.as_ref().is_some_and(|entries| entries.is_const),
            counters: false,
            meter: None,
            idle_timeout_ms: None,
            removes_idle: false,
            selector: None,
        };
        self.table_keys(table, &name, &mut made);
        for one in &table.actions {
            if let Some(action) = self.action_in_list(one, env, &name) {
                made.actions.push(Sp::new(action, one.action.span));
            }
        }
        self.default_action(table, env, &name, &mut made);
        self.table_properties(table, &name, &mut made);
        if made.selector.is_none() {
            // Nothing is selected by them.
            made.key.retain(|key| key.kind.value != "selector");
        }
        if let Some(entries) = &table.entries {
            self.table_entries(table, entries, env, &name, &mut made);
        }
        // There is room for all; an entry of the source may be several here.
        let fixed = made.entries.len() as u64;
        let size = match &made.size {
            Some(ast::Size::Number(size)) => size.value,
            _ => SIZE_DEFAULT,
        };
        if size < fixed {
            made.size = Some(ast::Size::new(fixed, self.span));
        }
        self.span = span;
        self.env = outer;
        self.unit.tables.push((Sp::new(name.clone(), decl.name.span), made));
        Some(name)
    }

    fn table_keys(&mut self, table: &TableDecl, table_name: &str, made: &mut Table) {
        let mut names: Vec<String> = Vec::new();
        let mut computed = Vec::new();
        let values: Vec<_> =
            table.keys.iter().map(|key| self.apart(|lower| lower.scalar(&key.value))).collect();
        let last = values.iter().rposition(|(_, before)| !before.is_empty());
        for (at, (key, (value, before))) in table.keys.iter().zip(values).enumerate() {
            let ty = self.type_of(&key.value);
            let bits = self.bits(&ty, key.value.span);
            let value = match (known(&value), bits) {
                (Some(known), 1..) => number(known, bits, value.span),
                _ => value,
            };
            // A constant, what takes several steps, and what a later key may change is put into metadata in front of `apply`.
            let value = if last.is_some_and(|last| at <= last) || known(&value).is_some() {
                let place = self.new_meta("key", bits.max(1), key.value.span);
                let ((), set) = self.apart(|lower| lower.set(&place, value, key.value.span));
                computed.extend(before);
                computed.extend(set);
                place
            } else {
                value
            };
            let name = match annotation(&key.annotations, "name").and_then(|one| one.args.first()) {
                Some(arg) => match &*arg.value.kind {
                    ExprKind::Text(text) => text.to_string(),
                    _ => shown(&key.value),
                },
                None => shown(&key.value),
            };
            let mut unique = name.clone();
            while names.contains(&unique) {
                unique.push('_');
            }
            names.push(unique.clone());
            let name = Some(Sp::new(unique, key.value.span));
            let kind = Sp::new(key.kind.value.to_string(), key.kind.span);
            made.key.push(KeyDecl { value, name, kind });
        }
        if !computed.is_empty() {
            self.computed_keys.insert(table_name.to_owned(), computed);
        }
    }

    fn default_action(&mut self, table: &TableDecl, env: &Env, name: &str, made: &mut Table) {
        match &table.default {
            Some(default) => {
                let listed = self.action_call(table, default, env, name);
                made.default = listed;
            }
            None => {
                // `NoAction` as the table lists it, so that `switch` finds it.
                let listed = table.actions.iter().find(|one| {
                    self.checked.calls.get(&one.action.id).is_some_and(
                        |info| matches!(&info.callee, Callee::Decl(decl) if &*decl.name.value == "NoAction"),
                    )
                });
                if let Some(one) = listed.cloned() {
                    let action = self.action_in_list(&one, env, name);
                    made.default = action.map(|action| named(&[&action], self.span));
                    return;
                }
                made.default = Some(named(&["nop"], self.span));
                made.actions.push(Sp::new("nop".to_owned(), self.span));
            }
        }
    }

    /// `action(args)` of an entry or the default.
    fn action_call(
        &mut self,
        table: &TableDecl,
        action: &Expr,
        env: &Env,
        name: &str,
    ) -> Option<AstExpr> {
        let info = self.checked.calls.get(&action.id).cloned()?;
        let Callee::Decl(decl) = &info.callee else { return None };
        let listed = table.actions.iter().find(|one| {
            self.checked.calls.get(&one.action.id).is_some_and(
                |known| matches!(&known.callee, Callee::Decl(known) if known.id == decl.id),
            )
        });
        let action_name = match listed {
            Some(listed) => self.action_in_list(&listed.clone(), env, name)?,
            None => return None,
        };
        let DeclKind::Action { params, .. } = &decl.kind else { return None };
        let args = match &*action.kind {
            ExprKind::Call { args, .. } => args.clone(),
            _ => Vec::new(),
        };
        let mut values = Vec::new();
        for (param, at) in params.iter().zip(&info.order) {
            if param.direction != Direction::None {
                continue;
            }
            let given = at.and_then(|at| args.get(at)).map(|arg| &arg.value);
            let Some(given) = given.or(param.default.as_ref()) else { continue };
            let ty = self.declared(param.id);
            let value = self.eval_as(given, &ty);
            self.flat(&value, &mut values);
        }
        if values.is_empty() {
            return Some(named(&[&action_name], action.span));
        }
        Some(call(&action_name, values, action.span))
    }

    /// All numbers of a value in order.
    pub(super) fn flat(&mut self, value: &Val, into: &mut Vec<AstExpr>) {
        match value {
            Val::Scalar(scalar) => into.push(scalar.clone()),
            Val::Struct(fields) | Val::Literal(Some(fields)) => {
                fields.clone().iter().for_each(|(_, value)| self.flat(value, into));
            }
            _ => {}
        }
    }

    fn table_properties(&mut self, table: &TableDecl, table_name: &str, made: &mut Table) {
        for (name, value, _) in &table.properties {
            match &*name.value {
                "size" => {
                    let wanted = self.known_number(value);
                    let size = self.size_of(Some(wanted), SIZE_MAX, value.span);
                    made.size = Some(ast::Size::new(size, value.span));
                }
                "counters" | "psa_direct_counter" => {
                    let kinds = ["direct_counter", "DirectCounter"];
                    made.counters = self.attached(value, kinds).is_some();
                }
                "meters" | "psa_direct_meter" => {
                    let object = self.attached(value, ["direct_meter", "DirectMeter"]);
                    let Some(object) = object else { continue };
                    let packets = self.counts_packets(&object);
                    let size = ast::Size::new(1, value.span);
                    made.meter = Some(ast::MeterDecl { size, two_rates: true, packets });
                }
                "implementation" | "psa_implementation" => {
                    self.implementation(value, table, table_name, made);
                }
                "support_timeout" | "psa_idle_timeout" if self.is_on(value) => {
                    // Entries have none but what a controller gives them.
                    made.idle_timeout_ms = Some(Sp::new(0, value.span));
                }
                _ => {}
            }
        }
    }

    /// The direct counter or meter of a table, which is of this one alone (v1model.p4, `direct_counter`).
    fn attached(&mut self, value: &Expr, kinds: [&str; 2]) -> Option<Rc<Object>> {
        let object = match self.eval(value) {
            Val::Object(object) if kinds.contains(&&*object.decl.name.value) => object,
            _ => {
                let text = format!("this is no `{}`", kinds[0]);
                self.wrong_type(value.span, text);
                return None;
            }
        };
        // One that is made in the property has no other table.
        let in_place = matches!(&*value.kind, ExprKind::Call { .. });
        if !in_place && !self.attached.insert(object.full.clone()) {
            let text = format!("`{}` belongs to another table already", object.full);
            self.wrong_type(value.span, text).help("give each table one of its own");
        }
        Some(object)
    }

    /// A property that is true, or an enumeration that is not its first value.
    fn is_on(&mut self, value: &Expr) -> bool {
        match self.eval(value) {
            Val::Scalar(value) => known(&value).is_some_and(|value| value != 0),
            _ => false,
        }
    }

    fn implementation(
        &mut self,
        value: &Expr,
        table: &TableDecl,
        table_name: &str,
        made: &mut Table,
    ) {
        let Val::Object(object) = self.eval(value) else {
            self.wrong_type(value.span, "this is no action profile or selector");
            return;
        };
        if !object.decl.name.value.to_ascii_lowercase().contains("selector") {
            self.profile(&object, table, table_name, made, value.span);
            return;
        }
        let hash = object
            .args
            .first()
            .and_then(|value| self.algorithm(value, value_span(value, self.span)));
        let size = match object.args.get(1) {
            Some(Val::Scalar(size)) => {
                let size = self.size_of(known(size), MEMBERS_MAX, value.span);
                Some(ast::Size::new(size, value.span))
            }
            _ => None,
        };
        let hash = Sp::new(hash.unwrap_or("crc16").to_owned(), value.span);
        let empty = self.empty_group(table, table_name, made);
        made.selector =
            Some(ast::SelectorDecl { hash, members: size.clone(), groups: size, empty });
    }

    /// What an entry does whose group is empty: `psa_empty_group_action`, which is `NoAction` where PSA finds none (PSA 1.1, section 7.12);
    /// v1model has none, and the default is taken.
    fn empty_group(
        &mut self,
        table: &TableDecl,
        table_name: &str,
        made: &mut Table,
    ) -> Option<AstExpr> {
        let property =
            table.properties.iter().find(|(name, ..)| is_empty_group_action(&name.value));
        if let Some((_, action, _)) = property {
            let env = self.env.clone();
            return self.action_call(table, &action.clone(), &env, table_name);
        }
        (self.arch == Arch::Psa).then(|| {
            if !made.actions.iter().any(|one| one.value == "nop") {
                made.actions.push(Sp::new("nop".to_owned(), self.span));
            }
            named(&["nop"], self.span)
        })
    }

    /// An action profile without a selector: members and no groups. Entries of the source have their actions themselves.
    fn profile(
        &mut self,
        object: &Object,
        table: &TableDecl,
        table_name: &str,
        made: &mut Table,
        span: SourceSpan,
    ) {
        if table.entries.is_some() {
            return;
        }
        let members = match object.args.first() {
            Some(Val::Scalar(size)) => known(size).map_or(1024, |size| size.clamp(1, 1 << 16)),
            _ => 1024,
        };
        self.profiles.push((object.full.clone(), table_name.to_owned()));
        // A group is chosen by the same number for every packet: there are none.
        let kind = Sp::new("selector".to_owned(), span);
        made.key.push(KeyDecl { value: number(0, 8, span), name: None, kind });
        made.selector = Some(ast::SelectorDecl {
            hash: Sp::new("crc16".to_owned(), span),
            members: Some(ast::Size::new(members as u64, span)),
            groups: Some(ast::Size::new(1, span)),
            empty: None,
        });
    }

    /// A profile of several tables is none here: their entries have their actions themselves.
    pub(super) fn shared_profiles(&mut self) {
        for (profile, table) in &self.profiles {
            let tables = self.profiles.iter().filter(|(other, _)| other == profile).count();
            let found = self.unit.tables.iter_mut().find(|(name, _)| name.value == *table);
            if let (2.., Some((_, made))) = (tables, found) {
                made.selector = None;
                made.key.retain(|key| key.kind.value != "selector");
            }
        }
    }

    fn table_entries(
        &mut self,
        table: &TableDecl,
        entries: &Entries,
        env: &Env,
        name: &str,
        made: &mut Table,
    ) {
        let ordered = table
            .keys
            .iter()
            .any(|key| matches!(&*key.kind.value, "ternary" | "range" | "optional"));
        let flag = |wanted: &str| property(table, wanted);
        // As p4c has it: the smallest `@priority` wins, an entry without one has its place.
        let annotated = entries.list.iter().any(|entry| entry.annotated.is_some());
        let smallest = annotated
            || flag("largest_priority_wins").is_some_and(|value| {
                self.checked.consts.get(&value.id) == Some(&Const::Bool(false))
            });
        if entries.list.len() as u64 > PRIORITY_MAX {
            self.unsupported(entries.span, "too many entries");
            return;
        }
        let places = ranked(self.places(table, entries, smallest));
        let mut seen = super::patterns::Seen::default();
        for (entry, place) in entries.list.iter().zip(places) {
            let sets = match &*entry.keys.kind {
                ExprKind::Tuple(items) => items.clone(),
                ExprKind::List(items, _) if table.keys.len() == items.len() => items.clone(),
                _ => vec![entry.keys.clone()],
            };
            let (mut names, mut patterns, mut types) = (Vec::new(), Vec::new(), Vec::new());
            for ((key, set), known_key) in table.keys.iter().zip(&sets).zip(made.key.clone()) {
                let Some(key_name) = known_key.name else { continue };
                if let Some(pattern) = self.entry_pattern(key, set) {
                    names.push(key_name);
                    patterns.push(Sp::new(pattern, set.span));
                    types.push(self.type_of(&key.value));
                }
            }
            let priority = if smallest { PRIORITY_MAX.saturating_sub(place) } else { place };
            let Some(action) = self.action_call(table, &entry.action, env, name) else { continue };
            let mut parts = super::patterns::around_zero(patterns, &types);
            parts.retain(|patterns| ordered || seen.is_first(&names, patterns));
            for patterns in parts {
                made.entries.push(EntryDecl {
                    matches: names.iter().cloned().zip(patterns).collect(),
                    action: action.clone(),
                    priority: ordered.then(|| Sp::new(priority, entry.keys.span)),
                    idle_timeout_ms: None,
                    idle_timeout_ns: None,
                    meter: None,
                    counter: None,
                    is_const: entry.is_const,
                    span: entry.keys.span,
                });
            }
        }
    }

    /// The place of each entry among the declared ones: its priority, or its distance from the one before.
    fn places(&mut self, table: &TableDecl, entries: &Entries, smallest: bool) -> Vec<u64> {
        let annotated = entries.list.iter().any(|entry| entry.annotated.is_some());
        let delta =
            property(table, "priority_delta").map_or(1, |value| self.known_number(&value) as u64);
        let mut next = if smallest { 1 } else { entries.list.len() as u64 * delta.max(1) };
        let place = |(at, entry): (usize, &Entry)| {
            let given = entry.priority.as_ref().map(|value| self.known_number(value) as u64);
            let place = match annotated {
                true => entry.annotated.unwrap_or(at as u64 + 1),
                false => given.unwrap_or(next),
            };
            next = match smallest {
                true => place.saturating_add(delta),
                false => place.saturating_sub(delta),
            };
            place
        };
        entries.list.iter().enumerate().map(place).collect()
    }

    /// A size that the source gives; an error above the largest.
    pub(super) fn size_of(&mut self, wanted: Option<u128>, most: u64, span: SourceSpan) -> u64 {
        let wanted = wanted.unwrap_or(1);
        if wanted > most.into() {
            self.unsupported(span, format!("a size of {wanted}: it is at most {most}"));
        }
        wanted.clamp(1, most.into()) as u64
    }

    /// What an entry says of a key; `None`: anything.
    fn entry_pattern(&mut self, key: &Key, set: &Expr) -> Option<PatternDecl> {
        let ty = self.type_of(&key.value);
        let bits = self.bits(&ty, set.span);
        let pattern = self.pattern(set, &ty)?;
        let all = ones(bits);
        Some(match (&*key.kind.value, pattern) {
            ("lpm", PatternDecl::Mask(value, mask)) => {
                let mask = known(&mask).unwrap_or(0) & all;
                PatternDecl::Prefix(value, Sp::new(u64::from(mask.count_ones()), set.span))
            }
            ("exact" | "optional", PatternDecl::Mask(value, mask))
                if known(&mask).is_some_and(|mask| mask & all == all) =>
            {
                PatternDecl::Value(value)
            }
            (_, pattern) => pattern,
        })
    }

    /// A set of values of a case or an entry; `None`: anything.
    pub(super) fn pattern(&mut self, set: &Expr, ty: &Type) -> Option<PatternDecl> {
        let bits = self.bits(ty, set.span);
        let sized = |lower: &mut Self, expr: &Expr| {
            let value = lower.scalar(expr);
            match known(&value) {
                Some(value) => number(value & ones(bits), bits, expr.span),
                None => value,
            }
        };
        match &*set.kind {
            ExprKind::Any => None,
            ExprKind::Mask(value, mask) => {
                let (value, mask) = (sized(self, value), sized(self, mask));
                // Bits outside of the mask say nothing.
                let value = match (known(&value), known(&mask)) {
                    (Some(bits_of), Some(mask)) => number(bits_of & mask, bits, value.span),
                    _ => value,
                };
                Some(PatternDecl::Mask(value, mask))
            }
            ExprKind::Range(low, high) => {
                let (low, high) = (sized(self, low), sized(self, high));
                Some(PatternDecl::Range(low, high))
            }
            _ => Some(PatternDecl::Value(sized(self, set))),
        }
    }
}

fn value_span(value: &Val, otherwise: SourceSpan) -> SourceSpan {
    if let Val::Scalar(scalar) = value { scalar.span } else { otherwise }
}

/// Priorities in the same order that a table can have, which has none of 0.
fn ranked(priorities: Vec<u64>) -> Vec<u64> {
    if priorities.iter().all(|priority| (1..PRIORITY_MAX).contains(priority)) {
        return priorities;
    }
    let known: BTreeSet<u64> = priorities.iter().copied().collect();
    let ranks: BTreeMap<u64, u64> = known.into_iter().zip(1..).collect();
    priorities.iter().map(|priority| ranks[priority]).collect()
}

/// An expression as it is written, for the name of a key.
pub(super) fn shown(expr: &Expr) -> String {
    match &*expr.kind {
        ExprKind::Name(name, _) => name.value.to_string(),
        ExprKind::Member(of, name) => format!("{}.{}", shown(of), name.value),
        ExprKind::Index(of, index) => format!("{}[{}]", shown(of), shown(index)),
        ExprKind::Number(value, _) => value.to_string(),
        ExprKind::Slice(of, high, low) => format!("{}[{}:{}]", shown(of), shown(high), shown(low)),
        ExprKind::PlusSlice(of, base, width) => {
            format!("{}[{}+:{}]", shown(of), shown(base), shown(width))
        }
        ExprKind::Call { callee, .. } => match &*callee.kind {
            ExprKind::Member(of, name) if &*name.value == "isValid" => {
                format!("{}.$valid$", shown(of))
            }
            _ => format!("{}()", shown(callee)),
        },
        _ => "key".to_owned(),
    }
}
