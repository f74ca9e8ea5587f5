//! Emission: from IR and [`super::plan`] to Cranelift's IR. The state and helpers that its parts share.
//!
//! Values of up to 64 bits are `i64`, wider ones `i128`, always zero-extended. Validity, metadata and locals are
//! variables, so that they are in registers; before a step of the interpreter they are written to its places, and read
//! back after it. Two shapes of code are generated:
//!
//! * **Generic**: headers are copied into the worker's header vector as the interpreter does, and written back at the
//!   end. See [`generic`].
//! * **Path-specialised**: one copy of the control for each path through the parser, so that
//!   validity and offsets are constants; fields are read and written in the packet. See [`path`].

mod apply;
mod burst;
mod checksums;
mod control;
mod expr;
mod field;
pub(super) mod fused;
mod generic;
mod hash;
mod header_edits;
pub(super) mod headers;
mod lookup;
mod ops;
mod parser;
mod path;
mod raw;
mod select_keys;
mod synthesized;

use super::compiled::{Facts, Tables};
use super::error::{Budget, CompileError, OPERATIONS_MAX, internal};
use super::plan::Control;
use super::plan::tables::Search;
use super::plan::validity::KnownValidity;
use super::runtime::Helper;
use super::vm_context::{VALUE_BYTES, VALUES_MAX};
use crate::ids::*;
use crate::ir::{Program, SourceSpan};
use crate::phv::bit;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I16, I32, I64, I128};
use cranelift_codegen::ir::{Block, FuncRef, InstBuilder, MemFlagsData, Type, Value};
use cranelift_codegen::isa::TargetFrontendConfig;
use cranelift_frontend::{FunctionBuilder, Variable};

/// The code of one control.
pub(super) struct Emit<'g> {
    pub(super) b: FunctionBuilder<'g>,
    target: TargetFrontendConfig,
    pub(super) program: &'g Program,
    pub(super) facts: &'g Facts,
    pub(super) lists: &'g mut Tables,
    /// How each table is searched.
    searches: &'g [Search],
    /// Every helper, then the rarely called form of every helper.
    pub(super) helpers: &'g [FuncRef],
    pub(super) vm: Value,
    /// The descriptor, the intrinsic metadata, the header vector: addresses.
    pub(super) packet: Value,
    pub(super) meta: Value,
    /// First byte of the packet's chunk, in path-specialised code.
    pub(super) chunk: Value,
    pub(super) phv: Value,
    valid: Variable,
    received: Variable,
    cursor_bits: Variable,
    metas: Vec<(Variable, u32)>,
    locals: Vec<(Variable, u32)>,
    /// The target of a pass that ends early; its parameter is the end as a number.
    fail: Block,
    /// The parser is being generated.
    in_parser: bool,
    /// The cursor may be inside a byte: the current state advances it.
    inside_byte: bool,
    /// The code is for a burst, path-specialised.
    is_burst: bool,
    /// The control, with the facts for analyses.
    pub(super) control: Control<'g>,
    /// In generic code, the known validity of the packet's headers.
    known_validity: KnownValidity,
    /// In path-specialised code, the packet and the facts on its path.
    on_path: Option<path::OnPath>,
    /// In path-specialised code, the decisions of ingress.
    decisions: Option<burst::Decisions>,
    /// In path-specialised code, the egress that follows ingress.
    following: Option<fused::Following<'g>>,
    /// At the end of ingress, the port by which the packet may leave at once; `NO_PORT` for a punted packet.
    gate: Option<Variable>,
    /// The checksums that follow changes on this path.
    followed: Vec<checksums::Following>,
    /// Headers that the control adds, as far as they are in registers.
    synthesized: Vec<synthesized::Synthesized>,
    budget: usize,
}

/// The type for a width.
pub(super) fn type_of(bits: u32) -> Type {
    if bits <= 64 { I64 } else { I128 }
}

/// Flags of memory that exists, is read before or after everything else, and may be unaligned.
pub(super) fn flags() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

macro_rules! vm_offset {
    ($field:ident) => {
        std::mem::offset_of!(crate::jit::vm_context::VmContext, $field) as i32
    };
}
pub(super) use vm_offset;

/// Offset of a field of [`Scalars`] in the vm.
macro_rules! scalar_offset {
    ($field:ident) => {
        (std::mem::offset_of!(crate::jit::vm_context::VmContext, scalars)
            + std::mem::offset_of!(crate::interp::bridge::Scalars, $field)) as i32
    };
}
pub(super) use scalar_offset;

impl<'g> Emit<'g> {
    pub(super) fn new(
        mut b: FunctionBuilder<'g>,
        control: Control<'g>,
        facts: &'g Facts,
        lists: &'g mut Tables,
        searches: &'g [Search],
        helpers: &'g [FuncRef],
        target: TargetFrontendConfig,
    ) -> Emit<'g> {
        let program = control.program;
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let vm = b.block_params(entry)[0];
        let fail = b.create_block();
        b.append_block_param(fail, I64);
        let valid = b.declare_var(I64);
        let received = b.declare_var(I64);
        let cursor_bits = b.declare_var(I64);
        let metas =
            program.metadata.iter().map(|m| (b.declare_var(type_of(m.bits)), m.bits)).collect();
        let zero = b.ins().iconst(I64, 0);
        let mut emit = Emit {
            b,
            target,
            program,
            facts,
            lists,
            searches,
            helpers,
            vm,
            packet: zero,
            meta: zero,
            chunk: zero,
            phv: zero,
            valid,
            received,
            cursor_bits,
            metas,
            locals: Vec::new(),
            fail,
            in_parser: false,
            inside_byte: false,
            is_burst: false,
            control,
            known_validity: KnownValidity::default(),
            on_path: None,
            decisions: None,
            following: None,
            gate: None,
            followed: Vec::new(),
            synthesized: Vec::new(),
            budget: OPERATIONS_MAX,
        };
        for var in [valid, received, cursor_bits] {
            emit.b.def_var(var, zero);
        }
        emit
    }

    fn finish(mut self) {
        self.b.seal_all_blocks();
        self.b.finalize(self.target);
    }

    /// Sets the source place of the code generated from here on; for listings.
    pub(super) fn at(&mut self, span: Option<SourceSpan>) {
        if let Some(spans) = &mut self.lists.spans {
            self.b.set_srcloc(spans.number(span));
        }
    }

    pub(super) fn spend(&mut self, operations: usize) -> Result<(), CompileError> {
        self.budget = self.budget.checked_sub(operations).ok_or(Budget::Operations)?;
        Ok(())
    }

    pub(super) fn num(&mut self, value: u64) -> Value {
        self.b.ins().iconst(I64, value as i64)
    }

    /// A constant of a width.
    pub(super) fn constant(&mut self, value: u128, bits: u32) -> Value {
        let low = self.num(value as u64);
        if bits <= 64 {
            return low;
        }
        let high = self.num((value >> 64) as u64);
        self.b.ins().iconcat(low, high)
    }

    /// Low and high word of a value of this width.
    pub(super) fn words(&mut self, value: Value, bits: u32) -> (Value, Value) {
        if bits > 64 {
            return self.b.ins().isplit(value);
        }
        (value, self.num(0))
    }

    /// The value cut or extended from one width to another; without masking.
    pub(super) fn resize(&mut self, value: Value, from: u32, to: u32) -> Value {
        match (from > 64, to > 64) {
            (true, false) => self.b.ins().isplit(value).0,
            (false, true) => {
                let zero = self.num(0);
                self.b.ins().iconcat(value, zero)
            }
            _ => value,
        }
    }

    /// The value with the bits above its width cleared.
    pub(super) fn masked(&mut self, value: Value, bits: u32) -> Value {
        if bits == 64 || bits == 128 {
            return value;
        }
        let mask = self.constant(crate::ir::layout::ones(bits), bits);
        self.b.ins().band(value, mask)
    }

    pub(super) fn load64(&mut self, base: Value, offset: i32) -> Value {
        self.b.ins().load(I64, flags(), base, offset)
    }

    /// Flags for memory that is constant and valid for the length of a burst: the generator may load it earlier or once
    /// for all packets.
    pub(super) fn fixed(&self) -> MemFlagsData {
        if self.is_burst { flags().with_readonly().with_can_move() } else { flags() }
    }

    /// A word of the context, or of what it points to, that is the same for all packets of a burst.
    pub(super) fn fixed64(&mut self, base: Value, offset: i32) -> Value {
        let fixed = self.fixed();
        self.b.ins().load(I64, fixed, base, offset)
    }

    /// The same for 32 bits, zero-extended.
    pub(super) fn fixed32(&mut self, base: Value, offset: i32) -> Value {
        let fixed = self.fixed();
        let word = self.b.ins().load(I32, fixed, base, offset);
        self.b.ins().uextend(I64, word)
    }

    /// Loads `bytes` (1, 2, 4 or 8), zero-extended.
    pub(super) fn load_word(&mut self, base: Value, offset: i32, bytes: u32) -> Value {
        match bytes {
            1 => self.b.ins().uload8(I64, flags(), base, offset),
            2 => self.b.ins().uload16(I64, flags(), base, offset),
            4 => self.b.ins().uload32(flags(), base, offset),
            _ => self.load64(base, offset),
        }
    }

    /// Stores the low `bytes` (1, 2, 4 or 8) of a word.
    pub(super) fn store_word(&mut self, value: Value, base: Value, offset: i32, bytes: u32) {
        match bytes {
            1 => self.b.ins().istore8(flags(), value, base, offset),
            2 => self.b.ins().istore16(flags(), value, base, offset),
            4 => self.b.ins().istore32(flags(), value, base, offset),
            _ => self.b.ins().store(flags(), value, base, offset),
        };
    }

    /// Calls a helper with the context and these arguments.
    pub(super) fn call(&mut self, helper: Helper, args: &[Value]) -> Value {
        let all = self.arguments(args);
        let call = self.b.ins().call(self.helpers[helper as usize], &all);
        self.b.inst_results(call)[0]
    }

    /// The same for rare calls: the callee saves all registers, so that the surrounding code can keep its values in
    /// them.
    pub(super) fn call_rarely(&mut self, helper: Helper, args: &[Value]) -> Value {
        if self.on_path.is_none() {
            return self.call(helper, args);
        }
        let all = self.arguments(args);
        let count = self.helpers.len() / 2;
        self.b.ins().call(self.helpers[count + helper as usize], &all);
        self.load64(self.vm, vm_offset!(result))
    }

    fn arguments(&mut self, args: &[Value]) -> Vec<Value> {
        if self.on_path.is_some() {
            let (packet, meta) = (self.packet, self.meta);
            self.store_vm(packet, vm_offset!(packet));
            self.store_vm(meta, vm_offset!(intrinsic));
        }
        let mut all = vec![self.vm];
        all.extend_from_slice(args);
        all
    }

    /// Writes a value to place `n` of the context's values.
    pub(super) fn put_value(
        &mut self,
        n: usize,
        value: Value,
        bits: u32,
    ) -> Result<(), CompileError> {
        if n >= VALUES_MAX {
            return Err(Budget::Locals.into());
        }
        let at = vm_offset!(values) + n as i32 * VALUE_BYTES;
        let (low, high) = self.words(value, bits);
        let vm = self.vm;
        self.b.ins().store(flags(), low, vm, at);
        self.b.ins().store(flags(), high, vm, at + 8);
        Ok(())
    }

    pub(super) fn get_value(&mut self, n: usize, bits: u32) -> Value {
        let at = vm_offset!(values) + n as i32 * VALUE_BYTES;
        let low = self.load64(self.vm, at);
        if bits <= 64 {
            return low;
        }
        let high = self.load64(self.vm, at + 8);
        self.b.ins().iconcat(low, high)
    }

    /// Variables to memory, for a step of the interpreter.
    pub(super) fn sync_out(&mut self) -> Result<(), CompileError> {
        let vm = self.vm;
        let (valid, received) = (self.b.use_var(self.valid), self.b.use_var(self.received));
        self.b.ins().store(flags(), valid, vm, scalar_offset!(valid));
        self.b.ins().store(flags(), received, vm, scalar_offset!(received));
        if self.in_parser {
            let cursor = self.b.use_var(self.cursor_bits);
            self.b.ins().store(flags(), cursor, vm, scalar_offset!(cursor_bits));
        }
        let words = self.load64(vm, vm_offset!(meta_words));
        for (n, (var, bits)) in self.metas.clone().into_iter().enumerate() {
            let value = self.b.use_var(var);
            let (low, high) = self.words(value, bits);
            self.b.ins().store(flags(), low, words, n as i32 * VALUE_BYTES);
            self.b.ins().store(flags(), high, words, n as i32 * VALUE_BYTES + 8);
        }
        for (n, (var, bits)) in self.locals.clone().into_iter().enumerate() {
            let value = self.b.use_var(var);
            self.put_value(n, value, bits)?;
        }
        let locals = self.num(self.locals.len() as u64);
        self.b.ins().store(flags(), locals, vm, vm_offset!(locals));
        Ok(())
    }

    /// Memory to variables, after a step of the interpreter.
    pub(super) fn sync_in(&mut self) {
        self.validity_in();
        if self.in_parser {
            let cursor = self.load64(self.vm, scalar_offset!(cursor_bits));
            self.b.def_var(self.cursor_bits, cursor);
        }
        self.metas_in(false);
        for (n, (var, bits)) in self.locals.clone().into_iter().enumerate() {
            let value = self.get_value(n, bits);
            self.b.def_var(var, value);
        }
    }

    /// Loads the validity of the headers from the interpreter's place.
    fn validity_in(&mut self) {
        let valid = self.load64(self.vm, scalar_offset!(valid));
        self.b.def_var(self.valid, valid);
        let received = self.load64(self.vm, scalar_offset!(received));
        self.b.def_var(self.received, received);
    }

    /// Loads metadata from the interpreter's place, all or only `carried`.
    fn metas_in(&mut self, carried: bool) {
        let program = self.program;
        let words = self.load64(self.vm, vm_offset!(meta_words));
        for (id, meta) in program.metadata.entries() {
            if carried && meta.carried_at.is_none() {
                continue;
            }
            let (var, at) = (self.metas[id.index()].0, id.index() as i32 * VALUE_BYTES);
            let mut value = self.load64(words, at);
            if meta.bits > 64 {
                let high = self.load64(words, at + 8);
                value = self.b.ins().iconcat(value, high);
            }
            self.b.def_var(var, value);
        }
    }

    /// Leaves with this end unless it is 0.
    pub(super) fn leave_unless_zero(&mut self, code: Value) {
        let go_on = self.b.create_block();
        let fail = self.fail;
        self.b.ins().brif(code, fail, &[code.into()], go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    /// Leaves with this end.
    pub(super) fn leave(&mut self, code: u64) {
        let code = self.num(code);
        let fail = self.fail;
        self.b.ins().jump(fail, &[code.into()]);
    }

    /// Leaves with this end if the condition is true.
    pub(super) fn leave_if(&mut self, condition: Value, code: u64) {
        let (out, go_on) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(out);
        self.b.ins().brif(condition, out, &[], go_on, &[]);
        self.b.switch_to_block(out);
        self.leave(code);
        self.b.switch_to_block(go_on);
    }

    /// One of two values of this width. A wide one is chosen by halves: Cranelift turns a comparison and a selection
    /// into `umin.i128`, for which it has no code.
    pub(super) fn select(&mut self, which: Value, a: Value, b: Value, bits: u32) -> Value {
        if bits <= 64 {
            return self.b.ins().select(which, a, b);
        }
        let ((a_low, a_high), (b_low, b_high)) = (self.b.ins().isplit(a), self.b.ins().isplit(b));
        let low = self.b.ins().select(which, a_low, b_low);
        let high = self.b.ins().select(which, a_high, b_high);
        self.b.ins().iconcat(low, high)
    }

    pub(super) fn compare(&mut self, cc: IntCC, a: Value, b: Value) -> Value {
        self.b.ins().icmp(cc, a, b)
    }

    /// Whether a header is valid; `None` where that is not known.
    pub(super) fn is_valid(&self, instance: InstanceId) -> Option<bool> {
        match &self.on_path {
            Some(on) => on.path.is_valid(instance),
            None => self.known_validity.of(instance),
        }
    }

    /// A condition whose value is known on this path.
    pub(super) fn known(&self, id: ExprId) -> Option<bool> {
        self.control.known(&self.on_path.as_ref()?.path, id)
    }

    /// An expression whose value is known on this path.
    pub(super) fn known_number(&self, id: ExprId) -> Option<u128> {
        self.control.known_number(&self.on_path.as_ref()?.path, id)
    }

    /// Whether a header is valid: known now, or a value that is not zero when it is.
    pub(super) fn validity(&mut self, instance: InstanceId) -> Validity {
        if let Some(known) = self.is_valid(instance) {
            return Validity::Known(known);
        }
        let valid = self.b.use_var(self.valid);
        let mask = self.num(bit(instance));
        Validity::At(self.b.ins().band(valid, mask))
    }
}

/// What is known about the validity of a header.
#[derive(Clone, Copy)]
pub(super) enum Validity {
    Known(bool),
    /// Not zero when it is valid.
    At(Value),
}

/// Loads and stores of the two structs, by field and width in bytes.
macro_rules! descriptor {
    ($field:ident) => {
        std::mem::offset_of!(crate::exec::Descriptor, $field) as i32
    };
}
macro_rules! intrinsic {
    ($field:ident) => {
        std::mem::offset_of!(crate::exec::Intrinsic, $field) as i32
    };
}
pub(super) use {descriptor, intrinsic};

/// The narrow integer type with this number of bytes.
pub(super) fn narrow_type(bytes: u32) -> Type {
    match bytes {
        1 => I8,
        2 => I16,
        4 => I32,
        _ => I64,
    }
}
