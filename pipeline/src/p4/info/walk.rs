//! From `main` to everything that it instantiates, with the names that p4c gives.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{Callee, Checked, Const, Def, Type};
use super::ids::{control_name, full_name, numbers, settle, text_of};
use super::table::calls_in;
use super::types::flat_fields;
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

/// Who runs an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Called {
    /// A table, which lists it.
    ByTable,
    /// A statement.
    Directly,
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
    /// Actions that other actions call, once each: their digests are the same at every call.
    seen: HashSet<u32>,
    /// Names that are not listed, and that no alias may be the end of.
    pub(super) also: Vec<String>,
    /// The names of the types of controller headers, in their order.
    header_types: Vec<String>,
}

/// The name of a digest of v1model: that of its struct, or a number among the calls with other types.
pub(in crate::p4) fn digest_name(checked: &Checked, call: u32, ty: &Type) -> String {
    if let Type::Struct(of) = ty {
        return control_name(&of.decl.annotations, &of.decl.name.value);
    }
    let before = checked.calls.iter().filter(|(id, info)| {
        let is_digest = matches!(&info.callee, Callee::Decl(decl) if &*decl.name.value == "digest");
        let unnamed = !matches!(info.types.first(), Some((_, Type::Struct(_))));
        **id < call && is_digest && unnamed
    });
    format!("digest_{}", before.count())
}

/// The P4Info of a program; `None` where its `main` is of an architecture without P4Runtime. A program of v1model or
/// PSA without `main` has an empty one.
pub(in crate::p4) fn info(checked: &Checked) -> Option<Info> {
    let is_main = |decl: &&Rc<Decl>| &*decl.name.value == "main";
    let Some(main) = checked.decls.iter().rev().find(is_main) else {
        let is_known = |decl: &Rc<Decl>| {
            matches!(decl.kind, DeclKind::Package { .. })
                && matches!(&*decl.name.value, "V1Switch" | "PSA_Switch")
        };
        return checked.decls.iter().any(is_known).then(Info::default);
    };
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
        seen: HashSet::new(),
        also: Vec::new(),
        header_types: Vec::new(),
    };
    walk.package_annotations(main);
    for decl in &checked.decls {
        match &decl.kind {
            DeclKind::Instance { .. } => walk.object(decl, ""),
            DeclKind::Struct(inner) if inner.kind == StructKind::Header => {
                walk.controller_header(decl);
            }
            _ => {}
        }
    }
    walk.instance(main);
    let Walk { mut info, mut also, header_types, .. } = walk;
    also.extend(drop_unused(&mut info));
    settle(&mut info, &header_types, also);
    Some(info)
}

/// Takes out counters and meters of entries that no table has; their names.
fn drop_unused(info: &mut Info) -> Vec<String> {
    let used: HashSet<usize> = info.tables.iter().flat_map(|table| table.direct.clone()).collect();
    let (mut places, mut kept, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (at, object) in std::mem::take(&mut info.objects).into_iter().enumerate() {
        let is_direct =
            matches!(object.kind, ObjectKind::DirectCounter(_) | ObjectKind::DirectMeter(_));
        places.push(kept.len());
        if !is_direct || used.contains(&at) {
            kept.push(object);
        } else {
            names.push(object.preamble.name);
        }
    }
    info.objects = kept;
    for table in &mut info.tables {
        for at in table.direct.iter_mut().chain(&mut table.implementation) {
            *at = places[*at];
        }
    }
    names
}

impl Walk<'_> {
    fn controller_header(&mut self, decl: &Decl) {
        let Some(name) = text_of(&decl.annotations, "controller_header") else { return };
        let Some(Type::Struct(ty)) = self.checked.declared.get(&decl.id).cloned() else { return };
        let flat = flat_fields(&ty);
        let ids = numbers(flat.iter().map(|(_, annotations, _)| annotations.as_slice()));
        let mut fields = Vec::new();
        for (id, (name, annotations, ty)) in ids.into_iter().zip(flat) {
            fields.push(self.param(id, name, &annotations, &[], &ty));
        }
        let preamble = self.preamble(name, &decl.annotations, &[]);
        self.info.controller_headers.push((preamble, fields));
        self.header_types.push(control_name(&decl.annotations, &decl.name.value));
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
        let used = self.used(&calls);
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

    /// Tables and instances that are applied, also in keys of such tables, and instances that such ones are given.
    fn used(&self, calls: &[Expr]) -> HashSet<u32> {
        let mut used: HashSet<u32> = HashSet::new();
        let mut next: Vec<Rc<Decl>> = Vec::new();
        let applied = |call: &Expr| match self.applied(call) {
            Some(Type::Table(decl)) => Some(decl),
            Some(_) => match self.object_of(call) {
                Some(Def::Decl(decl)) => Some(decl),
                _ => None,
            },
            None => None,
        };
        next.extend(calls.iter().filter_map(&applied));
        while let Some(decl) = next.pop() {
            if !used.insert(decl.id) {
                continue;
            }
            match &decl.kind {
                DeclKind::Table(table) => {
                    for key in &table.keys {
                        calls_in(&key.value, &mut |call| next.extend(applied(call)));
                    }
                }
                _ => {
                    for given in self.arguments(&decl).iter().flatten() {
                        if let Some(Def::Decl(decl)) = self.checked.defs.get(&given.id) {
                            next.push(decl.clone());
                        }
                    }
                }
            }
        }
        used
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
            DeclKind::Action { .. } => drop(self.action(&decl, prefix, Called::Directly)),
            DeclKind::Function(inner) if inner.body.is_none() && &*decl.name.value == "digest" => {
                if let Some((_, ty)) = info.types.first().cloned() {
                    self.digest(call.id, &ty);
                }
            }
            _ => {}
        }
    }

    /// A digest of v1model, which is no declaration, so that it has no annotations.
    fn digest(&mut self, call: u32, ty: &Type) {
        let name = digest_name(self.checked, call, ty);
        let kind = ObjectKind::Digest(self.type_ref(ty));
        let object = Object { preamble: self.preamble(name, &[], &[]), kind };
        if !self.info.objects.contains(&object) {
            self.info.objects.push(object);
        }
    }

    /// An action that is used: its place in the list.
    pub(super) fn action(&mut self, decl: &Rc<Decl>, prefix: &str, by: Called) -> Option<usize> {
        let DeclKind::Action { params, body } = &decl.kind else { return None };
        let around = if self.local.contains(&decl.id) { prefix } else { "" };
        let name = full_name(around, &decl.annotations, &decl.name.value);
        let at = match self.actions.get(&name) {
            Some(known) => *known,
            None => {
                let at = self.info.actions.len();
                self.actions.insert(name.clone(), at);
                let preamble = self.preamble(name, &decl.annotations, &[]);
                let hidden = annotation(&decl.annotations, "hidden").is_some();
                self.info.actions.push(Action { preamble, params: Vec::new(), hidden });
                self.inlined(body, prefix);
                at
            }
        };
        // A direct call gives all arguments, so that none is left for a controller.
        if by == Called::ByTable && self.info.actions[at].params.is_empty() {
            let data: Vec<&Param> =
                params.iter().filter(|param| param.direction == Direction::None).collect();
            let ids = numbers(data.iter().map(|param| param.annotations.as_slice()));
            let mut found = Vec::new();
            for (id, param) in ids.into_iter().zip(data) {
                let ty = self.checked.declared.get(&param.id).cloned().unwrap_or(Type::Any);
                let name = control_name(&param.annotations, &param.name.value);
                found.push(self.param(id, name, &param.annotations, &[], &ty));
            }
            self.info.actions[at].params = found;
        }
        Some(at)
    }

    /// What the body of an action runs: actions that it calls become part of it, so that only their digests are seen.
    fn inlined(&mut self, body: &Block, prefix: &str) {
        let mut calls = Vec::new();
        self.calls(&body.statements, &mut |call| calls.push(call.clone()));
        for call in &calls {
            let info = self.checked.calls.get(&call.id);
            let Some(Callee::Decl(decl)) = info.map(|info| info.callee.clone()) else { continue };
            match &decl.kind {
                DeclKind::Action { body, .. } => {
                    if self.seen.insert(decl.id) {
                        self.inlined(body, prefix);
                    }
                }
                _ => self.called(call, prefix),
            }
        }
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
                let ids = numbers(inner.fields.iter().map(|field| field.annotations.as_slice()));
                for ((id, field), (_, ty)) in ids.into_iter().zip(&inner.fields).zip(&of.fields) {
                    let kind = kind(&field.annotations);
                    let name = control_name(&field.annotations, &field.name.value);
                    let field = self.param(id, name, &field.annotations, &["match"], ty);
                    fields.push(Key { field, kind });
                }
            }
            Type::Tuple(parts) => {
                for (id, part) in (1..).zip(parts.iter()) {
                    let field = self.param(id, String::new(), &[], &[], part);
                    fields.push(Key { field, kind: kind(&decl.annotations) });
                }
            }
            ty => {
                let field = self.param(1, String::new(), &[], &[], ty);
                fields.push(Key { field, kind: kind(&decl.annotations) });
            }
        }
        let size = match self.bound(size) {
            Some(Bound::Const(Const::Int(size))) => i32::try_from(&size).unwrap_or_default(),
            _ => 0,
        };
        let name = full_name(prefix, &decl.annotations, &decl.name.value);
        let preamble = self.preamble(name, &decl.annotations, &["match"]);
        self.info.value_sets.push(ValueSet { preamble, fields, size });
    }
}
