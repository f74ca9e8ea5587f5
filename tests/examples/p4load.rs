//! How many entries a second a running switch takes over P4Runtime, and gives back.
//!
//! `p4load ADDRESS [ENTRIES]`, with `wireyard run tests/data/p4runtime/program.yaml .. --p4runtime ADDRESS` beside it: batches of 1,000
//! entries, half of them one after the other and half with 4 under way, single entries with 256 under way, and a wildcard read. Requests
//! are made before the time runs, so that the switch is measured, and gRPC. One line of JSON.

use std::time::Instant;

use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::p4client::{Controller, insert, update};

use p4::entity::Entity;

const BATCH: usize = 1000;
const SINGLE: usize = 50_000;
const UNDER_WAY: usize = 256;
const BATCHES_UNDER_WAY: usize = 4;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: p4load ADDRESS [ENTRIES]";
    let address = arguments.next().expect(usage);
    let entries: usize = arguments.next().map_or(500_000, |text| text.parse().expect(usage));
    let (mut controller, _) = Controller::connect(&address, 1).expect("a stream");
    let action = controller.action("forward", &[&[2]]);
    let entry = |number: usize| {
        let key = (0x0200_0000_0000 + number as u64).to_be_bytes();
        Entity::TableEntry(controller.exact("fdb", &key[2..], action.clone()))
    };
    let (all, single): (Vec<_>, Vec<_>) =
        ((0..entries).map(entry).collect(), (entries..entries + SINGLE).map(entry).collect());
    let per_second =
        |count: usize, started: Instant| count as f64 / started.elapsed().as_secs_f64();

    let requests = |controller: &Controller, entities: &[Entity], together: usize| -> Vec<_> {
        let batch = |some: &[Entity]| some.iter().cloned().map(insert).collect();
        entities.chunks(together).map(|some| controller.write_request(batch(some))).collect()
    };
    let (first, second) = all.split_at(entries / 2);
    let batches = requests(&controller, first, BATCH);
    let started = Instant::now();
    for batch in batches {
        controller.request(batch).expect("a batch is written");
    }
    let batched = per_second(first.len(), started);

    let batches = requests(&controller, second, BATCH);
    let (count, started) = (batches.len(), Instant::now());
    assert_eq!(controller.pipelined(batches, BATCHES_UNDER_WAY), count, "every batch is written");
    let pipelined = per_second(second.len(), started);

    let requests = requests(&controller, &single, 1);
    let started = Instant::now();
    assert_eq!(controller.pipelined(requests, UNDER_WAY), SINGLE, "every entry is written");
    let one_by_one = per_second(SINGLE, started);

    let wanted =
        Entity::TableEntry(p4::TableEntry { table_id: controller.id("fdb"), ..Default::default() });
    let started = Instant::now();
    let found = controller.read(vec![wanted]).expect("entries are read").len();
    let read_s = started.elapsed().as_secs_f64();
    assert_eq!(found, entries + SINGLE);

    let started = Instant::now();
    for batch in [all, single].concat().chunks(BATCH) {
        let delete = |entity| update(p4::update::Type::Delete, entity);
        controller.write(batch.iter().cloned().map(delete).collect()).expect("a batch is deleted");
    }
    let deleted = per_second(found, started);
    println!(
        "{{\"entries\": {entries}, \"inserts_per_s_batched\": {batched:.0}, \"inserts_per_s_batches_under_way\": {pipelined:.0}, \"inserts_per_s_single\": {one_by_one:.0}, \
         \"read_s\": {read_s:.2}, \"deletes_per_s_batched\": {deleted:.0}}}"
    );
}
