//! From `main` to everything that it instantiates, with the names that p4c gives.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{Callee, Checked, Const, Def, Type};
use super::ids::{full_name, preamble, settle, text_of};
use super::{Action, Info, Key, Object, ObjectKind, ValueSet};

/// Deepest nesting of instances.
const DEPTH_MAX: usize = 64;

/// What a name stands for in the instance at hand.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// A value that is known.
    Const(Const),
    /// A place in [`Info::objects`].
    Object(usize),
}

/// The walk.
pub(super) struct Walk<'c> {
    pub(super) checked: &'c Checked,
    pub(super) info: Info,
    pub(super) known: HashMap<u32, Bound>,
    actions: HashMap<String, usize>,
    /// Tables by name: a control that is applied twice by its type has them once.
    pub(super) tables: HashSet<String>,
    /// Action declarations that are inside of the control at hand.
    local: HashSet<u32>,
    depth: usize,
}

/// What P4Info lists of a program; `None` where it has no `main` of an architecture with P4Runtime.
pub(in crate::p4) fn info(checked: &Checked) -> Option<Info> {
    let is_main = |decl: &&Rc<Decl>| &*decl.name.value == "main";
    let main = checked.decls.iter().rev().find(is_main)?;
    let Some(Type::Package(package, _)) = checked.declared.get(&main.id) else { return None };
    let arch = match &*package.name.value {
        "V1Switch" => "v1model",
        "PSA_Switch" => "psa",
        _ => return None,
    };
    let mut walk = Walk {
        checked,
        info: Info { arch: arch.to_owned(), ..Info::default() },
        known: HashMap::new(),
        actions: HashMap::new(),
        tables: HashSet::new(),
        local: HashSet::new(),
        depth: 0,
    };
    walk.package_annotations(main);
    for decl in &checked.decls {
        match &decl.kind {
            DeclKind::Instance { .. } => walk.object(decl, ""),
            DeclKind::Struct(inner) if inner.kind == StructKind::Header => {
                walk.controller_header(decl, inner);
            }
            _ => {}
        }
    }
    walk.instance(main);
    let mut info = walk.info;
    drop_unused(&mut info);
    settle(&mut info);
    Some(info)
}

/// Takes out counters and meters of entries that no table has.
fn drop_unused(info: &mut Info) {
    let used: HashSet<usize> = info.tables.iter().flat_map(|table| table.direct.clone()).collect();
    let (mut places, mut kept) = (Vec::new(), Vec::new());
    for (at, object) in std::mem::take(&mut info.objects).into_iter().enumerate() {
        let is_direct =
            matches!(object.kind, ObjectKind::DirectCounter(_) | ObjectKind::DirectMeter(_));
        places.push(kept.len());
        if !is_direct || used.contains(&at) {
            kept.push(object);
        }
    }
    info.objects = kept;
    for table in &mut info.tables {
        for at in table.direct.iter_mut().chain(&mut table.implementation) {
            *at = places[*at];
        }
    }
}

impl Walk<'_> {
    fn package_annotations(&mut self, main: &Decl) {
        for one in main.annotations.iter() {
            let pairs = one.text.split(',').filter_map(|pair| pair.split_once('='));
            let pairs = pairs.map(|(name, value)| {
                (name.trim().to_owned(), value.trim().trim_matches('"').to_owned())
            });
            match &*one.name.value {
                "pkginfo" => self.info.package.extend(pairs),
                "platform_property" => {
                    let numbers =
                        pairs.filter_map(|(name, value)| Some((name, value.parse().ok()?)));
                    self.info.platform.extend(numbers);
                }
                _ => {}
            }
        }
    }

    fn controller_header(&mut self, decl: &Decl, inner: &StructDecl) {
        let Some(name) = text_of(&decl.annotations, "controller_header") else { return };
        let Some(Type::Struct(ty)) = self.checked.declared.get(&decl.id).cloned() else { return };
        let mut fields = Vec::new();
        for ((id, field), (_, ty)) in (1..).zip(&inner.fields).zip(&ty.fields) {
            fields.push(self.param(id, &field.name.value, &field.annotations, ty));
        }
        let preamble = preamble(name, &decl.annotations, &[]);
        self.info.controller_headers.push((preamble, fields));
    }

    /// The arguments of an instance, in the order of the parameters.
    pub(super) fn arguments(&self, decl: &Decl) -> Vec<Option<Expr>> {
        let DeclKind::Instance { args, .. } = &decl.kind else { return Vec::new() };
        self.ordered(u32::MAX - decl.id, args)
    }

    pub(super) fn ordered(&self, call: u32, args: &[Arg]) -> Vec<Option<Expr>> {
        let Some(call) = self.checked.calls.get(&call) else { return Vec::new() };
        let value = |at: &Option<usize>| Some(args.get((*at)?)?.value.clone());
        call.order.iter().map(value).collect()
    }

    /// What is known of an expression here.
    pub(super) fn bound(&self, expr: &Expr) -> Option<Bound> {
        if let Some(value) = self.checked.consts.get(&expr.id) {
            return Some(Bound::Const(value.clone()));
        }
        match (&*expr.kind, self.checked.defs.get(&expr.id)) {
            (_, Some(Def::Param(id))) => self.known.get(id).cloned(),
            (_, Some(Def::Decl(decl))) => self.known.get(&decl.id).cloned(),
            (ExprKind::Cast(_, of), _) => self.bound(of),
            _ => None,
        }
    }

    /// A package, and the blocks among its arguments.
    fn instance(&mut self, decl: &Rc<Decl>) {
        for argument in self.arguments(decl).into_iter().flatten() {
            self.block_argument(&argument);
        }
    }

    fn block_argument(&mut self, expr: &Expr) {
        if let ExprKind::Call { args, .. } = &*expr.kind {
            let ty = self.checked.types.get(expr.id as usize).cloned();
            let given = self.ordered(expr.id, args);
            match ty {
                Some(Type::Control(decl, _) | Type::Parser(decl, _)) => {
                    let name = full_name("", &decl.annotations, &decl.name.value);
                    self.block(&decl, &name, &given);
                }
                Some(Type::Package(..)) => {
                    given.iter().flatten().for_each(|one| self.block_argument(one));
                }
                _ => {}
            }
            return;
        }
        if let Some(Def::Decl(decl)) = self.checked.defs.get(&expr.id).cloned()
            && matches!(decl.kind, DeclKind::Instance { .. })
        {
            self.instance(&decl);
        }
    }

    /// An instance of a parser or control.
    fn block(&mut self, decl: &Rc<Decl>, prefix: &str, given: &[Option<Expr>]) {
        if self.depth >= DEPTH_MAX {
            return;
        }
        self.depth += 1;
        let constructor = match &decl.kind {
            DeclKind::Parser(inner) => &inner.constructor,
            DeclKind::Control(inner) => &inner.constructor,
            _ => return,
        };
        let values = constructor.iter().zip(given).map(|(param, value)| {
            (
                param.id,
                value.as_ref().or(param.default.as_ref()).and_then(|value| self.bound(value)),
            )
        });
        let values: Vec<_> = values.collect();
        let outer = self.known.clone();
        for (id, value) in values {
            match value {
                Some(value) => self.known.insert(id, value),
                None => self.known.remove(&id),
            };
        }
        match &decl.kind {
            DeclKind::Parser(inner) => self.parser(inner, prefix),
            DeclKind::Control(inner) => self.control(inner, prefix),
            _ => {}
        }
        self.known = outer;
        self.depth -= 1;
    }

    fn parser(&mut self, inner: &ParserDecl, prefix: &str) {
        for local in &inner.locals {
            match &local.kind {
                DeclKind::Instance { .. } => self.local_instance(local, prefix, None),
                DeclKind::ValueSet(_, size) => self.value_set(local, size, prefix),
                _ => {}
            }
        }
        let mut applied = Vec::new();
        for state in inner.states.iter().flatten() {
            self.calls(&state.body.statements, &mut |call| applied.push(call.clone()));
        }
        applied.iter().for_each(|call| self.applied_type(call, prefix));
    }

    fn control(&mut self, inner: &ControlDecl, prefix: &str) {
        let outer = std::mem::take(&mut self.local);
        self.local = inner.locals.iter().map(|local| local.id).collect();
        let mut calls = Vec::new();
        if let Some(body) = &inner.body {
            self.calls(&body.statements, &mut |call| calls.push(call.clone()));
        }
        let mut used: HashSet<u32> = HashSet::new();
        for call in &calls {
            match self.applied(call) {
                Some(Type::Table(decl)) => drop(used.insert(decl.id)),
                Some(_) => {
                    if let Some(Def::Decl(decl)) = self.object_of(call) {
                        used.insert(decl.id);
                    }
                }
                None => {}
            }
        }
        for local in &inner.locals {
            match &local.kind {
                DeclKind::Instance { .. } => self.local_instance(local, prefix, Some(&used)),
                DeclKind::Table(table) if used.contains(&local.id) => {
                    self.table(local, table, prefix);
                }
                _ => {}
            }
        }
        for call in &calls {
            self.called(call, prefix);
            let local = std::mem::take(&mut self.local);
            self.applied_type(call, prefix);
            self.local = local;
        }
        self.local = outer;
    }

    /// An instance inside a block: an object, or a block that something applies.
    fn local_instance(&mut self, decl: &Rc<Decl>, prefix: &str, used: Option<&HashSet<u32>>) {
        match self.checked.declared.get(&decl.id).cloned() {
            Some(Type::Control(of, _) | Type::Parser(of, _)) => {
                if used.is_none_or(|used| used.contains(&decl.id)) {
                    let name = full_name(prefix, &decl.annotations, &decl.name.value);
                    let given = self.arguments(decl);
                    let local = std::mem::take(&mut self.local);
                    self.block(&of, &name, &given);
                    self.local = local;
                }
            }
            _ => self.object(decl, prefix),
        }
    }

    /// The type of what `.apply()` is called of.
    fn applied(&self, call: &Expr) -> Option<Type> {
        let ExprKind::Call { callee, .. } = &*call.kind else { return None };
        let ExprKind::Member(of, name) = &*callee.kind else { return None };
        (&*name.value == "apply").then(|| self.checked.types.get(of.id as usize).cloned())?
    }

    fn object_of(&self, call: &Expr) -> Option<Def> {
        let ExprKind::Call { callee, .. } = &*call.kind else { return None };
        let ExprKind::Member(of, _) = &*callee.kind else { return None };
        self.checked.defs.get(&of.id).cloned()
    }

    /// `C.apply(..)` of a type: an instance with the name of the type.
    fn applied_type(&mut self, call: &Expr, prefix: &str) {
        let Some(Type::Name(ty)) = self.applied(call) else { return };
        if let Type::Control(decl, _) | Type::Parser(decl, _) = &*ty {
            let name = full_name(prefix, &decl.annotations, &decl.name.value);
            self.block(&decl.clone(), &name, &[]);
        }
    }

    /// An action or digest that is called.
    fn called(&mut self, call: &Expr, prefix: &str) {
        let Some(info) = self.checked.calls.get(&call.id) else { return };
        let Callee::Decl(decl) = info.callee.clone() else { return };
        match &decl.kind {
            DeclKind::Action { .. } => drop(self.action(&decl, prefix)),
            DeclKind::Function(inner) if inner.body.is_none() && &*decl.name.value == "digest" => {
                if let Some((_, ty)) = info.types.first().cloned() {
                    self.digest(&ty);
                }
            }
            _ => {}
        }
    }

    fn digest(&mut self, ty: &Type) {
        let (name, annotations) = match ty {
            Type::Struct(of) => (of.decl.name.value.to_string(), of.decl.annotations.clone()),
            _ => ("digest".to_owned(), Vec::new()),
        };
        let name = full_name("", &annotations, &name);
        let spec = self.type_ref(ty);
        let kind = ObjectKind::Digest(spec);
        let object = Object { preamble: preamble(name, &annotations, &[]), kind };
        if !self.info.objects.contains(&object) {
            self.info.objects.push(object);
        }
    }

    /// An action that is used, and what it calls. `None` for one that P4Info does not list.
    pub(super) fn action(&mut self, decl: &Rc<Decl>, prefix: &str) -> Option<usize> {
        let DeclKind::Action { params, body } = &decl.kind else { return None };
        let around = if self.local.contains(&decl.id) { prefix } else { "" };
        let name = full_name(around, &decl.annotations, &decl.name.value);
        if let Some(known) = self.actions.get(&name) {
            return Some(*known);
        }
        if annotation(&decl.annotations, "hidden").is_some() {
            return None;
        }
        let mut found = Vec::new();
        let data = params.iter().filter(|param| param.direction == Direction::None);
        for (id, param) in (1..).zip(data) {
            let ty = self.checked.declared.get(&param.id).cloned().unwrap_or(Type::Any);
            found.push(self.param(id, &param.name.value, &param.annotations, &ty));
        }
        let at = self.info.actions.len();
        self.actions.insert(name.clone(), at);
        let preamble = preamble(name, &decl.annotations, &[]);
        self.info.actions.push(Action { preamble, params: found });
        let mut calls = Vec::new();
        self.calls(&body.statements, &mut |call| calls.push(call.clone()));
        calls.iter().for_each(|call| self.called(call, prefix));
        Some(at)
    }

    fn value_set(&mut self, decl: &Decl, size: &Expr, prefix: &str) {
        let ty = self.checked.declared.get(&decl.id).cloned().unwrap_or(Type::Any);
        let kind = |annotations: &[Annotation]| {
            annotation(annotations, "match").map_or("exact".to_owned(), |one| one.text.to_string())
        };
        let mut fields = Vec::new();
        match &ty {
            Type::Struct(of) => {
                let DeclKind::Struct(inner) = &of.decl.kind else { return };
                for ((id, field), (_, ty)) in (1..).zip(&inner.fields).zip(&of.fields) {
                    let kind = kind(&field.annotations);
                    let field = self.param(id, &field.name.value, &field.annotations, ty);
                    fields.push(Key { field, kind });
                }
            }
            ty => {
                let field = self.param(1, "", &[], ty);
                fields.push(Key { field, kind: kind(&decl.annotations) });
            }
        }
        let size = match self.bound(size) {
            Some(Bound::Const(Const::Int(size))) => i32::try_from(&size).unwrap_or_default(),
            _ => 0,
        };
        let name = full_name(prefix, &decl.annotations, &decl.name.value);
        let preamble = preamble(name, &decl.annotations, &[]);
        self.info.value_sets.push(ValueSet { preamble, fields, size });
    }
}
