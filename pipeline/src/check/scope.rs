//! The names of a program: the kind and place of each declaration.
//!
//! Headers with their instances, constants, actions, tables, controls, state and value sets share one space. Types,
//! parser errors, metadata (`meta.`) and CRCs are spaces of their own, because each occurs only where no other kind is
//! possible. Sub-parsers belong to their unit.

use super::header::BUILTIN;
use crate::ast::*;
use crate::diag::Diagnostics;
use crate::diag::codes;
use crate::ir::{BuiltinError, SourceSpan};
use crate::syntax::RESERVED;
use indexmap::IndexMap;

/// A declaration with the unit that holds it; unit 0 is the program.
pub(crate) struct Item<'a, T> {
    pub(crate) unit: usize,
    pub(crate) name: &'a Name,
    pub(crate) decl: &'a T,
}

// Not derived: that would require `Clone` of `T`, which is only referred to.
impl<T> Clone for Item<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Item<'_, T> {}

/// An instance or stack, including the implicit one of every header type.
#[derive(Clone, Copy)]
pub(crate) struct InstanceItem<'a> {
    pub(crate) name: &'a Name,
    /// Name of the header type.
    pub(crate) header: &'a Name,
    /// Elements of a stack.
    pub(crate) stack: Option<&'a Size>,
    /// True for the instance that comes with a header type.
    pub(crate) implied: bool,
}

/// The meaning of a name in the shared space: an index into the list of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Symbol {
    Instance(usize),
    Const(usize),
    Action(usize),
    Table(usize),
    Control(usize),
    Register(usize),
    Counter(usize),
    Meter(usize),
    Digest(usize),
    ValueSet(usize),
    /// `nop` and `drop`, the built-in actions.
    Builtin(u32),
}

impl Symbol {
    /// Its kind, with an article.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Symbol::Instance(_) => "a header",
            Symbol::Const(_) => "a constant",
            Symbol::Action(_) | Symbol::Builtin(_) => "an action",
            Symbol::Table(_) => "a table",
            Symbol::Control(_) => "a control",
            Symbol::Register(_) => "a register",
            Symbol::Counter(_) => "a counter",
            Symbol::Meter(_) => "a meter",
            Symbol::Digest(_) => "a digest",
            Symbol::ValueSet(_) => "a value set",
        }
    }
}

/// Most names that a program declares with its libraries, states of parsers apart.
const NAMES_MAX: usize = 8192;

/// Every declared name.
#[derive(Default)]
pub(crate) struct Scope<'a> {
    pub(crate) symbols: IndexMap<&'a str, (Symbol, Option<SourceSpan>)>,
    pub(crate) headers: IndexMap<&'a str, Item<'a, HeaderDecl>>,
    pub(crate) instances: Vec<InstanceItem<'a>>,
    pub(crate) consts: Vec<Item<'a, AstExpr>>,
    pub(crate) actions: Vec<Item<'a, ActionDecl>>,
    pub(crate) tables: Vec<Item<'a, TableDecl>>,
    pub(crate) controls: Vec<Item<'a, ControlDecl>>,
    pub(crate) registers: Vec<Item<'a, RegisterDecl>>,
    pub(crate) counters: Vec<Item<'a, CounterDecl>>,
    pub(crate) meters: Vec<Item<'a, MeterDecl>>,
    pub(crate) digests: Vec<Item<'a, Named<AstExpr>>>,
    pub(crate) value_sets: Vec<Item<'a, ValueSetDecl>>,
    pub(crate) types: IndexMap<&'a str, Item<'a, TypeRef>>,
    pub(crate) metadata: IndexMap<&'a str, Item<'a, MetaDecl>>,
    pub(crate) crcs: IndexMap<&'a str, Item<'a, CrcDecl>>,
    pub(crate) unions: IndexMap<&'a str, Item<'a, Vec<Name>>>,
    pub(crate) errors: IndexMap<&'a str, (usize, SourceSpan)>,
    /// The program has more declarations than it may, and that was reported.
    pub(crate) is_full: bool,
}

impl<'a> Scope<'a> {
    /// Collects the names of all units; the first declaration of a name counts.
    pub(crate) fn collect(units: &[&'a Unit], report: &mut Diagnostics) -> Scope<'a> {
        let mut scope = Scope::default();
        for (id, name) in ["nop", "drop"].into_iter().enumerate() {
            scope.symbols.insert(name, (Symbol::Builtin(id as u32), None));
        }
        for (unit, decls) in units.iter().enumerate() {
            scope.collect_headers(unit, decls, report);
        }
        for (unit, decls) in units.iter().enumerate() {
            scope.collect_instances(decls, report);
            scope.collect_lists(unit, decls, report);
            scope.collect_own_spaces(unit, decls, report);
            scope.count(decls, report);
        }
        scope
    }

    /// Counts towards the limit: later steps are quadratic in the number of names.
    fn count(&mut self, decls: &Unit, report: &mut Diagnostics) {
        let own = self.types.len() + self.metadata.len() + self.crcs.len() + self.errors.len();
        let own = own + self.unions.len();
        if self.is_full || self.symbols.len() + own <= NAMES_MAX {
            return;
        }
        self.is_full = true;
        let text = format!("a program declares at most {NAMES_MAX} names, with its libraries");
        let last = self.symbols.values().rev().find_map(|(_, span)| *span);
        match last.or(decls.name.as_ref().map(|name| name.span)) {
            Some(span) => report.error(codes::LIMITS, span, text),
            None => report.error_without_place(codes::LIMITS, text),
        };
    }

    fn collect_headers(&mut self, unit: usize, decls: &'a Unit, report: &mut Diagnostics) {
        for (name, decl) in &decls.headers {
            let index = self.instances.len();
            if self.declare(name, Symbol::Instance(index), report) {
                self.headers.insert(&name.value, Item { unit, name, decl });
                let implied = true;
                self.instances.push(InstanceItem { name, header: name, stack: None, implied });
            }
        }
    }

    /// Instances; one with the name of its own header type replaces the implied one.
    fn collect_instances(&mut self, decls: &'a Unit, report: &mut Diagnostics) {
        for (name, decl) in &decls.instances {
            let (header, stack) = (&decl.header, decl.stack.as_ref());
            let item = InstanceItem { name, header, stack, implied: false };
            if header.value == name.value
                && let Some((Symbol::Instance(index), _)) = self.symbols.get(name.value.as_str())
                && let Some(place) = self.instances.get_mut(*index)
                && place.implied
            {
                *place = item;
            } else if self.declare(name, Symbol::Instance(self.instances.len()), report) {
                self.instances.push(item);
            }
        }
    }

    /// What has a list of its kind and a name in the shared space.
    fn collect_lists(&mut self, unit: usize, decls: &'a Unit, report: &mut Diagnostics) {
        macro_rules! collect {
            ($($list:ident: $symbol:ident),* $(,)?) => {$(
                for (name, decl) in &decls.$list {
                    if self.declare(name, Symbol::$symbol(self.$list.len()), report) {
                        self.$list.push(Item { unit, name, decl });
                    }
                }
            )*};
        }
        collect!(
            consts: Const, actions: Action, tables: Table, controls: Control, registers: Register,
            counters: Counter, meters: Meter, digests: Digest, value_sets: ValueSet,
        );
    }

    fn collect_own_spaces(&mut self, unit: usize, decls: &'a Unit, report: &mut Diagnostics) {
        for (name, decl) in &decls.types {
            if BUILTIN.iter().any(|(known, ..)| *known == name.value) {
                let text = format!("`{}` is a type of the language", name.value);
                let why =
                    "every header that has a field of it would change, those of libraries too";
                report
                    .error(codes::RESERVED, name.span, text)
                    .note(why)
                    .help("choose another name");
            } else if own(&self.types, name, report) {
                self.types.insert(&name.value, Item { unit, name, decl });
            }
        }
        for (name, decl) in &decls.metadata {
            if own(&self.metadata, name, report) {
                self.metadata.insert(&name.value, Item { unit, name, decl });
            }
        }
        for (name, decl) in &decls.unions {
            if own(&self.unions, name, report) {
                self.unions.insert(&name.value, Item { unit, name, decl });
            }
        }
        for (name, decl) in &decls.crcs {
            if own(&self.crcs, name, report) {
                self.crcs.insert(&name.value, Item { unit, name, decl });
            }
        }
        for name in &decls.errors {
            let builtin = BuiltinError::ALL.iter().any(|error| error.name() == name.value);
            if builtin {
                let text = format!("the parser error `{}` already exists", name.value);
                report.error(codes::RESERVED, name.span, text);
            } else if let Some((_, first)) = self.errors.get(name.value.as_str()) {
                twice(name, Some(*first), report);
            } else {
                self.errors.insert(&name.value, (unit, name.span));
            }
        }
    }

    /// Adds a name to the shared space; false, with an error, if it is taken. A word of the language is added all the
    /// same, so that its uses cause no further errors.
    fn declare(&mut self, name: &'a Name, symbol: Symbol, report: &mut Diagnostics) -> bool {
        let is_word = RESERVED.contains(&name.value.as_str());
        if is_word {
            let text = format!("`{}` is a word of the language", name.value);
            report.error(codes::RESERVED, name.span, text).help("choose another name");
        }
        if let Some((_, first)) = self.symbols.get(name.value.as_str()) {
            if !is_word {
                twice(name, *first, report);
            }
            return false;
        }
        self.symbols.insert(&name.value, (symbol, Some(name.span)));
        true
    }

    /// The meaning of a name in the shared space.
    pub(crate) fn symbol(&self, name: &str) -> Option<Symbol> {
        self.symbols.get(element(name).0).map(|(symbol, _)| *symbol)
    }
}

/// Checks that a name is new in a space of its own.
fn own<T>(space: &IndexMap<&str, Item<'_, T>>, name: &Name, report: &mut Diagnostics) -> bool {
    match space.get(name.value.as_str()) {
        Some(first) => {
            twice(name, Some(first.name.span), report);
            false
        }
        None => true,
    }
}

/// Reports a second declaration.
fn twice(name: &Name, first: Option<SourceSpan>, report: &mut Diagnostics) {
    let note = report.error(codes::TWICE, name.span, format!("`{}` is declared twice", name.value));
    if let Some(first) = first {
        note.label(first, "first declared here");
    }
}
