//! Places of the parts of a configuration, for errors that are found only when all parts are combined.

use std::collections::BTreeMap;

use wireyard_pipeline::diag::{Files, line_columns};
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::node::{Node, NodeKind};

use super::qos::{Problem, Report};

/// Places (`switch.yaml:12:5`) by the path of keys: `qos`, `qos.buffer_pools.lossless`, `ports.1`.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(BTreeMap<String, String>);

/// Longest path of keys that is stored, and most parts.
const DEPTH: usize = 4;
const PARTS_MAX: usize = 20_000;

/// Ports of one problem that are named.
const PORTS_SHOWN: usize = 16;

/// The place of a problem.
struct Found<'a> {
    at: &'a str,
    /// The part that several ports share, if it is one: `profile "x"`.
    shared: Option<String>,
}

impl Places {
    /// Stores the places of the keys of a file.
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

    /// Sets the place of each problem: that of its part, or of the nearest part around it. Problems of a part that
    /// ports share become one, as do equal ones of several ports with one place.
    pub(super) fn fill(&self, report: &mut Report) {
        for list in [&mut report.problems, &mut report.warnings] {
            for problem in list.iter_mut() {
                let Some(found) = self.find(&problem.place) else { continue };
                problem.at = Some(found.at.to_owned());
                problem.place = found.shared.unwrap_or_else(|| problem.place.clone());
            }
            merge_ports(list);
        }
    }

    /// Place of the port of a generator; generators are counted from 1.
    pub(super) fn generator(&self, number: usize) -> Option<String> {
        self.0.get(&format!("generators.{number}.port")).cloned()
    }

    /// `port 1, priority group 3`, `port 1, queue 2, profile "x", trim_size`, `port 1, default_tc`, `pool x`,
    /// `tc_to_queue_map "x"`, `packet_slots`.
    fn find(&self, place: &str) -> Option<Found<'_>> {
        let last = place.rsplit(", ").next().unwrap_or("");
        let key = (!last.contains([' ', '"'])).then_some(last);
        let found = |path: &str, shared| Some(Found { at: self.0.get(path)?, shared });
        if let Some(found) = self.named(place, key) {
            return Some(found);
        }
        let mut words = place.split([' ', ',', '.']);
        let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let keys = match first {
            "pool" => vec![format!("qos.buffer_pools.{second}")],
            "port" => {
                let own = [format!("ports.{second}"), format!("qos.ports.{second}")];
                let value = |of: &String| Some(format!("{of}.{}", key?));
                // A value that all ports share may be wrong for some of them.
                let all = [own.as_slice(), &["qos.port_defaults".to_owned()]].concat();
                let values: Vec<String> = all.iter().filter_map(value).collect();
                if let Some(found) = values.iter().find_map(|path| found(path, None)) {
                    return Some(found);
                }
                let keys = profile_key(place).into_iter();
                let keys = keys.flat_map(|key| all.iter().map(move |of| format!("{of}.{key}")));
                keys.chain(all.iter().cloned()).collect()
            }
            other => vec![format!("qos.{other}.{second}"), format!("qos.{other}")],
        };
        let keys = keys.iter().map(String::as_str);
        keys.chain(["qos"]).find_map(|path| found(path, None))
    }

    /// Place of a part with a name, or of its value with this key.
    fn named(&self, place: &str, key: Option<&str>) -> Option<Found<'_>> {
        let (before, rest) = place.split_once('"')?;
        let (name, _) = rest.split_once('"')?;
        let end = format!(".{name}");
        // Directly in a section of `qos:`; a name may have dots.
        let is_it = |path: &&String| {
            let section = path.strip_suffix(&end).and_then(|above| above.strip_prefix("qos."));
            section.is_some_and(|section| !section.contains('.'))
        };
        let path = self.0.keys().find(is_it)?;
        let value = key.and_then(|key| self.0.get(&format!("{path}.{key}")));
        let start = before.rfind(", ").map_or(0, |comma| comma + 2);
        Some(Found { at: value.or(self.0.get(path))?, shared: Some(place[start..].to_owned()) })
    }
}

/// The key with the profile of a priority group or of a queue.
fn profile_key(place: &str) -> Option<&'static str> {
    match place.split_once(", ")?.1 {
        of if of.starts_with("priority group") => Some("priority_groups"),
        of if of.starts_with("queue") => Some("queue_buffers"),
        _ => None,
    }
}

/// One problem for all ports that have it for the same reason: `ports 1, 2: ...`.
fn merge_ports(problems: &mut Vec<Problem>) {
    let mut merged: Vec<(Problem, Vec<String>)> = Vec::new();
    let mut index = BTreeMap::new();
    for problem in problems.drain(..) {
        let (port, rest) = match problem.place.strip_prefix("port ") {
            Some(place) => place.split_once(", ").map_or((place, ""), |found| found),
            None => ("", problem.place.as_str()),
        };
        let port = port.to_owned();
        let key = (rest.to_owned(), problem.message.clone(), problem.at.clone());
        let n = *index.entry(key).or_insert(merged.len());
        match merged.get_mut(n) {
            Some((_, ports)) if port.is_empty() || ports.contains(&port) => {}
            Some((_, ports)) => ports.push(port),
            None => merged.push((problem, vec![port])),
        }
    }
    problems.extend(merged.into_iter().map(|(problem, ports)| match ports.as_slice() {
        [] | [_] => problem,
        [first, ..] => {
            let rest = problem.place.get("port ".len() + first.len()..).unwrap_or_default();
            let more = match ports.len().saturating_sub(PORTS_SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named = &ports[..ports.len().min(PORTS_SHOWN)];
            Problem { place: format!("ports {}{more}{rest}", named.join(", ")), ..problem }
        }
    }));
}

fn add(node: &Node, above: &str, depth: usize, found: &mut Vec<(String, SourceSpan)>) {
    if let NodeKind::List(items) = &node.kind {
        let items = (1..).zip(items).filter(|_| depth > 0);
        return items.for_each(|(n, item)| add(item, &format!("{above}{n}."), depth - 1, found));
    }
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
