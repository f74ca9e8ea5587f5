//! Tables: lookup, selection, and learning.

use super::pass::{End, Pass};
use crate::ids::*;
use crate::state::action_args;
use crate::trace::Event;

impl Pass<'_> {
    pub(super) fn learn(
        &mut self,
        table: TableId,
        key: &[ExprId],
        action: ActionId,
        args: &[ExprId],
    ) -> Result<(), End> {
        let words = self.gather_key(table, key.iter().copied())?;
        let base = self.push_values(args)?;
        // The values are moved out temporarily, so that the list of learns can change beside them.
        let locals = std::mem::take(&mut self.scratch.phv.locals);
        let key = self.scratch.key;
        self.scratch.learn(self.program, table, &key[..words], action, &locals[base..]);
        self.trace(|_| Event::Learn { table, action, args: locals[base..].to_vec() });
        self.scratch.phv.locals = locals;
        self.scratch.phv.locals.truncate(base);
        Ok(())
    }

    /// Looks a table up and runs the action: returns whether it was a hit, and the action.
    pub(super) fn apply(&mut self, id: TableId) -> Result<(bool, ActionId), End> {
        let table = &self.program.tables[id];
        let words = self.gather_key(id, table.keys.iter().map(|key| key.value))?;
        let tables = self.tables;
        let Some(view) = tables.table(wireyard_tables::TableId(id.0)) else {
            return Ok((false, ActionId(0)));
        };
        let found = view.lookup(&self.scratch.key[..words]);
        let mut metered = None;
        let (place, data) = match found {
            None => view.default_action(),
            Some(hit) => {
                if let Some(counters) = view.counters() {
                    counters.add(self.scratch.lane, hit.slot.0 as usize, self.packet.len.into());
                }
                if let Some(hits) = view.last_hits() {
                    hits.touch(hit.slot, self.now());
                }
                if let Some(meters) = view.meters() {
                    let slot = hit.slot.0 as usize;
                    let green = crate::state::color(0);
                    let color = meters.execute(slot, self.packet.len.into(), green, self.now());
                    self.set_color(color as u8);
                    metered = Some(color as u8);
                }
                let hash = match &table.selector {
                    Some(selector) => {
                        self.unless_trapped(self.hash(selector.hash, &selector.keys))?
                    }
                    None => 0,
                };
                let hit = tables.select(view, hit, hash);
                (hit.action, hit.data)
            }
        };
        let action = table.actions.get(place as usize).copied().unwrap_or_default();
        // The key as it was looked up: the meter may have set the colour since.
        self.trace(|pass| Event::Apply {
            table: id,
            keys: view.shape().layout().places().iter().map(|p| p.get(&pass.scratch.key)).collect(),
            slot: found.map(|hit| hit.slot.0),
            color: metered,
        });
        let base = self.scratch.phv.locals.len();
        self.scratch.phv.locals.extend(action_args(&self.program.actions[action], data));
        self.run_action(action, base)?;
        Ok((found.is_some(), action))
    }

    /// Packs the key of a table into the words of its layout; returns their number.
    fn gather_key(
        &mut self,
        table: TableId,
        values: impl Iterator<Item = ExprId>,
    ) -> Result<usize, End> {
        let Some(view) = self.tables.table(wireyard_tables::TableId(table.0)) else { return Ok(0) };
        let layout = view.shape().layout();
        self.scratch.key[..layout.words()].fill(0);
        for (place, value) in layout.places().iter().zip(values) {
            let value = self.eval(value)? & place.ones();
            place.put(&mut self.scratch.key, value);
        }
        Ok(layout.words())
    }
}
