//! The dashboard of programs/grafana.json asks for series and labels that a switch serves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use wireyard_tests::live::Switch;
use wireyard_tests::workspace_root;

use super::{PROGRAM, address, await_sample, pfc, request, write_config};
use crate::queues;
use crate::rig::{Wire, ip, private_network, veth};

/// Labels that Prometheus adds to every series.
const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

/// Series of a page by name, with the labels that their samples have; a family without samples has none.
fn series(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for line in page.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').expect("a name and a type");
            let end = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            found.entry(format!("{name}{end}")).or_insert_with(BTreeSet::new);
        } else if let Some((name, labels)) = line.split_once('{').filter(|_| !line.starts_with('#'))
        {
            let labels = labels.split("\",").filter_map(|label| label.split_once('='));
            let labels = labels.map(|(label, _)| label.to_owned());
            found.get_mut(name).expect("a family").extend(labels);
        }
    }
    found
}

/// The words of an expression that are names.
pub(super) fn words(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// What stands between these.
pub(super) fn between<'t>(text: &'t str, open: &'static str, close: &'static str) -> Vec<&'t str> {
    text.split(open).skip(1).filter_map(|rest| rest.split(close).next()).collect()
}

#[test]
fn the_dashboard_asks_for_what_is_served() {
    let Some(_network) = private_network("the dashboard") else { return };
    ip("link set lo up");
    veth("sw1", "host1");
    veth("sw2", "host2");
    let (_folder, config) = write_config();
    let ports = ["1=raw:sw1", "2=raw:sw2"];
    let mut switch =
        Switch::on(PROGRAM, &ports, &["--config", &config, "--metrics", "127.0.0.1:0"]);
    let address = address(&mut switch);
    let (mut host1, mut host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    host2.send(&[pfc(65_535), pfc(0)]);
    host1.send(&(0..5).map(|n| queues::frame(1, 2, 26, 2, n, 1000)).collect::<Vec<_>>());
    await_sample(&address, "packets_received_total{port=\"1\"}", 5.0);
    let (_, page) = request(&address, "GET", "/metrics");
    let served = series(&page);
    let text = std::fs::read_to_string(workspace_root().join("programs/grafana.json")).unwrap();
    let board: Value = serde_json::from_str(&text).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let (mut ids, mut asked, mut with_samples) = (BTreeSet::new(), BTreeSet::new(), 0);
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64()), "{panel}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("an expression");
            assert!(expression.contains("{instance=~\"$switch\""), "{expression}");
            let names: Vec<&str> =
                words(expression).filter(|word| word.starts_with("wireyard_")).collect();
            assert!(!names.is_empty(), "{expression}");
            let legend = target["legendFormat"].as_str().expect("a legend");
            let mut labels = between(legend, "{{", "}}");
            labels.extend(between(expression, "by (", ")"));
            for name in names {
                let known = served.get(name).unwrap_or_else(|| panic!("no {name} is served"));
                asked.insert(name.to_owned());
                with_samples += usize::from(!known.is_empty());
                let is_known =
                    |label: &&&str| known.contains(**label) || OF_PROMETHEUS.contains(label);
                let missing: Vec<_> = labels.iter().filter(|label| !is_known(label)).collect();
                assert!(known.is_empty() || missing.is_empty(), "{name} has no {missing:?}");
            }
        }
    }
    let variable = board["templating"]["list"][1]["query"]["query"].as_str().expect("a query");
    let name = words(variable).find(|word| word.starts_with("wireyard_")).expect("a series");
    assert!(served.contains_key(name), "{variable}");
    assert!(asked.len() > 30 && with_samples > 25, "{} series, {with_samples}", asked.len());
    switch.end("INT").expect(0, &[]);
}
