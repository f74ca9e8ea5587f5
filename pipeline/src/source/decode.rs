//! Helpers that read a [`Node`] and report its errors, for every YAML file of Wireyard.
//!
//! A reader takes the valid parts and continues: a function that returns `None` has reported why. A node that was
//! already reported ([`NodeKind::Invalid`]) is skipped silently. For a map with known keys there is a [`MapShape`];
//! `Decoder::map` checks the keys against it, and the JSON Schema comes from the same table.
//!
//! ```
//! use wireyard_pipeline::diag::{Diagnostics, Files};
//! use wireyard_pipeline::source::decode::{self, Decoder};
//! use wireyard_pipeline::source::shape::{key, needed, MapShape, Shape};
//!
//! static PORT: MapShape = MapShape {
//!     name: "port",
//!     what: "a port",
//!     keys: &[needed("device", Shape::Text, "Interface."), key("mtu", Shape::Count, "Bytes.")],
//! };
//! let (mut files, mut found) = (Files::new(), Diagnostics::new());
//! let node = decode::from_text("switch.yaml", "{ device: veth0, mtv: 1500 }", &mut files, &mut found);
//! let mut decoder = Decoder::new(&files, &mut found);
//! let fields = decoder.map(node.as_ref().unwrap(), &PORT).unwrap();
//! let device = fields.get("device").and_then(|node| decoder.word(node));
//! assert_eq!(device.unwrap().value, "veth0");
//! assert_eq!(found.counts(), (1, 0)); // unknown key `mtv`, did you mean `mtu`?
//! ```

use std::path::Path;

use super::node::{Key, Node, NodeKind};
use super::shape::MapShape;
use super::yaml;
use crate::ast::{AstExpr, Name, Named, PatternDecl, Sp};
use crate::diag::{Code, Diagnostics, Files, codes, suggest};
use crate::ir::{SourceFile, SourceSpan};
use crate::syntax::{self, Text};

/// Adds a text to the files and reads it as YAML.
pub fn from_text(
    name: &str,
    text: &str,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    from_file(name.as_ref(), text, files, diagnostics)
}

/// The same for the text of this file.
pub(super) fn from_file(
    path: &Path,
    text: &str,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<Node> {
    let file = files.push(SourceFile::read_from(path, text.to_owned()));
    yaml::parse(file, text, diagnostics)
}

/// Reads nodes; errors go to the diagnostics.
pub struct Decoder<'d> {
    files: &'d Files,
    /// The diagnostics; a caller adds its own with the spans of the values that it read.
    pub diagnostics: &'d mut Diagnostics,
}

/// The values of a map with known keys.
#[derive(Clone, Debug)]
pub struct Fields<'n> {
    shape: &'static MapShape,
    found: Vec<(&'static str, &'n Key, &'n Node)>,
    /// Keys that others were probably meant to be: that they are missing is reported by the suggestion.
    meant: Vec<&'static str>,
    /// The first line of the map, short enough to point at.
    pub span: SourceSpan,
}

impl<'n> Fields<'n> {
    /// The value behind a key.
    pub fn get(&self, name: &str) -> Option<&'n Node> {
        debug_assert!(self.shape.keys.iter().any(|key| key.name == name), "{name} has no shape");
        self.found.iter().find(|(key, ..)| *key == name).map(|(.., node)| *node)
    }

    /// The place of a key.
    pub fn place(&self, name: &str) -> Option<SourceSpan> {
        self.found.iter().find(|(key, ..)| *key == name).map(|(_, key, _)| key.span)
    }
}

impl<'d> Decoder<'d> {
    /// A decoder for nodes of these files.
    pub fn new(files: &'d Files, diagnostics: &'d mut Diagnostics) -> Self {
        Decoder { files, diagnostics }
    }

    /// Reports an error, and has no value.
    pub fn refuse<T>(
        &mut self,
        code: Code,
        span: SourceSpan,
        message: impl Into<String>,
    ) -> Option<T> {
        self.diagnostics.refuse(code, span, message)
    }

    /// A map with known keys. Unknown keys are reported and left out, missing ones are reported.
    pub fn map<'n>(&mut self, node: &'n Node, shape: &'static MapShape) -> Option<Fields<'n>> {
        let pairs = self.pairs(node, shape.what)?;
        let span = self.first_line(node.span);
        let mut fields = Fields { shape, found: Vec::new(), meant: Vec::new(), span };
        for (key, value) in pairs {
            match shape.keys.iter().find(|known| known.name == key.scalar.text) {
                Some(known) => fields.found.push((known.name, key, value)),
                None => fields.meant.extend(self.unknown_key(key, shape)),
            }
        }
        let absent = |name: &str| {
            !fields.found.iter().any(|(found, ..)| *found == name) && !fields.meant.contains(&name)
        };
        for key in shape.keys.iter().filter(|key| key.required && absent(key.name)) {
            let message = format!("`{}` is missing in {}", key.name, shape.what);
            self.diagnostics
                .error(codes::MISSING_KEY, fields.span, message)
                .note(format!("`{}`: {}", key.name, key.doc));
        }
        Some(fields)
    }

    /// Reports an unknown key; the one that was probably meant.
    fn unknown_key(&mut self, key: &Key, shape: &'static MapShape) -> Option<&'static str> {
        let known = shape.keys.iter().map(|key| key.name);
        let shown = syntax::shown(&key.scalar.text);
        let message = format!("{} has no key `{shown}`", shape.what);
        let keys: Vec<String> = known.clone().map(|key| format!("`{key}`")).collect();
        let error = self.diagnostics.error(codes::UNKNOWN_KEY, key.span, message);
        let written = match (shape.name, key.scalar.text.as_str()) {
            // P4's name for it.
            (_, "default_action") => "default",
            ("entry", "key" | "keys") => "match",
            (_, other) => other,
        };
        error.did_you_mean(written, known.clone());
        if error.fixes.is_empty() {
            error.note(format!("its keys are {}", keys.join(", ")));
            if shape.name == "entry" && written.contains('.') {
                error.help(format!("keys of the table stand in `match: {{ {shown}: .. }}`"));
            }
            return None;
        }
        suggest(written, known)
    }

    /// The pairs of a map with any keys.
    pub fn pairs<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [(Key, Node)]> {
        match &node.kind {
            NodeKind::Map(map) => Some(&map.pairs),
            _ => self.wrong(node, &format!("{what}, which is a map")),
        }
    }

    /// The items of a list.
    pub fn items<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [Node]> {
        match &node.kind {
            NodeKind::List(items) => Some(items),
            _ => self.wrong(node, &format!("a list of {what}")),
        }
    }

    /// The items of a list, or a single value as one item.
    pub fn one_or_more<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        match &node.kind {
            NodeKind::List(items) => items,
            NodeKind::Null => self.wrong(node, &format!("{what}, or a list")).unwrap_or_default(),
            _ => std::slice::from_ref(node),
        }
    }

    /// A map from names to anything.
    pub fn named<T>(
        &mut self,
        node: &Node,
        what: &str,
        mut read: impl FnMut(&mut Self, &Key, &Node) -> Option<T>,
    ) -> Named<T> {
        let mut found = Vec::new();
        for (key, value) in self.pairs(node, what).unwrap_or_default() {
            let name = self.key(key, syntax::name);
            let value = read(self, key, value);
            found.extend(name.zip(value));
        }
        found
    }

    /// A map from objects of a program to anything: by their names, or by those of a P4 source.
    pub fn by_object<T>(
        &mut self,
        node: &Node,
        what: &str,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Named<T> {
        let mut found = Vec::new();
        for (key, value) in self.pairs(node, what).unwrap_or_default() {
            let name = self.key(key, syntax::object_name);
            let value = read(self, value);
            found.extend(name.zip(value));
        }
        found
    }

    /// Each item of a list, or a single value, read by the same function.
    pub fn each<T>(
        &mut self,
        node: &Node,
        what: &str,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Vec<T> {
        self.one_or_more(node, what).iter().filter_map(|item| read(self, item)).collect()
    }

    /// Any single value as a text at a place.
    pub fn word(&mut self, node: &Node) -> Option<Name> {
        let text = self.scalar(node, "a text")?;
        Some(Sp::new(text.text.to_owned(), node.span))
    }

    /// A name.
    pub fn name(&mut self, node: &Node) -> Option<Name> {
        self.read(node, "a name", syntax::name)
    }

    /// A header, a stack, or an element of a stack: `h[0]`.
    pub fn header(&mut self, node: &Node) -> Option<Name> {
        self.read(node, "a header", syntax::header)
    }

    /// A whole number from 0.
    pub fn count(&mut self, node: &Node) -> Option<Sp<u64>> {
        self.read(node, "a whole number", syntax::count)
    }

    /// A number that may have a fraction: `0.5`, `1e-3`.
    pub fn real(&mut self, node: &Node) -> Option<Sp<f64>> {
        let text = self.scalar(node, "a number")?;
        let value = text.text.parse::<f64>().ok().filter(|value| value.is_finite());
        if value.is_none() {
            let shown = syntax::shown(text.text);
            let message = format!("expected a number, found `{shown}`");
            self.diagnostics.error(codes::BAD_NUMBER, node.span, message);
        }
        value.map(|value| Sp::new(value, node.span))
    }

    /// `true` or `false`.
    pub fn flag(&mut self, node: &Node) -> Option<bool> {
        let text = self.scalar(node, "`true` or `false`")?.text;
        let meant = match text {
            "true" => return Some(true),
            "false" => return Some(false),
            text if ["yes", "on"].iter().any(|word| text.eq_ignore_ascii_case(word)) => "true",
            text if ["no", "off"].iter().any(|word| text.eq_ignore_ascii_case(word)) => "false",
            text => text,
        };
        let message = format!("expected `true` or `false`, found `{}`", syntax::shown(text));
        self.diagnostics
            .error(codes::UNKNOWN_CHOICE, node.span, message)
            .did_you_mean(meant, ["true", "false"]);
        None
    }

    /// One of a list of words.
    pub fn choice(&mut self, node: &Node, choices: &[&str]) -> Option<Name> {
        let text = self.scalar(node, "a word")?.text;
        if choices.contains(&text) {
            return Some(Sp::new(text.to_owned(), node.span));
        }
        let message = format!("expected {}, found `{}`", or_list(choices), syntax::shown(text));
        self.diagnostics
            .error(codes::UNKNOWN_CHOICE, node.span, message)
            .did_you_mean(text, choices.iter().copied());
        None
    }

    /// An expression.
    pub fn expression(&mut self, node: &Node) -> Option<AstExpr> {
        self.read(node, "an expression", syntax::expression)
    }

    /// An action with its arguments.
    pub fn action(&mut self, node: &Node) -> Option<AstExpr> {
        self.read(node, "an action", syntax::action)
    }

    /// A pattern.
    pub fn pattern(&mut self, node: &Node) -> Option<Sp<PatternDecl>> {
        self.read(node, "a pattern", syntax::pattern)
    }

    /// A single value, read by a function of the grammar.
    pub fn read<T>(
        &mut self,
        node: &Node,
        what: &str,
        grammar: impl FnOnce(Text<'_>) -> syntax::Parsed<T>,
    ) -> Option<T> {
        let text = self.scalar(node, what)?;
        self.grammar(text, grammar)
    }

    /// A key, read by a function of the grammar.
    pub fn key<T>(
        &mut self,
        key: &Key,
        grammar: impl FnOnce(Text<'_>) -> syntax::Parsed<T>,
    ) -> Option<T> {
        self.grammar(key.text(), grammar)
    }

    fn grammar<T>(
        &mut self,
        text: Text<'_>,
        grammar: impl FnOnce(Text<'_>) -> syntax::Parsed<T>,
    ) -> Option<T> {
        match grammar(text) {
            Ok(found) => Some(found),
            Err(error) => {
                let found = self.diagnostics.error(error.code, error.span, error.message);
                if let Some(help) = error.help {
                    found.help(help);
                }
                None
            }
        }
    }

    /// A single value.
    pub fn scalar<'n>(&mut self, node: &'n Node, what: &str) -> Option<Text<'n>> {
        match node.text() {
            Some(text) => Some(text),
            None => self.wrong(node, what),
        }
    }

    /// Reports a value of the wrong type, unless it was reported already. Always `None`.
    pub fn wrong<T>(&mut self, node: &Node, expected: &str) -> Option<T> {
        if node.kind == NodeKind::Invalid || self.torn(node) {
            return None;
        }
        let message = format!("expected {expected}, found {}", node.what());
        let span = self.first_line(node.span);
        let error = self.diagnostics.error(codes::WRONG_TYPE, span, message);
        if let Some(alias) = node.alias {
            error.label(alias, "repeated here");
        }
        None
    }

    /// Reports a map that results from an expression with `: `, as in `- x = c ? a : b`.
    pub fn torn(&mut self, node: &Node) -> bool {
        let NodeKind::Map(map) = &node.kind else { return false };
        let [(key, value)] = map.pairs.as_slice() else { return false };
        let expression = |text: &str| text.contains(['=', '?', '(', ' ']);
        if map.braces || !key.scalar.plain || !expression(&key.scalar.text) {
            return false;
        }
        let end = match value.alias {
            Some(alias) => alias.end,
            None => value.span.end,
        };
        let whole = SourceSpan { end: end.max(key.span.end), ..key.span };
        let message = "YAML reads a key and a value here, because of the `: `";
        let error = self.diagnostics.error(codes::NEEDS_QUOTES, whole, message);
        if let Some(file) = self.files.get(whole.file) {
            yaml::offer_quotes(error, whole, &file.text);
        }
        true
    }

    /// The part of a span that is on its first line: the useful part of a long map.
    pub fn first_line(&self, span: SourceSpan) -> SourceSpan {
        let text = self.files.get(span.file).map(|file| file.text.as_str()).unwrap_or_default();
        let part = text.get(span.start as usize..span.end as usize).unwrap_or_default();
        let line = part.lines().next().unwrap_or_default().trim_end();
        SourceSpan { end: span.start + line.len() as u32, ..span }
    }

    /// Reports two keys that exclude each other, if both are there.
    pub fn exclude(&mut self, fields: &Fields<'_>, one: &str, other: &str) {
        if let (Some(first), Some(second)) = (fields.place(one), fields.place(other)) {
            self.diagnostics
                .error(
                    codes::CONFLICTING_KEYS,
                    second,
                    format!("`{one}` and `{other}` exclude each other"),
                )
                .label(first, format!("`{one}` is here"));
        }
    }

    /// Reports a key that has no meaning without another.
    pub fn needs(&mut self, fields: &Fields<'_>, one: &str, other: &str) {
        if let (Some(place), None) = (fields.place(one), fields.place(other))
            && !fields.meant.contains(&other)
        {
            let message = format!("`{one}` needs `{other}` beside it");
            self.diagnostics.error(codes::MISSING_KEY, place, message);
        }
    }
}

/// `a`, `b` or `c`.
fn or_list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} or {last}", first.join(", ")),
        None => String::new(),
    }
}
