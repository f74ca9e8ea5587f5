//! A list of entries in the shapes that nearly every file has, read without the YAML library.
//!
//! A million entries are mostly `- { match: { key: value }, action: call(1) }`, or the same with a line for each key.
//! For these, a full YAML reader would take most of the time of reading such a file. [`read`] takes lists of maps of
//! plain and quoted scalars in printable ASCII, each value on one line, and makes the same [`Node`] as
//! [`yaml::parse`](super::yaml::parse); for anything else it returns `None`, and the caller uses the full reader. It
//! reports nothing: a text with errors is not in these shapes. Tests compare both on random and mutated texts.

use super::node::{Key, Map, Node, NodeKind, Scalar};
use crate::ids::FileId;
use crate::ir::SourceSpan;

/// Deepest nesting of maps here; an entry has two or three.
const DEPTH_MAX: usize = 8;
/// Most pairs of a map here, because duplicate keys are found by comparing with all of them.
const PAIRS_MAX: usize = 16;
/// Longest key here: YAML has a limit of its own, far above.
const KEY_BYTES_MAX: usize = 200;

/// The list in a text, if it has only the common shapes.
pub(super) fn read(file: FileId, text: &str) -> Option<Node> {
    if !text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n')) {
        return None;
    }
    let mut reader = Reader { file, text, bytes: text.as_bytes(), at: 0 };
    let indent = reader.next_line()?;
    let start = reader.at;
    let mut items = Vec::new();
    loop {
        items.push(reader.item(indent)?);
        match reader.next_line() {
            None => break,
            Some(next) if next == indent => {}
            Some(_) => return None,
        }
    }
    let end = items.last().map_or(start, |item: &Node| item.span.end as usize);
    Some(reader.node(NodeKind::List(items), start, end))
}

struct Reader<'a> {
    file: FileId,
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn span(&self, start: usize, end: usize) -> SourceSpan {
        SourceSpan { file: self.file, start: start as u32, end: end as u32 }
    }

    fn node(&self, kind: NodeKind, start: usize, end: usize) -> Node {
        Node { kind, span: self.span(start, end), alias: None }
    }

    fn scalar(&self, start: usize, end: usize, plain: bool, flow: bool) -> Scalar {
        Scalar { text: self.text[start..end].to_owned(), start: Some(start as u32), plain, flow }
    }

    fn spaces(&mut self) -> usize {
        let start = self.at;
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
        self.at - start
    }

    /// Skips empty lines and comments, from the start of a line to the content of the next one: returns its
    /// indentation. `None` at the end.
    fn next_line(&mut self) -> Option<usize> {
        loop {
            let indent = self.spaces();
            match self.peek()? {
                b'\n' => self.at += 1,
                b'#' => self.over_comment(),
                _ => return Some(indent),
            }
        }
    }

    fn over_comment(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
        self.at = (self.at + 1).min(self.bytes.len());
    }

    /// Nothing but blanks and a comment may follow on the line.
    fn end_of_line(&mut self) -> Option<()> {
        let spaces = self.spaces();
        match self.peek() {
            None => {}
            Some(b'\n') => self.at += 1,
            Some(b'#') if spaces > 0 => self.over_comment(),
            Some(_) => return None,
        }
        Some(())
    }

    /// `- ` and a map, up to the start of a line.
    fn item(&mut self, indent: usize) -> Option<Node> {
        if self.peek() != Some(b'-') {
            return None;
        }
        self.at += 1;
        let spaces = self.spaces();
        match self.peek()? {
            _ if spaces == 0 => None,
            b'{' => {
                let map = self.flow_map(0)?;
                self.end_of_line()?;
                Some(map)
            }
            _ => self.block_map(indent + 1 + spaces, 0),
        }
    }

    /// `key: value` on lines of one indentation, from the first key to the start of a line.
    fn block_map(&mut self, indent: usize, depth: usize) -> Option<Node> {
        let start = self.at;
        let mut pairs = Vec::with_capacity(3);
        loop {
            let key = self.key(&pairs, false)?;
            self.spaces();
            let value = match self.peek()? {
                b'\n' => self.value_below(indent, depth)?,
                _ => {
                    let value = self.value(false, depth)?;
                    self.end_of_line()?;
                    value
                }
            };
            pairs.push((key, value));
            let here = self.at;
            match self.next_line() {
                Some(next) if next > indent => return None,
                Some(next) if next == indent => {}
                // The line belongs to the surrounding node.
                _ => {
                    self.at = here;
                    break;
                }
            }
        }
        let end = pairs.last().map_or(start, |(_, value): &(Key, Node)| value.span.end as usize);
        Some(self.node(NodeKind::Map(Map { pairs, braces: false }), start, end))
    }

    /// The map on the lines below a key.
    fn value_below(&mut self, indent: usize, depth: usize) -> Option<Node> {
        self.end_of_line()?;
        let inner = self.next_line().filter(|inner| *inner > indent && depth < DEPTH_MAX)?;
        self.block_map(inner, depth + 1)
    }

    /// `{ key: value, .. }` on one line.
    fn flow_map(&mut self, depth: usize) -> Option<Node> {
        let start = self.at;
        self.at += 1;
        self.spaces();
        let mut pairs = Vec::new();
        if self.peek() != Some(b'}') {
            pairs.reserve_exact(3);
            loop {
                let key = self.key(&pairs, true)?;
                self.spaces();
                let value = self.value(true, depth)?;
                pairs.push((key, value));
                self.spaces();
                match self.peek()? {
                    b',' => self.at += 1,
                    b'}' => break,
                    _ => return None,
                }
                self.spaces();
            }
        }
        self.at += 1;
        Some(self.node(NodeKind::Map(Map { pairs, braces: true }), start, self.at))
    }

    /// A plain key and the `:` behind it.
    fn key(&mut self, before: &[(Key, Node)], flow: bool) -> Option<Key> {
        let start = self.plain_start()?;
        loop {
            match self.peek()? {
                b':' if matches!(self.bytes.get(self.at + 1), Some(b' ' | b'\n')) => break,
                b'\n' | b'#' | b'"' | b'\'' | b' ' => return None,
                b',' | b'[' | b']' | b'{' | b'}' if flow => return None,
                _ => self.at += 1,
            }
        }
        let scalar = self.scalar(start, self.at, true, flow);
        let known = before.iter().any(|(known, _)| known.scalar.text == scalar.text);
        let unusual = known || scalar.text == "null" || scalar.text.len() > KEY_BYTES_MAX;
        if unusual || before.len() == PAIRS_MAX {
            return None;
        }
        let span = self.span(start, self.at);
        self.at += 1;
        Some(Key { scalar, span })
    }

    /// The start of a plain scalar, which does not begin with a character that is special in YAML.
    fn plain_start(&self) -> Option<usize> {
        self.peek().filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').map(|_| self.at)
    }

    fn value(&mut self, flow: bool, depth: usize) -> Option<Node> {
        match self.peek()? {
            b'{' if depth < DEPTH_MAX => self.flow_map(depth + 1),
            quote @ (b'"' | b'\'') => self.quoted(quote, flow),
            _ => self.plain(flow),
        }
    }

    /// A quoted text without escapes.
    fn quoted(&mut self, quote: u8, flow: bool) -> Option<Node> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek()? {
                b'\n' | b'\\' => return None,
                byte if byte == quote => break,
                _ => self.at += 1,
            }
        }
        let scalar = self.scalar(start + 1, self.at, false, flow);
        self.at += 1;
        // The caller checks what follows; a second quote, an escape, makes it leave the text to the full reader.
        Some(self.node(NodeKind::Scalar(scalar), start, self.at))
    }

    /// A plain scalar up to the end of its line, or of its place in a map in braces.
    fn plain(&mut self, flow: bool) -> Option<Node> {
        let start = self.plain_start()?;
        let mut brackets = 0i32;
        loop {
            match self.peek() {
                None | Some(b'\n') if !flow => break,
                Some(b',' | b'}') if flow => break,
                None | Some(b'\n') => return None,
                Some(b'[' | b']' | b'{') if flow => return None,
                Some(b'#') if self.bytes[self.at - 1] == b' ' => break,
                Some(b':') => match self.bytes.get(self.at + 1) {
                    None | Some(b' ' | b'\n') => return None,
                    Some(b',' | b'[' | b']' | b'{' | b'}') if flow => return None,
                    Some(_) => {}
                },
                Some(b'(') => brackets += 1,
                Some(b')') => brackets -= 1,
                Some(_) => {}
            }
            self.at += 1;
        }
        let end = start + self.text[start..self.at].trim_ascii_end().len();
        self.at = end;
        // A call that a comma splits is for the full reader, which reports it.
        if flow && brackets != 0 || &self.text[start..end] == "null" {
            return None;
        }
        let scalar = self.scalar(start, end, true, flow);
        Some(self.node(NodeKind::Scalar(scalar), start, end))
    }
}

#[cfg(test)]
mod tests;
