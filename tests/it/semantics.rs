//! What programs say about headers and about packets that take another way than from port to port, on every engine at every
//! level: header copies, stacks, the control plane, passes that follow a pass, mirror copies.

use wireyard_pipeline::passes::LEVEL_MAX;
use wireyard_switch::ports::{LinkType, PortNumber};
use wireyard_switch::program::{DeviceOptions, EngineKind, Place, load};
use wireyard_switch::sandbox::Sandbox;
use wireyard_tables::time::Time;

/// Header types of two and four bytes to put behind Ethernet, to see what becomes of them, one whose length the parser gives,
/// one with an array, and one
/// with a field that has no value.
const HEAD: &str = "
pipeline: semantics
include: [ethernet]
headers:
  mark: { fields: { value: 16 } }
  long: { fields: { high: 16, low: 16 } }
  part: { fields: { kind: 16, rest: { varbits: 32 } } }
  row: { fields: { cells: { array: 4, bits: 6 } } }
  wide: { fields: { key: 144 } }
";

/// What left a device.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Port and frame.
    pub(crate) sent: Vec<(u16, Vec<u8>)>,
    /// Frames for the control plane.
    pub(crate) punted: Vec<Vec<u8>>,
    /// Packets dropped, by reason.
    pub(crate) dropped: Vec<(String, u64)>,
}

/// Sends frames into port 1, one after the other, on every engine at every level.
pub(crate) fn outcome(program: &str, entries: &str, frames: &[Vec<u8>]) -> Left {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("program.yaml"), format!("{HEAD}{program}")).expect("writes");
    std::fs::write(folder.path().join("entries.yaml"), entries).expect("writes");
    let place = Place { program: folder.path().to_owned(), ..Place::default() };
    let mut first = None;
    for engine in EngineKind::ALL {
        for opt_level in 0..=LEVEL_MAX {
            let loaded = load(&place).unwrap_or_else(|e| panic!("{e}"));
            let options = DeviceOptions { engine, opt_level, ..DeviceOptions::small() };
            let mut core = loaded.device(options).expect("a device");
            core.outcomes_mut().listen_to_punts();
            let ports = [1, 2, 3].map(|port| (PortNumber(port), LinkType::Ethernet));
            let mut sandbox = Sandbox::new(core, &ports).expect("ports");
            for frame in frames {
                assert!(sandbox.send(PortNumber(1), frame, Time::ZERO, None));
            }
            let report = sandbox.core.report();
            assert_eq!(report.queued, 0, "{report:?}");
            let out = report.sent + report.dropped.iter().map(|(_, n)| n).sum::<u64>();
            let out = out + report.consumed.iter().map(|(_, n)| n).sum::<u64>();
            assert_eq!(report.received + report.generated, out, "{report:?}");
            let left = Left {
                sent: sandbox.received().into_iter().map(|(port, frame)| (port.0, frame)).collect(),
                punted: sandbox
                    .core
                    .outcomes_mut()
                    .take_punted()
                    .into_iter()
                    .map(|punted| punted.bytes)
                    .collect(),
                dropped: report.dropped.iter().map(|(name, n)| (name.to_string(), *n)).collect(),
            };
            match &first {
                None => first = Some(left),
                Some(expected) => {
                    assert_eq!(left, *expected, "{} at level {opt_level}", engine.name());
                }
            }
        }
    }
    first.expect("an engine")
}

/// A frame to 02:00:00:00:00:`kind` with these words behind the Ethernet header.
pub(crate) fn frame(kind: u8, words: &[u16]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, kind, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    frame.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    frame.extend([0xee; 20]);
    frame
}

/// The words behind the Ethernet header.
pub(crate) fn words(frame: &[u8]) -> Vec<u16> {
    let behind = frame[14..].chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    behind.take_while(|word| *word != 0xeeee).collect()
}

/// A field of 144 bits in words: slices overlap, a copy of the field writes what its slices read, also what the parser selected by, an
/// element of a stack has a computed number, and a header that is never valid reads as zero.
#[test]
fn a_slice_of_a_wide_field_is_a_value() {
    let program = "
instances: { w: wide, rows: { header: wide, stack: 2 }, never: wide }
parser:
  start:
    extract: [ethernet, w, rows, rows]
    select: 'w.key[143:128]'
    cases: { 7: accept }
    default: other
  other: { next: accept }
ingress:
  - std.egress_port = 2
  - switch: 'ethernet.dst[7:0]'
    cases:
      1: [ 'w.key[135:120] = 0xabcd', 'w.key[23:8] = w.key[143:128]', 'w.key[15:0] = w.key[15:0] + 1' ]
      2: [ 'w.key = rows[0].key', { if: 'w.key[143:128] == 7', then: [ 'w.key[15:0] = 0xdead' ] } ]
      3: [ 'rows[bit<1>(w.key[0:0])].key[127:0] = 5', 'w.key[143:128] = rows[bit<1>(w.key[0:0])].key[130:115]' ]
      4: [ 'w.key[31:16] = never.key[100:85] + 3' ]
deparser: { emit: [ethernet, w, rows] }
";
    let w: Vec<u16> = vec![7, 0x1111, 0x2222, 3, 4, 5, 6, 8, 0x01ff];
    let row = |first: u16| vec![first, 0, 0, 0, 0, 0, 0, 0, 0xbeef];
    let packet = |kind: u8, w: &[u16], a: u16, b: u16| frame(kind, &[w, &row(a), &row(b)].concat());
    let sent = |kind: u8, w: &[u16], a: u16, b: u16| {
        let left = outcome(program, "", &[packet(kind, w, a, b)]);
        assert_eq!(left.sent.len(), 1, "{left:?}");
        words(&left.sent[0].1)
    };
    let expected = |kind: u8, w: Vec<u16>, rows: [Vec<u16>; 2]| {
        words(&frame(kind, &[w, rows.concat()].concat()))
    };
    // Bits 135 to 120 are the low byte of word 0 and the high byte of word 1. Bits 23 to 8 are then read from the new word 0.
    let one = vec![0x00ab, 0xcd11, 0x2222, 3, 4, 5, 6, 0, 0xac00];
    assert_eq!(sent(1, &w, 1, 2), expected(1, one, [row(1), row(2)]));
    // The parser knew 7, and the copy brings 9.
    assert_eq!(sent(2, &w, 9, 2), expected(2, row(9), [row(9), row(2)]));
    let mut marked = row(7);
    marked[8] = 0xdead;
    assert_eq!(sent(2, &w, 7, 2), expected(2, marked, [row(7), row(2)]));
    // Element 1: bits 130 to 115 are the lowest three of word 0, and zeros.
    let mut second = vec![0xffff; 9];
    second[1..].fill(0);
    second[8] = 5;
    let mut three = w.clone();
    three[0] = 0xe000;
    assert_eq!(sent(3, &w, 1, 0xffff), expected(3, three, [row(1), second]));
    let mut four = w.clone();
    four[7] = 3;
    assert_eq!(sent(4, &w, 1, 2), expected(4, four, [row(1), row(2)]));
}

#[test]
fn a_copy_of_a_header_that_is_never_valid_is_not_valid() {
    let program = "
instances: { a: mark, b: mark }
parser: { start: { extract: [ethernet, a] } }
ingress:
  - std.egress_port = 2
  - if: 'ethernet.dst[7:0] == 1'
    then: [ a = b ]
deparser: { emit: [ethernet, a] }
";
    let left = outcome(program, "", &[frame(1, &[7]), frame(2, &[7])]);
    let sent: Vec<Vec<u16>> = left.sent.iter().map(|(_, frame)| words(frame)).collect();
    assert_eq!(sent, [vec![], vec![7]]);
}

/// P4 `push_front` and `pop_front`: what comes in is not valid.
#[test]
fn elements_that_a_stack_gets_are_not_valid() {
    let program = "
instances: { tags: { header: mark, stack: 3 } }
parser:
  start: { extract: [ethernet, tags, tags] }
ingress:
  - std.egress_port = 2
  - switch: 'ethernet.dst[7:0]'
    cases:
      1: [ 'push(tags, 1)', 'tags[0].value = 9' ]
      2: [ 'push(tags, 1)', 'set_valid(tags[0])', 'tags[0].value = 9' ]
      3: [ 'push(tags, 2)', 'set_valid(tags[1])' ]
      4: [ 'pop(tags, 1)', 'tags[1].value = 9', 'tags[2].value = 9' ]
      5: [ 'push(tags, 3)' ]
      6: [ 'pop(tags, 3)' ]
deparser: { emit: [ethernet, tags] }
";
    let frames: Vec<Vec<u8>> = (1..=6).map(|kind| frame(kind, &[1, 2])).collect();
    let left = outcome(program, "", &frames);
    let sent: Vec<Vec<u16>> = left.sent.iter().map(|(_, frame)| words(frame)).collect();
    assert_eq!(sent, [vec![1, 2], vec![9, 1, 2], vec![0, 1], vec![2], vec![], vec![]]);
}

/// A checksum over the field of another one is that of the packet as it leaves, also where a change moves both.
#[test]
fn a_checksum_covers_another_one() {
    let program = "
instances: { outer: long, inner: long }
parser: { start: { extract: [ethernet, outer, inner] } }
checksums:
  - { field: inner.low, over: inner, verify: off, update: incremental }
  - { field: outer.low, over: [outer, inner], verify: off, update: incremental }
ingress: [ std.egress_port = 2, inner.high = 5 ]
deparser: { emit: [ethernet, outer, inner] }
";
    let left = outcome(program, "", &[frame(1, &[0x2222, 0xdddd, 7, 0xfff8])]);
    let sent: Vec<Vec<u16>> = left.sent.iter().map(|(_, frame)| words(frame)).collect();
    assert_eq!(sent, [vec![0x2222, 0xdddd, 5, 0xfffa]]);
}

/// Path-specialised code reads no element of an array: a program that gives one to the traffic manager has generic code.
#[test]
fn a_class_of_a_packet_is_an_element_of_an_array() {
    let program = "
instances: { r: row }
parser: { start: { extract: [ethernet, r] } }
ingress: [ std.egress_port = 2 ]
deparser: { emit: [ethernet, r] }
qos: { dscp: 'r.cells[1]' }
";
    let left = outcome(program, "", &[frame(1, &[0x1234])]);
    assert_eq!(left.sent, [(2, frame(1, &[0x1234]))]);
}

/// PSA: a packet for the CPU port does egress like any other.
#[test]
fn egress_runs_for_the_control_plane() {
    let program = "
instances: { a: mark }
metadata: { from_ingress: { bits: 16, carried: true } }
parser: { start: { extract: [ethernet, a] } }
ingress:
  - meta.from_ingress = a.value
  - switch: 'ethernet.dst[7:0]'
    cases:
      1: [ std.egress_port = CPU_PORT ]
      2: [ std.egress_port = 2, clone(7) ]
      3: [ std.egress_port = CPU_PORT, a.value = 0xdead ]
      4: [ punt at_once ]
      5: [ std.egress_port = 3 ]
egress:
  - if: std.egress_port == CPU_PORT
    then:
      - if: a.value == 0xdead
        then: [ drop refused_in_egress ]
      - a.value = meta.from_ingress + 1
  - if: std.egress_port == 3
    then: [ clone(8) ]
";
    let entries = "mirror_sessions: { 7: { port: CPU_PORT }, 8: { port: CPU_PORT } }";
    let frames: Vec<Vec<u8>> = (1..=5).map(|kind| frame(kind, &[0x10 * u16::from(kind)])).collect();
    let left = outcome(program, entries, &frames);
    let punted: Vec<Vec<u16>> = left.punted.iter().map(|frame| words(frame)).collect();
    assert_eq!(punted, [vec![0x11], vec![0x21], vec![0x40], vec![0x51]]);
    let sent: Vec<_> = left.sent.iter().map(|(port, frame)| (*port, words(frame))).collect();
    assert_eq!(sent, [(2, vec![0x20]), (3, vec![0x50])]);
    assert_eq!(left.dropped, [("refused_in_egress".to_owned(), 1)]);
}

/// PSA `resubmit_metadata` and `recirculate_metadata`: what is `carried` reaches the next pass, the rest is zero.
#[test]
fn carried_metadata_reaches_the_next_pass() {
    let resubmits = "
instances: { a: mark }
metadata: { n: { bits: 16, carried: true }, wide: { bits: 80, carried: true }, plain: 16 }
parser: { start: { extract: [ethernet, a] } }
ingress:
  - std.egress_port = 2
  - if: std.packet_path == path.resubmit
    then: [ 'a.value = meta.n + meta.plain + meta.wide[79:64]' ]
    else: [ meta.n = a.value + 1, meta.plain = 0x100, meta.wide = 80w0x1000_0000_0000_0000_0000, resubmit() ]
";
    let left = outcome(resubmits, "", &[frame(1, &[5]), frame(1, &[8])]);
    let sent: Vec<Vec<u16>> = left.sent.iter().map(|(_, frame)| words(frame)).collect();
    assert_eq!(sent, [vec![0x1006], vec![0x1009]]);
    // Twice around: each pass adds, ingress 1 and egress 0x10. The path in egress is that of a packet to a port (PSA
    // NORMAL_UNICAST).
    let recirculates = "
instances: { a: mark }
metadata: { n: { bits: 16, carried: true }, rounds: { bits: 2, carried: true }, plain: 16 }
parser: { start: { extract: [ethernet, a] } }
ingress:
  - std.egress_port = 2
  - if: std.packet_path != path.recirculate
    then: [ meta.n = a.value ]
  - meta.n = meta.n + meta.plain + 1
  - meta.plain = 0x100
egress:
  - meta.n = meta.n + meta.plain + 0x10
  - meta.plain = 0x200
  - if: meta.rounds != 2 && std.packet_path == path.normal
    then: [ meta.rounds = meta.rounds + 1, recirculate() ]
    else: [ a.value = meta.n ]
";
    let left = outcome(recirculates, "", &[frame(1, &[0]), frame(1, &[0x400])]);
    let sent: Vec<Vec<u16>> = left.sent.iter().map(|(_, frame)| words(frame)).collect();
    assert_eq!(sent, [vec![0x33], vec![0x433]]);
}

/// PSA CI2E: a copy of the packet as it was received is parsed in egress, with what ingress carried. CE2E: the copy has
/// the metadata that egress left.
#[test]
fn egress_finds_the_headers_of_a_mirror_copy() {
    let program = "
instances: { a: mark, b: mark }
metadata: { n: { bits: 16, carried: true }, seen: 16 }
parser:
  start: { extract: ethernet, select: ethernet.ether_type, cases: { 0x88b5: more } }
  more: { extract: [a, b], do: [ meta.seen = a.value ] }
ingress:
  - std.egress_port = 2
  - meta.n = 0x100
  - clone(7)
  - set_invalid(b)
  - a.value = 0x1111
egress:
  - if: std.packet_path == path.clone_ingress
    then: [ a.value = a.value + meta.n + meta.seen, b.value = std.instance ]
  - if: std.packet_path == path.clone_egress
    then: [ a.value = meta.n ]
  - if: std.packet_path == path.normal
    then: [ meta.n = 0x200, clone(8) ]
deparser: { emit: [ethernet, a, b] }
";
    let entries = "mirror_sessions: { 7: { port: 3, instance: 6 }, 8: { port: 3 } }";
    let left = outcome(program, entries, &[frame(1, &[5, 9])]);
    let sent: Vec<_> = left.sent.iter().map(|(port, frame)| (*port, words(frame))).collect();
    assert_eq!(sent, [(2, vec![0x1111]), (3, vec![0x105, 6]), (3, vec![0x200])]);
    // Whatever passes make of an egress that does nothing: the copy is parsed and put together.
    let idle = "
instances: { a: mark, b: mark }
parser: { start: { extract: [ethernet, a, b] } }
ingress: [ std.egress_port = 2, clone(7) ]
egress: [ let unread = a.value ]
deparser: { emit: [ethernet, b], discard: [a] }
";
    let left = outcome(idle, entries, &[frame(1, &[5, 9])]);
    let sent: Vec<_> = left.sent.iter().map(|(port, frame)| (*port, words(frame))).collect();
    assert_eq!(sent, [(2, vec![9]), (3, vec![9])]);
    // A frame that the parser does not know is mirrored as far as it was parsed.
    let mut other = frame(1, &[5, 9]);
    (other[12], other[13]) = (0x88, 0xb6);
    let left = outcome(program, entries, &[other]);
    let sent: Vec<_> = left.sent.iter().map(|(port, frame)| (*port, words(frame))).collect();
    assert_eq!(sent, [(2, vec![5, 9]), (3, vec![5, 9]), (3, vec![5, 9])]);
}

/// Its only entry matches every packet, also where a pass makes the table into code.
#[test]
fn a_constant_table_without_keys_is_hit() {
    let program = "
parser: { start: { extract: ethernet } }
actions: { to: { params: { p: port }, do: [ std.egress_port = p ] } }
tables:
  t: { key: {}, actions: [to, drop], default: drop, const_default: true, const_entries: true, size: 1, entries: [ { match: {}, action: to(3) } ] }
ingress: [ { apply: t, miss: [ drop missed ] } ]
";
    let left = outcome(program, "", &[frame(1, &[5])]);
    assert_eq!(left.sent, [(3, frame(1, &[5]))]);
}

/// A lookahead beyond the packet is an error, also where every case takes any value.
#[test]
fn a_key_that_may_end_the_parser_is_evaluated() {
    let program = "
parser:
  start:
    extract: ethernet
    select: ['lookahead(8, 0)', ethernet.ether_type]
    cases: [ { match: [_, 0x88b5], next: accept } ]
    default: next
  next: { select: 'lookahead(8, 8)', default: accept }
ingress:
  - if: std.parser_error == error.packet_too_short
    then: [ std.egress_port = 2 ]
    else: [ std.egress_port = 3 ]
";
    let of = |ether_type: u16, payload: &[u8]| {
        let addresses = frame(1, &[])[..12].to_vec();
        [addresses, ether_type.to_be_bytes().to_vec(), payload.to_vec()].concat()
    };
    let too_short = [of(0x88b5, &[]), of(0x88b6, &[7])];
    let long_enough = [of(0x88b5, &[7]), of(0x88b6, &[7, 8])];
    let left = outcome(program, "", &[too_short.clone(), long_enough.clone()].concat());
    let expected = too_short
        .map(|packet| (2, packet))
        .into_iter()
        .chain(long_enough.map(|packet| (3, packet)));
    assert_eq!(left.sent, Vec::from_iter(expected));
}

/// The length of a variable part is that of the copy's bytes, whatever ingress made of the header.
#[test]
fn a_copy_of_a_copy_keeps_its_variable_part() {
    let program = "
instances: { p: part, b: mark }
parser:
  start: { extract: ethernet, next: p }
  p: { do: [ 'extract(p, bit<32>(lookahead(8)) * 8)' ], next: b }
  b: { extract: b }
ingress: [ std.egress_port = 2, clone(7), set_invalid(p), set_valid(p), p.kind = 0 ]
egress:
  - if: std.packet_path == path.clone_ingress
    then: [ clone(8) ]
  - if: std.packet_path == path.clone_egress
    then: [ b.value = 0x5555 ]
deparser: { emit: [ethernet, p, b] }
";
    let entries = "mirror_sessions: { 7: { port: 3 }, 8: { port: 3 } }";
    let left = outcome(program, entries, &[frame(1, &[0x0200, 0xd1d2, 0x7777])]);
    let sent: Vec<_> = left.sent.iter().map(|(port, frame)| (*port, words(frame))).collect();
    let copy = |last| (3, vec![0x0200, 0xd1d2, last]);
    assert_eq!(sent, [(2, vec![0, 0x7777]), copy(0x7777), copy(0x5555)]);
}

/// A header that egress adds in front of a copy that it makes is in the copy.
#[test]
fn a_copy_that_egress_makes_has_the_headers_of_egress() {
    let program = "
instances: { a: mark, x: mark }
parser: { start: { extract: [ethernet, a] } }
ingress: [ std.egress_port = 2 ]
egress:
  - if: std.packet_path == path.clone_egress
    then: [ a.value = x.value + 1 ]
    else: [ set_valid(x), x.value = 7, clone(7) ]
deparser: { emit: [ethernet, a, x] }
";
    let left = outcome(program, "mirror_sessions: { 7: { port: 3 } }", &[frame(1, &[5])]);
    let sent: Vec<_> = left.sent.iter().map(|(port, frame)| (*port, words(frame))).collect();
    assert_eq!(sent, [(2, vec![5, 7]), (3, vec![8, 7])]);
}
