//! A YAML document as a tree: maps in their order, every node with its bytes in the file.
//!
//! Scalars keep their source text, without implicit types, so the reader of a place decides the meaning of `0x0800`,
//! `010`, `yes` and `02:00:00:00:00:01`.

use crate::ir::SourceSpan;
use crate::syntax::Text;

/// A value at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The value.
    pub kind: NodeKind,
    /// Its bytes; for a node repeated by an alias those at the anchor.
    pub span: SourceSpan,
    /// The alias that put the value here.
    pub alias: Option<SourceSpan>,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// Nothing written, `~` or `null`.
    Null,
    /// A text, a number, a name: distinguished by the reader.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order written, each key once.
    Map(Map),
    /// A node that was already reported: readers skip it silently.
    Invalid,
}

/// A scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// The text without quotes and escapes.
    pub text: String,
    /// Offset in the file of the first byte of `text`, if the file has the same bytes.
    pub start: Option<u32>,
    /// Written without quotes.
    pub plain: bool,
    /// Written inside `[..]` or `{..}`.
    pub flow: bool,
}

/// The pairs of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// Keys and values in the order written.
    pub pairs: Vec<(Key, Node)>,
    /// Written with braces.
    pub braces: bool,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The scalar.
    pub scalar: Scalar,
    /// Its bytes.
    pub span: SourceSpan,
}

impl Key {
    /// The key as a text that the grammar can read.
    pub fn text(&self) -> Text<'_> {
        Text { text: &self.scalar.text, whole: self.span, start: self.scalar.start }
    }
}

impl Node {
    /// The scalar as a text that the grammar can read.
    pub fn text(&self) -> Option<Text<'_>> {
        match &self.kind {
            NodeKind::Scalar(scalar) => {
                Some(Text { text: &scalar.text, whole: self.span, start: scalar.start })
            }
            _ => None,
        }
    }

    /// The kind of value, for messages: `a list`.
    pub fn what(&self) -> &'static str {
        match &self.kind {
            NodeKind::Null => "nothing",
            NodeKind::Scalar(_) => "a single value",
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "a map",
            NodeKind::Invalid => "an invalid value",
        }
    }
}
