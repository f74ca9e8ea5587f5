//! Actions and tables: ids and parameters first, then keys and entries, then the code of actions.

use super::cx::{Cx, Env, Place};
use super::declare::meter_kind;
use super::flow::Flow;
use super::header::Width;
use super::scope::Symbol;
use crate::ast::*;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::*;
use std::collections::HashMap;
use wireyard_tables::time::Span;
use wireyard_tables::{KeyLayout, MatchKind, SpecError};

/// Most tables and actions of a program.
const TABLES_MAX: usize = 256;
const ACTIONS_MAX: usize = 1024;
/// Most keys of a table.
const KEYS_MAX: usize = 256;
/// Most entries of a table.
const ENTRIES_MAX: u64 = 1 << 24;
/// Highest idle timeout of an entry: half a year and a month.
const IDLE_TIMEOUT_MS_MAX: u64 = Span::MAX.as_ns() / 1_000_000;
/// Most parameters of an action.
const PARAMS_MAX: usize = 32;

impl Cx<'_> {
    /// Ids and parameters of the actions in use; `nop` and `drop` come first.
    pub(crate) fn declare_actions(&mut self) {
        let builtin =
            |name: &str, body| Action { name: name.into(), params: Vec::new(), body, span: None };
        self.ir.actions.push(builtin("nop", Body::default()));
        let term = Term::Drop(BuiltinReason::Dropped.id());
        let block = Block { ops: Vec::new(), term, span: None };
        let drop = Body { blocks: [block].into_iter().collect(), locals: IdVec::new() };
        self.ir.actions.push(builtin("drop", drop));
        for index in 0..self.scope.actions.len() {
            let id = self.used(Symbol::Action(index)).then(|| self.declare_action(index)).flatten();
            self.ids.actions.push(id);
        }
    }

    fn declare_action(&mut self, index: usize) -> Option<ActionId> {
        let item = self.scope.actions.get(index).copied()?;
        if self.ir.actions.len() >= ACTIONS_MAX {
            let text = format!("a program has at most {ACTIONS_MAX} actions");
            return self.report.refuse(codes::LIMITS, item.name.span, text);
        }
        if item.decl.params.len() > PARAMS_MAX {
            let text = format!("an action has at most {PARAMS_MAX} parameters");
            return self.report.refuse(codes::LIMITS, item.name.span, text);
        }
        let mut params: Vec<Param> = Vec::new();
        for (name, ty) in &item.decl.params {
            if params.iter().any(|param| param.name == name.value) {
                let text = format!("parameter `{}` is declared twice", name.value);
                self.report.error(codes::TWICE, name.span, text);
                continue;
            }
            // A parameter of wrong width still counts: calls are checked against the number of them.
            let width = self.scalar_width(ty).unwrap_or(Width { bits: 0, display: Display::Hex });
            let (name, bits) = (name.value.clone(), width.bits as u32);
            params.push(Param { name, bits, display: width.display });
        }
        let (name, span) = (item.name.value.clone(), Some(item.name.span));
        Some(self.ir.actions.push(Action { name, params, body: Body::default(), span }))
    }

    /// The code of every action.
    pub(crate) fn action_bodies(&mut self) {
        for index in 0..self.scope.actions.len() {
            let Some(id) = self.ids.actions.get(index).copied().flatten() else { continue };
            let Some(item) = self.scope.actions.get(index).copied() else { continue };
            let params = self.ir.actions.get(id).map(|action| action.params.clone());
            self.env = Env::at(Place::Action);
            self.env.open();
            for ((name, _), param) in item.decl.params.iter().zip(params.iter().flatten()) {
                self.bind_param(name, param);
            }
            let mut flow = Flow::new();
            self.statements(&mut flow, &item.decl.body);
            flow.end(Term::Return, None);
            let body = self.finish_body(flow);
            if let Some(action) = self.ir.actions.iter_mut().nth(id.index()) {
                action.body = body;
            }
        }
    }

    /// Every table in use: keys, actions, default, entries.
    pub(crate) fn declare_tables(&mut self) {
        for index in 0..self.scope.tables.len() {
            let id = self.used(Symbol::Table(index)).then(|| self.declare_table(index)).flatten();
            self.ids.tables.push(id);
        }
    }

    fn declare_table(&mut self, index: usize) -> Option<TableId> {
        let item = self.scope.tables.get(index).copied()?;
        let (name, decl) = (item.name, item.decl);
        if self.ir.tables.len() >= TABLES_MAX {
            let text = format!("a program has at most {TABLES_MAX} tables");
            return self.report.refuse(codes::LIMITS, name.span, text);
        }
        self.env = Env::at(Place::Control);
        let (keys, selector_keys) = self.keys(decl);
        let (mut actions, complete) = self.table_actions(decl);
        let mut selector = self.selector(name, decl, selector_keys);
        if let (Some(selector), Some(written)) = (&mut selector, &decl.selector) {
            let empty = written.empty.as_ref();
            selector.empty = empty.map(|call| self.listed_call(call, "action", &actions, complete));
        }
        let default = self.default_call(decl, &actions, complete);
        if decl.default.is_none() && !actions.contains(&default.action) {
            actions.push(default.action);
        }
        let mut table = Table {
            name: name.value.clone(),
            keys,
            actions,
            default,
            const_default: decl.const_default,
            size: self.table_size(decl),
            entries: Vec::new(),
            const_entries: decl.const_entries,
            counters: decl.counters,
            meter: decl.meter.as_ref().map(meter_kind),
            idle_timeout_ms: decl.idle_timeout_ms.as_ref().map(|ms| ms.value),
            removes_idle: decl.removes_idle,
            selector,
            span: Some(name.span),
        };
        if self.key_words(&table) {
            self.program_entries(decl, &mut table);
        }
        Some(self.ir.tables.push(table))
    }

    fn table_size(&mut self, decl: &TableDecl) -> u32 {
        let Some(size) = &decl.size else { return 1024 };
        let Some(size) = self.size(size) else { return 1 };
        if !(1..=ENTRIES_MAX).contains(&size.value) {
            let text = format!("a table has 1 to {ENTRIES_MAX} entries, not {}", size.value);
            self.report.error(codes::LIMITS, size.span, text);
            return 1;
        }
        size.value as u32
    }

    /// Match keys and selector keys.
    fn keys(&mut self, decl: &TableDecl) -> (Vec<Key>, Vec<ExprId>) {
        let (mut keys, mut selector): (Vec<Key>, Vec<ExprId>) = (Vec::new(), Vec::new());
        let mut lpm: Option<SourceSpan> = None;
        if let Some(surplus) = decl.key.get(KEYS_MAX) {
            let text = format!("a table has at most {KEYS_MAX} keys, not {}", decl.key.len());
            self.report.error(codes::LIMITS, surplus.value.span, text);
        }
        for key in decl.key.iter().take(KEYS_MAX) {
            let value = self.sized(&key.value);
            if key.kind.value == "selector" {
                selector.extend(value);
                continue;
            }
            let Some(kind) = MatchKind::named(&key.kind.value) else {
                let text = format!("there is no match kind `{}`", key.kind.value);
                let names = MatchKind::NAMES.into_iter().chain(["selector"]);
                let note = self.report.error(codes::UNKNOWN, key.kind.span, text);
                note.did_you_mean(&key.kind.value, names)
                    .note("kinds: exact, lpm, ternary, range, optional, selector");
                continue;
            };
            if kind == MatchKind::Lpm {
                if let Some(first) = lpm {
                    let text = "a table has one lpm key";
                    self.report
                        .error(codes::TWO_LPM, key.kind.span, text)
                        .label(first, "the other one")
                        .help("make one of them `ternary`, and give entries a priority");
                }
                lpm = Some(key.kind.span);
            }
            let Some(value) = value else { continue };
            let name = self.key_name(key);
            if keys.iter().any(|known| known.name == name) {
                let text = format!("duplicate key `{name}`");
                let help = "give one a name of its own: `{ value: .., kind: .., name: .. }`";
                self.report.error(codes::TWICE, key.value.span, text).help(help);
                continue;
            }
            let (bits, display) = (self.bits(value), self.display_of(value));
            let field = MatchField { name, bits, kind, display };
            keys.push(Key { value, field });
        }
        (keys, selector)
    }

    fn key_name(&self, key: &KeyDecl) -> String {
        match (&key.name, &key.value.value) {
            (Some(name), _) => name.value.clone(),
            (None, Ast::Path(path)) if path.plain().is_some() => path.plain().unwrap_or_default(),
            _ => self.text(key.value.span, "key").to_string(),
        }
    }

    /// The display form of an expression's value.
    pub(crate) fn display_of(&self, id: ExprId) -> Display {
        let display = match self.ir.exprs.get(id).map(|expr| &expr.kind) {
            Some(ExprKind::Field(instance, field)) => {
                let instance = self.ir.instances.get(*instance);
                let header = instance.and_then(|instance| self.ir.headers.get(instance.header));
                header.and_then(|h| h.fields.get(*field)).map(|field| field.display)
            }
            Some(ExprKind::Meta(meta)) => self.ir.metadata.get(*meta).map(|meta| meta.display),
            Some(ExprKind::Std(StdField::IngressPort | StdField::EgressPort)) => {
                Some(Display::Decimal)
            }
            _ => None,
        };
        display.unwrap_or_default()
    }

    /// Checks that a key fits in the words that tables compare.
    fn key_words(&mut self, table: &Table) -> bool {
        let layout = KeyLayout::new(table.keys.iter().map(|key| key.bits));
        let Err(error @ SpecError::KeyTooWide { .. }) = layout else { return true };
        if let Some(span) = table.span {
            let text = format!("the key of table `{}` is too wide", table.name);
            self.report.error(codes::LIMITS, span, text).note(error.to_string());
        }
        false
    }

    /// The actions of a table; the flag is false when one was wrong.
    fn table_actions(&mut self, decl: &TableDecl) -> (Vec<ActionId>, bool) {
        let (mut actions, mut complete) = (Vec::new(), true);
        for name in &decl.actions {
            match self.action_ref(name) {
                Some(id) if actions.contains(&id) => {
                    let text = format!("action `{}` is listed twice", name.value);
                    self.report.error(codes::TWICE, name.span, text);
                }
                Some(id) => actions.push(id),
                None => complete = false,
            }
        }
        (actions, complete)
    }

    fn selector(&mut self, name: &Name, decl: &TableDecl, keys: Vec<ExprId>) -> Option<Selector> {
        let Some(selector) = &decl.selector else {
            if !keys.is_empty() {
                let text = "a key of kind `selector` needs `selector:` in the table";
                self.report
                    .error(codes::SELECTOR, name.span, text)
                    .help("add `selector: { hash: crc16, members: 256, groups: 64 }`");
            }
            return None;
        };
        if keys.is_empty() {
            let text = "a selector needs keys to hash: keys of kind `selector`";
            self.report.error(codes::SELECTOR, name.span, text);
        }
        let hash = self.hash_algorithm(&selector.hash)?;
        let limit = |cx: &mut Self, value: &Option<Size>, otherwise: u32| match value
            .as_ref()
            .and_then(|value| cx.size(value))
        {
            Some(value) if !(1..=65_536).contains(&value.value) => {
                let text = "a selector has 1 to 65536 members and groups";
                cx.report.error(codes::LIMITS, value.span, text);
                otherwise
            }
            Some(value) => value.value as u32,
            None => otherwise,
        };
        let max_members = limit(self, &selector.members, 1024);
        let max_groups = limit(self, &selector.groups, 256);
        Some(Selector { hash, keys, max_members, max_groups, empty: None })
    }

    /// The default action; `nop` when absent.
    fn default_call(
        &mut self,
        decl: &TableDecl,
        actions: &[ActionId],
        complete: bool,
    ) -> ActionCall {
        match &decl.default {
            Some(call) => self.listed_call(call, "default", actions, complete),
            None => ActionCall { action: ActionId(0), args: Vec::new() },
        }
    }

    /// A call that is the same for every packet: of one of the table's actions, with constant arguments.
    fn listed_call(
        &mut self,
        call: &AstExpr,
        what: &str,
        actions: &[ActionId],
        complete: bool,
    ) -> ActionCall {
        let nop = ActionCall { action: ActionId(0), args: Vec::new() };
        let Some((name, args)) = self.call_parts(call) else { return nop };
        let Some(action) = self.action_ref(name) else { return nop };
        if complete && !actions.contains(&action) {
            let text = format!("the {what} `{}` is not in `actions`", name.value);
            let listed: Vec<String> = actions.iter().map(|id| self.action_name(*id)).collect();
            let help = format!("add it to `actions: [{}]`", listed.join(", "));
            self.report.error(codes::NOT_LISTED, name.span, text).help(help);
        }
        match self.constant_args(action, args, call.span) {
            Some(args) => ActionCall { action, args },
            None => nop,
        }
    }

    pub(crate) fn action_name(&self, id: ActionId) -> String {
        self.ir.actions.get(id).map(|action| action.name.clone()).unwrap_or_default()
    }

    /// Constant arguments, for defaults and entries.
    pub(crate) fn constant_args(
        &mut self,
        action: ActionId,
        args: &[AstExpr],
        span: SourceSpan,
    ) -> Option<Vec<u128>> {
        let known = self.ir.actions.get(action)?;
        let (name, params) = (known.name.clone(), known.params.clone());
        self.constants_for(&name, &params, args, span)
    }

    /// The same for the parameters of a known action.
    pub(crate) fn constants_for(
        &mut self,
        name: &str,
        params: &[Param],
        args: &[AstExpr],
        span: SourceSpan,
    ) -> Option<Vec<u128>> {
        let args = self.in_order(name, params, args, span)?;
        let (mut values, mut good) = (Vec::with_capacity(params.len()), true);
        for (param, arg) in params.iter().zip(args) {
            match self.const_value(arg, Some(param.bits)) {
                Some(value) => values.push(value),
                None => good = false,
            }
        }
        good.then_some(values)
    }

    /// Checks that an entry runs an action that its table lists.
    pub(crate) fn listed_for_entries(
        &mut self,
        table: &Table,
        action: ActionId,
        name: &Name,
    ) -> bool {
        if table.actions.contains(&action) {
            return true;
        }
        let listed: Vec<String> = table.actions.iter().map(|id| self.action_name(*id)).collect();
        let text = format!("table `{}` does not list `{}`", table.name, name.value);
        let help = format!("its actions: {}", listed.join(", "));
        self.report.error(codes::NOT_LISTED, name.span, text).help(help);
        false
    }

    /// Entries that are part of the program.
    fn program_entries(&mut self, decl: &TableDecl, table: &mut Table) {
        if let (Some(first), true) = (decl.entries.first(), table.selector.is_some()) {
            let text = "entries of a table with a selector name members and groups";
            self.report
                .error(codes::SELECTOR, first.span, text)
                .help("write them in the entries file: `action: member(1)`");
            return;
        }
        if decl.entries.len() > table.size as usize {
            let span = decl.entries.get(table.size as usize).map(|entry| entry.span);
            let text =
                format!("{} entries do not fit in a table of {}", decl.entries.len(), table.size);
            if let Some(span) = span {
                self.report.error(codes::TOO_MANY_ENTRIES, span, text);
            }
        }
        let mut seen = HashMap::new();
        for entry in &decl.entries {
            self.env = Env::at(Place::Data);
            let found = self.entry_matches(table, entry);
            let Some((name, args)) = self.call_parts(&entry.action) else { continue };
            let Some(action) = self.action_ref(name) else { continue };
            let listed = self.listed_for_entries(table, action, name);
            let args = self.constant_args(action, args, entry.action.span);
            let (Some((matches, priority)), Some(args), true) = (found, args, listed) else {
                continue;
            };
            // One match can be written in several forms.
            let canonical = matches.iter().zip(&table.keys);
            let canonical: Vec<_> =
                canonical.map(|(one, key)| one.canonical(key.kind, key.bits)).collect();
            if let Some(first) = seen.get(&(canonical.clone(), priority)) {
                self.report
                    .error(codes::TWICE, entry.span, "this entry already exists")
                    .label(*first, "first here");
                continue;
            }
            seen.insert((canonical, priority), entry.span);
            let idle_timeout_ms = self.entry_timeout(table, entry);
            let meter = self.entry_meter(table, entry);
            if let Some(ns) = &entry.idle_timeout_ns {
                let text = "`idle_timeout_ns` is of an entries file";
                self.report.error(codes::ENTRY, ns.span, text).help("write `idle_timeout_ms`");
            }
            if let Some((_, span)) = &entry.counter {
                let text = "an entry of a program has counted nothing yet";
                self.report.error(codes::ENTRY, *span, text).help("write it in an entries file");
            }
            let call = ActionCall { action, args };
            let is_const = entry.is_const;
            table.entries.push(TableEntry {
                matches,
                priority,
                call,
                idle_timeout_ms,
                meter,
                is_const,
            });
        }
    }

    /// The idle timeout of an entry of a file, which has milliseconds or, where they are not exact, nanoseconds.
    pub(crate) fn exact_timeout(&mut self, table: &Table, entry: &EntryDecl) -> Option<Span> {
        let Some(ns) = &entry.idle_timeout_ns else {
            let ms = self.entry_timeout(table, entry);
            return (ms != 0).then(|| Span::from_ms(ms));
        };
        if table.idle_timeout_ms.is_none() {
            self.no_timeout(table, ns.span);
            return None;
        }
        let most = Span::MAX.as_ns();
        if ns.value > most {
            let text = format!("{} is more than {most}", ns.value);
            return self.report.refuse(codes::DOES_NOT_FIT, ns.span, text);
        }
        (ns.value != 0).then(|| Span::from_ns(ns.value))
    }

    fn no_timeout(&mut self, table: &Table, span: SourceSpan) {
        let text = format!("table `{}` has no idle timeout", table.name);
        self.report.error(codes::ENTRY, span, text).help("add `idle_timeout_ms:` to the table");
    }

    pub(crate) fn entry_timeout(&mut self, table: &Table, entry: &EntryDecl) -> u64 {
        match (&entry.idle_timeout_ms, table.idle_timeout_ms) {
            (Some(ms), None) => {
                self.no_timeout(table, ms.span);
                0
            }
            (Some(ms), Some(_)) if ms.value > IDLE_TIMEOUT_MS_MAX => {
                let text = format!("{} is more than {IDLE_TIMEOUT_MS_MAX}", ms.value);
                self.report.error(codes::DOES_NOT_FIT, ms.span, text);
                0
            }
            (Some(ms), Some(_)) => ms.value,
            // A constant entry does not age.
            (None, _) if table.const_entries || entry.is_const => 0,
            (None, default) => default.unwrap_or(0),
        }
    }
}
