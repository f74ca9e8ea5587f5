//! Programs built by hand, and a rig that runs packets through them. For tests.

use crate::engine::{Context, Engine, NoDevice};
use crate::exec::{Descriptor, Intrinsic};
use crate::ids::*;
use crate::interp::Interp;
use crate::ir::*;
use crate::packet::{MemoryConfig, PacketMemory};
use crate::state::{State as RunState, StateOptions, Worker};
use crate::trace::TraceSink;
use std::sync::Arc;

pub(crate) struct Build {
    pub(crate) program: Program,
}

impl Build {
    pub(crate) fn new() -> Build {
        let mut program = Program { name: "built".into(), ..Program::default() };
        for reason in BuiltinReason::ALL {
            program.reasons.push(reason.name().into());
        }
        for error in BuiltinError::ALL {
            program.errors.push(error.name().into());
        }
        let mut build = Build { program };
        build.action("nop", &[], vec![], Term::Return);
        build.action("drop", &[], vec![], Term::Drop(BuiltinReason::Dropped.id()));
        build
    }

    /// A header of fields that follow each other, with an instance of its own.
    pub(crate) fn header(&mut self, name: &str, fields: &[(&str, u32)]) -> InstanceId {
        let mut at = 0;
        let field = |(name, bits): &(&str, u32)| {
            let layout = FieldLayout::Run { bit: at, bits: *bits };
            at += bits;
            Field {
                name: (*name).into(),
                bits: *bits,
                layout,
                display: Display::Hex,
                part_of: None,
            }
        };
        let fields = fields.iter().map(field).collect();
        let header = self.program.headers.push(Header {
            name: name.into(),
            fields,
            fixed_bytes: at / 8,
            max_bytes: at / 8,
            variable: None,
            controller: None,
            span: None,
        });
        self.instance(name, header)
    }

    pub(crate) fn instance(&mut self, name: &str, header: HeaderId) -> InstanceId {
        let name = name.into();
        self.program.instances.push(Instance { name, header, element: None, variable_bits: None })
    }

    pub(crate) fn type_of(&self, instance: InstanceId) -> HeaderId {
        self.program.instances[instance].header
    }

    pub(crate) fn expr(&mut self, kind: ExprKind, bits: u32) -> ExprId {
        self.program.exprs.push(Expr { kind, bits, span: None })
    }

    pub(crate) fn num(&mut self, value: u128, bits: u32) -> ExprId {
        self.expr(ExprKind::Const(value), bits)
    }

    pub(crate) fn fid(&self, instance: InstanceId, name: &str) -> FieldId {
        let fields = &self.program.headers[self.type_of(instance)].fields;
        fields.entries().find(|(_, field)| field.name == name).expect("a field of the header").0
    }

    pub(crate) fn field(&mut self, instance: InstanceId, name: &str) -> ExprId {
        let field = self.fid(instance, name);
        let bits = self.program.headers[self.type_of(instance)].fields[field].bits;
        self.expr(ExprKind::Field(instance, field), bits)
    }

    pub(crate) fn std(&mut self, field: StdField) -> ExprId {
        self.expr(ExprKind::Std(field), field.bits())
    }

    pub(crate) fn local(&mut self, n: u32, bits: u32) -> ExprId {
        self.expr(ExprKind::Local(LocalId(n)), bits)
    }

    pub(crate) fn bin(&mut self, op: BinOp, a: ExprId, b: ExprId) -> ExprId {
        let bits = if op.is_boolean() { 1 } else { self.program.exprs[a].bits };
        self.expr(ExprKind::Binary(op, a, b), bits)
    }

    pub(crate) fn valid(&mut self, instance: InstanceId) -> ExprId {
        self.expr(ExprKind::Valid(instance), 1)
    }

    pub(crate) fn meta(&mut self, name: &str, bits: u32, carried_at: Option<u32>) -> MetaId {
        let (name, display) = (name.into(), Display::Hex);
        if let Some(at) = carried_at {
            let end = at + bits.div_ceil(8);
            self.program.carried_bytes = self.program.carried_bytes.max(end);
        }
        self.program.metadata.push(Meta { name, bits, carried_at, display })
    }

    pub(crate) fn set(&self, instance: InstanceId, name: &str, value: ExprId) -> Op {
        Op::Set(LValue::Field(instance, self.fid(instance, name)), value)
    }

    pub(crate) fn set_std(&mut self, field: StdField, value: u128) -> Op {
        let value = self.num(value, field.bits());
        Op::Set(LValue::Std(field), value)
    }

    pub(crate) fn state(&mut self, ops: Vec<ParserOp>, next: Transition) -> StateId {
        let name = format!("s{}", self.program.parser.states.len());
        self.program.parser.states.push(State { name, ops, next, span: None })
    }

    /// A state that extracts and selects by the value of a field.
    pub(crate) fn select(&mut self, header: InstanceId, key: &str, cases: &[(u128, Target)]) {
        let keys = vec![self.field(header, key)];
        let case = |(value, to): &(u128, Target)| Case {
            patterns: vec![Pattern::Value(*value)],
            to: *to,
            span: None,
        };
        let cases = cases.iter().map(case).collect();
        let next = Transition::Select { keys, cases, default: Target::Accept };
        self.state(vec![ParserOp::Extract(header)], next);
    }

    pub(crate) fn accept(&mut self, ops: Vec<ParserOp>) {
        self.state(ops, Transition::To(Target::Accept));
    }

    pub(crate) fn action(
        &mut self,
        name: &str,
        params: &[(&str, u32)],
        ops: Vec<Op>,
        term: Term,
    ) -> ActionId {
        let mut body = body(vec![block(ops, term)]);
        let param = |(name, bits): &(&str, u32)| Param {
            name: (*name).into(),
            bits: *bits,
            display: Display::Hex,
        };
        for (name, bits) in params {
            body.locals.push(code::Local { name: (*name).into(), bits: *bits });
        }
        let (name, params) = (name.into(), params.iter().map(param).collect());
        self.program.actions.push(Action { name, params, body, span: None })
    }

    pub(crate) fn table(
        &mut self,
        name: &str,
        keys: &[(ExprId, wireyard_tables::MatchKind)],
        actions: &[ActionId],
        default: ActionId,
    ) -> TableId {
        let key = |(value, kind): &(ExprId, wireyard_tables::MatchKind)| Key {
            value: *value,
            field: MatchField {
                name: format!("k{value}"),
                bits: self.program.exprs[*value].bits,
                kind: *kind,
                display: Display::Hex,
            },
        };
        let keys = keys.iter().map(key).collect();
        self.program.tables.push(Table {
            name: name.into(),
            keys,
            actions: actions.to_vec(),
            default: ActionCall { action: default, args: vec![] },
            const_default: false,
            size: 1 << 16,
            entries: vec![],
            const_entries: false,
            counters: false,
            meter: None,
            idle_timeout_ms: None,
            removes_idle: false,
            selector: None,
            span: None,
        })
    }

    pub(crate) fn ingress(&mut self, ops: Vec<Op>) {
        self.program.ingress = body(vec![block(ops, Term::Return)]);
    }

    pub(crate) fn egress(&mut self, ops: Vec<Op>) {
        self.program.egress = body(vec![block(ops, Term::Return)]);
    }

    pub(crate) fn emit(&mut self, instances: &[InstanceId]) {
        self.program.deparser.emit = instances.to_vec();
    }

    pub(crate) fn rig(self) -> Rig {
        Rig::new(self.program, MemoryConfig::default(), 1)
    }
}

pub(crate) fn block(ops: Vec<Op>, term: Term) -> Block {
    let ops = ops.into_iter().map(|op| OpAt { op, span: None }).collect();
    Block { ops, term, span: None }
}

pub(crate) fn body(blocks: Vec<Block>) -> Body {
    Body { blocks: blocks.into_iter().collect(), locals: IdVec::new() }
}

/// Ethernet, IPv4 and the checksum of IPv4.
pub(crate) fn ethernet_ipv4(build: &mut Build) -> (InstanceId, InstanceId) {
    let ethernet = build.header("ethernet", &[("dst", 48), ("src", 48), ("ether_type", 16)]);
    let ipv4 = build.header(
        "ipv4",
        &[
            ("version", 4),
            ("ihl", 4),
            ("dscp", 6),
            ("ecn", 2),
            ("total_len", 16),
            ("id", 16),
            ("flags", 3),
            ("frag_offset", 13),
            ("ttl", 8),
            ("protocol", 8),
            ("checksum", 16),
            ("src", 32),
            ("dst", 32),
        ],
    );
    let next = Target::State(StateId(1));
    build.select(ethernet, "ether_type", &[(0x0800, next)]);
    build.accept(vec![ParserOp::Extract(ipv4)]);
    build.emit(&[ethernet, ipv4]);
    let when = Some(build.valid(ipv4));
    build.program.checksums.push(Checksum {
        name: "ipv4.checksum".into(),
        field: (ipv4, build.fid(ipv4, "checksum")),
        over: vec![Covered::Header { instance: ipv4, ones: vec![] }],
        when,
        zero_means_none: false,
        verify: Verify::Count,
        update: Update::Incremental,
    });
    (ethernet, ipv4)
}

/// A program, its state and one worker.
pub(crate) struct Rig {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) state: RunState,
    pub(crate) worker: Worker,
    pub(crate) memory: PacketMemory,
}

/// A packet after a pass.
pub(crate) struct After {
    pub(crate) packet: Descriptor,
    pub(crate) meta: Intrinsic,
}

impl Rig {
    pub(crate) fn new(program: Program, memory: MemoryConfig, workers: usize) -> Rig {
        let program = Arc::new(program);
        let options = StateOptions { seed: 7, workers, ..StateOptions::default() };
        let state = RunState::new(&program, options).expect("the program loads");
        Rig {
            engine: Box::new(Interp::new(program)),
            worker: state.worker(0),
            state,
            memory: PacketMemory::guarded(memory).expect("memory"),
        }
    }

    pub(crate) fn packet(&mut self, bytes: &[u8]) -> After {
        let buf = self.memory.alloc_frame(bytes).expect("a chunk");
        let off = self.memory.config().headroom_bytes as u16;
        let packet = Descriptor::received(buf, off, bytes.len() as u32, 1, 0);
        After { packet, meta: Intrinsic::default() }
    }

    pub(crate) fn run(&mut self, after: &mut After, half: Half, trace: Option<&mut dyn TraceSink>) {
        let mut cx = Context {
            state: &self.state,
            worker: &mut self.worker,
            memory: &mut self.memory,
            device: &mut NoDevice,
            trace: trace.map(|sink| sink as &mut dyn TraceSink),
        };
        let (packets, meta) =
            (std::slice::from_mut(&mut after.packet), std::slice::from_mut(&mut after.meta));
        match half {
            Half::Ingress => self.engine.ingress(&mut cx, packets, meta),
            Half::Egress => self.engine.egress(&mut cx, packets, meta),
        }
    }

    pub(crate) fn ingress(&mut self, bytes: &[u8]) -> After {
        let mut after = self.packet(bytes);
        self.run(&mut after, Half::Ingress, None);
        after
    }

    pub(crate) fn egress(&mut self, mut after: After) -> After {
        self.run(&mut after, Half::Egress, None);
        after
    }

    pub(crate) fn bytes(&self, after: &After) -> Vec<u8> {
        let buf = after.packet.buf.as_ref().expect("a buffer");
        self.memory.frame(buf, after.packet.data_off, after.packet.len).to_vec()
    }

    pub(crate) fn free(&mut self, mut after: After) {
        for buf in [after.packet.buf.take(), after.meta.original.take()].into_iter().flatten() {
            self.memory.free(buf);
        }
    }
}
