//! Expressions, patterns, widths as text.

use crate::ast::{Ast, AstBin, AstExpr, AstUn, Path, PathPart, PatternDecl, TypeRef};

/// Strength of an operand that needs no brackets anywhere.
const ATOM: u8 = 12;
/// Strength of `!x`.
const UNARY: u8 = 11;
/// Strength of a comparison, which does not chain.
const COMPARISON: u8 = 3;

/// An expression with the brackets it needs.
pub fn expression(value: &AstExpr) -> String {
    let mut out = String::new();
    write(&mut out, &value.value, 0);
    out
}

/// Writes an expression in a place that binds as strongly as `least`.
fn write(out: &mut String, value: &Ast, least: u8) {
    let strength = strength(value);
    if strength < least {
        out.push('(');
        write_plain(out, value);
        out.push(')');
    } else {
        write_plain(out, value);
    }
}

fn strength(value: &Ast) -> u8 {
    match value {
        Ast::Mux(..) => 0,
        Ast::Binary(operator, ..) => level(*operator),
        Ast::Unary(..) => UNARY,
        _ => ATOM,
    }
}

fn write_plain(out: &mut String, value: &Ast) {
    match value {
        Ast::Number { value, bits: None } => out.push_str(&value.to_string()),
        Ast::Number { value, bits: Some(bits) } => out.push_str(&format!("{bits}w0x{value:x}")),
        Ast::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Ast::Path(path) => out.push_str(&self::path(path)),
        Ast::Unary(operator, operand) => {
            out.push(match operator {
                AstUn::Not => '!',
                AstUn::Complement => '~',
                AstUn::Negate => '-',
            });
            write(out, &operand.value, UNARY);
        }
        Ast::Binary(operator, left, right) => {
            let (sign, strength) = (operator.symbol(), level(*operator));
            // Operators of one level associate to the left; comparisons not at all.
            write(out, &left.value, strength + u8::from(strength == COMPARISON));
            out.push_str(&format!(" {sign} "));
            write(out, &right.value, strength + 1);
        }
        Ast::Slice { value, high, low } => {
            // A path with an index behind it would read as a slice of the path: the same.
            write(out, &value.value, ATOM);
            out.push_str(&format!("[{}:{}]", expression(high), expression(low)));
        }
        Ast::Cast(bits, value) => {
            out.push_str(&format!("bit<{}>({})", bits.value, expression(value)));
        }
        Ast::Signed(value) => out.push_str(&format!("signed({})", expression(value))),
        Ast::Mux(condition, yes, no) => {
            write(out, &condition.value, 1);
            out.push_str(&format!(" ? {} : {}", expression(yes), expression(no)));
        }
        Ast::Named(name, value) => {
            out.push_str(&format!("{} = {}", name.value, expression(value)));
        }
        Ast::Call(name, arguments) => {
            let arguments: Vec<String> = arguments.iter().map(expression).collect();
            out.push_str(&format!("{}({})", name.value, arguments.join(", ")));
        }
    }
}

/// `a.b[i].c`.
pub(super) fn path(path: &Path) -> String {
    let mut out = String::new();
    for part in &path.parts {
        match part {
            PathPart::Name(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(&name.value);
            }
            PathPart::Index(index) => out.push_str(&format!("[{}]", expression(index))),
        }
    }
    out
}

/// How strong an operator binds.
fn level(operator: AstBin) -> u8 {
    use AstBin::*;
    match operator {
        LogicalOr => 1,
        LogicalAnd => 2,
        Eq | Ne | Lt | Le | Gt | Ge => COMPARISON,
        Or => 4,
        Xor => 5,
        And => 6,
        Concat => 7,
        Shl | Shr => 8,
        Add | Sub | SatAdd | SatSub => 9,
        Mul | Rem => 10,
    }
}

/// A pattern.
pub(super) fn pattern(pattern: &PatternDecl) -> String {
    match pattern {
        PatternDecl::Any => "_".to_owned(),
        PatternDecl::Value(value) => expression(value),
        PatternDecl::Mask(value, mask) => {
            format!("{} &&& {}", expression(value), expression(mask))
        }
        PatternDecl::Range(low, high) => format!("{}..{}", expression(low), expression(high)),
        PatternDecl::Prefix(value, length) => format!("{}/{}", expression(value), length.value),
        PatternDecl::Set(name) => format!("@{}", name.value),
    }
}

/// A width or the name of a type.
pub(super) fn width(ty: &TypeRef) -> String {
    match ty {
        TypeRef::Bits(bits) => bits.value.to_string(),
        TypeRef::Named(name) => name.value.clone(),
    }
}

/// A text as a YAML scalar: in quotes unless it is a number, a name or a path.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    if !text.is_empty() && text != "null" && text.chars().all(plain) {
        return text.to_owned();
    }
    // JSON's quoting is a part of YAML's.
    serde_json::Value::from(text).to_string()
}
