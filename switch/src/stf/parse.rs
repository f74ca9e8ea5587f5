//! One statement from its line.

use super::script::{
    CompareOp, Comparison, CounterName, EntryText, PatternBytes, Statement, TestPort,
};
use crate::config::is_macro_name;
use crate::ports::PortNumber;
use wireyard_tables::time::Span;

const KNOWN: &str = "packet, expect, no_packet, wait, expect_drop, expect_punt, congestion_mark, trim, \
     add, setdefault, remove, member, group, value_set, register, register_write, register_reset, \
     register_read, meter_set_rates, meter_array_set_rates, meter_get_rates, mirroring_get, \
     mc_mgrp_create, mc_node_create, \
     mc_node_associate, mirroring_add, mirroring_add_mc, check_counter, check_drops, check_punts, \
     check_parser_errors, check_register, check_entries, program, define, config, entries, ports, link";

type Parsed<T> = Result<T, String>;

/// `NAME`, or `NAME=VALUE`.
fn define(rest: &str) -> Parsed<Statement> {
    let (name, value) = rest.split_once('=').unwrap_or((rest, "1"));
    if !is_macro_name(name.trim()) {
        return Err(format!("define: `{}` is no name of a macro", name.trim()));
    }
    Ok(Statement::Define(name.trim().to_owned(), value.trim().to_owned()))
}

/// Reads one statement; the error has what was expected.
pub(super) fn statement(code: &str) -> Parsed<Statement> {
    let (keyword, rest) = split_word(code);
    match keyword {
        "packet" => {
            let (port, hex) = split_word(rest);
            Ok(Statement::Packet(test_port(port)?, plain_bytes(hex)?))
        }
        "expect" => {
            let (port, hex) = split_word(rest);
            Ok(Statement::Expect(test_port(port)?, pattern_bytes(hex)?))
        }
        "no_packet" => nothing(rest, Statement::NoPacket),
        "wait" if rest.is_empty() => Ok(Statement::Wait(Span::ZERO)),
        "wait" => Ok(Statement::Wait(duration(rest)?)),
        "expect_drop" => Ok(Statement::ExpectDrop(one_word(rest, "a drop reason")?)),
        "expect_punt" => Ok(Statement::ExpectPunt(one_word(rest, "a punt reason")?)),
        "congestion_mark" => match rest {
            "on" => Ok(Statement::CongestionMark(true)),
            "off" => Ok(Statement::CongestionMark(false)),
            _ => Err(format!("congestion_mark: expected `on` or `off`, found `{rest}`")),
        },
        "trim" if rest == "off" => Ok(Statement::Trim(None)),
        "trim" => Ok(Statement::Trim(Some(number(rest, "bytes or `off`")?))),
        "config" => Ok(Statement::Config(one_word(rest, "a file")?)),
        "program" => Ok(Statement::Program(one_word(rest, "a file")?)),
        "define" => define(rest),
        "entries" => {
            let file = one_word(rest, "a file or `none`")?;
            Ok(Statement::Entries((file != "none").then_some(file)))
        }
        "ports" => Ok(Statement::Ports(ports(rest)?)),
        "link" => {
            let (port, link) = split_word(rest);
            Ok(Statement::Link(PortNumber(number(port, "a port")?), one_word(link, "a link type")?))
        }
        "add" | "setdefault" | "remove" | "member" | "group" | "value_set" | "register" => {
            table_statement(keyword, rest)
        }
        "register_reset"
        | "register_read"
        | "register_write"
        | "meter_get_rates"
        | "meter_set_rates"
        | "meter_array_set_rates"
        | "mirroring_get" => cli_statement(keyword, rest),
        "mc_mgrp_create" | "mc_node_create" | "mc_node_associate" | "mirroring_add"
        | "mirroring_add_mc" => replication_statement(keyword, rest),
        "check_counter" => check_counter(rest),
        "check_register" => {
            let (text, comparison) = split_comparison(rest)?;
            let (name, index, cell) = register_cell(text)?;
            Ok(Statement::CheckRegister(name, index, cell, comparison))
        }
        "check_drops" | "check_punts" | "check_parser_errors" | "check_entries" => {
            let (name, comparison) = split_comparison(rest)?;
            let name = one_word(name, "a name")?;
            Ok(match keyword {
                "check_drops" => Statement::CheckDrops(name, comparison),
                "check_punts" => Statement::CheckPunts(name, comparison),
                "check_entries" => Statement::CheckEntries(name, comparison),
                _ => Statement::CheckParserErrors(name, comparison),
            })
        }
        other => Err(format!("unknown statement `{other}`; there are {KNOWN}")),
    }
}

fn table_statement(keyword: &str, rest: &str) -> Parsed<Statement> {
    let (table, rest) = split_word(rest);
    if table.is_empty() {
        return Err(format!("{keyword}: expected a table"));
    }
    match keyword {
        "add" => Ok(Statement::Add(entry(table, rest, true)?)),
        "remove" if table == "all" => nothing(rest, Statement::RemoveAll),
        "remove" => Ok(Statement::Remove(entry(table, rest, false)?)),
        "setdefault" if rest.is_empty() => Err("setdefault: expected an action".into()),
        "setdefault" => Ok(Statement::SetDefault(table.into(), rest.into())),
        "member" => {
            let (id, action) = split_word(rest);
            Ok(Statement::Member(table.into(), number(id, "a member")?, action.into()))
        }
        "group" => {
            let (id, members) = split_word(rest);
            Ok(Statement::Group(
                table.into(),
                number(id, "a group")?,
                numbers(members, "a member")?,
            ))
        }
        "value_set" => Ok(Statement::ValueSet(
            table.into(),
            rest.split_whitespace().map(str::to_owned).collect(),
        )),
        _ => {
            let whole = format!("{table} {rest}");
            let (left, value) =
                whole.split_once('=').ok_or("register: expected `NAME(INDEX).CELL = VALUE`")?;
            let (name, index, cell) = register_cell(left)?;
            Ok(Statement::Register(name, index, cell, number(value.trim(), "a value")?))
        }
    }
}

/// Commands of bmv2's command line that scripts of p4c have.
fn cli_statement(keyword: &str, rest: &str) -> Parsed<Statement> {
    match keyword {
        "register_reset" => Ok(Statement::RegisterReset(one_word(rest, "a register")?)),
        "register_read" => {
            let (name, index) = split_word(rest);
            Ok(Statement::RegisterRead(name.to_owned(), number(index, "an index")?))
        }
        "register_write" => {
            let (name, rest) = split_word(rest);
            let (index, value) = split_word(rest);
            let (index, value) = (number(index, "an index")?, number(value, "a value")?);
            Ok(Statement::Register(name.to_owned(), index, None, value))
        }
        "meter_get_rates" => {
            let (name, index) = split_word(rest);
            Ok(Statement::MeterRead(name.to_owned(), number(index, "an index")?))
        }
        "meter_set_rates" => {
            let (name, rest) = split_word(rest);
            let (index, rest) = split_word(rest);
            let index = Some(number(index, "an index")?);
            Ok(Statement::MeterRates(name.to_owned(), index, meter_rates(rest)?))
        }
        "meter_array_set_rates" => {
            let (name, rest) = split_word(rest);
            Ok(Statement::MeterRates(name.to_owned(), None, meter_rates(rest)?))
        }
        _ => Ok(Statement::MirrorRead(number(rest, "a session")?)),
    }
}

fn replication_statement(keyword: &str, rest: &str) -> Parsed<Statement> {
    let (first, rest) = split_word(rest);
    match keyword {
        "mc_mgrp_create" => {
            let prune = match rest {
                "" => false,
                "prune_ingress" => true,
                _ => {
                    return Err(format!(
                        "mc_mgrp_create: expected `prune_ingress` or nothing, found `{rest}`"
                    ));
                }
            };
            Ok(Statement::GroupCreate(number(first, "a group")?, prune))
        }
        "mc_node_create" => Ok(Statement::NodeCreate(number(first, "an instance")?, ports(rest)?)),
        "mc_node_associate" => {
            Ok(Statement::NodeAssociate(number(first, "a group")?, number(rest, "a node")?))
        }
        "mirroring_add_mc" => {
            Ok(Statement::MirrorGroup(number(first, "a session")?, number(rest, "a group")?))
        }
        _ => {
            let port = PortNumber(number(rest, "a port")?);
            Ok(Statement::Mirror(number(first, "a session")?, port))
        }
    }
}

/// `[PRIORITY] KEY:VALUE ... [ACTION(..)]`.
fn entry(table: &str, rest: &str, with_action: bool) -> Parsed<EntryText> {
    let mut found =
        EntryText { table: table.into(), priority: None, keys: Vec::new(), action: String::new() };
    let mut words = Words { rest };
    while let Some(word) = words.next()? {
        if let Some((key, value)) = key_value(&word) {
            found.keys.push((key, value));
        } else if found.keys.is_empty() && word.bytes().all(|b| b.is_ascii_digit()) {
            found.priority = Some(number(&word, "a priority")?);
        } else if let Some((key, value)) =
            word.split_once('=').filter(|(key, _)| !key.contains('('))
        {
            return Err(format!("`{word}`: a packet test writes a key as `{key}:{value}`"));
        } else if with_action && found.action.is_empty() {
            found.action = word;
        } else {
            return Err(format!("expected `key:value`, found `{word}`"));
        }
    }
    if with_action && found.action.is_empty() {
        return Err(format!("add {table}: expected an action at the end, as in `forward(port:2)`"));
    }
    Ok(found)
}

/// `name:value`, where the name begins with a letter or a quote and is not an action call.
fn key_value(word: &str) -> Option<(String, String)> {
    if let Some(quoted) = word.strip_prefix('"') {
        let (name, rest) = quoted.split_once('"')?;
        return Some((name.to_owned(), rest.strip_prefix(':')?.to_owned()));
    }
    let (name, value) = word.split_once(':')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.[]$".contains(c));
    (is_name && !value.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

/// Words separated by blanks; brackets and quotes keep blanks inside.
struct Words<'a> {
    rest: &'a str,
}

impl Words<'_> {
    fn next(&mut self) -> Parsed<Option<String>> {
        let text = self.rest.trim_start();
        let (mut depth, mut quoted, mut end) = (0usize, false, text.len());
        for (at, c) in text.char_indices() {
            match c {
                '"' => quoted = !quoted,
                '(' if !quoted => depth += 1,
                ')' if !quoted => depth = depth.checked_sub(1).ok_or("`)` without `(`")?,
                c if c.is_whitespace() && depth == 0 && !quoted => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        if depth > 0 || quoted {
            return Err(format!("`{text}` is not closed"));
        }
        self.rest = &text[end..];
        Ok((end > 0).then(|| text[..end].to_owned()))
    }
}

fn check_counter(rest: &str) -> Parsed<Statement> {
    let (left, comparison) = split_comparison(rest)?;
    let (left, bytes) = match left.trim() {
        l if l.ends_with(" bytes") => (l.trim_end_matches("bytes").trim(), true),
        l if l.ends_with(" packets") => (l.trim_end_matches("packets").trim(), false),
        l => (l, false),
    };
    let (name, keys) = split_word(left);
    let counter = match name.split_once('(') {
        Some((name, index)) if keys.is_empty() => {
            let index = index.strip_suffix(')').ok_or("check_counter: `(` is not closed")?;
            CounterName::Indexed(name.into(), number(index, "an index")?)
        }
        _ => CounterName::Direct(entry(name, keys, false)?),
    };
    Ok(Statement::CheckCounter(counter, bytes, comparison))
}

/// `NAME(INDEX)` or `NAME(INDEX).CELL`.
fn register_cell(text: &str) -> Parsed<(String, u64, Option<String>)> {
    let wrong = || format!("expected `NAME(INDEX)` or `NAME(INDEX).CELL`, found `{}`", text.trim());
    let (name, rest) = text.trim().split_once('(').ok_or_else(wrong)?;
    let (index, rest) = rest.split_once(')').ok_or_else(wrong)?;
    let cell = match rest.trim() {
        "" => None,
        cell => Some(cell.strip_prefix('.').ok_or_else(wrong)?.to_owned()),
    };
    Ok((name.trim().to_owned(), number(index.trim(), "an index")?, cell))
}

/// Text before a comparison, and the comparison at the end.
fn split_comparison(text: &str) -> Parsed<(&str, Comparison)> {
    const OPS: [(&str, CompareOp); 6] = [
        ("==", CompareOp::Eq),
        ("!=", CompareOp::Ne),
        ("<=", CompareOp::Le),
        (">=", CompareOp::Ge),
        ("<", CompareOp::Lt),
        (">", CompareOp::Gt),
    ];
    // A key in quotation marks may contain a comparison.
    let behind = text.rfind('"').map_or(0, |quote| quote + 1);
    for (symbol, op) in OPS {
        if let Some(at) = text[behind..].rfind(symbol).map(|at| behind + at) {
            let value = number(text[at + symbol.len()..].trim(), "a number")?;
            return Ok((text[..at].trim(), Comparison { op, value }));
        }
    }
    Err(format!("expected a comparison such as `== 2` at the end of `{text}`"))
}

fn test_port(word: &str) -> Parsed<TestPort> {
    if word == "cpu" {
        return Ok(TestPort::Cpu);
    }
    Ok(TestPort::Port(PortNumber(number(word, "a port number or `cpu`")?)))
}

fn plain_bytes(hex: &str) -> Parsed<Vec<u8>> {
    let pattern = pattern_bytes(hex)?;
    if pattern.ends || pattern.bytes.iter().any(|(_, mask)| *mask != 0xff) {
        return Err("packet: `*` and `$` are for expect".into());
    }
    Ok(pattern.bytes.into_iter().map(|(value, _)| value).collect())
}

fn pattern_bytes(hex: &str) -> Parsed<PatternBytes> {
    let compact: String = hex.chars().filter(|c| !c.is_whitespace()).collect();
    let (digits, ends) = match compact.strip_suffix('$') {
        Some(digits) => (digits, true),
        None => (compact.as_str(), false),
    };
    if digits.contains('$') {
        return Err("`$` is the end of a packet: nothing stands behind it".into());
    }
    let nibble = |c: char| match c {
        '*' => Ok((0u8, 0u8)),
        c => c
            .to_digit(16)
            .map(|digit| (digit as u8, 0xf))
            .ok_or_else(|| format!("`{c}` is not a hexadecimal digit")),
    };
    let nibbles = digits.chars().map(nibble).collect::<Parsed<Vec<_>>>()?;
    if !nibbles.len().is_multiple_of(2) {
        return Err(format!("{} hexadecimal digits are not whole bytes", nibbles.len()));
    }
    let byte = |pair: &[(u8, u8)]| (pair[0].0 << 4 | pair[1].0, pair[0].1 << 4 | pair[1].1);
    let bytes = nibbles.chunks(2).map(byte).collect();
    Ok(PatternBytes { bytes, ends })
}

/// `RATE:BURST RATE:BURST`; the rates are per microsecond, the result is per second.
fn meter_rates(text: &str) -> Parsed<[(u64, u64); 2]> {
    let wrong = || format!("expected `RATE:BURST RATE:BURST`, the rates for 1 us, found `{text}`");
    let mut rates = text.split_whitespace().map(|word| {
        let (rate, burst) = word.split_once(':')?;
        let rate = rate.parse::<f64>().ok().filter(|rate| (0.0..1e9).contains(rate))?;
        Some(((rate * 1e6).round() as u64, burst.parse().ok()?))
    });
    match (rates.next().flatten(), rates.next().flatten(), rates.next()) {
        (Some(committed), Some(peak), None) => Ok([committed, peak]),
        _ => Err(wrong()),
    }
}

fn duration(text: &str) -> Parsed<Span> {
    let wrong = || format!("expected a duration such as `5s`, `20ms`, `100us`, found `{text}`");
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let value: u64 = text[..unit_at].parse().map_err(|_| wrong())?;
    let ps = match &text[unit_at..] {
        "ns" => 1_000,
        "us" => 1_000_000,
        "ms" => 1_000_000_000,
        "s" => 1_000_000_000_000,
        "m" => 60_000_000_000_000,
        "h" => 3_600_000_000_000_000,
        _ => return Err(wrong()),
    };
    value.checked_mul(ps).map(Span::from_ps).ok_or_else(wrong)
}

fn number<T: TryFrom<u64>>(text: &str, what: &str) -> Parsed<T> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed
        .ok()
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| format!("expected {what}, found `{text}`"))
}

fn numbers<T: TryFrom<u64>>(text: &str, what: &str) -> Parsed<Vec<T>> {
    let found =
        text.split_whitespace().map(|word| number(word, what)).collect::<Parsed<Vec<_>>>()?;
    if found.is_empty() { Err(format!("expected {what}")) } else { Ok(found) }
}

fn ports(text: &str) -> Parsed<Vec<PortNumber>> {
    Ok(numbers(text, "a port")?.into_iter().map(PortNumber).collect())
}

fn one_word(text: &str, what: &str) -> Parsed<String> {
    let mut words = text.split_whitespace();
    match (words.next(), words.next()) {
        (Some(word), None) => Ok(word.to_owned()),
        (None, _) => Err(format!("expected {what}")),
        (_, Some(extra)) => Err(format!("expected {what} and nothing more, found `{extra}`")),
    }
}

fn nothing(rest: &str, statement: Statement) -> Parsed<Statement> {
    if rest.is_empty() { Ok(statement) } else { Err(format!("`{rest}` is too much")) }
}

fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim();
    match text.find(char::is_whitespace) {
        Some(at) => (&text[..at], text[at..].trim_start()),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_priority_keys_and_action() {
        let Ok(Statement::Add(entry)) = statement(
            "add acl 10 ipv4.src:10.0.0.0/8 ipv6.dst:fd00::1 \"hash(crc16, a)\":7 vlan[0].vid:5 \
             set(port: 2, mac: 02:00:00:00:00:01)",
        ) else {
            panic!("not an entry")
        };
        assert_eq!(entry.priority, Some(10));
        let keys: Vec<_> = entry.keys.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            keys,
            [
                ("ipv4.src", "10.0.0.0/8"),
                ("ipv6.dst", "fd00::1"),
                ("hash(crc16, a)", "7"),
                ("vlan[0].vid", "5"),
            ]
        );
        assert_eq!(entry.action, "set(port: 2, mac: 02:00:00:00:00:01)");
    }

    #[test]
    fn nibbles_and_ends() {
        let pattern = pattern_bytes("0* ff**$").unwrap();
        assert!(pattern.matches(&[0x0a, 0xff, 0x12]));
        assert!(!pattern.matches(&[0x1a, 0xff, 0x12]));
        assert!(!pattern.matches(&[0x0a, 0xff, 0x12, 0]));
        assert!(pattern_bytes("0").is_err() && plain_bytes("0*").is_err());
    }

    #[test]
    fn counters_registers_and_waits() {
        assert_eq!(
            statement("check_counter c(3) bytes >= 64"),
            Ok(Statement::CheckCounter(
                CounterName::Indexed("c".into(), 3),
                true,
                Comparison { op: CompareOp::Ge, value: 64 }
            ))
        );
        assert_eq!(
            split_comparison(r#" t "a == b":1 packets >= 2"#),
            Ok((r#"t "a == b":1 packets"#, Comparison { op: CompareOp::Ge, value: 2 })),
            "a key in quotation marks"
        );
        assert_eq!(
            statement("register flow(3).psn = 0x10"),
            Ok(Statement::Register("flow".into(), 3, Some("psn".into()), 16))
        );
        assert_eq!(statement("wait 5m"), Ok(Statement::Wait(Span::from_ms(300_000))));
        assert_eq!(statement("mirroring_add_mc 8 3"), Ok(Statement::MirrorGroup(8, 3)));
        assert_eq!(
            statement("register_write c.regs 5 0x10"),
            Ok(Statement::Register("c.regs".into(), 5, None, 16))
        );
        let rates = [(5, 4), (20_000_000, 5)];
        assert_eq!(
            statement("meter_set_rates c.m 2 0.000005:4 20:5"),
            Ok(Statement::MeterRates("c.m".into(), Some(2), rates))
        );
        assert_eq!(
            statement("meter_array_set_rates c.m 0.000005:4 20:5"),
            Ok(Statement::MeterRates("c.m".into(), None, rates))
        );
        assert!(statement("meter_set_rates c.m 2 0.000005:4").is_err());
        assert!(statement("wait 5").is_err());
        assert!(statement("pakcet 1 00").unwrap_err().contains("packet"));
    }
}
