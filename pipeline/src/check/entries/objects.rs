//! Objects of an entries file beside tables: value sets, registers, meters, counters, multicast groups, mirror
//! sessions, settings.

use super::Resolver;
use crate::ast::entries::*;
use crate::ast::*;
use crate::diag::codes;
use crate::ir::{CPU_PORT, Register, SourceSpan};
use crate::state::entries::{MirrorSession, MulticastGroup, Replica, Setting};
use std::collections::BTreeSet;
use wireyard_tables::counter::Count;

impl Resolver<'_> {
    pub(super) fn value_sets(&mut self, file: &EntriesFile) {
        let program = self.program;
        for (name, members) in &file.value_sets {
            let found = self.named(&program.value_sets, name, "value set", |set| &set.name);
            let Some((id, set)) = found else { continue };
            self.fits(members.len(), set.size as usize, name, "members");
            let found = self.cx.set_members(set, members);
            self.found.value_sets.push((id, found));
        }
    }

    pub(super) fn registers(&mut self, file: &EntriesFile) {
        let program = self.program;
        for (name, entries) in &file.registers {
            let found = self.named(&program.registers, name, "register", |known| &known.name);
            let Some((id, register)) = found else { continue };
            for (index, cells) in entries {
                let Some(at) = self.index(index, register.size) else { continue };
                for (cell, value) in cells {
                    let found = register.cells.iter().position(|known| known.name == cell.value);
                    let Some((number, known)) =
                        found.and_then(|n| Some((n, register.cells.get(n)?)))
                    else {
                        self.no_cell(register, cell, value.span);
                        continue;
                    };
                    if let Some(value) = self.cx.const_value(value, Some(known.bits)) {
                        self.found.registers.push((id, at, number as u32, value as u64));
                    }
                }
            }
        }
    }

    /// Reports a cell that a register does not have. A value alone is that of a register of one cell (`bits`).
    fn no_cell(&mut self, register: &Register, cell: &Name, value: SourceSpan) {
        if cell.span == value {
            let names: Vec<&str> = register.cells.iter().map(|known| known.name.as_str()).collect();
            let text = format!("an entry of register `{}` has cells", register.name);
            let help = format!("name them: `{{ {}: .. }}`", names.join(": .., "));
            self.cx.report.error(codes::NO_MEMBER, cell.span, text).help(help);
            return;
        }
        self.cx.no_cell(register, cell);
    }

    pub(super) fn meters(&mut self, file: &EntriesFile) {
        let program = self.program;
        for (name, entries) in &file.meters {
            let Some((id, meter)) = self.named(&program.meters, name, "meter", |known| &known.name)
            else {
                continue;
            };
            for (index, decl) in entries {
                let Some(at) = self.index(index, meter.size) else { continue };
                let config = self.cx.meter_config(decl, meter.kind);
                if let Some(config) = config {
                    self.found.meters.push((id, at, config));
                }
            }
        }
    }

    pub(super) fn counters(&mut self, file: &EntriesFile) {
        let program = self.program;
        for (name, entries) in &file.counters {
            let found = self.named(&program.counters, name, "counter", |known| &known.name);
            let Some((id, counter)) = found else { continue };
            for (index, CountDecl { packets, bytes }) in entries {
                if let Some(at) = self.index(index, counter.size) {
                    self.found.counters.push((id, at, Count { packets: *packets, bytes: *bytes }));
                }
            }
        }
    }

    pub(super) fn settings(&mut self, file: &EntriesFile) {
        for SettingDecl { port, queue, set } in &file.settings {
            let at = self.number(port, u16::MAX.into());
            let queue = queue
                .as_ref()
                .map(|queue| self.number(queue, 7))
                .map_or(Some(None), |q| q.map(Some));
            let (Some(port), Some(queue)) = (at, queue) else { continue };
            let (port, queue) = (port as u16, queue.map(|queue| queue as u8));
            let spans = set.iter().map(|one| one.span).collect();
            let set = set.iter().map(|one| one.value.clone()).collect();
            self.found.settings.push(Setting { port, queue, set, spans });
        }
    }

    pub(super) fn groups(&mut self, file: &EntriesFile) {
        let mut seen = BTreeSet::new();
        for (number, decl) in &file.multicast_groups {
            let name = ("multicast group", "no group");
            let Some(id) = self.id(number, u16::MAX.into(), name) else { continue };
            if !seen.insert(id) {
                self.twice(number, "group");
                continue;
            }
            let replicas = match &decl.replicas {
                None => None,
                Some(list) => match self.replicas(list) {
                    Some(all) => Some(all),
                    None => continue,
                },
            };
            let group = MulticastGroup { replicas, prune_ingress: decl.prune_ingress };
            self.found.groups.push((id as u16, group));
        }
    }

    /// Copies, each with another port or instance.
    fn replicas(&mut self, list: &[ReplicaDecl]) -> Option<Vec<Replica>> {
        let found: Vec<_> = list.iter().map(|replica| self.replica(replica)).collect();
        let all = found.into_iter().collect::<Option<Vec<Replica>>>()?;
        let mut seen = BTreeSet::new();
        let twice = |one: &Replica| !seen.insert((one.port, one.instance));
        let Some(at) = all.iter().position(twice) else { return Some(all) };
        let Replica { port, instance } = all[at];
        let text = format!("a copy to port {port} with instance {instance} already exists");
        let help = "leave it out, or give it another instance";
        self.cx.report.error(codes::TWICE, list[at].port.span, text).help(help);
        None
    }

    fn replica(&mut self, decl: &ReplicaDecl) -> Option<Replica> {
        let port = self.port(&decl.port)?;
        let instance = self.optional(decl.instance.as_ref(), u16::MAX.into())? as u16;
        Some(Replica { port, instance })
    }

    pub(super) fn sessions(&mut self, file: &EntriesFile) {
        let mut seen = BTreeSet::new();
        for (number, decl) in &file.mirror_sessions {
            let name = ("mirror session", "no session");
            let Some(id) = self.id(number, u16::MAX.into(), name) else { continue };
            if !seen.insert(id) {
                self.twice(number, "session");
                continue;
            }
            let replicas = self.replicas(&decl.replicas);
            if decl.replicas.is_empty() {
                let text = "a session makes one copy at least";
                self.cx.report.error(codes::ENTRY, number.span, text).help("name its port");
                continue;
            }
            let class = self.optional(decl.traffic_class.as_ref(), 7);
            let truncate = self.truncation(decl.truncate.as_ref());
            let (Some(replicas), Some(class), Some(truncate_bytes)) = (replicas, class, truncate)
            else {
                continue;
            };
            let traffic_class = decl.traffic_class.as_ref().map(|_| class as u8);
            let session = MirrorSession { replicas, traffic_class, truncate_bytes };
            self.found.sessions.push((id as u16, session));
        }
    }

    /// A port that a copy can leave by.
    fn port(&mut self, port: &AstExpr) -> Option<u16> {
        let number = self.cx.const_value(port, Some(16))? as u16;
        if (1..=CPU_PORT).contains(&number) {
            return Some(number);
        }
        let text = format!("no port has the number {number}");
        let help = format!("use 1 to {}, or CPU_PORT", CPU_PORT - 1);
        self.cx.report.error(codes::DOES_NOT_FIT, port.span, text).help(help);
        None
    }

    fn truncation(&mut self, bytes: Option<&Sp<u64>>) -> Option<u32> {
        if let Some(zero) = bytes.filter(|bytes| bytes.value == 0) {
            let text = "a copy of 0 bytes has nothing in it";
            let help = "leave `truncate` out for the whole packet";
            self.cx.report.error(codes::DOES_NOT_FIT, zero.span, text).help(help);
            return None;
        }
        self.optional(bytes, u64::from(u32::MAX))
    }

    fn optional(&mut self, value: Option<&Sp<u64>>, most: u64) -> Option<u32> {
        value.map_or(Some(0), |value| self.number(value, most))
    }

    fn index(&mut self, index: &Sp<u64>, size: u32) -> Option<u32> {
        if index.value < size.into() {
            return Some(index.value as u32);
        }
        let text = format!("index {} is outside an array of {size}", index.value);
        self.cx.report.refuse(codes::BAD_INDEX, index.span, text)
    }
}
