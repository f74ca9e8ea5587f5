//! YAML text to [`Node`]: the only module that uses the YAML library.
//!
//! It uses the library's events and not its serde interface, because events carry the exact bytes of every scalar, tag,
//! anchor and alias. Text that YAML accepts with an unintended meaning (an expression that begins with `!`, `&` or `*`,
//! or holds `: ` or `,`) is reported here with the advice to quote.

mod advice;

pub(super) use advice::offer_quotes;

use std::collections::{BTreeMap, HashMap};

use granit_parser::{Event, Parser, ScalarStyle, StrInput, StructureStyle, Tag};

use super::node::{Key, Map, Node, NodeKind, Scalar};
use crate::diag::{Diagnostics, codes};
use crate::ids::FileId;
use crate::ir::SourceSpan;

/// Deepest nesting of lists and maps: a statement in another one is two levels deeper, or three.
pub const NESTING_MAX: usize = 200;
/// Most nodes that aliases may repeat in one file.
pub const ALIAS_NODES_MAX: usize = 20_000;

/// The tree of a file. Errors go to `diagnostics`; `None` if there is no tree.
pub(super) fn parse(file: FileId, text: &str, diagnostics: &mut Diagnostics) -> Option<Node> {
    let options = granit_parser::options! {
        emit_anchor_events: true,
        emit_unresolved_aliases: true,
    };
    let events = Parser::new_from_str_with_options(text, options);
    let reader = Reader {
        file,
        text,
        diagnostics,
        open: Vec::new(),
        root: None,
        anchors: BTreeMap::new(),
        alias_nodes: 0,
    };
    reader.run(events)
}

/// A list or map that is not closed yet.
struct Open {
    content: Content,
    start: usize,
    flow: bool,
    anchor: usize,
    tag: Option<SourceSpan>,
}

enum Content {
    List(Vec<Node>),
    /// The pairs, and a key without its value yet; the key is `None` if it is invalid and was reported.
    Map(Vec<(Key, Node)>, Option<Option<Key>>),
}

/// The state of reading: open and finished nodes.
struct Reader<'a> {
    file: FileId,
    text: &'a str,
    diagnostics: &'a mut Diagnostics,
    open: Vec<Open>,
    root: Option<Node>,
    /// Finished nodes by the number of their anchor.
    anchors: BTreeMap<usize, Node>,
    alias_nodes: usize,
}

/// Reading cannot continue; the reason was reported.
struct Stop;

impl<'a> Reader<'a> {
    fn run(mut self, events: Parser<'a, StrInput<'a>>) -> Option<Node> {
        let mut last_scalar = None;
        for event in events {
            match event {
                Ok((event, span)) => {
                    let here = self.place(&span);
                    if let Event::Scalar(..) = event {
                        last_scalar = Some(here);
                    }
                    let tag = span.tag_span().map(|tag| self.place(&tag));
                    self.event(event, here, tag).ok()?;
                }
                Err(error) => {
                    let at = error.marker().byte_offset().unwrap_or(self.text.len());
                    let place = advice::Place {
                        file: self.file,
                        text: self.text,
                        at: at.min(self.text.len()),
                        flow: self.in_flow(),
                        last_scalar,
                        open: self.open.last().filter(|open| open.flow).map(|open| open.start),
                    };
                    advice::explain(error.kind(), &error.info(), place, self.diagnostics);
                    return None;
                }
            }
        }
        let empty = SourceSpan { file: self.file, start: 0, end: 0 };
        Some(self.root.unwrap_or(Node { kind: NodeKind::Null, span: empty, alias: None }))
    }

    fn place(&self, span: &granit_parser::Span) -> SourceSpan {
        let offset = |marker: granit_parser::Marker| {
            marker.byte_offset().map_or(self.text.len(), |at| at.min(self.text.len())) as u32
        };
        let start = offset(span.start);
        SourceSpan { file: self.file, start, end: offset(span.end).max(start) }
    }

    fn in_flow(&self) -> bool {
        self.open.last().is_some_and(|open| open.flow)
    }

    fn event(
        &mut self,
        event: Event<'_>,
        here: SourceSpan,
        tag: Option<SourceSpan>,
    ) -> Result<(), Stop> {
        match event {
            Event::DocumentStart(..) if self.root.is_some() => {
                self.diagnostics
                    .error(codes::SEVERAL_DOCUMENTS, here, "a second YAML document begins here")
                    .help("put it into a file of its own, or take the `---` away");
                Err(Stop)
            }
            Event::Scalar(text, style, anchor, written) => {
                let node = self.scalar(&text, style, here, tag.filter(|_| written.is_some()));
                self.add(node, anchor)
            }
            Event::SequenceStart(style, anchor, written) => {
                self.start(Content::List(Vec::new()), style, anchor, here, tag, written.as_deref())
            }
            Event::MappingStart(style, anchor, written) => {
                let content = Content::Map(Vec::new(), None);
                self.start(content, style, anchor, here, tag, written.as_deref())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(here),
            Event::Anchor(_, name) => {
                if !crate::syntax::is_name(&name) {
                    advice::anchor(here, self.text, self.in_flow(), self.diagnostics);
                }
                Ok(())
            }
            Event::Alias(number) => {
                let node = self.repeat(number, here)?;
                self.add(node, 0)
            }
            Event::UnresolvedAlias(name) => {
                self.diagnostics
                    .error(codes::ALIAS, here, format!("there is no anchor `&{name}` before this"))
                    .help("an expression that begins with `*` must be quoted");
                self.add(Node { kind: NodeKind::Invalid, span: here, alias: None }, 0)
            }
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        span: SourceSpan,
        tag: Option<SourceSpan>,
    ) -> Node {
        if let Some(tag) = tag {
            advice::tag(tag, span, self.text, self.in_flow(), self.diagnostics);
            return Node { kind: NodeKind::Invalid, span, alias: None };
        }
        let plain = style == ScalarStyle::Plain;
        let absent = span.start == span.end || matches!(text, "~" | "null");
        if plain && absent {
            return Node { kind: NodeKind::Null, span, alias: None };
        }
        let quote = u32::from(!plain);
        let inner = (span.start + quote) as usize..span.end.saturating_sub(quote) as usize;
        let same = self.text.get(inner) == Some(text);
        let start = same.then_some(span.start + quote);
        let scalar = Scalar { text: text.to_owned(), start, plain, flow: self.in_flow() };
        Node { kind: NodeKind::Scalar(scalar), span, alias: None }
    }

    fn start(
        &mut self,
        content: Content,
        style: StructureStyle,
        anchor: usize,
        here: SourceSpan,
        tag: Option<SourceSpan>,
        written: Option<&Tag>,
    ) -> Result<(), Stop> {
        if self.open.len() == NESTING_MAX {
            self.too_deep(here);
            return Err(Stop);
        }
        let flow = style == StructureStyle::Flow;
        let tag = tag.filter(|_| written.is_some());
        self.open.push(Open { content, start: here.start as usize, flow, anchor, tag });
        Ok(())
    }

    fn too_deep(&mut self, here: SourceSpan) {
        let message = format!("lists and maps nested deeper than {NESTING_MAX} levels");
        self.diagnostics.error(codes::LIMIT, here, message);
    }

    fn close(&mut self, here: SourceSpan) -> Result<(), Stop> {
        // The parser closes only what it opened.
        let Some(open) = self.open.pop() else { return Err(Stop) };
        let last = match &open.content {
            Content::List(items) => items.last().map(|node| self.written(node).end),
            Content::Map(pairs, _) => pairs.last().map(|(_, node)| self.written(node).end),
        };
        let end = match last {
            Some(end) if here.start == here.end => end,
            _ => here.end,
        };
        let start = open.start as u32;
        let span = SourceSpan { file: self.file, start, end: end.max(start) };
        let kind = match open.content {
            Content::List(items) => NodeKind::List(advice::split_calls_in_list(
                items,
                open.flow,
                self.text,
                self.diagnostics,
            )),
            Content::Map(pairs, _) => {
                let braces = open.flow && self.text[open.start..].starts_with('{');
                let pairs =
                    advice::split_calls_in_map(pairs, open.flow, self.text, self.diagnostics);
                NodeKind::Map(Map { pairs: self.unique(pairs), braces })
            }
        };
        let mut node = Node { kind, span, alias: None };
        if let Some(tag) = open.tag {
            advice::tag(tag, tag, self.text, open.flow, self.diagnostics);
            node.kind = NodeKind::Invalid;
        }
        self.add(node, open.anchor)
    }

    /// The place of a node in the file: that of the alias, if it came by one.
    fn written(&self, node: &Node) -> SourceSpan {
        node.alias.unwrap_or(node.span)
    }

    /// Reports keys written twice; the first stays.
    fn unique(&mut self, pairs: Vec<(Key, Node)>) -> Vec<(Key, Node)> {
        let mut seen: HashMap<String, SourceSpan> = HashMap::with_capacity(pairs.len());
        let mut kept = Vec::with_capacity(pairs.len());
        for (key, node) in pairs {
            if key.scalar.plain && key.scalar.text == "<<" {
                self.diagnostics
                    .error(codes::ALIAS, key.span, "YAML merge keys are not part of the language")
                    .help("write the keys out, or repeat a whole value with an alias");
                continue;
            }
            if let Some(first) = seen.get(&key.scalar.text) {
                let shown = crate::syntax::shown(&key.scalar.text);
                self.diagnostics
                    .error(codes::DUPLICATE_KEY, key.span, format!("duplicate key `{shown}`"))
                    .here("written again")
                    .label(*first, "written first here");
                continue;
            }
            seen.insert(key.scalar.text.clone(), key.span);
            kept.push((key, node));
        }
        kept
    }

    /// A copy of an anchored node, within the budget.
    fn repeat(&mut self, number: usize, here: SourceSpan) -> Result<Node, Stop> {
        let Some(node) = self.anchors.get(&number) else {
            self.diagnostics.error(codes::ALIAS, here, "an alias inside of what it repeats");
            return Ok(Node { kind: NodeKind::Invalid, span: here, alias: None });
        };
        let (nodes, depth) = extent(node);
        self.alias_nodes += nodes;
        if self.alias_nodes > ALIAS_NODES_MAX {
            let message = format!("aliases repeat more than {ALIAS_NODES_MAX} values in this file");
            self.diagnostics.error(codes::LIMIT, here, message);
            return Err(Stop);
        }
        if self.open.len() + depth > NESTING_MAX {
            self.too_deep(here);
            return Err(Stop);
        }
        Ok(Node { alias: Some(here), ..node.clone() })
    }

    /// Adds a finished node to the innermost open one, or makes it the root.
    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
            self.alias_nodes += extent(&node).0;
            if self.alias_nodes > ALIAS_NODES_MAX {
                let message =
                    format!("anchors hold more than {ALIAS_NODES_MAX} values in this file");
                self.diagnostics.error(codes::LIMIT, node.span, message);
                return Err(Stop);
            }
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map(pairs, waiting)) => match waiting.take() {
                Some(key) => pairs.extend(key.map(|key| (key, node))),
                None => *waiting = Some(key_of(node, self.text, self.diagnostics)),
            },
        }
        Ok(())
    }
}

/// The number of nodes, and their depth.
fn extent(node: &Node) -> (usize, usize) {
    let below = |nodes: &mut dyn Iterator<Item = &Node>| {
        nodes.map(extent).fold((1, 1), |(count, depth), (c, d)| (count + c, depth.max(d + 1)))
    };
    match &node.kind {
        NodeKind::List(items) => below(&mut items.iter()),
        NodeKind::Map(map) => below(&mut map.pairs.iter().map(|(_, node)| node)),
        _ => (1, 1),
    }
}

/// The key of a node; `None` for an invalid key, which is reported: its value is skipped.
fn key_of(node: Node, text: &str, diagnostics: &mut Diagnostics) -> Option<Key> {
    let span = node.alias.unwrap_or(node.span);
    match node.kind {
        NodeKind::Scalar(scalar) => Some(Key { scalar, span }),
        NodeKind::Null if node.span.start < node.span.end => {
            let written = text.get(span.start as usize..span.end as usize).unwrap_or_default();
            let (text, start) = (written.to_owned(), Some(span.start));
            Some(Key { scalar: Scalar { text, start, plain: true, flow: false }, span })
        }
        kind => {
            if kind != NodeKind::Invalid {
                diagnostics.error(codes::WRONG_TYPE, span, "a key must be a single value").help(
                    "for several keys in one case, write a list of `{ match: [..], next: .. }`",
                );
            }
            None
        }
    }
}

#[cfg(test)]
mod tests;
