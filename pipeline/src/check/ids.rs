//! `ids:`: the control plane's ids of objects, where a program gives them.
//!
//! A number is an id of P4Runtime: a byte for the kind of the object (specification 1.5, section 6.3) and 24 bits,
//! which are unique among the objects of a kind. The byte may be left out. A program can so keep the ids of another
//! compiler's P4Info.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cx::Cx;
use crate::diag::codes;
use crate::ir::Program;

/// The 24 bits below the kind.
const NUMBER: u64 = 0x00ff_ffff;

/// Names of objects that have ids, with the byte of their kind.
fn objects(program: &Program) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = Vec::new();
    all.extend(program.actions.iter().map(|one| (one.name.clone(), 0x01)));
    all.extend(program.tables.iter().map(|one| (one.name.clone(), 0x02)));
    all.extend(program.value_sets.iter().map(|one| (one.name.clone(), 0x03)));
    let controllers = program.headers.iter().filter_map(|header| header.controller);
    all.extend(controllers.map(|controller| (controller.name().to_owned(), 0x04)));
    for table in &program.tables {
        let parts = [
            ("profile", 0x11, table.selector.is_some()),
            ("counter", 0x13, table.counters),
            ("meter", 0x15, table.meter.is_some()),
        ];
        let parts = parts.into_iter().filter(|(_, _, is_there)| *is_there);
        all.extend(parts.map(|(part, kind, _)| (format!("{}.{part}", table.name), kind)));
    }
    all.extend(program.counters.iter().map(|one| (one.name.clone(), 0x12)));
    all.extend(program.meters.iter().map(|one| (one.name.clone(), 0x14)));
    all.extend(program.registers.iter().map(|one| (one.name.clone(), 0x16)));
    all.extend(program.digests.iter().map(|one| (one.name.clone(), 0x17)));
    all
}

impl Cx<'_> {
    /// One of two texts: for a program in YAML, and for one in P4 (or in JSON for bmv2).
    pub(crate) fn in_words_of<T>(&self, yaml: T, p4: T) -> T {
        if self.units.first().is_some_and(|root| root.origin.is_some()) { p4 } else { yaml }
    }

    /// The origin of the program, if another front end made it.
    pub(crate) fn take_origin(&mut self) {
        let origin = self.units.first().and_then(|root| root.origin.as_deref());
        self.ir.origin = origin.map(|origin| Arc::new(origin.clone()));
    }

    /// Checks the ids and keeps their numbers.
    pub(crate) fn pinned_ids(&mut self) {
        let Some(root) = self.units.first().filter(|root| !root.ids.is_empty()) else { return };
        let objects = objects(&self.ir);
        let mut taken: BTreeMap<(u64, u64), &str> = BTreeMap::new();
        for (name, id) in &root.ids {
            let Some((_, kind)) = objects.iter().find(|(known, _)| *known == name.value) else {
                // An unused declaration is left out of the program, and needs no id.
                if self.scope.symbol(&name.value).is_none() {
                    let text = format!("`ids` names `{}`, and no object has this name", name.value);
                    let names = objects.iter().map(|(known, _)| known.as_str());
                    self.report
                        .error(codes::UNKNOWN, name.span, text)
                        .did_you_mean(&name.value, names);
                }
                continue;
            };
            let (prefix, number) = (id >> 24, id & NUMBER);
            if number == 0 || (prefix != 0 && prefix != *kind) {
                let text = format!("{id:#x} is no id for `{}`", name.value);
                let help = format!(
                    "its ids are {:#010x} to {:#010x}; the first byte may be left out",
                    kind << 24 | 1,
                    kind << 24 | NUMBER
                );
                self.report.error(codes::BAD_NUMBER, name.span, text).help(help);
                continue;
            }
            if let Some(other) = taken.insert((*kind, number), &name.value) {
                let text = format!("`{}` and `{other}` have the same id", name.value);
                self.report.error(codes::TWICE, name.span, text);
            }
            self.ir.ids.insert(name.value.clone(), number as u32);
        }
    }
}
