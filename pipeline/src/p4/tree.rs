//! The syntax tree of P4-16, names unresolved, every word with its place.

use std::rc::Rc;

use num_bigint::BigInt;

pub(super) use crate::ast::AstBin;
use crate::ast::Sp;
use crate::ir::SourceSpan;

/// A name at its place.
pub(super) type Ident = Sp<Rc<str>>;

/// `@name(..)`.
#[derive(Clone, Debug)]
pub(super) struct Annotation {
    pub(super) name: Ident,
    /// The first argument, when it is one string or one number.
    pub(super) args: Vec<Arg>,
    /// What stands in brackets, as words; strings have their quotes.
    pub(super) text: Rc<str>,
    /// `@a[..]` rather than `@a(..)`.
    pub(super) structured: bool,
}

/// Annotations of a declaration.
pub(super) type Annotations = Vec<Annotation>;

/// The annotation of this name.
pub(super) fn annotation<'a>(all: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    all.iter().find(|one| &*one.name.value == name)
}

/// A declaration.
#[derive(Clone, Debug)]
pub(super) struct Decl {
    pub(super) annotations: Annotations,
    /// Empty for `error` and `match_kind`.
    pub(super) name: Ident,
    pub(super) kind: DeclKind,
    /// Number of the declaration in its program.
    pub(super) id: u32,
}

/// What a declaration is.
#[derive(Clone, Debug)]
pub(super) enum DeclKind {
    Const(TypeExpr, Expr),
    Errors(Vec<Ident>),
    MatchKinds(Vec<Ident>),
    Enum(Option<TypeExpr>, Vec<(Ident, Option<Expr>)>),
    Typedef(TypeExpr),
    NewType(TypeExpr),
    Struct(StructDecl),
    Extern(ExternDecl),
    Function(FunctionDecl),
    Parser(ParserDecl),
    Control(ControlDecl),
    Package {
        type_params: Vec<Ident>,
        params: Vec<Param>,
    },
    Action {
        params: Vec<Param>,
        body: Block,
    },
    Table(TableDecl),
    /// `T(args) name;`, or `T(args) name[size];`.
    Instance {
        ty: TypeExpr,
        args: Vec<Arg>,
        size: Option<Expr>,
        methods: Vec<Rc<Decl>>,
    },
    Variable(TypeExpr, Option<Expr>),
    ValueSet(TypeExpr, Expr),
}

/// `struct`, `header` or `header_union`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StructKind {
    Struct,
    Header,
    Union,
}

/// A struct, header or header union.
#[derive(Clone, Debug)]
pub(super) struct StructDecl {
    pub(super) kind: StructKind,
    pub(super) type_params: Vec<Ident>,
    pub(super) fields: Vec<Field>,
}

/// A field.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) annotations: Annotations,
    pub(super) ty: TypeExpr,
    pub(super) name: Ident,
}

/// An extern with its methods; a constructor has the extern's name.
#[derive(Clone, Debug)]
pub(super) struct ExternDecl {
    pub(super) type_params: Vec<Ident>,
    pub(super) methods: Vec<Method>,
}

/// A method of an extern.
#[derive(Clone, Debug)]
pub(super) struct Method {
    pub(super) name: Ident,
    pub(super) is_abstract: bool,
    /// `None` for a constructor.
    pub(super) result: Option<TypeExpr>,
    pub(super) type_params: Vec<Ident>,
    pub(super) params: Vec<Param>,
}

/// A function, or without a body an extern function.
#[derive(Clone, Debug)]
pub(super) struct FunctionDecl {
    pub(super) result: TypeExpr,
    pub(super) type_params: Vec<Ident>,
    pub(super) params: Vec<Param>,
    pub(super) body: Option<Block>,
}

/// A parser, or without states a parser type.
#[derive(Clone, Debug)]
pub(super) struct ParserDecl {
    pub(super) type_params: Vec<Ident>,
    pub(super) params: Vec<Param>,
    pub(super) constructor: Vec<Param>,
    pub(super) locals: Vec<Rc<Decl>>,
    pub(super) states: Option<Vec<State>>,
}

/// A state of a parser.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) name: Ident,
    pub(super) body: Block,
    pub(super) next: Transition,
}

/// The transition of a state.
#[derive(Clone, Debug)]
pub(super) enum Transition {
    /// Nothing is written: reject.
    None,
    To(Ident),
    Select(Select),
}

/// `select (..) { .. }`.
#[derive(Clone, Debug)]
pub(super) struct Select {
    pub(super) keys: Vec<Expr>,
    /// A keyset and its state.
    pub(super) cases: Vec<(Expr, Ident)>,
}

/// A control, or without a body a control type.
#[derive(Clone, Debug)]
pub(super) struct ControlDecl {
    pub(super) type_params: Vec<Ident>,
    pub(super) params: Vec<Param>,
    pub(super) constructor: Vec<Param>,
    pub(super) locals: Vec<Rc<Decl>>,
    pub(super) body: Option<Block>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(super) struct TableDecl {
    pub(super) keys: Vec<Key>,
    pub(super) key_span: Option<SourceSpan>,
    pub(super) actions: Vec<ActionRef>,
    pub(super) has_actions: bool,
    pub(super) default: Option<Expr>,
    pub(super) const_default: bool,
    pub(super) entries: Option<Entries>,
    pub(super) properties: Vec<(Ident, Expr, bool)>,
    /// Annotations of properties that have some.
    pub(super) property_annotations: Vec<(Rc<str>, Annotations)>,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) value: Expr,
    pub(super) kind: Ident,
    pub(super) annotations: Annotations,
}

/// An action in the list of a table: a name, or a call with arguments.
#[derive(Clone, Debug)]
pub(super) struct ActionRef {
    pub(super) annotations: Annotations,
    pub(super) action: Expr,
}

/// Entries of a table.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    pub(super) is_const: bool,
    pub(super) list: Vec<Entry>,
    pub(super) span: SourceSpan,
}

/// The property for a hit on an empty group (PSA 1.1, section 7.12).
pub(super) fn is_empty_group_action(property: &str) -> bool {
    property == "psa_empty_group_action"
}

/// An entry of a table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// `const` in front of it: it stays as it is where others of the list may change.
    pub(super) is_const: bool,
    pub(super) priority: Option<Expr>,
    /// `@priority(1)` behind it: the smallest wins.
    pub(super) annotated: Option<u64>,
    pub(super) keys: Expr,
    pub(super) action: Expr,
}

/// Where the value of an argument comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    None,
    In,
    Out,
    InOut,
}

/// A parameter.
#[derive(Clone, Debug)]
pub(super) struct Param {
    pub(super) annotations: Annotations,
    pub(super) direction: Direction,
    pub(super) ty: TypeExpr,
    pub(super) name: Ident,
    pub(super) default: Option<Expr>,
    /// Number of the parameter, from the same row as those of declarations.
    pub(super) id: u32,
}

/// An argument: a value, `name = value`, or `_`.
#[derive(Clone, Debug)]
pub(super) struct Arg {
    pub(super) name: Option<Ident>,
    pub(super) value: Expr,
}

/// A type as it is written.
pub(super) type TypeExpr = Rc<Sp<TypeKind>>;

/// What a type is.
#[derive(Clone, Debug)]
pub(super) enum TypeKind {
    /// A name with type arguments; `global` for `.name`.
    Name {
        name: Ident,
        args: Vec<TypeExpr>,
        global: bool,
    },
    Bit(Expr),
    Int(Expr),
    Varbit(Expr),
    Bool,
    Integer,
    Error,
    MatchKind,
    Text,
    Void,
    Tuple(Vec<TypeExpr>),
    List(TypeExpr),
    Stack(TypeExpr, Expr),
    Any,
}

/// Statements in brackets.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) statements: Vec<Stmt>,
}

/// A statement.
#[derive(Clone, Debug)]
pub(super) struct Stmt {
    pub(super) kind: StmtKind,
    pub(super) span: SourceSpan,
}

/// What a statement is.
#[derive(Clone, Debug)]
pub(super) enum StmtKind {
    Block(Block),
    /// `a = b`, or `a += b` with its operator.
    Assign(Expr, Option<Binary>, Expr),
    Call(Expr),
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    Switch(Expr, Vec<SwitchCase>),
    Return(Option<Expr>),
    Exit,
    Break,
    Continue,
    For {
        init: Vec<Stmt>,
        condition: Expr,
        update: Vec<Stmt>,
        body: Box<Stmt>,
    },
    /// The variable, first value, last value (or none: a list), body.
    ForIn(Rc<Decl>, Expr, Box<Stmt>),
    Declare(Rc<Decl>),
}

/// A case of a switch; without a body it falls to the next one.
#[derive(Clone, Debug)]
pub(super) struct SwitchCase {
    /// `None`: `default`.
    pub(super) label: Option<Expr>,
    pub(super) body: Option<Block>,
    pub(super) span: SourceSpan,
}

/// An expression; the results of the type checker are found by its number.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    pub(super) kind: Rc<ExprKind>,
    pub(super) span: SourceSpan,
    pub(super) id: u32,
}

/// What an expression is.
#[derive(Clone, Debug)]
pub(super) enum ExprKind {
    Number(BigInt, Option<(u32, bool)>),
    Bool(bool),
    Text(Rc<str>),
    /// A name; true for `.name`.
    Name(Ident, bool),
    /// A type where an expression stands: `error` in `error.X`, `H` in `H.minSizeInBits()`, `C` in `C()`.
    Type(TypeExpr),
    Member(Expr, Ident),
    Index(Expr, Expr),
    Slice(Expr, Expr, Expr),
    /// `x[base+:width]`.
    PlusSlice(Expr, Expr, Expr),
    Call {
        callee: Expr,
        types: Vec<TypeExpr>,
        args: Vec<Arg>,
    },
    Unary(Unary, Expr),
    Binary(Binary, Expr, Expr),
    Mux(Expr, Expr, Expr),
    Cast(TypeExpr, Expr),
    /// `{ a, b }`, and whether `...` ends it.
    List(Vec<Expr>, bool),
    /// `{ a = 1 }`, and whether `...` ends it.
    Record(Vec<(Ident, Expr)>, bool),
    /// `(a, b)` of a keyset.
    Tuple(Vec<Expr>),
    /// `{#}`.
    Invalid,
    /// `...`.
    Dots,
    /// `_` and `default` of keysets, and `_` of arguments.
    Any,
    Mask(Expr, Expr),
    Range(Expr, Expr),
    /// Something that could not be read.
    Poison,
}

impl Expr {
    /// Calls `found` with each expression in it, in order.
    pub(super) fn each_part<'a>(&'a self, found: &mut dyn FnMut(&'a Expr)) {
        match &*self.kind {
            ExprKind::Member(of, _) | ExprKind::Unary(_, of) | ExprKind::Cast(_, of) => found(of),
            ExprKind::Index(a, b)
            | ExprKind::Binary(_, a, b)
            | ExprKind::Mask(a, b)
            | ExprKind::Range(a, b) => [a, b].into_iter().for_each(found),
            ExprKind::Slice(a, b, c) | ExprKind::PlusSlice(a, b, c) | ExprKind::Mux(a, b, c) => {
                [a, b, c].into_iter().for_each(found);
            }
            ExprKind::Call { callee, args, .. } => {
                found(callee);
                args.iter().for_each(|arg| found(&arg.value));
            }
            ExprKind::List(items, _) | ExprKind::Tuple(items) => items.iter().for_each(found),
            ExprKind::Record(fields, _) => fields.iter().for_each(|(_, value)| found(value)),
            ExprKind::Number(..)
            | ExprKind::Bool(_)
            | ExprKind::Text(_)
            | ExprKind::Name(..)
            | ExprKind::Type(_)
            | ExprKind::Invalid
            | ExprKind::Dots
            | ExprKind::Any
            | ExprKind::Poison => {}
        }
    }
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Not,
    Complement,
    Minus,
    Plus,
}

/// Operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    /// One that the tree behind P4 has too.
    Op(AstBin),
    /// `/`.
    Div,
}

impl Binary {
    /// As it is written.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Binary::Op(op) => op.symbol(),
            Binary::Div => "/",
        }
    }
}
