//! Declarations: headers, metadata, actions, tables, state, deparser, checksums.

use super::SourceSpan;
use super::code::{Body, Local};
use super::expr::HashAlgorithm;
use super::keys::Key;
use super::layout::FieldLayout;
use crate::ids::*;
use wireyard_tables::Match;
use wireyard_tables::meter::MeterConfig;

/// Most metadata that may cross the queue, in bytes.
pub const CARRIED_BYTES_MAX: u32 = 256;
/// Bytes of it in the descriptor. A program with more has the rest at the start of the packet's chunk, from offset 0,
/// and no field in the last of these bytes: [`CARRIED_MARK_AT`].
pub const CARRIED_INLINE_BYTES: u32 = 16;
/// Of a program with more than [`CARRIED_INLINE_BYTES`], the byte in the descriptor that is 1 when the rest was
/// written.
pub const CARRIED_MARK_AT: u32 = 15;
/// Most header instances of a program, stack elements included (bits of the validity mask).
pub const INSTANCES_MAX: usize = 64;
/// Most bytes of metadata of a program.
pub(crate) const METADATA_BYTES_MAX: u64 = 1024;
/// The port of the control plane.
pub const CPU_PORT: u16 = 0xfffd;

/// A constant of the program, for entries files: code has its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Name.
    pub name: String,
    /// Value.
    pub value: u128,
    /// Width, when it has one.
    pub bits: Option<u32>,
}

/// A header type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name.
    pub name: String,
    /// Fields in the order of declaration, and behind them the parts of wide ones that the program uses.
    pub fields: IdVec<FieldId, Field>,
    /// Bytes without the variable part.
    pub fixed_bytes: u32,
    /// Bytes with the longest variable part.
    pub max_bytes: u32,
    /// Length of the variable part in bits, when there is one: an expression over the fields of the instance, one per
    /// instance ([`Instance::variable_bits`]).
    pub variable: Option<FieldId>,
    /// Packets to or from the control plane begin with it.
    pub controller: Option<ControllerHeader>,
    /// Its declaration's place in the source.
    pub span: Option<SourceSpan>,
}

impl Header {
    /// The fields that the program declares, without the parts of wide ones.
    pub fn declared(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| field.part_of.is_none())
    }
}

/// Which packets of the control plane begin with a header (P4Runtime's `@controller_header`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControllerHeader {
    /// Those that go to the control plane.
    PacketIn,
    /// Those that come from the control plane.
    PacketOut,
}

impl ControllerHeader {
    /// Its name in programs and in P4Info.
    pub fn name(self) -> &'static str {
        match self {
            ControllerHeader::PacketIn => "packet_in",
            ControllerHeader::PacketOut => "packet_out",
        }
    }
}

/// A field of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Width in bits; of an element for an array; 0 for a variable field.
    pub bits: u32,
    /// The place of its bits.
    pub layout: FieldLayout,
    /// The display form of its values.
    pub display: Display,
    /// For some bits of a field over 128 bits: that field. Expressions and assignments take them like a field of its own.
    pub part_of: Option<FieldId>,
}

/// The display form of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Display {
    /// Hexadecimal.
    #[default]
    Hex,
    /// Decimal.
    Decimal,
    /// `02:00:00:00:00:01`.
    Mac,
    /// `10.0.0.1`.
    Ipv4,
    /// RFC 5952.
    Ipv6,
}

/// A header instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Name; an element of a stack is `vlan[0]`.
    pub name: String,
    /// Its type.
    pub header: HeaderId,
    /// Stack and position in it.
    pub element: Option<(StackId, u32)>,
    /// Length of the variable part in bits, over the fields of this instance (32 bits, wrapping).
    /// Not whole bytes, or over the maximum, is the parser error `header_length`.
    pub variable_bits: Option<ExprId>,
}

/// A header stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Name.
    pub name: String,
    /// First element.
    pub first: InstanceId,
    /// Number of elements.
    pub len: u32,
}

/// A user metadata field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Name after `meta.`.
    pub name: String,
    /// Width, 1 to 128. Zero at the start of ingress.
    pub bits: u32,
    /// Byte offset among the carried metadata, when it crosses the queue; it takes `bits` rounded up to whole bytes,
    /// little-endian, which are all in the descriptor or all in the chunk ([`CARRIED_INLINE_BYTES`]). Others are zero
    /// at the start of egress.
    pub carried_at: Option<u32>,
    /// The display form of its values.
    pub display: Display,
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Name.
    pub name: String,
    /// Parameters: the first locals of the body.
    pub params: Vec<Param>,
    /// Code. No table is applied in it.
    pub body: Body,
    /// Its declaration's place in the source.
    pub span: Option<SourceSpan>,
}

/// A parameter of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Name.
    pub name: String,
    /// Width, 1 to 128.
    pub bits: u32,
    /// The display form of its values.
    pub display: Display,
}

/// A match-action table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name.
    pub name: String,
    /// Match keys, in order; selector keys are in `selector`.
    pub keys: Vec<Key>,
    /// Actions an entry or the default may have.
    pub actions: Vec<ActionId>,
    /// Default action and its data.
    pub default: ActionCall,
    /// The default cannot be changed at run time.
    pub const_default: bool,
    /// Most entries.
    pub size: u32,
    /// Entries that are part of the program.
    pub entries: Vec<TableEntry>,
    /// The entries cannot be changed at run time.
    pub const_entries: bool,
    /// Count packets and bytes for each entry.
    pub counters: bool,
    /// A meter for each entry; its colour goes to `std.color` before the action runs.
    pub meter: Option<MeterKind>,
    /// Entries may have an idle timeout; this is the default in milliseconds.
    pub idle_timeout_ms: Option<u64>,
    /// The device removes an idle entry; otherwise it notifies the controller.
    pub removes_idle: bool,
    /// Members and groups instead of an action in each entry.
    pub selector: Option<Selector>,
    /// Its declaration's place in the source.
    pub span: Option<SourceSpan>,
}

/// An action with its data: one value for each parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionCall {
    /// Action.
    pub action: ActionId,
    /// Values, each less than two to its parameter's width.
    pub args: Vec<u128>,
}

/// A table entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// One match for each key.
    pub matches: Vec<Match>,
    /// Higher wins; 0 where the table needs none.
    pub priority: u32,
    /// Its action.
    pub call: ActionCall,
    /// Idle timeout in milliseconds; 0 is none.
    pub idle_timeout_ms: u64,
    /// Rates of its meter.
    pub meter: Option<MeterConfig>,
    /// It cannot be changed at run time, though others of the table can.
    pub is_const: bool,
}

/// An action selector: the entry names a member or a group, the hash picks in the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Hash of the selector keys.
    pub hash: HashAlgorithm,
    /// Selector keys.
    pub keys: Vec<ExprId>,
    /// Most members.
    pub max_members: u32,
    /// Most groups.
    pub max_groups: u32,
    /// The action of a hit on a group without members; `None`: the default action that the table declares.
    pub empty: Option<ActionCall>,
}

/// A table that is filled with entries of the host's network stack (`linux:`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The kind of entries in it: `routes4`, `neighbours`.
    pub name: String,
    /// The table.
    pub table: TableId,
    /// What each of its keys matches; `None`: anything.
    pub keys: Vec<Option<MappedValue>>,
    /// The actions of its entries, by role.
    pub calls: Vec<MappedCall>,
    /// Its declaration's place in the source.
    pub span: SourceSpan,
}

/// An action with words for the external values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappedCall {
    /// For which entries: `action`, `down`, `unresolved`, `kernel`, `blackhole`.
    pub role: String,
    /// The action.
    pub action: ActionId,
    /// One value for each parameter.
    pub args: Vec<MappedValue>,
    /// Its place in the file.
    pub span: SourceSpan,
}

/// The value of a key or an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappedValue {
    /// Always this.
    Number(u128),
    /// A word for one of the device's values, and its place in the source.
    Word(String, SourceSpan),
}

/// A register array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Name.
    pub name: String,
    /// Cells of an entry: name and width (1 to 64); a plain register has one, named `value`.
    pub cells: Vec<Local>,
    /// Number of entries.
    pub size: u32,
}

/// An indirect counter array: packets and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Name.
    pub name: String,
    /// Number of counters.
    pub size: u32,
}

/// An indirect meter array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Name.
    pub name: String,
    /// Its unit and algorithm.
    pub kind: MeterKind,
    /// Number of meters.
    pub size: u32,
}

/// Unit and algorithm of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterKind {
    /// Two rates (RFC 2698), or a single one (RFC 2697).
    pub two_rates: bool,
    /// Count packets instead of bytes.
    pub packets: bool,
}

/// A digest: named values that go to control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Name.
    pub name: String,
    /// Fields: name and width.
    pub fields: Vec<Param>,
    /// The values that are sent, one for each field.
    pub values: Vec<ExprId>,
}

/// A device extern that the device registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternSignature {
    /// Name.
    pub name: String,
    /// Parameters.
    pub params: Vec<Param>,
    /// Width of the result, if it has one.
    pub result_bits: Option<u32>,
    /// Controls that may call it: ingress, egress.
    pub controls: (bool, bool),
}

/// The emitted headers, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deparser {
    /// Headers in front of the body; the valid ones are emitted in this order.
    pub emit: Vec<InstanceId>,
    /// The items that follow the body.
    pub after: Vec<AfterBody>,
    /// Drop the bytes behind the last trailer instead of emitting them.
    pub strip_slack: bool,
}

/// Something behind the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterBody {
    /// A trailer, if it is valid.
    Header(InstanceId),
    /// `bytes` bytes of one value, if the condition is true.
    Pad {
        /// Number of bytes (32 bits), evaluated by the deparser.
        bytes: ExprId,
        /// The byte.
        fill: u8,
        /// Emitted only when this is 1.
        when: Option<ExprId>,
    },
}

/// The reaction to a wrong checksum or CRC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Not verified.
    #[default]
    Off,
    /// Counted, and reported in `std.checksum_error` or `std.crc_error`.
    Count,
    /// The packet drops, reason `checksum` or `crc`.
    Drop,
}

/// When a checksum or CRC is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// Never.
    #[default]
    Never,
    /// By the difference, when covered fields changed (RFC 1624): a wrong one stays wrong. In full
    /// when the header is new. Checksums only.
    Incremental,
    /// When the program requests it with `update_crc`. CRCs only.
    OnRequest,
    /// In full, on every packet, when it leaves egress.
    Always,
}

/// A ones'-complement checksum (RFC 1071).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Name: the field's.
    pub name: String,
    /// The field that holds it, 16 bits.
    pub field: (InstanceId, FieldId),
    /// Its input; the field itself counts as zero.
    pub over: Vec<Covered>,
    /// Only when this is 1.
    pub when: Option<ExprId>,
    /// A field value of zero means "none": it is not verified and not updated (UDP over IPv4).
    pub zero_means_none: bool,
    /// The reaction to a wrong one.
    pub verify: Verify,
    /// When it is written.
    pub update: Update,
}

/// A CRC in the Rocksoft model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crc {
    /// Name.
    pub name: String,
    /// The field that holds it, as wide as the CRC, whole bytes.
    pub field: (InstanceId, FieldId),
    /// Parameters.
    pub params: CrcParams,
    /// Its input, in order.
    pub over: Vec<Covered>,
    /// Only when this is 1.
    pub when: Option<ExprId>,
    /// The reaction to a wrong one.
    pub verify: Verify,
    /// When it is written.
    pub update: Update,
}

/// Rocksoft parameters of a CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcParams {
    /// Width in bits: 8, 16, 24, 32 or 64.
    pub width: u32,
    /// Polynomial, without the top bit, not reflected.
    pub poly: u64,
    /// Register at the start.
    pub init: u64,
    /// Input and output reflected.
    pub reflect: bool,
    /// Exclusive or at the end.
    pub xor_out: u64,
    /// The field holds the register's low byte first.
    pub store_little_endian: bool,
}

/// A part of the input of a checksum or CRC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Covered {
    /// This many bytes of ones.
    Ones(u32),
    /// A header if it is valid, with these fields replaced by ones.
    Header {
        /// Header.
        instance: InstanceId,
        /// Byte mask to OR over the fixed part; empty when nothing is masked.
        ones: Vec<u8>,
    },
    /// A value in whole bytes, network order (pseudo headers).
    Value(ExprId),
    /// The bytes between headers and trailers.
    Body,
    /// The `n`-th item of [`Deparser::after`]: a pad as emitted, or received.
    After(u32),
}

/// Values from ingress for the traffic manager's maps when the program itself assigned no class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    /// DSCP and whether there is one.
    pub dscp: Option<(ExprId, ExprId)>,
    /// PCP and whether there is one.
    pub pcp: Option<(ExprId, ExprId)>,
}

/// Defines an enum of names that come first in every program's list.
macro_rules! builtin_names {
    ($(#[$outer:meta])* $name:ident, $id:ident: $($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $variant,)* }
        impl $name {
            /// All of them, in the order of their ids.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// Its name.
            pub fn name(self) -> &'static str { match self { $($name::$variant => $text,)* } }
            /// Its id in every program.
            pub fn id(self) -> $id { $id(self as u32) }
        }
    };
}

builtin_names! {
    /// Reasons for a drop that every program has.
    BuiltinReason, ReasonId:
    /// No reason: the packet is alive.
    None = "none",
    /// Ingress ended without a decision.
    NoDecision = "no_decision",
    /// `drop` without a reason.
    Dropped = "dropped",
    /// The parser failed, and the program drops such packets.
    ParserError = "parser_error",
    /// An array index out of range.
    ArrayIndex = "array_index",
    /// A checksum declared `verify: drop` was wrong.
    Checksum = "checksum",
    /// A CRC declared `verify: drop` was wrong.
    Crc = "crc",
    /// The deparsed packet is longer than packet memory holds.
    TooLong = "too_long",
    /// More resubmissions or recirculations than allowed.
    TooManyPasses = "too_many_passes",
    /// No chunk of packet memory was free for a copy.
    NoMemory = "no_memory",
}

builtin_names! {
    /// Parser errors that every program has.
    BuiltinError, ErrorId:
    /// No error.
    NoError = "none",
    /// The packet ends inside a header.
    PacketTooShort = "packet_too_short",
    /// `select` without a matching case and without default, or `reject`.
    NoMatch = "no_match",
    /// No free element in a stack.
    StackOverflow = "stack_overflow",
    /// A variable-length header of invalid length.
    HeaderLength = "header_length",
    /// More states visited than the limit.
    TooManyStates = "too_many_states",
    /// The declared end of the body is outside the packet or inside the headers.
    BodyEnd = "body_end",
}
