//! Shapes: which keys a map may have, and the form of their values.
//!
//! One table per map serves the decoder (unknown and missing keys), the diagnostics (suggestions) and the JSON Schema,
//! so that the three cannot differ.

/// A map with known keys.
#[derive(Debug)]
pub struct MapShape {
    /// Name of the definition in the JSON Schema: `table`.
    pub name: &'static str,
    /// A description for messages: `a table`.
    pub what: &'static str,
    /// Its keys.
    pub keys: &'static [KeyShape],
}

/// A key of a map.
#[derive(Debug)]
pub struct KeyShape {
    /// The key.
    pub name: &'static str,
    /// It is required.
    pub required: bool,
    /// The form of its value.
    pub shape: Shape,
    /// One line of documentation.
    pub doc: &'static str,
}

/// Possible forms of a value.
#[derive(Debug)]
pub enum Shape {
    /// A name.
    Name,
    /// Any text.
    Text,
    /// A whole number from 0.
    Count,
    /// A number that may have a fraction.
    Real,
    /// `true` or `false`.
    Flag,
    /// One of a list of words.
    Choice(&'static [&'static str]),
    /// An expression.
    Expression,
    /// A statement.
    Statement,
    /// A pattern.
    Pattern,
    /// A list.
    List(&'static Shape),
    /// A list, or one item alone.
    OneOrMore(&'static Shape),
    /// A map with any keys.
    MapOf(&'static Shape),
    /// A map with known keys.
    Map(&'static MapShape),
    /// Anything, for keys of other files.
    Any,
    /// One of several.
    Either(&'static [Shape]),
}

/// An optional key.
pub const fn key(name: &'static str, shape: Shape, doc: &'static str) -> KeyShape {
    KeyShape { name, required: false, shape, doc }
}

/// A required key.
pub const fn needed(name: &'static str, shape: Shape, doc: &'static str) -> KeyShape {
    KeyShape { name, required: true, shape, doc }
}
