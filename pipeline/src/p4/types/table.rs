//! Tables.

use std::rc::Rc;

use super::super::tree::*;
use super::arguments::order;
use super::check::{Checker, Name, Place};
use super::{CallInfo, Callee, Const, Def, Type};
use crate::diag::{codes, counted};

impl Checker<'_> {
    pub(super) fn table(&mut self, decl: &Rc<Decl>, table: &TableDecl) {
        if !table.has_actions {
            let text = format!("table `{}` has no `actions`", decl.name.value);
            self.error(codes::MISSING_KEY, decl.name.span, text);
        }
        let outer = std::mem::replace(&mut self.place, Place::Control);
        let keys = self.keys(table);
        let mut listed: Vec<(Rc<Decl>, Vec<Arg>)> = Vec::new();
        for one in &table.actions {
            if let Some((action, args)) = self.listed_action(&one.action) {
                if listed.iter().any(|(known, _)| known.id == action.id) {
                    let text = format!("`{}` is listed twice", action.name.value);
                    self.error(codes::TWICE, one.action.span, text);
                }
                listed.push((action, args));
            }
        }
        if let Some(default) = &table.default {
            self.run_action(default, &listed, true, true);
            self.kept_from(table, default, "tableonly", "the default action");
        }
        self.properties(table, &listed);
        if let Some(entries) = &table.entries {
            self.entries(table, entries, &keys, &listed);
            self.priorities(table, entries);
        }
        self.place = outer;
        self.bind(&decl.name, Name::Decl(decl.clone()));
    }

    fn keys(&mut self, table: &TableDecl) -> Vec<Type> {
        let mut keys = Vec::new();
        for key in &table.keys {
            let ty = self.value(&key.value);
            let ty = self.known(&ty);
            let fits = matches!(
                ty.base(),
                Type::Bit(_) | Type::Int(_) | Type::Bool | Type::Enum(..) | Type::Error | Type::Any
            );
            if !fits {
                self.type_error(key.value.span, format!("a key cannot be {ty}"));
            }
            if !self.match_kinds.contains(&key.kind.value) {
                let names: Vec<String> =
                    self.match_kinds.iter().map(|name| name.to_string()).collect();
                let text = format!("there is no match kind `{}`", key.kind.value);
                self.report
                    .error(codes::UNKNOWN, key.kind.span, text)
                    .did_you_mean(&key.kind.value, names.iter().map(String::as_str));
            }
            if let Some(name) = annotation(&key.annotations, "name")
                && !matches!(name.args.first().map(|arg| &*arg.value.kind), Some(ExprKind::Text(_)))
            {
                self.error(
                    codes::P4_SYNTAX,
                    name.name.span,
                    "`@name` needs a string: `@name(\"x\")`",
                );
            }
            let has_name =
                ["name", "hidden"].iter().any(|one| annotation(&key.annotations, one).is_some());
            if fits && !has_name && !self.names_itself(&key.value) {
                let text = "a key that is computed needs a name for control";
                self.error(codes::MISSING_KEY, key.value.span, text)
                    .help("as in `h.a + h.b: exact @name(\"sum\");`");
            }
            keys.push(if fits { ty } else { Type::Any });
        }
        keys
    }

    /// Whether a key has a name without `@name`: that of a field, part or constant.
    fn names_itself(&self, expr: &Expr) -> bool {
        let is_named = |one: &Expr| self.names_itself(one);
        self.consts.contains_key(&expr.id)
            || match &*expr.kind {
                ExprKind::Unary(..) | ExprKind::Mux(..) => false,
                ExprKind::Call { callee, .. } => {
                    matches!(&*callee.kind, ExprKind::Member(_, name) if &*name.value == "isValid")
                }
                ExprKind::Binary(Binary::Op(AstBin::And), a, b) => is_named(a) && is_named(b),
                ExprKind::Binary(..) => false,
                ExprKind::Member(of, _) | ExprKind::Slice(of, ..) | ExprKind::Cast(_, of) => {
                    is_named(of)
                }
                ExprKind::Index(of, at) | ExprKind::PlusSlice(of, at, _) => {
                    is_named(of) && is_named(at)
                }
                _ => true,
            }
    }

    /// An action and its arguments as they are written: `a`, or `a(x)`.
    fn named_action(&mut self, action: &Expr) -> Option<(Rc<Decl>, Vec<Arg>)> {
        let (callee, args) = match &*action.kind {
            ExprKind::Call { callee, args, .. } => (callee.clone(), args.clone()),
            _ => (action.clone(), Vec::new()),
        };
        let ty = self.value(&callee);
        match self.known(&ty) {
            Type::Action(decl) => Some((decl, args)),
            Type::Any => None,
            other => {
                self.type_error(callee.span, format!("{other} is no action"));
                None
            }
        }
    }

    /// An action in the list, with the arguments for its parameters with directions.
    fn listed_action(&mut self, action: &Expr) -> Option<(Rc<Decl>, Vec<Arg>)> {
        let (decl, args) = self.named_action(action)?;
        let DeclKind::Action { params, .. } = &decl.kind else { return None };
        let directed: Vec<Param> =
            params.iter().filter(|param| param.direction != Direction::None).cloned().collect();
        let Some(found) = order(&directed, &args) else {
            let takes = counted(directed.len(), "argument");
            let text = format!("`{}` takes {takes} here: those with a direction", decl.name.value);
            return self.report.refuse(codes::ARGUMENTS, action.span, text);
        };
        for (param, at) in directed.iter().zip(&found) {
            let Some(arg) = at.and_then(|at| args.get(at)) else { continue };
            let want = self.declared.get(&param.id).cloned().unwrap_or(Type::Any);
            self.argument(param, &want, &arg.value);
            self.no_table_in(&arg.value);
        }
        let info = CallInfo { callee: Callee::Decl(decl.clone()), order: found, types: Vec::new() };
        self.calls.insert(action.id, info);
        Some((decl, args))
    }

    /// The action of an entry or of the default.
    fn run_action(
        &mut self,
        action: &Expr,
        listed: &[(Rc<Decl>, Vec<Arg>)],
        must_list: bool,
        is_default: bool,
    ) {
        let Some((decl, args)) = self.named_action(action) else { return };
        let listed_as = listed.iter().find(|(known, _)| known.id == decl.id);
        if listed_as.is_none() && must_list {
            let text = format!("`{}` is not in the `actions` of the table", decl.name.value);
            self.error(codes::NOT_LISTED, action.span, text);
            return;
        }
        let DeclKind::Action { params, .. } = &decl.kind else { return };
        // What the list binds is repeated (P4-16 1.2.5, section 14.2.1.3).
        let Some(found) = order(params, &args) else {
            return self.misfit(action.span, &decl.name.value, params, &args);
        };
        let (found_listed, mut bound) = (listed_as, 0);
        for (param, at) in params.iter().zip(&found) {
            let Some(arg) = at.and_then(|at| args.get(at)) else { continue };
            let want = self.declared.get(&param.id).cloned().unwrap_or(Type::Any);
            if param.direction != Direction::None {
                self.argument(param, &want, &arg.value);
                self.no_table_in(&arg.value);
                let listed = found_listed.and_then(|(_, args)| args.get(bound)).cloned();
                bound += 1;
                if let Some(listed) = listed {
                    self.same_bound(&arg.value, &listed);
                }
                continue;
            }
            self.data_argument(&arg.value, &want, is_default);
        }
        let info = CallInfo { callee: Callee::Decl(decl.clone()), order: found, types: Vec::new() };
        self.calls.insert(action.id, info);
        self.defs.insert(action.id, Def::Decl(decl));
    }

    /// An annotation in the list of actions forbids this use of an action.
    fn kept_from(&mut self, table: &TableDecl, action: &Expr, name: &str, what: &str) {
        let callee = |expr: &Expr| match self.calls.get(&expr.id) {
            Some(CallInfo { callee: Callee::Decl(decl), .. }) => Some(decl.id),
            _ => None,
        };
        let Some(id) = callee(action) else { return };
        let forbids = table.actions.iter().any(|one| {
            annotation(&one.annotations, name).is_some() && callee(&one.action) == Some(id)
        });
        if forbids {
            let text = format!("an action that is `@{name}` is not {what}");
            self.error(codes::NOT_LISTED, action.span, text);
        }
    }

    /// Refuses an argument that applies a table: one table would be applied within another.
    fn no_table_in(&mut self, value: &Expr) -> bool {
        if matches!(self.noted(value), Type::Applied(_)) {
            let text = "a table is not applied in an argument of an action of a table";
            self.error(codes::WRONG_PLACE, value.span, text);
            return false;
        }
        let mut fits = true;
        value.each_part(&mut |part| fits = fits && self.no_table_in(part));
        fits
    }

    /// An argument for a parameter without a direction.
    fn data_argument(&mut self, value: &Expr, want: &Type, is_default: bool) {
        if matches!(&*value.kind, ExprKind::Any) {
            self.type_error(value.span, "`_` stands only for an `out` parameter");
        } else if self.value_as(value, want) && self.no_table_in(value) {
            self.known_in_call(value, is_default);
        }
    }

    /// An argument of an entry or of the default is known when the program is compiled.
    fn known_in_call(&mut self, value: &Expr, is_default: bool) {
        // It may be a parameter of the constructor.
        if !self.is_known(value) {
            let what = if is_default { "the default action" } else { "an entry" };
            let text = format!("an argument of {what} must be known when the program is compiled");
            self.error(codes::NOT_CONSTANT, value.span, text);
        }
    }

    fn properties(&mut self, table: &TableDecl, listed: &[(Rc<Decl>, Vec<Arg>)]) {
        for (name, value, _) in &table.properties {
            if is_empty_group_action(&name.value) {
                self.run_action(value, listed, true, true);
                continue;
            }
            self.value(value);
            let ty = self.noted(value);
            let ty = self.known(&ty);
            match &*name.value {
                "size" => {
                    let is_param = matches!(
                        self.defs.get(&value.id),
                        Some(Def::Param(id)) if self.constructor_params.contains(id)
                    );
                    if !is_param
                        && let Some(size) = self.constant_number(value, "the size of a table")
                        && size.sign() == num_bigint::Sign::Minus
                    {
                        self.type_error(value.span, "the size of a table is not negative");
                    }
                }
                "largest_priority_wins" if !matches!(ty, Type::Bool | Type::Any) => {
                    self.type_error(value.span, "`largest_priority_wins` is true or false");
                }
                "priority_delta" => {
                    if let Some(delta) = self.constant_number(value, "`priority_delta`")
                        && delta.sign() != num_bigint::Sign::Plus
                    {
                        self.type_error(value.span, "`priority_delta` is a positive number");
                    }
                }
                _ => self.note_unknown_property(table, name),
            }
        }
    }

    fn entries(
        &mut self,
        table: &TableDecl,
        entries: &Entries,
        keys: &[Type],
        listed: &[(Rc<Decl>, Vec<Arg>)],
    ) {
        if table.keys.is_empty() && !entries.list.is_empty() {
            self.type_error(entries.span, "a table without keys has no entries");
            return;
        }
        for entry in &entries.list {
            self.keyset(&entry.keys, keys);
            let sets = match &*entry.keys.kind {
                ExprKind::Tuple(items) => items.clone(),
                ExprKind::List(items, _) if items.len() == table.keys.len() => items.clone(),
                _ => vec![entry.keys.clone()],
            };
            for (key, set) in table.keys.iter().zip(&sets) {
                self.entry_set(key, set);
            }
            if let Some(priority) = &entry.priority {
                self.constant_number(priority, "a priority");
                let ordered = table
                    .keys
                    .iter()
                    .any(|key| matches!(&*key.kind.value, "ternary" | "range" | "optional"));
                if !ordered {
                    let text = "entries of this table have no priorities: it has no ternary, range or optional key";
                    self.error(codes::PRIORITY, priority.span, text);
                } else if entries.is_const {
                    let text = "constant entries have no priorities: the first one wins";
                    self.error(codes::PRIORITY, priority.span, text);
                }
            }
            self.run_action(&entry.action, listed, true, false);
            self.kept_from(table, &entry.action, "defaultonly", "the action of an entry");
        }
    }

    /// What an entry may say for a key of this kind.
    fn entry_set(&mut self, key: &Key, set: &Expr) {
        let text = match (&*key.kind.value, &*set.kind) {
            ("exact", ExprKind::Any) => "an exact key needs a value, not everything",
            ("exact", ExprKind::Mask(..)) => "an exact key needs a value, not a mask",
            ("exact" | "optional" | "lpm" | "ternary", ExprKind::Range(..)) => {
                "only a range key takes a range"
            }
            ("optional" | "range", ExprKind::Mask(..)) => "this key takes no mask",
            _ => "",
        };
        if !text.is_empty() {
            self.type_error(set.span, text);
            return;
        }
        if let ("lpm", ExprKind::Mask(_, mask)) = (&*key.kind.value, &*set.kind)
            && let Some(Const::Int(value)) = self.consts.get(&mask.id).cloned()
            && let Some(bits) = self.noted(&key.value).base().bits()
        {
            let full = (num_bigint::BigInt::from(1) << bits) - 1;
            let inverse = &full - super::operator::wrapped(&value, &Type::Bit(bits));
            if (&inverse & (&inverse + 1)) != num_bigint::BigInt::ZERO {
                self.type_error(mask.span, "the mask of an lpm key is a prefix: ones, then zeros");
            }
        }
        let known = match &*set.kind {
            ExprKind::Any => true,
            ExprKind::Mask(a, b) | ExprKind::Range(a, b) => self.is_known(a) && self.is_known(b),
            _ => self.is_known(set),
        };
        if !known && !self.noted(set).is_any() {
            let text = "a key of an entry must be known when the program is compiled";
            self.error(codes::NOT_CONSTANT, set.span, text);
        }
    }
}
