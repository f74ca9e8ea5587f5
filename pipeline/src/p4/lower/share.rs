//! Metadata that is not needed at the same time, in one place: only where a program has more of it than there may be.
//!
//! Statements run in their order, and none twice (the project's language has no loops after the parser). So two fields
//! share a place where all that mentions one stands before all that mentions the other, and the other is written before
//! it is read on every way through the program: what is read first is 0 at first. A field of the parser, of a digest or
//! of another pass has a place of its own.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Lower;
use super::rewrite::{self, two_names};
use crate::ast::{ApplyStmt, AstExpr, MetaDecl, Path, PathPart, Stmt, StmtKind, TypeRef, Unit};
use crate::ir::decl::METADATA_BYTES_MAX;

impl Lower<'_> {
    /// Gives fields of metadata one place where they can share it.
    pub(super) fn share_metadata(&mut self) {
        let bytes = |decl: &MetaDecl| bits(decl).div_ceil(8);
        if self.unit.metadata.iter().map(|(_, decl)| bytes(decl)).sum::<u64>() <= METADATA_BYTES_MAX
        {
            return;
        }
        let mut order = Order::of(&mut self.unit);
        order.control(&self.unit);
        let places = places(&self.unit, &order);
        rewrite::paths(&mut self.unit, &mut |path| {
            let place = two_names(path).filter(|(space, _)| *space == "meta");
            if let Some(place) = place.and_then(|(_, name)| places.get(name)).cloned()
                && let Some(PathPart::Name(name)) = path.parts.get_mut(1)
            {
                name.value = place;
            }
        });
        self.unit.metadata.retain(|(name, _)| !places.contains_key(&name.value));
    }
}

fn bits(decl: &MetaDecl) -> u64 {
    if let TypeRef::Bits(bits) = &decl.ty { bits.value } else { 0 }
}

/// The field whose place a field takes.
fn places(unit: &Unit, order: &Order) -> HashMap<String, String> {
    let mut fields: Vec<(&Span, u64, &str)> = Vec::new();
    for (name, decl) in &unit.metadata {
        let id = order.ids.get(&name.value);
        let span = id.filter(|id| !decl.carried && !order.fixed.contains(id));
        if let Some(span) = span.and_then(|id| order.spans.get(id)) {
            fields.push((span, bits(decl), &name.value));
        }
    }
    fields.sort_by_key(|(span, _, _)| (span.first, span.last));
    // Places of a width: where the last field in it ended, and the field that has its name.
    let mut free: BTreeMap<u64, Vec<(usize, &str)>> = BTreeMap::new();
    let mut places = HashMap::new();
    for (span, bits, name) in fields {
        let known = free.entry(bits).or_default();
        let found = known.iter_mut().find(|(last, _)| *last < span.first && !span.begins_as_zero);
        match found {
            Some((last, place)) => {
                *last = span.last;
                places.insert(name.to_owned(), (*place).to_owned());
            }
            None => known.push((span.last, name)),
        }
    }
    places
}

/// Where a field is mentioned first and last.
#[derive(Clone, Copy)]
struct Span {
    first: usize,
    last: usize,
    /// It is read where nothing may have been written.
    begins_as_zero: bool,
}

/// Fields that are written on every way to here; `None` where no way leads to.
type Written = Option<Vec<u64>>;

/// Statements in the order in which they run.
#[derive(Default)]
struct Order {
    ids: HashMap<String, usize>,
    spans: HashMap<usize, Span>,
    /// Fields that have a place of their own.
    fixed: HashSet<usize>,
    at: usize,
    written: Written,
    /// What is written where each block around returns.
    returned: Vec<Written>,
    /// At how many places each control, table and action runs; and fields that each control or action mentions that was met.
    calls: HashMap<String, usize>,
    met: HashMap<String, HashSet<usize>>,
    /// Fields of the bodies that are being read.
    within: Vec<HashSet<usize>>,
}

impl Order {
    fn of(unit: &mut Unit) -> Order {
        let numbered = unit.metadata.iter().enumerate();
        let ids = numbered.map(|(at, (name, _))| (name.value.clone(), at)).collect();
        let mut order = Order { ids, ..Order::default() };
        let mut fixed = HashSet::new();
        // Outside of controls, once for all: their paths are taken away for this.
        let (ingress, egress) = (unit.ingress.take(), unit.egress.take());
        let (actions, controls) =
            (std::mem::take(&mut unit.actions), std::mem::take(&mut unit.controls));
        let tables = std::mem::take(&mut unit.tables);
        rewrite::paths(unit, &mut |path| fixed.extend(order.field(path)));
        (unit.ingress, unit.egress) = (ingress, egress);
        (unit.actions, unit.controls, unit.tables) = (actions, controls, tables);
        order.fixed = fixed;
        order.count(unit);
        order
    }

    /// Counts the places where each control, table and action runs.
    fn count(&mut self, unit: &mut Unit) {
        let listed = unit.tables.iter().flat_map(|(_, table)| &table.actions);
        let mut keys: Vec<String> = listed.map(|name| key("action", &name.value)).collect();
        rewrite::lists(unit, &mut |list| {
            for one in list.iter() {
                keys.push(match &one.kind {
                    StmtKind::CallControl(name, _) => key("control", &name.value),
                    StmtKind::Call(name, _) => key("action", &name.value),
                    StmtKind::Apply(apply) => key("table", &apply.table.value),
                    _ => continue,
                });
            }
        });
        for key in keys {
            *self.calls.entry(key).or_default() += 1;
        }
    }

    fn is_once(&self, kind: &str, name: &str) -> bool {
        self.calls.get(&key(kind, name)) == Some(&1)
    }

    /// The field of metadata that a path is.
    fn field(&self, path: &Path) -> Option<usize> {
        let (space, name) = two_names(path)?;
        if space == "meta" { self.ids.get(name).copied() } else { None }
    }

    /// Ingress, then egress.
    fn control(&mut self, unit: &Unit) {
        for half in [&unit.ingress, &unit.egress].into_iter().flatten() {
            self.written = Some(vec![0; self.ids.len().div_ceil(64)]);
            self.returned.push(None);
            self.list(unit, &half.value);
            self.returned.pop();
        }
    }

    fn list(&mut self, unit: &Unit, list: &[Stmt]) {
        list.iter().for_each(|one| self.statement(unit, one));
    }

    fn mention(&mut self, field: usize, begins_as_zero: bool) {
        let at = self.at;
        let new = Span { first: at, last: at, begins_as_zero: false };
        let span = self.spans.entry(field).or_insert(new);
        span.last = at;
        span.begins_as_zero |= begins_as_zero;
        if let Some(within) = self.within.last_mut() {
            within.insert(field);
        }
    }

    fn is_written(&self, field: usize) -> bool {
        self.written.as_ref().is_none_or(|bits| bits[field / 64] >> (field % 64) & 1 == 1)
    }

    fn read(&mut self, expr: &AstExpr) {
        let mut fields = Vec::new();
        expr.value.paths(&mut |path| fields.extend(self.field(path)));
        for field in fields {
            self.mention(field, !self.is_written(field));
        }
    }

    fn statement(&mut self, unit: &Unit, statement: &Stmt) {
        self.at += 1;
        match &statement.kind {
            StmtKind::Assign(to, bounds, value) => {
                self.read(value);
                let Some(field) = self.field(&to.value) else {
                    // An index may be computed.
                    return self.reads_of(statement);
                };
                self.mention(field, bounds.is_some() && !self.is_written(field));
                if let (None, Some(written)) = (bounds, &mut self.written) {
                    written[field / 64] |= 1 << (field % 64);
                }
            }
            StmtKind::If(condition, then, other) => {
                self.read(condition);
                self.ways(unit, [then.as_slice(), other.as_slice()].into_iter());
            }
            StmtKind::Switch(value, cases, default) => {
                self.read(value);
                let bodies = cases.iter().map(|(_, body)| body.as_slice());
                self.ways(unit, bodies.chain([default.as_slice()]));
            }
            StmtKind::Apply(apply) => self.apply(unit, apply),
            StmtKind::CallControl(name, args) => {
                args.iter().for_each(|arg| self.read(arg));
                let found = unit.controls.iter().find(|(known, _)| known.value == name.value);
                if let Some((_, control)) = found {
                    let is_once = self.is_once("control", &name.value);
                    self.body(unit, key("control", &name.value), &control.body, is_once);
                }
            }
            StmtKind::Return => {
                let written = self.written.take();
                if let Some(returned) = self.returned.last_mut() {
                    *returned = both(returned.take(), written);
                }
            }
            StmtKind::Exit => self.written = None,
            StmtKind::Update { body, .. } => {
                self.reads_of(statement);
                self.list(unit, body);
            }
            StmtKind::Call(name, _) => {
                self.reads_of(statement);
                self.action(unit, &name.value, true);
            }
            _ => self.reads_of(statement),
        }
    }

    /// The body of an action, if there is one of this name.
    fn action(&mut self, unit: &Unit, name: &str, is_once: bool) {
        if let Some((_, action)) = unit.actions.iter().find(|(known, _)| known.value == *name) {
            let is_once = is_once && self.is_once("action", name);
            self.body(unit, key("action", name), &action.body, is_once);
        }
    }

    /// All paths of a statement are read.
    fn reads_of(&mut self, statement: &Stmt) {
        let mut fields = Vec::new();
        rewrite::in_statement(&mut statement.clone(), &mut |path| fields.extend(self.field(path)));
        for field in fields {
            self.mention(field, !self.is_written(field));
        }
    }

    /// One of these runs.
    fn ways<'s>(&mut self, unit: &Unit, bodies: impl Iterator<Item = &'s [Stmt]>) {
        let before = self.written.clone();
        let mut after = None;
        for body in bodies {
            self.written = before.clone();
            self.list(unit, body);
            after = both(after, self.written.take());
        }
        self.written = after;
    }

    fn apply(&mut self, unit: &Unit, apply: &ApplyStmt) {
        let Some((_, table)) =
            unit.tables.iter().find(|(known, _)| known.value == apply.table.value)
        else {
            return;
        };
        table.key.iter().for_each(|key| self.read(&key.value));
        let before = self.written.clone();
        let is_once = self.is_once("table", &apply.table.value);
        for name in &table.actions {
            self.action(unit, &name.value, is_once);
            // Another one may have run.
            self.written = before.clone();
        }
        let bodies = [&apply.hit, &apply.miss].into_iter().map(Vec::as_slice);
        let bodies = bodies.chain(apply.actions.iter().map(|(_, body)| body.as_slice()));
        self.ways(unit, bodies);
    }

    /// The body of a control or action, which is read where it is met first: elsewhere what it mentions is mentioned again. Of one that runs
    /// at several places nothing is known to be written when it begins.
    fn body(&mut self, unit: &Unit, key: String, body: &[Stmt], is_once: bool) {
        if let Some(fields) = self.met.get(&key).cloned() {
            fields.into_iter().for_each(|field| self.mention(field, false));
            return;
        }
        let before = self.written.clone();
        if !is_once && let Some(written) = &mut self.written {
            written.fill(0);
        }
        self.within.push(HashSet::new());
        self.returned.push(None);
        self.list(unit, body);
        let returned = self.returned.pop().flatten();
        let fields = self.within.pop().unwrap_or_default();
        if let Some(around) = self.within.last_mut() {
            around.extend(&fields);
        }
        self.met.insert(key, fields);
        let after = both(returned, self.written.take());
        self.written = match (after, before) {
            (Some(after), Some(before)) => {
                Some(after.iter().zip(&before).map(|(a, b)| a | b).collect())
            }
            (after, _) => after,
        };
    }
}

/// A control, table or action.
fn key(kind: &str, name: &str) -> String {
    format!("{kind} {name}")
}

/// What is written on both ways.
fn both(a: Written, b: Written) -> Written {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.iter().zip(&b).map(|(a, b)| a & b).collect()),
        (a, b) => a.or(b),
    }
}
