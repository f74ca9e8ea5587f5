use super::*;
use crate::diag::{Diagnostics, Files};
use crate::source::decode;
use crate::source::node::{Node, NodeKind};

/// The JSON value that an editor's YAML reader makes of a node.
fn value(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Null | NodeKind::Invalid => Value::Null,
        NodeKind::Scalar(scalar) if scalar.plain => match scalar.text.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            text => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
        },
        NodeKind::Scalar(scalar) => scalar.text.as_str().into(),
        NodeKind::List(items) => items.iter().map(value).collect(),
        NodeKind::Map(map) => {
            map.pairs.iter().map(|(key, node)| (key.scalar.text.clone(), value(node))).collect()
        }
    }
}

/// The part of JSON Schema that ours uses. `Err` is the place and the reason.
fn validate(schema: &Value, root: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(&name[1..]).ok_or(format!("{at}: no {name}"))?;
        validate(target, root, value, at)?;
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let mut reasons = choices
            .iter()
            .map(|choice| validate(choice, root, value, at).err())
            .collect::<Vec<_>>();
        if !reasons.iter().any(Option::is_none) {
            return Err(reasons.drain(..).flatten().collect::<Vec<_>>().join(" | "));
        }
    }
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" | "integer" => value.is_number(),
        _ => false,
    };
    match &schema["type"] {
        Value::String(name) if !is(name) => return Err(format!("{at}: not {name}: {value}")),
        Value::Array(names) if !names.iter().filter_map(Value::as_str).any(is) => {
            return Err(format!("{at}: none of {names:?}: {value}"));
        }
        _ => {}
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{at}: not one of {words:?}: {value}"));
    }
    for item in value.as_array().into_iter().flatten() {
        validate(&schema["items"], root, item, at)?;
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(name).is_none() {
            return Err(format!("{at}: {name} is missing"));
        }
    }
    for (key, item) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        match &schema["properties"][key] {
            Value::Null if schema["additionalProperties"] == Value::Bool(false) => {
                return Err(format!("{at}: unknown"));
            }
            Value::Null => validate(&schema["additionalProperties"], root, item, &at)?,
            known => validate(known, root, item, &at)?,
        }
    }
    Ok(())
}

fn check(schema: &Value, text: &str) -> Result<(), String> {
    let node = decode::from_text("t.yaml", text, &mut Files::new(), &mut Diagnostics::new());
    validate(schema, schema, &value(&node.expect("YAML")), "")
}

#[test]
fn the_examples_of_the_reference_validate() {
    for example in crate::source::tests::reference_examples() {
        let text = &example.text;
        let schema = if example.entries { entries() } else { program() };
        check(&schema, text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    }
}

#[test]
fn the_schema_refuses_what_the_decoder_refuses() {
    let wrong = [
        "headers: {}\n",
        "pipeline: a\nheadrs: {}\n",
        "pipeline: a\ntables: { t: { key: { a.b: longest }, actions: [drop] } }\n",
        "pipeline: a\ntables: { t: { actions: [drop] } }\n",
        "pipeline: a\ningress: [ { iff: x, then: [] } ]\n",
        "pipeline: a\nparser: [start]\n",
    ];
    for text in wrong {
        assert!(check(&program(), text).is_err(), "{text}");
    }
}

#[test]
fn every_reference_is_defined() {
    for schema in [program(), entries()] {
        let text = schema.to_string();
        for part in text.split("\"#/$defs/").skip(1) {
            let name = part.split('"').next().expect("closed");
            assert!(schema["$defs"][name].is_object(), "{name}");
        }
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
}
