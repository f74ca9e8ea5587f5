//! Replaces keys of a scenario before it is read, as if the file had them.
//!
//! A key is a path with dots: `switch.qos.wred_profiles.ROCE.green.kmin`, `flows.0.load`. A missing map is created; an
//! item of a list must exist. Keys and values keep their places in the file of the study, so their errors are shown there.

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
    // A single value is a list of one.
    let is_number = first.bytes().all(|byte| byte.is_ascii_digit());
    match &mut node.kind {
        NodeKind::List(items) => {
            let count = items.len();
            let place: Option<&mut Node> = first.parse().ok().and_then(|n: usize| items.get_mut(n));
            let place = place.ok_or_else(|| {
                format!("`{first}` is no item of a list of {count}, which begins with 0")
            })?;
            set(place, rest, value)
        }
        NodeKind::Map(_) if first == "0" => set(node, rest, value),
        NodeKind::Map(_) if is_number => Err(format!("`{first}` is no item: there is one, 0")),
        NodeKind::Map(map) => {
            let found = map.pairs.iter_mut().find(|(key, _)| key.scalar.text == *first);
            if let Some((_, place)) = found {
                return set(place, rest, value);
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
