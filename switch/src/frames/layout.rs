//! Positions of the fields in the device's own frames: the YAML header libraries, resolved once at start.
//!
//! A [`Stack`] is a list of headers, one behind the other. It turns `"ipv4.total_len"` into a [`Slot`], which is a
//! shift and a mask at a known byte, so that no packet needs a lookup by name. The library's own parser determines the
//! extended headers of an opcode, once for each opcode.
//!
//! The values of fields are not here but in the builders beside this module.

use std::ops::Range;
use std::sync::Arc;

use wireyard_pipeline::check::compile;
use wireyard_pipeline::decode::Decoder;
use wireyard_pipeline::diag::Rejected;
use wireyard_pipeline::ids::{HeaderId, InstanceId};
use wireyard_pipeline::ir::layout::read_run;
use wireyard_pipeline::ir::{Crc, Field, FieldLayout, Program};
use wireyard_pipeline::source::{Loader, parse_program};

use crate::library::LIBRARIES;
use crate::link_type::link_types;

/// Uses from the libraries the headers that this device builds and parses itself. It forwards nothing.
const PROGRAM: &str = "
pipeline: frames
include: [ethernet, arp, ip, l4, icmp, infiniband, roce]
parser:
  start: { select: std.ingress_link, cases: { link.infiniband: infiniband, link.opa: probe }, default: ethernet }
  probe: { call: infiniband.headers }
  ethernet:
    call: ethernet.l2
    select: meta.ether_type
    cases: { 0x0800: ipv4, 0x86dd: ipv6, 0x0806: arp, 0x8808: mac_control, 0x8915: rocev1 }
    default: accept
  mac_control: { call: ethernet.mac_control }
  arp: { call: arp.address_resolution }
  ipv4: { call: ip.v4, select: meta.l4_protocol, cases: { 17: udp }, default: accept }
  ipv6: { call: ip.v6, select: meta.l4_protocol, cases: { 17: udp, 58: icmpv6 }, default: accept }
  icmpv6: { call: icmp.v6_message, next: nd_option }
  nd_option: { extract: nd_link_address }
  udp: { extract: udp, select: udp.dst_port, cases: { 4791: rocev2 }, default: accept }
  rocev1: { call: roce.v1 }
  rocev2: { call: roce.v2 }
  infiniband: { call: infiniband.link }
ingress: [drop]
deparser:
  emit: [lrh, rwh, ethernet, vlan, llc, snap, mac_control, pause, pfc, arp, arp_ipv4, ipv4, ipv6, ipv6_ext,
    ipv6_fragment, ipv6_ext_inner, icmpv6, nd, nd_link_address, udp, grh, bth, rdeth, deth, xrceth, feth, reth, aeth,
    atomic_ack_eth, atomic_eth, immdt, ieth, cnp_reserved]
  after: [icrc, vcrc]
";

/// The link code (`std.ingress_link`) for which the program above parses a BTH and the headers of its opcode.
const LINK_PROBE: u8 = 2;

/// More than a BTH with any extended headers.
const PROBE_BYTES: usize = 128;

/// What this device needs and the header libraries do not have. A tested build does not return it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The libraries have errors, which the text lists with their places.
    #[error("the embedded header libraries: {0}")]
    Library(String),
    /// No library has this header.
    #[error("no header `{0}`")]
    NoHeader(String),
    /// A header or a field that the frame does not have.
    #[error("no `{0}` in this frame")]
    NotInFrame(String),
    /// A field in several pieces, or in another byte order.
    #[error("`{0}` is not one piece in network order")]
    NotOnePiece(String),
    /// A field that does not fit into a word of 8 bytes.
    #[error("`{0}` is spread over more than 8 bytes")]
    TooWide(String),
    /// An array that ends before this element.
    #[error("`{path}` has no element {index}")]
    NoElement {
        /// The array.
        path: String,
        /// The element.
        index: u32,
    },
    /// No library has this CRC.
    #[error("no CRC `{0}`")]
    NoCrc(String),
    /// A CRC that this device cannot compute over its frames.
    #[error("{crc}: {problem}")]
    Crc {
        /// Its name.
        crc: String,
        /// The unsupported part of its coverage.
        problem: &'static str,
    },
    /// Headers of an encapsulation that are longer than this device builds.
    #[error("the headers of {0} are too long")]
    TooLong(&'static str),
    /// A BTH of another length, or with a field across its two words (IBTA 9.2).
    #[error("the base transport header has another form than two words of its fields")]
    Bth,
    /// The packet for the probe of extended headers is longer than a packet may be.
    #[error("the probe of extended headers is too long")]
    Probe,
}

impl LayoutError {
    fn library(what: impl std::fmt::Display) -> LayoutError {
        LayoutError::Library(what.to_string())
    }
}

/// Headers after a BTH, with their offsets after it.
type Extension = Vec<(InstanceId, u32)>;

/// The header libraries, compiled.
#[derive(Debug)]
pub struct Layouts {
    program: Arc<Program>,
    /// By opcode; `None` for an opcode that the library does not define.
    extensions: Vec<Option<Extension>>,
}

/// Headers of fixed length, one behind the other.
#[derive(Debug)]
pub struct Stack<'l> {
    layouts: &'l Layouts,
    headers: Vec<(InstanceId, u32)>,
    bytes: u32,
}

/// A field of at most 64 bits at a known place: `(window >> shift) & mask` of the 8 bytes from its first one. It is
/// read and written as a part of these 8 bytes, and only near the end of the frame as its own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    byte: u16,
    bytes: u8,
    shift: u8,
    mask: u64,
}

/// A field of a word of 8 bytes, in network order: for headers that are processed as a few such words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    shift: u8,
    mask: u64,
}

impl Packed {
    /// The word with this field set and all other bits zero.
    #[inline]
    pub fn of(self, value: u64) -> u64 {
        (value & self.mask) << self.shift
    }

    /// The value of the field in a word.
    #[inline]
    pub fn read(self, word: u64) -> u64 {
        word >> self.shift & self.mask
    }
}

impl Slot {
    fn new(bit: u32, bits: u32) -> Option<Slot> {
        let (first, last) = (bit / 8, (bit + bits - 1) / 8);
        let bytes = last - first + 1;
        let shift = (first + 8) * 8 - (bit + bits);
        (bits > 0 && bytes <= 8).then(|| Slot {
            byte: first as u16,
            bytes: bytes as u8,
            shift: shift as u8,
            mask: u64::MAX >> (64 - bits),
        })
    }

    /// The same field in the word of these bytes, at most 8; `None` if it is not inside.
    pub fn packed(self, word: Range<usize>) -> Option<Packed> {
        let (first, bytes) = (usize::from(self.byte), usize::from(self.bytes));
        let behind = word.end.checked_sub(first + bytes)?;
        let inside = first >= word.start && word.len() <= 8;
        let shift = (behind * 8) as u32 + self.shift_at_end();
        inside.then_some(Packed { shift: shift as u8, mask: self.mask })
    }

    /// The field of its lowest `bits` bits, at least one.
    pub fn low_bits(self, bits: u32) -> Slot {
        Slot { mask: self.mask & u64::MAX >> (64 - bits), ..self }
    }

    /// True for a field that is all of the first `bytes` bytes.
    pub fn is_all_of(self, bytes: usize) -> bool {
        Slot::new(0, 8 * bytes as u32) == Some(self)
    }

    /// Distance in bits of the field from the low end of its own bytes.
    fn shift_at_end(self) -> u32 {
        u32::from(self.shift) + 8 * u32::from(self.bytes) - 64
    }

    /// Reads the field; zero if the bytes end before it.
    #[inline]
    pub fn read(self, bytes: &[u8]) -> u64 {
        let at = usize::from(self.byte);
        match bytes.get(at..at + 8).and_then(|window| window.first_chunk()) {
            Some(window) => u64::from_be_bytes(*window) >> self.shift & self.mask,
            None => self.read_at_end(bytes),
        }
    }

    fn read_at_end(self, bytes: &[u8]) -> u64 {
        let at = usize::from(self.byte);
        let Some(word) = bytes.get(at..at + usize::from(self.bytes)) else { return 0 };
        load(word) >> self.shift_at_end() & self.mask
    }

    /// Writes the field; nothing if the bytes end before it.
    #[inline]
    pub fn write(self, bytes: &mut [u8], value: u64) {
        let at = usize::from(self.byte);
        match bytes.get_mut(at..at + 8).and_then(|window| window.first_chunk_mut()) {
            Some(window) => {
                let others = u64::from_be_bytes(*window) & !(self.mask << self.shift);
                *window = (others | (value & self.mask) << self.shift).to_be_bytes();
            }
            None => self.write_at_end(bytes, value),
        }
    }

    fn write_at_end(self, bytes: &mut [u8], value: u64) {
        let at = usize::from(self.byte);
        let Some(word) = bytes.get_mut(at..at + usize::from(self.bytes)) else { return };
        let (shift, mask) = (self.shift_at_end(), self.mask << self.shift_at_end());
        let old = if mask.count_ones() == u32::from(self.bytes) * 8 { 0 } else { load(word) };
        let new = old & !mask | value << shift & mask;
        match word {
            [a] => *a = new as u8,
            [_, _] => word.copy_from_slice(&(new as u16).to_be_bytes()),
            [_, _, _, _] => word.copy_from_slice(&(new as u32).to_be_bytes()),
            _ => word.copy_from_slice(&new.to_be_bytes()[8 - word.len()..]),
        }
    }
}

/// The number in up to 8 bytes in network order.
#[inline]
fn load(word: &[u8]) -> u64 {
    match *word {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_be_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => word.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)),
    }
}

impl Layouts {
    /// Compiles the embedded libraries.
    ///
    /// # Errors
    /// The errors in them.
    pub fn new() -> Result<Layouts, LayoutError> {
        let loader = Loader::in_memory([("frames.yaml", PROGRAM)], LIBRARIES);
        let parsed =
            parse_program("frames.yaml".as_ref(), &loader).map_err(LayoutError::library)?;
        let compiled = compile(&parsed, &link_types()).map_err(|diagnostics| {
            LayoutError::library(Rejected { diagnostics, files: parsed.files.clone() })
        })?;
        let mut layouts = Layouts { program: Arc::new(compiled.program), extensions: Vec::new() };
        layouts.extensions = layouts.ask_for_extensions()?;
        Ok(layouts)
    }

    /// Parses a BTH of every opcode, and stores which headers follow it, with their offsets.
    fn ask_for_extensions(&self) -> Result<Vec<Option<Extension>>, LayoutError> {
        let stack = self.stack(&["bth"])?;
        let (bth, opcode) = (stack.instance("bth")?, stack.slot("bth.opcode")?);
        let mut packet = [0; PROBE_BYTES];
        let mut decoder = Decoder::new(Arc::clone(&self.program)).map_err(LayoutError::library)?;
        let mut all = Vec::new();
        for value in 0..=255 {
            opcode.write(&mut packet, value);
            let found = decoder.parse(&packet, LINK_PROBE).ok_or(LayoutError::Probe)?;
            let behind = |at: u32| at.checked_sub(stack.bytes);
            let headers = found.headers().into_iter().filter(|h| h.instance != bth);
            let list = headers.filter_map(|h| Some((h.instance, behind(h.at)?))).collect();
            all.push(found.error().is_none().then_some(list));
        }
        Ok(all)
    }

    /// The headers after a BTH with this opcode, with their offsets after it; `None` for an opcode that the library
    /// does not define.
    pub fn extensions(&self, opcode: u8) -> Option<impl Iterator<Item = (&str, u32)>> {
        let list = self.extensions.get(usize::from(opcode))?.as_ref()?;
        Some(list.iter().map(|(id, at)| (self.program.instances[*id].name.as_str(), *at)))
    }

    /// A stack of headers, by the names of their instances.
    ///
    /// # Errors
    /// No library has a header of this name.
    pub fn stack(&self, names: &[&str]) -> Result<Stack<'_>, LayoutError> {
        let mut stack = Stack { layouts: self, headers: Vec::new(), bytes: 0 };
        for name in names {
            let found = self.program.instances.entries().find(|(_, known)| known.name == *name);
            let (id, instance) = found.ok_or_else(|| LayoutError::NoHeader((*name).to_owned()))?;
            stack.headers.push((id, stack.bytes));
            stack.bytes += self.program.headers[instance.header].fixed_bytes;
        }
        Ok(stack)
    }

    /// A CRC by name.
    pub(super) fn crc(&self, name: &str) -> Result<&Crc, LayoutError> {
        let found = self.program.crcs.iter().find(|crc| crc.name == name);
        found.ok_or_else(|| LayoutError::NoCrc(name.to_owned()))
    }

    fn header_of(&self, instance: InstanceId) -> HeaderId {
        self.program.instances[instance].header
    }
}

impl Stack<'_> {
    /// Total length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// The bytes of a header; `None` if the frame does not have it.
    pub(super) fn place_of(&self, instance: InstanceId) -> Option<Range<usize>> {
        let index = self.headers.iter().position(|(id, _)| *id == instance)?;
        let end = self.headers.get(index + 1).map_or(self.bytes, |next| next.1);
        Some(self.headers[index].1 as usize..end as usize)
    }

    fn instance(&self, header: &str) -> Result<InstanceId, LayoutError> {
        self.place(header).map(|(id, _)| id)
    }

    fn place(&self, header: &str) -> Result<(InstanceId, u32), LayoutError> {
        let named = |id: InstanceId| self.layouts.program.instances[id].name == header;
        let found = self.headers.iter().find(|(id, _)| named(*id));
        found.copied().ok_or_else(|| LayoutError::NotInFrame(header.to_owned()))
    }

    /// The offset of a header.
    ///
    /// # Errors
    /// The frame does not have it.
    pub fn offset(&self, header: &str) -> Result<usize, LayoutError> {
        Ok(self.place(header)?.1 as usize)
    }

    fn field(&self, path: &str) -> Result<(&Field, u32), LayoutError> {
        let missing = || LayoutError::NotInFrame(path.to_owned());
        let (header, name) = path.rsplit_once('.').ok_or_else(missing)?;
        let (instance, at) = self.place(header)?;
        let declared = &self.layouts.program.headers[self.layouts.header_of(instance)];
        let field = declared.fields.iter().find(|field| field.name == name);
        Ok((field.ok_or_else(missing)?, at))
    }

    /// First bit and width of a field that is one piece.
    fn run(&self, path: &str) -> Result<(u32, u32), LayoutError> {
        let (field, at) = self.field(path)?;
        match field.layout {
            FieldLayout::Run { bit, bits } => Ok((at * 8 + bit, bits)),
            _ => Err(LayoutError::NotOnePiece(path.to_owned())),
        }
    }

    /// The position of a field of at most 64 bits.
    ///
    /// # Errors
    /// The frame does not have it, or it is not such a field.
    pub fn slot(&self, path: &str) -> Result<Slot, LayoutError> {
        let (bit, bits) = self.run(path)?;
        Slot::new(bit, bits).ok_or_else(|| LayoutError::TooWide(path.to_owned()))
    }

    /// The position of an element of an array.
    ///
    /// # Errors
    /// The frame does not have it, or it is not such a field.
    pub fn element(&self, path: &str, index: u32) -> Result<Slot, LayoutError> {
        let (field, at) = self.field(path)?;
        match field.layout {
            FieldLayout::Array { bit, bits, count } if index < count => {
                let slot = Slot::new(at * 8 + bit + bits * index, bits);
                slot.ok_or_else(|| LayoutError::TooWide(path.to_owned()))
            }
            _ => Err(LayoutError::NoElement { path: path.to_owned(), index }),
        }
    }

    /// Writes a field of any width: for use at start and for rare frames.
    ///
    /// # Errors
    /// The frame does not have it, or it is not one piece.
    pub fn write(&self, bytes: &mut [u8], path: &str, value: u128) -> Result<(), LayoutError> {
        let (bit, bits) = self.run(path)?;
        wireyard_pipeline::ir::layout::write_run(bytes, bit, bits, value);
        Ok(())
    }

    /// The position of a field of any width.
    ///
    /// # Errors
    /// The frame does not have it, or it is not one piece.
    pub fn wide(&self, path: &str) -> Result<Wide, LayoutError> {
        let (bit, bits) = self.run(path)?;
        Ok(Wide { bit, bits })
    }
}

/// A field of any width at a known position: addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide {
    bit: u32,
    bits: u32,
}

impl Wide {
    /// Reads the field; bits beyond the end are zero.
    pub fn read(self, bytes: &[u8]) -> u128 {
        let at = (self.bit / 8) as usize;
        if self.bits == 128
            && self.bit.is_multiple_of(8)
            && let Some(whole) = bytes.get(at..).and_then(|rest| rest.first_chunk())
        {
            return u128::from_be_bytes(*whole);
        }
        read_run(bytes, self.bit, self.bits)
    }

    /// Writes the field; bits beyond the end are ignored.
    pub fn write(self, bytes: &mut [u8], value: u128) {
        wireyard_pipeline::ir::layout::write_run(bytes, self.bit, self.bits, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_those_of_the_opcode_table() {
        let layouts = Layouts::new().unwrap();
        let of = |opcode| -> Vec<(String, u32)> {
            let list = layouts.extensions(opcode).unwrap();
            list.map(|(name, at)| (name.to_owned(), at)).collect()
        };
        assert_eq!(of(0x04), []);
        assert_eq!(of(0x0b), [("reth".to_owned(), 0), ("immdt".to_owned(), 16)]);
        assert_eq!(of(0x12), [("aeth".to_owned(), 0), ("atomic_ack_eth".to_owned(), 4)]);
        assert_eq!(of(0x65), [("deth".to_owned(), 0), ("immdt".to_owned(), 8)]);
        assert_eq!(of(0x80), []);
        assert_eq!(of(0x81), [("cnp_reserved".to_owned(), 0)]);
        assert!(layouts.extensions(0xff).is_none() && layouts.extensions(0x15).is_none());
    }

    #[test]
    fn slots_are_the_fields() {
        let layouts = Layouts::new().unwrap();
        let stack = layouts.stack(&["ethernet", "ipv4", "udp", "bth"]).unwrap();
        assert_eq!((stack.bytes(), stack.offset("bth").unwrap()), (54, 42));
        let mut frame = [0xa5; 54];
        for (path, value) in
            [("bth.psn", 0x12_3456), ("ipv4.ecn", 2), ("ethernet.src", 0x0200_0000_0001)]
        {
            let slot = stack.slot(path).unwrap();
            let before = frame;
            slot.write(&mut frame, value);
            assert_eq!(slot.read(&frame), value, "{path}");
            let (bit, bits) = stack.run(path).unwrap();
            let mut same = before;
            wireyard_pipeline::ir::layout::write_run(&mut same, bit, bits, value.into());
            assert_eq!(frame, same, "{path}");
        }
        assert_eq!(stack.slot("bth.psn").unwrap().read(&frame[..50]), 0);
        assert!(stack.slot("bth.none").is_err() && stack.slot("aeth.msn").is_err());
        assert!(layouts.stack(&["nothing"]).is_err());
    }
}
