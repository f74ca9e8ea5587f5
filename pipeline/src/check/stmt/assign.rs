//! Assignments, and the effects permitted on their right side.

mod copy;

use crate::ast::*;
use crate::check::cx::{Cx, Place};
use crate::check::expr::Val;
use crate::check::expr::path::Target;
use crate::check::flow::Flow;
use crate::check::scope::Symbol;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::{ExprKind, LValue, Op, SourceSpan, Term};

/// An effect with a result.
pub(crate) enum Effect {
    /// `random(low, high)`; two numbers take the width of the target.
    Random { low: Val, high: Val, bits: Option<u32>, spans: (SourceSpan, SourceSpan) },
    /// `execute(meter, index, color)`.
    Meter { meter: MeterId, index: ExprId, color: Option<ExprId> },
    /// `register[i].cell`.
    Register { register: RegisterId, index: ExprId, cell: u32, bits: u32 },
    /// A device extern with a result.
    Extern { external: ExternId, args: Vec<ExprId>, bits: u32 },
}

impl Effect {
    /// Width of the value, when it has one by itself.
    pub(crate) fn bits(&self) -> Option<u32> {
        match self {
            Effect::Random { bits, .. } => *bits,
            Effect::Register { bits, .. } | Effect::Extern { bits, .. } => Some(*bits),
            Effect::Meter { .. } => Some(2),
        }
    }
}

impl Cx<'_> {
    pub(super) fn assign(
        &mut self,
        flow: &mut Flow,
        path: &Sp<Path>,
        slice: Option<&(AstExpr, AstExpr)>,
        value: &AstExpr,
        span: SourceSpan,
    ) {
        if slice.is_none()
            && self.env.place != Place::Parser
            && let Some(to) = self.bytes_field(&path.value, path.span)
        {
            return self.copy_bytes(flow, to, value, span);
        }
        let (target, slice) = self.sliced(path, slice);
        let Some(target) = target else {
            // The right side is lowered all the same, for its own errors.
            if let Ok(None) = self.effect(value) {
                self.value(value);
            }
            return;
        };
        match target {
            Target::Header(to) => return self.copy_header(flow, to, value, span),
            Target::AnyElement(stack, index) => {
                return self.each_element(flow, stack, index, span, &mut |cx, flow, to| {
                    cx.copy_header(flow, to, value, span);
                });
            }
            Target::ElementField(stack, index, field, bits) => {
                let place = (stack, index, field, bits);
                return self.assign_element_field(flow, place, slice, value, span);
            }
            _ => {}
        }
        if let Target::Cell { register, index, cell, bits } = target {
            return self.store_cell(flow, (register, index, cell, bits), slice, value, span);
        }
        let Some((to, bits)) = self.place_of(target, path.span) else {
            if let Ok(None) = self.effect(value) {
                self.value(value);
            }
            return;
        };
        match slice {
            None => self.assign_whole(flow, to, bits, value, span),
            Some(bounds) => self.assign_slice(flow, to, bits, bounds, value, span),
        }
    }

    /// What the left side of an assignment names, and the slice of it that is assigned. A slice of a field over 128 bits is a place of
    /// its own.
    pub(in crate::check) fn sliced<'s>(
        &mut self,
        path: &Sp<Path>,
        slice: Option<&'s (AstExpr, AstExpr)>,
    ) -> (Option<Target>, Option<&'s (AstExpr, AstExpr)>) {
        let part = slice.and_then(|(high, low)| self.part(&path.value, (high, low), path.span));
        match part {
            Some(part) => (part, None),
            None => (self.resolve(&path.value, path.span), slice),
        }
    }

    /// The place of an assignment; `None`, with an error, for what cannot be assigned.
    pub(super) fn place_of(&mut self, target: Target, span: SourceSpan) -> Option<(LValue, u32)> {
        let text = match target {
            Target::Field(instance, field, bits) => {
                if self.env.place == Place::Parser {
                    let text = "the parser reads headers and does not change them";
                    self.report
                        .error(codes::WRONG_PLACE, span, text)
                        .help("assign to metadata here, and to the field in ingress");
                    return None;
                }
                return Some((LValue::Field(instance, field), bits));
            }
            Target::Element(instance, field, index, bits) => {
                return Some((LValue::Element { instance, field, index }, bits));
            }
            Target::Meta(meta, bits) => return Some((LValue::Meta(meta), bits)),
            Target::Std(field) => return Some((LValue::Std(field), field.bits())),
            Target::Local(local, bits) => return Some((LValue::Local(local), bits)),
            Target::Absent(_) | Target::AbsentHeader(_) => return None,
            Target::Read(ExprKind::Valid(_), _) => {
                "validity is changed by `set_valid(h)` and `set_invalid(h)`"
            }
            Target::Read(ExprKind::StackLast(..), _) => {
                "`last` can be read only; name an element: `stack[0].field`"
            }
            Target::Read(..) | Target::Value(_) => "this can be read only",
            Target::Header(_)
            | Target::Cell { .. }
            | Target::AnyElement(..)
            | Target::ElementField(..) => return None,
        };
        self.report.refuse(codes::NOT_ASSIGNABLE, span, text)
    }

    /// Applies an operation to the element of a stack with this number: a case for each, and nothing outside.
    pub(super) fn each_element(
        &mut self,
        flow: &mut Flow,
        stack: StackId,
        index: ExprId,
        span: SourceSpan,
        act: &mut dyn FnMut(&mut Self, &mut Flow, InstanceId),
    ) {
        let elements = self.elements(stack);
        let blocks: Vec<BlockId> = elements.iter().map(|_| flow.block()).collect();
        let after = flow.block();
        let cases = blocks.iter().enumerate().map(|(at, block)| (at as u128, *block)).collect();
        flow.end(Term::Switch { value: index, cases, default: after }, Some(span));
        let errors = self.report.counts().0;
        for (id, block) in elements.into_iter().zip(blocks) {
            flow.enter(block);
            // An error for one element occurs for all.
            if self.report.counts().0 == errors {
                act(self, flow, id);
            }
            flow.end(Term::Jump(after), None);
        }
        flow.enter(after);
    }

    /// `stack[i].field = value`: the value is computed once, before the element is selected.
    fn assign_element_field(
        &mut self,
        flow: &mut Flow,
        (stack, index, field, bits): (StackId, ExprId, FieldId, u32),
        slice: Option<&(AstExpr, AstExpr)>,
        value: &AstExpr,
        span: SourceSpan,
    ) {
        let bounds = match slice {
            None => Some((bits - 1, 0)),
            Some((high, low)) => {
                let bounds = self.slice_bounds(high, low);
                bounds.filter(|(high, low)| self.slice_fits(*high, *low, bits, span))
            }
        };
        let Some((high, low)) = bounds else {
            self.value(value);
            return;
        };
        let width = high - low + 1;
        let number = self.new_local("index", 32);
        flow.op(Op::Set(LValue::Local(number), index), span);
        let Some(id) = self.value_or_effect(flow, value, width, span) else { return };
        let local = self.new_local("value", width);
        flow.op(Op::Set(LValue::Local(local), id), span);
        let index = self.node(ExprKind::Local(number), 32, span);
        self.each_element(flow, stack, index, span, &mut |cx, flow, instance| {
            let read = cx.node(ExprKind::Local(local), width, span);
            let to = match width == bits {
                true => LValue::Field(instance, field),
                false => LValue::FieldSlice { instance, field, high, low },
            };
            flow.op(Op::Set(to, read), span);
        });
    }

    fn assign_whole(
        &mut self,
        flow: &mut Flow,
        to: LValue,
        bits: u32,
        value: &AstExpr,
        span: SourceSpan,
    ) {
        match self.effect(value) {
            Err(()) => {}
            Ok(Some(effect)) => {
                if self.effect_fits(&effect, bits, value.span) {
                    self.run_effect(flow, effect, (to, bits), span);
                }
            }
            Ok(None) => {
                if let Some(id) = self.expr(value, bits) {
                    flow.op(Op::Set(to, id), span);
                }
            }
        }
    }

    fn assign_slice(
        &mut self,
        flow: &mut Flow,
        to: LValue,
        bits: u32,
        (high, low): &(AstExpr, AstExpr),
        value: &AstExpr,
        span: SourceSpan,
    ) {
        let bounds = self.slice_bounds(high, low);
        let Some((high, low)) = bounds.filter(|(h, l)| self.slice_fits(*h, *l, bits, span)) else {
            self.value(value);
            return;
        };
        let Some(id) = self.value_or_effect(flow, value, high - low + 1, span) else { return };
        match to {
            LValue::Field(instance, field) => {
                flow.op(Op::Set(LValue::FieldSlice { instance, field, high, low }, id), span);
            }
            LValue::Element { instance, field, index } => {
                let old = ExprKind::Element { instance, field, index };
                let whole = self.replace_bits(old, bits, (high, low), id, span);
                flow.op(Op::Set(LValue::Element { instance, field, index }, whole), span);
            }
            LValue::Meta(meta) => {
                let whole = self.replace_bits(ExprKind::Meta(meta), bits, (high, low), id, span);
                flow.op(Op::Set(LValue::Meta(meta), whole), span);
            }
            LValue::Local(local) => {
                let whole = self.replace_bits(ExprKind::Local(local), bits, (high, low), id, span);
                flow.op(Op::Set(LValue::Local(local), whole), span);
            }
            LValue::Std(_) | LValue::FieldSlice { .. } => {
                let text = "intrinsic metadata is assigned as a whole";
                self.report.error(codes::NOT_ASSIGNABLE, span, text);
            }
        }
    }

    /// An expression, or the result of an effect, which goes to a local first.
    fn value_or_effect(
        &mut self,
        flow: &mut Flow,
        value: &AstExpr,
        bits: u32,
        span: SourceSpan,
    ) -> Option<ExprId> {
        match self.effect(value).ok()? {
            None => self.expr(value, bits),
            Some(effect) if self.effect_fits(&effect, bits, value.span) => {
                let local = self.new_local("value", bits);
                self.run_effect(flow, effect, (LValue::Local(local), bits), span);
                Some(self.node(ExprKind::Local(local), bits, value.span))
            }
            Some(_) => None,
        }
    }

    /// Checks the width of an effect's value. A cast around the effect is no remedy: it is the whole right side.
    fn effect_fits(&mut self, effect: &Effect, bits: u32, span: SourceSpan) -> bool {
        let found = effect.bits().unwrap_or(bits);
        if found != bits {
            let written = self.text(span, "..");
            let help = format!("`let t = {written}` first, then `bit<{bits}>(t)`");
            self.width_error(bits, found, span).help(help);
        }
        found == bits
    }

    /// How `random` is written where it has no width by itself: its first number has one.
    pub(super) fn sized_random(&self, call: &AstExpr) -> Option<String> {
        match &call.value {
            Ast::Call(name, args) if name.value == "random" => self.sized_random_of(args),
            _ => None,
        }
    }

    /// The same of its arguments.
    pub(super) fn sized_random_of(&self, args: &[AstExpr]) -> Option<String> {
        let [Sp { value: Ast::Number { value: low, bits: None }, .. }, high] = args else {
            return None;
        };
        Some(format!("random(16w{low}, {})", self.text(high.span, "..")))
    }

    /// `old` with the bits `high..=low` replaced, as a concatenation.
    fn replace_bits(
        &mut self,
        old: ExprKind,
        bits: u32,
        (high, low): (u32, u32),
        new: ExprId,
        span: SourceSpan,
    ) -> ExprId {
        let value = self.node(old, bits, span);
        let mut whole = (new, high - low + 1);
        if high + 1 < bits {
            let kind = ExprKind::Slice { value, high: bits - 1, low: high + 1 };
            let top = self.node(kind, bits - high - 1, span);
            let width = whole.1 + bits - high - 1;
            whole = (self.node(ExprKind::Concat(top, whole.0), width, span), width);
        }
        if low > 0 {
            let rest = self.node(ExprKind::Slice { value, high: low - 1, low: 0 }, low, span);
            whole.0 = self.node(ExprKind::Concat(whole.0, rest), whole.1 + low, span);
        }
        whole.0
    }

    fn store_cell(
        &mut self,
        flow: &mut Flow,
        (register, index, cell, bits): (usize, ExprId, u32, u32),
        slice: Option<&(AstExpr, AstExpr)>,
        value: &AstExpr,
        span: SourceSpan,
    ) {
        if slice.is_some() {
            let text = "a register cell is stored as a whole";
            let help = "use `update` to change some bits of it";
            self.report.error(codes::NOT_ASSIGNABLE, span, text).help(help);
            return;
        }
        if !self.may_use_registers(span) {
            return;
        }
        let Some(id) = self.ids.registers.get(register).copied().flatten() else { return };
        let first = self.cells_of(id, "cell");
        let local = LocalId(first.0 + cell);
        self.assign_whole(flow, LValue::Local(local), bits, value, span);
        let cells = vec![cell];
        flow.op(Op::RegisterStore { register: id, index, first, cells, locked: false }, span);
    }

    /// New consecutive locals for the cells of a register; the first one.
    pub(super) fn cells_of(&mut self, register: RegisterId, prefix: &str) -> LocalId {
        let first = self.locals.next_id();
        let cells = self.ir.registers.get(register).map(|known| known.cells.clone());
        for cell in cells.unwrap_or_default() {
            self.new_local(&format!("{prefix}.{}", cell.name), cell.bits);
        }
        first
    }

    fn may_use_registers(&mut self, span: SourceSpan) -> bool {
        let text = match self.env.place {
            Place::Parser => "the parser has no registers",
            _ if self.env.in_update => "inside `update` only its own entry can be used",
            _ => return true,
        };
        self.report.error(codes::WRONG_PLACE, span, text);
        false
    }

    /// The effect of the right side, if it has one; `Err` when an error was reported.
    pub(crate) fn effect(&mut self, value: &AstExpr) -> Result<Option<Effect>, ()> {
        match &value.value {
            Ast::Call(name, args) => match name.value.as_str() {
                "random" => self.random(args, value.span).map(Some).ok_or(()),
                "execute" => self.execute(args, value.span).map(Some).ok_or(()),
                other => match self.external(other) {
                    Some(external) => {
                        self.extern_value(external, args, value.span).map(Some).ok_or(())
                    }
                    None => Ok(None),
                },
            },
            Ast::Path(path) if self.is_register(path) => {
                if !self.may_use_registers(value.span) {
                    return Err(());
                }
                match self.resolve(path, value.span) {
                    Some(Target::Cell { register, index, cell, bits }) => {
                        let id = self.ids.registers.get(register).copied().flatten();
                        let register = id.ok_or(())?;
                        Ok(Some(Effect::Register { register, index, cell, bits }))
                    }
                    _ => Err(()),
                }
            }
            _ => Ok(None),
        }
    }

    fn is_register(&self, path: &Path) -> bool {
        match path.parts.first() {
            Some(PathPart::Name(name)) => {
                self.env.local(&name.value).is_none()
                    && matches!(self.scope.symbol(&name.value), Some(Symbol::Register(_)))
            }
            _ => false,
        }
    }

    fn random(&mut self, args: &[AstExpr], span: SourceSpan) -> Option<Effect> {
        if !self.has_effects(span) {
            return None;
        }
        let [low, high] = args else {
            self.wrong_call("random(low, high)", span);
            return None;
        };
        let values = (self.value(low), self.value(high));
        let bits = match &values {
            (Val::Poison, _) | (_, Val::Poison) => return None,
            (Val::Typed(id), _) | (_, Val::Typed(id)) => Some(self.bits(*id)),
            (Val::Int(a), Val::Int(b)) if b.less(*a) => {
                return self.report.refuse(
                    codes::ARGUMENTS,
                    span,
                    "there is no number in this range",
                );
            }
            _ => None,
        };
        Some(Effect::Random { low: values.0, high: values.1, bits, spans: (low.span, high.span) })
    }

    fn execute(&mut self, args: &[AstExpr], span: SourceSpan) -> Option<Effect> {
        if !self.has_effects(span) {
            return None;
        }
        let (name, index, color) = match args {
            [name, index] => (name, index, None),
            [name, index, color] => (name, index, Some(color)),
            _ => {
                self.wrong_call("execute(meter, index) or execute(meter, index, color)", span);
                return None;
            }
        };
        let meter = self.named_arg(name, "a meter", |symbol| matches!(symbol, Symbol::Meter(_)));
        let id = match meter {
            Some(Symbol::Meter(at)) => self.ids.meters.get(at).copied().flatten(),
            _ => None,
        };
        let known = id.and_then(|id| self.ir.meters.get(id));
        let name = known.map(|known| format!("meter `{}`", known.name)).unwrap_or_default();
        let size = known.map(|known| known.size);
        let index = self.index_of(index, &name, size);
        let color = match color {
            Some(color) => Some(self.expr(color, 2)?),
            None => None,
        };
        Some(Effect::Meter { meter: id?, index: index?, color })
    }

    fn extern_value(
        &mut self,
        external: ExternId,
        args: &[AstExpr],
        span: SourceSpan,
    ) -> Option<Effect> {
        let args = self.extern_args(external, args, span)?;
        let signature = self.externs.signatures().get(external)?;
        let Some(bits) = signature.result_bits else {
            let text = format!("`{}` gives no result", signature.name);
            return self.report.refuse(codes::ARGUMENTS, span, text);
        };
        Some(Effect::Extern { external, args, bits })
    }

    /// Checks that an effect is in a control or action, outside of `update`.
    pub(super) fn has_effects(&mut self, span: SourceSpan) -> bool {
        let place = self.env.place;
        if !self.env.in_update && matches!(place, Place::Control | Place::Action) {
            return true;
        }
        let text = "this has an effect and is not allowed here";
        self.report
            .error(codes::WRONG_PLACE, span, text)
            .note("effects belong to ingress, egress and actions, outside of `update`");
        false
    }

    pub(super) fn run_effect(
        &mut self,
        flow: &mut Flow,
        effect: Effect,
        (to, width): (LValue, u32),
        span: SourceSpan,
    ) {
        match effect {
            Effect::Random { low, high, spans, .. } => {
                let low = self.adapt(low, width, spans.0);
                let high = self.adapt(high, width, spans.1);
                if let (Some(low), Some(high)) = (low, high) {
                    flow.op(Op::Random { to, low, high }, span);
                }
            }
            Effect::Meter { meter, index, color } => {
                flow.op(Op::Meter { to, meter, index, color }, span);
            }
            Effect::Extern { external, args, .. } => {
                flow.op(Op::Extern { external, args, to: Some(to) }, span);
            }
            Effect::Register { register, index, cell, bits } => {
                let first = self.cells_of(register, "load");
                flow.op(Op::RegisterLoad { register, index, first, locked: false }, span);
                let local = LocalId(first.0 + cell);
                let read = self.node(ExprKind::Local(local), bits, span);
                flow.op(Op::Set(to, read), span);
            }
        }
    }
}
