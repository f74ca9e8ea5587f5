//! The functions that generated code calls. Each takes the [`VmContext`] of the code.
//!
//! They are thin: they call the same functions as the interpreter.
#![allow(unsafe_code)]

use super::vm_context::VmContext;
use crate::externs::hash::Hasher;
use crate::ids::*;
use crate::interp::bridge::{Step, Work};
use crate::ir::HashAlgorithm;
use wireyard_tables::Slot;
use wireyard_tables::time::Time;

/// Defines [`Helper`] and [`HELPERS`] of one list: the variant, the function and its parameters after the context.
macro_rules! helpers {
    ($($name:ident = $function:ident($($param:ty),*);)*) => {
        /// Index into [`HELPERS`].
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Helper {
            $($name,)*
        }

        /// Every helper: name, address, number of parameters after the context. All return a number.
        pub(super) const HELPERS: &[(&str, *const u8, usize)] = &[$((
            stringify!($function),
            $function as unsafe extern "C" fn(*mut VmContext $(, $param)*) -> u64 as *const u8,
            { const PARAMS: &[&str] = &[$(stringify!($param)),*]; PARAMS.len() },
        ),)*];
    };
}

helpers! {
    ParserOp = parser_op(u64);
    CarriedIn = carried_in();
    Parsed = parsed(u64);
    Resume = resume();
    Op = op(u64);
    Eval = eval(u64);
    Lookup = lookup(u64);
    HitMeter = hit_meter(u64);
    Select = select(u64, u64);
    Count = count(u64, u64, u64);
    Meter = meter(u64, u64, u64, u64);
    Hash = hash(u64, u64);
    InValueSet = in_value_set(u64, u64, u64);
    Random = random();
    Remainder = remainder();
    Digest = digest(u64, u64);
    Learn = learn(u64);
}

/// Does a step of the interpreter; its safety conditions are those of all helpers.
///
/// # Safety
/// `vm` is the context that the driver passed to the code; its context, packet, metadata and snapshot are alive and not
/// borrowed elsewhere while the code runs.
#[inline(always)]
pub(super) unsafe fn step(vm: *mut VmContext, which: Step<'_>) -> u64 {
    // SAFETY: see above; the parts that are borrowed together are disjoint.
    unsafe {
        let vm = &mut *vm;
        // An expression has a place for its value even without locals.
        let locals = (vm.locals as usize).max(1);
        let work = Work {
            tables: &*vm.snapshot,
            packet: &mut *vm.packet,
            meta: &mut *vm.intrinsic,
            half: vm.half,
            scalars: &mut vm.scalars,
            locals: vm.values.get_mut(..locals).unwrap_or_default(),
        };
        (*vm.interp).step(&mut *vm.cx, work, which)
    }
}

/// An operation of the parser that the code leaves to the interpreter.
unsafe extern "C" fn parser_op(vm: *mut VmContext, index: u64) -> u64 {
    // SAFETY: as for `step`; the engine that owns the code owns the list.
    unsafe {
        let tables = &*(*vm).ops;
        match tables.parser_ops.get(index as usize) {
            Some(op) => step(vm, Step::ParserOp(op)),
            None => 0,
        }
    }
}

/// Start of ingress of a packet that was in ingress before.
unsafe extern "C" fn carried_in(vm: *mut VmContext) -> u64 {
    // SAFETY: as for `step`.
    unsafe { step(vm, Step::CarriedIn) }
}

/// The parser stopped.
unsafe extern "C" fn parsed(vm: *mut VmContext, code: u64) -> u64 {
    // SAFETY: as for `step`.
    unsafe { step(vm, Step::Parsed(code)) }
}

/// Start of egress.
unsafe extern "C" fn resume(vm: *mut VmContext) -> u64 {
    // SAFETY: as for `step`.
    unsafe { step(vm, Step::Resume) }
}

/// An operation of a control that the code leaves to the interpreter.
unsafe extern "C" fn op(vm: *mut VmContext, index: u64) -> u64 {
    // SAFETY: as for `step`; the engine that owns the code owns the list.
    unsafe {
        let tables = &*(*vm).ops;
        match tables.ops.get(index as usize) {
            Some(op) => step(vm, Step::Op(op)),
            None => 0,
        }
    }
}

/// An expression that the code leaves to the interpreter; the value is in `values[0]`.
unsafe extern "C" fn eval(vm: *mut VmContext, expr: u64) -> u64 {
    // SAFETY: as for `step`.
    unsafe { step(vm, Step::Eval(ExprId(expr as u32))) }
}

/// Looks up the key in `values`, one word each; 1 and the hit in the context, or 0.
unsafe extern "C" fn lookup(vm: *mut VmContext, table: u64) -> u64 {
    // SAFETY: as for `step`.
    let (vm, tables) = unsafe { (&mut *vm, &*(*vm).snapshot) };
    let Some(view) = tables.table(wireyard_tables::TableId(table as u32)) else { return 0 };
    let mut key = [0u64; wireyard_tables::key::MAX_KEY_WORDS];
    let len = view.shape().layout().words();
    key.iter_mut().zip(&vm.values).for_each(|(word, value)| *word = *value as u64);
    let Some(hit) = key.get(..len).and_then(|key| view.lookup(key)) else { return 0 };
    vm.hit_slot = hit.slot.0.into();
    vm.hit_action = hit.action.into();
    vm.hit_data = hit.data.as_ptr();
    1
}

/// Runs the direct meter of the entry that was hit; its colour goes to the packet.
unsafe extern "C" fn hit_meter(vm: *mut VmContext, table: u64) -> u64 {
    // SAFETY: as for `step`.
    let (vm, tables) = unsafe { (&mut *vm, &*(*vm).snapshot) };
    let view = tables.table(wireyard_tables::TableId(table as u32));
    if let Some(meters) = view.and_then(|view| view.meters()) {
        // SAFETY: as for `step`.
        let (packet, meta) = unsafe { (&mut *vm.packet, &*vm.intrinsic) };
        let now = Time::from_ns(meta.now_ns);
        let green = crate::state::color(0);
        let color = meters.execute(vm.hit_slot as usize, packet.len.into(), green, now) as u8;
        let shift = crate::exec::flags::COLOR_SHIFT;
        packet.flags = packet.flags & !(3 << shift) | (color & 3) << shift;
    }
    0
}

/// Replaces the hit in the context by the member that the hash selects.
unsafe extern "C" fn select(vm: *mut VmContext, table: u64, hash: u64) -> u64 {
    // SAFETY: as for `step`.
    let (vm, tables) = unsafe { (&mut *vm, &*(*vm).snapshot) };
    let Some(view) = tables.table(wireyard_tables::TableId(table as u32)) else { return 0 };
    let slot = Slot(vm.hit_slot as u32);
    // SAFETY: the code stored the data of the hit, which is one word at least in a table with a profile, and only such
    // tables have a selector.
    let data = unsafe { std::slice::from_raw_parts(vm.hit_data, 1) };
    let hit = wireyard_tables::Hit { slot, action: vm.hit_action as u32, data };
    let hit = tables.select(view, hit, hash);
    vm.hit_action = hit.action.into();
    vm.hit_data = hit.data.as_ptr();
    0
}

/// Counts in an indirect counter.
unsafe extern "C" fn count(vm: *mut VmContext, counter: u64, low: u64, high: u64) -> u64 {
    let index = u128::from(high) << 64 | u128::from(low);
    // SAFETY: as for `step`.
    unsafe {
        let (cx, len) = (&*(*vm).cx, (*(*vm).packet).len);
        cx.state.count((*vm).lane as usize, CounterId(counter as u32), index, len);
    }
    0
}

/// Runs an indirect meter; returns the colour.
unsafe extern "C" fn meter(
    vm: *mut VmContext,
    meter: u64,
    low: u64,
    high: u64,
    before: u64,
) -> u64 {
    let index = u128::from(high) << 64 | u128::from(low);
    // SAFETY: as for `step`.
    unsafe {
        let (cx, len) = (&*(*vm).cx, (*(*vm).packet).len);
        let now = Time::from_ns((*(*vm).intrinsic).now_ns);
        cx.state.meter(MeterId(meter as u32), index, len, before as u8, now).into()
    }
}

/// The hash of operands in `values`, whose widths are in list `widths` of the engine.
unsafe extern "C" fn hash(vm: *mut VmContext, algorithm: u64, widths: u64) -> u64 {
    // SAFETY: as for `step`; the engine that owns the code owns the list.
    let (vm, tables) = unsafe { (&*vm, &*(*vm).ops) };
    let known = HashAlgorithm::ALL.get(algorithm as usize);
    let (Some((_, algorithm)), Some(widths)) = (known, tables.widths.get(widths as usize)) else {
        return 0;
    };
    let mut hasher = Hasher::new(*algorithm);
    for (value, bits) in vm.values.iter().zip(widths) {
        hasher.add_value(*value, *bits);
    }
    hasher.finish()
}

/// Whether a value set has a member.
unsafe extern "C" fn in_value_set(vm: *mut VmContext, set: u64, low: u64, high: u64) -> u64 {
    let value = u128::from(high) << 64 | u128::from(low);
    // SAFETY: as for `step`.
    unsafe { (&*(*vm).cx).state.value_set_contains(ValueSetId(set as u32), value).into() }
}

/// The remainder of `values[0]` divided by `values[1]`, in `values[0]`; 0 for a division by 0.
unsafe extern "C" fn remainder(vm: *mut VmContext) -> u64 {
    // SAFETY: as for `step`.
    let vm = unsafe { &mut *vm };
    vm.values[0] = vm.values[0].checked_rem(vm.values[1]).unwrap_or(0);
    0
}

/// A random number between `values[0]` and `values[1]`, in `values[0]`.
unsafe extern "C" fn random(vm: *mut VmContext) -> u64 {
    // SAFETY: as for `step`.
    unsafe {
        let (vm, cx) = (&mut *vm, &mut *(*vm).cx);
        vm.values[0] = cx.worker.scratch.random(vm.values[0], vm.values[1]);
    }
    0
}

/// Sends `count` values as a digest.
unsafe extern "C" fn digest(vm: *mut VmContext, digest: u64, count: u64) -> u64 {
    // SAFETY: as for `step`.
    unsafe {
        let (vm, cx) = (&*vm, &mut *(*vm).cx);
        let values = vm.values.get(..count as usize).unwrap_or_default();
        cx.device.digest(cx.state.program(), DigestId(digest as u32), values);
    }
    0
}

/// Records an entry to learn: key words, then arguments, in `values`.
unsafe extern "C" fn learn(vm: *mut VmContext, index: u64) -> u64 {
    // SAFETY: as for `step`; the engine that owns the code owns the list.
    unsafe {
        let (vm, cx, tables) = (&mut *vm, &mut *(*vm).cx, &*(*vm).ops);
        vm.learned = 1;
        let Some((table, action, words)) = tables.learns.get(index as usize) else { return 0 };
        let mut key = [0u64; wireyard_tables::key::MAX_KEY_WORDS];
        key.iter_mut().zip(&vm.values).for_each(|(word, value)| *word = *value as u64);
        let args = vm.values.get(*words..).unwrap_or_default();
        let key = key.get(..*words).unwrap_or_default();
        cx.worker.scratch.learn(cx.state.program(), *table, key, *action, args);
    }
    0
}
