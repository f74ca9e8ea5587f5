//! Advice on YAML's own errors and surprises.
//!
//! The language puts expressions into YAML, and some of their characters are special in YAML: `!` at the start is a
//! tag, `&` an anchor, `*` an alias, `: ` a pair, `,` in a flow list an item. Nearly always the remedy is to quote, so
//! the diagnostics advise that, with the edit.

use granit_parser::ErrorKind;

use crate::diag::{Diagnostic, Diagnostics, codes};
use crate::ids::FileId;
use crate::ir::SourceSpan;
use crate::source::node::{Key, Node, NodeKind, Scalar};
use crate::syntax;

/// Length of the part of a line that is examined to guess its intent: a file may be one line of a MiB.
const LOOK_BYTES_MAX: usize = 1000;

/// The place at which YAML failed.
pub(super) struct Place<'a> {
    pub(super) file: FileId,
    pub(super) text: &'a str,
    /// Offset of the error.
    pub(super) at: usize,
    /// Inside `[..]` or `{..}`.
    pub(super) flow: bool,
    /// The scalar read last.
    pub(super) last_scalar: Option<SourceSpan>,
    /// The place of the innermost open `[` or `{`.
    pub(super) open: Option<usize>,
}

impl Place<'_> {
    fn span(&self, start: usize, end: usize) -> SourceSpan {
        SourceSpan { file: self.file, start: start as u32, end: end as u32 }
    }

    fn found(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    /// The character at the error.
    fn here(&self) -> SourceSpan {
        self.span(self.at, self.at + self.found().filter(|c| *c != '\n').map_or(0, char::len_utf8))
    }
}

/// Turns an error of the YAML reader into a diagnostic with a remedy.
pub(super) fn explain(
    kind: &ErrorKind,
    info: &str,
    place: Place<'_>,
    diagnostics: &mut Diagnostics,
) {
    if reported_on_line(&place, diagnostics) {
        return;
    }
    use ErrorKind as K;
    match kind {
        K::MappingValueNotAllowed
        | K::InvalidColonPlacement
        | K::ExpectedFlowMappingSeparator
        | K::ExpectedFlowSequenceSeparator
            if unclosed(&place, diagnostics) => {}
        K::MappingValueNotAllowed | K::InvalidColonPlacement | K::ExpectedFlowMappingSeparator
            if colon(&place, diagnostics) => {}
        K::ExpectedFlowSequenceSeparator | K::ExpectedFlowMappingSeparator
            if matches!(place.found(), Some('[' | '{')) =>
        {
            bracket(&place, diagnostics);
        }
        K::ExpectedFlowSequenceSeparator | K::ExpectedFlowMappingSeparator => {
            let message = "expected `,` or the end of the list or map";
            let error = diagnostics.error(codes::YAML_SYNTAX, place.here(), message);
            if let Some(open) = place.open {
                error.label(place.span(open, open + 1), "which begins here");
            }
        }
        K::UnexpectedCharacter { character: '@' | '%' | '`' }
        | K::InvalidBlockScalarHeader
        | K::MissingAnchorOrAliasName
        | K::MappingKeyNotAllowed => start_of_value(&place, diagnostics),
        K::TabNotAllowed
        | K::TabInBlockIndentation
        | K::TabInIndentation
        | K::TabAtBlockScalarStart
        | K::TabInPlainScalar => {
            let span = tab_behind(&place).unwrap_or_else(|| place.here());
            diagnostics
                .error(codes::YAML_SYNTAX, span, "a tab in the indentation")
                .help("indent with spaces: YAML does not allow tabs there");
        }
        K::ExpectedBlockSequenceEntry => {
            diagnostics
                .error(codes::YAML_SYNTAX, place.here(), "expected `- `, or the end of the list")
                .help("items of a list begin in one column, and so do the keys of one item");
        }
        K::SimpleKeyExpected => {
            diagnostics
                .error(codes::YAML_SYNTAX, place.here(), "a key without `:`")
                .help("a key is followed by `:` and a blank");
        }
        K::ExpectedBlockMappingKey => {
            diagnostics
                .error(codes::YAML_SYNTAX, place.here(), "expected a key and `:`")
                .help("the keys of a map begin in the same column");
        }
        _ if of_text(kind, &place, diagnostics) => {}
        _ => {
            diagnostics.error(codes::YAML_SYNTAX, place.here(), info);
        }
    }
}

/// What follows the tab that indents a line behind a plain value: YAML's place is that of the value.
fn tab_behind(place: &Place<'_>) -> Option<SourceSpan> {
    let line = place.at + place.text.get(place.at..)?.find('\n')? + 1;
    let rest = &place.text[line..];
    let tab = rest.find(|c: char| c != ' ' && c != '\n')?;
    let indented = &rest[tab..];
    let text = indented.trim_start_matches(['\t', ' ']);
    let at = line + tab + indented.len() - text.len();
    let len = text.chars().next().map_or(0, char::len_utf8);
    indented.starts_with('\t').then(|| place.span(at, at + len))
}

/// Errors in and around quoted texts, and of nesting. False for any other error.
fn of_text(kind: &ErrorKind, place: &Place<'_>, diagnostics: &mut Diagnostics) -> bool {
    use ErrorKind as K;
    match kind {
        K::UnclosedFlowCollection { open } => {
            let message = format!("this `{open}` is not closed");
            diagnostics.error(codes::YAML_SYNTAX, place.here(), message);
        }
        K::UnclosedQuotedScalar | K::InvalidQuotedScalarIndent => {
            diagnostics
                .error(codes::YAML_SYNTAX, place.here(), "a quoted text is not closed")
                .help("close the quote; further lines of a quoted text are indented");
        }
        K::InvalidTrailingSingleQuotedScalar | K::InvalidTrailingDoubleQuotedScalar => {
            diagnostics
                .error(codes::YAML_SYNTAX, place.here(), "text behind a closing quote")
                .help("quote the whole value");
        }
        K::UnknownQuotedScalarEscape => {
            diagnostics
                .error(codes::YAML_SYNTAX, place.here(), "an unknown escape in a quoted text")
                .help("in '..' a backslash stands for itself");
        }
        K::RecursionLimitExceeded => {
            let message = "lists and maps are nested too deep";
            diagnostics.error(codes::LIMIT, place.here(), message);
        }
        _ => return false,
    }
    true
}

/// True when a surprise on this line was reported, of which the error is only the consequence.
fn reported_on_line(place: &Place<'_>, diagnostics: &Diagnostics) -> bool {
    let before = place.text.get(..place.at).unwrap_or_default();
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    diagnostics.iter().filter_map(|one| one.primary.as_ref()).any(|primary| {
        let start = primary.span.start as usize;
        primary.span.file == place.file && (line..=place.at).contains(&start)
    })
}

/// A key at the beginning of a line while a `[` or `{` of an earlier line is open: the bracket was forgotten. False
/// for any other error.
fn unclosed(place: &Place<'_>, diagnostics: &mut Diagnostics) -> bool {
    let Some(open) = place.open else { return false };
    let line_of = |at: usize| {
        let before = place.text.get(..at)?;
        Some(before.rfind('\n').map_or(0, |at| at + 1))
    };
    let indent = |line: usize| place.text[line..].bytes().take_while(|byte| *byte == b' ').count();
    let (Some(opened), Some(line)) = (line_of(open), line_of(place.at)) else { return false };
    let key = place.text[line..place.at].trim().trim_end_matches(':');
    let is_key = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let Some(bracket) = place.text.get(open..=open) else { return false };
    if line <= opened || indent(line) > indent(opened) || !is_key {
        return false;
    }
    let message = format!("this `{bracket}` is not closed");
    diagnostics
        .error(codes::YAML_SYNTAX, place.span(open, open + 1), message)
        .label(place.here(), "the next key begins in this line");
    true
}

/// A `:` after a value. False for any other error.
fn colon(place: &Place<'_>, diagnostics: &mut Diagnostics) -> bool {
    let Some(last) = place.last_scalar else { return false };
    let (start, end) = (last.start as usize, last.end as usize);
    let (Some(value), Some(between)) = (place.text.get(start..end), place.text.get(end..place.at))
    else {
        return false;
    };
    if !between.chars().all(|c| c == ' ' || c == ':') {
        return false;
    }
    if let Some(line_end) = value.find('\n') {
        let written = value[..line_end].trim_end();
        let first = place.span(start, start + written.len());
        diagnostics
            .error(codes::YAML_SYNTAX, place.here(), "a `:` in a line that continues a value")
            .label(first, "the value begins here and is not closed by the line end")
            .help(match key_without_colon(written) {
                Some(meant) => format!("a key is followed by `:` and a blank: `{meant}`"),
                None => "indent the line like the keys it belongs to".to_owned(),
            });
        return true;
    }
    if second_key(place, last, diagnostics) || with_bracket_in_map(place, start, diagnostics) {
        return true;
    }
    let whole = place.span(start, value_end(place.text, start, place.flow));
    needs_quotes(diagnostics, whole, place, "an unquoted value cannot hold `: `");
    true
}

/// `if: a.valid then: [..]`: a further key of a statement in the line of the one before. False for any other error.
fn second_key(place: &Place<'_>, value: SourceSpan, diagnostics: &mut Diagnostics) -> bool {
    let between = place.text.get(value.end as usize..place.at);
    let adjoins_closely = between.is_some_and(|between| !between.starts_with(' '));
    let text = place.text.get(value.start as usize..value.end as usize);
    let Some((_, word @ ("then" | "else" | "hit" | "miss"))) =
        text.and_then(|text| text.rsplit_once(' ')).filter(|_| adjoins_closely)
    else {
        return false;
    };
    let start = value.end as usize - word.len();
    let message = format!("`{word}:` is in the value of the key before it");
    let help = match place.flow {
        true => format!("put a `,` in front of it: `, {word}: ..`"),
        false => format!("write `{word}:` in the next line, in the column of that key"),
    };
    diagnostics
        .error(codes::YAML_SYNTAX, place.span(start, value.end as usize), message)
        .help(help);
    true
}

/// What was probably meant by `kind:8`, `kind 8`, `apply fib` or `shim` above a line with a key.
fn key_without_colon(written: &str) -> Option<String> {
    let is_word = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let (key, value) = match written.split_once([':', ' ']) {
        Some((key, value)) => (key, value.trim_start()),
        None => (written, ""),
    };
    // Statements of a word and a reason.
    let is_statement = matches!(key, "drop" | "punt");
    if !is_word(key) || is_statement || value.contains(['=', '"']) {
        return None;
    }
    Some(format!("{key}: {value}").trim_end().to_owned())
}

/// Where the item of a flow list or map that holds the place begins in its line, outside of all brackets that are
/// opened there; and whether it is the value behind a key.
fn item_start(place: &Place<'_>) -> Option<(usize, bool)> {
    let open = place.open?;
    let line = place.text.get(..place.at)?.rfind('\n').map_or(0, |at| at + 1);
    let from = place.text.ceil_char_boundary(place.at.saturating_sub(LOOK_BYTES_MAX));
    let from = from.max(line).max(open + 1);
    let text = place.text.get(from..place.at)?;
    let (mut start, mut is_value, mut depth, mut quote) = (0, false, 0usize, None);
    for (at, c) in text.char_indices() {
        match c {
            _ if quote.is_some() => quote = quote.filter(|quote| *quote != c),
            '"' | '\'' => quote = Some(c),
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => (start, is_value) = (at + 1, false),
            ':' if depth == 0 && text[at + 1..].starts_with(' ') => {
                (start, is_value) = (at + 1, true);
            }
            _ => {}
        }
    }
    let blanks = text[start..].len() - text[start..].trim_start().len();
    Some((from + start + blanks, is_value))
}

/// `{ vlan[0].id: exact }`: YAML takes `vlan` for the key, and in `{ x: vlan[0].id }` for the value. False for any
/// other error.
fn with_bracket_in_map(place: &Place<'_>, at: usize, diagnostics: &mut Diagnostics) -> bool {
    let Some((start, is_value)) = item_start(place).filter(|(start, _)| *start <= at) else {
        return false;
    };
    let item = &place.text[start..value_end(place.text, start, true).max(start)];
    let key = item.split(": ").next().unwrap_or_default().trim_end_matches(':');
    let in_map = place.open.is_some_and(|open| place.text[open..].starts_with('{'));
    if !place.flow || !in_map || !key.contains('[') || key.starts_with('[') || key.contains('\n') {
        return false;
    }
    let why = match is_value {
        true => "a value with `[` inside of `{..}` must be quoted",
        false => "a key with `[` inside of `{..}` must be quoted",
    };
    let end = if is_value { item.len() } else { key.len() };
    needs_quotes(diagnostics, place.span(start, start + end), place, why);
    true
}

/// A bracket inside an unquoted value of a flow list or map.
fn bracket(place: &Place<'_>, diagnostics: &mut Diagnostics) {
    let found = place.found().unwrap_or_default();
    let message = format!("a value with `{found}` inside of `[..]` or `{{..}}` must be quoted");
    let error = diagnostics.error(codes::NEEDS_QUOTES, place.here(), message);
    // The value continues after the bracket; quotes around a part of it would be followed by text. A comma before it
    // may be one of a call.
    let value = place.last_scalar.filter(|last| last.end as usize <= place.at);
    let Some(last) = value.filter(|last| adjoins(place, *last)) else {
        error.help("write it in quotes: \"meta.x[7:0]\"");
        return;
    };
    let start = item_start(place).map_or(last.start, |(start, _)| last.start.min(start as u32));
    let value = SourceSpan { start, ..last };
    error.label(value, "the value");
    let end = value_end(place.text, start as usize, place.flow).max(place.at);
    offer_quotes(error, SourceSpan { end: end as u32, ..value }, place.text);
}

/// Whether only blanks of one line are between a value and the place.
fn adjoins(place: &Place<'_>, value: SourceSpan) -> bool {
    let between = place.text.get(value.end as usize..place.at);
    between.is_some_and(|between| between.chars().all(|c| c == ' '))
}

/// A value whose first character is special in YAML.
fn start_of_value(place: &Place<'_>, diagnostics: &mut Diagnostics) {
    if let Some(tag) = tag_before(place) {
        self::tag(tag, tag, place.text, place.flow, diagnostics);
        return;
    }
    if is_lone_star(place) {
        let message = "YAML reads `*` as an alias, whose name is missing";
        diagnostics.error(codes::NEEDS_QUOTES, place.here(), message).help(syntax::ANY_VALUE);
        return;
    }
    let message = match place.found() {
        Some(found) => format!("a value that begins with `{found}` must be quoted"),
        None => "a value is missing here".to_owned(),
    };
    // `vlan[0].vid`: YAML failed at the bracket, and the value begins before it.
    let before = place.last_scalar.filter(|last| last.end as usize == place.at);
    let start = before.map_or(place.at, |last| last.start as usize);
    let message = match before {
        Some(_) => "an unquoted value cannot hold `[` or `{` here".to_owned(),
        None => message,
    };
    let whole = place.span(start, value_end(place.text, start, place.flow));
    needs_quotes(diagnostics, whole, place, &message);
}

/// A `*` with nothing behind it: meant as any value. Quotes would not make it one.
fn is_lone_star(place: &Place<'_>) -> bool {
    let behind = place.text.get(place.at..).and_then(|rest| rest.strip_prefix('*'));
    behind.is_some_and(|behind| {
        behind.is_empty() || behind.starts_with([' ', ',', '}', ']', '\n', '\r'])
    })
}

/// The tag directly before a place on its line: in `!a.valid || b`, YAML stops at the `||`.
fn tag_before(place: &Place<'_>) -> Option<SourceSpan> {
    let before = place.text.get(..place.at)?.trim_end_matches(' ');
    let start = before.rfind([' ', '\n', '[', '{', ',']).map_or(0, |at| at + 1);
    before[start..].starts_with('!').then(|| place.span(start, before.len()))
}

fn needs_quotes(diagnostics: &mut Diagnostics, whole: SourceSpan, place: &Place<'_>, why: &str) {
    let error = diagnostics.error(codes::NEEDS_QUOTES, whole, why);
    offer_quotes(error, whole, place.text);
}

/// The edit that quotes a span of one line.
pub(in crate::source) fn offer_quotes(error: &mut Diagnostic, whole: SourceSpan, text: &str) {
    match text.get(whole.start as usize..whole.end as usize).and_then(quoted) {
        Some(quoted) => error.fix("quote it", whole, quoted),
        None => error.help("quote the whole value"),
    };
}

/// A text in quotes, if it is one line that needs no escapes.
fn quoted(text: &str) -> Option<String> {
    if text.is_empty() || text.contains('\n') {
        None
    } else if !text.contains(['"', '\\']) {
        Some(format!("\"{text}\""))
    } else if !text.contains('\'') {
        Some(format!("'{text}'"))
    } else {
        None
    }
}

/// The end of the value that was probably intended: the end of the line without a comment; in a flow list or map the
/// next sign of the list outside of brackets.
fn value_end(text: &str, start: usize, flow: bool) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let rest = &rest[..rest.floor_char_boundary(LOOK_BYTES_MAX)];
    let line = rest.lines().next().unwrap_or_default();
    let line = line.find(" #").map_or(line, |at| &line[..at]);
    let mut open = 0usize;
    let end = line.char_indices().find(|(_, c)| match c {
        '(' | '[' | '{' => {
            open += 1;
            false
        }
        ')' | ']' | '}' if open > 0 => {
            open -= 1;
            false
        }
        ',' | ']' | '}' => flow && open == 0,
        _ => false,
    });
    let line = end.map_or(line, |(at, _)| &line[..at]);
    start + line.trim_end().len()
}

/// `!ipv4.valid`: YAML reads a tag.
pub(super) fn tag(
    tag: SourceSpan,
    node: SourceSpan,
    text: &str,
    flow: bool,
    diagnostics: &mut Diagnostics,
) {
    let written = text.get(tag.start as usize..tag.end as usize).unwrap_or("!");
    let message = format!("YAML reads `{written}` as a tag");
    let end = value_end(text, tag.start as usize, flow) as u32;
    let whole = SourceSpan { end: end.max(tag.end), ..tag };
    let error = diagnostics.error(codes::YAML_TAG, tag, message);
    error.note("an expression that begins with `!` must be quoted; tags have no meaning here");
    let one_line = node.start >= tag.start && node.start <= whole.end;
    if one_line && !written.starts_with("!!") {
        offer_quotes(error, whole, text);
    }
}

/// `&& m` at the start of a value: YAML reads an anchor named `&`.
pub(super) fn anchor(here: SourceSpan, text: &str, flow: bool, diagnostics: &mut Diagnostics) {
    let end = value_end(text, here.start as usize, flow) as u32;
    let whole = SourceSpan { end: end.max(here.end), ..here };
    let message = "YAML reads `&` at the start of a value as an anchor";
    let error = diagnostics.error(codes::NEEDS_QUOTES, here, message);
    error.note("the name of an anchor is a letter or `_`, then letters, digits and `_`");
    offer_quotes(error, whole, text);
}

/// How many round brackets a plain scalar opens and does not close; negative if it closes more.
fn brackets(scalar: &Scalar) -> i64 {
    if !scalar.plain || !scalar.flow {
        return 0;
    }
    let count = |c: char| scalar.text.matches(c).count() as i64;
    count('(') - count(')')
}

fn brackets_of(node: &Node) -> i64 {
    match &node.kind {
        NodeKind::Scalar(scalar) if node.alias.is_none() => brackets(scalar),
        _ => 0,
    }
}

/// Finds calls that the commas of a flow list split, `[route(3, 4)]`: one error for each, and one invalid item in their
/// place.
pub(super) fn split_calls_in_list(
    items: Vec<Node>,
    flow: bool,
    text: &str,
    diagnostics: &mut Diagnostics,
) -> Vec<Node> {
    if !flow || items.iter().all(|item| brackets_of(item) <= 0) {
        return items;
    }
    let mut kept: Vec<Node> = Vec::with_capacity(items.len());
    let mut open = 0;
    for item in items {
        if open == 0 {
            open = brackets_of(&item).max(0);
            kept.push(item);
            continue;
        }
        open = (open + brackets_of(&item)).max(0);
        if let Some(first) = kept.last_mut() {
            first.span.end = item.span.end.max(first.span.end);
            if open == 0 {
                first.kind = NodeKind::Invalid;
                torn(first.span, text, diagnostics);
            }
        }
    }
    kept
}

/// The same for the values of a flow map, `{ default: route(3, 4) }`.
pub(super) fn split_calls_in_map(
    pairs: Vec<(Key, Node)>,
    flow: bool,
    text: &str,
    diagnostics: &mut Diagnostics,
) -> Vec<(Key, Node)> {
    if !flow || pairs.iter().all(|(_, node)| brackets_of(node) <= 0) {
        return pairs;
    }
    let mut kept: Vec<(Key, Node)> = Vec::with_capacity(pairs.len());
    let mut open = 0;
    for (key, node) in pairs {
        if open == 0 || node.kind != NodeKind::Null {
            open = brackets_of(&node).max(0);
            kept.push((key, node));
            continue;
        }
        open = (open + brackets(&key.scalar)).max(0);
        if let Some((_, first)) = kept.last_mut() {
            first.span.end = key.span.end.max(first.span.end);
            if open == 0 {
                first.kind = NodeKind::Invalid;
                torn(first.span, text, diagnostics);
            }
        }
    }
    kept
}

fn torn(whole: SourceSpan, text: &str, diagnostics: &mut Diagnostics) {
    let message = "a `,` ends an unquoted value inside of `[..]` or `{..}`";
    let error = diagnostics.error(codes::NEEDS_QUOTES, whole, message);
    offer_quotes(error, whole, text);
}
