//! Types, and what the type checker found out about each expression.
//!
//! The checker resolves names, infers type arguments, inserts implicit conversions by noting the type that an
//! expression has after them, and reports type errors. Lowering uses the result ([`Checked`]) and has no scopes.

mod arguments;
mod call;
mod check;
mod coerce;
mod construct;
mod control;
mod decl;
mod expr;
mod infer;
mod member;
mod operator;
mod part;
mod resolve;
mod rules;
mod show;
mod signature;
mod stmt;
mod structure;
mod table;

use std::collections::HashMap;
use std::rc::Rc;

use super::tree::*;

pub(super) use check::check;
pub(super) use infer::{substitute, type_arguments};
pub(super) use operator::{calculate, wrapped};

/// A type.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Bit(u32),
    Int(u32),
    Varbit(u32),
    Bool,
    /// `int`: a number of any size, known when the program is compiled.
    Integer,
    Error,
    MatchKind,
    Text,
    Void,
    /// An enum; serializable ones have a type below.
    Enum(Rc<Decl>, Option<Rc<Type>>),
    /// `type T name`.
    New(Rc<Decl>, Rc<Type>),
    Struct(Rc<StructType>),
    Stack(Rc<Type>, u32),
    Tuple(Rc<Vec<Type>>),
    List(Rc<Type>),
    /// `{ a, b }` before it is known what it becomes; true if `...` ends it.
    Listed(Rc<Vec<Type>>, bool),
    /// `{ a = 1 }` before it is known what it becomes.
    Record(Rc<Vec<(Rc<str>, Type)>>, bool),
    /// `{#}`.
    Invalid,
    /// A set of values.
    Set(Rc<Type>),
    Extern(Rc<Decl>, Rc<Vec<Type>>),
    Parser(Rc<Decl>, Rc<Vec<Type>>),
    Control(Rc<Decl>, Rc<Vec<Type>>),
    Package(Rc<Decl>, Rc<Vec<Type>>),
    Table(Rc<Decl>),
    Action(Rc<Decl>),
    Function(Rc<Decl>),
    /// What `table.apply()` gives, and its `action_run`.
    Applied(Rc<Decl>),
    ActionRun(Rc<Decl>),
    /// A method or function before it is called.
    Method,
    /// The name of a type.
    Name(Rc<Type>),
    /// A type parameter.
    Var(u32, Rc<str>),
    /// A type that is being inferred.
    Infer(u32),
    /// `_`, or something that was reported.
    Any,
}

/// A struct, header or header union with its type arguments.
#[derive(Debug)]
pub(super) struct StructType {
    pub(super) decl: Rc<Decl>,
    pub(super) kind: StructKind,
    pub(super) args: Vec<Type>,
    pub(super) fields: Vec<(Rc<str>, Type)>,
}

impl StructType {
    /// It has fields of no bits, or none.
    pub(super) fn has_no_bits(&self) -> bool {
        self.fields.iter().all(|(_, ty)| ty.bits() == Some(0))
    }
}

/// What a name means.
#[derive(Clone, Debug)]
pub(super) enum Def {
    Decl(Rc<Decl>),
    /// A parameter; its type stands with the expression.
    Param(u32),
}

/// What a call runs.
#[derive(Clone, Debug)]
pub(super) enum Callee {
    /// A function, extern function or action.
    Decl(Rc<Decl>),
    /// A method of an extern, by the position of its declaration.
    Method(Rc<Decl>, usize),
    /// `apply` of a table, parser or control.
    Apply,
    /// A method of headers, stacks and types.
    Builtin,
    /// `T(..)`.
    Constructor,
}

/// A call as it was resolved.
#[derive(Clone, Debug)]
pub(super) struct CallInfo {
    pub(super) callee: Callee,
    /// For each parameter the position of its argument.
    pub(super) order: Vec<Option<usize>>,
    /// Type arguments of a function or method.
    pub(super) types: Vec<(u32, Type)>,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Const {
    Int(num_bigint::BigInt),
    Bool(bool),
    Text(Rc<str>),
    Error(Rc<str>),
    /// A member of an enum: its declaration's number, its name.
    Enum(u32, Rc<str>),
}

/// A program that was checked.
pub(super) struct Checked {
    pub(super) decls: Vec<Rc<Decl>>,
    /// By the number of the expression, after conversions.
    pub(super) types: Vec<Type>,
    pub(super) defs: HashMap<u32, Def>,
    pub(super) calls: HashMap<u32, CallInfo>,
    /// Types of declared variables, instances, parameters, by number.
    pub(super) declared: HashMap<u32, Type>,
    /// Values of expressions that are known.
    pub(super) consts: HashMap<u32, Const>,
    /// Numbers that are not written in tens, with their base.
    pub(super) radixes: HashMap<u32, u32>,
}

impl Type {
    /// Bits of a value of this type; `None` for what has no fixed size.
    pub(super) fn bits(&self) -> Option<u32> {
        match self {
            Type::Bit(bits) | Type::Int(bits) => Some(*bits),
            Type::Bool => Some(1),
            Type::Enum(_, Some(base)) | Type::New(_, base) => base.bits(),
            Type::Struct(ty) if ty.kind != StructKind::Union => {
                ty.fields.iter().map(|(_, ty)| ty.bits()).sum()
            }
            Type::Stack(of, size) => of.bits().map(|bits| bits * size),
            Type::Tuple(parts) => parts.iter().map(Type::bits).sum(),
            _ => None,
        }
    }

    /// The type below `type` and serializable enums.
    pub(super) fn base(&self) -> &Type {
        match self {
            Type::New(_, base) | Type::Enum(_, Some(base)) => base.base(),
            other => other,
        }
    }

    /// `type T` taken off, nothing else.
    pub(super) fn unwrapped(&self) -> &Type {
        if let Type::New(_, base) = self { base.unwrapped() } else { self }
    }

    /// Numbers of no bits.
    pub(super) fn has_no_bits(&self) -> bool {
        matches!(self.base(), Type::Bit(0) | Type::Int(0))
    }

    /// A header type.
    pub(super) fn is_header(&self) -> bool {
        matches!(self, Type::Struct(ty) if ty.kind == StructKind::Header)
    }

    /// True when it was reported already.
    pub(super) fn is_any(&self) -> bool {
        matches!(self, Type::Any)
    }
}
