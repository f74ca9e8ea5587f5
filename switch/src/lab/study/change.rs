//! Replaces keys of a scenario before it is read, as if the file had them.
//!
//! A key is a path with dots: `switch.qos.wred_profiles.ROCE.green.kmin`, `flows.0.load`. A missing map is created; an
//! item of a list must exist. A number is an item of a list, or a key of a map whose keys are numbers; a single value is
//! a list of one. Keys and values keep their places in the file of the study, so their errors are shown there.

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::node::{Key, Map, Node, NodeKind, Scalar};

/// A key of a study: its parts between the dots, each with its place.
pub(in crate::lab) fn path(key: &Key) -> Vec<Sp<String>> {
    let mut at = key.scalar.start;
    let part = |text: &str| {
        let span = at.map_or(key.span, |start| SourceSpan {
            start,
            end: start + text.len() as u32,
            ..key.span
        });
        at = at.map(|start| start + text.len() as u32 + 1);
        Sp::new(text.to_owned(), span)
    };
    key.scalar.text.split('.').map(part).collect()
}

/// Puts a value at a path.
///
/// # Errors
/// Why there is no such place.
pub(in crate::lab) fn set(node: &mut Node, path: &[Sp<String>], value: Node) -> Result<(), String> {
    let Some((part, rest)) = path.split_first() else {
        *node = value;
        return Ok(());
    };
    let first = &part.value;
    if first.is_empty() {
        return Err("an empty part between two dots".to_owned());
    }
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match &mut node.kind {
        NodeKind::List(items) => {
            let count = items.len();
            let place: Option<&mut Node> = first.parse().ok().and_then(|n: usize| items.get_mut(n));
            let place = place.ok_or_else(|| {
                format!("`{first}` is no item of a list of {count}, which begins with 0")
            })?;
            set(place, rest, value)
        }
        NodeKind::Map(map) => {
            let known = map.pairs.iter().position(|(key, _)| key.scalar.text == *first);
            if let Some(at) = known {
                return set(&mut map.pairs[at].1, rest, value);
            }
            // Queues and priorities have `default` among their numbers.
            let is_word = |text: &str| !is_number(text) && text != "default";
            let has_words = map.pairs.iter().any(|(key, _)| is_word(&key.scalar.text));
            if is_number(first) && has_words {
                return match first.as_str() {
                    "0" => set(node, rest, value),
                    _ => Err(format!("`{first}` is no item: there is one, 0")),
                };
            }
            let mut made = Node { kind: empty(), span: value.span, alias: None };
            set(&mut made, rest, value)?;
            let scalar = Scalar { text: first.clone(), start: None, plain: true, flow: false };
            map.pairs.push((Key { scalar, span: part.span }, made));
            Ok(())
        }
        NodeKind::Null => {
            node.kind = empty();
            set(node, path, value)
        }
        NodeKind::Scalar(scalar) => {
            Err(format!("`{}` stands where `{first}` would be looked for", scalar.text))
        }
        NodeKind::Invalid => Ok(()),
    }
}

fn empty() -> NodeKind {
    NodeKind::Map(Map { pairs: Vec::new(), braces: true })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wireyard_pipeline::diag::{Diagnostics, Files};
    use wireyard_pipeline::source::{Loader, read_yaml};

    use super::*;

    fn read(text: &str) -> Node {
        let loader = Loader::in_memory([("a.yaml", text)], &[]);
        let (mut files, mut found) = (Files::new(), Diagnostics::new());
        read_yaml(Path::new("a.yaml"), &loader, &mut files, &mut found).unwrap()
    }

    fn text(node: &Node) -> String {
        match &node.kind {
            NodeKind::Scalar(scalar) => scalar.text.clone(),
            NodeKind::List(items) => {
                format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(", "))
            }
            NodeKind::Map(map) => {
                let pair =
                    |(key, node): &(Key, Node)| format!("{}: {}", key.scalar.text, text(node));
                format!("{{{}}}", map.pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
            }
            NodeKind::Null | NodeKind::Invalid => String::new(),
        }
    }

    fn changed(before: &str, key: &str) -> Result<String, String> {
        let mut node = read(before);
        let span = node.span;
        let path: Vec<Sp<String>> =
            key.split('.').map(|part| Sp::new(part.to_owned(), span)).collect();
        set(&mut node, &path, read("new")).map(|()| text(&node))
    }

    #[test]
    fn a_number_is_an_item_of_a_list_or_a_key_of_numbers() {
        for (before, key, after) in [
            ("{ a: [x, y] }", "a.1", "{a: [x, new]}"),
            ("{ a: { k: x } }", "a.0.k", "{a: {k: new}}"),
            ("{ a: { 0: x, 3: y } }", "a.3", "{a: {0: x, 3: new}}"),
            ("{ a: { 0: x, 3: y } }", "a.0", "{a: {0: new, 3: y}}"),
            ("{ a: { 3: y } }", "a.0", "{a: {3: y, 0: new}}"),
            ("{ a: { default: x } }", "a.0", "{a: {default: x, 0: new}}"),
            ("{ b: x }", "a.3", "{b: x, a: {3: new}}"),
        ] {
            assert_eq!(changed(before, key).as_deref(), Ok(after), "{key} of {before}");
        }
        let refused = changed("{ a: { k: x } }", "a.1.k").unwrap_err();
        assert_eq!(refused, "`1` is no item: there is one, 0");
    }
}
