//! Operands of the JSON by their `type`, operations by their `op`.

use num_bigint::BigInt;

use super::expr::{EXACT_BITS_MAX, Expr, Op, Translator};
use super::json::{Json, Value};
use super::model::{Place, at, unknown};
use crate::ir::SourceSpan;

impl Translator<'_, '_> {
    /// Reads an expression.
    pub(super) fn read(&mut self, json: &Json) -> Option<Expr> {
        // Some writers put the operation where its value belongs.
        if json.get("op").is_some() {
            return self.operation(json);
        }
        let kind = self.reader.text_at(json, "type")?;
        let value = self.reader.need(json, "value")?;
        match kind {
            "expression" => self.read(value),
            "field" => {
                let place = self.model.field(value, self.reader)?;
                Some(of_place(place))
            }
            "hexstr" => self.reader.hex(value).map(Expr::Number),
            "bool" => match value.value {
                Value::Bool(flag) => Some(Expr::Bool(flag.to_string())),
                _ => self.reader.refuse(value.span, "`true` or `false` must stand here"),
            },
            "local" | "runtime_data" => self.parameter(value),
            "lookahead" => self.lookahead(value),
            "stack_field" => self.last_field(value),
            "union_stack_field" => self.last_union_field(value),
            "header" => {
                let name = self.reader.text(value)?;
                let found = self.model.instance(name, value.span, self.reader)?;
                if found.loose {
                    return Some(Expr::Loose(name.to_owned(), found.ty));
                }
                if found.path.is_empty() {
                    let text = format!("`{}` is metadata, which is no header", found.name);
                    return self.reader.refuse(value.span, text);
                }
                Some(Expr::Header(found.path.clone(), found.ty))
            }
            "header_stack" => {
                let (path, ty) = self.group(value, "header stack")?;
                Some(Expr::Stack(path, ty))
            }
            "header_union" => self.group(value, "header union").map(|(path, _)| Expr::Union(path)),
            "header_union_stack" => {
                let (path, ty) = self.group(value, "header union stack")?;
                Some(Expr::Stack(path, ty))
            }
            other => {
                let shown = crate::syntax::shown(other);
                self.reader.unsupported(
                    json.place("type"),
                    format!("an operand of type `{shown}` is not supported"),
                )
            }
        }
    }

    fn parameter(&mut self, value: &Json) -> Option<Expr> {
        let number = self.reader.count(value)? as usize;
        match self.params.get(number) {
            Some((name, bits)) => {
                Some(Expr::Data { text: name.clone(), bits: *bits, signed: false })
            }
            None => self.reader.refuse(value.span, format!("the action has no parameter {number}")),
        }
    }

    /// `[offset, bits]` of the packet ahead.
    fn lookahead(&mut self, value: &Json) -> Option<Expr> {
        let [offset, bits] = self.reader.items(value) else {
            return self
                .reader
                .refuse(value.span, "a lookahead is a list of an offset and a width in bits");
        };
        let (offset, bits) = (self.reader.count(offset)?, self.reader.count(bits)?);
        let all = offset.saturating_add(bits);
        if bits == 0 || all > EXACT_BITS_MAX {
            return self
                .reader
                .refuse(value.span, format!("a lookahead of {bits} bits behind {offset}"));
        }
        let text = match offset {
            0 => format!("packet.lookahead<bit<{bits}>>()"),
            _ => format!("packet.lookahead<bit<{all}>>()[{}:0]", bits - 1),
        };
        Some(Expr::Data { text, bits, signed: false })
    }

    /// A field of the last header of a stack.
    fn last_field(&mut self, value: &Json) -> Option<Expr> {
        let (stack, field) = self.reader.pair(value)?;
        let Some(group) = self.model.stacks.get(stack) else {
            let known = self.model.stacks.keys().map(String::as_str);
            return unknown(self.reader, value.span, "header stack", stack, known);
        };
        let (path, ty) = (group.path.clone(), group.ty);
        let field = self.model.field_of(ty, field, value.span, self.reader)?;
        Some(of_place(at(&format!("{path}.last.{}", field.ident), &field)))
    }

    fn last_union_field(&mut self, value: &Json) -> Option<Expr> {
        let [stack, member, field] = self.reader.items(value) else {
            return self
                .reader
                .refuse(value.span, "a list of a stack, a member and a field must stand here");
        };
        let (stack, member, field) =
            (self.reader.text(stack)?, self.reader.text(member)?, self.reader.text(field)?);
        let (path, ident, ty) = self.union_member(stack, member, value.span)?;
        let field = self.model.field_of(ty, field, value.span, self.reader)?;
        Some(of_place(at(&format!("{path}.last.{ident}.{}", field.ident), &field)))
    }

    /// A member of the unions of a stack: path of the stack, name and type of the member.
    pub(super) fn union_member(
        &mut self,
        stack: &str,
        member: &str,
        span: SourceSpan,
    ) -> Option<(String, String, usize)> {
        let Some(group) = self.model.union_stacks.get(stack) else {
            let known = self.model.union_stacks.keys().map(String::as_str);
            return unknown(self.reader, span, "header union stack", stack, known);
        };
        let ty = self.model.union_types.get(group.ty)?;
        match ty.members.iter().find(|(name, ..)| name == member) {
            Some((_, ident, ty)) => Some((group.path.clone(), ident.clone(), *ty)),
            None => {
                let known = ty.members.iter().map(|(name, ..)| name.as_str());
                unknown(self.reader, span, "union member", member, known)
            }
        }
    }

    /// Path and type of a stack, a union, or a stack of unions.
    fn group(&mut self, value: &Json, what: &str) -> Option<(String, usize)> {
        let name = self.reader.text(value)?;
        let groups = match what {
            "header stack" => &self.model.stacks,
            "header union" => &self.model.unions,
            _ => &self.model.union_stacks,
        };
        match groups.get(name) {
            Some(group) => Some((group.path.clone(), group.ty)),
            None => unknown(self.reader, value.span, what, name, groups.keys().map(String::as_str)),
        }
    }

    fn operation(&mut self, json: &Json) -> Option<Expr> {
        let sign = self.reader.text_at(json, "op")?;
        let span = json.place("op");
        let unary = matches!(
            sign,
            "not"
                | "~"
                | "d2b"
                | "b2d"
                | "valid"
                | "valid_union"
                | "last_stack_index"
                | "size_stack"
        );
        let right = self.reader.need(json, "right")?;
        if sign == "access_field" {
            return self.access_field(json, right);
        }
        let right = self.read(right)?;
        if unary || json.get("left").is_none() {
            return self.unary(sign, right, span);
        }
        let left = self.reader.need(json, "left")?;
        let left = self.read(left)?;
        if let Some(op) = Op::find(sign) {
            let (left, right) = (self.as_number(left, span)?, self.as_number(right, span)?);
            return Some(Expr::Binary(op, Box::new(left), Box::new(right)));
        }
        match sign {
            "==" | "!=" | "<" | "<=" | ">" | ">=" => self.compare(sign, &left, &right, span),
            "and" | "or" => {
                let sign = if sign == "and" { "&&" } else { "||" };
                let (left, right) = (self.truth(left, span)?, self.truth(right, span)?);
                Some(Expr::Bool(format!("({left} {sign} {right})")))
            }
            "?" => self.choice(json, left, right, span),
            "two_comp_mod" | "sat_cast" | "usat_cast" => {
                let left = self.as_number(left, span)?;
                self.cast(sign, left, &right, span)
            }
            "dereference_header_stack" | "dereference_union_stack" => {
                let Expr::Stack(path, ty) = left else {
                    return self.reader.refuse(span, "only a stack has elements");
                };
                let index = self.as_number(right, span)?;
                let index = match &index {
                    Expr::Number(index) => index.to_string(),
                    other => self.exact(other, span)?.0,
                };
                let text = format!("{path}[{index}]");
                let is_stack = sign == "dereference_header_stack";
                Some(if is_stack { Expr::Header(text, ty) } else { Expr::Union(text) })
            }
            other => self.no_operator(other, span),
        }
    }

    fn choice(&mut self, json: &Json, left: Expr, right: Expr, span: SourceSpan) -> Option<Expr> {
        let condition = self.reader.need(json, "cond")?;
        let condition = self.read(condition)?;
        let condition = self.truth(condition, span)?;
        if let (Expr::Bool(a), Expr::Bool(b)) = (&left, &right) {
            return Some(Expr::Bool(format!("({condition} ? {a} : {b})")));
        }
        let (left, right) = (self.as_number(left, span)?, self.as_number(right, span)?);
        Some(Expr::Mux(condition, Box::new(left), Box::new(right)))
    }

    pub(super) fn no_operator<T>(&mut self, sign: &str, span: SourceSpan) -> Option<T> {
        let text = format!("the operation `{}` is not supported", crate::syntax::shown(sign));
        self.reader.unsupported(span, text)
    }

    fn unary(&mut self, sign: &str, right: Expr, span: SourceSpan) -> Option<Expr> {
        match (sign, right) {
            ("not", right) => {
                let text = self.truth(right, span)?;
                Some(Expr::Bool(format!("(!{text})")))
            }
            ("d2b", right) => self.truth(right, span).map(Expr::Bool),
            ("b2d", Expr::Bool(text)) => Some(Expr::OfBool(text)),
            ("valid", Expr::Header(path, _)) | ("valid_union", Expr::Union(path)) => {
                Some(Expr::Bool(format!("{path}.isValid()")))
            }
            ("valid", Expr::Loose(name, _)) => {
                let place = self.model.named_field(&name, "$valid$", span, self.reader)?;
                Some(of_place(place))
            }
            ("last_stack_index", Expr::Stack(path, _)) => {
                Some(Expr::Data { text: format!("{path}.lastIndex"), bits: 32, signed: false })
            }
            ("~", right) => {
                let right = self.as_number(right, span)?;
                Some(Expr::Complement(Box::new(right)))
            }
            ("-", right) => {
                let right = self.as_number(right, span)?;
                Some(Expr::Binary(Op::Sub, Box::new(Expr::Number(BigInt::ZERO)), Box::new(right)))
            }
            ("+", right) => Some(right),
            ("size_stack" | "valid" | "valid_union" | "last_stack_index" | "b2d", _) => {
                self.no_operator(sign, span)
            }
            _ => self
                .reader
                .refuse(span, format!("`{}` has no left side", crate::syntax::shown(sign))),
        }
    }

    fn access_field(&mut self, json: &Json, number: &Json) -> Option<Expr> {
        let left = self.reader.need(json, "left")?;
        let Expr::Header(path, ty) = self.read(left)? else {
            return self.reader.refuse(left.span, "only a header has fields");
        };
        let at_field = self.reader.count(number)? as usize;
        let field = self.model.types.get(ty).and_then(|ty| ty.fields.get(at_field)).cloned();
        match field {
            Some(field) => Some(of_place(at(&format!("{path}.{}", field.ident), &field))),
            None => self.reader.refuse(number.span, format!("the header has no field {at_field}")),
        }
    }

    fn cast(&mut self, sign: &str, value: Expr, bits: &Expr, span: SourceSpan) -> Option<Expr> {
        let bits = match bits {
            Expr::Number(bits) => {
                u32::try_from(bits).ok().filter(|bits| (1..=EXACT_BITS_MAX).contains(bits))
            }
            _ => None,
        };
        let Some(bits) = bits else {
            return self
                .reader
                .refuse(span, format!("`{sign}` takes a width of 1 to {EXACT_BITS_MAX} bits"));
        };
        let value = Box::new(value);
        Some(match sign {
            "two_comp_mod" => Expr::Wrapped(bits, value),
            _ => Expr::Saturated { signed: sign == "sat_cast", bits, value },
        })
    }
}

/// A place as an expression.
fn of_place(place: Place) -> Expr {
    match place {
        Place::Data { text, bits, signed } => Expr::Data { text, bits, signed },
        Place::Variable(text) => Expr::Variable(text),
        Place::Valid(path) => Expr::Bool(format!("{path}.isValid()")),
        Place::Flag(text) => Expr::Bool(format!("({text} == 1w1)")),
        Place::Error(text) => Expr::Error(text),
    }
}
