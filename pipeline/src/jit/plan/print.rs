//! The plan as text, for `wireyard dump --stage plan` and the list of forms.

use super::{
    Control, ControlPlan, EgressCopy, EmptyPart, Extract, Form, Fused, Leaf, Plan, Source,
    Specialised, Start, Step, Tail, Way,
};
use crate::ids::*;
use crate::ir::Program;
use crate::jit::plan::tables::Search;
use crate::phv::bit;
use std::fmt::Write as _;

/// The forms of code that a program has at a level, in a line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// `path-specialised`, or `generic` and why.
    pub ingress: String,
    /// `fused` with ingress, or `not fused` and why.
    pub fused: String,
    /// As of ingress.
    pub egress: String,
}

impl Plan<'_> {
    /// The forms of code.
    pub(in crate::jit) fn forms(&self) -> Forms {
        let control = |form: &Form<ControlPlan<'_>>| match form {
            Ok(_) => "path-specialised".to_owned(),
            Err(why) => format!("generic: {why}"),
        };
        let fused = match &self.fused {
            Ok(_) => "fused".to_owned(),
            Err(why) => format!("not fused: {why}"),
        };
        Forms { ingress: control(&self.ingress), fused, egress: control(&self.egress) }
    }

    /// All of it.
    pub(in crate::jit) fn text(&self, program: &Program, level: u8) -> String {
        let mut page = Page { program, text: String::new() };
        let forms = self.forms();
        page.line(0, &format!("program {}, level {level}", program.name));
        for (table, search) in program.tables.iter().zip(&self.tables) {
            page.line(0, &format!("table {}: {}", table.name, name(*search)));
        }
        let [ingress, egress] = &self.interpreted;
        page.control("ingress", &forms.ingress, ingress, self.ingress.as_ref().ok());
        page.line(0, &format!("egress behind ingress: {}", forms.fused));
        if let Ok(Fused { control, copies, .. }) = &self.fused {
            copies.iter().for_each(|copy| page.copy(control, copy));
        }
        page.control("egress", &forms.egress, egress, self.egress.as_ref().ok());
        page.text
    }
}

fn name(search: Search) -> String {
    match search {
        Search::Direct => "array by key".to_owned(),
        Search::Hash => "hash table".to_owned(),
        Search::Trie { root_bits, .. } => format!("trie, {root_bits} bits in the root"),
        Search::List => "list of up to 16 entries, else a call".to_owned(),
        Search::Call => "call".to_owned(),
    }
}

/// The text so far.
struct Page<'p> {
    program: &'p Program,
    text: String,
}

impl Page<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{:1$}{text}", "", depth * 2);
    }

    fn instance(&self, id: InstanceId) -> &str {
        &self.program.instances[id].name
    }

    fn headers(&self, mask: u64) -> String {
        let there = self.program.instances.entries().filter(|(id, _)| mask & bit(*id) != 0);
        let names: Vec<&str> = there.map(|(_, instance)| instance.name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(" ") }
    }

    fn control(&mut self, name: &str, form: &str, steps: &[&str], plan: Option<&ControlPlan<'_>>) {
        self.line(0, &format!("{name}: {form}"));
        let steps = if steps.is_empty() { "none".to_owned() } else { steps.join(", ") };
        self.line(1, &format!("generic code, steps of the interpreter: {steps}"));
        let Some(plan) = plan else { return };
        if plan.control.elements_max != u32::MAX {
            let most = plan.control.elements_max;
            self.line(1, &format!("paths with more than {most} stack elements: generic code"));
        }
        match &plan.start {
            Start::Parser(way) => self.way(&plan.control, way, &mut Vec::new()),
            Start::Headers(copies) => copies.iter().for_each(|copy| self.copy(&plan.control, copy)),
        }
    }

    fn copy(&mut self, control: &Control<'_>, copy: &EgressCopy) {
        let mut states = vec![format!("headers {}", self.headers(copy.valid))];
        let checks = copy.extracts.iter().filter_map(|extract| self.extract(extract));
        states.extend(checks.collect::<Vec<_>>());
        self.way(control, &copy.end, &mut states);
    }

    /// The tests of a header where it is extracted.
    fn extract(&self, extract: &Extract) -> Option<String> {
        let name = self.instance(extract.instance);
        match extract.empty {
            EmptyPart::Known => None,
            EmptyPart::Field(field, value) => {
                let header = &self.program.headers[self.program.instances[extract.instance].header];
                Some(format!("[{name}.{} == {value}]", header.fields[field].name))
            }
            EmptyPart::Length(_) => Some(format!("[{name} has an empty variable part]")),
        }
    }

    fn way(&mut self, control: &Control<'_>, way: &Way, before: &mut Vec<String>) {
        let length = before.len();
        match way {
            Way::State(visit) => {
                before.push(self.program.parser.states[visit.state].name.clone());
                for step in &visit.steps {
                    if let Step::Extract(extract) = step {
                        before.extend(self.extract(extract));
                    }
                }
                match &visit.next {
                    Ok(next) => next.iter().for_each(|way| self.way(control, way, before)),
                    Err(why) => {
                        self.line(1, &format!("path {}: generic code: {why}", before.join(" > ")))
                    }
                }
            }
            Way::Detour(why) => {
                self.line(1, &format!("path {}: generic code: {why}", before.join(" > ")));
            }
            Way::Leaf(leaf) => match &leaf.code {
                Ok(code) => {
                    self.line(1, &format!("path {}", before.join(" > ")));
                    self.leaf(control, leaf, code);
                }
                Err(why) => {
                    self.line(1, &format!("path {}: generic code: {why}", before.join(" > ")));
                }
            },
        }
        before.truncate(length);
    }

    fn leaf(&mut self, control: &Control<'_>, leaf: &Leaf, code: &Specialised) {
        let path = &leaf.path;
        let at = |id: &InstanceId| format!("{}@{}", self.instance(*id), path.at[id.index()]);
        let headers: Vec<String> = path.order.iter().map(at).collect();
        let grows = match code.headroom_bytes {
            0 => String::new(),
            bytes => format!(", {bytes} bytes of headroom"),
        };
        self.line(2, &format!("headers {}, body@{}{grows}", headers.join(" "), path.cursor));
        let facts = path.facts.iter().map(|((id, field), value)| {
            let header = &self.program.headers[self.program.instances[*id].header];
            format!("{}.{} == {value:#x}", self.instance(*id), header.fields[*field].name)
        });
        let facts: Vec<String> = facts.collect();
        if !facts.is_empty() {
            self.line(2, &format!("known {}", facts.join(", ")));
        }
        let sums = |ids: Vec<ChecksumId>| {
            let names = ids.iter().map(|id| self.program.checksums[*id].name.as_str());
            names.collect::<Vec<&str>>().join(" ")
        };
        let verified = sums(code.verified.iter().map(|sum| sum.id).collect());
        let followed = sums(code.followed.iter().map(|sum| sum.id).collect());
        for (what, names) in [("verify", verified), ("update by what changed", followed)] {
            if !names.is_empty() {
                self.line(2, &format!("{what} {names}"));
            }
        }
        if control.changes != 0 {
            self.line(2, &format!("may add or remove {}", self.headers(control.changes)));
        }
        for tail in &code.tails {
            self.tail(code, tail);
        }
        if code.tails.is_empty() {
            self.line(2, "every packet drops");
        }
    }

    fn tail(&mut self, code: &Specialised, tail: &Tail) {
        let mut parts = vec![format!("leave {}", self.headers(tail.leaving))];
        for n in &tail.updated {
            let id = code.followed[*n].id;
            parts.push(format!("update {}", self.program.checksums[id].name));
        }
        for sum in &tail.computed {
            let (owner, field) = sum.field;
            let header = &self.program.headers[self.program.instances[owner].header];
            let field = &header.fields[field].name;
            parts.push(format!("compute {}.{field}", self.instance(owner)));
        }
        for header in &tail.moves {
            let from = match header.from {
                Source::Registers => "registers".to_owned(),
                Source::Packet(at) => at.to_string(),
                Source::HeaderVector => "header vector".to_owned(),
            };
            parts.push(format!("{} {from} -> {}", self.instance(header.instance), header.to));
        }
        if tail.start != 0 {
            parts.push(format!("packet begins at {}", tail.start));
        }
        self.line(2, &parts.join("; "));
    }
}
