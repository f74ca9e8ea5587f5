//! The compiled form of a program: a module of machine code, and its data.
//!
//! Memory is writable while code is generated and executable afterwards, never both. One module belongs to one program
//! and layout of a state; it is freed with the last engine that runs it, and a generation drops its engine when no
//! worker runs it any more.
#![allow(unsafe_code)]

use super::emit::Emit;
use super::emit::fused::INGRESS_ONLY;
use super::error::{Budget, CompileError, NotSupported, internal};
use super::listing::{self, Spans};
use super::plan::tables::Search;
use super::plan::{Control, ControlPlan, Fused, Plan};
use super::runtime::{HELPERS, step};
use super::vm_context::{CounterBase, VmContext};
use super::{Options, Text};
use crate::exec::{Descriptor, Intrinsic};
use crate::ids::*;
use crate::interp::bridge::{Step, end};
use crate::ir::{Half, Op, ParserOp, Program};
use crate::state::State;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{
    AbiParam, FuncRef, InstBuilder, MemFlagsData, Signature, UserFuncName,
};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CodegenError, Context};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, ModuleError, default_libcall_names};
use wireyard_tables::BitRange;
use wireyard_tables::raw::Layout;

/// Addresses that one module may use: reserved, and backed by memory only where there is code. A program that does not
/// fit is refused.
const ARENA_BYTES: usize = 64 << 20;

/// Lists that helpers index by number.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) parser_ops: Vec<ParserOp>,
    pub(super) ops: Vec<Op>,
    pub(super) widths: Vec<Vec<u32>>,
    /// Table, action, words of the key.
    pub(super) learns: Vec<(TableId, ActionId, usize)>,
    /// The source spans of the code, if a listing is requested.
    pub(super) spans: Option<Spans>,
}

/// The facts about a state that the generator may use as constants.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Facts {
    pub(super) tables: Vec<TableFacts>,
    /// Where the bytes of each instance start in the header vector.
    pub(super) slots: Vec<usize>,
    pub(super) counters: CounterBase,
    pub(super) several_workers: bool,
}

/// About a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableFacts {
    pub(super) layout: Layout,
    pub(super) places: Vec<BitRange>,
    /// Those of range fields.
    pub(super) ranges: Vec<BitRange>,
    pub(super) key_words: usize,
    pub(super) has_counters: bool,
    pub(super) has_meters: bool,
    pub(super) has_last_hits: bool,
    pub(super) has_profile: bool,
}

fn ranges(shape: &wireyard_tables::TableShape) -> Vec<BitRange> {
    let places = shape.layout().places();
    shape.range_fields().iter().map(|field| places[*field]).collect()
}

impl Facts {
    /// The facts of a state.
    pub(super) fn new(state: &State) -> Facts {
        let program = state.program();
        let snapshot = state.tables().snapshot();
        let tables = snapshot.tables().map(|view| TableFacts {
            layout: view.layout(),
            places: view.shape().layout().places().to_vec(),
            ranges: ranges(view.shape()),
            key_words: view.shape().layout().words(),
            has_counters: view.counters().is_some(),
            has_meters: view.meters().is_some(),
            has_last_hits: view.last_hits().is_some(),
            has_profile: view.profile().is_some(),
        });
        let mut start = 0;
        let slots = program.instances.iter().map(|instance| {
            let max = program.headers[instance.header].max_bytes as usize;
            start += max;
            start - max
        });
        Facts {
            tables: tables.collect(),
            slots: slots.collect(),
            counters: CounterBase::new(program.counters.len(), program.tables.len()),
            several_workers: state.several_workers(),
        }
    }
}

/// Generic code, for one packet: parser (in ingress) and control; returns how it ended.
type GenericEntry = unsafe extern "C" fn(*mut VmContext) -> u64;
/// Path-specialised code, for a burst: returns the number of packets that are done, and possibly [`INGRESS_ONLY`]. The
/// next one, if there is one, is for generic code.
type SpecialisedEntry =
    unsafe extern "C" fn(*mut VmContext, *mut Descriptor, *mut Intrinsic, u32) -> u64;

/// The code of a control.
#[derive(Clone, Copy, Debug)]
struct Entries {
    generic: GenericEntry,
    specialised: Option<SpecialisedEntry>,
}

/// A program in machine code.
pub(super) struct Compiled {
    /// `Some` until it is dropped.
    module: Option<JITModule>,
    ingress: Entries,
    egress: Entries,
    /// Whether path-specialised ingress continues with egress.
    is_fused: bool,
    pub(super) lists: Tables,
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").field("ingress", &self.ingress).finish_non_exhaustive()
    }
}

// SAFETY: the code is immutable once it is finished, and the module is used again only to free it.
unsafe impl Sync for Compiled {}

fn system(error: impl std::fmt::Display) -> CompileError {
    NotSupported::System(error.to_string()).into()
}

/// The error of the code generator for a function.
fn defined(error: ModuleError) -> CompileError {
    match error {
        ModuleError::Compilation(CodegenError::Verifier(errors)) => internal(errors),
        ModuleError::Compilation(CodegenError::CodeTooLarge | CodegenError::ImplLimitExceeded) => {
            Budget::Code.into()
        }
        error => system(format!("{error:?}")),
    }
}

/// The module under construction.
struct Builder<'p> {
    module: JITModule,
    functions: FunctionBuilderContext,
    context: Context,
    helpers: Vec<FuncId>,
    program: &'p Program,
    facts: &'p Facts,
    lists: Tables,
    searches: Vec<Search>,
    text: Option<&'p mut Text>,
}

impl Compiled {
    /// Compiles a program for a state.
    pub(super) fn new(
        program: &Program,
        facts: &Facts,
        options: Options,
        text: Option<&mut Text>,
    ) -> Result<Compiled, CompileError> {
        let mut plan = Plan::new(program, facts, options.level)?;
        let searches = plan.tables.clone();
        let mut builder = Builder::new(program, facts, options, searches, text)?;
        let ingress = (builder.generic(Half::Ingress)?, builder.ingress(&mut plan)?);
        let egress = (builder.generic(Half::Egress)?, builder.egress(&mut plan)?);
        builder.module.finalize_definitions().map_err(system)?;
        let Builder { module, lists, text, .. } = builder;
        if let Some(text) = text {
            (text.plan, text.forms) = (plan.text(program, options.level), plan.forms());
        }
        let entries = |(generic, specialised): (FuncId, Option<FuncId>)| {
            let address = |id| module.get_finalized_function(id);
            // SAFETY: the functions were declared with exactly these parameters and results.
            unsafe {
                Entries {
                    generic: std::mem::transmute::<*const u8, GenericEntry>(address(generic)),
                    specialised: specialised
                        .map(|id| std::mem::transmute::<*const u8, SpecialisedEntry>(address(id))),
                }
            }
        };
        Ok(Compiled {
            ingress: entries(ingress),
            egress: entries(egress),
            is_fused: plan.fused.is_ok(),
            lists,
            module: Some(module),
        })
    }

    fn entries(&self, half: Half) -> &Entries {
        match half {
            Half::Ingress => &self.ingress,
            Half::Egress => &self.egress,
        }
    }

    /// True when a control has path-specialised code.
    pub(super) fn is_specialised(&self, half: Half) -> bool {
        self.entries(half).specialised.is_some()
    }

    /// True when path-specialised ingress does egress of packets that may leave at once.
    pub(super) fn is_fused(&self) -> bool {
        self.is_fused
    }

    /// One packet, by generic code.
    ///
    /// # Safety
    /// The context is complete, of a state that the program was compiled for; everything it refers to is alive and has
    /// no other users.
    pub(super) unsafe fn run_generic(&self, vm: *mut VmContext) {
        // SAFETY: code and helpers rely on what the caller guarantees.
        unsafe {
            let half = (*vm).half;
            let code = (self.entries(half).generic)(vm);
            if code != end::CONCLUDED {
                step(vm, Step::Conclude(code));
            }
        }
    }

    /// Runs path-specialised code from the first packet of a burst on: returns the number of packets done, and true
    /// when the next one has done ingress and must do egress.
    ///
    /// # Safety
    /// As [`Compiled::run_generic`]; `packets` and `meta` are `count` long.
    #[inline]
    pub(super) unsafe fn run_specialised(
        &self,
        vm: *mut VmContext,
        packets: *mut Descriptor,
        meta: *mut Intrinsic,
        count: u32,
        half: Half,
    ) -> (usize, bool) {
        let Some(entry) = self.entries(half).specialised else { return (0, false) };
        // SAFETY: code and helpers rely on what the caller guarantees.
        let done = unsafe { entry(vm, packets, meta, count) };
        (done as u32 as usize, done & INGRESS_ONLY != 0)
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: every caller of the code has a reference to `self`, so it is not running.
            unsafe { module.free_memory() };
        }
    }
}

/// Tries a page that is first writable and then executable: where the system refuses that, the arena would abort the
/// process.
fn executable_memory() -> Result<(), CompileError> {
    let page = region::alloc(1, region::Protection::READ_WRITE).map_err(system)?;
    let (start, bytes) = (page.as_ptr::<u8>(), page.len());
    // SAFETY: the page was just allocated here, is empty, and has no other references.
    unsafe { region::protect(start, bytes, region::Protection::READ_EXECUTE) }.map_err(system)
}

/// True for a program with so much code that the backtracking register allocator, whose time grows with its square,
/// would take seconds: ten times that of any program here.
fn is_large(program: &Program) -> bool {
    const BLOCKS_MAX: usize = 4000;
    let actions = program.actions.iter().map(|action| &action.body);
    let bodies = actions.chain([&program.ingress, &program.egress]);
    let cases = program.parser.states.iter().map(|state| state.next.targets().len());
    bodies.map(|body| body.blocks.len()).chain(cases).sum::<usize>() > BLOCKS_MAX
}

impl<'p> Builder<'p> {
    fn new(
        program: &'p Program,
        facts: &'p Facts,
        options: Options,
        searches: Vec<Search>,
        text: Option<&'p mut Text>,
    ) -> Result<Builder<'p>, CompileError> {
        let mut flags = settings::builder();
        let (level, allocator) = match options.level {
            0 | 1 => ("none", "single_pass"),
            _ if is_large(program) => ("none", "single_pass"),
            _ => ("speed", "backtracking"),
        };
        for (name, value) in [
            ("use_colocated_libcalls", "false"),
            ("is_pic", "false"),
            ("opt_level", level),
            ("regalloc_algorithm", allocator),
            ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ] {
            flags.set(name, value).map_err(system)?;
        }
        let isa = cranelift_native::builder().map_err(system)?;
        let isa = isa.finish(settings::Flags::new(flags)).map_err(system)?;
        let mut jit = JITBuilder::with_isa(isa, default_libcall_names());
        executable_memory()?;
        // Functions of a module call each other by distances of 32 bits, and separate mappings may be farther apart if
        // a large packet memory is between them.
        let arena = ArenaMemoryProvider::new_with_size(ARENA_BYTES).map_err(system)?;
        jit.memory_provider(Box::new(arena));
        for (name, address, _) in HELPERS {
            jit.symbol(*name, *address);
        }
        let mut module = JITModule::new(jit);
        let mut helpers = Vec::new();
        for (name, _, params) in HELPERS {
            let signature = signature(&module, params + 1, None);
            let id = module.declare_function(name, Linkage::Import, &signature).map_err(system)?;
            helpers.push(id);
        }
        let mut builder = Builder {
            context: module.make_context(),
            functions: FunctionBuilderContext::new(),
            module,
            helpers,
            program,
            facts,
            lists: Tables { spans: text.is_some().then(Spans::default), ..Tables::default() },
            searches,
            text,
        };
        for (n, (name, _, params)) in HELPERS.iter().enumerate() {
            let rare = builder.rare(name, *params, builder.helpers[n])?;
            builder.helpers.push(rare);
        }
        Ok(builder)
    }

    /// A function that calls a helper and saves all registers for its caller; what the helper returns is
    /// in the context.
    fn rare(&mut self, name: &str, params: usize, helper: FuncId) -> Result<FuncId, CompileError> {
        let mut signature = signature(&self.module, params + 1, None);
        signature.returns.clear();
        signature.call_conv = CallConv::PreserveAll;
        let id = self
            .module
            .declare_function(&format!("{name}_rarely"), Linkage::Local, &signature)
            .map_err(system)?;
        self.module.clear_context(&mut self.context);
        self.context.func.signature = signature;
        self.context.func.name = UserFuncName::user(1, id.as_u32());
        let callee = self.module.declare_func_in_func(helper, &mut self.context.func);
        let mut b = FunctionBuilder::new(&mut self.context.func, &mut self.functions);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        let args = b.block_params(block).to_vec();
        let call = b.ins().call(callee, &args);
        let result = b.inst_results(call)[0];
        let at = std::mem::offset_of!(VmContext, result) as i32;
        b.ins().store(MemFlagsData::new().with_notrap(), result, args[0], at);
        b.ins().return_(&[]);
        b.seal_all_blocks();
        b.finalize(self.module.target_config());
        self.module.define_function(id, &mut self.context).map_err(defined)?;
        Ok(id)
    }

    fn generic(&mut self, half: Half) -> Result<FuncId, CompileError> {
        let control = Control::generic(self.program, half);
        self.function(half.name(), 1, None, control, |emit| emit.generic())
    }

    /// Path-specialised ingress, with egress after it if that is planned and not too much code.
    fn ingress(&mut self, plan: &mut Plan<'p>) -> Result<Option<FuncId>, CompileError> {
        let name = "ingress_specialised";
        let Ok(ingress) = &plan.ingress else { return Ok(None) };
        if let Ok(fused) = &plan.fused {
            match self.specialised(name, ingress, Some(fused)) {
                Err(why @ CompileError::OverBudget(_)) => plan.fused = Err(why),
                done => return done.map(Some),
            }
        }
        match self.specialised(name, ingress, None) {
            Err(why @ CompileError::OverBudget(_)) => {
                plan.give_up_ingress(self.program, self.facts, why);
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    fn egress(&mut self, plan: &mut Plan<'p>) -> Result<Option<FuncId>, CompileError> {
        let Ok(egress) = &plan.egress else { return Ok(None) };
        match self.specialised("egress_specialised", egress, None) {
            Err(why @ CompileError::OverBudget(_)) => {
                plan.egress = Err(why);
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    fn specialised(
        &mut self,
        name: &str,
        plan: &ControlPlan<'p>,
        fused: Option<&Fused<'p>>,
    ) -> Result<FuncId, CompileError> {
        let control = plan.control.clone();
        self.function(name, 3, Some(I32), control, |emit| emit.path_specialised(plan, fused))
    }

    fn function(
        &mut self,
        name: &str,
        pointers: usize,
        last: Option<cranelift_codegen::ir::Type>,
        control: Control<'p>,
        emit: impl FnOnce(Emit<'_>) -> Result<(), CompileError>,
    ) -> Result<FuncId, CompileError> {
        let signature = signature(&self.module, pointers, last);
        self.module.clear_context(&mut self.context);
        self.context.func.signature = signature.clone();
        self.context.func.name = UserFuncName::user(0, control.half as u32);
        let helpers: Vec<FuncRef> = self
            .helpers
            .iter()
            .map(|id| self.module.declare_func_in_func(*id, &mut self.context.func))
            .collect();
        let b = FunctionBuilder::new(&mut self.context.func, &mut self.functions);
        let emitted = emit(Emit::new(
            b,
            control,
            self.facts,
            &mut self.lists,
            &self.searches,
            &helpers,
            self.module.target_config(),
        ));
        if let Err(error) = emitted {
            self.functions = FunctionBuilderContext::new();
            return Err(error);
        }
        let id = self.module.declare_function(name, Linkage::Local, &signature).map_err(system)?;
        let spans = self.lists.spans.as_ref();
        if let (Some(text), Some(spans)) = (&mut self.text, spans) {
            self.context.set_disasm(true);
            let clif = listing::clif(self.program, spans, &self.context.func);
            text.clif.push_str(&format!("; {name}\n{clif}\n"));
        }
        self.module.define_function(id, &mut self.context).map_err(defined)?;
        if let (Some(text), Some(spans), Some(code)) =
            (&mut self.text, spans, self.context.compiled_code())
        {
            let asm = listing::asm(self.program, spans, &self.context.func, code);
            text.asm.push_str(&format!("; {name}\n{asm}\n"));
        }
        Ok(id)
    }
}

fn signature(
    module: &JITModule,
    pointers: usize,
    last: Option<cranelift_codegen::ir::Type>,
) -> Signature {
    let mut signature = module.make_signature();
    signature.params.extend((0..pointers).map(|_| AbiParam::new(I64)));
    signature.params.extend(last.map(AbiParam::new));
    signature.returns.push(AbiParam::new(I64));
    signature
}
