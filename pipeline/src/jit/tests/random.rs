//! Random programs that the engines accept, and packets for them.

use crate::ids::*;
use crate::interp::tests::build::{Build, block, body};
use crate::ir::decl::{CARRIED_INLINE_BYTES, CARRIED_MARK_AT};
use crate::ir::layout::ones;
use crate::ir::*;
use wireyard_tables::{Match, MatchKind};

/// A source of decisions.
pub(super) struct Random {
    state: u64,
}

/// The names that expressions may read and statements may write.
struct Scope {
    fields: Vec<(InstanceId, FieldId, u32)>,
    instances: Vec<InstanceId>,
    metas: Vec<(MetaId, u32)>,
    locals: Vec<(LocalId, u32)>,
    counter: CounterId,
    register: RegisterId,
    actions: Vec<ActionId>,
    tables: Vec<TableId>,
    egress: bool,
    specialised: bool,
}

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random { state: seed ^ 0x9e37_79b9_7f4a_7c15 }
    }

    fn next(&mut self) -> u64 {
        // splitmix64
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let n = self.below(from.len());
        from[n].clone()
    }

    fn value(&mut self, bits: u32) -> u128 {
        let wide = u128::from(self.next()) << 64 | u128::from(self.next());
        let small = u128::from(self.next() % 5);
        let value = match self.below(4) {
            0 => small,
            1 => ones(bits).wrapping_sub(small),
            _ => wide,
        };
        value & ones(bits)
    }

    fn width(&mut self) -> u32 {
        match self.below(6) {
            0 => 1,
            1 => self.pick(&[8, 16, 32, 48, 64, 128]),
            2 => 65 + self.below(64) as u32,
            _ => 1 + self.below(64) as u32,
        }
    }

    pub(super) fn packet(&mut self) -> Vec<u8> {
        let len = match self.below(3) {
            0 => self.below(40),
            _ => 30 + self.below(150),
        };
        (0..len)
            .map(|_| if self.chance(60) { self.below(3) as u8 } else { self.next() as u8 })
            .collect()
    }

    fn header(&mut self, build: &mut Build, name: &str) -> InstanceId {
        let mut fields = vec![("kind".to_string(), 8)];
        let mut bits = 8;
        for n in 0..1 + self.below(5) {
            let width = self.width();
            fields.push((format!("f{n}"), width));
            bits += width;
        }
        if bits % 8 != 0 {
            fields.push(("pad".into(), 8 - bits % 8));
        }
        fields.push(("sum".into(), 16));
        let fields: Vec<(&str, u32)> = fields.iter().map(|(n, b)| (n.as_str(), *b)).collect();
        build.header(name, &fields)
    }

    pub(super) fn program(&mut self) -> Program {
        let mut build = Build::new();
        let specialised = self.chance(60);
        let instances: Vec<InstanceId> =
            (0..2 + self.below(3)).map(|n| self.header(&mut build, &format!("h{n}"))).collect();
        self.parser(&mut build, &instances, specialised);
        let mut emit = instances.clone();
        if !specialised && self.chance(30) {
            emit.reverse();
        }
        build.emit(&emit);
        let mut metas = Vec::new();
        // In the descriptor as far as there is room before the byte that marks more, which is in the chunk.
        let (mut inline, mut in_chunk) = (0, self.chance(25).then_some(CARRIED_INLINE_BYTES));
        for n in 0..3 {
            let bits = self.width();
            let bytes = bits.div_ceil(8);
            let room = if in_chunk.is_some() { CARRIED_MARK_AT } else { CARRIED_INLINE_BYTES };
            let next = if inline + bytes <= room { Some(&mut inline) } else { in_chunk.as_mut() };
            let at = next.filter(|_| self.chance(50)).map(|next| {
                *next += bytes;
                *next - bytes
            });
            metas.push((build.meta(&format!("m{n}"), bits, at), bits));
        }
        let size = 8;
        let counter = build.program.counters.push(Counter { name: "c".into(), size });
        let cells = (0..2)
            .map(|n| code::Local { name: format!("x{n}"), bits: 1 + self.below(64) as u32 })
            .collect();
        let register = build.program.registers.push(Register { name: "r".into(), cells, size });
        let mut fields = Vec::new();
        for instance in &instances {
            let header = &build.program.headers[build.type_of(*instance)];
            fields.extend(header.fields.entries().map(|(id, f)| (*instance, id, f.bits)));
        }
        let mut scope = Scope {
            fields,
            instances: instances.clone(),
            metas,
            locals: Vec::new(),
            counter,
            register,
            actions: vec![ActionId(0), ActionId(1)],
            tables: Vec::new(),
            egress: false,
            specialised,
        };
        self.checksums(&mut build, &instances, specialised);
        self.actions(&mut build, &mut scope);
        for n in 0..3 {
            let table = self.table(&mut build, &scope, n);
            scope.tables.push(table);
        }
        build.program.ingress = self.control(&mut build, &mut scope);
        scope.egress = true;
        build.program.egress = self.control(&mut build, &mut scope);
        if self.chance(50) {
            let (instance, field, bits) = self.pick(&scope.fields);
            let value = build.expr(ExprKind::Field(instance, field), bits);
            let (value, present) = (build.expr(ExprKind::Cast(value), 6), build.valid(instance));
            build.program.qos.dscp = Some((value, present));
        }
        build.program
    }

    fn checksums(&mut self, build: &mut Build, instances: &[InstanceId], specialised: bool) {
        for instance in instances {
            if self.chance(40) {
                let field = (*instance, build.fid(*instance, "sum"));
                let mut over = vec![Covered::Header { instance: *instance, ones: vec![] }];
                if self.chance(30) {
                    over.push(Covered::Header { instance: self.pick(instances), ones: vec![] });
                }
                if !specialised && self.chance(30) {
                    over.push(Covered::Body);
                }
                let when = self.chance(50).then(|| build.valid(*instance));
                build.program.checksums.push(Checksum {
                    name: "sum".into(),
                    field,
                    over,
                    when,
                    zero_means_none: self.chance(30),
                    verify: self.pick(&[Verify::Off, Verify::Off, Verify::Count, Verify::Drop]),
                    update: self.pick(&[
                        Update::Incremental,
                        Update::Incremental,
                        Update::Always,
                        Update::Never,
                    ]),
                });
            }
        }
    }

    fn parser(&mut self, build: &mut Build, instances: &[InstanceId], specialised: bool) {
        build.program.parser.drop_on_error = self.chance(30);
        let count = instances.len();
        for (n, instance) in instances.iter().enumerate() {
            let key = build.field(*instance, "kind");
            let mut targets = vec![Target::Accept];
            targets.extend((n + 1..count).map(|next| Target::State(StateId(next as u32))));
            if !specialised && self.chance(30) {
                targets.push(Target::State(StateId(self.below(count) as u32)));
            }
            targets.push(Target::Reject(ErrorId(2)));
            let cases = (0..self.below(4)).map(|_| Case {
                patterns: vec![match self.below(4) {
                    0 => Pattern::Mask { value: 0, mask: 1 + self.below(3) as u128 },
                    1 => Pattern::Range { low: 1, high: 1 + self.below(4) as u128 },
                    _ => Pattern::Value(self.below(4) as u128),
                }],
                to: self.pick(&targets),
                span: None,
            });
            let cases = cases.collect();
            let default = self.pick(&targets);
            let mut ops = vec![ParserOp::Extract(*instance)];
            if !specialised && self.chance(15) {
                let bits = build.num(8 * self.below(3) as u128, 16);
                ops.push(ParserOp::Advance(bits));
            }
            if self.chance(20) {
                let (zero, kind) = (build.num(7, 8), build.field(*instance, "kind"));
                let cond = build.bin(BinOp::Ne, kind, zero);
                ops.push(ParserOp::Verify(cond, ErrorId(4)));
            }
            build.state(ops, Transition::Select { keys: vec![key], cases, default });
        }
        build.program.parser.max_states = 6;
    }

    fn actions(&mut self, build: &mut Build, scope: &mut Scope) {
        for n in 0..3 {
            let params: Vec<(String, u32)> =
                (0..self.below(3)).map(|p| (format!("p{p}"), self.width())).collect();
            let params: Vec<(&str, u32)> = params.iter().map(|(n, b)| (n.as_str(), *b)).collect();
            scope.locals =
                params.iter().enumerate().map(|(n, p)| (LocalId(n as u32), p.1)).collect();
            let ops = (0..1 + self.below(4)).flat_map(|_| self.op(build, scope)).collect();
            let term = if self.chance(8) { Term::Drop(ReasonId(2)) } else { Term::Return };
            let action = build.action(&format!("a{n}"), &params, ops, term);
            let cells = build.program.registers[scope.register].cells.clone();
            cells.iter().for_each(|cell| {
                build.program.actions[action].body.locals.push(cell.clone());
            });
            scope.locals.clear();
            scope.actions.push(action);
        }
    }

    fn table(&mut self, build: &mut Build, scope: &Scope, n: usize) -> TableId {
        let lpm = self.chance(40);
        let ternary = !lpm && self.chance(30);
        let mut keys = Vec::new();
        for _ in 0..if lpm { 1 } else { 1 + self.below(3) } {
            let bits = self.pick(&[1, 8, 12, 32, 48, 64, 100]);
            let kind = match (lpm, ternary) {
                (true, _) => MatchKind::Lpm,
                (_, true) => MatchKind::Ternary,
                _ => MatchKind::Exact,
            };
            keys.push((self.expr(build, scope, bits, 1), kind, bits));
        }
        let list: Vec<(ExprId, MatchKind)> = keys.iter().map(|(e, k, _)| (*e, *k)).collect();
        let default = ActionId(0);
        let table = build.table(&format!("t{n}"), &list, &scope.actions, default);
        build.program.tables[table].counters = self.chance(50);
        build.program.tables[table].idle_timeout_ms = self.chance(30).then_some(1000);
        let mut seen = Vec::new();
        for priority in 0..self.below(30) as u32 {
            let matches: Vec<Match> =
                keys.iter().map(|(_, kind, bits)| self.entry(*kind, *bits)).collect();
            if seen.contains(&matches) {
                continue;
            }
            seen.push(matches.clone());
            let action = self.pick(&scope.actions);
            let params = build.program.actions[action].params.clone();
            let args = params.iter().map(|p| self.value(p.bits)).collect();
            build.program.tables[table].entries.push(TableEntry {
                matches,
                priority: if ternary { priority + 1 } else { 0 },
                call: ActionCall { action, args },
                idle_timeout_ms: 0,
                meter: None,
                is_const: false,
            });
        }
        table
    }

    fn entry(&mut self, kind: MatchKind, bits: u32) -> Match {
        let value =
            if self.chance(70) { self.below(4) as u128 & ones(bits) } else { self.value(bits) };
        match kind {
            MatchKind::Lpm => {
                let prefix_len = self.below(bits as usize + 1) as u32;
                let mask = ones(bits) & !ones(bits - prefix_len);
                Match::Lpm { value: value & mask, prefix_len }
            }
            MatchKind::Ternary => {
                let mask = self.value(bits);
                Match::Ternary { value: value & mask, mask }
            }
            _ => Match::Exact(value),
        }
    }

    fn control(&mut self, build: &mut Build, scope: &mut Scope) -> Body {
        let locals: Vec<code::Local> =
            (0..4).map(|n| code::Local { name: format!("l{n}"), bits: self.width() }).collect();
        scope.locals =
            locals.iter().enumerate().map(|(n, l)| (LocalId(n as u32), l.bits)).collect();
        let count = 4 + self.below(4) as u32;
        let mut blocks = Vec::new();
        for n in 0..count {
            let mut ops: Vec<Op> = (0..self.below(4)).flat_map(|_| self.op(build, scope)).collect();
            if n == 0 && !scope.egress {
                ops.push(build.set_std(StdField::EgressPort, 3));
            }
            let later = |random: &mut Random| {
                BlockId(n + 1 + random.below((count - n - 1) as usize) as u32)
            };
            let term = match self.below(10) {
                _ if n + 1 == count => Term::Return,
                0..4 => {
                    let table = self.pick(&scope.tables);
                    let by_action = match self.chance(30) {
                        true => vec![(self.pick(&scope.actions), later(self))],
                        false => vec![],
                    };
                    Term::Apply { table, by_action, hit: later(self), miss: later(self) }
                }
                4..8 => {
                    let cond = self.expr(build, scope, 1, 3);
                    Term::Branch { cond, then: later(self), otherwise: later(self) }
                }
                8 => {
                    let value = self.expr(build, scope, 8, 2);
                    let cases = vec![(0, later(self)), (1, later(self))];
                    Term::Switch { value, cases, default: later(self) }
                }
                _ => {
                    let to = later(self);
                    self.pick(&[Term::Exit, Term::Punt(ReasonId(2)), Term::Jump(to)])
                }
            };
            blocks.push(block(ops, term));
        }
        let mut body = body(blocks);
        locals.into_iter().for_each(|local| {
            body.locals.push(local);
        });
        let cells = build.program.registers[scope.register].cells.clone();
        cells.into_iter().for_each(|cell| {
            body.locals.push(cell);
        });
        scope.locals.clear();
        body
    }

    fn op(&mut self, build: &mut Build, scope: &Scope) -> Vec<Op> {
        // Path-specialised code can add and remove headers; the further operations are left to generic code.
        let kinds = if scope.specialised { 14 } else { 20 };
        match self.below(kinds) {
            0..6 => {
                let (instance, field, bits) = self.pick(&scope.fields);
                let value = self.expr(build, scope, bits, 3);
                vec![Op::Set(LValue::Field(instance, field), value)]
            }
            6 => {
                let (instance, field, bits) = self.pick(&scope.fields);
                let low = self.below(bits as usize) as u32;
                let high = low + self.below((bits - low) as usize) as u32;
                let value = self.expr(build, scope, high - low + 1, 2);
                vec![Op::Set(LValue::FieldSlice { instance, field, high, low }, value)]
            }
            7 => {
                let (meta, bits) = self.pick(&scope.metas);
                let value = self.expr(build, scope, bits, 3);
                vec![Op::Set(LValue::Meta(meta), value)]
            }
            8 if !scope.locals.is_empty() => {
                let (local, bits) = self.pick(&scope.locals);
                let value = self.expr(build, scope, bits, 3);
                vec![Op::Set(LValue::Local(local), value)]
            }
            9 => {
                let index = self.expr(build, scope, 4, 2);
                vec![Op::Count(scope.counter, index)]
            }
            10 if !scope.egress => {
                let field = self.pick(&[
                    StdField::TrafficClass,
                    StdField::Color,
                    StdField::Ect,
                    StdField::HoldPackets,
                ]);
                let value = self.expr(build, scope, field.bits(), 2);
                vec![Op::Set(LValue::Std(field), value)]
            }
            11 => {
                // The cells are the locals after all others.
                let first = LocalId(scope.locals.len() as u32);
                let index = self.expr(build, scope, 4, 1);
                let register = scope.register;
                let (locked, cells) = (true, vec![0, 1]);
                let cell = build.program.registers[register].cells[0].bits;
                let (old, more) =
                    (build.expr(ExprKind::Local(first), cell), self.expr(build, scope, cell, 2));
                let new = build.bin(BinOp::Add, old, more);
                vec![
                    Op::RegisterLoad { register, index, first, locked },
                    Op::Set(LValue::Local(first), new),
                    Op::RegisterStore { register, index, first, cells, locked },
                ]
            }
            12 => vec![Op::SetValid(self.pick(&scope.instances))],
            13 => vec![Op::SetInvalid(self.pick(&scope.instances))],
            14 => {
                let bytes = build.num(self.below(120) as u128, 32);
                vec![Op::Truncate(bytes)]
            }
            15 => {
                let session = build.num(self.below(5) as u128, 16);
                vec![Op::Clone(session)]
            }
            16 => {
                let (low, high) = (build.num(3, 16), build.num(900, 16));
                let (meta, _) = scope.metas[0];
                let bits = build.program.metadata[meta].bits;
                if bits < 16 {
                    vec![]
                } else {
                    vec![Op::Random { to: LValue::Meta(meta), low, high }]
                }
            }
            17 => vec![Op::Recirculate, Op::MarkWritten],
            _ => vec![],
        }
    }

    fn leaf(&mut self, build: &mut Build, scope: &Scope, bits: u32) -> ExprId {
        let (value, have) = match self.below(8) {
            0..4 => {
                let (instance, field, bits) = self.pick(&scope.fields);
                (build.expr(ExprKind::Field(instance, field), bits), bits)
            }
            4 => {
                let (meta, bits) = self.pick(&scope.metas);
                (build.expr(ExprKind::Meta(meta), bits), bits)
            }
            5 if !scope.locals.is_empty() => {
                let (local, bits) = self.pick(&scope.locals);
                (build.expr(ExprKind::Local(local), bits), bits)
            }
            6 => {
                let instance = self.pick(&scope.instances);
                (build.valid(instance), 1)
            }
            7 => {
                let field = self.pick(&[
                    StdField::PacketLength,
                    StdField::IngressPort,
                    StdField::ParserError,
                    StdField::BodyLength,
                    StdField::EmitLength,
                    StdField::EgressPort,
                    StdField::TrafficClass,
                    StdField::Color,
                    StdField::ChecksumError,
                    StdField::CongestionMark,
                    StdField::Trimmed,
                ]);
                (build.std(field), field.bits())
            }
            _ => {
                let value = self.value(bits);
                return build.num(value, bits);
            }
        };
        if have == bits { value } else { build.expr(ExprKind::Cast(value), bits) }
    }

    fn expr(&mut self, build: &mut Build, scope: &Scope, bits: u32, depth: u32) -> ExprId {
        use BinOp::*;
        if depth == 0 {
            return self.leaf(build, scope, bits);
        }
        let less = depth - 1;
        match self.below(10) {
            0 | 1 => self.leaf(build, scope, bits),
            2 if bits == 1 => {
                let width = self.width();
                let (a, b) =
                    (self.expr(build, scope, width, less), self.expr(build, scope, width, less));
                let op = self.pick(&[Eq, Ne, Lt, Le, SignedLt, SignedLe]);
                build.bin(op, a, b)
            }
            3 if bits == 1 => {
                let (a, b) = (self.expr(build, scope, 1, less), self.expr(build, scope, 1, less));
                let op = self.pick(&[LogicalAnd, LogicalOr]);
                build.bin(op, a, b)
            }
            2..6 => {
                let (a, b) =
                    (self.expr(build, scope, bits, less), self.expr(build, scope, bits, less));
                let op = self.pick(&[Add, Sub, Mul, Rem, SatAdd, SatSub, And, Or, Xor]);
                build.bin(op, a, b)
            }
            6 => {
                let width = self.width();
                let (a, b) =
                    (self.expr(build, scope, bits, less), self.expr(build, scope, width, less));
                let op = self.pick(&[Shl, Shr]);
                build.bin(op, a, b)
            }
            7 => {
                let a = self.expr(build, scope, bits, less);
                let op = match bits {
                    1 => UnOp::Not,
                    _ => self.pick(&[UnOp::Complement, UnOp::Negate]),
                };
                build.expr(ExprKind::Unary(op, a), bits)
            }
            8 => {
                let cond = self.expr(build, scope, 1, less);
                let (a, b) =
                    (self.expr(build, scope, bits, less), self.expr(build, scope, bits, less));
                build.expr(ExprKind::Mux(cond, a, b), bits)
            }
            _ => self.wide(build, scope, bits, less),
        }
    }

    fn wide(&mut self, build: &mut Build, scope: &Scope, bits: u32, less: u32) -> ExprId {
        match self.below(3) {
            0 if bits > 1 => {
                let low = 1 + self.below(bits as usize - 1) as u32;
                let (a, b) =
                    (self.expr(build, scope, bits - low, less), self.expr(build, scope, low, less));
                build.expr(ExprKind::Concat(a, b), bits)
            }
            1 => {
                let low = self.below((129 - bits) as usize) as u32;
                let width = low + bits + self.below((129 - bits - low) as usize) as u32;
                let value = self.expr(build, scope, width, less);
                build.expr(ExprKind::Slice { value, high: low + bits - 1, low }, bits)
            }
            _ => {
                let width = self.width();
                let value = self.expr(build, scope, width, less);
                let algorithm = self.pick(&[HashAlgorithm::Crc32, HashAlgorithm::Xor16]);
                let hash = build.expr(ExprKind::Hash(algorithm, vec![value]), algorithm.bits());
                build.expr(ExprKind::Cast(hash), bits)
            }
        }
    }
}
