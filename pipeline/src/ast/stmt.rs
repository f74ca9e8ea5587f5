//! Statements as they are written: strings by the grammar, maps by their keys.

use super::{AstExpr, Name, Path, Sp};
use crate::ir::SourceSpan;

/// A statement at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stmt {
    /// Its kind and content.
    pub kind: StmtKind,
    /// The statement.
    pub span: SourceSpan,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StmtKind {
    /// `a.b = expression`; the right side may be one of the effects `random(..)`, `execute(..)`,
    /// `register[i].cell` or an extern with a result.
    Assign(Sp<Path>, Option<(AstExpr, AstExpr)>, AstExpr),
    /// `let name = expression`.
    Let(Name, AstExpr),
    /// `name(args)` or `name`: an action, a procedure of the language or an extern.
    Call(Name, Vec<AstExpr>),
    /// `drop` or `drop reason`.
    Drop(Option<Name>),
    /// `punt reason`.
    Punt(Option<Name>),
    /// `exit`.
    Exit,
    /// `return`.
    Return,
    /// `if:`, `then:`, `else:`.
    If(AstExpr, Vec<Stmt>, Vec<Stmt>),
    /// `switch:`, `cases:` with the labels of each, `default:`.
    Switch(AstExpr, Vec<(Vec<AstExpr>, Vec<Stmt>)>, Vec<Stmt>),
    /// `apply:`.
    Apply(ApplyStmt),
    /// `call:` a control, with its arguments.
    CallControl(Name, Vec<AstExpr>),
    /// `update: flow[i]`, `as: r`, `do:`: one atomic read-modify-write of a register entry.
    Update {
        /// Register and index.
        register: Name,
        /// Index of the entry.
        index: AstExpr,
        /// Name of the entry inside `do:`.
        alias: Name,
        /// Statements; no exit, return, drop or apply.
        body: Vec<Stmt>,
    },
    /// `learn: table`, `key: [..]`, `action: call(..)`.
    Learn {
        /// Table.
        table: Name,
        /// One value for each key.
        key: Vec<AstExpr>,
        /// A call.
        action: AstExpr,
    },
}

/// `apply: table`, `hit:`, `miss:`, `actions: { name: [..] }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyStmt {
    /// Table.
    pub table: Name,
    /// After a hit.
    pub hit: Vec<Stmt>,
    /// After a miss.
    pub miss: Vec<Stmt>,
    /// After one of these actions ran; `actions` and `hit`/`miss` exclude each other.
    pub actions: Vec<(Vec<Name>, Vec<Stmt>)>,
}
