//! The intermediate representation: a checked program on dense ids.
//!
//! Everything here is resolved and typed; no name is left to be looked up (names are kept for output). Both engines,
//! the printer, the verifier and the passes work on this form only. It has no table contents and no run-time state: a
//! [`Program`] is immutable once it is built.
//!
//! Code is a control-flow graph of basic blocks ([`code`]); the parser is a state graph
//! ([`parser`]); values are trees in one expression arena ([`expr`]). Expressions are pure: they
//! read the packet, metadata and locals, and everything with an effect is an operation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::ids::*;

pub mod code;
pub mod decl;
pub mod eval;
pub mod expr;
pub mod keys;
pub mod layout;
pub mod parser;
pub mod print;
pub mod std_meta;
pub mod sums;
pub mod validity;
pub mod verify;

pub use code::{Block, Body, LValue, Op, OpAt, Term};
pub use decl::*;
pub use expr::{BinOp, Expr, ExprKind, HashAlgorithm, UnOp};
pub use keys::{Key, MatchField, SetMember, ValueSet};
pub use layout::{FieldLayout, Piece};
pub use parser::{Case, Parser, ParserOp, Pattern, State, Target, Transition};
pub use std_meta::StdField;

use crate::p4info::Origin;

/// A place in a source file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceSpan {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// A half of a program: the code before the queue, or after it.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Half {
    /// Parser, ingress control and deparser.
    #[default]
    Ingress,
    /// Egress control and deparser.
    Egress,
}

impl Half {
    /// Both, in the order in which a packet passes them.
    pub const BOTH: [Half; 2] = [Half::Ingress, Half::Egress];

    /// `ingress` or `egress`.
    pub const fn name(self) -> &'static str {
        match self {
            Half::Ingress => "ingress",
            Half::Egress => "egress",
        }
    }
}

/// A checked program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its name, from `pipeline:`.
    pub name: String,
    /// Source files, for traces and listings: name and text.
    pub files: IdVec<FileId, SourceFile>,
    /// Header types.
    pub headers: IdVec<HeaderId, Header>,
    /// Header instances; the position is the bit in the descriptor's validity mask.
    pub instances: IdVec<InstanceId, Instance>,
    /// Header stacks.
    pub stacks: IdVec<StackId, Stack>,
    /// User metadata.
    pub metadata: IdVec<MetaId, Meta>,
    /// Every expression of the program.
    pub exprs: IdVec<ExprId, Expr>,
    /// Value sets of the parser.
    pub value_sets: IdVec<ValueSetId, ValueSet>,
    /// The parser.
    pub parser: Parser,
    /// Actions; the first two are always `nop` and `drop`.
    pub actions: IdVec<ActionId, Action>,
    /// Tables.
    pub tables: IdVec<TableId, Table>,
    /// Register arrays.
    pub registers: IdVec<RegisterId, Register>,
    /// Indirect counters.
    pub counters: IdVec<CounterId, Counter>,
    /// Indirect meters.
    pub meters: IdVec<MeterId, Meter>,
    /// Digest types.
    pub digests: IdVec<DigestId, Digest>,
    /// Checksums, in the order in which they are verified and updated.
    pub checksums: IdVec<ChecksumId, Checksum>,
    /// CRCs, in the order in which they are verified and updated.
    pub crcs: IdVec<CrcId, Crc>,
    /// Device externs that the program calls.
    pub externs: IdVec<ExternId, ExternSignature>,
    /// Names and values of the device's link types.
    pub link_types: Vec<(String, u8)>,
    /// Ingress control.
    pub ingress: Body,
    /// Egress control.
    pub egress: Body,
    /// Deparser.
    pub deparser: Deparser,
    /// Values from ingress for the traffic manager's maps.
    pub qos: Qos,
    /// Tables that hold entries of the host's network stack.
    pub linux: Vec<Mapping>,
    /// Names of drop and punt reasons; the first ones are built in ([`decl::BuiltinReason`]).
    pub reasons: IdVec<ReasonId, String>,
    /// Names of parser errors; the first ones are built in ([`decl::BuiltinError`]).
    pub errors: IdVec<ErrorId, String>,
    /// Constants by name, for entries files.
    pub constants: Vec<Constant>,
    /// Ids of objects for the control plane, by name, where the program gives them (`ids:`): 24 bits, unique for each
    /// kind of object.
    pub ids: BTreeMap<String, u32>,
    /// The origin of a program that came from P4, for the control plane.
    pub origin: Option<std::sync::Arc<Origin>>,
    /// Bytes of metadata that cross the queue (at most [`decl::CARRIED_BYTES_MAX`]).
    pub carried_bytes: u32,
}

impl Program {
    /// The control of a half.
    #[inline]
    pub fn control(&self, half: Half) -> &Body {
        match half {
            Half::Ingress => &self.ingress,
            Half::Egress => &self.egress,
        }
    }

    /// An object of a list by its name; else by the name that a P4 source has for it (see [`Origin::is_called`]), if only one is
    /// called so.
    pub fn named<'t, I: Id, T>(
        &self,
        list: &'t IdVec<I, T>,
        name: &str,
        name_of: impl Fn(&T) -> &str,
    ) -> Option<(I, &'t T)> {
        self.named_among(|| list.entries(), name, name_of)
    }

    /// The same among some objects.
    pub fn named_among<'t, I, T: 't, L: Iterator<Item = (I, &'t T)>>(
        &self,
        list: impl Fn() -> L,
        name: &str,
        name_of: impl Fn(&T) -> &str,
    ) -> Option<(I, &'t T)> {
        list().find(|(_, item)| name_of(item) == name).or_else(|| {
            let origin = self.origin.as_ref()?;
            let mut found = list().filter(|(_, item)| origin.is_called(name_of(item), name));
            found.next().filter(|_| found.next().is_none())
        })
    }

    /// Whether the controls or actions contain an operation for which `wanted` is true.
    pub fn uses(&self, wanted: impl Fn(&Op) -> bool) -> bool {
        let actions = self.actions.iter().map(|action| &action.body);
        let bodies = [&self.ingress, &self.egress].into_iter().chain(actions);
        bodies.flat_map(|body| &body.blocks).flat_map(|block| &block.ops).any(|op| wanted(&op.op))
    }

    /// Bytes of carried metadata that are in front of the packet in its chunk because they do not fit the descriptor;
    /// usually 0.
    pub fn carried_in_chunk(&self) -> usize {
        self.carried_bytes.saturating_sub(decl::CARRIED_INLINE_BYTES) as usize
    }

    /// Whether a packet may enter ingress again with `carried` metadata of the pass before.
    pub fn brings_metadata(&self) -> bool {
        self.carried_bytes > 0
            && self.uses(|op| matches!(op, Op::Resubmit { .. } | Op::Recirculate))
    }

    /// Whether an expression of the program reads this piece of intrinsic metadata.
    pub fn reads(&self, field: StdField) -> bool {
        self.exprs.iter().any(|expr| expr.kind == ExprKind::Std(field))
    }

    /// Whether a statement of the program assigns this piece of intrinsic metadata.
    pub fn assigns(&self, field: StdField) -> bool {
        self.uses(|op| verify::op_target(op) == Some(&LValue::Std(field)))
    }

    /// Headers behind the body, bit by instance, as [`crate::exec::Descriptor::valid`] has them.
    pub fn trailers(&self) -> u64 {
        let headers = self.deparser.after.iter().map(|item| match item {
            AfterBody::Header(instance) => validity::bit(*instance),
            AfterBody::Pad { .. } => 0,
        });
        headers.fold(0, |all, one| all | one)
    }

    /// Whether every packet leaves egress as ingress left it: no code, and nothing computed or added at its end.
    pub fn egress_is_empty(&self) -> bool {
        let sums = self.checksums.iter().map(|checksum| checksum.update);
        let mut updates = sums.chain(self.crcs.iter().map(|crc| crc.update));
        self.egress.blocks.is_empty()
            && self.parser.egress.is_none()
            && self.deparser.after.is_empty()
            && !self.deparser.strip_slack
            && updates.all(|update| update != decl::Update::Always)
    }
}

/// A source file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path or `<embedded>/name.yaml`, for messages.
    pub name: String,
    /// The path that it was read from: the name, except where that is not UTF-8.
    pub path: PathBuf,
    /// Whole text.
    pub text: String,
}
