//! Makes small tables that cannot change into switches, with the actions called in the cases.
//!
//! Only tables whose entries and default are constant, whose keys are exact, and that count, meter and age nothing:
//! then a lookup is a comparison with constants.

use crate::ids::*;
use crate::ir::*;
use wireyard_tables::{Match, MatchKind};

/// Most entries of a table that becomes code.
const ENTRIES_MAX: usize = 8;

/// The replacement of a table: its key as one value, the action of each value, and that of a miss.
struct Choice {
    key: Option<ExprId>,
    cases: Vec<(u128, ActionId, Vec<ExprId>)>,
    default: (ActionId, Vec<ExprId>),
}

/// Runs on both controls; actions apply no tables.
pub(super) fn run(program: &mut Program) -> bool {
    let mut ingress = std::mem::take(&mut program.ingress);
    let mut egress = std::mem::take(&mut program.egress);
    let learned = learned(program, [&ingress, &egress]);
    let changed = [&mut ingress, &mut egress].map(|body| inline(program, &learned, body));
    (program.ingress, program.egress) = (ingress, egress);
    changed[0] | changed[1]
}

/// Tables that the data plane inserts into.
fn learned(program: &Program, controls: [&Body; 2]) -> Vec<TableId> {
    let actions = program.actions.iter().map(|action| &action.body);
    let ops = controls.into_iter().chain(actions).flat_map(|body| &body.blocks);
    ops.flat_map(|block| &block.ops)
        .filter_map(|op| match &op.op {
            Op::Learn { table, .. } => Some(*table),
            _ => None,
        })
        .collect()
}

fn inline(program: &mut Program, learned: &[TableId], body: &mut Body) -> bool {
    let mut changed = false;
    for id in body.blocks.ids() {
        let Term::Apply { table, by_action, hit, miss } = body.blocks[id].term.clone() else {
            continue;
        };
        if learned.contains(&table) {
            continue;
        }
        let Some(choice) = choice(program, table) else { continue };
        let span = body.blocks[id].span;
        let mut call = |action: ActionId, args: Vec<ExprId>, otherwise: BlockId| {
            let known = by_action.iter().find(|(known, _)| *known == action);
            let to = known.map_or(otherwise, |(_, to)| *to);
            let ops = vec![OpAt { op: Op::Call(action, args), span }];
            body.blocks.push(Block { ops, term: Term::Jump(to), span })
        };
        let cases: Vec<(u128, BlockId)> = choice
            .cases
            .into_iter()
            .map(|(value, action, args)| (value, call(action, args, hit)))
            .collect();
        let default = call(choice.default.0, choice.default.1, miss);
        body.blocks[id].term = match (choice.key, &cases[..]) {
            (Some(value), [_, ..]) => Term::Switch { value, cases, default },
            // Without a key the only entry matches every packet.
            (None, [(_, only)]) => Term::Jump(*only),
            _ => Term::Jump(default),
        };
        changed = true;
    }
    if changed {
        super::dead_blocks::prune(body);
    }
    changed
}

fn choice(program: &mut Program, id: TableId) -> Option<Choice> {
    let table = program.tables[id].clone();
    let constant = table.const_entries && table.const_default && table.selector.is_none();
    let silent = !table.counters && table.meter.is_none() && table.idle_timeout_ms.is_none();
    let exact = table.keys.iter().all(|key| key.kind == MatchKind::Exact);
    let bits: u32 = table.keys.iter().map(|key| key.bits).sum();
    let small = table.entries.len() <= ENTRIES_MAX && bits <= 128;
    // Without entries the key is not evaluated; so its evaluation must not be able to end the pass.
    let ends = table.keys.iter().any(|key| eval::may_end(&program.exprs, key.value));
    if !(constant && silent && exact && small) || (table.entries.is_empty() && ends) {
        return None;
    }
    let mut values = Vec::new();
    for entry in &table.entries {
        let value = entry_value(&table, entry)?;
        if entry.idle_timeout_ms != 0 || values.contains(&value) {
            return None;
        }
        values.push(value);
    }
    let key = key(program, &table);
    let cases = values.into_iter().zip(&table.entries);
    let cases = cases.map(|(value, entry)| (value, entry.call.action, args(program, &entry.call)));
    let cases = cases.collect();
    let default = (table.default.action, args(program, &table.default));
    Some(Choice { key, cases, default })
}

/// The key of an entry, its fields concatenated, the first one highest.
fn entry_value(table: &Table, entry: &TableEntry) -> Option<u128> {
    let mut value = 0u128;
    for (key, matched) in table.keys.iter().zip(&entry.matches) {
        let Match::Exact(field) = matched else { return None };
        value = value.checked_shl(key.bits).unwrap_or(0) | field;
    }
    Some(value)
}

fn key(program: &mut Program, table: &Table) -> Option<ExprId> {
    let mut keys = table.keys.iter();
    let mut value = keys.next()?.value;
    for key in keys {
        let bits = program.exprs[value].bits + key.bits;
        let kind = ExprKind::Concat(value, key.value);
        value = program.exprs.push(Expr { kind, bits, span: table.span });
    }
    Some(value)
}

fn args(program: &mut Program, call: &ActionCall) -> Vec<ExprId> {
    let widths: Vec<u32> = program.actions[call.action].params.iter().map(|p| p.bits).collect();
    let mut constant = |(value, bits): (&u128, u32)| {
        program.exprs.push(Expr { kind: ExprKind::Const(*value), bits, span: None })
    };
    call.args.iter().zip(widths).map(&mut constant).collect()
}
