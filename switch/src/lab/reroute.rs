//! Routes that are chosen anew after a link was cut, as a routing protocol does it, without its messages.
//!
//! After the delay of the scenario, every switch gets the entries of the topology without the links that are down, in
//! one batch: a packet uses the old routes or the new ones. Packets in flight continue.

use wireyard_tables::entry::Update;
use wireyard_tables::time::Time;

use super::build::with_entries;
use super::checks::Violation;
use super::engine::Lab;
use super::fabric::Fabric;
use super::routes::{Routes, Target};
use super::scenario::FaultKind;
use crate::program::Loaded;

impl Lab {
    /// Sets the routes of all switches around the links that are down now.
    pub(super) fn reroute(&mut self) -> Result<(), Violation> {
        let around = Fabric { avoided: self.links_avoided(), ..self.scenario.fabric.clone() };
        let routes = Routes::new(&around);
        let target = Target::new(&self.scenario, &self.base.program);
        let switches: Vec<usize> = around.switches().collect();
        for (place, node) in switches.into_iter().enumerate() {
            let text = routes.entries(&around, node, &target);
            let name = &around.nodes[node].name;
            if self.entries[place].1 == text {
                continue;
            }
            let changed = self.replace_entries(node, name, &self.entries[place].1, &text);
            changed
                .map_err(|why| Violation::new("reroute", self.now(), format!("{name}: {why}")))?;
            self.entries[place].1 = text;
        }
        Ok(())
    }

    /// Links that are down now, of faults that are routed around.
    fn links_avoided(&self) -> std::collections::BTreeSet<usize> {
        let now = self.now();
        let lasts = |at: Time, until: Option<Time>| at <= now && until.is_none_or(|end| now < end);
        let down = self.scenario.faults.iter().filter(|fault| lasts(fault.at, fault.until));
        let routed = down.filter_map(|fault| match fault.kind {
            FaultKind::LinkDown { link, reroute_after: Some(_) } => Some(link),
            _ => None,
        });
        routed.collect()
    }

    fn replace_entries(&self, node: usize, name: &str, old: &str, new: &str) -> Result<(), String> {
        let updates = |text: &str| -> Result<Vec<Update>, String> {
            let loaded: Loaded = with_entries(&self.base, name, text).map_err(|e| e.to_string())?;
            Ok(loaded.entries.map(|entries| entries.updates).unwrap_or_default())
        };
        let undone = updates(old)?.into_iter().rev().filter_map(|update| match update {
            Update::Insert(table, entry) => {
                Some(Update::Delete(table, entry.matches, entry.priority))
            }
            Update::InsertMember(profile, number, _) => Some(Update::DeleteMember(profile, number)),
            Update::InsertGroup(profile, number, _) => Some(Update::DeleteGroup(profile, number)),
            _ => None,
        });
        let batch: Vec<Update> = undone.chain(updates(new)?).collect();
        let generation = self.cores[node].generation().ok_or("a switch without a program")?;
        let made = generation.state.tables().batch(&batch, self.now());
        made.map(|_| ()).map_err(|error| error.to_string())
    }
}
