//! v1model: what its blocks become, its metadata and its functions.
//!
//! Ingress: verification of checksums, the control, then what bmv2 does with `egress_spec`. Egress: the control, the computation of
//! checksums, the statements of the deparser. `exit` ends the control only, so what follows it is put before each `exit`.

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{CallInfo, Type};
use super::build::{binary, call, cast, is, known, named, number};
use super::env::{BlockVal, Val};
use super::need::Need;
use super::operate::both;
use super::standard::{Half, INGRESS_ONLY};
use super::stmt::returns;
use super::{Lower, Place};
use crate::ast::print::expression;
use crate::ast::{self, AstBin, AstExpr, Sp, StmtKind as Made};
use crate::diag::codes;
use crate::ir::SourceSpan;

/// The port that means drop.
const DROP_PORT: u128 = 511;
/// The extern functions that run.
const FUNCTIONS_HELP: &str = "what runs: hash, random, digest, clone, resubmit, recirculate, truncate, mark_to_drop, checksums, log_msg, assert and assume of v1model.p4, and the functions of psa.p4";

/// A way in which a packet enters ingress again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Resubmit,
    Recirculate,
}

/// The functions that have a packet enter ingress again.
fn entry(function: &str) -> Option<Entry> {
    match function {
        "resubmit" | "resubmit_preserving_field_list" => Some(Entry::Resubmit),
        "recirculate" | "recirculate_preserving_field_list" => Some(Entry::Recirculate),
        _ => None,
    }
}

impl Lower<'_> {
    pub(super) fn v1model(&mut self, main: &Rc<BlockVal>) -> Option<()> {
        let blocks: Vec<Rc<BlockVal>> =
            (0..6).map(|at| self.block_at(main, at)).collect::<Option<Vec<_>>>()?;
        let types = self.param_types(&blocks[0]);
        let span = blocks[0].decl.name.span;
        self.span = span;
        let hdr = self.packet_storage(types.get(1)?, span);
        let meta = self.packet_storage(types.get(2)?, span);
        self.declare_marks(span);
        let spec = self.new_meta("egress_spec", 9, span);
        let error = self.new_meta("checksum_error", 1, span);
        self.sum_error = Some(error.clone());
        self.spec_here = Some(spec.clone());
        let standard = types.get(3)?;
        let (parsed, first) = self.standard(standard, &spec, &error, Half::Parser, span);
        let (ingress, begin) = self.standard(standard, &spec, &error, Half::Ingress, span);
        let values = [Val::Packet, hdr.clone(), meta.clone(), parsed];
        self.main_parser(&blocks[0], &values, first);
        let ((), verify) =
            self.apart(|lower| lower.block_alone(&blocks[1], &[hdr.clone(), meta.clone()]));
        let (egress_spec, egress) = (self.new_meta("egress_spec", 9, span), Half::Egress);
        let egress = self.standard(standard, &egress_spec, &error, egress, span);
        self.epilogue = self.ingress_end(&spec, span);
        let ((), body) =
            self.apart(|lower| lower.pass_block(&blocks[2], &[hdr.clone(), meta.clone(), ingress]));
        let ((), mut statements) = self.apart(|lower| lower.not_again(span));
        statements.extend(begin);
        statements.extend(verify);
        statements.extend(self.ended(body));
        self.unit.ingress = Some(Sp::new(statements, blocks[2].decl.name.span));
        self.v1_egress(&blocks, (&hdr, &meta), &egress_spec, egress, span);
        self.note_brought();
        Some(())
    }

    fn v1_egress(
        &mut self,
        blocks: &[Rc<BlockVal>],
        (hdr, meta): (&Val, &Val),
        spec: &AstExpr,
        (egress, begin): (Val, Vec<ast::Stmt>),
        span: SourceSpan,
    ) {
        let ((), computed) =
            self.apart(|lower| lower.block_alone(&blocks[4], &[hdr.clone(), meta.clone()]));
        let mut left = self.deparser(&blocks[5], &[Val::Packet, hdr.clone()]);
        left.extend(self.bring_to_egress(span));
        // Also in front of each `exit`, so whether egress writes it must be known before.
        let drops = Need::Written(Half::Egress, "egress_spec".to_owned());
        let drop = self.is_needed(&drops).then(|| {
            let condition = is(spec.clone(), DROP_PORT, 9, span);
            let drop = ast::Stmt { kind: Made::Drop(None), span };
            ast::Stmt { kind: Made::If(condition, vec![drop], Vec::new()), span }
        });
        self.epilogue = self.last_clone(span);
        self.epilogue.extend(drop);
        self.epilogue.extend(computed);
        self.epilogue.extend(left);
        if self.is_needed(&Need::Recirculates) {
            let again = self.if_again("recirculate", Vec::new(), span);
            self.epilogue.extend(again);
        }
        self.spec_here = Some(spec.clone());
        let ((), body) =
            self.apart(|lower| lower.pass_block(&blocks[3], &[hdr.clone(), meta.clone(), egress]));
        let mut seen = super::scan::Mentions::default();
        seen.statements(&self.unit, &body);
        for (name, of_device) in INGRESS_ONLY {
            let path = format!("std.{of_device}");
            if seen.read.contains(&path) || seen.written.contains(&path) {
                self.need(Need::Written(Half::Egress, name.to_owned()));
            }
        }
        let Some(name) = plain_meta(spec) else { return };
        if seen.written.contains(&name) {
            self.need(drops);
        }
        let mut body = self.ended(body);
        body.splice(0..0, begin);
        let later = self.again_later(span);
        body.splice(0..0, later);
        if !body.is_empty() {
            self.unit.egress = Some(Sp::new(body, blocks[3].decl.name.span));
        }
    }

    /// A control of the architecture: in place, or as a block of its own if it returns.
    pub(super) fn architecture_block(&mut self, block: &Rc<BlockVal>, values: &[Val]) {
        let DeclKind::Control(control) = &block.decl.kind else { return };
        let scope = self.block_scope(block, &control.constructor);
        bind_all(&scope, &control.params, values);
        let outer_place = std::mem::replace(&mut self.place, Place::Control);
        self.spare.clear();
        let returns = control.body.as_ref().is_some_and(|body| returns(&body.statements));
        let ((), made) = self.block_of(block, scope, |lower| {
            lower.apart(|lower| {
                lower.body_level = lower.around.len();
                lower.control_body(control);
            })
        });
        if returns || self.exited().is_some() {
            let name = self.names.fresh(&block.name, "");
            let span = block.decl.name.span;
            self.unit
                .controls
                .push((Sp::new(name.clone(), span), super::control::plain_control(made)));
            self.push(Made::CallControl(Sp::new(name, span), Vec::new()), span);
        } else {
            self.out.extend(made);
        }
        self.place = outer_place;
    }

    /// Behind ingress: once more if that was asked for, else multicast, else drop, else the port.
    fn ingress_end(&mut self, spec: &AstExpr, span: SourceSpan) -> Vec<ast::Stmt> {
        let group = named(&["std", "multicast_group"], span);
        let no_group = is(group, 0, 16, span);
        let dropped = is(spec.clone(), DROP_PORT, 9, span);
        let drop = ast::Stmt { kind: Made::Drop(None), span };
        let condition = both(dropped, no_group, span);
        let port = super::build::path(&["std", "egress_port"], span);
        let port = Sp::new(port, span);
        let sent = vec![
            ast::Stmt { kind: Made::If(condition, vec![drop], Vec::new()), span },
            ast::Stmt { kind: Made::Assign(port, None, cast(16, spec.clone())), span },
        ];
        let mut end = self.last_clone(span);
        end.append(&mut self.epilogue);
        end.extend(self.if_again("resubmit_received", sent, span));
        end
    }

    /// A function of v1model.
    pub(super) fn v1model_function(
        &mut self,
        expr: &Expr,
        name: &str,
        args: &[Arg],
        _: &CallInfo,
    ) -> Val {
        let span = expr.span;
        match (name, args) {
            ("mark_to_drop", _) => self.mark_to_drop(args.first(), span),
            ("random", [to, low, high]) => self.v1_random([to, low, high], span),
            ("hash", [to, algorithm, base, data, max]) => {
                self.v1_hash([to, algorithm, base, data, max], span)
            }
            (
                "verify_checksum"
                | "update_checksum"
                | "verify_checksum_with_payload"
                | "update_checksum_with_payload",
                [condition, data, field, algorithm],
            ) => {
                let (verify, payload) = (name.starts_with("verify"), name.ends_with("payload"));
                self.v1_checksum([condition, data, field, algorithm], verify, payload, span);
            }
            ("truncate", [length]) => {
                let bytes = self.scalar(&length.value);
                self.run("truncate", vec![bytes], span);
            }
            ("digest", [_, data]) => {
                let ty = self.type_of(&data.value);
                let value = self.eval(&data.value);
                let (wanted, full) = self.digest_names(expr.id, &ty);
                self.digest(&value, &ty, &wanted, full, span);
            }
            ("clone_preserving_field_list", [_, session, list]) => {
                let list = self.known_number(&list.value);
                self.v1_clone(session, Some(list), span);
            }
            ("clone", [_, session]) => self.v1_clone(session, None, span),
            ("clone3", [_, session, data]) => {
                let list = self.written_list(&data.value);
                self.v1_clone(session, list, span);
            }
            ("resubmit" | "recirculate", [data]) => {
                let list = self.written_list(&data.value);
                self.enters_again(name, list, span);
            }
            ("resubmit_preserving_field_list" | "recirculate_preserving_field_list", [list]) => {
                let list = self.known_number(&list.value);
                self.enters_again(name, Some(list), span);
            }
            _ => {
                if let Some(value) = self.psa_function(name, args, span) {
                    return value;
                }
                let text = format!("the extern function `{name}` is not supported");
                self.unsupported(span, text).help(FUNCTIONS_HELP);
            }
        }
        Val::Nothing
    }

    fn v1_random(&mut self, [to, low, high]: [&Arg; 3], span: SourceSpan) {
        let ty = self.type_of(&to.value);
        if !self.are_numbers(&[to, low, high]) {
            return;
        }
        let place = self.target(&to.value);
        let limits = self.each_in_order([&low.value, &high.value]);
        if let [Val::Scalar(low), Val::Scalar(high)] = limits.map(|one| self.sized(one, &ty)) {
            let value = self.effect(call("random", vec![low, high], span), span);
            self.assign(&place, &Val::Scalar(value), &ty, span);
        }
    }

    fn v1_clone(&mut self, session: &Arg, list: Option<u128>, span: SourceSpan) {
        let ty = self.type_of(&session.value);
        if let Val::Scalar(session) = self.eval_as(&session.value, &ty) {
            self.clone_with(list, span);
            // The device has sessions of 16 bits; session 0 makes no copy.
            let session = match known(&session) {
                Some(session) => number(u16::try_from(session).unwrap_or(0).into(), 16, span),
                None => match self.bits(&ty, span) {
                    bits @ 17.. => self.narrowed(session, (bits, 16), 0, span),
                    _ => cast(16, session),
                },
            };
            self.clone_to(session, span);
        }
    }

    /// The packet enters ingress again, from the control that has this function.
    fn enters_again(&mut self, function: &str, list: Option<u128>, span: SourceSpan) {
        let recirculates = entry(function) == Some(Entry::Recirculate);
        let in_ingress = self.unit.ingress.is_none();
        if recirculates {
            self.need(Need::Recirculates);
        } else if !in_ingress {
            self.report
                .warning(codes::NO_EFFECT, span, format!("`{function}` has no effect in egress"))
                .help("`recirculate_preserving_field_list` sends the packet to ingress from here");
            return;
        }
        self.again_with(list, recirculates && in_ingress, span);
    }

    /// The name of a digest of `ty` in the program, and its name for control: those of its
    /// struct, as p4c's P4Info has them.
    fn digest_names(&self, call: u32, ty: &Type) -> (String, String) {
        let own = match ty {
            Type::Struct(of) => of.decl.name.value.to_string(),
            _ => "message".to_owned(),
        };
        (own, crate::p4::info::digest_name(self.checked, call, ty))
    }

    /// Without an argument: the standard metadata of the control around.
    fn mark_to_drop(&mut self, standard: Option<&Arg>, span: SourceSpan) {
        self.bound += usize::from(standard.is_none());
        let (spec, group) = match standard {
            Some(standard) => {
                let Val::Struct(fields) = self.eval(&standard.value) else { return };
                let find = |name: &str| {
                    fields.iter().find(|(known, _)| &**known == name).map(|(_, value)| value)
                };
                let (Some(Val::Scalar(spec)), group) = (find("egress_spec"), find("mcast_grp"))
                else {
                    return;
                };
                (spec.clone(), group.cloned())
            }
            None => {
                let Some(spec) = self.spec_here.clone() else { return };
                (spec, Some(Val::Scalar(named(&["std", "multicast_group"], span))))
            }
        };
        self.set(&spec, number(DROP_PORT, 9, span), span);
        // In egress the group is decided long ago. A copy of the metadata has a group too, which is copied back.
        let in_ingress = self.unit.ingress.is_none();
        if let (true, Some(Val::Scalar(group))) = (in_ingress, group) {
            self.set(&group, number(0, 16, span), span);
        }
    }

    fn v1_hash(&mut self, [to, algorithm, base, data, max]: [&Arg; 5], span: SourceSpan) {
        let value = self.eval(&algorithm.value);
        let Some(algorithm) = self.algorithm(&value, algorithm.value.span) else { return };
        if !self.are_numbers(&[to, base, max]) {
            return;
        }
        let to_ty = self.type_of(&to.value);
        let to_bits = self.bits(&to_ty, span);
        let place = self.target(&to.value);
        let args = [&base.value, &data.value, &max.value];
        let value = self.hash_between(algorithm, args, to_bits, span);
        self.assign(&place, &Val::Scalar(value), &to_ty, span);
    }

    /// Whether arguments of type parameters are numbers, as v1model wants them.
    fn are_numbers(&mut self, args: &[&Arg]) -> bool {
        let mut fit = true;
        for arg in args {
            let ty = self.type_of(&arg.value);
            if matches!(
                ty.base(),
                Type::Struct(_)
                    | Type::Stack(..)
                    | Type::Tuple(_)
                    | Type::List(_)
                    | Type::Listed(..)
                    | Type::Record(..)
                    | Type::Varbit(_)
            ) {
                self.wrong_type(arg.value.span, format!("{ty} is no number"));
                fit = false;
            }
        }
        fit
    }

    fn v1_checksum(
        &mut self,
        [condition, data, field, algorithm]: [&Arg; 4],
        verify: bool,
        payload: bool,
        span: SourceSpan,
    ) {
        let value = self.eval(&algorithm.value);
        let Some(algorithm) = self.algorithm(&value, algorithm.value.span) else { return };
        if !self.are_numbers(&[field]) {
            return;
        }
        let condition = self.scalar(&condition.value);
        let ty = self.type_of(&data.value);
        let (is_there, made) = self.apart(|lower| {
            let value = lower.eval(&data.value);
            let mut fields = lower.fields(&value, &ty, span);
            if payload {
                fields.push((named(&["body"], span), super::hash::BYTES));
            }
            let (sum, bits) = lower.hashed(algorithm, &fields, span);
            let to = lower.type_of(&field.value);
            let width = lower.bits(&to, span);
            let sum = if bits == width { sum } else { cast(width, sum) };
            let place = lower.eval(&field.value);
            if !verify {
                lower.assign(&place, &Val::Scalar(sum), &to, span);
                return None;
            }
            let is_there = lower.validity_around(&place, span);
            let Val::Scalar(place) = place else { return None };
            let differs = binary(AstBin::Ne, place, sum, span);
            let error = lower.sum_error.clone()?;
            let ((), set) = lower.apart(|lower| lower.set(&error, number(1, 1, span), span));
            lower.push(Made::If(differs, set, Vec::new()), span);
            is_there
        });
        // bmv2 verifies nothing where the header of the field is invalid (`Checksum::verify`).
        let condition = match is_there {
            _ if known(&condition) == Some(0) => return,
            Some(is_there) if !requires(&condition, &is_there) => both(condition, is_there, span),
            _ => condition,
        };
        match known(&condition) {
            Some(_) => self.out.extend(made),
            None => self.push(Made::If(condition, made, Vec::new()), span),
        }
    }

    /// Whether the header is valid that this is a field of; `None` where it is of no header.
    fn validity_around(&self, field: &Val, span: SourceSpan) -> Option<AstExpr> {
        let Val::Scalar(Sp { value: ast::Ast::Path(path), .. }) = field else { return None };
        let mut path = path.clone();
        path.parts.pop();
        path.parts.push(ast::PathPart::Name(Sp::new("valid".to_owned(), span)));
        self.is_of_header(field).then(|| Sp::new(ast::Ast::Path(path), span))
    }
}

/// Whether a condition holds only where this part of it does.
fn requires(condition: &AstExpr, part: &AstExpr) -> bool {
    match &condition.value {
        ast::Ast::Binary(AstBin::LogicalAnd, left, right) => {
            requires(left, part) || requires(right, part)
        }
        _ => expression(condition) == expression(part),
    }
}

pub(super) fn bind_all(scope: &super::env::Env, params: &[Param], values: &[Val]) {
    for (param, value) in params.iter().zip(values) {
        scope.bind(param.id, value.clone());
    }
}

pub(super) fn plain_meta(place: &AstExpr) -> Option<String> {
    match &place.value {
        ast::Ast::Path(path) => path.plain()?.strip_prefix("meta.").map(str::to_owned),
        _ => None,
    }
}
