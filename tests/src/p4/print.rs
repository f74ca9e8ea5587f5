//! A program as P4-16 for v1model.

use std::fmt::Write as _;

use super::tree::{
    Argument, Callable, Direction, ELEMENTS, Expr, Kind, Match, Program, Sort, Statement, Table,
    Variable,
};
use super::value::Type;

/// The source; packets leave by this port.
pub(super) fn program(program: &Program, port: u16) -> String {
    let fields = |fields: &[Variable]| {
        let field = |one: &Variable| {
            let name = one.name.rsplit('.').next().unwrap_or_default();
            format!("    {} {name};\n", one.ty.name())
        };
        fields.iter().map(field).collect::<String>()
    };
    let mut text = "#include <core.p4>\n#include <v1model.p4>\n".to_owned();
    let _ = writeln!(text, "header h_t {{\n{}}}", fields(&program.first));
    let _ = writeln!(text, "header g_t {{\n{}}}", fields(&program.second));
    text += "header s_t { bit<8> x; }\n";
    let _ = writeln!(text, "struct H {{ h_t h; g_t g; s_t[{ELEMENTS}] s; }}");
    let _ = writeln!(text, "struct M {{\n{}}}", fields(&program.metadata));
    for (number, callable) in program.callables.iter().enumerate() {
        if callable.sort != Sort::Action {
            text += &declared(program, number, callable);
        }
    }
    text += &parser(program);
    text += "control V(inout H hdr, inout M meta) { apply { } }\n";
    text += "control I(inout H hdr, inout M meta, inout standard_metadata_t std) {\n";
    for (local, value) in &program.locals {
        let _ =
            writeln!(text, "{} {} = {};", local.ty.name(), local.name, constant(local.ty, *value));
    }
    for (number, callable) in program.callables.iter().enumerate() {
        if callable.sort == Sort::Action {
            text += &declared(program, number, callable);
        }
    }
    for (number, table) in program.tables.iter().enumerate() {
        text += &declared_table(program, number, table);
    }
    let body = |statements: &[Statement]| block(program, None, statements);
    let _ = writeln!(text, "apply {{ std.egress_spec = {port};\n{}}} }}", body(&program.ingress));
    text += "control E(inout H hdr, inout M meta, inout standard_metadata_t std) {\n";
    let _ = writeln!(text, "apply {{\n{}}} }}", body(&program.egress));
    text += "control D(packet_out packet, in H hdr) { apply { packet.emit(hdr); } }\n";
    text + "V1Switch(P(), V(), I(), E(), V(), D()) main;\n"
}

fn parser(program: &Program) -> String {
    let keys: Vec<String> = program.select.iter().map(expr).collect();
    let mut text =
        "parser P(packet_in packet, out H hdr, inout M meta, inout standard_metadata_t std) {\n\
        state start { packet.extract(hdr.h);\n"
            .to_owned();
    let _ = writeln!(text, "transition select({}) {{", keys.join(", "));
    for (matches, with_second) in &program.cases {
        let to = if *with_second { "second" } else { "stack" };
        let _ = writeln!(text, "{}: {to};", together(&program.select, matches));
    }
    text += "default: stack; } }\nstate second { packet.extract(hdr.g); transition stack; }\nstate stack {\n";
    text += &"packet.extract(hdr.s.next);\n".repeat(ELEMENTS);
    text + "transition accept; } }\n"
}

/// The keys of an entry or case.
fn together(keys: &[Expr], matches: &[Match]) -> String {
    let texts: Vec<String> =
        keys.iter().zip(matches).map(|(key, one)| matching(key.ty, one)).collect();
    if texts.len() == 1 { texts[0].clone() } else { format!("({})", texts.join(", ")) }
}

fn matching(ty: Type, one: &Match) -> String {
    let constant = |value: &u128| constant(ty, *value);
    match one {
        Match::Exact(value) => constant(value),
        Match::Masked(_, 0) => "_".to_owned(),
        Match::Masked(value, mask) => format!("{} &&& {}", constant(value), constant(mask)),
        Match::Range(from, to) => format!("{}..{}", constant(from), constant(to)),
    }
}

fn declared(program: &Program, number: usize, callable: &Callable) -> String {
    let param = |(direction, param): &(Direction, Variable)| {
        let word = match direction {
            Direction::In => "in ",
            Direction::InOut => "inout ",
            Direction::Out => "out ",
            Direction::Data => "",
        };
        format!("{word}{} {}", param.ty.name(), param.name)
    };
    let params: Vec<String> = callable.params.iter().map(param).collect();
    let (params, body) = (params.join(", "), block(program, Some(callable), &callable.body));
    match (callable.sort, &callable.result) {
        (Sort::Function, Some(result)) => {
            let (ty, result) = (result.ty.name(), expr(result));
            format!("{ty} f{number}({params}) {{\n{body}return {result};\n}}\n")
        }
        (Sort::Function, None) => format!("void f{number}({params}) {{\n{body}}}\n"),
        (Sort::Action, _) => format!("action f{number}({params}) {{\n{body}}}\n"),
        (Sort::Control, _) => format!("control f{number}({params}) {{ apply {{\n{body}}} }}\n"),
    }
}

fn declared_table(program: &Program, number: usize, table: &Table) -> String {
    let mut text = format!("table t{number} {{ key = {{\n");
    for (at, (key, kind)) in table.keys.iter().enumerate() {
        let _ = writeln!(text, "{}: {kind} @name(\"k{at}\");", expr(key));
    }
    let mut actions: Vec<usize> = table.entries.iter().map(|(_, action, _)| *action).collect();
    actions.push(table.default.0);
    actions.sort_unstable();
    actions.dedup();
    let list: String = actions.iter().map(|action| format!("f{action}; ")).collect();
    let _ = writeln!(text, "}} actions = {{ {list}}} const entries = {{");
    let keys: Vec<Expr> = table.keys.iter().map(|(key, _)| key.clone()).collect();
    let data = |action: usize, data: &[u128]| {
        let types = program.callables[action].params.iter().map(|(_, param)| param.ty);
        let texts: Vec<String> = types.zip(data).map(|(ty, one)| constant(ty, *one)).collect();
        texts.join(", ")
    };
    for (matches, action, values) in &table.entries {
        let _ =
            writeln!(text, "{}: f{action}({});", together(&keys, matches), data(*action, values));
    }
    let (action, values) = &table.default;
    let _ = writeln!(text, "}} const default_action = f{action}({}); }}", data(*action, values));
    text
}

fn block(program: &Program, callable: Option<&Callable>, statements: &[Statement]) -> String {
    statements.iter().map(|one| statement(program, callable, one)).collect()
}

fn statement(program: &Program, callable: Option<&Callable>, one: &Statement) -> String {
    let block = |statements: &[Statement]| block(program, callable, statements);
    match one {
        Statement::Declare(to, value) => {
            format!("{} {} = {};\n", to.ty.name(), to.name, expr(value))
        }
        Statement::Assign(to, value) => format!("{} = {};\n", to.name, expr(value)),
        Statement::Part(to, high, low, value) => {
            format!("{}[{high}:{low}] = {};\n", to.name, expr(value))
        }
        Statement::With(to, op, value) => format!("{} {}= {};\n", to.name, op.text(), expr(value)),
        Statement::Element(index, value) => {
            format!("hdr.s[{}].x = {};\n", expr(index), expr(value))
        }
        Statement::Fill(values) => {
            let values: Vec<String> = values.iter().map(expr).collect();
            format!("hdr.g = {{ {} }};\n", values.join(", "))
        }
        Statement::If(condition, then, or) => {
            format!("if ({}) {{\n{}}} else {{\n{}}}\n", expr(condition), block(then), block(or))
        }
        Statement::Switch(value, cases, default) => {
            let case = |(labels, body): &(Vec<u128>, Vec<Statement>)| {
                let labels: String = labels
                    .iter()
                    .map(|label| format!("{}: ", constant(value.ty, *label)))
                    .collect();
                format!("{labels}{{\n{}}}\n", block(body))
            };
            let cases: String = cases.iter().map(case).collect();
            format!("switch ({}) {{\n{cases}default: {{\n{}}}\n}}\n", expr(value), block(default))
        }
        Statement::For(variable, from, to, body, has_clauses) => {
            let (ty, name) = (variable.ty.name(), &variable.name);
            let head = if *has_clauses {
                format!("{ty} {name} = {from}; {name} <= {to}; {name} = {name} + 1")
            } else {
                format!("{ty} {name} in {from}..{to}")
            };
            format!("for ({head}) {{\n{}}}\n", block(body))
        }
        Statement::Each(variable, values, body) => {
            let (ty, name) = (variable.ty.name(), &variable.name);
            let values: Vec<String> = values.iter().map(expr).collect();
            let values = values.join(", ");
            format!("for ({ty} {name} in (list<{ty}>) {{ {values} }}) {{\n{}}}\n", block(body))
        }
        Statement::Call(number, arguments) => {
            let is_control = program.callables[*number].sort == Sort::Control;
            let apply = if is_control { ".apply" } else { "" };
            format!("f{number}{apply}({});\n", given(arguments))
        }
        Statement::Apply(number, hit, miss) => {
            format!("if (t{number}.apply().hit) {{\n{}}} else {{\n{}}}\n", block(hit), block(miss))
        }
        Statement::Break => "break;\n".to_owned(),
        Statement::Continue => "continue;\n".to_owned(),
        Statement::Return => match callable.and_then(|one| one.result.as_ref()) {
            Some(result) => format!("return {};\n", expr(result)),
            None => "return;\n".to_owned(),
        },
        Statement::Exit => "exit;\n".to_owned(),
    }
}

fn given(arguments: &[Argument]) -> String {
    let text = |argument: &Argument| match argument {
        Argument::Value(value) => expr(value),
        Argument::Place(place) => place.name.clone(),
    };
    arguments.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn constant(ty: Type, value: u128) -> String {
    match ty {
        Type::Bool => (value == 1).to_string(),
        Type::Bit(bits) => format!("{bits}w{value}"),
        Type::Int(bits) => format!("(int<{bits}>) {bits}w{value}"),
    }
}

fn expr(expr_: &Expr) -> String {
    let text = match &expr_.kind {
        Kind::Constant(value) => constant(expr_.ty, *value),
        Kind::Variable(name) => return name.clone(),
        Kind::Element(index) => return format!("hdr.s[{}].x", expr(index)),
        Kind::IsValid => return "hdr.g.isValid()".to_owned(),
        Kind::Not(of) => format!("!{}", expr(of)),
        Kind::Negate(of) => format!("-{}", expr(of)),
        Kind::Invert(of) => format!("~{}", expr(of)),
        Kind::Binary(op, a, b) => format!("{} {} {}", expr(a), op.text(), expr(b)),
        Kind::Cast(of) => format!("({}) {}", expr_.ty.name(), expr(of)),
        Kind::Slice(of, high, low) => return format!("{}[{high}:{low}]", expr(of)),
        Kind::Choice(which, a, b) => format!("{} ? {} : {}", expr(which), expr(a), expr(b)),
        Kind::Call(number, arguments) => return format!("f{number}({})", given(arguments)),
    };
    format!("({text})")
}
