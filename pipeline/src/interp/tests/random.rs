//! Random programs on random packets: nothing panics, no chunk is lost, descriptors stay valid, a trace changes
//! nothing, and the same seed has the same packets.

use super::build::{Build, Rig, block, body};
use crate::exec::Verdict;
use crate::externs::random::Stream;
use crate::ids::*;
use crate::ir::*;
use crate::packet::MemoryConfig;
use crate::trace::{Recorder, json, text};
use proptest::prelude::*;
use wireyard_tables::MatchKind;

/// Generates programs that the verifier accepts, however unusual.
struct Gen {
    b: Build,
    rng: Stream,
    headers: Vec<InstanceId>,
    metas: Vec<MetaId>,
    stack: StackId,
    array: InstanceId,
    locals: u32,
    in_parser: bool,
}

const STACK: u32 = 3;

impl Gen {
    fn new(seed: u64) -> Gen {
        let mut b = Build::new();
        let rng = Stream::new(seed, 1, 0);
        let first = b.header("a", &[("x", 4), ("y", 12), ("z", 48)]);
        let second = b.header("b", &[("x", 8), ("y", 16), ("z", 128), ("w", 8)]);
        let array = b.header("array", &[("index", 8)]);
        let ty = b.type_of(array);
        let layout = FieldLayout::Array { bit: 8, bits: 12, count: 4 };
        let name = "elements".into();
        let element = Field { name, bits: 12, layout, display: Display::Decimal, part_of: None };
        b.program.headers[ty].fields.push(element);
        b.program.headers[ty].fixed_bytes = 7;
        b.program.headers[ty].max_bytes = 7;
        // The variable part of `v` has as many bytes as the value of its first field.
        let variable = b.header("v", &[("len", 8)]);
        let ty = b.type_of(variable);
        let layout = FieldLayout::Variable { byte: 1, max_bytes: 20 };
        let name = "rest".into();
        let rest = Field { name, bits: 0, layout, display: Display::Hex, part_of: None };
        b.program.headers[ty].variable = Some(b.program.headers[ty].fields.push(rest));
        b.program.headers[ty].max_bytes = 21;
        let len = b.field(variable, "len");
        let (len, eight) = (b.expr(ExprKind::Cast(len), 32), b.num(8, 32));
        let bits = b.bin(BinOp::Mul, len, eight);
        b.program.instances[variable].variable_bits = Some(bits);
        let element = b.header("s[0]", &[("next", 8), ("value", 24)]);
        let ty = b.type_of(element);
        for n in 1..STACK {
            b.instance(&format!("s[{n}]"), ty);
        }
        let stack = b.program.stacks.push(Stack { name: "s".into(), first: element, len: STACK });
        let trailer = b.header("t", &[("kind", 8), ("sum", 32)]);
        let mut headers = vec![first, second, array, variable];
        headers.extend((0..STACK).map(|n| InstanceId(element.0 + n)));
        headers.push(trailer);
        let metas = vec![b.meta("m", 16, Some(0)), b.meta("n", 100, Some(2)), b.meta("o", 1, None)];
        Gen { b, rng, headers, metas, stack, array, locals: 0, in_parser: false }
    }

    fn below(&mut self, n: usize) -> usize {
        (self.rng.next_u64() % n as u64) as usize
    }

    fn header(&mut self) -> InstanceId {
        let n = self.below(self.headers.len());
        self.headers[n]
    }

    fn some_header(&mut self) -> InstanceId {
        let n = self.below(4);
        self.headers[n]
    }

    fn cast(&mut self, value: ExprId, bits: u32) -> ExprId {
        match self.b.program.exprs[value].bits == bits {
            true => value,
            false => self.b.expr(ExprKind::Cast(value), bits),
        }
    }

    fn scalar(&mut self, instance: InstanceId) -> (FieldId, u32) {
        let header = &self.b.program.headers[self.b.program.instances[instance].header];
        let fields: Vec<(FieldId, u32)> = header
            .fields
            .entries()
            .filter(|(_, field)| field.layout.pieces().is_some())
            .map(|(id, field)| (id, field.bits))
            .collect();
        let n = self.below(fields.len());
        fields[n]
    }

    fn leaf(&mut self) -> ExprId {
        let header = self.header();
        match self.below(10) {
            0 => self.b.std(StdField::EmitLength),
            1 => self.b.std(StdField::PacketLength),
            2 => self.b.expr(ExprKind::HeaderLength(header), 32),
            3 => self.b.valid(header),
            4 => {
                let n = self.below(3);
                let meta = self.metas[n];
                let bits = self.b.program.metadata[meta].bits;
                self.b.expr(ExprKind::Meta(meta), bits)
            }
            5 => self.b.expr(ExprKind::StackDepth(self.stack), 32),
            6 => self.b.expr(ExprKind::StackLast(self.stack, FieldId(1)), 24),
            7 if self.in_parser => self.b.expr(ExprKind::Lookahead { offset_bits: 3 }, 13),
            7 if self.locals > 0 => self.b.local(0, 16),
            8 => {
                let value = self.rng.next_u64() % 64;
                self.b.num(value.into(), 32)
            }
            _ => {
                let (field, bits) = self.scalar(header);
                self.b.expr(ExprKind::Field(header, field), bits)
            }
        }
    }

    fn expr(&mut self, bits: u32, depth: u32) -> ExprId {
        let leaf = self.leaf();
        if depth == 0 {
            return self.cast(leaf, bits);
        }
        let value = match self.below(9) {
            0 => {
                let (a, b) = (self.expr(64, depth - 1), self.expr(64, depth - 1));
                self.b.expr(ExprKind::Concat(a, b), 128)
            }
            1 => {
                let value = self.expr(40, depth - 1);
                self.b.expr(ExprKind::Slice { value, high: 30, low: 7 }, 24)
            }
            2 => {
                let cond = self.expr(1, depth - 1);
                let (a, b) = (self.expr(bits, depth - 1), self.expr(bits, depth - 1));
                self.b.expr(ExprKind::Mux(cond, a, b), bits)
            }
            3 => {
                let (name, algorithm) = HashAlgorithm::ALL[self.below(6)];
                let _ = name;
                let operands = vec![leaf, self.expr(48, depth - 1)];
                self.b.expr(ExprKind::Hash(algorithm, operands), algorithm.bits())
            }
            4 => {
                let index = self.expr(3, depth - 1);
                let (instance, field) = (self.array, FieldId(1));
                self.b.expr(ExprKind::Element { instance, field, index }, 12)
            }
            5 => {
                let op = [UnOp::Complement, UnOp::Negate][self.below(2)];
                let a = self.expr(bits, depth - 1);
                self.b.expr(ExprKind::Unary(op, a), bits)
            }
            _ => self.binary(bits, depth),
        };
        self.cast(value, bits)
    }

    fn binary(&mut self, bits: u32, depth: u32) -> ExprId {
        use BinOp::*;
        let ops = [
            Add, Sub, Mul, Rem, SatAdd, SatSub, And, Or, Xor, Shl, Shr, Eq, Ne, Lt, Le, SignedLt,
            SignedLe,
        ];
        let op = ops[self.below(ops.len())];
        let (a, b) = (self.expr(bits, depth - 1), self.expr(bits, depth - 1));
        self.b.bin(op, a, b)
    }

    fn lvalue(&mut self) -> (LValue, u32) {
        let header = self.header();
        match self.below(6) {
            0 => {
                let n = self.below(3);
                let meta = self.metas[n];
                (LValue::Meta(meta), self.b.program.metadata[meta].bits)
            }
            1 => {
                let index = self.expr(3, 1);
                (LValue::Element { instance: self.array, field: FieldId(1), index }, 12)
            }
            2 => {
                let instance = self.headers[0];
                (LValue::FieldSlice { instance, field: FieldId(2), high: 40, low: 33 }, 8)
            }
            _ => {
                let (field, bits) = self.scalar(header);
                (LValue::Field(header, field), bits)
            }
        }
    }

    fn op(&mut self, ingress: bool) -> Op {
        let (header, stack) = (self.header(), self.stack);
        match self.below(16) {
            0 => Op::SetValid(header),
            1 => Op::SetInvalid(header),
            2 => Op::PushFront(stack, 1 + self.below(4) as u32),
            3 => Op::PopFront(stack, 1 + self.below(4) as u32),
            4 => Op::Truncate(self.expr(8, 1)),
            5 if self.below(4) == 0 => Op::Clone(self.expr(16, 0)),
            6 if ingress => Op::Set(LValue::Std(StdField::Color), self.expr(2, 1)),
            7 => Op::Count(CounterId(0), self.expr(4, 1)),
            8 => Op::UpdateCrc(CrcId(0)),
            9 => {
                let (to, bits) = self.lvalue();
                Op::Random { to, low: self.expr(bits, 0), high: self.expr(bits, 0) }
            }
            10 => Op::Learn {
                table: TableId(0),
                key: vec![self.expr(48, 1)],
                action: ActionId(2),
                args: vec![self.expr(16, 1)],
            },
            _ => {
                let (to, bits) = self.lvalue();
                Op::Set(to, self.expr(bits, 2))
            }
        }
    }

    fn ops(&mut self, ingress: bool) -> Vec<Op> {
        (0..self.below(5)).map(|_| self.op(ingress)).collect()
    }

    fn parser(&mut self) {
        self.in_parser = true;
        let states = 4;
        for _ in 0..states {
            let mut ops = Vec::new();
            for _ in 0..1 + self.below(3) {
                ops.push(match self.below(8) {
                    0 => ParserOp::ExtractNext(self.stack),
                    1 => ParserOp::Advance(self.expr(5, 0)),
                    2 => ParserOp::ExtractAt(self.headers[7], self.expr(6, 1)),
                    3 if self.below(2) == 0 => ParserOp::BodyEnd(self.expr(6, 1)),
                    _ => ParserOp::Extract(self.some_header()),
                });
            }
            let next = |maker: &mut Gen| match maker.below(states + 2) {
                n if n < states => Target::State(StateId(n as u32)),
                n if n == states => Target::Accept,
                _ => Target::Reject(BuiltinError::NoMatch.id()),
            };
            let keys = vec![self.expr(2, 1)];
            let patterns = [Pattern::Value(1), Pattern::Mask { value: 2, mask: 2 }];
            let cases = patterns.map(|pattern| Case {
                patterns: vec![pattern],
                to: next(self),
                span: None,
            });
            let default = next(self);
            self.b.state(ops, Transition::Select { keys, cases: cases.into(), default });
        }
        self.b.program.parser.max_states = 12;
        self.in_parser = false;
    }

    fn control(&mut self, ingress: bool) -> Body {
        let mut first = self.ops(ingress);
        if ingress && self.below(8) > 0 {
            first.push(self.b.set_std(StdField::EgressPort, 2));
        }
        let apply =
            Term::Apply { table: TableId(0), by_action: vec![], hit: BlockId(1), miss: BlockId(2) };
        let branch = |maker: &mut Gen| {
            let cond = maker.expr(1, 2);
            Term::Branch { cond, then: BlockId(2), otherwise: BlockId(3) }
        };
        let last = match self.below(6) {
            0 => Term::Punt(BuiltinReason::Dropped.id()),
            1 => Term::Exit,
            _ => Term::Return,
        };
        let middle = self.ops(ingress);
        let term = branch(self);
        let blocks = vec![
            block(first, apply),
            block(middle, term),
            block(self.ops(ingress), Term::Jump(BlockId(3))),
            block(self.ops(ingress), last),
        ];
        body(blocks)
    }

    fn deparser(&mut self) {
        let mut emit = self.headers[..7].to_vec();
        let by = self.below(7);
        emit.rotate_left(by);
        self.b.emit(&emit);
        let trailer = self.headers[7];
        let pad = self.expr(6, 1);
        let bytes = self.cast(pad, 32);
        self.b.program.deparser.after =
            vec![AfterBody::Pad { bytes, fill: 0xcc, when: None }, AfterBody::Header(trailer)];
        self.b.program.deparser.strip_slack = self.below(2) == 0;
        let header = |instance| Covered::Header { instance, ones: vec![] };
        let value = self.expr(24, 1);
        let (second, last) = (self.headers[1], self.headers[0]);
        let over = vec![
            Covered::Value(value),
            header(second),
            Covered::Body,
            header(last),
            Covered::After(0),
        ];
        let zero_means_none = self.below(2) == 0;
        let update = [Update::Always, Update::OnRequest][self.below(2)];
        self.b.program.checksums.push(Checksum {
            name: "sum".into(),
            field: (second, FieldId(1)),
            over: over.clone(),
            when: None,
            zero_means_none,
            verify: Verify::Count,
            update: Update::Incremental,
        });
        self.b.program.crcs.push(Crc {
            name: "crc".into(),
            field: (trailer, FieldId(1)),
            params: CrcParams {
                width: 32,
                poly: 0x04c1_1db7,
                init: 1,
                reflect: true,
                xor_out: 0,
                store_little_endian: false,
            },
            over,
            when: None,
            verify: Verify::Count,
            update,
        });
    }

    fn program(mut self) -> Program {
        self.b.program.counters.push(Counter { name: "c".into(), size: 8 });
        let port = self.b.local(0, 16);
        self.locals = 1;
        let mut ops = vec![Op::Set(LValue::Std(StdField::EgressPort), port)];
        ops.extend(self.ops(true).into_iter().filter(|op| !matches!(op, Op::Learn { .. })));
        self.b.action("act", &[("port", 16)], ops, Term::Return);
        self.locals = 0;
        let key = self.expr(48, 2);
        let actions = [ActionId(0), ActionId(2)];
        self.b.table("t", &[(key, MatchKind::Exact)], &actions, ActionId(0));
        self.parser();
        self.deparser();
        self.b.program.ingress = self.control(true);
        self.b.program.egress = self.control(false);
        self.b.program
    }
}

/// The result of each packet: verdict, descriptor, bytes.
fn run(program: &Program, packets: &[Vec<u8>], traced: bool) -> Vec<(Verdict, String, Vec<u8>)> {
    let memory = MemoryConfig { chunks: 8, chunk_bytes: 512, headroom_bytes: 32 };
    let mut rig = Rig::new(program.clone(), memory, 1);
    let mut all = Vec::new();
    for bytes in packets {
        let mut recorder = Recorder::default();
        let mut after = rig.packet(bytes);
        for half in Half::BOTH {
            if half == Half::Egress && after.meta.verdict() != Verdict::Forward {
                break;
            }
            match traced {
                true => rig.run(&mut after, half, Some(&mut recorder)),
                false => rig.run(&mut after, half, None),
            }
            let (packet, out) = (&after.packet, rig.bytes(&after));
            assert_eq!(out.len(), packet.len as usize, "the packet is inside its chunk");
            if after.meta.verdict() != Verdict::Drop {
                assert!(u32::from(packet.body_off) + packet.body_len <= packet.len);
            }
            if let Some(original) = &after.meta.original {
                let (off, len) = (after.meta.original_off, after.meta.original_len);
                assert_eq!(rig.memory.frame(original, off, len), &bytes[..]);
            }
            let shown = format!("{packet:?} {:?}", after.meta.reason());
            all.push((after.meta.verdict(), shown.replace(&format!("{:?}", packet.buf), ""), out));
        }
        assert!(!traced || !text::packet_trace(rig.state.program(), &recorder.events).is_empty());
        assert!(!traced || json::packet_trace(rig.state.program(), &recorder.events).is_array());
        rig.free(after);
        assert_eq!(rig.memory.free_chunks(), rig.memory.config().chunks);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_program_survives_any_packet(
        seed in any::<u64>(),
        packets in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..=480), 1..6),
    ) {
        let program = Gen::new(seed).program();
        let plain = run(&program, &packets, false);
        prop_assert_eq!(&plain, &run(&program, &packets, true));
    }

    /// Egress without a change returns the packet exactly as ingress left it.
    #[test]
    fn an_egress_that_does_nothing_changes_nothing(
        seed in any::<u64>(), bytes in proptest::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..300),
    ) {
        let mut program = Gen::new(seed).program();
        program.egress = Body::default();
        program.crcs[CrcId(0)].update = Update::OnRequest;
        // A pad must not depend on data that does not cross the queue, and slack is stripped once.
        program.deparser.after.remove(0);
        program.checksums[ChecksumId(0)].over.pop();
        program.crcs[CrcId(0)].over.pop();
        program.deparser.strip_slack = false;
        let all = run(&program, &[bytes], false);
        if let [ingress, egress] = &all[..] {
            prop_assert_eq!(&ingress.2, &egress.2);
        }
    }
}

/// The programs are good tests: most packets get through, headers are added and removed, every verdict occurs.
#[test]
fn random_programs_do_something() {
    let packets: Vec<Vec<u8>> = (0..4u8).map(|n| vec![n; 60 + 40 * usize::from(n)]).collect();
    let (mut forwarded, mut dropped, mut punted, mut changed, mut longer) = (0, 0, 0, 0, 0);
    for seed in 0..500 {
        let all = run(&Gen::new(seed).program(), &packets, false);
        for (verdict, _, out) in all {
            match verdict {
                Verdict::Forward => forwarded += 1,
                Verdict::Drop => dropped += 1,
                _ => punted += 1,
            }
            changed += usize::from(!packets.contains(&out));
            longer += usize::from(out.len() > 180);
        }
    }
    let seen = [forwarded, dropped, punted, changed, longer];
    assert!(seen.iter().all(|n| *n > 100), "{seen:?}");
}
