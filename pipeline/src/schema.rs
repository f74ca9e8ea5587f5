//! JSON Schema (draft 2020-12) of programs and entries files, for editors.
//!
//! It is generated from the decoder's tables of keys, so that it has exactly the keys that the decoder accepts. It
//! describes lists, maps and words; expressions are checked only by `check`.

use serde_json::{Map, Value, json};

use crate::source::shape::{MapShape, Shape};
use crate::source::{ENTRIES_SHAPE, PROGRAM_SHAPE, STATEMENT_FORMS};

/// The schema of programs and libraries.
pub fn program() -> Value {
    let mut schema = root(&PROGRAM_SHAPE, "Wireyard program or library");
    schema["anyOf"] = json!([{ "required": ["pipeline"] }, { "required": ["library"] }]);
    schema
}

/// The schema of entries files.
pub fn entries() -> Value {
    root(&ENTRIES_SHAPE, "Wireyard table entries")
}

/// The schema of any file that is decoded by shapes.
pub fn root(shape: &MapShape, title: &str) -> Value {
    let mut definitions = Definitions::default();
    let object = definitions.object(shape);
    let mut schema = Map::new();
    schema.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".into(), title.into());
    if let Value::Object(object) = object {
        schema.extend(object);
    }
    schema.insert("$defs".into(), Value::Object(definitions.done));
    Value::Object(schema)
}

/// The definitions that were required so far.
#[derive(Default)]
struct Definitions {
    done: Map<String, Value>,
}

impl Definitions {
    fn object(&mut self, shape: &MapShape) -> Value {
        let mut properties = Map::new();
        for key in shape.keys {
            let mut property = self.shape(&key.shape);
            property["description"] = key.doc.into();
            properties.insert(key.name.into(), property);
        }
        let required: Vec<&str> =
            shape.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
        json!({
            "type": "object",
            "description": shape.what,
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// A reference to a definition, made when it is new.
    fn reference(&mut self, name: &str, make: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.done.contains_key(name) {
            // Its key first: a definition may contain itself.
            self.done.insert(name.into(), Value::Null);
            let definition = make(self);
            self.done.insert(name.into(), definition);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }

    fn shape(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Name => json!({ "type": "string" }),
            Shape::Text | Shape::Pattern | Shape::Expression => {
                json!({ "type": ["string", "number", "boolean"] })
            }
            Shape::Count => {
                json!({ "anyOf": [
                    { "type": "integer", "minimum": 0 },
                    { "type": "string", "pattern": "^(0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9][0-9_]*)$" },
                ] })
            }
            Shape::Real => json!({ "type": "number" }),
            Shape::Flag => json!({ "type": "boolean" }),
            Shape::Choice(words) => json!({ "enum": words }),
            Shape::Statement => self.reference("statement", |definitions| {
                let mut forms = vec![json!({ "type": "string" })];
                for form in STATEMENT_FORMS {
                    forms.push(definitions.reference(form.name, |inner| inner.object(form)));
                }
                json!({ "anyOf": forms })
            }),
            Shape::List(item) => json!({ "type": "array", "items": self.shape(item) }),
            Shape::OneOrMore(item) => {
                let item = self.shape(item);
                json!({ "anyOf": [{ "type": "array", "items": item }, item] })
            }
            Shape::MapOf(value) => {
                json!({ "type": "object", "additionalProperties": self.shape(value) })
            }
            Shape::Map(shape) => self.reference(shape.name, |inner| inner.object(shape)),
            Shape::Any => json!({}),
            Shape::Either(choices) => {
                let choices: Vec<Value> = choices.iter().map(|choice| self.shape(choice)).collect();
                json!({ "anyOf": choices })
            }
        }
    }
}

#[cfg(test)]
mod tests;
