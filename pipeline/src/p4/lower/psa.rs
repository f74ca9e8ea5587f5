//! The Portable Switch Architecture: ingress and egress, each with parser, control and deparser.
//!
//! Where the egress parser finds in the bytes that the ingress deparser wrote what ingress left, which [`reparse`](super::reparse) decides,
//! or where it extracts nothing, a packet is parsed once. Every other program has a parser of its own in egress, with headers of its own.
//!
//! What goes along beside a packet (normal, clone, resubmit and recirculate metadata) is metadata that is carried. Whether a field of the output
//! metadata is ever written is known at the end, so the first round only notes it (see [`super::program`]).

use std::rc::Rc;

use super::super::tree::*;
use super::super::types::{Const, Type, substitute};
use super::build::{call, cast, is, mux, named, number, path_is, slice};
use super::env::{BlockVal, Members, Val};
use super::need::Need;
use super::reparse::{How, Seen};
use super::scan::Mentions;
use super::standard::Half;
use super::v1model::plain_meta;
use super::{Lower, Return};
use crate::ast::{self, AstExpr, Sp, StmtKind as Made};
use crate::ir::{CPU_PORT, SourceSpan};

/// `PSA_PORT_RECIRCULATE` and `PSA_PORT_CPU`.
const RECIRCULATE: u128 = 0xffff_fffa;
const CPU: u128 = 0xffff_fffd;

/// A port as programs see it: 32 bits wide, and that of the control plane has a number of its own.
fn port_in(path: &[&str], span: SourceSpan) -> AstExpr {
    let is_cpu = is(named(path, span), CPU_PORT.into(), 16, span);
    mux(is_cpu, number(CPU, 32, span), cast(32, named(path, span)), span)
}

/// Parser, control and deparser of a half.
pub(super) struct Pipe {
    pub(super) parser: Rc<BlockVal>,
    control: Rc<BlockVal>,
    deparser: Rc<BlockVal>,
}

/// What goes along beside a packet.
pub(super) struct Beside {
    pub(super) resubmit: Val,
    pub(super) recirculate: Val,
    pub(super) normal: Val,
    pub(super) clone_i2e: Val,
    pub(super) clone_e2e: Val,
    /// The list that clones keep.
    clones: Option<u128>,
}

impl Lower<'_> {
    pub(super) fn psa(&mut self, main: &Rc<BlockVal>) -> Option<()> {
        let (ingress, egress) = (self.pipe(main, 0)?, self.pipe(main, 2)?);
        let span = ingress.parser.decl.name.span;
        self.span = span;
        self.returns = vec![Return::Native];
        // The port may be one that an entry of a table has.
        let names_path =
            |value: &Const| matches!(value, Const::Enum(_, name) if &**name == "RECIRCULATE");
        if self.checked.consts.values().any(names_path) {
            self.need(Need::Recirculates);
        }
        let flag =
            self.is_needed(&Need::Recirculates).then(|| self.new_meta("recirculates", 1, span));
        let types = self.param_types(&ingress.parser);
        let beside = self.beside(&ingress, &egress)?;
        let hdr = self.packet_storage(types.get(1)?, span);
        let meta = self.packet_storage(types.get(2)?, span);
        let input = self.ingress_input(types.get(3)?, span);
        let (resubmitted, recirculated) = (beside.resubmit.clone(), beside.recirculate.clone());
        let values = [Val::Packet, hdr.clone(), meta.clone(), input, resubmitted, recirculated];
        self.main_parser(&ingress.parser, &values, Vec::new());

        let egress_types = self.param_types(&egress.parser);
        let egress_meta = self.packet_storage(egress_types.get(2)?, span);
        let seen = Seen { hdr: &hdr, headers: types.get(1)?, meta: &egress_meta };
        let reparsed = self.egress_parser(&egress.parser, &seen, &beside, flag.as_ref())?;
        let egress_hdr = reparsed.hdr.clone();
        self.psa_egress(&egress, (&egress_hdr, &egress_meta), &beside, flag.as_ref())?;
        let out = std::mem::take(&mut self.emits);
        self.psa_ingress(&ingress, (&hdr, &meta), &beside, flag.as_ref())?;
        let within = std::mem::take(&mut self.emits);
        self.judge_reparse(reparsed.how, &within, &out);
        self.emits = match reparsed.how {
            How::Same => within,
            How::Nothing => out.into_iter().chain(within).collect(),
            How::Again => within.into_iter().chain(out).collect(),
        };
        Some(())
    }

    fn pipe(&mut self, main: &BlockVal, at: usize) -> Option<Pipe> {
        let half = self.block_at(main, at)?;
        let (parser, control) = (self.block_at(&half, 0)?, self.block_at(&half, 1)?);
        Some(Pipe { parser, control, deparser: self.block_at(&half, 2)? })
    }

    /// The types of the parameters of a parser or control.
    pub(super) fn param_types(&self, block: &BlockVal) -> Vec<Type> {
        let params = match &block.decl.kind {
            DeclKind::Parser(parser) => &parser.params,
            DeclKind::Control(control) => &control.params,
            _ => return Vec::new(),
        };
        let types = params.iter().map(|one| substitute(&self.declared(one.id), &block.types));
        types.collect()
    }

    /// Places for what goes along between passes, beside the packet.
    fn beside(&mut self, ingress: &Pipe, egress: &Pipe) -> Option<Beside> {
        let of_ingress = self.param_types(&ingress.parser);
        let of_egress = self.param_types(&egress.parser);
        let span = egress.parser.decl.name.span;
        let mut place = |ty: &Type, name: &str| {
            let value = self.storage(ty, name, span);
            for header in self.headers_in(&value) {
                if let Some(ast::PathPart::Name(name)) = header.path.parts.first() {
                    self.beside_headers.push(name.clone());
                }
            }
            value
        };
        let resubmit = place(of_ingress.get(4)?, "resubmit");
        let recirculate = place(of_ingress.get(5)?, "recirculate");
        let normal = place(of_egress.get(4)?, "normal");
        let clone_i2e = place(of_egress.get(5)?, "clone_i2e");
        let clone_e2e = place(of_egress.get(6)?, "clone_e2e");
        // A clone keeps what goes beside it, and so does a packet that enters again.
        let clones = [&clone_i2e, &clone_e2e].map(|value| self.list_of(value));
        for (_, lists) in &mut self.listed {
            if clones.iter().flatten().any(|list| lists.contains(list)) {
                lists.extend(clones.iter().flatten());
            }
        }
        for value in [&resubmit, &recirculate] {
            self.keep_again(value);
        }
        Some(Beside { resubmit, recirculate, normal, clone_i2e, clone_e2e, clones: clones[0] })
    }

    fn psa_ingress(
        &mut self,
        pipe: &Pipe,
        (hdr, meta): (&Val, &Val),
        beside: &Beside,
        flag: Option<&AstExpr>,
    ) -> Option<()> {
        let span = pipe.control.decl.name.span;
        let types = self.param_types(&pipe.control);
        let input = self.ingress_input(types.get(2)?, span);
        let output = self.storage(types.get(3)?, "ostd", span);
        let values = [
            Val::Packet,
            beside.clone_i2e.clone(),
            beside.resubmit.clone(),
            beside.normal.clone(),
            hdr.clone(),
            meta.clone(),
            output.clone(),
        ];
        let mut end = self.deparser(&pipe.deparser, &values);
        let ((), decided) = self.apart(|lower| lower.psa_decide(&output, beside, flag, span));
        end.extend(decided);
        self.epilogue = end;
        let values = [hdr.clone(), meta.clone(), input, output.clone()];
        let ((), body) = self.apart(|lower| lower.pass_block(&pipe.control, &values));
        self.note_written(Half::Ingress, &output, &body);
        let ((), mut statements) = self.apart(|lower| {
            let drop = member(&output, "drop");
            lower.set(&drop, number(1, 1, span), span);
            if let Some(flag) = flag {
                lower.set(flag, number(0, 1, span), span);
            }
        });
        statements.extend(self.ended(body));
        self.unit.ingress = Some(Sp::new(statements, span));
        Some(())
    }

    /// Behind ingress: a clone; drop, or once more, or a group, or a port.
    fn psa_decide(
        &mut self,
        output: &Val,
        beside: &Beside,
        flag: Option<&AstExpr>,
        span: SourceSpan,
    ) {
        self.psa_clone(Half::Ingress, output, beside, span);
        if !self.is_written(Half::Ingress, "drop") {
            return self.push(Made::Drop(None), span);
        }
        let ((), mut sent) = self.apart(|lower| lower.psa_send(output, flag, span));
        if self.is_written(Half::Ingress, "resubmit") {
            let again = is(member(output, "resubmit"), 1, 1, span);
            let call = Made::Call(Sp::new("resubmit_received".to_owned(), span), Vec::new());
            let call = vec![ast::Stmt { kind: call, span }];
            sent = vec![ast::Stmt { kind: Made::If(again, call, sent), span }];
        }
        let drops = is(member(output, "drop"), 1, 1, span);
        self.push(Made::If(drops, vec![dropped(span)], sent), span);
    }

    fn psa_send(&mut self, output: &Val, flag: Option<&AstExpr>, span: SourceSpan) {
        if self.is_written(Half::Ingress, "class_of_service") {
            let class = slice(member(output, "class_of_service"), 2, 0, span);
            self.set(&named(&["std", "traffic_class"], span), class, span);
        }
        let port = member(output, "egress_port");
        let ((), unicast) = self.apart(|lower| lower.psa_unicast(&port, flag, span));
        if !self.is_written(Half::Ingress, "multicast_group") {
            self.out.extend(unicast);
            return;
        }
        let group = member(output, "multicast_group");
        let ((), multicast) = self.apart(|lower| {
            lower.in_16_bits(&group, named(&["std", "multicast_group"], span), Vec::new(), span);
        });
        self.push(Made::If(is(group, 0, 32, span), unicast, multicast), span);
    }

    fn psa_unicast(&mut self, port: &AstExpr, flag: Option<&AstExpr>, span: SourceSpan) {
        let punt = ast::Stmt { kind: Made::Punt(None), span };
        let mut special = vec![ast::Stmt {
            kind: Made::If(is(port.clone(), CPU, 32, span), vec![punt], vec![dropped(span)]),
            span,
        }];
        if let Some(flag) = flag {
            // It takes the queue of the port that it came in by.
            let ((), again) = self.apart(|lower| {
                lower.set(flag, number(1, 1, span), span);
                let from = named(&["std", "ingress_port"], span);
                lower.set(&named(&["std", "egress_port"], span), from, span);
            });
            let again = Made::If(is(port.clone(), RECIRCULATE, 32, span), again, special);
            special = vec![ast::Stmt { kind: again, span }];
        }
        self.in_16_bits(port, named(&["std", "egress_port"], span), special, span);
    }

    /// Sets what the device has 16 bits for; a larger number runs `other`, or drops.
    fn in_16_bits(
        &mut self,
        value: &AstExpr,
        place: AstExpr,
        other: Vec<ast::Stmt>,
        span: SourceSpan,
    ) {
        let fits = is(slice(value.clone(), 31, 16, span), 0, 16, span);
        let ((), set) = self.apart(|lower| lower.set(&place, cast(16, value.clone()), span));
        let other = if other.is_empty() { vec![dropped(span)] } else { other };
        self.push(Made::If(fits, set, other), span);
    }

    fn psa_egress(
        &mut self,
        pipe: &Pipe,
        (hdr, meta): (&Val, &Val),
        beside: &Beside,
        flag: Option<&AstExpr>,
    ) -> Option<()> {
        let span = pipe.control.decl.name.span;
        let types = self.param_types(&pipe.control);
        let input = self.egress_input(types.get(2)?, flag, span);
        let output = self.storage(types.get(3)?, "ostd", span);
        let port = self.egress_input(self.param_types(&pipe.deparser).get(6)?, flag, span);
        let values = [
            Val::Packet,
            beside.clone_e2e.clone(),
            beside.recirculate.clone(),
            hdr.clone(),
            meta.clone(),
            output.clone(),
            port,
        ];
        let mut end = self.deparser(&pipe.deparser, &values);
        let ((), decided) = self.apart(|lower| {
            lower.psa_clone(Half::Egress, &output, beside, span);
            let ((), again) = lower.apart(|lower| {
                if let Some(flag) = flag {
                    let ((), again) =
                        lower.apart(|lower| lower.run("recirculate", Vec::new(), span));
                    lower.push(Made::If(is(flag.clone(), 1, 1, span), again, Vec::new()), span);
                }
            });
            if lower.is_written(Half::Egress, "drop") {
                let drops = is(member(&output, "drop"), 1, 1, span);
                lower.push(Made::If(drops, vec![dropped(span)], again), span);
            } else {
                lower.out.extend(again);
            }
        });
        end.extend(decided);
        self.epilogue = end;
        let values = [hdr.clone(), meta.clone(), input, output.clone()];
        let ((), body) = self.apart(|lower| lower.pass_block(&pipe.control, &values));
        self.note_written(Half::Egress, &output, &body);
        let body = self.ended(body);
        let mut seen = Mentions::default();
        seen.statements(&self.unit, &body);
        if seen.read.contains("std.parser_error") {
            self.need(Need::ParsesInEgress);
        }
        if !body.is_empty() {
            self.unit.egress = Some(Sp::new(body, span));
        }
        Some(())
    }

    fn psa_clone(&mut self, half: Half, output: &Val, beside: &Beside, span: SourceSpan) {
        if !self.is_written(half, "clone") {
            return;
        }
        self.clone_with(beside.clones, span);
        let session = member(output, "clone_session_id");
        let ((), clone) = self.apart(|lower| lower.run("clone", vec![session], span));
        self.push(Made::If(is(member(output, "clone"), 1, 1, span), clone, Vec::new()), span);
    }

    fn is_written(&self, half: Half, field: &str) -> bool {
        self.is_needed(&Need::Written(half, field.to_owned()))
    }

    /// Which fields of the output metadata are written.
    fn note_written(&mut self, half: Half, output: &Val, body: &[ast::Stmt]) {
        let mut seen = Mentions::default();
        seen.statements(&self.unit, body);
        let Val::Struct(fields) = output else { return };
        for (name, value) in fields.iter() {
            let Val::Scalar(place) = value else { continue };
            if plain_meta(place).is_some_and(|place| seen.written.contains(&place)) {
                self.need(Need::Written(half, name.to_string()));
            }
        }
    }

    /// `psa_normal` and its like: whether a deparser writes what goes along.
    pub(super) fn psa_function(
        &mut self,
        name: &str,
        args: &[Arg],
        span: SourceSpan,
    ) -> Option<Val> {
        let output = self.eval(&args.first()?.value);
        let bit = |field: &str, value: u128| is(member(&output, field), value, 1, span);
        let value = match name {
            "psa_recirculate" => {
                self.need(Need::Recirculates);
                let beyond = self.eval(&args.get(1)?.value);
                let port = is(member(&beyond, "egress_port"), RECIRCULATE, 32, span);
                super::operate::both(bit("drop", 0), port, span)
            }
            "psa_clone_i2e" | "psa_clone_e2e" => bit("clone", 1),
            "psa_resubmit" => super::operate::both(bit("drop", 0), bit("resubmit", 1), span),
            "psa_normal" => super::operate::both(bit("drop", 0), bit("resubmit", 0), span),
            _ => return None,
        };
        Some(Val::Scalar(value))
    }

    fn ingress_input(&mut self, ty: &Type, span: SourceSpan) -> Val {
        let port = port_in(&["std", "ingress_port"], span);
        let again = || path_is("recirculate", span);
        let port = mux(again(), number(RECIRCULATE, 32, span), port, span);
        members(ty, |name| match name {
            "ingress_port" => port.clone(),
            "packet_path" => {
                let other = mux(again(), number(6, 8, span), number(0, 8, span), span);
                mux(path_is("resubmit", span), number(5, 8, span), other, span)
            }
            "ingress_timestamp" => named(&["std", "ingress_ns"], span),
            _ => named(&["std", "parser_error"], span),
        })
    }

    /// What egress reads of the device. A clone is no packet that recirculates.
    pub(super) fn egress_input(
        &mut self,
        ty: &Type,
        flag: Option<&AstExpr>,
        span: SourceSpan,
    ) -> Val {
        let mut port = port_in(&["std", "egress_port"], span);
        if let Some(flag) = flag {
            port = mux(is(flag.clone(), 1, 1, span), number(RECIRCULATE, 32, span), port, span);
        }
        let paths = [("clone_ingress", 3), ("clone_egress", 4), ("multicast", 2)];
        let path = paths.into_iter().rev().fold(number(1, 8, span), |other, (name, value)| {
            mux(path_is(name, span), number(value, 8, span), other, span)
        });
        members(ty, |name| match name {
            "egress_port" => port.clone(),
            "packet_path" => path.clone(),
            "class_of_service" => cast(8, named(&["std", "traffic_class"], span)),
            "instance" => named(&["std", "instance"], span),
            "egress_timestamp" => named(&["std", "now_ns"], span),
            _ => named(&["std", "parser_error"], span),
        })
    }

    /// The colour of a meter as `PSA_MeterColor_t` numbers it.
    pub(super) fn psa_color(&mut self, color: AstExpr, span: SourceSpan) -> Val {
        let color = self.effect(color, span);
        let other =
            mux(is(color.clone(), 1, 2, span), number(2, 8, span), number(0, 8, span), span);
        Val::Scalar(mux(is(color, 0, 2, span), number(1, 8, span), other, span))
    }

    /// The colour of `PSA_MeterColor_t` as a meter takes it.
    pub(super) fn meter_color(&mut self, color: AstExpr, span: SourceSpan) -> AstExpr {
        let color = self.keep(color);
        let other =
            mux(is(color.clone(), 1, 8, span), number(0, 2, span), number(1, 2, span), span);
        mux(is(color, 0, 8, span), number(2, 2, span), other, span)
    }

    pub(super) fn psa_random(&mut self, args: &[Val], span: SourceSpan) -> Val {
        let [Val::Scalar(low), Val::Scalar(high), ..] = args else { return Val::Nothing };
        Val::Scalar(self.effect(call("random", vec![low.clone(), high.clone()], span), span))
    }
}

fn dropped(span: SourceSpan) -> ast::Stmt {
    ast::Stmt { kind: Made::Drop(None), span }
}

fn members(ty: &Type, value: impl Fn(&str) -> AstExpr) -> Val {
    let Type::Struct(of) = ty else { return Val::Nothing };
    let fields = of.fields.iter().map(|(name, _)| (name.clone(), Val::Scalar(value(name))));
    Val::Struct(Rc::new(fields.collect()))
}

/// A number of a struct of the architecture.
fn member(of: &Val, wanted: &str) -> AstExpr {
    let found = |fields: &Members| {
        fields.iter().find_map(|(name, value)| match value {
            Val::Scalar(value) if &**name == wanted => Some(value.clone()),
            _ => None,
        })
    };
    let Val::Struct(fields) = of else { return number(0, 1, super::NOWHERE) };
    found(fields).unwrap_or_else(|| number(0, 1, super::NOWHERE))
}
