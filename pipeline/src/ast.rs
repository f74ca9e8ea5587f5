//! The syntax tree: the content of the YAML, names unresolved, with the position of everything.
//!
//! The front end ([`crate::source`]) decodes YAML and the strings in it into this form and reports
//! what is malformed; it checks no name and no width. The checker ([`crate::check`]) reads it and
//! builds the IR. Included libraries are units beside the program, in the order of inclusion.

pub mod entries;
pub mod expr;
pub mod print;
pub mod stmt;

pub use expr::{Ast, AstBin, AstExpr, AstUn, Path, PathPart};
pub use stmt::{ApplyStmt, Stmt, StmtKind};

use crate::ir::{ControllerHeader, SourceSpan};
use crate::p4info::Origin;

/// The name and the number of `stack[2]`; a name without one is a header or a whole stack.
pub fn element(name: &str) -> (&str, Option<u32>) {
    match name.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        // A number above every stack's stays a number, so that it is refused as one.
        Some((stack, at)) if at.bytes().all(|byte| byte.is_ascii_digit()) && !at.is_empty() => {
            (stack, Some(at.parse().unwrap_or(u32::MAX)))
        }
        Some((stack, _)) => (stack, None),
        None => (name, None),
    }
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sp<T> {
    /// The value.
    pub value: T,
    /// Its place in the source.
    pub span: SourceSpan,
}

impl<T> Sp<T> {
    /// A value at a place.
    pub fn new(value: T, span: SourceSpan) -> Self {
        Sp { value, span }
    }
}

/// A name at a place.
pub type Name = Sp<String>;
/// Values by name, in the order written.
pub type Named<T> = Vec<(Name, T)>;

/// A file: the program, or a library it includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// `pipeline:` or `library:`.
    pub name: Option<Name>,
    /// True for a library.
    pub is_library: bool,
    /// `doc:`.
    pub doc: Option<Name>,
    /// `const:`.
    pub consts: Named<AstExpr>,
    /// `types:` widths by name.
    pub types: Named<TypeRef>,
    /// `headers:`.
    pub headers: Named<HeaderDecl>,
    /// `instances:`.
    pub instances: Named<InstanceDecl>,
    /// `unions:` instances of which at most one is valid.
    pub unions: Named<Vec<Name>>,
    /// `metadata:`.
    pub metadata: Named<MetaDecl>,
    /// `value_sets:`.
    pub value_sets: Named<ValueSetDecl>,
    /// `errors:` parser errors that the program adds.
    pub errors: Vec<Name>,
    /// `parser:`.
    pub parser: Named<StateDecl>,
    /// `egress_parser:`.
    pub egress_parser: Named<StateDecl>,
    /// `parsers:` sub-parsers for `call`.
    pub parsers: Named<Named<StateDecl>>,
    /// `on_parser_error:` `ingress` or `drop`.
    pub on_parser_error: Option<Name>,
    /// `actions:`.
    pub actions: Named<ActionDecl>,
    /// `tables:`.
    pub tables: Named<TableDecl>,
    /// `controls:` blocks for `call`.
    pub controls: Named<ControlDecl>,
    /// `registers:`.
    pub registers: Named<RegisterDecl>,
    /// `counters:`.
    pub counters: Named<CounterDecl>,
    /// `meters:`.
    pub meters: Named<MeterDecl>,
    /// `digests:` field name and value.
    pub digests: Named<Named<AstExpr>>,
    /// `checksums:`.
    pub checksums: Vec<ChecksumDecl>,
    /// `crcs:`.
    pub crcs: Named<CrcDecl>,
    /// `qos:`.
    pub qos: QosDecl,
    /// `ids:` of objects, by name.
    pub ids: Named<u64>,
    /// The origin of a program that came from P4, for the control plane.
    pub origin: Option<Box<Origin>>,
    /// `linux:` the tables that hold the state of the host's network stack.
    pub linux: Named<MappingDecl>,
    /// `ingress:`.
    pub ingress: Option<Sp<Vec<Stmt>>>,
    /// `egress:`.
    pub egress: Option<Sp<Vec<Stmt>>>,
    /// `deparser:`.
    pub deparser: Option<DeparserDecl>,
}

/// A width: a number of bits, or the name of a type (`mac`, `ipv4`, `ipv6`, `port`, `bool`, own).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeRef {
    /// Bits.
    Bits(Sp<u64>),
    /// A named type.
    Named(Name),
}

/// A count: a number, or the name of a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// A number.
    Number(Sp<u64>),
    /// A constant.
    Const(Name),
}

impl Size {
    /// A number at a place.
    pub fn new(number: u64, span: SourceSpan) -> Self {
        Size::Number(Sp::new(number, span))
    }
}

/// A header type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderDecl {
    /// `fields:`.
    pub fields: Named<FieldDecl>,
    /// `bytes:` total, needed with slices.
    pub bytes: Option<Sp<u64>>,
    /// `word: { bits, order }`.
    pub word: Option<WordDecl>,
    /// `controller:`, the direction of the control plane's packets that begin with this header.
    pub controller: Option<Sp<ControllerHeader>>,
}

/// Words that slices refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordDecl {
    /// Bits of a word: 8, 16, 32 or 64.
    pub bits: Sp<u64>,
    /// True for `order: little`.
    pub little: bool,
}

/// A field of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldDecl {
    /// The next bits in network order.
    Bits(TypeRef),
    /// Slices of words, most significant first: `w2[11:8]`.
    Slices(Vec<Sp<WordSlice>>),
    /// `{ array: 64, bits: 8 }`.
    Array {
        /// Elements.
        count: Sp<u64>,
        /// Bits of one.
        bits: Sp<u64>,
    },
    /// `{ varbits: 320, length: "(ihl - 5) * 32" }`.
    Variable {
        /// Longest, in bits.
        max_bits: Sp<u64>,
        /// Length in bits, over the fields of the same header; `None` where each `extract` gives it.
        length: Option<AstExpr>,
    },
}

/// `wN[high:low]`, or `wN[bit]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordSlice {
    /// Number of the word.
    pub word: u32,
    /// Highest bit.
    pub high: u32,
    /// Lowest bit.
    pub low: u32,
}

/// An instance: `inner_eth: ethernet`, or `{ header: vlan, stack: 4 }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceDecl {
    /// Header type.
    pub header: Name,
    /// Elements, for a stack.
    pub stack: Option<Size>,
}

/// A metadata field: a width, or `{ bits: 8, carried: true }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaDecl {
    /// Width.
    pub ty: TypeRef,
    /// It crosses the queue.
    pub carried: bool,
}

/// A value set: `{ bits: 16, size: 8, values: [0x8915] }`, or with keys in place of `bits:`, each a width and a kind:
/// ```yaml
/// { key: { a: 8, b: { bits: 16, kind: range } }, size: 8 }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSetDecl {
    /// `key:`; one without a name for `bits:` and `kind:`.
    pub keys: Vec<SetKeyDecl>,
    /// Most members.
    pub size: Size,
    /// Members at load.
    pub values: Vec<MemberDecl>,
}

/// A key of a value set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetKeyDecl {
    /// Its name.
    pub name: Option<Name>,
    /// Its width.
    pub ty: TypeRef,
    /// How it matches; exact when absent.
    pub kind: Option<Name>,
}

/// A member of a value set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberDecl {
    /// Of a set of one key: `80`, `8000..8999`.
    One(Sp<PatternDecl>),
    /// Keys and patterns: `{ a: 1, b: 80..443 }`.
    Keys(Sp<Named<Sp<PatternDecl>>>),
}

/// A parser state. Its keys act in the order of these fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDecl {
    /// `extract:` instances or stacks, in order.
    pub extract: Vec<Name>,
    /// `verify:` condition and error.
    pub verify: Vec<(AstExpr, Name)>,
    /// `do:` statements: assignments, `let`, and the procedures `extract(h)`,
    /// `extract_at(h, byte)`, `advance(bits)`, `body_end(byte)`, `verify(cond, error)`.
    pub statements: Vec<Stmt>,
    /// `extract_at:` instance and byte offset.
    pub extract_at: Named<AstExpr>,
    /// `body_end:`.
    pub body_end: Option<AstExpr>,
    /// `call:` a sub-parser, with `bind:` of its instances to others.
    pub call: Option<CallDecl>,
    /// `select:`, `cases:`, `default:`, or `next:`.
    pub next: NextDecl,
    /// Place of the state in the source.
    pub span: SourceSpan,
}

/// `call: library.parser`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallDecl {
    /// `parser` of this unit, or `library.parser`.
    pub target: Name,
    /// Instance of the sub-parser and the instance that replaces it.
    pub bind: Vec<(Name, Name)>,
}

/// The transition of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextDecl {
    /// `next:`; `accept` when absent.
    To(Option<Name>),
    /// `select:`.
    Select {
        /// Keys.
        keys: Vec<AstExpr>,
        /// Cases in order.
        cases: Vec<CaseDecl>,
        /// `default:`; the error `no_match` when absent.
        default: Option<Name>,
    },
}

/// A case of a select.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseDecl {
    /// One pattern for each key.
    pub patterns: Vec<Sp<PatternDecl>>,
    /// `accept`, `reject`, an error as `reject(error)`, or a state.
    pub to: Name,
    /// The case.
    pub span: SourceSpan,
}

/// A pattern: `7`, `0x0800 &&& 0xff00`, `1..5`, `_`, `@value_set`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternDecl {
    /// `_`.
    Any,
    /// A constant.
    Value(AstExpr),
    /// `value &&& mask`.
    Mask(AstExpr, AstExpr),
    /// `low..high`, both included.
    Range(AstExpr, AstExpr),
    /// `value/length`: a prefix.
    Prefix(AstExpr, Sp<u64>),
    /// `@name`.
    Set(Name),
}

/// A block of statements for `call`: a list, or `{ params: {...}, do: [...] }`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlDecl {
    /// `params:`.
    pub params: Named<ControlParam>,
    /// `do:`.
    pub body: Vec<Stmt>,
}

/// A parameter of a control: a width, or `{ bits: 16, direction: inout }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlParam {
    /// Its width.
    pub ty: TypeRef,
    /// What a call copies, and when.
    pub direction: Direction,
}

/// The directions of a P4 parameter: what a call copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The argument, before the control.
    #[default]
    In,
    /// To the argument, after the call; 0 at its start.
    Out,
    /// Both.
    InOut,
}

impl Direction {
    /// Every direction with its word.
    pub const ALL: [(&'static str, Direction); 3] =
        [("in", Direction::In), ("out", Direction::Out), ("inout", Direction::InOut)];
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionDecl {
    /// `params:`.
    pub params: Named<TypeRef>,
    /// `do:`.
    pub body: Vec<Stmt>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDecl {
    /// `key:` expression and match kind; kind `selector` hashes instead of matching.
    pub key: Vec<KeyDecl>,
    /// `actions:`.
    pub actions: Vec<Name>,
    /// `default:`, a call.
    pub default: Option<AstExpr>,
    /// `const_default: true`.
    pub const_default: bool,
    /// `size:`; 1024 when absent.
    pub size: Option<Size>,
    /// `entries:`, entries declared in the program.
    pub entries: Vec<EntryDecl>,
    /// `const_entries: true`.
    pub const_entries: bool,
    /// `counters: true`.
    pub counters: bool,
    /// `meter:` like in `meters`.
    pub meter: Option<MeterDecl>,
    /// `idle_timeout_ms:`.
    pub idle_timeout_ms: Option<Sp<u64>>,
    /// `on_idle: remove`.
    pub removes_idle: bool,
    /// `selector: { hash, members, groups }`.
    pub selector: Option<SelectorDecl>,
}

/// A key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDecl {
    /// The expression that is looked up.
    pub value: AstExpr,
    /// `name:`; the text of the expression when absent.
    pub name: Option<Name>,
    /// `exact`, `lpm`, `ternary`, `range`, `optional` or `selector`.
    pub kind: Name,
}

/// A table entry, of a program or of an entries file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDecl {
    /// `match:` key name and pattern; a key left out matches anything, unless it is exact.
    pub matches: Vec<(Name, Sp<PatternDecl>)>,
    /// `action:`, a call.
    pub action: AstExpr,
    /// `priority:`.
    pub priority: Option<Sp<u64>>,
    /// `idle_timeout_ms:`.
    pub idle_timeout_ms: Option<Sp<u64>>,
    /// `idle_timeout_ns:`, exact, in an entries file.
    pub idle_timeout_ns: Option<Sp<u64>>,
    /// `meter:` rates, where the table has meters.
    pub meter: Option<(MeterRates, SourceSpan)>,
    /// `counter:` its count, where the table has counters.
    pub counter: Option<(entries::CountDecl, SourceSpan)>,
    /// `const: true`: it never changes.
    pub is_const: bool,
    /// The entry.
    pub span: SourceSpan,
}

/// Rates and bursts of a meter, as written with their units: `1Gbit/s`, `16KB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterRates {
    /// Committed information rate.
    pub cir: Name,
    /// Committed burst size.
    pub cbs: Name,
    /// Peak information rate, of a two-rate meter.
    pub pir: Option<Name>,
    /// Peak burst size, of a two-rate meter.
    pub pbs: Option<Name>,
    /// Excess burst size, of a single-rate meter.
    pub ebs: Option<Name>,
}

/// An action selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorDecl {
    /// Hash algorithm.
    pub hash: Name,
    /// Most members.
    pub members: Option<Size>,
    /// Most groups.
    pub groups: Option<Size>,
    /// The call for a hit on a group without members.
    pub empty: Option<AstExpr>,
}

/// A register array: `{ bits, size }` or `{ struct: {...}, size }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterDecl {
    /// Cells; one named `value` for a plain register.
    pub cells: Named<TypeRef>,
    /// Entries.
    pub size: Size,
}

/// An indirect counter array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterDecl {
    /// Counters.
    pub size: Size,
}

/// An indirect meter array: `{ size, type: trtcm | srtcm, unit: bytes | packets }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterDecl {
    /// Meters; 1 for a direct one.
    pub size: Size,
    /// Two rates.
    pub two_rates: bool,
    /// Packets instead of bytes.
    pub packets: bool,
}

/// A checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksumDecl {
    /// `field:`.
    pub field: AstExpr,
    /// `over:`.
    pub over: Vec<CoveredDecl>,
    /// `when:`.
    pub when: Option<AstExpr>,
    /// `zero_means_none: true`.
    pub zero_means_none: bool,
    /// `verify:` `off`, `count` (default) or `drop`.
    pub verify: Option<Name>,
    /// `update:` `incremental` (default), `always` or `never`.
    pub update: Option<Name>,
    /// The declaration.
    pub span: SourceSpan,
}

/// A CRC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrcDecl {
    /// `field:`; the first field of the instance with the name of the CRC when absent.
    pub field: Option<AstExpr>,
    /// `params:` name and number: width, poly, init, reflect, xor_out, store.
    pub params: Vec<(Name, Name)>,
    /// `over:`.
    pub over: Vec<CoveredDecl>,
    /// `when:`.
    pub when: Option<AstExpr>,
    /// `verify:`.
    pub verify: Option<Name>,
    /// `update:`.
    pub update: Option<Name>,
    /// The declaration.
    pub span: SourceSpan,
}

/// Part of what a checksum or CRC covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoveredDecl {
    /// `{ ones: 8 }`.
    Ones(Sp<u64>),
    /// `ipv4`, `body`, `pad`, or a list name of `groups`: resolved by the checker.
    Name(Name),
    /// `{ ipv4: { mask: [tos, ttl] } }`.
    Masked {
        /// Instance.
        instance: Name,
        /// Fields replaced by ones.
        mask: Vec<Name>,
    },
    /// `{ value: "ipv4.src" }`, or `{ fields: [...] }` one by one.
    Value(AstExpr),
}

/// `qos:`: values for the maps of the device, the first valid header counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QosDecl {
    /// `dscp:` fields of 6 bits.
    pub dscp: Vec<AstExpr>,
    /// `pcp:` fields of 3 bits.
    pub pcp: Vec<AstExpr>,
}

/// A table that holds entries of the host's network stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingDecl {
    /// `table:`.
    pub table: Name,
    /// `key:` keys of the table, each with a word or number.
    pub key: Named<AstExpr>,
    /// `action:`, `unresolved:`, `kernel:`, `blackhole:` each optional.
    pub actions: Named<AstExpr>,
}

/// `deparser:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeparserDecl {
    /// `emit:` instances and stacks; the order of the parser when absent.
    pub emit: Option<Vec<Name>>,
    /// `after:`.
    pub after: Vec<AfterDecl>,
    /// `discard:` headers that are dropped on purpose.
    pub discard: Vec<Name>,
    /// `slack: strip`.
    pub strip_slack: bool,
    /// The declaration.
    pub span: SourceSpan,
}

/// Something behind the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterDecl {
    /// A trailer.
    Header(Name),
    /// `{ pad: "bytes", fill: 0, when: cond, name: opa_pad }`.
    Pad {
        /// Name, for `over:` of a CRC; `pad` when absent.
        name: Option<Name>,
        /// Number of bytes.
        bytes: AstExpr,
        /// The byte.
        fill: Option<Sp<u64>>,
        /// Only then.
        when: Option<AstExpr>,
    },
}
