//! Dense ids and the vectors they index.
//!
//! Every object of a program has a small integer id given in declaration order, so that the IR holds
//! no names, no maps and no pointers: printing is deterministic, and engines index arrays.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// An index into one kind of [`IdVec`].
pub trait Id: Copy + Eq {
    /// The id with this index.
    fn new(index: usize) -> Self;
    /// The index of this id.
    fn index(self) -> usize;
}

/// Defines a `u32` id newtype whose text form is a prefix and the index, as in `%t3`.
macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
        impl Id for $name {
            fn new(index: usize) -> Self {
                debug_assert!(index <= u32::MAX as usize);
                $name(index as u32)
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )*};
}

ids! {
    /// A source file of the program (0 is the program itself).
    FileId = "file";
    /// A header type.
    HeaderId = "hdr";
    /// A header instance; each element of a stack is an instance. At most 64 in a program.
    InstanceId = "inst";
    /// A header stack: consecutive instances of one type.
    StackId = "stack";
    /// A field, numbered within its header type.
    FieldId = "f";
    /// A user metadata field.
    MetaId = "meta";
    /// A local variable of a code body (`let`, register cells under update, action parameters).
    LocalId = "l";
    /// An expression.
    ExprId = "e";
    /// A parser state.
    StateId = "state";
    /// A basic block, numbered within its body.
    BlockId = "b";
    /// An action.
    ActionId = "act";
    /// A match-action table.
    TableId = "tbl";
    /// A parser value set.
    ValueSetId = "vs";
    /// A register array.
    RegisterId = "reg";
    /// An indirect counter array.
    CounterId = "ctr";
    /// An indirect meter array.
    MeterId = "mtr";
    /// A digest type.
    DigestId = "dig";
    /// A ones'-complement checksum.
    ChecksumId = "csum";
    /// A CRC.
    CrcId = "crc";
    /// A reason for a drop or a punt, by name.
    ReasonId = "reason";
    /// A parser error, by name.
    ErrorId = "err";
    /// A device extern, by position in the device's registry for the compiler.
    ExternId = "ext";
}

/// A vector indexed by one kind of id.
#[derive(Clone, PartialEq, Eq)]
pub struct IdVec<I, T> {
    items: Vec<T>,
    id: PhantomData<I>,
}

impl<I: Id, T> IdVec<I, T> {
    /// An empty vector.
    pub fn new() -> Self {
        IdVec { items: Vec::new(), id: PhantomData }
    }

    /// Appends and returns the id of the new item.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::new(self.items.len() - 1)
    }

    /// The id that the next push will return.
    pub fn next_id(&self) -> I {
        I::new(self.items.len())
    }

    /// Keeps the first `len` items; ids of the others become invalid.
    pub fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item, or `None` if the id is from elsewhere.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    /// All ids, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// All items, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }

    /// All items, in order, to change.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }

    /// All ids with their items, in order.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.items.iter().enumerate().map(|(index, item)| (I::new(index), item))
    }

    /// The items as a slice.
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }
}

impl<I: Id, T> Default for IdVec<I, T> {
    fn default() -> Self {
        IdVec::new()
    }
}

impl<I: Id, T: fmt::Debug> fmt::Debug for IdVec<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.items).finish()
    }
}

impl<I: Id, T> FromIterator<T> for IdVec<I, T> {
    fn from_iter<It: IntoIterator<Item = T>>(items: It) -> Self {
        IdVec { items: items.into_iter().collect(), id: PhantomData }
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

impl<'a, I: Id, T> IntoIterator for &'a IdVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}
