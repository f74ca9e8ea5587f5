//! The syntax tree as text, for `dump --stage ast`.
//!
//! The text is the program in its normal form: block style, every shorthand written out, expressions
//! with the brackets they need and no others. It can be read again and gives the same tree.

mod code;
mod expression;

pub use code::statement_line;
pub use expression::expression;

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use super::*;
use crate::diag::safe::shown;
use crate::diag::{Files, line_columns};
use crate::ids::FileId;
use code::statements;
use expression::{pattern, quoted, width};

/// The units of a program, one after the other, each under its name.
pub fn units(units: &[Unit]) -> String {
    let texts: Vec<String> = units.iter().map(unit).collect();
    texts.join("\n")
}

/// The same, with a comment behind each header, state, action, table and array: the file and line where it is declared.
pub fn units_with_places(units: &[Unit], files: &Files) -> String {
    let names = units.iter().flat_map(|unit| {
        let headers = unit.headers.iter().map(|(name, _)| name);
        let states = unit.parser.iter().chain(&unit.egress_parser);
        let states = states.chain(unit.parsers.iter().flat_map(|(_, states)| states));
        let actions = unit.actions.iter().map(|(name, _)| name);
        let tables = unit.tables.iter().map(|(name, _)| name);
        headers.chain(states.map(|(name, _)| name)).chain(actions).chain(tables)
    });
    let spans: Vec<SourceSpan> = names.map(|name| name.span).collect();
    let lines = line_columns(files, &spans);
    let places = spans.iter().zip(lines).filter_map(|(span, (line, _))| {
        let file = shown(Path::new(files.get(span.file)?.path.file_name()?));
        Some(((span.file, span.start), format!("{file}:{line}")))
    });
    let places: Rc<Places> = Rc::new(places.collect());
    let text = |one| unit_into(one, Out { places: Rc::clone(&places), ..Out::default() });
    units.iter().map(text).collect::<Vec<String>>().join("\n")
}

/// File and line of names, by where they begin.
type Places = HashMap<(FileId, u32), String>;

/// Lines with their indentation.
#[derive(Default)]
struct Out {
    text: String,
    level: usize,
    /// Comments on the place of a declaration; empty for none.
    places: Rc<Places>,
}

impl Out {
    fn line(&mut self, line: impl AsRef<str>) {
        for _ in 0..self.level {
            self.text.push_str("  ");
        }
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// The line above a declaration.
    fn title(&mut self, name: &Name, value: &str) {
        let place = self.places.get(&(name.span.file, name.span.start));
        let place = place.map(|place| format!(" # {place}")).unwrap_or_default();
        self.line(format!("{}:{value}{place}", name.value));
    }

    fn deeper(&mut self, inner: impl FnOnce(&mut Self)) {
        self.level += 1;
        inner(self);
        self.level -= 1;
    }

    /// A heading and its items, when there are any.
    fn section<T>(&mut self, key: &str, items: &[T], each: impl Fn(&mut Self, &T)) {
        if items.is_empty() {
            return;
        }
        self.line(format!("{key}:"));
        self.deeper(|out| items.iter().for_each(|item| each(out, item)));
    }

    /// A named thing in one line: `name: value`.
    fn pairs<T>(&mut self, key: &str, items: &Named<T>, value: impl Fn(&T) -> String) {
        self.section(key, items, |out, (name, item)| {
            out.line(format!("{}: {}", name.value, value(item)));
        });
    }

    fn expression(&mut self, key: &str, value: Option<&AstExpr>) {
        if let Some(value) = value {
            self.line(format!("{key}: {}", quoted(&expression(value))));
        }
    }

    fn word(&mut self, key: &str, value: Option<&Name>) {
        if let Some(value) = value {
            self.line(format!("{key}: {}", quoted(&value.value)));
        }
    }

    fn count(&mut self, key: &str, value: Option<&Sp<u64>>) {
        if let Some(value) = value {
            self.line(format!("{key}: {}", value.value));
        }
    }

    fn size(&mut self, key: &str, value: Option<&Size>) {
        if let Some(value) = value {
            self.line(format!("{key}: {}", size(value)));
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        if value {
            self.line(format!("{key}: true"));
        }
    }

    fn names(&mut self, key: &str, names: &[Name]) {
        if !names.is_empty() {
            self.line(format!("{key}: {}", name_list(names)));
        }
    }
}

fn name_list(names: &[Name]) -> String {
    // Brackets of an element end a list of YAML.
    let one = |name: &Name| match element(&name.value).1 {
        Some(_) => format!("\"{}\"", name.value),
        None => name.value.clone(),
    };
    format!("[{}]", names.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn expression_list(values: &[AstExpr]) -> String {
    let values: Vec<String> = values.iter().map(|value| quoted(&expression(value))).collect();
    format!("[{}]", values.join(", "))
}

/// The keys of a value set: `bits: 16, kind: range`, or `key: { .. }`.
fn set_keys(keys: &[SetKeyDecl]) -> String {
    let one = |key: &SetKeyDecl| {
        let kind = key.kind.as_ref().map(|kind| format!(", kind: {}", kind.value));
        format!("bits: {}{}", width(&key.ty), kind.unwrap_or_default())
    };
    if let [only @ SetKeyDecl { name: None, .. }] = keys {
        return one(only);
    }
    let named = keys.iter().filter_map(|key| {
        let name = quoted(&key.name.as_ref()?.value);
        Some(format!("{name}: {{ {} }}", one(key)))
    });
    format!("key: {{ {} }}", named.collect::<Vec<_>>().join(", "))
}

fn set_member(member: &MemberDecl) -> String {
    match member {
        MemberDecl::One(one) => quoted(&pattern(&one.value)),
        MemberDecl::Keys(all) => format!("{{ {} }}", patterns(&all.value)),
    }
}

/// Keys and what is matched: `a: 1, b: 2..3`.
fn patterns(all: &Named<Sp<PatternDecl>>) -> String {
    let one = |(key, value): &(Name, Sp<PatternDecl>)| {
        format!("{}: {}", quoted(&key.value), quoted(&pattern(&value.value)))
    };
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A program or library.
pub fn unit(unit: &Unit) -> String {
    unit_into(unit, Out::default())
}

fn unit_into(unit: &Unit, mut out: Out) -> String {
    let kind = if unit.is_library { "library" } else { "pipeline" };
    out.word(kind, unit.name.as_ref());
    out.word("doc", unit.doc.as_ref());
    out.pairs("const", &unit.consts, |value| quoted(&expression(value)));
    out.pairs("types", &unit.types, width);
    out.section("headers", &unit.headers, header);
    out.pairs("instances", &unit.instances, instance);
    out.pairs("unions", &unit.unions, |members| {
        let names: Vec<&str> = members.iter().map(|name| name.value.as_str()).collect();
        format!("[{}]", names.join(", "))
    });
    out.pairs("metadata", &unit.metadata, meta);
    out.pairs("value_sets", &unit.value_sets, |set| {
        let values: Vec<String> = set.values.iter().map(set_member).collect();
        let (keys, size, values) = (set_keys(&set.keys), size(&set.size), values.join(", "));
        format!("{{ {keys}, size: {size}, values: [{values}] }}")
    });
    out.names("errors", &unit.errors);
    out.section("parser", &unit.parser, state);
    out.section("egress_parser", &unit.egress_parser, state);
    out.section("parsers", &unit.parsers, |out, (name, states)| {
        out.section(&name.value, states, state);
    });
    out.word("on_parser_error", unit.on_parser_error.as_ref());
    out.section("actions", &unit.actions, action);
    out.section("tables", &unit.tables, code::table);
    out.section("controls", &unit.controls, |out, (name, control)| {
        if control.params.is_empty() {
            return statements(out, &name.value, &control.body);
        }
        out.line(format!("{}:", name.value));
        out.deeper(|out| {
            out.pairs("params", &control.params, control_param);
            statements(out, "do", &control.body);
        });
    });
    storage(&mut out, unit);
    for (key, control) in [("ingress", &unit.ingress), ("egress", &unit.egress)] {
        if let Some(control) = control {
            statements(&mut out, key, &control.value);
        }
    }
    computed(&mut out, unit);
    out.text
}

fn storage(out: &mut Out, unit: &Unit) {
    out.pairs("registers", &unit.registers, |register| {
        let cells: Vec<String> = register
            .cells
            .iter()
            .map(|(name, ty)| format!("{}: {}", name.value, width(ty)))
            .collect();
        format!("{{ struct: {{ {} }}, size: {} }}", cells.join(", "), size(&register.size))
    });
    out.pairs("counters", &unit.counters, |counter| format!("{{ size: {} }}", size(&counter.size)));
    out.pairs("meters", &unit.meters, |meter| {
        format!("{{ size: {}, {} }}", size(&meter.size), code::meter_kind(meter))
    });
    out.pairs("ids", &unit.ids, |id| format!("{id:#x}"));
    out.section("digests", &unit.digests, |out, (name, fields)| {
        out.pairs(&name.value, fields, |value| quoted(&expression(value)));
    });
}

fn header(out: &mut Out, (name, header): &(Name, HeaderDecl)) {
    out.title(name, "");
    out.deeper(|out| {
        out.count("bytes", header.bytes.as_ref());
        if let Some(controller) = &header.controller {
            out.line(format!("controller: {}", controller.value.name()));
        }
        if let Some(word) = &header.word {
            let order = if word.little { "little" } else { "big" };
            out.line(format!("word: {{ bits: {}, order: {order} }}", word.bits.value));
        }
        if header.fields.is_empty() {
            out.line("fields: {}");
        }
        out.pairs("fields", &header.fields, field);
    });
}

fn field(field: &FieldDecl) -> String {
    match field {
        FieldDecl::Bits(ty) => width(ty),
        FieldDecl::Slices(slices) => {
            let slice = |slice: &Sp<WordSlice>| {
                let WordSlice { word, high, low } = slice.value;
                format!("\"w{word}[{high}:{low}]\"")
            };
            format!("[{}]", slices.iter().map(slice).collect::<Vec<_>>().join(", "))
        }
        FieldDecl::Array { count, bits } => {
            format!("{{ array: {}, bits: {} }}", count.value, bits.value)
        }
        FieldDecl::Variable { max_bits, length } => {
            let length = length.as_ref().map(|length| quoted(&expression(length)));
            let length = length.map(|length| format!(", length: {length}")).unwrap_or_default();
            format!("{{ varbits: {}{length} }}", max_bits.value)
        }
    }
}

fn size(size: &Size) -> String {
    match size {
        Size::Number(number) => number.value.to_string(),
        Size::Const(name) => name.value.clone(),
    }
}

fn control_param(param: &ControlParam) -> String {
    let word = Direction::ALL.iter().find(|(_, direction)| *direction == param.direction);
    match (param.direction, word) {
        (Direction::Out | Direction::InOut, Some((word, _))) => {
            format!("{{ bits: {}, direction: {word} }}", width(&param.ty))
        }
        _ => width(&param.ty),
    }
}

fn instance(instance: &InstanceDecl) -> String {
    match &instance.stack {
        Some(stack) => {
            format!("{{ header: {}, stack: {} }}", instance.header.value, size(stack))
        }
        None => instance.header.value.clone(),
    }
}

fn meta(meta: &MetaDecl) -> String {
    if meta.carried {
        format!("{{ bits: {}, carried: true }}", width(&meta.ty))
    } else {
        width(&meta.ty)
    }
}

fn state(out: &mut Out, (name, state): &(Name, StateDecl)) {
    out.title(name, if is_empty(state) { " {}" } else { "" });
    out.deeper(|out| {
        out.names("extract", &state.extract);
        out.section("verify", &state.verify, |out, (condition, error)| {
            out.line(format!("{}: {}", quoted(&expression(condition)), error.value));
        });
        if !state.statements.is_empty() {
            statements(out, "do", &state.statements);
        }
        out.pairs("extract_at", &state.extract_at, |at| quoted(&expression(at)));
        out.expression("body_end", state.body_end.as_ref());
        if let Some(call) = &state.call {
            out.line(format!("call: {}", call.target.value));
            out.pairs("bind", &call.bind, |to| to.value.clone());
        }
        next(out, &state.next);
    });
}

/// A state that only accepts.
fn is_empty(state: &StateDecl) -> bool {
    let StateDecl { extract, statements, verify, extract_at, body_end, call, next, span: _ } =
        state;
    extract.is_empty()
        && statements.is_empty()
        && verify.is_empty()
        && extract_at.is_empty()
        && body_end.is_none()
        && call.is_none()
        && *next == NextDecl::To(None)
}

fn next(out: &mut Out, next: &NextDecl) {
    match next {
        NextDecl::To(target) => out.word("next", target.as_ref()),
        NextDecl::Select { keys, cases, default } => {
            out.line(format!("select: {}", expression_list(keys)));
            out.section("cases", cases, |out, case| {
                let patterns: Vec<String> = case
                    .patterns
                    .iter()
                    .map(|one| quoted(&expression::pattern(&one.value)))
                    .collect();
                let to = quoted(&case.to.value);
                out.line(format!("- {{ match: [{}], next: {to} }}", patterns.join(", ")));
            });
            out.word("default", default.as_ref());
        }
    }
}

fn action(out: &mut Out, (name, action): &(Name, ActionDecl)) {
    out.title(name, "");
    out.deeper(|out| {
        out.pairs("params", &action.params, width);
        statements(out, "do", &action.body);
    });
}

fn computed(out: &mut Out, unit: &Unit) {
    if let Some(deparser) = &unit.deparser {
        out.line(if is_plain(deparser) { "deparser: {}" } else { "deparser:" });
        out.deeper(|out| {
            if let Some(emit) = &deparser.emit {
                out.line(format!("emit: {}", name_list(emit)));
            }
            out.section("after", &deparser.after, after);
            out.names("discard", &deparser.discard);
            if deparser.strip_slack {
                out.line("slack: strip");
            }
        });
    }
    out.section("checksums", &unit.checksums, |out, checksum| {
        out.line(format!("- field: {}", quoted(&expression(&checksum.field))));
        out.deeper(|out| {
            out.section("over", &checksum.over, covered);
            out.expression("when", checksum.when.as_ref());
            out.flag("zero_means_none", checksum.zero_means_none);
            out.word("verify", checksum.verify.as_ref());
            out.word("update", checksum.update.as_ref());
        });
    });
    out.section("crcs", &unit.crcs, |out, (name, crc)| {
        out.line(format!("{}:", name.value));
        out.deeper(|out| {
            out.expression("field", crc.field.as_ref());
            out.pairs("params", &crc.params, |value| quoted(&value.value));
            out.section("over", &crc.over, covered);
            out.expression("when", crc.when.as_ref());
            out.word("verify", crc.verify.as_ref());
            out.word("update", crc.update.as_ref());
        });
    });
    if unit.qos != QosDecl::default() {
        out.line("qos:");
        out.deeper(|out| {
            for (key, fields) in [("dscp", &unit.qos.dscp), ("pcp", &unit.qos.pcp)] {
                if !fields.is_empty() {
                    out.line(format!("{key}: {}", expression_list(fields)));
                }
            }
        });
    }
    out.section("linux", &unit.linux, |out, (name, mapping)| {
        out.line(format!("{}:", name.value));
        out.deeper(|out| {
            out.line(format!("table: {}", mapping.table.value));
            let pairs = mapping.key.iter();
            let pairs = pairs.map(|(key, value)| format!("{}: {}", key.value, expression(value)));
            out.line(format!("key: {{ {} }}", pairs.collect::<Vec<_>>().join(", ")));
            for (role, call) in &mapping.actions {
                out.line(format!("{}: {}", role.value, quoted(&expression(call))));
            }
        });
    });
}

/// True if all of it is at its defaults.
fn is_plain(deparser: &DeparserDecl) -> bool {
    let DeparserDecl { emit, after, discard, strip_slack, span: _ } = deparser;
    emit.is_none() && after.is_empty() && discard.is_empty() && !strip_slack
}

fn covered(out: &mut Out, covered: &CoveredDecl) {
    out.line(match covered {
        CoveredDecl::Ones(bytes) => format!("- {{ ones: {} }}", bytes.value),
        CoveredDecl::Name(name) => format!("- {}", name.value),
        CoveredDecl::Masked { instance, mask } => {
            format!("- {{ {}: {{ mask: {} }} }}", instance.value, name_list(mask))
        }
        CoveredDecl::Value(value) => format!("- {{ value: {} }}", quoted(&expression(value))),
    });
}

fn after(out: &mut Out, after: &AfterDecl) {
    match after {
        AfterDecl::Header(name) => out.line(format!("- {}", name.value)),
        AfterDecl::Pad { name, bytes, fill, when } => {
            out.line(format!("- pad: {}", quoted(&expression(bytes))));
            out.deeper(|out| {
                out.word("name", name.as_ref());
                out.count("fill", fill.as_ref());
                out.expression("when", when.as_ref());
            });
        }
    }
}

#[cfg(test)]
mod tests;
