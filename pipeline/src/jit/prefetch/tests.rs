//! Checks which tables are prefetched, and that the lines are those that the packet's lookup reads.

use super::*;
use crate::check::{ExternRegistry, compile};
use crate::packet::MemoryConfig;
use crate::source::{Loader, parse_program};
use crate::state::{State, StateOptions};
use std::sync::Arc;
use wireyard_tables::time::Time;
use wireyard_tables::{Entry, Match, TableId, Update};

const PROGRAM: &str = "
pipeline: fetched
headers:
  outer_t: { fields: { dst: 48, kind: 16 } }
  tag_t: { fields: { id: 16, kind: 16 } }
  inner_t: { fields: { pad: 4, flow: 20, ttl: 8, dst: 32 } }
instances: { outer: outer_t, tag: tag_t, inner: inner_t }
metadata: { x: 32 }
parser:
  start: { extract: outer, select: outer.kind, cases: { 1: tag, 2: inner }, default: accept }
  tag: { extract: tag, next: inner }
  inner: { extract: inner }
tables:
  hosts: { key: { outer.dst: exact }, actions: [nop], default: nop, size: 1048576 }
  routes: { key: { inner.dst: lpm }, actions: [nop], default: nop, size: 524288 }
  flows: { key: { std.ingress_port: exact, inner.flow: exact, inner.dst: exact }, actions: [nop], default: nop, size: 131072 }
  few: { key: { inner.dst: exact }, actions: [nop], default: nop, size: 32768 }
  computed: { key: { meta.x: exact }, actions: [nop], default: nop, size: 1048576 }
  lists: { key: { inner.dst: ternary }, actions: [nop], default: nop, size: 1048576 }
  late: { key: { outer.dst: exact }, actions: [nop], default: nop, size: 1048576 }
ingress:
  - meta.x = inner.dst + 1
  - apply: hosts
  - apply: few
  - apply: computed
  - apply: lists
  - if: inner.valid
    then: [ apply: routes, apply: flows ]
  - std.egress_port = 2
egress:
  - apply: late
deparser:
  emit: [outer, tag, inner]
";

fn program() -> Arc<Program> {
    let loader = Loader::in_memory([("fetched.yaml", PROGRAM)], &[]);
    let parsed = parse_program("fetched.yaml".as_ref(), &loader).expect("it is read");
    Arc::new(compile(&parsed, &ExternRegistry::new()).expect("it is right").program)
}

/// The lines that are prefetched for a packet without a tag, with large enough tables.
#[test]
fn what_is_prefetched_is_what_the_lookup_reads() {
    let program = program();
    let state = State::new(&program, StateOptions::default()).expect("it loads");
    let mut prefetch = Prefetch::new(&program, &Facts::new(&state));
    let table = |name: &str| {
        let at = program.tables.iter().position(|table| table.name == name).expect("a table");
        TableId(at as u32)
    };
    let names = |prefetch: &Prefetch| -> Vec<String> {
        let ids = prefetch.tables.iter().map(|fetched| fetched.table.0 as usize);
        ids.map(|id| program.tables.iter().nth(id).expect("a table").name.clone()).collect()
    };
    let mut prefetched = names(&prefetch);
    prefetched.sort();
    assert_eq!(prefetched, ["flows", "hosts", "routes"]);

    let config = MemoryConfig { chunks: 4, chunk_bytes: 2048, headroom_bytes: 128 };
    let mut memory = PacketMemory::new(config).expect("memory");
    let mut frame = vec![2, 0, 0, 0, 0, 9, 0, 2, 0xab, 0xcd, 0xef, 64, 10, 1, 2, 3];
    frame.resize(64, 0);
    let buf = memory.alloc_frame(&frame).expect("a chunk");
    let packets = [Descriptor::received(buf, 128, 64, 7, 0)];
    // An empty trie is only its root, of which nothing is prefetched.
    let route = [Match::Lpm { value: 0x0a01_0200, prefix_len: 24 }].to_vec();
    let route = Update::Insert(table("routes"), Entry::new(route, 0, vec![]));
    state.tables().batch(&[route], Time::ZERO).expect("it fits");
    let snapshot = state.tables().snapshot();
    let lines = |prefetch: &Prefetch| {
        let mut lines = Vec::new();
        prefetch.lines(&snapshot, &memory, &packets, |line| lines.push(line));
        lines.sort();
        lines
    };
    assert!(lines(&prefetch).is_empty(), "empty tables are small");
    prefetch.set_least_bytes(1);
    let of = |name: &str, values: &[u128]| {
        let view = snapshot.table(table(name)).expect("a table");
        view.prefetch_address(&view.shape().layout().pack(values))
    };
    let ip = u128::from(u32::from_be_bytes([10, 1, 2, 3]));
    let hosts = of("hosts", &[0x0200_0000_0009]).expect("a cell");
    let flows = of("flows", &[7, 0xbcdef, ip]).expect("a cell");
    let routes = of("routes", &[ip]).expect("a bucket");
    let mut expected = vec![hosts, flows, routes];
    expected.sort();
    assert_eq!(lines(&prefetch), expected);
    prefetch.set_least_bytes(0);
    assert!(names(&prefetch).contains(&"few".to_owned()), "with 0, all are");
    let [packet] = packets;
    memory.free(packet.buf.expect("the chunk"));
}
