//! The tree of a random program.

use super::value::{Op, Type};

/// Elements of the stack, each of a byte.
pub const ELEMENTS: usize = 4;

/// A field, variable or parameter: its name as an expression writes it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "a name and its type")]
pub struct Variable {
    pub name: String,
    pub ty: Type,
}

/// An expression with its type.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "a kind and its type")]
pub struct Expr {
    pub ty: Type,
    pub kind: Kind,
}

/// What an expression does.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A number.
    Constant(u128),
    /// The value of a variable.
    Variable(String),
    /// An element of the stack with a computed index.
    Element(Box<Expr>),
    /// Whether the second header is valid.
    IsValid,
    /// `!`
    Not(Box<Expr>),
    /// `-`
    Negate(Box<Expr>),
    /// `~`
    Invert(Box<Expr>),
    /// An operator.
    Binary(Op, Box<Expr>, Box<Expr>),
    /// To the type of the expression.
    Cast(Box<Expr>),
    /// From the second number down to the third.
    Slice(Box<Expr>, u32, u32),
    /// `a ? b : c`
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A function.
    Call(usize, Vec<Argument>),
}

/// An argument: a value, or the variable that a parameter with `inout` or `out` goes back to.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "a value or a variable")]
pub enum Argument {
    Value(Expr),
    Place(Variable),
}

/// What a branch of `switch` is for.
pub type Case = (Vec<u128>, Vec<Statement>);

/// A statement.
#[derive(Clone, Debug)]
pub enum Statement {
    /// A new variable.
    Declare(Variable, Expr),
    /// `=`
    Assign(Variable, Expr),
    /// Bits of a variable.
    Part(Variable, u32, u32, Expr),
    /// `+=` and others.
    With(Variable, Op, Expr),
    /// An element of the stack with a computed index.
    Element(Expr, Expr),
    /// The second header becomes valid with these fields.
    Fill(Vec<Expr>),
    /// `if`
    If(Expr, Vec<Statement>, Vec<Statement>),
    /// `switch` on a value.
    Switch(Expr, Vec<Case>, Vec<Statement>),
    /// `for` from one number to another; as three clauses where the last is true.
    For(Variable, u128, u128, Vec<Statement>, bool),
    /// `for` over a list.
    Each(Variable, Vec<Expr>, Vec<Statement>),
    /// An action, control or function.
    Call(usize, Vec<Argument>),
    /// A table, with what follows a hit and a miss.
    Apply(usize, Vec<Statement>, Vec<Statement>),
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// `return`
    Return,
    /// `exit`
    Exit,
}

/// How a parameter is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of the language")]
pub enum Direction {
    In,
    InOut,
    Out,
    /// Without a direction: data of an action.
    Data,
}

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of the language")]
pub enum Sort {
    Function,
    Action,
    Control,
}

/// A function, action or control; the result is that of a function.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the parts of a declaration")]
pub struct Callable {
    pub sort: Sort,
    pub params: Vec<(Direction, Variable)>,
    pub body: Vec<Statement>,
    pub result: Option<Expr>,
}

/// How a key of an entry matches.
#[derive(Clone, Debug)]
pub enum Match {
    /// A value and a mask.
    Masked(u128, u128),
    /// From the first to the second.
    Range(u128, u128),
    /// Exactly this.
    Exact(u128),
}

impl Match {
    /// Whether a value matches.
    pub fn matches(&self, value: u128) -> bool {
        match self {
            Match::Masked(want, mask) => value & mask == want & mask,
            Match::Range(from, to) => (from..=to).contains(&&value),
            Match::Exact(want) => value == *want,
        }
    }
}

/// A table with constant entries, of which the first that matches counts.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the parts of a declaration")]
pub struct Table {
    pub keys: Vec<(Expr, &'static str)>,
    pub entries: Vec<(Vec<Match>, usize, Vec<u128>)>,
    pub default: (usize, Vec<u128>),
}

/// A program: two headers and a stack; the parser extracts the second header where a case of its `select` says so.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the parts of a program")]
pub struct Program {
    pub first: Vec<Variable>,
    pub second: Vec<Variable>,
    pub metadata: Vec<Variable>,
    pub select: Vec<Expr>,
    pub cases: Vec<(Vec<Match>, bool)>,
    pub callables: Vec<Callable>,
    pub tables: Vec<Table>,
    pub locals: Vec<(Variable, u128)>,
    pub ingress: Vec<Statement>,
    pub egress: Vec<Statement>,
}
