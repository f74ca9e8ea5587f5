//! Tables: keys in registers, actions inlined where their table is applied. The search for entries is in
//! [`super::lookup`].

use super::{CompileError, Emit, descriptor, flags, internal, vm_offset};
use crate::ids::*;
use crate::ir::Term;
use crate::jit::plan::tables::Search;
use crate::jit::runtime::Helper;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};
use std::mem::{offset_of, size_of};
use wireyard_tables::raw::RawTable;

/// The result of a lookup: the data of the action and its index in the table's list.
#[derive(Clone, Copy)]
struct Found {
    action: Value,
    data: Value,
}

/// The targets of a lookup: with slot, action and data on a hit.
#[derive(Clone, Copy)]
pub(super) struct Ways {
    pub(super) hit: Block,
    pub(super) miss: Block,
}

impl Emit<'_> {
    /// The key of a table in the words of its layout.
    pub(super) fn key_words(
        &mut self,
        table: TableId,
        key: &[ExprId],
    ) -> Result<Vec<Value>, CompileError> {
        let facts = self.facts;
        let known = &facts.tables[table.index()];
        let zero = self.num(0);
        let mut words: Vec<Option<Value>> = vec![None; known.key_words];
        for (place, expr) in known.places.iter().zip(key) {
            let (bits, value) = (self.bits(*expr), self.expr(*expr)?);
            let width = place.bits;
            let value = self.resize(value, bits, width);
            let value = if bits > width { self.masked(value, width) } else { value };
            let (low, high) = self.words(value, width);
            let low = self.b.ins().ishl_imm_u(low, i64::from(place.shift));
            let low = match words[place.word] {
                Some(old) => self.b.ins().bor(old, low),
                None => low,
            };
            words[place.word] = Some(low);
            if width > 64 {
                words[place.word + 1] = Some(high);
            }
        }
        Ok(words.into_iter().map(|word| word.unwrap_or(zero)).collect())
    }

    /// How a table is searched.
    pub(super) fn search(&self, table: TableId) -> Search {
        self.searches[table.index()]
    }

    /// Looks a table up, runs the action, continues by the result.
    pub(super) fn apply(
        &mut self,
        id: TableId,
        by_action: &[(ActionId, Block)],
        hit: Block,
        miss: Block,
    ) -> Result<(), CompileError> {
        let (program, facts) = (self.program, self.facts);
        let (table, known) = (&program.tables[id], &facts.tables[id.index()]);
        let keys: Vec<ExprId> = table.keys.iter().map(|key| key.value).collect();
        let words = self.key_words(id, &keys)?;
        let ways = Ways { hit: self.b.create_block(), miss: self.b.create_block() };
        for _ in 0..3 {
            self.b.append_block_param(ways.hit, I64);
        }
        if self.ends_pass(table.default.action) {
            self.b.set_cold_block(ways.miss);
        }
        let tables = self.fixed64(self.vm, vm_offset!(tables));
        let raw = self.b.ins().iadd_imm_s(tables, (id.index() * size_of::<RawTable>()) as i64);
        match self.search(id) {
            Search::Direct | Search::Hash => self.lookup_exact(raw, &words, known.layout, ways),
            Search::Trie { .. } => self.lookup_lpm(raw, &words, known.layout, ways),
            Search::List => self.lookup_scan(id, raw, &words, ways)?,
            Search::Call => self.lookup_call(id, &words, false, ways)?,
        }

        if by_action.is_empty() && self.only_tells(id) {
            self.b.switch_to_block(ways.hit);
            self.hit(id, ways.hit)?;
            self.b.ins().jump(hit, &[]);
            self.b.switch_to_block(ways.miss);
            self.b.ins().jump(miss, &[]);
            return Ok(());
        }
        // Both results lead to one place where the action is run. The hit flag is passed on only where it is used.
        let run = self.b.create_block();
        let params = if hit == miss { 2 } else { 3 };
        for _ in 0..params {
            self.b.append_block_param(run, I64);
        }
        self.b.switch_to_block(ways.hit);
        let found = self.hit(id, ways.hit)?;
        let one = self.num(1);
        let args: [BlockArg; 3] = [found.action.into(), found.data.into(), one.into()];
        self.b.ins().jump(run, &args[..params]);

        self.b.switch_to_block(ways.miss);
        let default = self.load64(raw, offset_of!(RawTable, default) as i32);
        let action = self.load64(default, 0);
        let data = self.b.ins().iadd_imm_s(default, 8);
        let zero = self.num(0);
        let args: [BlockArg; 3] = [action.into(), data.into(), zero.into()];
        self.b.ins().jump(run, &args[..params]);

        self.b.switch_to_block(run);
        let params = self.b.block_params(run).to_vec();
        self.run_actions(id, &params, by_action, hit, miss)
    }

    /// Whether no action of the table has an effect, so that only hit or miss matters.
    fn only_tells(&self, id: TableId) -> bool {
        let table = &self.program.tables[id];
        let does_nothing = |action: &ActionId| {
            let blocks = &self.program.actions[*action].body.blocks;
            match blocks.iter().next() {
                Some(block) => block.ops.is_empty() && matches!(block.term, Term::Return),
                None => true,
            }
        };
        table.actions.iter().chain([&table.default.action]).all(does_nothing)
    }

    /// Whether an action drops or punts every packet.
    fn ends_pass(&self, action: ActionId) -> bool {
        let first = self.program.actions[action].body.blocks.iter().next();
        first.is_some_and(|block| matches!(block.term, Term::Drop(_) | Term::Punt(_)))
    }

    /// Counter, last hit, meter and selector of a hit.
    fn hit(&mut self, id: TableId, block: Block) -> Result<Found, CompileError> {
        let (program, facts) = (self.program, self.facts);
        let (table, known) = (&program.tables[id], &facts.tables[id.index()]);
        let params = self.b.block_params(block).to_vec();
        let [slot, action, data] = params[..] else { return Err(internal("parameters of a hit")) };
        if known.has_counters {
            self.add_to_lane(facts.counters.tables + id.index(), slot);
        }
        if known.has_last_hits {
            self.touch(id, slot);
        }
        if !known.has_meters && table.selector.is_none() {
            return Ok(Found { action, data });
        }
        self.store_vm(slot, vm_offset!(hit_slot));
        self.store_vm(action, vm_offset!(hit_action));
        self.store_vm(data, vm_offset!(hit_data));
        let number = self.num(id.0.into());
        if known.has_meters {
            if let Some(made) = self.decisions {
                let (marks, packet) = (self.b.use_var(made.flags), self.packet);
                self.store_word(marks, packet, descriptor!(flags), 1);
            }
            self.call(Helper::HitMeter, &[number]);
            if let Some(made) = self.decisions {
                let marks = self.load_word(self.packet, descriptor!(flags), 1);
                self.b.def_var(made.flags, marks);
            }
        }
        if let Some(selector) = &table.selector {
            let hash = self.hash(selector.hash, &selector.keys)?;
            self.call(Helper::Select, &[number, hash]);
        }
        let action = self.load64(self.vm, vm_offset!(hit_action));
        let data = self.load64(self.vm, vm_offset!(hit_data));
        Ok(Found { action, data })
    }

    /// Notes when an entry was last hit.
    pub(super) fn touch(&mut self, id: TableId, slot: Value) {
        let tables = self.fixed64(self.vm, vm_offset!(tables));
        let at = id.index() * size_of::<RawTable>() + offset_of!(RawTable, last_hits);
        let times = self.fixed64(tables, at as i32);
        let offset = self.b.ins().ishl_imm_u(slot, 3);
        let time = self.b.ins().iadd(times, offset);
        let now = self.now_ns();
        self.b.ins().store(flags(), now, time, 0);
    }

    fn run_actions(
        &mut self,
        id: TableId,
        params: &[Value],
        by_action: &[(ActionId, Block)],
        hit: Block,
        miss: Block,
    ) -> Result<(), CompileError> {
        let [place, data] = params[..2] else { return Err(internal("parameters of an action")) };
        let was_hit = params.get(2).copied();
        let program = self.program;
        let actions = &program.tables[id].actions;
        let validity = self.validity_known();
        for (n, action) in actions.iter().enumerate() {
            let (this, other) = (self.b.create_block(), self.b.create_block());
            let number = self.num(n as u64);
            let same = self.compare(IntCC::Equal, place, number);
            self.b.ins().brif(same, this, &[], other, &[]);
            self.b.switch_to_block(this);
            self.set_validity_known(validity);
            self.run_action(*action, data, was_hit, by_action, hit, miss)?;
            self.b.switch_to_block(other);
        }
        // A missing action is `nop`, as for the interpreter.
        self.go_by_hit(was_hit, hit, miss);
        Ok(())
    }

    fn run_action(
        &mut self,
        action: ActionId,
        data: Value,
        was_hit: Option<Value>,
        by_action: &[(ActionId, Block)],
        hit: Block,
        miss: Block,
    ) -> Result<(), CompileError> {
        let program = self.program;
        let declared = &program.actions[action];
        let mut args = Vec::with_capacity(declared.params.len());
        let mut at = 0;
        for param in &declared.params {
            let low = self.load64(data, at);
            at += 8;
            if param.bits > 64 {
                let high = self.load64(data, at);
                at += 8;
                args.push(self.b.ins().iconcat(low, high));
            } else {
                args.push(low);
            }
        }
        let done = self.b.create_block();
        self.body(&declared.body, &args, done)?;
        self.b.switch_to_block(done);
        match by_action.iter().find(|(known, _)| *known == action) {
            Some((_, to)) => {
                self.b.ins().jump(*to, &[]);
            }
            None => self.go_by_hit(was_hit, hit, miss),
        }
        Ok(())
    }

    fn go_by_hit(&mut self, was_hit: Option<Value>, hit: Block, miss: Block) {
        match was_hit {
            Some(was_hit) if hit != miss => self.b.ins().brif(was_hit, hit, &[], miss, &[]),
            _ => self.b.ins().jump(hit, &[]),
        };
    }
}
