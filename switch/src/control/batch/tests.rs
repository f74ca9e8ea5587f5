//! Counts and rates of entries that a batch replaces.

use wireyard_tables::counter::Count;
use wireyard_tables::meter::MeterConfig;

use super::*;
use crate::control::TableEntry;
use crate::control::tests::{device, entries, entry};

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
