//! The compiled engine against the interpreter: random programs and packets, all results compared.

mod random;

use super::{Codes, Jit, Options};
use crate::check::{ExternRegistry, compile};
use crate::engine::{Context, NoDevice};
use crate::exec::PacketPath;
use crate::ids::StateId;
use crate::interp::tests::build::{After, Build, Rig, block, body, ethernet_ipv4};
use crate::ir::{
    BinOp, BuiltinError, ExprKind, Half, LValue, Op, ParserOp, Program, StdField, Target, Term,
};
use crate::packet::{MemoryConfig, PacketMemory};
use crate::source::{Loader, parse_program};
use proptest::prelude::*;
use random::Random;
use std::sync::Arc;

/// The same program on both engines.
struct Pair {
    interp: Rig,
    jit: Rig,
    specialised: [bool; 2],
}

impl Pair {
    fn new(program: Program, level: u8) -> Pair {
        let memory = MemoryConfig { chunks: 64, chunk_bytes: 2048, headroom_bytes: 128 };
        let interp = Rig::new(program.clone(), memory, 1);
        let mut jit = Rig::new(program, memory, 1);
        let engine = Jit::new(&jit.state.program().clone(), &jit.state, Options { level });
        let engine = engine.expect("the program compiles");
        let specialised = Half::BOTH.map(|half| engine.is_specialised(half));
        jit.engine = Box::new(engine);
        Pair { interp, jit, specialised }
    }

    fn is_specialised(&self, half: Half) -> bool {
        self.specialised[half as usize]
    }

    fn new_in(program: Program, level: u8, memory: MemoryConfig) -> Pair {
        let mut pair = Pair::new(program, level);
        for rig in [&mut pair.interp, &mut pair.jit] {
            rig.memory = PacketMemory::guarded(memory).expect("memory");
        }
        pair
    }

    /// One packet through ingress and egress of both, compared after each.
    fn packet(&mut self, bytes: &[u8], mark: bool) {
        let packets = (self.interp.packet(bytes), self.jit.packet(bytes));
        self.both(packets, mark);
    }

    /// The same for a packet that begins at this offset of its chunk.
    fn packet_at(&mut self, bytes: &[u8], offset: u16) {
        let place = |rig: &mut Rig| {
            let mut after = rig.packet(&[]);
            let packet = &mut after.packet;
            (packet.data_off, packet.len) = (offset, bytes.len() as u32);
            let buf = packet.buf.as_mut().expect("a chunk");
            let frame = rig.memory.frame_mut(buf, offset, bytes.len() as u32);
            frame.expect("inside the chunk").copy_from_slice(bytes);
            after
        };
        let packets = (place(&mut self.interp), place(&mut self.jit));
        self.both(packets, false);
    }

    fn both(&mut self, (mut a, mut b): (After, After), mark: bool) {
        for half in Half::BOTH {
            for (rig, after) in [(&mut self.interp, &mut a), (&mut self.jit, &mut b)] {
                after.meta.now_ns = 1_000_000;
                after.meta.congestion_mark = mark.into();
                rig.run(after, half, None);
            }
            self.compare(&a, &b, half);
            if a.meta.verdict != 0 {
                break;
            }
            for (rig, after) in [(&mut self.interp, &mut a), (&mut self.jit, &mut b)] {
                if let Some(original) = after.meta.original.take() {
                    rig.memory.free(original);
                }
            }
        }
        self.interp.free(a);
        self.jit.free(b);
    }

    fn compare(&self, a: &After, b: &After, half: Half) {
        let show = |after: &After| format!("{:?}\n{:?}", after.packet, after.meta);
        let strip = |text: String| -> String {
            // Handles differ between two memories.
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some(at) = rest.find("Buf(") {
                out.push_str(&rest[..at]);
                let tail = &rest[at..];
                rest = &tail[tail.find(')').unwrap_or(0)..];
            }
            out + rest
        };
        assert_eq!(strip(show(a)), strip(show(b)), "{half:?}");
        if a.meta.verdict != 1 {
            assert_eq!(self.interp.bytes(a), self.jit.bytes(b), "bytes, {half:?}");
        }
    }

    fn compare_state(&self) {
        let (a, b) = (&self.interp.state, &self.jit.state);
        let program = a.program();
        for id in program.counters.ids() {
            for n in 0..program.counters[id].size as usize {
                let (x, y) = (a.counter(id).unwrap().read(n), b.counter(id).unwrap().read(n));
                assert_eq!(x, y, "{id} {n}");
            }
        }
        for id in program.registers.ids() {
            let words = |state: &crate::state::State| -> Vec<u64> {
                let words = state.register(id).unwrap().words().iter();
                words.map(|w| w.load(std::sync::atomic::Ordering::Relaxed)).collect()
            };
            assert_eq!(words(a), words(b), "{id}");
        }
        let tally = |state: &crate::state::State| {
            let t = state.statistics();
            let all = [
                &t.drops,
                &t.punts,
                &t.parser_errors,
                &t.checksum_errors,
                &t.out_of_range_counts,
                &t.lost_clones,
            ];
            all.map(|array| (0..array.size()).map(|n| array.read(n)).collect::<Vec<_>>())
        };
        assert_eq!(tally(a), tally(b));
        let (x, y) = (a.tables().snapshot(), b.tables().snapshot());
        for (x, y) in x.tables().zip(y.tables()) {
            if let (Some(x), Some(y)) = (x.counters(), y.counters()) {
                for n in 0..x.size() {
                    assert_eq!(x.read(n), y.read(n));
                }
            }
        }
    }
}

/// Runs one random program with random packets on both engines.
fn differential(seed: u64, level: u8) {
    let mut random = Random::new(seed);
    let program = random.program();
    let text = std::env::var_os("WIREYARD_SHOW").map(|_| format!("{program:#?}"));
    if let Some(text) = text {
        eprintln!("{text}");
    }
    let mut pair = Pair::new(program, level);
    for n in 0..60 {
        let bytes = random.packet();
        pair.packet(&bytes, n % 3 == 0);
    }
    pair.compare_state();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn random_programs_agree(seed: u64, level in 0u8..=2) {
        differential(seed, level);
    }
}

/// Many of them, run by hand: `WIREYARD_CASES=100000 cargo test -p wireyard-pipeline --release for_long`.
#[test]
fn random_programs_agree_for_long() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let (cases, first) =
        (number("WIREYARD_CASES").unwrap_or(20), number("WIREYARD_SEED").unwrap_or(0));
    for seed in first..first + cases {
        differential(seed, (seed % 3) as u8);
    }
}

#[test]
fn many_random_programs_are_compiled_path_specialised() {
    let mut counts = [0; 2];
    for seed in 0..40 {
        let program = Random::new(seed).program();
        let rig = Rig::new(program, MemoryConfig::default(), 1);
        let jit = Jit::new(rig.state.program(), &rig.state, Options::default()).expect("compiles");
        for (half, count) in Half::BOTH.into_iter().zip(&mut counts) {
            *count += usize::from(jit.is_specialised(half));
        }
    }
    assert!(counts.iter().all(|count| *count >= 5), "{counts:?}");
}

/// The parser's cursor in the packet is a number that programs compute lengths from.
#[test]
fn the_cursor_is_the_same_path_specialised() {
    let mut build = Build::new();
    let header = build.header("h", &[("len", 8), ("rest", 24)]);
    let (cursor, len) = (build.expr(ExprKind::Cursor, 32), build.field(header, "len"));
    let len = build.expr(ExprKind::Cast(len), 32);
    let end = build.bin(BinOp::Add, cursor, len);
    let packet = build.std(StdField::PacketLength);
    let within = build.bin(BinOp::Le, end, packet);
    build.accept(vec![
        ParserOp::Extract(header),
        ParserOp::Verify(within, BuiltinError::PacketTooShort.id()),
    ]);
    build.emit(&[header]);
    let forward = build.set_std(StdField::EgressPort, 1);
    build.program.ingress = body(vec![block(vec![forward], Term::Return)]);
    for level in 0..=2 {
        let mut pair = Pair::new(build.program.clone(), level);
        assert!(level == 0 || pair.is_specialised(Half::Ingress));
        for len in [0, 3, 4, 5, 255] {
            pair.packet(&[len, 1, 2, 3, 4, 5, 6, 7], false);
        }
        pair.compare_state();
    }
}

/// Of 24 bytes the descriptor carries 8, the chunk 16, for which there is no room before a packet that begins there.
#[test]
fn metadata_in_the_chunk_is_the_same_path_specialised() {
    let mut build = Build::new();
    let header = build.header("h", &[("a", 64), ("b", 64)]);
    let metas = [build.meta("short", 64, Some(0)), build.meta("long", 128, Some(16))];
    build.accept(vec![ParserOp::Extract(header)]);
    build.emit(&[header]);
    let (a, b) = (build.field(header, "a"), build.field(header, "b"));
    let wide = build.expr(ExprKind::Cast(b), 128);
    let forward = build.set_std(StdField::EgressPort, 1);
    let [short, long] = metas.map(LValue::Meta);
    build.ingress(vec![Op::Set(short, a), Op::Set(long, wide), forward]);
    let (short, long) =
        (build.expr(ExprKind::Meta(metas[0]), 64), build.expr(ExprKind::Meta(metas[1]), 128));
    let narrow = build.expr(ExprKind::Cast(long), 64);
    let swapped = vec![build.set(header, "a", narrow), build.set(header, "b", short)];
    build.egress(swapped);
    for level in 0..=2 {
        let mut pair = Pair::new(build.program.clone(), level);
        assert!(
            level == 0 || (pair.is_specialised(Half::Ingress) && pair.is_specialised(Half::Egress))
        );
        for offset in [0, 8, 15, 16, 17, 128] {
            pair.packet_at(&std::array::from_fn::<u8, 20, _>(|n| n as u8), offset);
        }
        pair.compare_state();
    }
}

/// Egress of a packet that ingress mirrored: it is parsed, and ingress left another length.
#[test]
fn a_mirrored_packet_keeps_the_lengths_that_egress_parsed() {
    let text = "pipeline: p
headers: { opt: { fields: { n: 8, data: { varbits: 64 } } }, end: { fields: { x: 8 } } }
instances: { opt: { header: opt }, end: { header: end } }
parser:
  start: { do: [ 'extract(opt, bit<32>(lookahead(8)) * 8)' ], next: end }
  end: { extract: end }
ingress: [ std.egress_port = 2, clone(1), set_invalid(opt), set_valid(opt) ]
egress: [ clone(2) ]
deparser: { emit: [opt, end] }
";
    let parsed = parse_program("p.yaml".as_ref(), &Loader::in_memory([("p.yaml", text)], &[]));
    let compiled = compile(&parsed.unwrap(), &ExternRegistry::new());
    let program = compiled.unwrap_or_else(|found| panic!("{found:?}")).program;
    for level in 0..=2 {
        let mut pair = Pair::new(program.clone(), level);
        let [a, b] = [&mut pair.interp, &mut pair.jit].map(|rig| {
            let mut after = rig.packet(&[2, 0xd1, 0xd2, 0x77, 0xaa]);
            after.packet.path = PacketPath::CloneIngress as u8;
            rig.run(&mut after, Half::Egress, None);
            after
        });
        pair.compare(&a, &b, Half::Egress);
        assert_eq!((a.packet.carried[0], a.packet.body_off), (16, 4), "level {level}");
        pair.interp.free(a);
        pair.jit.free(b);
    }
}

/// Labels of one header, each extracted over the one before: a packet with one of them runs path-specialised code.
#[test]
fn a_header_that_a_path_extracts_twice_is_the_same_path_specialised() {
    let mut build = Build::new();
    let header = build.header("h", &[("more", 8), ("label", 24)]);
    build.select(header, "more", &[(1, Target::State(StateId(0)))]);
    build.emit(&[header]);
    let forward = build.set_std(StdField::EgressPort, 1);
    build.ingress(vec![forward]);
    for level in 0..=2 {
        let mut pair = Pair::new(build.program.clone(), level);
        assert!(level == 0 || pair.is_specialised(Half::Ingress));
        for more in 0..4 {
            let labels = (0..=more).flat_map(|n| [u8::from(n < more), 1, 2, n]);
            pair.packet(&labels.chain([9; 3]).collect::<Vec<u8>>(), false);
        }
        pair.compare_state();
    }
}

/// A header of 8 bytes is removed in ingress, another one of `bytes` bytes is added in egress.
fn pop_then_push(bytes: u32) -> Program {
    let mut build = Build::new();
    let old = build.header("old", &[("kind", 8), ("rest", 56)]);
    let fields: Vec<(String, u32)> = (0..bytes / 8).map(|n| (format!("f{n}"), 64)).collect();
    let fields: Vec<(&str, u32)> = fields.iter().map(|(name, bits)| (&**name, *bits)).collect();
    let new = build.header("new", &fields);
    build.accept(vec![ParserOp::Extract(old)]);
    build.emit(&[old, new]);
    let forward = build.set_std(StdField::EgressPort, 1);
    build.ingress(vec![Op::SetInvalid(old), forward]);
    let value = build.num(0x0102_0304_0506_0708, 64);
    let set = build.set(new, "f0", value);
    build.egress(vec![Op::SetValid(new), set]);
    build.program
}

/// A frame that ends with its chunk becomes empty: the header that egress adds is placed before that end, and not in
/// the chunk below, at lower addresses.
#[test]
fn a_frame_at_the_end_of_its_chunk_stays_in_it() {
    for (level, bytes) in [(0, 8), (1, 8), (1, 256), (2, 8), (2, 256)] {
        let memory = MemoryConfig { chunks: 8, chunk_bytes: 2048, headroom_bytes: 128 };
        let mut pair = Pair::new_in(pop_then_push(bytes), level, memory);
        assert!(level == 0 || pair.is_specialised(Half::Egress));
        for offset in 2000..=2040 {
            pair.packet_at(&[1; 8], offset);
        }
        pair.interp.memory.check_guards();
        pair.jit.memory.check_guards();
        pair.compare_state();
    }
}

/// A copy that shares its chunk is written to another one, even where it could stay in place.
#[test]
fn what_shares_a_chunk_is_not_written_there() {
    for level in 0..=2 {
        let mut pair = Pair::new(pop_then_push(8), level);
        let mut packets = (pair.interp.packet(&[5; 30]), pair.jit.packet(&[5; 30]));
        let rigs = [(&pair.interp, &mut packets.0), (&pair.jit, &mut packets.1)];
        let kept = rigs.map(|(rig, after)| {
            let buf = after.packet.buf.as_ref().expect("a chunk");
            rig.memory.share(buf).expect("another reference")
        });
        pair.both(packets, false);
        for (rig, buf) in [&mut pair.interp, &mut pair.jit].into_iter().zip(kept) {
            assert_eq!(rig.memory.frame(&buf, 128, 30), [5; 30], "level {level}");
            rig.memory.free(buf);
        }
    }
}

/// The offset of a packet has 16 bits, also in chunks that are longer.
#[test]
fn headers_are_taken_off_where_the_offset_would_not_fit() {
    for level in 0..=2 {
        let memory = MemoryConfig { chunks: 4, chunk_bytes: 1 << 17, headroom_bytes: 128 };
        let mut pair = Pair::new_in(pop_then_push(8), level, memory);
        for offset in 65_500..=u16::MAX {
            pair.packet_at(&[3; 60], offset);
        }
        pair.compare_state();
    }
}

/// Packets that path-specialised code does not process can be anywhere in a burst: each result is the same as for the
/// packet alone.
#[test]
fn a_burst_goes_on_behind_what_is_not_done_path_specialised() {
    let mut build = Build::new();
    let header = build.header("h", &[("kind", 8), ("rest", 24)]);
    build.accept(vec![ParserOp::Extract(header)]);
    build.emit(&[header]);
    let forward = build.set_std(StdField::EgressPort, 1);
    build.program.ingress = body(vec![block(vec![forward], Term::Return)]);
    let mut pair = Pair::new(build.program, 2);
    assert!(pair.is_specialised(Half::Ingress));
    for pattern in 0..1u32 << 6 {
        // Too short for the header: not for path-specialised code.
        let bytes = |n: u32| vec![n as u8; if pattern >> n & 1 == 1 { 2 } else { 60 }];
        let (mut packets, mut meta) = (Vec::new(), Vec::new());
        for n in 0..6 {
            let After { packet, meta: decided } = pair.jit.packet(&bytes(n));
            packets.push(packet);
            meta.push(decided);
        }
        let Rig { engine, state, worker, memory } = &mut pair.jit;
        let mut device = NoDevice;
        let mut cx = Context { state, worker, memory, device: &mut device, trace: None };
        engine.ingress(&mut cx, &mut packets, &mut meta);
        for (n, (packet, meta)) in packets.into_iter().zip(meta).enumerate() {
            let (alone, after) = (pair.interp.ingress(&bytes(n as u32)), After { packet, meta });
            pair.compare(&alone, &after, Half::Ingress);
            pair.interp.free(alone);
            pair.jit.free(after);
        }
        pair.compare_state();
    }
}

/// Devices with the same program and layout run the same code; the last one frees it.
#[test]
fn devices_share_code_while_one_of_them_runs_it() {
    let mut build = Build::new();
    ethernet_ipv4(&mut build);
    let forward = build.set_std(StdField::EgressPort, 1);
    build.ingress(vec![forward]);
    let program = Arc::new(build.program);
    let rig = |workers| Rig::new(Program::clone(&program), MemoryConfig::default(), workers);
    let codes = Codes::default();
    let engine = |rig: &Rig, level| {
        codes.engine(&program, &rig.state, Options { level }).expect("the program compiles")
    };
    let [one, other, several] = [rig(1), rig(1), rig(2)];
    let first = engine(&one, 2);
    assert!(first.shares_code(&engine(&other, 2)));
    assert!(!first.shares_code(&engine(&one, 1)), "another level");
    assert!(!first.shares_code(&engine(&several, 2)), "counters of several workers");
    drop(first);
    let again = engine(&one, 2);
    assert_eq!(codes.len(), 1, "what nobody runs is gone");
    drop(again);
}

/// Functions of a module call each other by distances of 32 bits. Here all addresses above a mapping larger than that
/// are taken except for a hole of some pages: code that is not in one place is on both sides of it.
#[test]
fn code_of_a_module_is_in_one_place() {
    use region::{Protection, page};
    let library = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs");
    let loader = Loader::new(vec![library.join("headers")], &[]);
    let parsed = parse_program(&library.join("vxlan_gateway/program.yaml"), &loader);
    let program = compile(&parsed.expect("it is read"), &ExternRegistry::new());
    let rig = Rig::new(program.expect("it is right").program, MemoryConfig::default(), 1);
    let take = |bytes| region::alloc(bytes, Protection::NONE).expect("addresses");
    let far = take(5 << 30);
    let above = |bytes| Some(take(bytes)).filter(|part| part.as_ptr::<u8>() > far.as_ptr());
    let block = 16 * page::size();
    let mut blocks = Vec::new();
    for bytes in [64 << 20, 1 << 20, block] {
        blocks.extend(std::iter::from_fn(|| above(bytes)));
    }
    // Of the last block, pages one by one.
    drop(blocks.pop());
    let mut pages: Vec<_> = std::iter::from_fn(|| above(page::size())).collect();
    for free in [1, 1, 2, 4] {
        // The last ones are side by side.
        pages.truncate(pages.len().saturating_sub(free));
        Jit::new(rig.state.program(), &rig.state, Options::default())
            .expect("the program compiles");
    }
}
