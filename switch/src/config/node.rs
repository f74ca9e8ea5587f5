//! A YAML node as a serde data source, so that a model which derives `Deserialize` is read from a file with the place
//! of each error.
//!
//! serde stops at the first error. Its span is that of the innermost value that was being read: the
//! key of an unknown field, the value of the wrong kind, the map where a field is missing.

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use wireyard_pipeline::diag::{Diagnostics, codes};
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::node::{Key, Node, NodeKind, Scalar};

/// An error, with its place.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct NodeError {
    span: Option<SourceSpan>,
    message: String,
}

impl de::Error for NodeError {
    fn custom<T: std::fmt::Display>(message: T) -> NodeError {
        NodeError { span: None, message: message.to_string() }
    }

    /// Models have names of Rust, and are maps in the file.
    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> NodeError {
        let expected = expected.to_string();
        let expected = if expected.starts_with("struct ") { "a map" } else { &expected };
        de::Error::custom(format!("invalid type: {found}, expected {expected}"))
    }

    fn missing_field(field: &'static str) -> NodeError {
        de::Error::custom(format!("`{field}` is missing"))
    }
}

impl NodeError {
    /// The same at this place, if it has none yet.
    fn at(mut self, span: SourceSpan) -> NodeError {
        self.span.get_or_insert(span);
        self
    }
}

/// Reads a model from a node; errors go to the diagnostics.
pub(super) fn read<'n, T: de::Deserialize<'n>>(
    node: &'n Node,
    found: &mut Diagnostics,
) -> Option<T> {
    if node.kind == NodeKind::Invalid {
        return None;
    }
    match T::deserialize(NodeReader(node)) {
        Ok(value) => Some(value),
        Err(error) => {
            let unknown = error.message.starts_with("unknown field");
            let code = if unknown { codes::UNKNOWN_KEY } else { codes::WRONG_TYPE };
            // serde's message has the name that it found, then the valid ones, in backticks.
            let mut names = error.message.split('`').skip(1).step_by(2);
            let first = names.next().filter(|_| error.message.starts_with("unknown "));
            let report = found.error(code, error.span.unwrap_or(node.span), error.message.clone());
            if let Some(first) = first {
                report.did_you_mean(first, names);
            }
            None
        }
    }
}

/// The names of the fields of a model, as its `Deserialize` lists them.
pub(super) fn fields_of<T: de::Deserialize<'static>>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    // It ends with an error: there is nothing to read.
    let _ = T::deserialize(Fields(&mut fields));
    fields
}

struct Fields<'f>(&'f mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NodeError> {
        Err(de::Error::custom("nothing to read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct NodeReader<'n>(&'n Node);

/// A plain scalar by YAML's core schema; a quoted one is text.
fn visit_scalar<'n, V: Visitor<'n>>(scalar: &'n Scalar, visitor: V) -> Result<V::Value, NodeError> {
    let text = scalar.text.as_str();
    if !scalar.plain {
        return visitor.visit_borrowed_str(text);
    }
    match text {
        "true" => return visitor.visit_bool(true),
        "false" => return visitor.visit_bool(false),
        _ => {}
    }
    if let Ok(number) = text.parse::<u64>() {
        return visitor.visit_u64(number);
    }
    if let Ok(number) = text.parse::<i64>() {
        return visitor.visit_i64(number);
    }
    visitor.visit_borrowed_str(text)
}

impl<'de> Deserializer<'de> for NodeReader<'de> {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let result = match &self.0.kind {
            NodeKind::Null | NodeKind::Invalid => visitor.visit_unit(),
            NodeKind::Scalar(scalar) => visit_scalar(scalar, visitor),
            NodeKind::List(items) => visitor.visit_seq(Items(items.iter())),
            NodeKind::Map(map) => visitor.visit_map(Pairs { left: map.pairs.iter(), value: None }),
        };
        result.map_err(|error| error.at(self.0.span))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match &self.0.kind {
            NodeKind::Scalar(scalar) => visitor.visit_borrowed_str(&scalar.text),
            _ => return self.deserialize_any(visitor),
        }
        .map_err(|error: NodeError| error.at(self.0.span))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.0.kind {
            NodeKind::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        match &self.0.kind {
            NodeKind::Scalar(scalar) => visitor.visit_enum(Word(&scalar.text)),
            _ => Err(de::Error::custom(format!("expected a word, found {}", self.0.what()))),
        }
        .map_err(|error: NodeError| error.at(self.0.span))
    }

    /// An empty value of a map is an empty map.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.0.kind {
            NodeKind::Null => visitor.visit_map(Pairs { left: [].iter(), value: None }),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        self.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        seq tuple tuple_struct identifier ignored_any
    }
}

struct Items<'n>(std::slice::Iter<'n, Node>);

impl<'n> SeqAccess<'n> for Items<'n> {
    type Error = NodeError;

    fn next_element_seed<T: DeserializeSeed<'n>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, NodeError> {
        let read = |item| {
            seed.deserialize(NodeReader(item)).map_err(|error: NodeError| error.at(item.span))
        };
        self.0.next().map(read).transpose()
    }
}

struct Pairs<'n> {
    left: std::slice::Iter<'n, (Key, Node)>,
    value: Option<&'n Node>,
}

impl<'n> MapAccess<'n> for Pairs<'n> {
    type Error = NodeError;

    fn next_key_seed<K: DeserializeSeed<'n>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, NodeError> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some(value);
        let text: StrDeserializer<'_, NodeError> = key.scalar.text.as_str().into_deserializer();
        seed.deserialize(text).map(Some).map_err(|error| error.at(key.span))
    }

    fn next_value_seed<V: DeserializeSeed<'n>>(&mut self, seed: V) -> Result<V::Value, NodeError> {
        match self.value.take() {
            Some(value) => {
                seed.deserialize(NodeReader(value)).map_err(|error| error.at(value.span))
            }
            None => Err(de::Error::custom("a value without a key")),
        }
    }
}

/// A variant without content.
struct Word<'n>(&'n str);

impl<'n> EnumAccess<'n> for Word<'n> {
    type Error = NodeError;
    type Variant = NoContent;

    fn variant_seed<V: DeserializeSeed<'n>>(
        self,
        seed: V,
    ) -> Result<(V::Value, NoContent), NodeError> {
        let text: StrDeserializer<'_, NodeError> = self.0.into_deserializer();
        Ok((seed.deserialize(text)?, NoContent))
    }
}

struct NoContent;

impl<'n> VariantAccess<'n> for NoContent {
    type Error = NodeError;

    fn unit_variant(self) -> Result<(), NodeError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'n>>(self, _: T) -> Result<T::Value, NodeError> {
        Err(de::Error::custom("this word takes a value"))
    }

    fn tuple_variant<V: Visitor<'n>>(self, _: usize, _: V) -> Result<V::Value, NodeError> {
        Err(de::Error::custom("this word takes values"))
    }

    fn struct_variant<V: Visitor<'n>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, NodeError> {
        Err(de::Error::custom("this word takes a map"))
    }
}
