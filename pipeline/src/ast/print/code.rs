//! Statements and tables as text.

use super::expression::{expression, path, quoted};
use super::{Out, expression_list, name_list, patterns};
use crate::ast::entries::CountDecl;
use crate::ast::{
    ApplyStmt, AstExpr, EntryDecl, MeterDecl, MeterRates, Name, Stmt, StmtKind, TableDecl,
};

/// `key:` and a list of statements.
pub(super) fn statements(out: &mut Out, key: &str, body: &[Stmt]) {
    if body.is_empty() {
        out.line(format!("{key}: []"));
        return;
    }
    out.line(format!("{key}:"));
    out.deeper(|out| body.iter().for_each(|one| statement(out, one)));
}

/// The same when there is a statement.
fn some_statements(out: &mut Out, key: &str, body: &[Stmt]) {
    if !body.is_empty() {
        statements(out, key, body);
    }
}

/// `name(a, b)`.
fn call(name: &Name, arguments: &[AstExpr]) -> String {
    let arguments: Vec<String> = arguments.iter().map(expression).collect();
    format!("{}({})", name.value, arguments.join(", "))
}

/// `name`, or `name(a, b)`.
fn control(name: &Name, arguments: &[AstExpr]) -> String {
    if arguments.is_empty() { name.value.clone() } else { call(name, arguments) }
}

/// A statement in one line; of one with blocks, its head.
pub fn statement_line(kind: &StmtKind) -> String {
    let reason = |word: &str, reason: &Option<Name>| match reason {
        Some(reason) => format!("{word} {}", reason.value),
        None => word.to_owned(),
    };
    match kind {
        StmtKind::Assign(target, None, value) => {
            format!("{} = {}", path(&target.value), expression(value))
        }
        StmtKind::Assign(target, Some((high, low)), value) => {
            let target = path(&target.value);
            format!("{target}[{}:{}] = {}", expression(high), expression(low), expression(value))
        }
        StmtKind::Let(name, value) => format!("let {} = {}", name.value, expression(value)),
        StmtKind::Call(name, arguments) => call(name, arguments),
        StmtKind::Drop(why) => reason("drop", why),
        StmtKind::Punt(why) => reason("punt", why),
        StmtKind::Exit => "exit".to_owned(),
        StmtKind::Return => "return".to_owned(),
        StmtKind::If(condition, ..) => format!("if {}", expression(condition)),
        StmtKind::Switch(value, ..) => format!("switch {}", expression(value)),
        StmtKind::Apply(apply) => format!("apply {}", apply.table.value),
        StmtKind::CallControl(name, arguments) => format!("call {}", control(name, arguments)),
        StmtKind::Update { register, index, alias, .. } => {
            format!("update {}[{}] as {}", register.value, expression(index), alias.value)
        }
        StmtKind::Learn { table, .. } => format!("learn {}", table.value),
    }
}

fn statement(out: &mut Out, statement: &Stmt) {
    match &statement.kind {
        StmtKind::If(condition, then, or) => {
            out.line(format!("- if: {}", quoted(&expression(condition))));
            out.deeper(|out| {
                statements(out, "then", then);
                some_statements(out, "else", or);
            });
        }
        StmtKind::Switch(value, cases, default) => {
            out.line(format!("- switch: {}", quoted(&expression(value))));
            out.deeper(|out| {
                out.line(if cases.is_empty() { "cases: {}" } else { "cases:" });
                out.deeper(|out| {
                    for (labels, body) in cases {
                        let labels: Vec<String> = labels.iter().map(expression).collect();
                        statements(out, &quoted(&labels.join(", ")), body);
                    }
                });
                some_statements(out, "default", default);
            });
        }
        StmtKind::Apply(ApplyStmt { table, hit, miss, actions }) => {
            out.line(format!("- apply: {}", table.value));
            out.deeper(|out| {
                some_statements(out, "hit", hit);
                some_statements(out, "miss", miss);
                out.section("actions", actions, |out, (names, body)| {
                    let names: Vec<&str> = names.iter().map(|name| name.value.as_str()).collect();
                    statements(out, &quoted(&names.join(", ")), body);
                });
            });
        }
        StmtKind::CallControl(name, arguments) => {
            out.line(format!("- call: {}", quoted(&control(name, arguments))));
        }
        StmtKind::Update { register, index, alias, body } => {
            out.line(format!("- update: \"{}[{}]\"", register.value, expression(index)));
            out.deeper(|out| {
                out.word("as", Some(alias));
                statements(out, "do", body);
            });
        }
        StmtKind::Learn { table, key, action } => {
            out.line(format!("- learn: {}", table.value));
            out.deeper(|out| {
                out.line(format!("key: {}", expression_list(key)));
                out.expression("action", Some(action));
            });
        }
        simple => out.line(format!("- {}", quoted(&statement_line(simple)))),
    }
}

pub(super) fn table(out: &mut Out, (name, table): &(Name, TableDecl)) {
    out.title(name, "");
    out.deeper(|out| {
        if table.key.is_empty() {
            out.line("key: []");
        }
        out.section("key", &table.key, |out, key| {
            let value = quoted(&expression(&key.value));
            let name = key.name.as_ref().map(|name| format!(", name: {}", quoted(&name.value)));
            let name = name.unwrap_or_default();
            out.line(format!("- {{ value: {value}, kind: {}{name} }}", key.kind.value));
        });
        out.line(format!("actions: {}", name_list(&table.actions)));
        out.expression("default", table.default.as_ref());
        out.flag("const_default", table.const_default);
        out.size("size", table.size.as_ref());
        out.section("entries", &table.entries, entry);
        out.flag("const_entries", table.const_entries);
        out.flag("counters", table.counters);
        if let Some(meter) = &table.meter {
            out.line(format!("meter: {{ {} }}", meter_kind(meter)));
        }
        out.count("idle_timeout_ms", table.idle_timeout_ms.as_ref());
        if table.removes_idle {
            out.line("on_idle: remove");
        }
        if let Some(selector) = &table.selector {
            out.line("selector:");
            out.deeper(|out| {
                out.word("hash", Some(&selector.hash));
                out.size("members", selector.members.as_ref());
                out.size("groups", selector.groups.as_ref());
                out.expression("empty", selector.empty.as_ref());
            });
        }
    });
}

pub(super) fn meter_kind(meter: &MeterDecl) -> String {
    let kind = if meter.two_rates { "trtcm" } else { "srtcm" };
    let unit = if meter.packets { "packets" } else { "bytes" };
    format!("type: {kind}, unit: {unit}")
}

fn entry(out: &mut Out, entry: &EntryDecl) {
    out.line(format!("- match: {{ {} }}", patterns(&entry.matches)));
    out.deeper(|out| {
        out.expression("action", Some(&entry.action));
        out.count("priority", entry.priority.as_ref());
        out.count("idle_timeout_ms", entry.idle_timeout_ms.as_ref());
        out.count("idle_timeout_ns", entry.idle_timeout_ns.as_ref());
        if let Some((rates, _)) = &entry.meter {
            out.line(format!("meter: {{ {} }}", meter_rates(rates)));
        }
        if let Some((CountDecl { packets, bytes }, _)) = &entry.counter {
            out.line(format!("counter: {{ packets: {packets}, bytes: {bytes} }}"));
        }
        out.flag("const", entry.is_const);
    });
}

fn meter_rates(rates: &MeterRates) -> String {
    let all = [
        ("cir", Some(&rates.cir)),
        ("cbs", Some(&rates.cbs)),
        ("pir", rates.pir.as_ref()),
        ("pbs", rates.pbs.as_ref()),
        ("ebs", rates.ebs.as_ref()),
    ];
    let written = all.into_iter().filter_map(|(key, rate)| Some((key, rate?)));
    let written = written.map(|(key, rate)| format!("{key}: {}", quoted(&rate.value)));
    written.collect::<Vec<_>>().join(", ")
}
