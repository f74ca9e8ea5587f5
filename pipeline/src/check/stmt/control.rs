//! Calls of controls: a control is inlined where it is called, its parameters are locals.
//!
//! Copy in, copy out, as in P4-16: `in` and `inout` parameters have the value of the argument when the call begins,
//! `out` and `inout` arguments are assigned, in order, when the control has returned. A statement that ends the pass
//! assigns nothing.

use crate::ast::*;
use crate::check::cx::{Cx, Env, Place};
use crate::check::expr::path::Target;
use crate::check::flow::Flow;
use crate::check::scope::Symbol;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::{Body, Display, ExprKind, LValue, Op, Param, SourceSpan, Term};

/// A parameter of a call that is being lowered: its local, and the place that its value is copied to.
struct Argument {
    local: LocalId,
    bits: u32,
    to: Option<LValue>,
}

impl Cx<'_> {
    pub(super) fn call_control(
        &mut self,
        flow: &mut Flow,
        name: &Name,
        args: &[AstExpr],
        span: SourceSpan,
    ) {
        if self.env.place != Place::Control {
            let text = "a block of `controls` is called by ingress and egress, not by an action";
            self.report.error(codes::WRONG_PLACE, name.span, text);
            return;
        }
        let is_control = |symbol| matches!(symbol, Symbol::Control(_));
        let Some(Symbol::Control(index)) = self.scope.symbol(&name.value) else {
            self.no_such(name, "a control", is_control);
            return;
        };
        if self.controls.contains(&index) {
            let text = format!("`{}` calls itself", name.value);
            self.report
                .error(codes::RECURSION, name.span, text)
                .note("a packet's work is bounded: there are no loops outside the parser");
            return;
        }
        let Some(item) = self.scope.controls.get(index).copied() else { return };
        let Some(arguments) = self.control_arguments(flow, name, item.decl, args, span) else {
            return;
        };
        if self.lowers_alone {
            return;
        }
        self.controls.push(index);
        self.called_controls.insert(index);
        let outer = std::mem::replace(&mut self.env, Env::at(Place::Control));
        self.env.open();
        for ((param, _), argument) in item.decl.params.iter().zip(&arguments) {
            self.bind_argument(param, argument.local, argument.bits);
        }
        let after = flow.block();
        flow.returns.push(after);
        self.statements(flow, &item.decl.body);
        flow.end(Term::Jump(after), None);
        flow.returns.pop();
        flow.enter(after);
        self.env = outer;
        self.controls.pop();
        for Argument { local, bits, to } in arguments {
            if let Some(to) = to {
                let value = self.node(ExprKind::Local(local), bits, span);
                flow.op(Op::Set(to, value), span);
            }
        }
    }

    /// Evaluates the arguments of a call into new locals.
    fn control_arguments(
        &mut self,
        flow: &mut Flow,
        name: &Name,
        decl: &ControlDecl,
        args: &[AstExpr],
        span: SourceSpan,
    ) -> Option<Vec<Argument>> {
        let params = self.control_params(decl);
        let args = self.in_order(&name.value, &params, args, span)?;
        let mut arguments = Vec::new();
        for ((param, arg), (_, declared)) in params.iter().zip(args).zip(&decl.params) {
            let bits = param.bits;
            if bits == 0 {
                // Its width is wrong, which was reported.
                self.value(arg);
                return None;
            }
            let to = match declared.direction {
                Direction::In => None,
                _ => Some(self.assigned_argument(arg, param)?),
            };
            let value = match declared.direction {
                Direction::Out => self.constant(0, bits, span),
                _ => self.expr(arg, bits)?,
            };
            let local = self.new_local(&param.name, bits);
            flow.op(Op::Set(LValue::Local(local), value), span);
            arguments.push(Argument { local, bits, to });
        }
        Some(arguments)
    }

    /// The place that a parameter is copied to: its width is that of the parameter.
    fn assigned_argument(&mut self, arg: &AstExpr, param: &Param) -> Option<LValue> {
        let text = format!("`{}` is assigned by the control, and this is not a place", param.name);
        let help = "a field, metadata, intrinsic metadata or a local, as a whole";
        let Ast::Path(path) = &arg.value else {
            self.report.error(codes::NOT_ASSIGNABLE, arg.span, text).help(help);
            return None;
        };
        let (to, bits) = match self.resolve(path, arg.span)? {
            target
            @ (Target::Field(..) | Target::Meta(..) | Target::Std(_) | Target::Local(..)) => {
                self.place_of(target, arg.span)?
            }
            _ => {
                self.report.error(codes::NOT_ASSIGNABLE, arg.span, text).help(help);
                return None;
            }
        };
        if bits != param.bits {
            self.wrong_width(param.bits, bits, arg.span);
            return None;
        }
        Some(to)
    }

    /// The parameters; one of wrong width has 0 bits.
    fn control_params(&mut self, decl: &ControlDecl) -> Vec<Param> {
        let params = decl.params.iter().map(|(name, param)| {
            let bits = self.scalar_width(&param.ty).map_or(0, |width| width.bits as u32);
            Param { name: name.value.clone(), bits, display: Display::Hex }
        });
        params.collect()
    }

    /// Lowers a control that is never called, for its errors.
    pub(crate) fn control_alone(&mut self, decl: &ControlDecl) -> Body {
        self.env = Env::at(Place::Control);
        self.env.open();
        let params = self.control_params(decl);
        for ((name, _), param) in decl.params.iter().zip(params) {
            self.bind_param(name, &param);
        }
        self.body_here(&decl.body)
    }
}
