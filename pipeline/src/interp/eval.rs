//! Expressions.

use super::nodes::Node;
use super::pass::{End, Pass};
use crate::exec::flags;
use crate::externs::hash::Hasher;
use crate::ids::*;
use crate::ir::eval::{self, binary_word, unary_word};
use crate::ir::layout::{ones, read_run};
use crate::ir::{
    BinOp, BuiltinError, BuiltinReason, ExprKind, FieldLayout, HashAlgorithm, StdField,
};

impl<'a> Pass<'a> {
    /// The value of an expression; an out-of-range index or lookahead ends the pass or the parser.
    pub(super) fn eval(&self, id: ExprId) -> Result<u128, End> {
        self.unless_trapped(self.value(id))
    }

    /// The value, unless its evaluation failed.
    pub(super) fn unless_trapped<T>(&self, value: T) -> Result<T, End> {
        match self.trap.take() {
            None => Ok(value),
            Some(end) => Err(end),
        }
    }

    /// Records that the evaluation failed; the first failure counts.
    fn trapped(&self, end: End) -> u128 {
        self.trap.set(self.trap.take().or(Some(end)));
        0
    }

    /// The value, without a check for failure.
    fn value(&self, id: ExprId) -> u128 {
        match &self.engine.nodes[id.index()] {
            Node::General => self.wide(id),
            node => self.node(node).into(),
        }
    }

    /// The value of an expression that is nowhere wider than 64 bits: plain numbers in registers.
    #[inline]
    fn word(&self, id: ExprId) -> u64 {
        match &self.engine.nodes[id.index()] {
            Node::General => self.wide(id) as u64,
            Node::Const(value) => *value,
            Node::Field(field) => self.scratch.phv.quick(field),
            node => self.node(node),
        }
    }

    fn node(&self, node: &Node) -> u64 {
        match node {
            Node::Const(value) => *value,
            Node::Field(field) => self.scratch.phv.quick(field),
            Node::Valid(bit) => (self.scratch.phv.valid & bit != 0).into(),
            Node::Meta(meta) => self.scratch.phv.meta[meta.index()] as u64,
            Node::Local(local) => self.scratch.phv.locals[self.base + local.index()] as u64,
            Node::Unary { op, value, bits } => unary_word(*op, self.word(*value), *bits),
            Node::Binary { op, left, right, bits } => {
                let left = self.word(*left);
                match (op, left) {
                    (BinOp::LogicalAnd, 0) => 0,
                    (BinOp::LogicalOr, 1) => 1,
                    _ => binary_word(*op, left, self.word(*right), *bits),
                }
            }
            Node::Slice { value, low, mask } => self.word(*value) >> low & mask,
            Node::Concat { high, low, low_bits } => self.word(*high) << low_bits | self.word(*low),
            Node::Mux { cond, then, otherwise } => {
                self.word(if self.word(*cond) == 1 { *then } else { *otherwise })
            }
            // The caller evaluates such a node otherwise.
            Node::General => 0,
        }
    }

    /// The value of any expression.
    fn wide(&self, id: ExprId) -> u128 {
        let expr = &self.program.exprs[id];
        match &expr.kind {
            ExprKind::Const(value) => *value,
            ExprKind::Field(instance, field) => self.field(*instance, *field),
            ExprKind::Element { instance, field, index } => self.element(*instance, *field, *index),
            ExprKind::StackLast(stack, field) => {
                let last = self.stack(*stack).rev().find(|i| self.scratch.phv.is_valid(*i));
                last.map_or(0, |instance| self.field(instance, *field))
            }
            ExprKind::StackDepth(stack) => {
                self.stack(*stack).filter(|i| self.scratch.phv.is_valid(*i)).count() as u128
            }
            ExprKind::Valid(instance) => self.scratch.phv.is_valid(*instance).into(),
            ExprKind::Meta(meta) => self.scratch.phv.meta[meta.index()],
            ExprKind::Std(field) => self.std(*field),
            ExprKind::Local(local) => self.scratch.phv.locals[self.base + local.index()],
            ExprKind::Lookahead { offset_bits } => self.lookahead(*offset_bits, expr.bits),
            ExprKind::Cursor => u128::from(self.scalars.cursor_bits / 8),
            ExprKind::HeaderLength(instance) => self.scratch.phv.header(*instance).len() as u128,
            // Parts of a hash: alone they have no value.
            ExprKind::Bytes(..) | ExprKind::Body => 0,
            ExprKind::SameBytes(a, b) => (self.bytes_of(*a) == self.bytes_of(*b)).into(),
            ExprKind::Unary(op, a) => eval::unary(*op, self.value(*a), expr.bits),
            ExprKind::Binary(op, a, b) => {
                let left = self.value(*a);
                match (op, left) {
                    (BinOp::LogicalAnd, 0) => 0,
                    (BinOp::LogicalOr, 1) => 1,
                    _ => {
                        let width = self.program.exprs[*a].bits;
                        eval::binary(*op, left, self.value(*b), width)
                    }
                }
            }
            ExprKind::Slice { value, high, low } => {
                self.value(*value) >> low & ones(high - low + 1)
            }
            ExprKind::Concat(high, low) => {
                let low_bits = self.program.exprs[*low].bits;
                self.value(*high).checked_shl(low_bits).unwrap_or(0) | self.value(*low)
            }
            ExprKind::Cast(value) => self.value(*value) & ones(expr.bits),
            ExprKind::Mux(cond, then, otherwise) => {
                self.value(if self.value(*cond) == 1 { *then } else { *otherwise })
            }
            ExprKind::Hash(algorithm, operands) => self.hash(*algorithm, operands).into(),
        }
    }

    pub(super) fn layout(&self, instance: InstanceId, field: FieldId) -> &'a FieldLayout {
        &self.program.headers[self.program.instances[instance].header].fields[field].layout
    }

    /// A scalar field; 0 when the header is not valid.
    pub(super) fn field(&self, instance: InstanceId, field: FieldId) -> u128 {
        self.layout(instance, field).read(self.scratch.phv.header(instance))
    }

    /// First bit and width of an array element, or the drop for an index out of range.
    pub(super) fn element_place(
        &self,
        instance: InstanceId,
        field: FieldId,
        index: ExprId,
    ) -> Result<(u32, u32), End> {
        let index = self.eval(index)?;
        match self.layout(instance, field) {
            FieldLayout::Array { bit, bits, count } if index < u128::from(*count) => {
                Ok((bit + bits * index as u32, *bits))
            }
            _ => Err(End::Drop(BuiltinReason::ArrayIndex.id())),
        }
    }

    fn element(&self, instance: InstanceId, field: FieldId, index: ExprId) -> u128 {
        if !self.scratch.phv.is_valid(instance) {
            return 0;
        }
        match self.element_place(instance, field, index) {
            Ok((bit, bits)) => read_run(self.scratch.phv.header(instance), bit, bits),
            Err(end) => self.trapped(end),
        }
    }

    /// Elements of a stack, in order.
    pub(super) fn stack(
        &self,
        stack: StackId,
    ) -> impl DoubleEndedIterator<Item = InstanceId> + use<> {
        let stack = &self.program.stacks[stack];
        (stack.first.0..stack.first.0 + stack.len).map(InstanceId)
    }

    fn lookahead(&self, offset_bits: u32, bits: u32) -> u128 {
        let start = self.scalars.cursor_bits + u64::from(offset_bits);
        let bytes = self.bytes();
        if start + u64::from(bits) > bytes.len() as u64 * 8 {
            return self.trapped(End::Reject(BuiltinError::PacketTooShort.id()));
        }
        let rest = &bytes[(start / 8) as usize..];
        read_run(rest, (start % 8) as u32, bits)
    }

    /// The bytes of a variable part or of a field over 128 bits.
    pub(super) fn bytes_of(&self, (instance, field): (InstanceId, FieldId)) -> &[u8] {
        let header = self.scratch.phv.header(instance);
        let range = match *self.layout(instance, field) {
            FieldLayout::Variable { byte, .. } => byte as usize..header.len(),
            FieldLayout::Opaque { byte, bytes } => byte as usize..(byte + bytes) as usize,
            _ => return &[],
        };
        header.get(range).unwrap_or_default()
    }

    /// The hash of operands, each in whole bytes.
    pub(super) fn hash(&self, algorithm: HashAlgorithm, operands: &[ExprId]) -> u64 {
        let mut hasher = Hasher::new(algorithm);
        for operand in operands {
            let bits = self.program.exprs[*operand].bits;
            match &self.engine.nodes[operand.index()] {
                Node::General => match &self.program.exprs[*operand].kind {
                    ExprKind::Bytes(instance, field) => {
                        hasher.add(self.bytes_of((*instance, *field)));
                    }
                    ExprKind::Body => hasher.add(self.body()),
                    _ => hasher.add_value(self.wide(*operand), bits),
                },
                node => hasher.add_word(self.node(node), bits),
            }
        }
        hasher.finish()
    }

    /// Intrinsic metadata.
    fn std(&self, field: StdField) -> u128 {
        let (packet, meta) = (&*self.packet, &*self.meta);
        match field {
            StdField::IngressPort => packet.ingress_port.into(),
            StdField::IngressLink => packet.ingress_link.into(),
            StdField::PacketPath => packet.path.into(),
            StdField::PacketLength => (packet.len + self.scratch.missing).into(),
            StdField::IngressNs => packet.ingress_ns.into(),
            StdField::NowNs => meta.now_ns.into(),
            StdField::ParserError => meta.parser_error.into(),
            StdField::BodyLength => self.body_len().into(),
            StdField::EmitLength => (self.emit_len() + u64::from(self.body_len())).into(),
            StdField::ChecksumError => meta.checksum_error.into(),
            StdField::CrcError => meta.crc_error.into(),
            StdField::EgressPort => packet.egress_port.into(),
            StdField::MulticastGroup => meta.multicast_group.into(),
            StdField::TrafficClass => packet.traffic_class.into(),
            StdField::PriorityGroup => packet.priority_group.into(),
            StdField::Ect => (packet.flags & flags::ECT).into(),
            StdField::Color => (packet.flags >> flags::COLOR_SHIFT & 3).into(),
            StdField::NotBeforeNs => meta.not_before_ns.into(),
            StdField::HoldPackets => meta.hold_packets.into(),
            StdField::HoldTimeoutNs => meta.hold_timeout_ns.into(),
            StdField::Instance => packet.instance.into(),
            StdField::CongestionMark => meta.congestion_mark.into(),
            StdField::Trimmed => packet.is_trimmed().into(),
            StdField::EnqueueNs => meta.enqueue_ns.into(),
            StdField::DequeueNs => meta.dequeue_ns.into(),
            StdField::EnqueueDepthBytes => meta.enqueue_depth_bytes.into(),
            StdField::DequeueDepthBytes => meta.dequeue_depth_bytes.into(),
            StdField::EnqueueDepthPackets => meta.enqueue_depth_packets.into(),
            StdField::DequeueDepthPackets => meta.dequeue_depth_packets.into(),
        }
    }
}
