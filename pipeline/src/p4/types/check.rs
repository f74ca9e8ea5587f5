//! What the checker carries along, and its order of work.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::super::parse::Tree;
use super::super::tree::*;
use super::{CallInfo, Checked, Const, Def, Type};
use crate::diag::{Code, Diagnostic, Diagnostics, codes};
use crate::ir::SourceSpan;

/// Where the statements being checked stand.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Top,
    Parser,
    Control,
    Action,
    /// A function, with its result.
    Function(Type),
}

/// A name in a scope.
#[derive(Clone, Debug)]
pub(super) enum Name {
    Decl(Rc<Decl>),
    Param(u32, Direction, Type),
    TypeVar(Type),
}

/// The checker.
pub(super) struct Checker<'r> {
    pub(super) report: &'r mut Diagnostics,
    pub(super) scopes: Vec<HashMap<Rc<str>, Vec<Name>>>,
    pub(super) types: Vec<Type>,
    pub(super) defs: HashMap<u32, Def>,
    pub(super) calls: HashMap<u32, CallInfo>,
    pub(super) declared: HashMap<u32, Type>,
    pub(super) consts: HashMap<u32, Const>,
    pub(super) errors: Vec<Rc<str>>,
    pub(super) match_kinds: Vec<Rc<str>>,
    pub(super) infers: Vec<Option<Type>>,
    pub(super) vars: u32,
    pub(super) place: Place,
    pub(super) loops: usize,
    /// The range being checked is that of a loop, which may be empty.
    pub(super) is_loop_range: bool,
    /// Inside the local declarations of a parser or control: the number of it.
    pub(super) inside: Vec<u32>,
    /// Instances of parsers and controls in the one that is checked, with it, and those of each before.
    pub(super) instances: u32,
    pub(super) instances_of: HashMap<u32, u32>,
    /// Inside a parser.
    pub(super) in_parser: bool,
    /// Parameters of constructors, which are known where an instance is.
    pub(super) constructor_params: Vec<u32>,
    /// Parameters without a direction.
    pub(super) directionless: HashSet<u32>,
    /// Names in what could not be read.
    cut: HashSet<Rc<str>>,
    /// What the program declares, and the parser or control that is checked: each is a name only behind its declaration.
    pub(super) all: Vec<Vec<Rc<Decl>>>,
}

/// Checks a program.
pub(in crate::p4) fn check(tree: Tree, report: &mut Diagnostics) -> Checked {
    let mut checker = Checker {
        report,
        scopes: vec![HashMap::new()],
        types: vec![Type::Any; tree.expressions as usize],
        defs: HashMap::new(),
        calls: HashMap::new(),
        declared: HashMap::new(),
        consts: HashMap::new(),
        errors: Vec::new(),
        match_kinds: Vec::new(),
        infers: Vec::new(),
        vars: 0,
        place: Place::Top,
        loops: 0,
        is_loop_range: false,
        inside: Vec::new(),
        instances: 0,
        instances_of: HashMap::new(),
        in_parser: false,
        constructor_params: Vec::new(),
        directionless: HashSet::new(),
        cut: tree.cut,
        all: vec![tree.decls.clone()],
    };
    for decl in &tree.decls {
        checker.declaration(decl);
    }
    checker.main_is_a_package(&tree.decls);
    for ty in &mut checker.types {
        if has_infer(ty) {
            *ty = super::infer::resolved(&checker.infers, ty);
        }
    }
    let mut calls = std::mem::take(&mut checker.calls);
    for call in calls.values_mut() {
        for (_, ty) in &mut call.types {
            *ty = super::infer::resolved(&checker.infers, ty);
        }
    }
    let Checker { types, defs, declared, consts, .. } = checker;
    Checked { decls: tree.decls, types, defs, calls, declared, consts, radixes: tree.radixes }
}

fn has_infer(ty: &Type) -> bool {
    !matches!(ty, Type::Bit(_) | Type::Int(_) | Type::Bool | Type::Integer | Type::Any)
}

impl Checker<'_> {
    pub(super) fn error(
        &mut self,
        code: Code,
        span: SourceSpan,
        text: impl Into<String>,
    ) -> &mut Diagnostic {
        self.report.error(code, span, text)
    }

    /// Types that do not fit.
    pub(super) fn type_error(
        &mut self,
        span: SourceSpan,
        text: impl Into<String>,
    ) -> &mut Diagnostic {
        self.report.error(codes::P4_TYPE, span, text)
    }

    /// Notes the type of an expression.
    pub(super) fn note(&mut self, expr: &Expr, ty: Type) -> Type {
        if let Some(slot) = self.types.get_mut(expr.id as usize) {
            slot.clone_from(&ty);
        }
        ty
    }

    /// The type that was noted for an expression.
    pub(super) fn noted(&self, expr: &Expr) -> Type {
        self.types.get(expr.id as usize).cloned().unwrap_or(Type::Any)
    }

    pub(super) fn open(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// Declares a name in the innermost scope; functions and actions may be there several times.
    pub(super) fn bind(&mut self, name: &Ident, what: Name) {
        let may_overload = |one: &Name| match one {
            Name::Decl(decl) => matches!(decl.kind, DeclKind::Function(_) | DeclKind::Extern(_)),
            _ => false,
        };
        let Some(scope) = self.scopes.last_mut() else { return };
        let known = scope.entry(name.value.clone()).or_default();
        let clashes = known.iter().any(|one| !(may_overload(one) && may_overload(&what)));
        if clashes {
            let text = format!("`{}` is declared twice", name.value);
            let first = match known.first() {
                Some(Name::Decl(decl)) => Some(decl.name.span),
                _ => None,
            };
            let error = self.report.error(codes::TWICE, name.span, text);
            if let Some(first) = first {
                error.label(first, "first here");
            }
            return;
        }
        known.push(what);
    }

    /// All meanings of a name in the innermost scope that declares it.
    pub(super) fn find(&self, name: &str, global: bool) -> Option<&[Name]> {
        let scopes = if global { &self.scopes[..1] } else { &self.scopes[..] };
        scopes.iter().rev().find_map(|scope| scope.get(name)).map(Vec::as_slice)
    }

    /// Every name that is known here, for suggestions.
    pub(super) fn known_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .scopes
            .iter()
            .flat_map(|scope| scope.keys())
            .map(|name| name.to_string())
            .collect();
        names.sort();
        names
    }

    /// Reports a name that is not declared here (`kind` and a blank, or nothing, in front of it); nothing for one that could not be read.
    pub(super) fn unknown(&mut self, kind: &str, name: &Ident) {
        if self.cut.contains(&name.value) {
            return;
        }
        let below = self.all.iter().rev().flatten().find(|decl| decl.name.value == name.value);
        let below = below.map(|decl| (decl.name.span, matches!(decl.kind, DeclKind::Table(_))));
        let mut known = self.known_names();
        known.extend(["bit", "bool", "varbit"].map(str::to_owned));
        let error = self.report.error(
            codes::UNKNOWN,
            name.span,
            format!("there is no {kind}`{}`", name.value),
        );
        let Some((span, is_table)) = below else {
            error.did_you_mean(&name.value, known.iter().map(String::as_str));
            return;
        };
        let is_below = span.file != name.span.file || span.start > name.span.start;
        error.label(span, if is_below { "declared here, below" } else { "declared here" }).help(
            match is_below {
                true => "a name can be used only behind its declaration: move that up",
                false => "a declaration cannot use itself",
            },
        );
        if is_table && matches!(self.place, Place::Action) {
            error.note("an action cannot apply a table");
        }
    }

    /// Parameters as names of a new scope.
    pub(super) fn bind_params(&mut self, params: &[Param]) {
        for param in params {
            let ty = self.declared.get(&param.id).cloned().unwrap_or(Type::Any);
            self.bind(&param.name, Name::Param(param.id, param.direction, ty));
        }
    }

    /// A fresh type parameter for each name, as names of the innermost scope.
    pub(super) fn bind_type_params(&mut self, names: &[Ident]) -> Vec<Type> {
        let mut found = Vec::new();
        for name in names {
            self.vars += 1;
            let ty = Type::Var(self.vars, name.value.clone());
            self.bind(name, Name::TypeVar(ty.clone()));
            found.push(ty);
        }
        found
    }
}
