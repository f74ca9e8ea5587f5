//! Expressions as they are written.

use super::Sp;

/// An expression at a place.
pub type AstExpr = Sp<Ast>;

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ast {
    /// A number; `8w255` has a width, `255` takes the width of its context.
    Number {
        /// Value.
        value: u128,
        /// Width, when written; addresses have theirs (48, 32, 128).
        bits: Option<u32>,
    },
    /// `true` or `false`: one bit.
    Bool(bool),
    /// `ipv4.ttl`, `vlan[0].vid`, `smp.path[meta.i + 1]`, `param`, `CONST`, `error.no_match`.
    Path(Path),
    /// One operand.
    Unary(AstUn, Box<AstExpr>),
    /// Two operands.
    Binary(AstBin, Box<AstExpr>, Box<AstExpr>),
    /// `value[high:low]`.
    Slice {
        /// Value.
        value: Box<AstExpr>,
        /// Highest bit, a constant.
        high: Box<AstExpr>,
        /// Lowest bit, a constant.
        low: Box<AstExpr>,
    },
    /// `bit<16>(value)`.
    Cast(Sp<u64>, Box<AstExpr>),
    /// `signed(value)`, an operand of a comparison.
    Signed(Box<AstExpr>),
    /// `condition ? a : b`.
    Mux(Box<AstExpr>, Box<AstExpr>, Box<AstExpr>),
    /// `name(args)`: a function, an action or an extern; `name` alone is a path.
    Call(Sp<String>, Vec<AstExpr>),
    /// `name = value`, an argument of a call.
    Named(Sp<String>, Box<AstExpr>),
}

/// `a.b[i].c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Names and indices in order; the first is a name.
    pub parts: Vec<PathPart>,
}

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPart {
    /// `.name`.
    Name(Sp<String>),
    /// `[index]`.
    Index(AstExpr),
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AstUn {
    /// `!`.
    Not,
    /// `~`.
    Complement,
    /// `-`.
    Negate,
}

/// Operators of two operands, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is its symbol")]
pub enum AstBin {
    Add,
    Sub,
    Mul,
    Rem,
    SatAdd,
    SatSub,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    LogicalAnd,
    LogicalOr,
    Concat,
}

impl AstBin {
    /// As it is written.
    pub fn symbol(self) -> &'static str {
        use AstBin::*;
        match self {
            Add => "+",
            Sub => "-",
            Mul => "*",
            Rem => "%",
            SatAdd => "|+|",
            SatSub => "|-|",
            And => "&",
            Or => "|",
            Xor => "^",
            Shl => "<<",
            Shr => ">>",
            Eq => "==",
            Ne => "!=",
            Lt => "<",
            Le => "<=",
            Gt => ">",
            Ge => ">=",
            LogicalAnd => "&&",
            LogicalOr => "||",
            Concat => "++",
        }
    }
}

impl Ast {
    /// Calls `found` with each operand and argument; the indices of a path are none.
    pub(crate) fn each_part<'a>(&'a self, found: &mut dyn FnMut(&'a AstExpr)) {
        match self {
            Ast::Number { .. } | Ast::Bool(_) | Ast::Path(_) => {}
            Ast::Unary(_, value)
            | Ast::Named(_, value)
            | Ast::Cast(_, value)
            | Ast::Signed(value) => found(value),
            Ast::Binary(_, left, right) => [left, right].into_iter().for_each(|part| found(part)),
            Ast::Slice { value: a, high: b, low: c } | Ast::Mux(a, b, c) => {
                [a, b, c].into_iter().for_each(|part| found(part));
            }
            Ast::Call(_, args) => args.iter().for_each(found),
        }
    }

    /// The same, to change them.
    pub(crate) fn each_part_mut(&mut self, found: &mut dyn FnMut(&mut AstExpr)) {
        match self {
            Ast::Number { .. } | Ast::Bool(_) | Ast::Path(_) => {}
            Ast::Unary(_, value)
            | Ast::Named(_, value)
            | Ast::Cast(_, value)
            | Ast::Signed(value) => found(value),
            Ast::Binary(_, left, right) => [left, right].into_iter().for_each(|part| found(part)),
            Ast::Slice { value: a, high: b, low: c } | Ast::Mux(a, b, c) => {
                [a, b, c].into_iter().for_each(|part| found(part));
            }
            Ast::Call(_, args) => args.iter_mut().for_each(found),
        }
    }

    /// Calls `found` with every path in it, each before those of its indices.
    pub(crate) fn paths<'a>(&'a self, found: &mut dyn FnMut(&'a Path)) {
        match self {
            Ast::Path(path) => path.paths(found),
            _ => self.each_part(&mut |part| part.value.paths(found)),
        }
    }
}

impl Path {
    /// Calls `found` with this path and those of its indices.
    pub(crate) fn paths<'a>(&'a self, found: &mut dyn FnMut(&'a Path)) {
        found(self);
        for part in &self.parts {
            if let PathPart::Index(index) = part {
                index.value.paths(found);
            }
        }
    }

    /// The whole path as one name, when it is only names: `ipv4.ttl`.
    pub fn plain(&self) -> Option<String> {
        let mut text = String::new();
        for part in &self.parts {
            let PathPart::Name(name) = part else { return None };
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(&name.value);
        }
        Some(text)
    }

    /// The name when the path is a single one.
    pub fn single(&self) -> Option<&Sp<String>> {
        match self.parts.as_slice() {
            [PathPart::Name(name)] => Some(name),
            _ => None,
        }
    }
}
