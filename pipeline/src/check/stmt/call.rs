//! Calls: procedures of the language, actions, device externs, learning.

use crate::ast::*;
use crate::check::cx::{Cx, InstanceRef};
use crate::check::expr::path::Target;
use crate::check::flow::Flow;
use crate::check::scope::Symbol;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::{Op, SourceSpan, Table, Update};
use crate::syntax::p4;
use wireyard_tables::MatchKind;

/// Procedures of the language, for suggestions.
const PROCEDURES: &[&str] = &[
    "set_valid",
    "set_invalid",
    "push",
    "pop",
    "count",
    "digest",
    "clone",
    "resubmit",
    "resubmit_received",
    "recirculate",
    "truncate",
    "update_crc",
];

/// How a statement is written that is a word and no call.
fn word_statement(name: &str) -> Option<&'static str> {
    match name {
        "drop" => Some("`drop` has no brackets; the statement `drop REASON` counts a reason"),
        "punt" => Some("`punt` has no brackets; the statement `punt REASON` counts a reason"),
        "exit" => Some("`exit` has no brackets"),
        "return" => Some("`return` has no brackets"),
        _ => None,
    }
}

impl Cx<'_> {
    pub(super) fn call_statement(
        &mut self,
        flow: &mut Flow,
        name: &Name,
        args: &[AstExpr],
        span: SourceSpan,
    ) {
        let op = match name.value.as_str() {
            "set_valid" => {
                return self.change_validity(flow, args, span, "set_valid(h)", Op::SetValid);
            }
            "set_invalid" => {
                return self.change_validity(flow, args, span, "set_invalid(h)", Op::SetInvalid);
            }
            "push" => {
                self.stack_args(args, span, "push(stack, 1)").map(|(s, n)| Op::PushFront(s, n))
            }
            "pop" => self.stack_args(args, span, "pop(stack, 1)").map(|(s, n)| Op::PopFront(s, n)),
            "count" => self.count(args, span),
            "digest" => self.digest(args, span),
            "clone" => self.one_arg(args, span, "clone(session)", |cx, session| {
                cx.expr(session, 16).map(Op::Clone)
            }),
            "truncate" => self.one_arg(args, span, "truncate(bytes)", |cx, bytes| {
                cx.offset(bytes).map(Op::Truncate)
            }),
            "resubmit" => {
                let fits = self.no_args(args, span, "resubmit()");
                fits.then_some(Op::Resubmit { received: false })
            }
            "resubmit_received" => {
                let fits = self.no_args(args, span, "resubmit_received()");
                fits.then_some(Op::Resubmit { received: true })
            }
            "recirculate" => self.no_args(args, span, "recirculate()").then_some(Op::Recirculate),
            "update_crc" => self.update_crc(args, span),
            "extract" | "extract_at" | "advance" | "body_end" | "verify" => {
                let text = format!("`{}` belongs to the parser", name.value);
                self.report.refuse(codes::WRONG_PLACE, span, text)
            }
            "random" | "execute" => {
                let text = format!("the result of `{}` is not used", name.value);
                let sized = self.sized_random_of(args).filter(|_| name.value == "random");
                let sized = sized.unwrap_or_else(|| self.text(span, "random(16w0, 9)").to_owned());
                let help = format!("as in `let x = {sized}`");
                self.report.error(codes::ARGUMENTS, span, text).help(help);
                None
            }
            _ => self.call_named(name, args, span),
        };
        if let Some(op) = op {
            self.header_op(flow, op, span);
        }
    }

    fn call_named(&mut self, name: &Name, args: &[AstExpr], span: SourceSpan) -> Option<Op> {
        if let Some(external) = self.external(&name.value) {
            let args = self.extern_args(external, args, span)?;
            return Some(Op::Extern { external, args, to: None });
        }
        match self.scope.symbol(&name.value) {
            Some(Symbol::Action(_) | Symbol::Builtin(_)) => {
                let action = self.action_ref(name)?;
                let args = self.action_args(action, args, span)?;
                Some(Op::Call(action, args))
            }
            Some(Symbol::Control(_)) => {
                let text = format!("`{}` is a control", name.value);
                let help = format!("write `call: {}`", name.value);
                self.report.error(codes::WRONG_KIND, name.span, text).help(help);
                None
            }
            Some(Symbol::Table(_)) => {
                let text = format!("`{}` is a table", name.value);
                let help = format!("write `apply: {}`", name.value);
                self.report.error(codes::WRONG_KIND, name.span, text).help(help);
                None
            }
            Some(symbol) => {
                let text = format!("`{}` is {} and cannot be called", name.value, symbol.kind());
                self.report.refuse(codes::WRONG_KIND, name.span, text)
            }
            None => {
                let text = format!("there is no action or procedure `{}`", name.value);
                let callable =
                    |symbol: &Symbol| matches!(symbol, Symbol::Action(_) | Symbol::Builtin(_));
                let known = self.scope.symbols.iter().filter(|(_, (symbol, _))| callable(symbol));
                let names: Vec<&str> = known.map(|(name, _)| *name).collect();
                let externs = self.externs.signatures().iter().map(|known| known.name.as_str());
                let all = names.into_iter().chain(PROCEDURES.iter().copied()).chain(externs);
                let note = self.report.error(codes::UNKNOWN, name.span, text);
                let word = word_statement(&name.value).map(str::to_owned);
                match word.or(p4::name(&name.value, None)) {
                    Some(help) => note.help(help),
                    None => note.did_you_mean(&name.value, all),
                };
                None
            }
        }
    }

    /// The action that a name means.
    pub(crate) fn action_ref(&mut self, name: &Name) -> Option<ActionId> {
        let is_action = |symbol| matches!(symbol, Symbol::Action(_) | Symbol::Builtin(_));
        match self.scope.symbol(&name.value) {
            Some(Symbol::Builtin(id)) => Some(ActionId(id)),
            Some(Symbol::Action(index)) => self.ids.actions.get(index).copied().flatten(),
            _ => {
                self.no_such(name, "an action", is_action);
                None
            }
        }
    }

    /// Arguments of an action call, each with the width of its parameter.
    fn action_args(
        &mut self,
        action: ActionId,
        args: &[AstExpr],
        span: SourceSpan,
    ) -> Option<Vec<ExprId>> {
        let known = self.ir.actions.get(action)?;
        let (name, params) = (known.name.clone(), known.params.clone());
        let args = self.in_order(&name, &params, args, span)?;
        let values: Vec<_> =
            params.iter().zip(args).map(|(param, arg)| self.expr(arg, param.bits)).collect();
        values.into_iter().collect()
    }

    /// Arguments in the order of the parameters: as written, or all by name.
    pub(crate) fn in_order<'e>(
        &mut self,
        callee: &str,
        params: &[crate::ir::Param],
        args: &'e [AstExpr],
        span: SourceSpan,
    ) -> Option<Vec<&'e AstExpr>> {
        let is_named = |arg: &&AstExpr| matches!(arg.value, Ast::Named(..));
        if !args.iter().any(|arg| is_named(&arg)) {
            if params.len() != args.len() {
                self.wrong_count(callee, params, args.len(), span);
                return None;
            }
            return Some(args.iter().collect());
        }
        if let Some(other) = args.iter().find(|arg| !is_named(arg)) {
            let text = "arguments have all a name, or none of them";
            return self.report.refuse(codes::ARGUMENTS, other.span, text);
        }
        let mut found: Vec<Option<&'e AstExpr>> = vec![None; params.len()];
        let mut good = true;
        for arg in args {
            let Ast::Named(name, value) = &arg.value else { continue };
            let at = params.iter().position(|param| param.name == name.value);
            match at.and_then(|at| found.get_mut(at)) {
                Some(slot @ None) => *slot = Some(value),
                Some(Some(_)) => {
                    let text = format!("`{}` has a value already", name.value);
                    self.report.error(codes::ARGUMENTS, name.span, text);
                    good = false;
                }
                None => {
                    let text = format!("`{callee}` has no parameter `{}`", name.value);
                    let names = params.iter().map(|param| param.name.as_str());
                    self.report
                        .error(codes::ARGUMENTS, name.span, text)
                        .did_you_mean(&name.value, names);
                    good = false;
                }
            }
        }
        let missing = params.iter().zip(&found).find(|(_, value)| value.is_none());
        if let (true, Some((param, _))) = (good, missing) {
            let text = format!("`{}` of `{callee}` has no value", param.name);
            self.report.error(codes::ARGUMENTS, span, text);
        }
        found.into_iter().collect::<Option<Vec<_>>>().filter(|_| good)
    }

    /// Reports a call with too few or too many arguments.
    pub(crate) fn wrong_count(
        &mut self,
        name: &str,
        params: &[crate::ir::Param],
        found: usize,
        span: SourceSpan,
    ) {
        let plural = if params.len() == 1 { "" } else { "s" };
        let text = format!("`{name}` takes {} argument{plural}, not {found}", params.len());
        let list: Vec<String> =
            params.iter().map(|param| format!("{}: {} bits", param.name, param.bits)).collect();
        let help = match word_statement(name) {
            Some(help) => help.to_owned(),
            None => format!("`{name}({})`", list.join(", ")),
        };
        self.report.error(codes::ARGUMENTS, span, text).help(help);
    }

    pub(super) fn extern_args(
        &mut self,
        external: ExternId,
        args: &[AstExpr],
        span: SourceSpan,
    ) -> Option<Vec<ExprId>> {
        if !self.has_effects(span) {
            return None;
        }
        let known = self.externs.signatures().get(external)?.clone();
        if known.params.len() != args.len() {
            self.wrong_count(&known.name, &known.params, args.len(), span);
            return None;
        }
        let values: Vec<_> =
            known.params.iter().zip(args).map(|(param, arg)| self.expr(arg, param.bits)).collect();
        values.into_iter().collect()
    }

    fn no_args(&mut self, args: &[AstExpr], span: SourceSpan, usage: &str) -> bool {
        if !args.is_empty() {
            self.wrong_call(usage, span);
        }
        args.is_empty()
    }

    fn one_arg(
        &mut self,
        args: &[AstExpr],
        span: SourceSpan,
        usage: &str,
        lower: impl FnOnce(&mut Self, &AstExpr) -> Option<Op>,
    ) -> Option<Op> {
        match args {
            [arg] => lower(self, arg),
            _ => {
                self.wrong_call(usage, span);
                None
            }
        }
    }

    /// `set_valid` or `set_invalid` of a header, or of the element of a stack with a computed number.
    fn change_validity(
        &mut self,
        flow: &mut Flow,
        args: &[AstExpr],
        span: SourceSpan,
        usage: &str,
        op: fn(InstanceId) -> Op,
    ) {
        let [arg] = args else {
            self.wrong_call(usage, span);
            return;
        };
        if let Ast::Path(path) = &arg.value
            && path.parts.iter().any(|part| matches!(part, PathPart::Index(_)))
        {
            match self.resolve(path, arg.span) {
                Some(Target::AnyElement(stack, index)) => {
                    return self.each_element(flow, stack, index, span, &mut |cx, flow, id| {
                        cx.header_op(flow, op(id), span);
                    });
                }
                None => return,
                Some(_) => {}
            }
        }
        if let Some(id) = self.header_named(arg) {
            self.header_op(flow, op(id), span);
        }
    }

    /// A header: an instance, or an element of a stack.
    pub(crate) fn header_named(&mut self, arg: &AstExpr) -> Option<InstanceId> {
        let Ast::Path(path) = &arg.value else {
            return self.report.refuse(codes::WRONG_KIND, arg.span, "a header is wanted here");
        };
        match self.resolve(path, arg.span)? {
            Target::Header(id) => Some(id),
            Target::Absent(_) | Target::AbsentHeader(_) => None,
            Target::AnyElement(..) => {
                let text = "the number of the element must be a constant here";
                self.report.refuse(codes::WRONG_KIND, arg.span, text)
            }
            _ => self.report.refuse(codes::WRONG_KIND, arg.span, "a header is wanted here"),
        }
    }

    fn stack_args(
        &mut self,
        args: &[AstExpr],
        span: SourceSpan,
        usage: &str,
    ) -> Option<(StackId, u32)> {
        let [stack, count] = args else {
            self.wrong_call(usage, span);
            return None;
        };
        let found =
            self.named_arg(stack, "a header stack", |symbol| matches!(symbol, Symbol::Instance(_)));
        let count_value = self.const_u32(count);
        let Some(Symbol::Instance(index)) = found else { return None };
        let InstanceRef::Stack(id) = self.instance_ref(index)? else {
            let text = "a header stack is wanted here, and this is one header";
            self.report
                .error(codes::WRONG_KIND, stack.span, text)
                .help("`set_valid(h)` and `set_invalid(h)` are for one header");
            return None;
        };
        let len = self.ir.stacks.get(id)?.len;
        let count_value = count_value?;
        if count_value == 0 || count_value > len {
            let text = format!("a stack of {len} elements moves by 1 to {len}, not {count_value}");
            return self.report.refuse(codes::BAD_INDEX, count.span, text);
        }
        Some((id, count_value))
    }

    /// An argument that is the name of something declared.
    pub(super) fn named_arg(
        &mut self,
        arg: &AstExpr,
        wanted: &str,
        is_wanted: fn(Symbol) -> bool,
    ) -> Option<Symbol> {
        let name = match &arg.value {
            Ast::Path(path) => path.single(),
            _ => None,
        };
        let Some(name) = name else {
            let text = format!("the name of {wanted} is wanted here");
            return self.report.refuse(codes::ARGUMENTS, arg.span, text);
        };
        match self.scope.symbol(&name.value) {
            Some(symbol) if is_wanted(symbol) => Some(symbol),
            _ => {
                self.no_such(name, wanted, is_wanted);
                None
            }
        }
    }

    fn count(&mut self, args: &[AstExpr], span: SourceSpan) -> Option<Op> {
        let [counter, index] = args else {
            self.wrong_call("count(counter, index)", span);
            return None;
        };
        let found =
            self.named_arg(counter, "a counter", |symbol| matches!(symbol, Symbol::Counter(_)));
        let id = match found {
            Some(Symbol::Counter(at)) => self.ids.counters.get(at).copied().flatten(),
            _ => None,
        };
        let known = id.and_then(|id| self.ir.counters.get(id));
        let name = known.map(|known| format!("counter `{}`", known.name)).unwrap_or_default();
        let size = known.map(|known| known.size);
        let index = self.index_of(index, &name, size);
        Some(Op::Count(id?, index?))
    }

    fn digest(&mut self, args: &[AstExpr], span: SourceSpan) -> Option<Op> {
        let [digest] = args else {
            self.wrong_call("digest(name)", span);
            return None;
        };
        let found =
            self.named_arg(digest, "a digest", |symbol| matches!(symbol, Symbol::Digest(_)));
        let Some(Symbol::Digest(at)) = found else { return None };
        let id = self.ids.digests.get(at).copied().flatten()?;
        Some(Op::Digest(id, self.ir.digests.get(id)?.values.clone()))
    }

    fn update_crc(&mut self, args: &[AstExpr], span: SourceSpan) -> Option<Op> {
        let name = match args {
            [Sp { value: Ast::Path(path), .. }] => path.single(),
            _ => None,
        };
        let Some(name) = name else {
            self.wrong_call("update_crc(name)", span);
            return None;
        };
        if let Some(&id) = self.ids.crcs.get(&name.value) {
            if self.ir.crcs.get(id).is_some_and(|crc| crc.update == Update::Never) {
                let text =
                    format!("CRC `{}` is never updated, so that this does nothing", name.value);
                self.report
                    .error(codes::ARGUMENTS, span, text)
                    .help("give the CRC `update: on_request`, or `always` and leave the call out");
            }
            return Some(Op::UpdateCrc(id));
        }
        if !self.scope.crcs.contains_key(name.value.as_str()) {
            let text = format!("there is no CRC `{}`", name.value);
            let names: Vec<&str> = self.scope.crcs.keys().copied().collect();
            self.report.error(codes::UNKNOWN, name.span, text).did_you_mean(&name.value, names);
        }
        None
    }

    /// Number of match keys of a table in the source, valid or not.
    fn declared_keys(&self, table: &str) -> usize {
        let Some(item) = self.scope.tables.iter().find(|item| item.name.value == table) else {
            return 0;
        };
        item.decl.key.iter().filter(|key| key.kind.value != "selector").count()
    }

    pub(super) fn learn(
        &mut self,
        flow: &mut Flow,
        table: &Name,
        key: &[AstExpr],
        action: &AstExpr,
        span: SourceSpan,
    ) {
        let Some(id) = self.table_ref(table) else { return };
        let Some(known) = self.ir.tables.get(id).cloned() else { return };
        if let Some(why) = cannot_learn(&known) {
            let text = format!("nothing can be learnt into table `{}`", known.name);
            let help = "learn into a table whose keys are all `exact`";
            self.report.error(codes::CANNOT_LEARN, table.span, text).note(why).help(help);
            return;
        }
        if known.keys.len() != key.len() {
            // An invalid key of the table was reported there.
            if self.declared_keys(&known.name) != known.keys.len() {
                return;
            }
            let text =
                format!("table `{}` has {} keys, not {}", known.name, known.keys.len(), key.len());
            let names: Vec<&str> = known.keys.iter().map(|key| key.name.as_str()).collect();
            let help = format!("keys: {}", names.join(", "));
            self.report.error(codes::ARGUMENTS, span, text).help(help);
            return;
        }
        let values: Vec<_> =
            known.keys.iter().zip(key).map(|(known, value)| self.expr(value, known.bits)).collect();
        let values: Option<Vec<_>> = values.into_iter().collect();
        let Some((name, args)) = self.call_parts(action) else { return };
        let Some(action_id) = self.action_ref(name) else { return };
        let args = self.action_args(action_id, args, action.span);
        if !self.listed_for_entries(&known, action_id, name) {
            return;
        }
        if let (Some(key), Some(args)) = (values, args) {
            flow.op(Op::Learn { table: id, key, action: action_id, args }, span);
        }
    }

    /// Name and arguments of a call: `drop`, `route(1, 2)`.
    pub(crate) fn call_parts<'e>(
        &mut self,
        call: &'e AstExpr,
    ) -> Option<(&'e Name, &'e [AstExpr])> {
        match &call.value {
            Ast::Call(name, args) => Some((name, args.as_slice())),
            Ast::Path(path) if path.single().is_some() => {
                path.single().map(|name| (name, [].as_slice()))
            }
            _ => {
                let text = "an action is wanted here, with its arguments";
                self.report.error(codes::WRONG_KIND, call.span, text).help("as in `route(1)`");
                None
            }
        }
    }

    /// The table that a name means.
    pub(crate) fn table_ref(&mut self, name: &Name) -> Option<TableId> {
        match self.scope.symbol(&name.value) {
            Some(Symbol::Table(index)) => self.ids.tables.get(index).copied().flatten(),
            _ => {
                self.no_such(name, "a table", |symbol| matches!(symbol, Symbol::Table(_)));
                None
            }
        }
    }
}

/// Why packets cannot insert entries into a table: a packet has one value for each key.
fn cannot_learn(table: &Table) -> Option<String> {
    let other = table.keys.iter().find(|key| key.kind != MatchKind::Exact);
    if table.const_entries {
        Some("its entries are constant".into())
    } else if table.selector.is_some() {
        Some("its entries name members of a selector, and what is learnt is an action".into())
    } else {
        let (name, kind) = other.map(|key| (&key.name, format!("{:?}", key.kind)))?;
        let kind = kind.to_lowercase();
        Some(format!("its key `{name}` is {kind}, and what is learnt has one value for each key"))
    }
}
