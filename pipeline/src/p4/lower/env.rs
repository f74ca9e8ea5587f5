//! What names stand for.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::super::info::full_name;
use super::super::tree::*;
use super::super::types::{StructType, Type};
use crate::ast::{AstExpr, Path};

/// Members of a struct, of a header that is written down, or of a union, in their order.
pub(super) type Members = Rc<Vec<(Rc<str>, Val)>>;

/// A value, or a place that holds one.
#[derive(Clone, Debug)]
pub(super) enum Val {
    /// One number; a path where it can be written.
    Scalar(AstExpr),
    /// A struct or tuple.
    Struct(Members),
    Header(Rc<Header>),
    /// A header that is written down: its fields, or none for an invalid one.
    Literal(Option<Members>),
    Union(Members),
    Stack(Rc<Stack>),
    /// An element whose number is computed.
    Choice(Rc<Choice>),
    Text(Rc<str>),
    Object(Rc<Object>),
    Block(Rc<BlockVal>),
    /// An action: the scope that it is declared in.
    Action(Env),
    /// A table, with the scope that it is declared in.
    Table(Rc<Decl>, Env),
    /// Whether `apply` of this table hit, in one bit.
    Applied(AstExpr),
    /// `next` or `last` of a stack of unions, and the member that is named of it.
    Moving(Rc<Stack>, bool, Option<Rc<str>>),
    /// The packet.
    Packet,
    Nothing,
}

/// A header: an instance, or an element of a stack.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) path: Path,
    pub(super) ty: Rc<StructType>,
}

/// A stack of headers.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    pub(super) name: String,
    pub(super) of: Type,
    pub(super) size: u32,
    /// Elements of a stack of unions, one by one.
    pub(super) elements: Vec<Val>,
}

/// All elements, and the number of the one that is meant, in 32 bits.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) at: AstExpr,
    pub(super) elements: Vec<Val>,
}

/// An instance of an extern.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// Its name in the tree, if it has one there.
    pub(super) name: String,
    /// The name that control has for it.
    pub(super) full: String,
    pub(super) decl: Rc<Decl>,
    pub(super) types: Rc<Vec<Type>>,
    pub(super) args: Vec<Val>,
    /// What a checksum has summed so far.
    pub(super) sum: Option<AstExpr>,
}

/// A parser or control with its constructor's arguments.
#[derive(Debug)]
pub(super) struct BlockVal {
    pub(super) decl: Rc<Decl>,
    pub(super) name: Rc<str>,
    /// The name that control has for it, with the blocks around.
    pub(super) full: String,
    pub(super) args: Vec<Val>,
    /// Types in place of its type parameters.
    pub(super) types: Vec<(u32, Type)>,
    pub(super) env: Env,
    /// A number that no other instance has.
    pub(super) number: usize,
}

/// A scope.
#[derive(Debug)]
pub(super) struct Scope {
    map: RefCell<HashMap<u32, Val>>,
    /// Its number, and the last that was given.
    number: usize,
    last: Rc<Cell<usize>>,
    parent: Option<Env>,
    /// Names of the blocks around, for names that are taken.
    pub(super) prefix: String,
    /// The name that control has for the block around.
    full: String,
}

/// A scope with those around it.
#[derive(Clone, Debug)]
pub(super) struct Env(Rc<Scope>);

/// The scope of the program.
pub(super) fn root() -> Env {
    let (map, last) = (RefCell::default(), Rc::default());
    Env(Rc::new(Scope {
        map,
        number: 0,
        last,
        parent: None,
        prefix: String::new(),
        full: String::new(),
    }))
}

impl Env {
    /// A scope inside this one.
    pub(super) fn inner(&self, prefix: &str) -> Env {
        let prefix = if prefix.is_empty() { &self.0.prefix } else { prefix };
        self.scope(prefix, &self.0.full)
    }

    /// The scope of a block.
    pub(super) fn block(&self, prefix: &str, full: &str) -> Env {
        self.scope(prefix, full)
    }

    fn scope(&self, prefix: &str, full: &str) -> Env {
        let (prefix, full) = (prefix.to_owned(), full.to_owned());
        let (number, last) = (self.next_number(), self.0.last.clone());
        let parent = Some(self.clone());
        Env(Rc::new(Scope { map: RefCell::default(), number, last, parent, prefix, full }))
    }

    pub(super) fn bind(&self, id: u32, value: Val) {
        self.0.map.borrow_mut().insert(id, value);
    }

    /// What a declaration or parameter stands for.
    pub(super) fn find(&self, id: u32) -> Option<Val> {
        let mut scope = Some(self);
        while let Some(env) = scope {
            if let Some(found) = env.0.map.borrow().get(&id) {
                return Some(found.clone());
            }
            scope = env.0.parent.as_ref();
        }
        None
    }

    pub(super) fn prefix(&self) -> &str {
        &self.0.prefix
    }

    /// The name that control has for something that is declared here.
    pub(super) fn full(&self, annotations: &[Annotation], name: &str) -> String {
        full_name(&self.0.full, annotations, name)
    }

    /// The number of this scope, which no other has.
    pub(super) fn key(&self) -> usize {
        self.0.number
    }

    /// A number that was never given.
    pub(super) fn next_number(&self) -> usize {
        self.0.last.set(self.0.last.get() + 1);
        self.0.last.get()
    }
}
