//! Typed decoding: the headers that a program's parser finds in a packet, with names and values.
//!
//! A [`Decoder`] runs the interpreter's own parser over one packet after the other and checks the checksums and CRCs
//! that the program declares. Nothing is forwarded or changed. An expression of the language can select packets
//! ([`filter`]). It has no notion of protocols: headers, fields and sums are those of the program.
//!
//! ```
//! use wireyard_pipeline::check::{ExternRegistry, compile};
//! use wireyard_pipeline::decode::Decoder;
//! use wireyard_pipeline::source::{Loader, parse_program};
//!
//! let text = "pipeline: p\nheaders: { h: { fields: { a: 4, b: 12 } } }\nparser: { start: { extract: h } }\n";
//! let loader = Loader::in_memory([("p.yaml", text)], &[]);
//! let parsed = parse_program("p.yaml".as_ref(), &loader).unwrap();
//! let program = compile(&parsed, &ExternRegistry::default()).unwrap().program;
//! let mut decoder = Decoder::new(program.into()).unwrap();
//! let packet = decoder.parse(&[0x12, 0x34, 0x56], 0).unwrap();
//! assert_eq!(packet.field("h.b"), Some(0x234));
//! assert_eq!(packet.body(), [0x56]);
//! ```

pub mod filter;

use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Context, NoDevice};
use crate::exec::{Descriptor, Intrinsic};
use crate::ids::*;
use crate::interp::{Interp, Seen};
use crate::ir::layout::read_run;
use crate::ir::{Display, Field, FieldLayout, Program};
use crate::packet::{Buf, MemoryConfig, MemoryError, PacketMemory};
use crate::phv::{Phv, bit};
use crate::state::{LoadError, State, StateOptions, Worker};

/// The longest packet that is decoded, in bytes.
pub const PACKET_BYTES_MAX: usize = 1 << 18;

/// A parser for packets that are only decoded.
#[derive(Debug)]
pub struct Decoder {
    engine: Interp,
    program: Arc<Program>,
    state: State,
    worker: Worker,
    memory: PacketMemory,
    buf: Option<Buf>,
}

/// A parsed packet, valid until the next one is parsed.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'d> {
    program: &'d Program,
    phv: &'d Phv,
    bytes: &'d [u8],
    seen: Seen,
}

/// A header that was found in a packet.
#[derive(Clone, Copy, Debug)]
pub struct Header<'d> {
    /// Its instance in the program.
    pub instance: InstanceId,
    /// Its name; an element of a stack is `vlan[0]`.
    pub name: &'d str,
    /// Offset in the packet, bytes.
    pub at: u32,
    /// Its bytes, the variable part included.
    pub bytes: &'d [u8],
    fields: &'d IdVec<FieldId, Field>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'d> {
    /// A number.
    Number {
        /// The number.
        value: u128,
        /// Width of the field.
        bits: u32,
        /// The display form of the value.
        display: Display,
    },
    /// The elements of an array.
    List(Vec<u128>),
    /// Bytes that take no part in arithmetic.
    Bytes(&'d [u8]),
}

/// A checksum or CRC of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum<'d> {
    /// Its name in the program.
    pub name: &'d str,
    /// Whether it was right.
    pub right: bool,
}

/// Why there is no decoder for a program.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DecoderError {
    /// The program's state cannot be built.
    #[error(transparent)]
    State(#[from] LoadError),
    /// No memory for a packet.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

impl Decoder {
    /// A decoder for a program.
    ///
    /// # Errors
    /// The program's tables cannot be built, or there is no memory.
    pub fn new(program: Arc<Program>) -> Result<Decoder, DecoderError> {
        let options = StateOptions { workers: 1, ..StateOptions::default() };
        let state = State::new(&program, options)?;
        let config =
            MemoryConfig { chunks: 1, chunk_bytes: PACKET_BYTES_MAX as u32, headroom_bytes: 0 };
        let mut memory = PacketMemory::of_device(config)?;
        let buf = memory.alloc();
        let worker = state.worker(0);
        let engine = Interp::new(Arc::clone(&program));
        Ok(Decoder { engine, program, state, worker, memory, buf })
    }

    /// A decoder with only the parser of a program: its tables, which may be large, are left out. Value sets are those
    /// of the program.
    ///
    /// # Errors
    /// As [`Decoder::new`].
    pub fn of_parser(program: &Program) -> Result<Decoder, DecoderError> {
        let mut parser = program.clone();
        (parser.ingress, parser.egress) = Default::default();
        for action in parser.actions.iter_mut() {
            action.body.blocks = IdVec::default();
        }
        (parser.tables, parser.registers, parser.counters) = Default::default();
        (parser.meters, parser.checksums, parser.crcs) = Default::default();
        parser.linux.clear();
        Decoder::new(Arc::new(parser))
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Parses a packet that came in by a link of this type (`std.ingress_link`). `None`: it is longer
    /// than [`PACKET_BYTES_MAX`].
    pub fn parse(&mut self, bytes: &[u8], link: u8) -> Option<Parsed<'_>> {
        self.parse_cut(bytes, 0, link)
    }

    /// Like [`Decoder::parse`] for a packet of which a capture left out the last `missing` bytes: its length
    /// (`std.packet_length`) has them, and trailers among them are not found, which is no error.
    pub fn parse_cut(&mut self, bytes: &[u8], missing: u32, link: u8) -> Option<Parsed<'_>> {
        let len = u32::try_from(bytes.len()).ok()?;
        let mut buf = self.buf.take()?;
        let fits = self.memory.frame_mut(&mut buf, 0, len).map(|to| to.copy_from_slice(bytes));
        if fits.is_none() {
            self.buf = Some(buf);
            return None;
        }
        let mut packet = Descriptor::received(buf, 0, len, 1, 0);
        packet.ingress_link = link;
        let mut meta = Intrinsic::default();
        let mut device = NoDevice;
        let mut cx = Context {
            state: &self.state,
            worker: &mut self.worker,
            memory: &mut self.memory,
            device: &mut device,
            trace: None,
        };
        let seen = self.engine.look(&mut cx, &mut packet, &mut meta, missing);
        let buf = self.buf.insert(packet.buf.take()?);
        let phv = &self.worker.scratch.phv;
        Some(Parsed { program: &self.program, phv, bytes: self.memory.frame(buf, 0, len), seen })
    }
}

impl<'d> Parsed<'d> {
    /// The packet.
    pub fn bytes(&self) -> &'d [u8] {
        self.bytes
    }

    /// The headers found, in the order of their position in the packet.
    pub fn headers(&self) -> Vec<Header<'d>> {
        let valid = self.program.instances.ids().filter(|id| self.phv.is_valid(*id));
        let mut found: Vec<_> = valid.map(|id| self.header_of(id)).collect();
        found.sort_by_key(|header| header.at);
        found
    }

    /// The header of this name, if it was found.
    pub fn header(&self, name: &str) -> Option<Header<'d>> {
        let (id, _) = self.program.instances.entries().find(|(_, known)| known.name == name)?;
        self.phv.is_valid(id).then(|| self.header_of(id))
    }

    /// The number in a field (`bth.psn`), if its header was found and it is a number.
    pub fn field(&self, path: &str) -> Option<u128> {
        let (header, field) = path.rsplit_once('.')?;
        match self.header(header)?.field(field)? {
            Value::Number { value, .. } => Some(value),
            Value::List(_) | Value::Bytes(_) => None,
        }
    }

    /// True if this header was found.
    pub fn is_valid(&self, instance: InstanceId) -> bool {
        self.phv.is_valid(instance)
    }

    /// The bytes of a header, if it was found.
    pub fn bytes_of(&self, instance: InstanceId) -> Option<&'d [u8]> {
        self.is_valid(instance).then(|| self.phv.header(instance))
    }

    /// The value of a field by its ids, if its header was found.
    pub fn value(&self, instance: InstanceId, field: FieldId) -> Option<Value<'d>> {
        let declared = self.program.instances.get(instance)?;
        let field = self.program.headers.get(declared.header)?.fields.get(field)?;
        self.is_valid(instance).then(|| value(field, self.phv.header(instance)))
    }

    fn header_of(&self, instance: InstanceId) -> Header<'d> {
        let (phv, declared) = (self.phv, &self.program.instances[instance]);
        Header {
            instance,
            name: &declared.name,
            at: phv.received_at(instance),
            bytes: phv.header(instance),
            fields: &self.program.headers[declared.header].fields,
        }
    }

    /// The name of the parser error, if the parser failed; the headers before the failure are valid.
    pub fn error(&self) -> Option<&'d str> {
        let error = self.seen.error?;
        Some(self.program.errors.get(error).map_or("unknown", String::as_str))
    }

    /// Range of the body.
    pub fn body_range(&self) -> Range<u32> {
        self.seen.body_start..self.seen.body_end
    }

    /// The bytes between headers and trailers.
    pub fn body(&self) -> &'d [u8] {
        let range = self.seen.body_start as usize..self.seen.body_end as usize;
        self.bytes.get(range).unwrap_or_default()
    }

    /// The bytes behind the last trailer.
    pub fn slack(&self) -> &'d [u8] {
        self.bytes.get(self.seen.slack_at as usize..).unwrap_or_default()
    }

    /// The checksums that this packet has.
    pub fn checksums(&self) -> impl Iterator<Item = Sum<'d>> + use<'d> {
        let (looked_at, right) = self.seen.checksums;
        let sums = self.program.checksums.entries().map(|(id, sum)| (id.0, sum.name.as_str()));
        sums_of(sums, looked_at, right)
    }

    /// The CRCs that this packet has.
    pub fn crcs(&self) -> impl Iterator<Item = Sum<'d>> + use<'d> {
        let (looked_at, right) = self.seen.crcs;
        let sums = self.program.crcs.entries().map(|(id, crc)| (id.0, crc.name.as_str()));
        sums_of(sums, looked_at, right)
    }

    /// True if ingress decided on a port: with [`filter::apply`], the packet is selected.
    pub fn picked(&self) -> bool {
        self.seen.picked
    }
}

fn sums_of<'d>(
    all: impl Iterator<Item = (u32, &'d str)>,
    looked_at: u64,
    right: u64,
) -> impl Iterator<Item = Sum<'d>> {
    let of = |mask: u64, id: u32| mask & bit(InstanceId(id)) != 0;
    all.filter(move |(id, _)| of(looked_at, *id))
        .map(move |(id, name)| Sum { name, right: of(right, id) })
}

impl<'d> Header<'d> {
    /// Names and values of the fields, in the order of declaration.
    pub fn fields(&self) -> impl Iterator<Item = (&'d str, Value<'d>)> + use<'d> {
        let bytes = self.bytes;
        let declared = self.fields.iter().filter(|field| field.part_of.is_none());
        declared.map(move |field| (field.name.as_str(), value(field, bytes)))
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<Value<'d>> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        Some(value(field, self.bytes))
    }

    /// The fields as they are declared, and the slices of wide ones that the program uses.
    pub fn layout(&self) -> &'d IdVec<FieldId, Field> {
        self.fields
    }
}

fn value<'d>(field: &Field, header: &'d [u8]) -> Value<'d> {
    let from = |range: Range<usize>| {
        let end = range.end.min(header.len());
        Value::Bytes(header.get(range.start..end).unwrap_or_default())
    };
    match &field.layout {
        FieldLayout::Run { .. } | FieldLayout::Pieces(_) => Value::Number {
            value: field.layout.read(header),
            bits: field.bits,
            display: field.display,
        },
        FieldLayout::Array { bit, bits, count } => {
            Value::List((0..*count).map(|n| read_run(header, bit + bits * n, *bits)).collect())
        }
        FieldLayout::Variable { byte, .. } => from(*byte as usize..header.len()),
        FieldLayout::Opaque { byte, bytes } => from(*byte as usize..(byte + bytes) as usize),
    }
}

#[cfg(test)]
mod tests;
