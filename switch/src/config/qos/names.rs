//! The names that a `qos:` section uses, checked against those that it and its preset define.
//!
//! The check is done when the file is read, while each name has a place: one error for each name in the file, however
//! many ports, groups and queues use it.

use wireyard_pipeline::diag::{Diagnostics, codes};
use wireyard_pipeline::source::node::{Key, Node, NodeKind, Scalar};

use super::{Preset, QosConfig};
use crate::config::{PORT_MAX, PortNumber, is_port};

/// The defined names.
struct Known {
    pools: Vec<String>,
    profiles: Vec<String>,
    wred: Vec<String>,
    schedulers: Vec<String>,
    /// Key of a port, and the maps that it may name.
    maps: [(&'static str, Vec<String>); 6],
}

fn keys<V>(map: &std::collections::BTreeMap<String, V>) -> Vec<String> {
    map.keys().cloned().collect()
}

/// Reports undefined names: in the section itself, and in the ports' own settings.
pub(in crate::config) fn check(
    config: &QosConfig,
    section: Option<&Node>,
    ports: &[&Node],
    found: &mut Diagnostics,
) {
    // A preset is part of the binary: one that cannot be read is reported when it is resolved.
    let Ok(merged) = config.with_preset() else { return };
    let known = Known {
        pools: keys(&merged.buffer_pools),
        profiles: keys(&merged.buffer_profiles),
        wred: keys(&merged.wred_profiles),
        schedulers: keys(&merged.schedulers),
        maps: [
            ("dscp_to_tc_map", keys(&merged.dscp_to_tc_maps)),
            ("dot1p_to_tc_map", keys(&merged.dot1p_to_tc_maps)),
            ("tc_to_queue_map", keys(&merged.tc_to_queue_maps)),
            ("tc_to_pg_map", keys(&merged.tc_to_priority_group_maps)),
            ("pfc_to_queue_map", keys(&merged.pfc_priority_to_queue_maps)),
            ("pfc_to_pg_map", keys(&merged.pfc_priority_to_priority_group_maps)),
        ],
    };
    for (_, profile) in section.map(|node| pairs(node, "buffer_profiles")).unwrap_or_default() {
        if let Some(pool) = child(profile, "pool") {
            name(pool, "buffer pool", &known.pools, found);
        }
    }
    let of_ports = section.map(|node| pairs(node, "ports")).unwrap_or_default();
    for (key, _) in of_ports {
        let number = key.scalar.text.parse().map(PortNumber);
        if !number.is_ok_and(is_port) {
            let text =
                format!("`{}` is not a port: use a number, 0 to {PORT_MAX}", key.scalar.text);
            found.error(codes::UNKNOWN, key.span, text);
        }
    }
    let defaults = section.and_then(|node| child(node, "port_defaults"));
    let sections =
        of_ports.iter().map(|(_, node)| node).chain(defaults).chain(ports.iter().copied());
    for port in sections {
        for (key, maps) in &known.maps {
            if let Some(map) = child(port, key) {
                name(map, &format!("{} map", kind(key)), maps, found);
            }
        }
        let profiles = pairs(port, "priority_groups").iter().chain(pairs(port, "queue_buffers"));
        profiles.for_each(|(_, value)| name(value, "buffer profile", &known.profiles, found));
        let wred = pairs(port, "queue_wred").iter();
        wred.for_each(|(_, value)| name(value, "WRED profile", &known.wred, found));
        let schedulers = pairs(port, "queue_schedulers").iter();
        schedulers.for_each(|(_, value)| name(value, "scheduler", &known.schedulers, found));
    }
    // A misspelt use is an error there, without a second warning at the unused definition.
    if let Some(section) = section
        && !found.has_errors()
    {
        unused(config, section, ports, found);
    }
}

/// Warns of a profile or scheduler that the section writes and no port uses: it may be a misspelt name of one in the
/// preset.
fn unused(config: &QosConfig, section: &Node, ports: &[&Node], found: &mut Diagnostics) {
    let Ok(preset) = config.preset.unwrap_or(Preset::Plain).config() else { return };
    let kinds: [(&str, &str, Vec<String>, &[&str]); 3] = [
        ("wred_profiles", "WRED profile", keys(&preset.wred_profiles), &["queue_wred"]),
        (
            "buffer_profiles",
            "buffer profile",
            keys(&preset.buffer_profiles),
            &["priority_groups", "queue_buffers"],
        ),
        ("schedulers", "scheduler", keys(&preset.schedulers), &["queue_schedulers"]),
    ];
    let of_ports = pairs(section, "ports").iter().map(|(_, node)| node);
    let defaults = child(section, "port_defaults");
    let ports: Vec<&Node> = of_ports.chain(defaults).chain(ports.iter().copied()).collect();
    for (key, what, known, maps) in kinds {
        let values = ports.iter().flat_map(|port| maps.iter().flat_map(|map| pairs(port, map)));
        let used: Vec<&str> = values.filter_map(|(_, value)| text_of(value)).collect();
        for (name, _) in pairs(section, key) {
            let text = &name.scalar.text;
            if known.contains(text) || used.contains(&text.as_str()) {
                continue;
            }
            let message = format!("no port uses {what} `{text}`");
            let warning = found.warning(codes::UNUSED, name.span, message);
            warning.did_you_mean(text, known.iter().map(String::as_str));
            if warning.fixes.is_empty() {
                let maps = maps.join("` or `");
                warning.help(format!("name it in `{maps}` of `port_defaults` or of a port"));
            }
        }
    }
}

fn text_of(node: &Node) -> Option<&str> {
    match &node.kind {
        NodeKind::Scalar(Scalar { text, .. }) => Some(text),
        _ => None,
    }
}

/// `tc_to_queue_map` in words.
fn kind(key: &str) -> String {
    let words = key.trim_end_matches("_map").replace("pg", "priority group").replace('_', " ");
    words.replace("dscp", "DSCP").replace("tc", "traffic class").replace("pfc", "PFC priority")
}

fn name(node: &Node, what: &str, known: &[String], found: &mut Diagnostics) {
    let Some(text) = text_of(node) else { return };
    if known.iter().any(|known| known == text) {
        return;
    }
    let names = || known.iter().map(String::as_str);
    let error = found.error(codes::UNKNOWN, node.span, format!("there is no {what} `{text}`"));
    error.did_you_mean(text, names());
    if error.fixes.is_empty() {
        error.note(match known {
            [] => "there is none at all: write one".to_owned(),
            _ => format!("there are `{}`", names().collect::<Vec<_>>().join("`, `")),
        });
    }
}

/// The value behind a key of a map.
fn child<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let NodeKind::Map(map) = &node.kind else { return None };
    map.pairs.iter().find(|(known, _)| known.scalar.text == key).map(|(_, node)| node)
}

/// The pairs of the map behind a key.
fn pairs<'n>(node: &'n Node, key: &str) -> &'n [(Key, Node)] {
    match child(node, key).map(|node| &node.kind) {
        Some(NodeKind::Map(map)) => &map.pairs,
        _ => &[],
    }
}
