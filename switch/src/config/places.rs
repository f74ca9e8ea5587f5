//! Where the parts of a configuration are written, for what is only found wrong when all of them are put together.

use std::collections::BTreeMap;

use wireyard_pipeline::diag::{Files, line_columns};
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::node::{Node, NodeKind};

use super::qos::Report;

/// Places (`switch.yaml:12:5`) by the keys that lead there: `qos`, `qos.buffer_pools.lossless`, `ports.1`.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(BTreeMap<String, String>);

/// How many keys lead to the parts that are remembered, and most parts.
const DEPTH: usize = 3;
const PARTS_MAX: usize = 20_000;

impl Places {
    /// Remembers the keys of a file.
    pub(super) fn of(node: &Node, files: &Files) -> Places {
        let mut found = Vec::new();
        add(node, "", DEPTH, &mut found);
        let spans: Vec<SourceSpan> = found.iter().map(|(_, span)| *span).collect();
        let places = found.into_iter().zip(line_columns(files, &spans));
        let place = |((path, span), (line, column)): ((String, SourceSpan), (usize, usize))| {
            let name = files.get(span.file).map_or("", |file| file.name.as_str());
            (path, format!("{name}:{line}:{column}"))
        };
        Places(places.map(place).collect())
    }

    /// Says of each problem where its part is written: the part itself, or what it is a part of.
    pub(super) fn fill(&self, report: &mut Report) {
        for problem in report.problems.iter_mut().chain(&mut report.warnings) {
            problem.at = self.find(&problem.place);
        }
    }

    /// `port 1, priority group 3`, `port 1, profile "x"`, `pool x`, `tc_to_queue_map "x"`, `packet_slots`.
    fn find(&self, place: &str) -> Option<String> {
        let named = place.split('"').nth(1);
        let mut words = place.split([' ', ',', '.']);
        let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let mut keys = Vec::new();
        if let Some(name) = named {
            let end = format!(".{name}");
            keys.extend(
                self.0.keys().filter(|key| key.starts_with("qos.") && key.ends_with(&end)).cloned(),
            );
        }
        match first {
            "pool" => keys.push(format!("qos.buffer_pools.{second}")),
            "port" => {
                keys.extend([format!("ports.{second}"), format!("qos.ports.{second}")]);
                keys.push("qos.port_defaults".to_owned());
            }
            other => keys.extend([format!("qos.{other}.{second}"), format!("qos.{other}")]),
        }
        keys.push("qos".to_owned());
        keys.iter().find_map(|key| self.0.get(key)).cloned()
    }
}

fn add(node: &Node, above: &str, depth: usize, found: &mut Vec<(String, SourceSpan)>) {
    let NodeKind::Map(map) = &node.kind else { return };
    for (key, value) in map.pairs.iter().filter(|_| depth > 0) {
        if found.len() == PARTS_MAX {
            return;
        }
        let path = format!("{above}{}", key.scalar.text);
        found.push((path.clone(), key.span));
        add(value, &format!("{path}."), depth - 1, found);
    }
}
