//! Counts and rates of entries that a batch replaces, and tables of another writer.

use wireyard_tables::counter::Count;
use wireyard_tables::meter::MeterConfig;

use super::*;
use crate::control::TableEntry;
use crate::control::tests::{device, entries, entry};
use crate::program::started;
use wireyard_tables::Match;

/// What belongs to an entry that a later update replaces is not written to its successor, in both modes alike.
#[test]
fn counts_and_rates_end_with_their_entry_inside_a_batch() {
    let rates = |cir| MeterConfig::TwoRate { cir, cbs: 10, pir: cir, pbs: 10 };
    for mode in [Mode::Atomic, Mode::Continue] {
        let (_core, control) = device();
        let plain = entry(&control, 1, 2);
        let mut full = entry(&control, 1, 1);
        (full.counter, full.meter) = (Some(Count { packets: 5, bytes: 50 }), Some(rates(100)));
        let of = |entry: &TableEntry| Entity::TableEntry(entry.clone());
        let meter = |cir| {
            let config = Some(rates(cir));
            Update::Modify(Entity::DirectMeter { key: plain.key.clone(), config })
        };
        let count = Count { packets: 7, bytes: 70 };
        let counted = Update::Modify(Entity::DirectCounter { key: plain.key.clone(), count });
        let replaced = [
            Update::Insert(of(&full)),
            counted,
            meter(300),
            Update::Delete(of(&plain)),
            Update::Insert(of(&plain)),
        ];
        control.write(&replaced, mode).unwrap();
        let found = entries(&control, "ways").remove(0);
        assert_eq!((found.counter, found.meter), (Some(Count::default()), None), "{mode:?}");
        control.write(&[meter(300), Update::Modify(of(&full)), meter(500)], mode).unwrap();
        assert_eq!(entries(&control, "ways")[0].meter, Some(rates(500)), "{mode:?}");
        control.write(&[meter(300), Update::Modify(of(&full))], mode).unwrap();
        let found = entries(&control, "ways").remove(0);
        assert_eq!((found.counter, found.meter), (full.counter, full.meter), "{mode:?}");
    }
}

const ROUTER: &str = r#"
pipeline: router
include: [ethernet]
parser: { start: { extract: ethernet } }
actions: { ours: { do: [ std.egress_port = 1 ] } }
tables:
  ways: { key: { std.ingress_port: exact }, actions: [ours, nop], default: nop, size: 4 }
  others: { key: { std.ingress_port: exact }, actions: [ours, nop], default: nop, size: 4 }
linux:
  interfaces: { table: ways, key: { std.ingress_port: port }, action: ours }
ingress: [ { apply: ways }, { apply: others } ]
deparser: { emit: [ethernet] }
"#;

#[test]
fn a_table_that_the_kernel_fills_has_one_writer() {
    let (_, _core, control) = started("router.yaml", ROUTER);
    let of = |table: &str, port| {
        let table = control.table(table).unwrap();
        let call = control.call("ours", &[]).unwrap();
        Entity::TableEntry(TableEntry::new(table, vec![Match::Exact(port)], call))
    };
    let ways = || entries(&control, "ways").len();
    control.write(&[Update::Insert(of("ways", 1))], Mode::Atomic).unwrap();
    control.set_mirrored(true);
    for update in [Update::Insert(of("ways", 2)), Update::Delete(of("ways", 1))] {
        let refused = control.write(&[update], Mode::Atomic).unwrap_err();
        let Some((0, ControlError::FailedPrecondition(why))) = refused.first() else {
            panic!("{refused:?}");
        };
        assert!(why.contains("table ways is filled from Linux"), "{why}");
    }
    // One of a batch, where the others are done.
    let batch = [Update::Insert(of("ways", 2)), Update::Insert(of("others", 2))];
    let refused = control.write(&batch, Mode::Continue).unwrap_err();
    assert_eq!(refused.results.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true]);
    assert_eq!((ways(), entries(&control, "others").len()), (1, 1));
    // The mirror itself, and everybody once there is none.
    let program = control.program();
    control.write_unstored(&program, &batch[..1], Mode::Atomic).unwrap();
    control.write_mirrored(&program, &[Update::Delete(of("ways", 2))], Mode::Atomic).unwrap();
    control.set_mirrored(false);
    control.write(&[Update::Delete(of("ways", 1))], Mode::Atomic).unwrap();
    assert_eq!(ways(), 0);
}
