//! The contents of a P4 program's P4Info: names, ids and types of its tables, actions and objects, and the declaration
//! of the compiled program that each of them is.
//!
//! Data only. [`crate::p4`] creates it, and the messages of P4Runtime are made from it elsewhere: nothing here depends
//! on protobuf.

use std::collections::{BTreeMap, BTreeSet};

/// A compiled program's P4 source, for the control plane: its P4Info, and the full P4 names of the program's
/// declarations, by their names in the program. A declaration in no list has no name for the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The contents of P4Info.
    pub info: Info,
    /// Tables.
    pub tables: BTreeMap<String, String>,
    /// Actions. One of P4 is several here where tables pass it different arguments.
    pub actions: BTreeMap<String, String>,
    /// Counters, meters and registers.
    pub objects: BTreeMap<String, String>,
    /// Digests. One of P4 is several here, one for each place that sends it.
    pub digests: BTreeMap<String, String>,
    /// Value sets.
    pub value_sets: BTreeMap<String, String>,
    /// Instances and elements of stacks among which a counter selects the one to extract, so none is
    /// extracted twice.
    pub counted_elements: BTreeSet<String>,
    /// Headers and stacks of the packet, and of the metadata beside it, by their paths in the source: `u.a`.
    pub headers: BTreeMap<String, String>,
    /// Those of variables.
    pub variables: BTreeMap<String, String>,
    /// Counters, meters and registers of which an entry is used that they do not have.
    pub outside: BTreeSet<String>,
    /// Metadata with the mark that a packet enters ingress again.
    pub again_mark: Option<String>,
}

/// The name of a header, or of an element of a stack (`s[1]`), whose stack is in the map.
fn called(names: &BTreeMap<String, String>, known: &str) -> Option<String> {
    let (name, index) = known.split_at(known.find('[').unwrap_or(known.len()));
    names.get(name).map(|name| format!("{name}{index}"))
}

/// Whether a name ends in another one, in whole parts.
pub fn ends_in(full: &str, end: &str) -> bool {
    full.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

impl Origin {
    /// What the source calls a header of the packet, or an element of a stack.
    pub fn header(&self, known: &str) -> Option<String> {
        called(&self.headers, known)
    }

    /// The same, and of a variable too.
    pub fn any_header(&self, known: &str) -> Option<String> {
        self.header(known).or_else(|| called(&self.variables, known))
    }

    /// Whether the source has this name for what is called `known` in the program: the full one, or the end of it behind a `.`.
    pub fn is_called(&self, known: &str, name: &str) -> bool {
        let maps = [&self.tables, &self.actions, &self.objects, &self.digests, &self.value_sets];
        maps.iter().filter_map(|names| names.get(known)).any(|full| ends_in(full, name))
    }

    /// Whether an action of a table, both by their names in the program, has this annotation in the table's list
    /// (P4-16 14.2.1.2, `@tableonly` and `@defaultonly`).
    pub fn is_annotated(&self, table: &str, action: &str, annotation: &str) -> bool {
        let (Some(table), Some(action)) = (self.tables.get(table), self.actions.get(action)) else {
            return false;
        };
        let found = self.info.tables.iter().find(|one| one.preamble.name == *table);
        let refs = found.map(|table| table.actions.as_slice()).unwrap_or_default();
        refs.iter().filter(|one| one.annotations.iter().any(|of| of == annotation)).any(|one| {
            self.info.actions.get(one.action).is_some_and(|of| of.preamble.name == *action)
        })
    }
}

/// Everything that P4Info lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// `v1model`, `psa`.
    pub arch: String,
    /// Values of `@pkginfo`.
    pub package: BTreeMap<String, String>,
    /// Documentation of the package, where the P4Info that came with a program has it.
    pub package_doc: Option<Doc>,
    /// Values of `@platform_property`.
    pub platform: BTreeMap<String, i32>,
    /// Other annotations of `main`.
    pub package_annotations: Vec<String>,
    /// `@name[..]` of `main`.
    pub package_structured: Vec<(String, Structured)>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Actions that something uses.
    pub actions: Vec<Action>,
    /// Counters, meters, registers, action profiles, digests.
    pub objects: Vec<Object>,
    /// Value sets.
    pub value_sets: Vec<ValueSet>,
    /// Headers of packets to and from the controller.
    pub controller_headers: Vec<(Preamble, Vec<Param>)>,
    /// Types that have a name.
    pub types: BTreeMap<String, NamedType>,
    /// Members of `error`, if a listed object has this type.
    pub errors: Vec<String>,
}

/// The attributes of every entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preamble {
    /// Its full name: `ingress.t`.
    pub name: String,
    /// The shortest suffix of the name that is unique.
    pub alias: String,
    /// Number, without the kind of the entity.
    pub id: u32,
    /// `@id(N)` gave the number.
    pub pinned: bool,
    /// `@brief` and `@description`.
    pub doc: Option<Doc>,
    /// Annotations without effect here: `@mode("fair")`.
    pub annotations: Vec<String>,
    /// `@name[..]`.
    pub structured: Vec<(String, Structured)>,
}

/// Documentation of an entity; empty if it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doc {
    /// `@brief`.
    pub brief: String,
    /// `@description`.
    pub description: String,
}

/// The content of a structured annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Structured {
    /// A list.
    List(Vec<Literal>),
    /// Names and values.
    Pairs(Vec<(String, Literal)>),
}

/// A value in a structured annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
    /// True or false.
    Flag(bool),
}

/// A type as P4Info has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeRef {
    /// `bit<N>`.
    Bits(u32),
    /// `int<N>`.
    Signed(u32),
    /// `varbit<N>`.
    Variable(u32),
    /// `bool`.
    Bool,
    /// `error`.
    Error,
    /// A tuple.
    Tuple(Vec<TypeRef>),
    /// A struct.
    Struct(String),
    /// A header.
    Header(String),
    /// `type`.
    New(String),
    /// An enum.
    Enum(String),
    /// An enum of numbers.
    Numbers(String),
}

/// A type with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedType {
    /// A struct.
    Struct(Vec<(String, TypeRef)>),
    /// A header, its fields flat.
    Header(Vec<(String, TypeRef)>),
    /// `type T name`.
    New(TypeRef),
    /// `type` with `@p4runtime_translation`: the URI, and its bits; `None`: a text.
    Translated(String, Option<u32>),
    /// An enum.
    Enum(Vec<String>),
    /// An enum of numbers: its bits, its members.
    Numbers(u32, Vec<(String, Vec<u8>)>),
}

/// A parameter of an action or a field of a controller header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// From 1.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Bits; 0 for a type without a width for the controller.
    pub bits: u32,
    /// Its type, where that has a name.
    pub type_name: Option<String>,
    /// `@brief` and `@description`.
    pub doc: Option<Doc>,
    /// Annotations without effect here.
    pub annotations: Vec<String>,
}

/// A key of a table, or a field of a value set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name, width and type.
    pub field: Param,
    /// `exact`, `lpm` and so on.
    pub kind: String,
}

/// An action in the list of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRef {
    /// The action's index in [`Info::actions`].
    pub action: usize,
    /// `@defaultonly`, `@tableonly`, and annotations without effect here.
    pub annotations: Vec<String>,
    /// `@name[..]`.
    pub structured: Vec<(String, Structured)>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Names.
    pub preamble: Preamble,
    /// Keys.
    pub keys: Vec<Key>,
    /// Actions.
    pub actions: Vec<ActionRef>,
    /// The default action, its arguments in bytes; and whether it is constant.
    pub default: Option<(usize, Vec<Vec<u8>>, bool)>,
    /// Its action profile.
    pub implementation: Option<usize>,
    /// Its counter and meter.
    pub direct: Vec<usize>,
    /// Most entries.
    pub size: i64,
    /// Entries may become idle.
    pub has_timeouts: bool,
    /// Its entries are constant, even if there are none: it cannot be written.
    pub is_const: bool,
    /// The program declares entries.
    pub has_entries: bool,
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Names.
    pub preamble: Preamble,
    /// Parameters that a controller sets.
    pub params: Vec<Param>,
    /// `@hidden`: tables have it in their lists, but it is not listed itself.
    pub hidden: bool,
}

/// The unit of an action selector's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectorSize {
    /// The sum of the weights of all members.
    Weights,
    /// The members, each with a weight up to this.
    Members(i32),
}

/// The unit of a counter or meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// Both.
    Both,
}

/// The kind of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Counters, with the type of their index.
    Counter(Unit, i64, Option<String>),
    /// A counter for each entry.
    DirectCounter(Unit),
    /// Meters, with the type of their index.
    Meter(Unit, i64, Option<String>),
    /// A meter for each entry.
    DirectMeter(Unit),
    /// A register: its cell, its cells, the type of their index.
    Register(TypeRef, i64, Option<String>),
    /// An action profile: whether it has a selector, its members, most members of a group, and what the size counts, if
    /// declared.
    Profile(bool, i64, i32, Option<SelectorSize>),
    /// A digest.
    Digest(TypeRef),
}

/// An object with state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Names.
    pub preamble: Preamble,
    /// Its kind.
    pub kind: ObjectKind,
}

/// A value set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSet {
    /// Names.
    pub preamble: Preamble,
    /// Its fields.
    pub fields: Vec<Key>,
    /// Most members.
    pub size: i32,
}
