//! Lowering: from the checked program to the tree that YAML makes.
//!
//! It walks the blocks of the architecture as a packet would, with an environment that says what each name stands for:
//! structs become metadata fields of their own, headers instances, parameters the storage of their arguments. Functions, directly
//! called actions and sub-parsers are inlined, controls become blocks of `controls`. Values that are known are put in place.

mod action;
mod again;
mod arch;
mod arguments;
mod assign;
mod brought;
mod build;
mod call;
mod called;
mod choice;
mod control;
mod convert;
mod emit;
mod env;
mod exit;
mod expr;
mod externs;
mod hash;
mod inside;
mod loops;
mod names;
mod need;
mod operate;
mod parser;
mod patterns;
mod psa;
mod register;
mod reparse;
mod rewrite;
mod runtime_loops;
mod scan;
mod share;
mod sink;
mod stacks;
mod standard;
mod stmt;
mod storage;
mod sum;
mod table;
mod unions;
mod unwritten;
mod v1model;
mod value_sets;
mod walk;
mod wide;
mod zero;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use super::tree::*;
use super::types::{Checked, Type};
use crate::ast::{self, Unit};
use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::ir::SourceSpan;
pub(super) use arch::not_run;
use env::{Env, Val};
use names::Names;
use need::Need;

/// Deepest nesting of calls and blocks that are inlined.
const DEPTH_MAX: usize = 64;
/// Most statements that are made.
const STATEMENTS_MAX: usize = 200_000;

/// The place of a program without declarations.
const NOWHERE: SourceSpan = SourceSpan { file: crate::ids::FileId(0), start: 0, end: 0 };

/// Where statements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Parser,
    Control,
    Action,
}

/// What `return` means here.
#[derive(Clone, Debug)]
enum Return {
    /// The language's own `return`.
    Native,
    /// This bit of metadata says that the rest is not run.
    Flag(ast::AstExpr),
}

/// What is made so far.
struct Lower<'a> {
    checked: &'a Checked,
    report: &'a mut Diagnostics,
    unit: Unit,
    names: Names,
    env: Env,
    root: Env,
    /// Statements of the list that is being made, and the lists around that it is made apart from, innermost last.
    out: Vec<ast::Stmt>,
    around: Vec<Vec<ast::Stmt>>,
    place: Place,
    /// What `return` does, innermost last.
    returns: Vec<Return>,
    /// Loops around, innermost last.
    iterations: Vec<loops::Iteration>,
    /// Storage that loops of this block kept elements in and that no loop around has, by its type.
    spare: HashMap<String, Vec<Val>>,
    /// What the calls around copy back when they end, innermost last: `exit` does it too.
    leaving: Vec<Vec<arguments::CopyOut>>,
    /// How many `exit` there are; and with them whatever depends on the control of the architecture that it is in.
    exits: usize,
    bound: usize,
    /// Statements before an `exit` that ends the pass; `alone`: it does not.
    epilogue: Vec<ast::Stmt>,
    alone: Option<exit::Alone>,
    /// The control of ingress or egress that is being made.
    pass: usize,
    /// Types in place of type parameters.
    types: Vec<(u32, Type)>,
    /// Header types by declaration and text.
    headers: HashMap<String, String>,
    /// Bits of the header types that are not whole bytes.
    unfilled: HashMap<String, u64>,
    /// Actions and tables that are made, by declaration and environment.
    actions: HashMap<String, String>,
    tables: HashMap<String, String>,
    /// Statements in front of the application of a table, by its name: what computes its keys.
    computed_keys: HashMap<String, Vec<ast::Stmt>>,
    /// Tables with an action profile that has no selector: the full name of the profile, the table.
    profiles: Vec<(String, String)>,
    /// Controls that were applied, by the number of their instance; and instances of types that are applied themselves, by the number of
    /// the instance around and the call.
    controls: HashMap<usize, control::Applied>,
    direct: HashMap<(usize, u32), Rc<env::BlockVal>>,
    /// The number of the instance that is being made.
    within: usize,
    errors: BTreeMap<Rc<str>, String>,
    /// States of the parser, and the one that is being made.
    states: ast::Named<ast::StateDecl>,
    state: parser::Current,
    arch: arch::Arch,
    /// Instances that leave, in order.
    emits: Vec<ast::Name>,
    emitting: emit::Emitting,
    /// Metadata with the lists of fields that it is in.
    listed: Vec<(String, Vec<u128>)>,
    lists: again::Lists,
    /// Headers for values that are not numbers: a varbit, or more than 128 bits.
    hidden: Vec<String>,
    /// Headers in what goes beside a packet of PSA.
    beside_headers: Vec<ast::Name>,
    /// Checksums that were updated and cannot be updated again.
    updated: BTreeSet<String>,
    /// Direct counters and meters that a table has.
    attached: BTreeSet<String>,
    /// The number of `next` of each stack that is counted.
    counters: HashMap<String, ast::AstExpr>,
    /// What the rounds before found, and what this one does.
    known: &'a BTreeSet<Need>,
    found: BTreeSet<Need>,
    /// Standard metadata that the device sets: what to know if it is written, and what it is when it is read.
    device_set: Vec<(Need, ast::AstExpr)>,
    /// The standard metadata of the parser, of ingress and of egress, and where fields that are 0 are read (W0115).
    standards: Vec<(standard::Half, env::Members)>,
    noted_zero: BTreeSet<(standard::Half, String)>,
    /// Places that were warned of: statements that are never reached, indices outside.
    noted: HashSet<SourceSpan>,
    /// Fields of it that the parser writes, and where they are,
    standard_parsed: HashMap<String, ast::AstExpr>,
    /// and those that ingress writes.
    standard_kept: HashMap<String, ast::AstExpr>,
    /// `egress_spec` of the control that is being made.
    spec_here: Option<ast::AstExpr>,
    /// `checksum_error` of the standard metadata.
    sum_error: Option<ast::AstExpr>,
    /// Declarations that something may write.
    written: std::collections::HashSet<u32>,
    /// Fields of metadata that are variables with one value for ever.
    constants: HashMap<String, u128>,
    /// How many lists were around when the body of the architecture's control began.
    body_level: usize,
    depth: usize,
    statements: usize,
    span: SourceSpan,
}

/// The tree of a program.
///
/// Whether a field of the standard metadata is ever written, and whether an argument of a control is the same in all applications, is known at the
/// end only. So what turns out to need storage is noted, and the program is lowered again with it.
pub(super) fn program(checked: &Checked, name: &str, report: &mut Diagnostics) -> Option<Unit> {
    let mut known = BTreeSet::new();
    loop {
        let mut said = Diagnostics::new();
        let (unit, found) = round(checked, name, &known, &mut said);
        if found.is_subset(&known) {
            report.append(said);
            return unit;
        }
        known.extend(found);
    }
}

/// The tree, made with what is known; and what else was found.
fn round(
    checked: &Checked,
    name: &str,
    known: &BTreeSet<Need>,
    report: &mut Diagnostics,
) -> (Option<Unit>, BTreeSet<Need>) {
    let mut lower = begin(checked, name, known, report);
    let is_whole = lower.main().is_some();
    lower.shared_profiles();
    (is_whole.then_some(lower.unit), lower.found)
}

/// The state of a round that has found nothing yet.
fn begin<'a>(
    checked: &'a Checked,
    name: &str,
    known: &'a BTreeSet<Need>,
    report: &'a mut Diagnostics,
) -> Lower<'a> {
    let root = env::root();
    let span = checked.decls.first().map_or(NOWHERE, |decl| decl.name.span);
    Lower {
        checked,
        report,
        unit: Unit { name: Some(ast::Sp::new(names::plain(name), span)), ..Unit::default() },
        names: Names::new(),
        env: root.clone(),
        root,
        out: Vec::new(),
        around: Vec::new(),
        place: Place::Control,
        returns: vec![Return::Native],
        iterations: Vec::new(),
        spare: HashMap::new(),
        leaving: Vec::new(),
        exits: 0,
        bound: 0,
        epilogue: Vec::new(),
        alone: None,
        pass: 0,
        types: Vec::new(),
        headers: HashMap::new(),
        unfilled: HashMap::new(),
        actions: HashMap::new(),
        tables: HashMap::new(),
        computed_keys: HashMap::new(),
        profiles: Vec::new(),
        controls: HashMap::new(),
        direct: HashMap::new(),
        within: 0,
        errors: BTreeMap::new(),
        states: Vec::new(),
        state: parser::Current::new(span),
        arch: arch::Arch::V1model,
        emits: Vec::new(),
        emitting: emit::Emitting::default(),
        listed: Vec::new(),
        lists: again::Lists::default(),
        hidden: Vec::new(),
        beside_headers: Vec::new(),
        updated: BTreeSet::new(),
        attached: BTreeSet::new(),
        counters: HashMap::new(),
        known,
        found: BTreeSet::new(),
        device_set: Vec::new(),
        standards: Vec::new(),
        noted_zero: BTreeSet::new(),
        noted: HashSet::new(),
        standard_parsed: HashMap::new(),
        standard_kept: HashMap::new(),
        spec_here: None,
        sum_error: None,
        written: unwritten::written(checked),
        constants: HashMap::new(),
        body_level: 0,
        depth: 0,
        statements: 0,
        span,
    }
}

impl Lower<'_> {
    /// Something of P4 that cannot be said in the language.
    fn unsupported(&mut self, span: SourceSpan, text: impl Into<String>) -> &mut Diagnostic {
        self.report.error(codes::P4_UNSUPPORTED, span, text)
    }

    /// Something that the architecture excludes, which the types of its declarations do not show.
    fn wrong_type(&mut self, span: SourceSpan, text: impl Into<String>) -> &mut Diagnostic {
        self.report.error(codes::P4_TYPE, span, text)
    }

    /// The type of an expression, with types in place of type parameters.
    fn type_of(&self, expr: &Expr) -> Type {
        let ty = self.checked.types.get(expr.id as usize).cloned().unwrap_or(Type::Any);
        self.concrete(&ty)
    }

    fn concrete(&self, ty: &Type) -> Type {
        if self.types.is_empty() { ty.clone() } else { super::types::substitute(ty, &self.types) }
    }

    /// The type of a declared variable or parameter.
    fn declared(&self, id: u32) -> Type {
        let ty = self.checked.declared.get(&id).cloned().unwrap_or(Type::Any);
        self.concrete(&ty)
    }

    /// Adds a statement.
    fn push(&mut self, kind: ast::StmtKind, span: SourceSpan) {
        self.note_late(&kind, span);
        if self.is_within_bounds(span) {
            self.out.push(ast::Stmt { kind, span });
        }
    }

    /// Counts a statement, or a call that is inlined; an error where there are too many.
    fn is_within_bounds(&mut self, span: SourceSpan) -> bool {
        self.statements += 1;
        if self.statements == STATEMENTS_MAX {
            let text = format!("this program becomes more than {STATEMENTS_MAX} statements");
            self.report.error(codes::LIMIT, span, text);
        }
        self.statements < STATEMENTS_MAX
    }

    /// The statements that `inner` makes, apart.
    fn apart<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> (T, Vec<ast::Stmt>) {
        let outer = std::mem::take(&mut self.out);
        self.around.push(outer);
        let value = inner(self);
        let outer = self.around.pop().unwrap_or_default();
        (value, std::mem::replace(&mut self.out, outer))
    }

    /// Runs `inner` in a scope of its own, or reports that there are too many in each other.
    fn inlined<T>(&mut self, span: SourceSpan, inner: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= DEPTH_MAX {
            let text = format!("calls are nested deeper than {DEPTH_MAX} levels");
            self.report.error(codes::RECURSION, span, text).help("does something call itself?");
            return None;
        }
        if !self.is_within_bounds(span) {
            return None;
        }
        self.depth += 1;
        let value = inner(self);
        self.depth -= 1;
        Some(value)
    }

    /// Names that control has for what is made.
    fn origin(&mut self) -> &mut crate::p4info::Origin {
        self.unit.origin.get_or_insert_default()
    }

    /// Binds a name in the innermost scope.
    fn bind(&self, id: u32, value: Val) {
        self.env.bind(id, value);
    }
}
