//! COMMIT of a saved configuration whose store fails.

use std::sync::mpsc;

use wireyard_tables::Match;

use super::*;
use crate::control::{Entity, EntryKey, Journal, KeptUnits, Mode, Query};
use crate::p4runtime::persist::Begun;
use crate::p4runtime::translate::entry;
use crate::program::started;

const PROGRAM: &str = "
pipeline: committed
include: [ethernet]
parser: { start: { extract: ethernet } }
tables:
  learned: { key: { ethernet.src: exact }, actions: [drop], default: drop, size: 8 }
ingress: [ { apply: learned } ]
deparser: { emit: [ethernet] }
";

/// The program runs then, so what its controller wrote to it is there too.
#[test]
fn a_program_that_runs_has_its_entries_though_the_store_failed() {
    let (loaded, _core, control) = started("p.yaml", PROGRAM);
    let (sender, units) = mpsc::channel();
    let kept = Arc::new(KeptUnits::default());
    assert!(control.keep(Journal::new(Box::new(|_, _, _| {}), sender, Arc::clone(&kept))));
    let store = std::thread::spawn(move || {
        let unit = units.recv().unwrap();
        kept.fail("the disk is full".into());
        unit
    });
    let device = Device::new(1, control, &loaded.parsed, Begun::default());

    let stream = device.arbitrate().open().unwrap();
    device.arbitrate().update(stream, "", Some(1)).unwrap();

    let request = |action, config| p4::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(p4::Uint128 { high: 0, low: 1 }),
        action: action as i32,
        config,
        ..Default::default()
    };
    let p4_device_config = pack::pack(&loaded.parsed);
    let config = p4::ForwardingPipelineConfig { p4_device_config, ..Default::default() };
    set(&device, request(Action::VerifyAndSave, Some(config))).unwrap();
    let saved = device.saved().unwrap();
    let schema = &saved.checked.pipeline.schema;
    let table = device.control.table("learned").unwrap();
    let key = EntryKey { table, matches: vec![Match::Exact(7)], priority: 0 };
    let mut message = entry::key_message(schema, &key);
    let actions = schema.info.actions.iter().filter_map(|action| action.preamble.as_ref());
    let action_id = actions.clone().find(|action| action.name == "drop").unwrap().id;
    let action = p4::Action { action_id, params: Vec::new() };
    message.action = Some(p4::TableAction { r#type: Some(p4::table_action::Type::Action(action)) });
    let insert = p4::Update {
        r#type: p4::update::Type::Insert as i32,
        entity: Some(p4::Entity { entity: Some(p4::entity::Entity::TableEntry(message)) }),
    };
    saved.write(&[insert], Mode::Continue).unwrap();

    let failed = set(&device, request(Action::Commit, None)).unwrap_err();
    assert!(matches!(failed, ControlError::Unavailable(_)), "{failed}");
    assert!(failed.to_string().contains("done, but not kept"), "{failed}");
    assert!(store.join().unwrap().stays.is_some());
    assert!(device.saved().is_none());
    let found = device.control.read(&Query::Entry(key)).unwrap();
    assert!(matches!(found[..], [Entity::TableEntry(_)]), "{found:?}");
}
