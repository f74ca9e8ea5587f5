//! The IR as text: for `dump --stage ir`, golden files and messages about passes.
//!
//! Names with ids, one object per line, in the order of ids; the same program has the same text. Expressions are
//! written as in the language, fully bracketed, a constant with its width (`0x800:16`). The text cannot be parsed back:
//! it is for reading.

mod code;
mod expr;

use super::*;
use std::fmt::Write;

/// The whole program.
pub fn program(program: &Program) -> String {
    let mut printer = Printer { program, out: String::new() };
    printer.decls();
    printer.parser();
    printer.actions();
    printer.tables();
    printer.control("ingress", &program.ingress);
    printer.control("egress", &program.egress);
    printer.deparser();
    printer.covers();
    printer.out
}

/// An expression, with the names of the locals of its body.
pub fn expression(
    program: &Program,
    locals: &IdVec<LocalId, super::code::Local>,
    id: ExprId,
) -> String {
    Printer { program, out: String::new() }.expr(id, locals)
}

struct Printer<'p> {
    program: &'p Program,
    out: String,
}

impl Printer<'_> {
    /// A line, indented.
    fn line(&mut self, depth: usize, text: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{:width$}{text}", "", width = depth * 2);
    }

    fn instance(&self, id: InstanceId) -> String {
        self.program.instances.get(id).map_or_else(|| id.to_string(), |i| i.name.clone())
    }

    fn stack(&self, id: StackId) -> String {
        self.program.stacks.get(id).map_or_else(|| id.to_string(), |s| s.name.clone())
    }

    fn field(&self, instance: InstanceId, field: FieldId) -> String {
        let header = self.program.instances.get(instance).map(|i| i.header);
        let header = header.and_then(|h| self.program.headers.get(h));
        let field = header.and_then(|h| h.fields.get(field)).map_or("?", |f| f.name.as_str());
        format!("{}.{field}", self.instance(instance))
    }

    fn action(&self, id: ActionId) -> String {
        self.program.actions.get(id).map_or_else(|| id.to_string(), |a| a.name.clone())
    }

    fn call(&self, call: &ActionCall) -> String {
        let args: Vec<String> = call.args.iter().map(|arg| format!("{arg:#x}")).collect();
        format!("{}({})", self.action(call.action), args.join(", "))
    }

    fn none() -> IdVec<LocalId, super::code::Local> {
        IdVec::new()
    }

    fn decls(&mut self) {
        let program = self.program;
        self.line(0, &format!("program {}", program.name));
        for (id, header) in program.headers.entries() {
            let more = if header.max_bytes > header.fixed_bytes {
                format!(" to {}", header.max_bytes)
            } else {
                String::new()
            };
            self.line(
                0,
                &format!("header {id} {}, {}{more} bytes", header.name, header.fixed_bytes),
            );
            for (id, field) in header.fields.entries() {
                self.line(1, &format!("{id} {} {}", field.name, layout(&field.layout)));
            }
        }
        for (id, instance) in program.instances.entries() {
            let mut text = format!("instance {id} {}: {}", instance.name, instance.header);
            if let Some(bits) = instance.variable_bits {
                text += &format!(", and {} bits", self.expr(bits, &Self::none()));
            }
            self.line(0, &text);
        }
        for (id, stack) in program.stacks.entries() {
            self.line(0, &format!("stack {id} {}: {} from {}", stack.name, stack.len, stack.first));
        }
        for (id, meta) in program.metadata.entries() {
            let carried = meta.carried_at.map_or(String::new(), |at| format!(", carried at {at}"));
            self.line(0, &format!("metadata {id} {}: {}{carried}", meta.name, meta.bits));
        }
        for (id, set) in program.value_sets.entries() {
            self.line(0, &format!("value_set {id} {}", value_set(set)));
        }
        self.state();
    }

    fn state(&mut self) {
        let program = self.program;
        for (id, register) in program.registers.entries() {
            let cells: Vec<String> =
                register.cells.iter().map(|cell| format!("{}: {}", cell.name, cell.bits)).collect();
            let text = format!("{} x {} {{ {} }}", register.name, register.size, cells.join(", "));
            self.line(0, &format!("register {id} {text}"));
        }
        for (id, counter) in program.counters.entries() {
            self.line(0, &format!("counter {id} {} x {}", counter.name, counter.size));
        }
        for (id, meter) in program.meters.entries() {
            let text = format!("{} x {} {}", meter.name, meter.size, meter_kind(meter.kind));
            self.line(0, &format!("meter {id} {text}"));
        }
        for (name, id) in &program.ids {
            self.line(0, &format!("id {name} {id:#08x}"));
        }
        for (id, digest) in program.digests.entries() {
            let fields: Vec<String> = digest
                .fields
                .iter()
                .zip(&digest.values)
                .map(|(field, value)| {
                    format!("{}: {}", field.name, self.expr(*value, &Self::none()))
                })
                .collect();
            self.line(0, &format!("digest {id} {} {{ {} }}", digest.name, fields.join(", ")));
        }
        for (id, external) in program.externs.entries() {
            self.line(0, &format!("extern {id} {}", external.name));
        }
    }

    fn tables(&mut self) {
        for (id, table) in self.program.tables.entries() {
            let mut text = format!("table {id} {}, {} entries", table.name, table.size);
            if table.const_entries {
                text += ", constant";
            }
            if table.counters {
                text += ", counters";
            }
            if let Some(meter) = table.meter {
                text += &format!(", meter {}", meter_kind(meter));
            }
            if let Some(ms) = table.idle_timeout_ms {
                text += &format!(", idle timeout {ms} ms");
                text += if table.removes_idle { " (removes)" } else { "" };
            }
            self.line(0, &text);
            for key in &table.keys {
                let value = self.expr(key.value, &Self::none());
                let kind = key.kind.name();
                self.line(1, &format!("key {}: {value}, {} bits, {kind}", key.name, key.bits));
            }
            if let Some(selector) = &table.selector {
                let keys: Vec<String> =
                    selector.keys.iter().map(|key| self.expr(*key, &Self::none())).collect();
                let sizes =
                    format!("{} members, {} groups", selector.max_members, selector.max_groups);
                let hash = expr::hash_name(selector.hash);
                self.line(1, &format!("selector {hash}({}), {sizes}", keys.join(", ")));
            }
            let actions: Vec<String> = table.actions.iter().map(|id| self.action(*id)).collect();
            self.line(1, &format!("actions {}", actions.join(", ")));
            let constant = if table.const_default { ", constant" } else { "" };
            self.line(1, &format!("default {}{constant}", self.call(&table.default)));
            for entry in &table.entries {
                let matches: Vec<String> = entry.matches.iter().map(matched).collect();
                let call = self.call(&entry.call);
                let meter = entry.meter.map_or_else(String::new, |rates| format!(", {rates}"));
                let (keys, priority) = (matches.join(", "), entry.priority);
                self.line(1, &format!("entry [{keys}] {priority} -> {call}{meter}"));
            }
        }
    }

    fn deparser(&mut self) {
        let program = self.program;
        let emit: Vec<String> = program.deparser.emit.iter().map(|id| self.instance(*id)).collect();
        let slack = if program.deparser.strip_slack { "strip" } else { "keep" };
        self.line(0, &format!("deparser {}; slack {slack}", emit.join(", ")));
        for item in &program.deparser.after {
            let text = match item {
                AfterBody::Header(id) => format!("after {}", self.instance(*id)),
                AfterBody::Pad { bytes, fill, when } => {
                    let when = when.map(|when| format!(" if {}", self.expr(when, &Self::none())));
                    let bytes = self.expr(*bytes, &Self::none());
                    format!("after {bytes} bytes of {fill:#04x}{}", when.unwrap_or_default())
                }
            };
            self.line(1, &text);
        }
        for (name, pair) in [("dscp", program.qos.dscp), ("pcp", program.qos.pcp)] {
            let Some((value, valid)) = pair else { continue };
            let (value, valid) = (self.expr(value, &Self::none()), self.expr(valid, &Self::none()));
            self.line(0, &format!("qos {name} {value} if {valid}"));
        }
        for mapping in &program.linux {
            let table = &program.tables[mapping.table];
            let keys = table.keys.iter().zip(&mapping.keys);
            let keys = keys.filter_map(|(key, value)| Some((&key.name, value.as_ref()?)));
            let keys: Vec<String> =
                keys.map(|(name, value)| format!("{name} = {}", mapped(value))).collect();
            self.line(0, &format!("linux {}: {} {}", mapping.name, table.name, keys.join(", ")));
            for call in &mapping.calls {
                let args: Vec<String> = call.args.iter().map(mapped).collect();
                let action = &program.actions[call.action].name;
                self.line(1, &format!("{}: {action}({})", call.role, args.join(", ")));
            }
        }
    }

    fn covers(&mut self) {
        let program = self.program;
        for (id, sum) in program.checksums.entries() {
            let field = self.field(sum.field.0, sum.field.1);
            let rule = format!("verify {:?}, update {:?}", sum.verify, sum.update).to_lowercase();
            self.line(0, &format!("checksum {id} {field}, {rule}"));
            self.covered(&sum.over, sum.when);
        }
        for (id, crc) in program.crcs.entries() {
            let field = self.field(crc.field.0, crc.field.1);
            let rule = format!("verify {:?}, update {:?}", crc.verify, crc.update).to_lowercase();
            self.line(0, &format!("crc {id} {}: {field}, {rule}", crc.name));
            let p = &crc.params;
            let order = if p.store_little_endian { "little" } else { "big" };
            let text = format!(
                "width {} poly {:#x} init {:#x} reflect {} xor_out {:#x} store {order}",
                p.width, p.poly, p.init, p.reflect, p.xor_out
            );
            self.line(1, &text);
            self.covered(&crc.over, crc.when);
        }
    }

    fn covered(&mut self, over: &[Covered], when: Option<ExprId>) {
        if let Some(when) = when {
            let text = self.expr(when, &Self::none());
            self.line(1, &format!("when {text}"));
        }
        for item in over {
            let text = match item {
                Covered::Ones(bytes) => format!("{bytes} bytes of ones"),
                Covered::Header { instance, ones } if ones.iter().all(|byte| *byte == 0) => {
                    self.instance(*instance)
                }
                Covered::Header { instance, ones } => {
                    let mask: String = ones.iter().map(|byte| format!("{byte:02x}")).collect();
                    format!("{} | {mask}", self.instance(*instance))
                }
                Covered::Value(value) => self.expr(*value, &Self::none()),
                Covered::Body => "body".to_string(),
                Covered::After(at) => format!("after {at}"),
            };
            self.line(1, &format!("over {text}"));
        }
    }
}

fn meter_kind(kind: MeterKind) -> String {
    let rates = if kind.two_rates { "trtcm" } else { "srtcm" };
    let unit = if kind.packets { "packets" } else { "bytes" };
    format!("{rates} {unit}")
}

fn layout(layout: &FieldLayout) -> String {
    match layout {
        FieldLayout::Run { bit, bits } => format!("{bits} bits at {bit}"),
        FieldLayout::Pieces(pieces) => {
            let pieces: Vec<String> = pieces
                .iter()
                .map(|p| format!("{}[{}:{}]", p.byte, p.lsb + p.bits - 1, p.lsb))
                .collect();
            format!("bytes {}", pieces.join(" "))
        }
        FieldLayout::Array { bit, bits, count } => format!("{count} x {bits} bits at {bit}"),
        FieldLayout::Variable { byte, max_bytes } => {
            format!("up to {max_bytes} bytes at byte {byte}")
        }
        FieldLayout::Opaque { byte, bytes } => format!("{bytes} bytes at byte {byte}"),
    }
}

/// `known: 8 x 16 [0x800]`; with several keys or kinds `tunnels: 8 x (port 16 range, vni 24 exact) [(0x50..0x1bb,
/// 0x1)]`.
fn value_set(set: &ValueSet) -> String {
    let key = |key: &MatchField| {
        let kind = key.kind.name();
        format!("{} {} {kind}", key.name, key.bits).trim_start().to_owned()
    };
    let keys = match set.keys.as_slice() {
        [only] if set.is_exact() && only.name.is_empty() => only.bits.to_string(),
        keys => format!("({})", keys.iter().map(key).collect::<Vec<_>>().join(", ")),
    };
    let member = |member: &SetMember| {
        let all: Vec<String> = member.iter().map(matched).collect();
        if let [one] = all.as_slice() { one.clone() } else { format!("({})", all.join(", ")) }
    };
    let members: Vec<String> = set.initial.iter().map(member).collect();
    format!("{}: {} x {keys} [{}]", set.name, set.size, members.join(", "))
}

fn matched(one: &wireyard_tables::Match) -> String {
    use wireyard_tables::Match;
    match one {
        Match::Exact(value) => format!("{value:#x}"),
        Match::Lpm { value, prefix_len } => format!("{value:#x}/{prefix_len}"),
        Match::Ternary { value, mask } => format!("{value:#x} &&& {mask:#x}"),
        Match::Range { lo, hi } => format!("{lo:#x}..{hi:#x}"),
        Match::Optional(Some(value)) => format!("{value:#x}"),
        Match::Optional(None) | Match::Any => "_".to_string(),
    }
}
/// A word or a number of a mapping.
fn mapped(value: &MappedValue) -> String {
    match value {
        MappedValue::Number(number) => number.to_string(),
        MappedValue::Word(word, _) => word.clone(),
    }
}
