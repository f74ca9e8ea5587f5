//! Reasons of drops: the page of the switch lists each of them, and packets cause those that a script can bring about.

use std::collections::BTreeSet;
use std::fs;

use wireyard_pipeline::ir::BuiltinReason;
use wireyard_switch::stats::DeviceReason;
use wireyard_switch::tm::id::DropReason;
use wireyard_tests::scripts::passes_everywhere;
use wireyard_tests::workspace_root;

#[test]
fn the_page_lists_every_reason() {
    let page = workspace_root().join("programs/switch.md");
    let page = fs::read_to_string(page).expect("the page of the switch");
    let tables = page.split("These always exist:").nth(1).expect("the tables of reasons");
    let rows = tables.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let listed: BTreeSet<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let every = BuiltinReason::ALL.iter().filter(|reason| **reason != BuiltinReason::None);
    let every = every.map(|reason| reason.name());
    let every = every.chain(DeviceReason::ALL.map(DeviceReason::name));
    let every: BTreeSet<&str> = every.chain(DropReason::ALL.map(DropReason::name)).collect();
    let missing: Vec<_> = every.difference(&listed).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
}

#[test]
fn packets_are_dropped_for_reasons_of_the_device() {
    passes_everywhere("data/reasons/computed/a.stf".as_ref());
    passes_everywhere("data/reasons/held/a.stf".as_ref());
}
