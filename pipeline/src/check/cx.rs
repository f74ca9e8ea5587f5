//! The state of a compilation: the IR under construction, the ids of what is declared, and the environment of the code
//! that is being lowered.

use super::ExternRegistry;
use super::expr::Val;
use super::int::Int;
use super::scope::{Scope, Symbol};
use super::uses::Uses;
use crate::ast::{Name, Unit};
use crate::diag::{Diagnostics, codes};
use crate::ids::*;
use crate::ir::code::Local;
use crate::ir::{Param, Program, SourceSpan};
use crate::source::declared_in;
use indexmap::IndexMap;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Names with which a path of the language begins: a local of that name would hide it.
const ROOTS: [&str; 7] = ["std", "meta", "error", "link", "path", "cursor", "CPU_PORT"];
/// Most local names of a block.
const LOCALS_MAX: usize = 2048;

/// The meaning of an instance name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstanceRef {
    /// One header.
    One(InstanceId),
    /// A stack.
    Stack(StackId),
}

/// The context of an expression or statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a declaration: table keys, checksums.
    #[default]
    Data,
    /// In a constant: nothing of a packet has a value.
    Constant,
    /// In the length of this instance's variable field: only fields of its own header.
    Header(InstanceId),
    /// In the parser.
    Parser,
    /// In ingress, egress or a block that they call.
    Control,
    /// In an action.
    Action,
}

/// The meaning of a local name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Binding {
    /// Its value was wrong.
    Poison,
    /// A local and its width.
    Value(LocalId, u32),
    /// A constant, with its width if it has one.
    Constant(u128, Option<u32>),
    /// A register entry under update: its first cell.
    Entry { register: usize, first: LocalId },
}

/// The environment of a piece of code.
#[derive(Default)]
pub(crate) struct Env {
    pub(crate) place: Place,
    /// True inside `update`.
    pub(crate) in_update: bool,
    /// Instances of a sub-parser and those that replace them.
    pub(crate) bind: Vec<(String, String)>,
    /// Constants of a checked program, for its entries file.
    constants: BTreeMap<String, (u128, Option<u32>)>,
    /// Local names, the innermost block last.
    blocks: Vec<Vec<(String, Binding, SourceSpan)>>,
}

impl Env {
    /// A new place without locals.
    pub(crate) fn at(place: Place) -> Env {
        Env { place, ..Env::default() }
    }

    pub(crate) fn open(&mut self) {
        self.blocks.push(Vec::new());
    }

    /// Declares a constant.
    pub(crate) fn bind_constant(&mut self, name: &str, value: u128, bits: Option<u32>) {
        self.constants.insert(name.to_string(), (value, bits));
    }

    pub(crate) fn close(&mut self) {
        self.blocks.pop();
    }

    pub(crate) fn local(&self, name: &str) -> Option<Binding> {
        let mut names = self.blocks.iter().rev().flat_map(|block| block.iter().rev());
        let found = names.find(|(known, ..)| known == name).map(|(_, binding, _)| *binding);
        let constant = || self.constants.get(name).map(|(v, bits)| Binding::Constant(*v, *bits));
        found.or_else(constant)
    }

    pub(crate) fn local_names(&self) -> Vec<String> {
        let constants = self.constants.keys().cloned();
        self.blocks.iter().flatten().map(|(name, ..)| name.clone()).chain(constants).collect()
    }

    /// The instance that a name refers to inside a bound sub-parser.
    pub(crate) fn bound<'n>(&'n self, name: &'n str) -> &'n str {
        self.bind.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to)
    }
}

/// The ids of what is declared, by index in the scope; `None` for what is unused or wrong.
#[derive(Default)]
pub(crate) struct Ids {
    pub(crate) headers: IndexMap<String, HeaderId>,
    /// Header types with errors: their missing fields are not reported again.
    pub(crate) broken: BTreeSet<HeaderId>,
    pub(crate) instances: Vec<Option<InstanceRef>>,
    pub(crate) metadata: IndexMap<String, MetaId>,
    pub(crate) actions: Vec<Option<ActionId>>,
    pub(crate) tables: Vec<Option<TableId>>,
    pub(crate) registers: Vec<Option<RegisterId>>,
    pub(crate) counters: Vec<Option<CounterId>>,
    pub(crate) meters: Vec<Option<MeterId>>,
    pub(crate) digests: Vec<Option<DigestId>>,
    pub(crate) value_sets: Vec<Option<ValueSetId>>,
    pub(crate) crcs: IndexMap<String, CrcId>,
}

/// A constant: not evaluated, being evaluated, or evaluated.
pub(crate) enum ConstState {
    New,
    Busy,
    Number(Int),
    Sized(u128, u32),
    Poison,
}

/// A compilation.
pub(crate) struct Cx<'a> {
    pub(crate) units: &'a [&'a Unit],
    pub(crate) scope: Scope<'a>,
    pub(crate) uses: Uses,
    pub(crate) report: Diagnostics,
    pub(crate) ir: Program,
    pub(crate) ids: Ids,
    pub(crate) env: Env,
    /// The fields that stand for slices of wide fields: header, field, highest and lowest bit.
    pub(crate) parts: HashMap<(HeaderId, FieldId, u32, u32), FieldId>,
    /// Locals of the body that is being lowered.
    pub(crate) locals: IdVec<LocalId, Local>,
    pub(crate) consts: Vec<ConstState>,
    /// Nesting of the expression, and of the statements, that are being lowered.
    pub(crate) depth: usize,
    /// The expression being lowered is nested too deep, and that was reported.
    pub(crate) is_too_deep: bool,
    pub(crate) nesting: usize,
    /// Controls that are being inlined, and those that were.
    pub(crate) controls: Vec<usize>,
    pub(crate) called_controls: BTreeSet<usize>,
    /// The control is lowered only for its own errors; those that it calls are checked elsewhere.
    pub(crate) lowers_alone: bool,
    /// Statements that are reached somewhere, and those that are not reached where their code stands.
    pub(crate) reached: HashSet<SourceSpan>,
    pub(crate) unreached: Vec<SourceSpan>,
    /// Names in the conditions around the code that is being lowered.
    pub(crate) guards: Vec<String>,
    /// Sub-parsers that were called, and those that are being copied.
    pub(crate) called: BTreeSet<(usize, String)>,
    pub(crate) calls: Vec<(usize, String)>,
    /// How many states the program's own parser has, before those of uncalled sub-parsers.
    pub(crate) main_states: usize,
    /// States or headers are missing because of an error that was reported: consequences are not reported.
    pub(crate) incomplete: bool,
    /// Places of the operations of each parser state.
    pub(crate) op_spans: Vec<Vec<SourceSpan>>,
    /// Names of the pads behind the body.
    pub(crate) pads: Vec<Option<String>>,
    /// The metadata with the length of a variable part that `extract(h, bits)` gave, by header.
    pub(crate) given_lengths: BTreeMap<InstanceId, MetaId>,
    /// The other headers of its union, by header.
    pub(crate) rivals: BTreeMap<InstanceId, Vec<InstanceId>>,
    pub(crate) externs: &'a ExternRegistry,
    /// Libraries that could have been included, to name the one that is missing.
    pub(crate) embedded: &'static [(&'static str, &'static str)],
    /// Declarations of these libraries, read on first use.
    declared: OnceCell<BTreeMap<String, &'static str>>,
}

impl<'a> Cx<'a> {
    /// A compilation at its start.
    pub(crate) fn new(
        units: &'a [&'a Unit],
        scope: Scope<'a>,
        uses: Uses,
        ir: Program,
        externs: &'a ExternRegistry,
    ) -> Cx<'a> {
        let consts = scope.consts.iter().map(|_| ConstState::New).collect();
        Cx {
            units,
            scope,
            uses,
            report: Diagnostics::new(),
            ir,
            ids: Ids::default(),
            env: Env::default(),
            parts: HashMap::new(),
            locals: IdVec::new(),
            consts,
            depth: 0,
            is_too_deep: false,
            nesting: 0,
            controls: Vec::new(),
            called_controls: BTreeSet::new(),
            lowers_alone: false,
            reached: HashSet::new(),
            unreached: Vec::new(),
            guards: Vec::new(),
            called: BTreeSet::new(),
            calls: Vec::new(),
            main_states: 0,
            incomplete: false,
            op_spans: Vec::new(),
            pads: Vec::new(),
            given_lengths: BTreeMap::new(),
            rivals: BTreeMap::new(),
            externs,
            embedded: &[],
            declared: OnceCell::new(),
        }
    }

    /// The source text of a span when it is short and on one line, else `otherwise`.
    pub(crate) fn text<'t>(&'t self, span: SourceSpan, otherwise: &'t str) -> &'t str {
        let file = self.ir.files.get(span.file);
        let text = file.and_then(|f| f.text.get(span.start as usize..span.end as usize));
        // A whole statement or expression may stand in quotes of YAML.
        let quote = |quote: char| text?.strip_prefix(quote)?.strip_suffix(quote);
        match quote('"').or(quote('\'')).or(text) {
            Some(text) if !text.is_empty() && text.len() <= 60 && !text.contains('\n') => text,
            _ => otherwise,
        }
    }

    /// The meaning of an instance of the scope; `None` when the program does not use it.
    pub(crate) fn instance_ref(&self, index: usize) -> Option<InstanceRef> {
        self.ids.instances.get(index).copied().flatten()
    }

    /// A device extern by name.
    pub(crate) fn external(&self, name: &str) -> Option<ExternId> {
        self.externs.signatures().entries().find(|(_, known)| known.name == name).map(|(id, _)| id)
    }

    /// Declares a local name; twice in one block is an error.
    pub(crate) fn bind_local(&mut self, name: &Name, binding: Binding) {
        if ROOTS.contains(&name.value.as_str()) {
            let text = format!("`{}` is a word of the language", name.value);
            self.report.error(codes::RESERVED, name.span, text).help("choose another name");
            return;
        }
        if self.env.blocks.is_empty() {
            self.env.open();
        }
        let Some(block) = self.env.blocks.last_mut() else { return };
        match block.iter().find(|(known, ..)| *known == name.value) {
            Some((_, _, first)) => {
                let (first, text) = (*first, format!("`{}` is declared twice", name.value));
                self.report
                    .error(codes::TWICE, name.span, text)
                    .label(first, "first declared here");
            }
            None if block.len() == LOCALS_MAX => {
                let text = format!("a block has at most {LOCALS_MAX} local names");
                self.report.error(codes::LIMITS, name.span, text);
            }
            None => block.push((name.value.clone(), binding, name.span)),
        }
    }

    /// Declares a parameter as a local of the current body. One without a width was reported.
    pub(crate) fn bind_param(&mut self, name: &Name, param: &Param) {
        let local = self.new_local(&param.name, param.bits);
        self.bind_argument(name, local, param.bits);
    }

    /// The same for a local that has the value of the argument.
    pub(crate) fn bind_argument(&mut self, name: &Name, local: LocalId, bits: u32) {
        let binding = if bits == 0 { Binding::Poison } else { Binding::Value(local, bits) };
        self.bind_local(name, binding);
    }

    /// A new local of the current body.
    pub(crate) fn new_local(&mut self, name: &str, bits: u32) -> LocalId {
        self.locals.push(Local { name: name.to_string(), bits })
    }

    /// Reports a name that is undeclared, or of another kind than `wanted`.
    pub(crate) fn no_such(&mut self, name: &Name, wanted: &str, is_wanted: fn(Symbol) -> bool) {
        let found = self.scope.symbol(&name.value);
        let known = self.scope.symbols.iter().filter(|(_, (symbol, _))| is_wanted(*symbol));
        let names = known.map(|(name, _)| *name);
        match found {
            Some(symbol) => {
                let text = format!("`{}` is {}, not {wanted}", name.value, symbol.kind());
                self.report.error(codes::WRONG_KIND, name.span, text);
            }
            None => {
                let text = format!("there is no {} `{}`", bare(wanted), name.value);
                let library =
                    is_wanted(Symbol::Instance(0)).then(|| self.library_with(&name.value));
                let error = self.report.error(codes::UNKNOWN, name.span, text);
                if let Some(help) = library.flatten() {
                    error.help(help);
                } else if is_wanted(Symbol::Instance(0)) {
                    error.did_you_mean(&name.value, names);
                } else if !error.did_you_mean_or_list(&name.value, &names.collect::<Vec<_>>())
                    && let Some(section) = declaration(bare(wanted), &name.value)
                {
                    error.help(format!("declare it: `{section}`"));
                }
            }
        }
    }

    /// Help for a header that no included file declares, but a library does.
    pub(crate) fn library_with(&self, header: &str) -> Option<String> {
        let declared = self.declared.get_or_init(|| declared_in(self.embedded));
        let library = declared.get(header)?;
        Some(format!("the library `{library}` has it: `include: [{library}]`"))
    }

    /// The value of a constant of the scope, computed when it is first needed.
    pub(crate) fn const_named(&mut self, index: usize, span: SourceSpan) -> Option<Val> {
        if let Some(ConstState::New) = self.consts.get(index) {
            self.compute_const(index);
        }
        match self.consts.get(index)? {
            ConstState::Number(number) => Some(Val::Int(*number)),
            ConstState::Sized(value, bits) => {
                let (value, bits) = (*value, *bits);
                Some(Val::Typed(self.constant(value, bits, span)))
            }
            ConstState::Busy => {
                let text = "this constant is defined by itself";
                let name = self.scope.consts.get(index)?.name;
                self.report
                    .error(codes::CONST_CYCLE, span, text)
                    .label(name.span, format!("`{}` is computed from here", name.value));
                None
            }
            ConstState::New | ConstState::Poison => None,
        }
    }

    fn compute_const(&mut self, index: usize) {
        let Some(item) = self.scope.consts.get(index).copied() else { return };
        self.set_const(index, ConstState::Busy);
        let env = std::mem::replace(&mut self.env, Env::at(Place::Constant));
        let value = self.value(item.decl);
        self.env = env;
        let state = match value {
            Val::Int(number) => ConstState::Number(number),
            Val::Typed(id) => match crate::ir::eval::constant(&self.ir.exprs, id) {
                Some(value) => ConstState::Sized(value, self.bits(id)),
                None => {
                    let text = format!("`{}` is not a constant", item.name.value);
                    self.report.error(codes::NOT_CONSTANT, item.decl.span, text);
                    ConstState::Poison
                }
            },
            Val::Open(_) => {
                let text = format!("`{}` is not a constant", item.name.value);
                self.report.error(codes::NOT_CONSTANT, item.decl.span, text);
                ConstState::Poison
            }
            Val::Poison => ConstState::Poison,
        };
        self.set_const(index, state);
    }

    fn set_const(&mut self, index: usize, state: ConstState) {
        if let Some(slot) = self.consts.get_mut(index) {
            *slot = state;
        }
    }
}

/// How a small array is declared.
fn declaration(kind: &str, name: &str) -> Option<String> {
    match kind {
        "counter" | "meter" => Some(format!("{kind}s: {{ {name}: 4 }}")),
        "register" => Some(format!("registers: {{ {name}: {{ bits: 32, size: 4 }} }}")),
        _ => None,
    }
}

/// `a table` without its article.
fn bare(wanted: &str) -> &str {
    wanted.trim_start_matches("an ").trim_start_matches("a ")
}
