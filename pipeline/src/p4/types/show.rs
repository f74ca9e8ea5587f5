//! Types as text, for messages.

use std::fmt::{Display, Formatter, Result};

use super::Type;

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Type::Bit(bits) => write!(f, "bit<{bits}>"),
            Type::Int(bits) => write!(f, "int<{bits}>"),
            Type::Varbit(bits) => write!(f, "varbit<{bits}>"),
            Type::Bool => f.write_str("bool"),
            Type::Integer => f.write_str("int"),
            Type::Error => f.write_str("error"),
            Type::MatchKind => f.write_str("match_kind"),
            Type::Text => f.write_str("string"),
            Type::Void => f.write_str("void"),
            Type::Enum(decl, _) | Type::New(decl, _) => f.write_str(&decl.name.value),
            Type::Struct(ty) => with_args(f, &ty.decl.name.value, &ty.args),
            Type::Extern(decl, args)
            | Type::Parser(decl, args)
            | Type::Control(decl, args)
            | Type::Package(decl, args) => with_args(f, &decl.name.value, args),
            Type::Stack(of, size) => write!(f, "{of}[{size}]"),
            Type::Tuple(parts) => with_args(f, "tuple", parts),
            Type::List(of) => write!(f, "list<{of}>"),
            Type::Listed(parts, _) => {
                f.write_str("{")?;
                items(f, parts)?;
                f.write_str("}")
            }
            Type::Record(fields, _) => {
                let names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
                write!(f, "a value with the fields {}", names.join(", "))
            }
            Type::Invalid => f.write_str("{#}"),
            Type::Set(of) => write!(f, "a set of {of}"),
            Type::Table(decl) => write!(f, "the table {}", decl.name.value),
            Type::Action(decl) => write!(f, "the action {}", decl.name.value),
            Type::Function(decl) => write!(f, "the function {}", decl.name.value),
            Type::Applied(_) => f.write_str("the result of apply"),
            Type::ActionRun(_) => f.write_str("action_run"),
            Type::Method => f.write_str("a method"),
            Type::Name(of) => write!(f, "the type {of}"),
            Type::Var(_, name) => f.write_str(name),
            Type::Infer(_) | Type::Any => f.write_str("_"),
        }
    }
}

fn with_args(f: &mut Formatter<'_>, name: &str, args: &[Type]) -> Result {
    f.write_str(name)?;
    if args.is_empty() {
        return Ok(());
    }
    f.write_str("<")?;
    items(f, args)?;
    f.write_str(">")
}

fn items(f: &mut Formatter<'_>, parts: &[Type]) -> Result {
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{part}")?;
    }
    Ok(())
}
