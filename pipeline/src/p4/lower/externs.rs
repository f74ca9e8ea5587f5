//! Externs: objects with state, functions of the architectures.

use std::rc::Rc;

use num_bigint::BigInt;

use super::super::tree::*;
use super::super::types::{CallInfo, Const, Type};
use super::build::{binary, cast, known, named, number};
use super::env::{Object, Val};
use super::table::SIZE_MAX;
use super::{Lower, Place};
use crate::ast::{self, Ast, AstBin, AstExpr, Size, Sp, StmtKind as Made};
use crate::diag::codes;
use crate::ir::SourceSpan;

/// Whether an index is known and outside of an array, which is right: nothing is read, written or counted (v1model.p4, `counter`, `meter`,
/// `register`).
pub(super) fn is_outside(object: &Object, index: &AstExpr) -> bool {
    let size = match object.args.first() {
        Some(Val::Scalar(size)) => known(size),
        _ => None,
    };
    known(index).zip(size).is_some_and(|(index, size)| index >= size)
}

/// The colour that a meter gives: green for an index outside.
fn metered(object: &Object, args: Vec<AstExpr>, span: SourceSpan) -> AstExpr {
    if args.first().is_some_and(|index| is_outside(object, index)) {
        return number(0, 2, span);
    }
    let all = std::iter::once(named(&[&object.name], span)).chain(args).collect();
    super::build::call("execute", all, span)
}

/// The externs that run.
const OBJECTS_HELP: &str = "what runs: register, counter, meter, action_profile, action_selector and Checksum16 of v1model.p4, and the externs of psa.p4";

impl Lower<'_> {
    /// An instance of an extern, with what the tree declares for it.
    pub(super) fn new_object(
        &mut self,
        decl: &Rc<Decl>,
        types: Rc<Vec<Type>>,
        args: Vec<Val>,
        name: &str,
        annotations: &[Annotation],
        span: SourceSpan,
    ) -> Val {
        let wanted_size = match args.first() {
            Some(Val::Scalar(size)) => known(size),
            _ => None,
        };
        let wanted = if name.is_empty() { &*decl.name.value } else { name };
        let kind = &*decl.name.value;
        let full = self.env.full(annotations, wanted);
        let made = match kind {
            "counter" | "Counter" | "meter" | "Meter" | "register" | "Register" => {
                let name = self.names.fresh(wanted, self.env.clone().prefix());
                self.origin().objects.insert(name.clone(), full.clone());
                name
            }
            _ => wanted.to_owned(),
        };
        let declared = Sp::new(made.clone(), span);
        let sum = matches!(kind, "Checksum" | "InternetChecksum").then(|| {
            let bits = types.first().map_or(16, |ty| self.bits(ty, span));
            self.new_meta(&format!("{wanted}_sum"), bits.clamp(1, 128), span)
        });
        let object = Object {
            name: made,
            full,
            decl: decl.clone(),
            types: types.clone(),
            args: args.clone(),
            sum,
        };
        match kind {
            "counter" | "Counter" => {
                let size = Size::new(self.size_of(wanted_size, SIZE_MAX, span), span);
                self.unit.counters.push((declared, ast::CounterDecl { size }));
            }
            "meter" | "Meter" => {
                let packets = self.counts_packets(&object);
                let size = Size::new(self.size_of(wanted_size, SIZE_MAX, span), span);
                self.unit
                    .meters
                    .push((declared, ast::MeterDecl { size, two_rates: true, packets }));
            }
            "register" | "Register" => {
                if matches!(args.get(1), Some(Val::Scalar(first)) if known(first) != Some(0)) {
                    self.unsupported(
                        span,
                        "a register starts with 0: another first value is not supported",
                    );
                }
                let ty = types.first().cloned().unwrap_or(Type::Bit(1));
                let size = self.size_of(wanted_size, SIZE_MAX, span);
                self.new_register(declared, &ty, size);
            }
            _ => {}
        }
        Val::Object(Rc::new(object))
    }

    /// Warns of a constant index outside of an array.
    fn note_outside(&mut self, object: &Object, method: &str, args: &[Arg]) {
        let index = match (&*object.decl.name.value, method) {
            ("register", "read") => args.get(1),
            ("counter" | "Counter" | "register" | "Register" | "meter" | "Meter", _) => {
                args.first()
            }
            _ => None,
        };
        let Some(index) = index.map(|arg| &arg.value) else { return };
        let (Some(Const::Int(at)), Some(Val::Scalar(size))) =
            (self.checked.consts.get(&index.id), object.args.first())
        else {
            return;
        };
        let Some(size) = known(size).filter(|size| *at >= BigInt::from(*size)) else { return };
        let text = format!("index {at} is outside of `{}`, which has {size} entries", object.name);
        self.origin().outside.insert(object.name.clone());
        if self.noted.insert(index.span) {
            self.report
                .warning(codes::NO_EFFECT, index.span, text)
                .note("outside, nothing is counted, measured or written, and 0 is read");
        }
    }

    /// Whether a meter or its type counts packets: the first member of `MeterType` in both architectures.
    pub(super) fn counts_packets(&self, object: &Object) -> bool {
        let at = if object.decl.name.value.to_ascii_lowercase().contains("direct") { 0 } else { 1 };
        matches!(object.args.get(at), Some(Val::Scalar(kind)) if known(kind) == Some(0))
    }

    /// A method of an extern.
    pub(super) fn method(
        &mut self,
        expr: &Expr,
        object: &Val,
        decl: &Rc<Decl>,
        at: usize,
        info: &CallInfo,
        args: &[Arg],
    ) -> Val {
        let DeclKind::Extern(external) = &decl.kind else { return Val::Nothing };
        let Some(method) = external.methods.get(at) else { return Val::Nothing };
        let ordered: Vec<Arg> =
            info.order.iter().filter_map(|at| at.and_then(|at| args.get(at))).cloned().collect();
        let span = expr.span;
        if let Val::Object(object) = object {
            self.note_outside(object, &method.name.value, &ordered);
        }
        match (&*decl.name.value, object) {
            ("packet_in", _) => self.packet_in(expr, &method.name.value, &ordered),
            ("packet_out", _) => {
                if let Some(arg) = ordered.first() {
                    let ty = self.type_of(&arg.value);
                    let value = match self.eval(&arg.value) {
                        written @ Val::Literal(Some(_)) => {
                            self.copied(&written, &ty, "emitted", span)
                        }
                        other => other,
                    };
                    self.emit(&value, span);
                }
                Val::Nothing
            }
            (kind, Val::Object(object)) => {
                let object = object.clone();
                self.object_method(expr, kind, &object, &method.name.value, &ordered)
            }
            _ => {
                let text =
                    format!("`{}` of `{}` is not supported", method.name.value, decl.name.value);
                self.unsupported(span, text).help(OBJECTS_HELP);
                Val::Nothing
            }
        }
    }

    fn object_method(
        &mut self,
        expr: &Expr,
        kind: &str,
        object: &Rc<Object>,
        name: &str,
        args: &[Arg],
    ) -> Val {
        let span = expr.span;
        match (kind, name) {
            ("counter" | "Counter", "count") => {
                let Some(arg) = args.first() else { return Val::Nothing };
                let index = self.index_value(&arg.value);
                // An index outside counts nothing.
                if !is_outside(object, &index) {
                    self.run("count", vec![named(&[&object.name], span), index], span);
                }
                Val::Nothing
            }
            ("direct_counter" | "DirectCounter", "count") => Val::Nothing,
            ("register", "read") => {
                let [to, index] = args else { return Val::Nothing };
                let place = self.target(&to.value);
                let index = self.index_value(&index.value);
                let ty = object.types.first().cloned().unwrap_or(Type::Any);
                let value = self.read_register(object, index, span);
                self.assign(&place, &value, &ty, span);
                Val::Nothing
            }
            ("register", "write") | ("Register", "write") => {
                let [index, value] = args else { return Val::Nothing };
                let [index, value] = self.each_in_order([&index.value, &value.value]);
                let index = self.index_number(&index, span);
                self.write_register(object, index, value, span);
                Val::Nothing
            }
            ("Register", "read") => {
                let Some(index) = args.first() else { return Val::Nothing };
                let index = self.index_value(&index.value);
                self.read_register(object, index, span)
            }
            ("meter", "execute_meter") => {
                let [index, to] = args else { return Val::Nothing };
                let index = self.index_value(&index.value);
                let color = metered(object, vec![index], span);
                let color = self.effect(color, span);
                self.color(&to.value, color, span);
                Val::Nothing
            }
            ("direct_meter", "read") => {
                let Some(to) = args.first() else { return Val::Nothing };
                self.color(&to.value, named(&["std", "color"], span), span);
                Val::Nothing
            }
            ("Checksum16", "get") => {
                let Some(data) = args.first() else { return Val::Nothing };
                let ty = self.type_of(&data.value);
                let value = self.eval(&data.value);
                let fields = self.fields(&value, &ty, span);
                Val::Scalar(self.hashed("csum16", &fields, span).0)
            }
            _ => self.psa_method(expr, kind, object, name, args),
        }
    }

    /// A method of an extern that only PSA has.
    fn psa_method(
        &mut self,
        expr: &Expr,
        kind: &str,
        object: &Rc<Object>,
        name: &str,
        args: &[Arg],
    ) -> Val {
        let span = expr.span;
        match (kind, name) {
            ("Meter", "execute") if args.len() == 1 => {
                let index = self.index_value(&args[0].value);
                let color = metered(object, vec![index], span);
                self.psa_color(color, span)
            }
            ("Meter", "execute") => {
                let index = self.index_value(&args[0].value);
                let color = self.scalar(&args[1].value);
                let color = self.meter_color(color, span);
                let color = metered(object, vec![index, color], span);
                self.psa_color(color, span)
            }
            ("Checksum" | "InternetChecksum", _) => self.checksum(expr, object, name, args),
            ("DirectMeter", "execute") if args.is_empty() => {
                self.psa_color(named(&["std", "color"], span), span)
            }
            ("Random", "read") => self.psa_random(&object.args, span),
            ("Digest", "pack") => {
                let Some(data) = args.first() else { return Val::Nothing };
                let ty = object.types.first().cloned().unwrap_or(Type::Any);
                let value = self.eval_as(&data.value, &ty);
                self.digest(&value, &ty, &object.name, object.full.clone(), span);
                Val::Nothing
            }
            ("Hash", "get_hash") => self.psa_hash(expr, object, args),
            _ => {
                let text = format!("`{name}` of the extern `{kind}` is not supported");
                self.unsupported(span, text).help(OBJECTS_HELP);
                Val::Nothing
            }
        }
    }

    /// A colour in the width of where it goes.
    fn color(&mut self, to: &Expr, color: AstExpr, span: SourceSpan) {
        let ty = self.type_of(to);
        let bits = self.bits(&ty, span);
        let place = self.place_of(to);
        let value = if bits == 2 { color } else { cast(bits, color) };
        self.assign(&place, &Val::Scalar(value), &ty, span);
    }

    fn index_value(&mut self, index: &Expr) -> AstExpr {
        let value = self.eval(index);
        self.index_number(&value, index.span)
    }

    fn index_number(&mut self, index: &Val, span: SourceSpan) -> AstExpr {
        let value = self.number_in(index, span);
        match known(&value) {
            Some(value) => number(value, 32, span),
            None => value,
        }
    }

    fn psa_hash(&mut self, expr: &Expr, object: &Rc<Object>, args: &[Arg]) -> Val {
        let span = expr.span;
        let Some(algorithm) = object.args.first().and_then(|value| self.algorithm(value, span))
        else {
            return Val::Nothing;
        };
        let to = object.types.first().cloned().unwrap_or(Type::Bit(32));
        let bits = self.bits(&to, span);
        if let [base, data, max] = args {
            let args = [&base.value, &data.value, &max.value];
            return Val::Scalar(self.hash_between(algorithm, args, bits, span));
        }
        let Some(data) = args.first() else { return Val::Nothing };
        let ty = self.type_of(&data.value);
        let value = self.eval(&data.value);
        let fields = self.fields(&value, &ty, span);
        let hash = self.hashed(algorithm, &fields, span);
        Val::Scalar(if hash.1 == bits { hash.0 } else { cast(bits, hash.0) })
    }

    /// An extern function.
    pub(super) fn external(
        &mut self,
        expr: &Expr,
        decl: &Rc<Decl>,
        info: &CallInfo,
        args: &[Arg],
    ) -> Val {
        let ordered: Vec<Arg> =
            info.order.iter().filter_map(|at| at.and_then(|at| args.get(at))).cloned().collect();
        let span = expr.span;
        match &*decl.name.value {
            "verify" => {
                let [condition, error] = ordered.as_slice() else { return Val::Nothing };
                let (condition, error) = (self.scalar(&condition.value), self.scalar(&error.value));
                self.verify(condition, error, span);
                Val::Nothing
            }
            "static_assert" | "assert" | "assume" | "log_msg" => {
                // They do nothing; what a function in their arguments writes is written.
                let does = ordered.iter().filter(|arg| self.changes_something(&arg.value));
                for arg in does.collect::<Vec<_>>() {
                    self.eval(&arg.value);
                }
                Val::Scalar(number(1, 1, span))
            }
            name => self.v1model_function(expr, name, &ordered, info),
        }
    }

    /// The language's `verify` names the error; where it is a value, there is one `verify` for each that it can be.
    fn verify(&mut self, condition: AstExpr, error: AstExpr, span: SourceSpan) {
        if is_error_name(&error) {
            return self.run("verify", vec![condition, error], span);
        }
        let decls = self.checked.decls.clone();
        let names = decls.iter().flat_map(|decl| match &decl.kind {
            DeclKind::Errors(names) => names.as_slice(),
            _ => &[],
        });
        for Ident { value: name, .. } in names {
            let named = self.error_value(name, span);
            let other = binary(AstBin::Ne, error.clone(), named.clone(), span);
            let holds = binary(AstBin::LogicalOr, condition.clone(), other, span);
            self.run("verify", vec![holds, named], span);
        }
    }

    /// A digest of these fields; control calls it `full`.
    pub(super) fn digest(
        &mut self,
        value: &Val,
        ty: &Type,
        wanted: &str,
        full: String,
        span: SourceSpan,
    ) {
        let mut fields = Vec::new();
        self.digest_fields(value, ty, "", span, &mut fields);
        let name = self.names.fresh(wanted, "");
        self.origin().digests.insert(name.clone(), full);
        self.unit.digests.push((Sp::new(name.clone(), span), fields));
        self.run("digest", vec![named(&[&name], span)], span);
    }

    fn digest_fields(
        &mut self,
        value: &Val,
        ty: &Type,
        name: &str,
        span: SourceSpan,
        into: &mut ast::Named<AstExpr>,
    ) {
        match value {
            Val::Scalar(scalar) => {
                let mut name =
                    if name.is_empty() { "value".to_owned() } else { super::names::field(name) };
                while into.iter().any(|(known, _)| known.value == name) {
                    name.push('_');
                }
                let value = match self.place == Place::Action || names_a_value(scalar) {
                    true => self.in_metadata(scalar.clone(), ty, span),
                    false => scalar.clone(),
                };
                into.push((Sp::new(name, span), value));
            }
            Val::Choice(_) => {
                let chosen = self.copied(value, ty, "digest", span);
                self.digest_fields(&chosen, ty, name, span, into);
            }
            Val::Struct(fields) | Val::Literal(Some(fields)) => {
                for (field, value) in fields.clone().iter() {
                    let of = super::storage::part(ty, field).unwrap_or(Type::Any);
                    let name = if field.starts_with(|c: char| c.is_ascii_digit()) {
                        format!("f{field}")
                    } else {
                        field.to_string()
                    };
                    self.digest_fields(value, &of, &name, span, into);
                }
            }
            Val::Header(header) => {
                let whole = Type::Struct(header.ty.clone());
                for (field, value) in self.header_fields(header, span) {
                    let of = super::storage::part(&whole, &field).unwrap_or(Type::Any);
                    self.digest_fields(&value, &of, &field, span, into);
                }
            }
            _ => {}
        }
    }

    /// A value of an action or block, kept where a digest, which is outside of them, finds it.
    fn in_metadata(&mut self, value: AstExpr, ty: &Type, span: SourceSpan) -> AstExpr {
        if known(&value).is_some() {
            return value;
        }
        let bits = self.bits(ty, span);
        let place = self.new_meta("digest", bits.max(1), span);
        self.push(Made::Assign(place_path(&place), None, value), span);
        place
    }
}

/// Whether an expression has a name of its own in it: a value that was kept, or data of an action.
fn names_a_value(value: &AstExpr) -> bool {
    let mut found = false;
    value.value.paths(&mut |path| found |= path.single().is_some());
    found
}

/// Whether an expression is `error.name`.
fn is_error_name(error: &AstExpr) -> bool {
    let Ast::Path(path) = &error.value else { return false };
    matches!(path.parts.first(), Some(ast::PathPart::Name(first)) if first.value == "error")
}

fn place_path(place: &AstExpr) -> Sp<ast::Path> {
    match &place.value {
        Ast::Path(path) => Sp::new(path.clone(), place.span),
        _ => Sp::new(ast::Path { parts: Vec::new() }, place.span),
    }
}
