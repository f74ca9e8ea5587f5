//! Lookups and loads, each beside a rival in the same run. Before anything is timed the two must
//! give the same answers. `cargo bench -p wireyard-tables` prints criterion's figures and, per pair,
//! the ratio of the best times: ours / rival, less than 1 is faster than the rival.
//!
//! Keys are visited in random order, so that with a million entries every lookup misses the caches.

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use hashbrown::HashMap;
use wireyard_tables::time::Time;
use wireyard_tables::{
    ActionSpec, Entry, FieldSpec, Match, MatchKind, Options, Snapshot, TableId, TableSpec, Tables,
    Update,
};

const T0: TableId = TableId(0);
/// Lookups in one timed pass.
const PASS: usize = 1 << 13;

/// SplitMix64: the same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

fn build(fields: &[(u32, MatchKind)], entries: Vec<Entry>) -> Tables {
    let field = |&(bits, kind): &(u32, MatchKind)| FieldSpec { name: "f".into(), bits, kind };
    let fields = fields.iter().map(field).collect();
    let actions = [(0, 0), (1, 1)]
        .map(|(id, data_words)| ActionSpec { id, name: format!("a{id}"), data_words })
        .into();
    let capacity = (entries.len() as u32).next_power_of_two();
    let spec = TableSpec { actions, ..TableSpec::new("t", fields, capacity) };
    let tables = Tables::new(&[spec], &[], Options::default()).expect("a valid table");
    let updates: Vec<Update> = entries.into_iter().map(|e| Update::Insert(T0, e)).collect();
    let start = Instant::now();
    tables.batch(&updates, Time::ZERO).expect("valid entries");
    let rate = updates.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("  load of {} entries: {:?}, {rate:.2} M entries/s", updates.len(), start.elapsed());
    tables
}

/// What a lookup is worth to the comparison: the data word of the hit, or `u64::MAX`.
fn ours(snapshot: &Snapshot, key: &[u64]) -> u64 {
    let view = snapshot.table(T0).expect("there is a table");
    view.lookup(key).map_or(u64::MAX, |hit| hit.data[0])
}

/// Times two ways to answer the same keys; `rival` may be given fewer keys a pass if it is slow.
fn duel<K>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    size: &str,
    keys: &[K],
    us: impl Fn(&K) -> u64,
    (rival_name, rival): (&str, &dyn Fn(&K) -> u64),
) {
    for key in keys {
        assert_eq!(us(key), rival(key), "{size}: results differ");
    }
    let best = |name: String, lookup: &dyn Fn(&[K]) -> u64| {
        let best_ns = Cell::new(f64::INFINITY);
        group.throughput(Throughput::Elements(1));
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|lookups| {
                let (mut left, start) = (lookups as usize, Instant::now());
                while left > 0 {
                    let n = left.min(keys.len());
                    black_box(lookup(&keys[..n]));
                    left -= n;
                }
                let took = start.elapsed();
                if lookups >= 1000 {
                    best_ns.set(best_ns.get().min(took.as_nanos() as f64 / lookups as f64));
                }
                took
            });
        });
        best_ns.get()
    };
    let mut best = best;
    let ours_ns = best(format!("{size}/wireyard"), &|keys| {
        keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(us(key)))
    });
    let rival_ns = best(format!("{size}/{rival_name}"), &|keys| {
        keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(rival(key)))
    });
    if ours_ns.is_infinite() || rival_ns.is_infinite() {
        return;
    }
    println!(
        "RATIO {size}: {ours_ns:.1} ns / {rival_name} {rival_ns:.1} ns = {:.2}",
        ours_ns / rival_ns
    );
}

fn name(n: usize) -> &'static str {
    match n {
        1_000 => "1k",
        10_000 => "10k",
        100_000 => "100k",
        200_000 => "200k",
        _ => "1M",
    }
}

/// Nine keys of ten are hits.
fn visit<K: Clone>(
    random: &mut Random,
    present: &[K],
    mut absent: impl FnMut(&mut Random) -> K,
) -> Vec<K> {
    let count = PASS.max(present.len().min(1 << 18));
    (0..count)
        .map(|_| match random.below(10) {
            0 => absent(random),
            _ => present[random.below(present.len())].clone(),
        })
        .collect()
}

fn exact(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("exact");
    for n in [1_000, 10_000, 1_000_000] {
        let mut random = Random(n as u64);
        let macs: Vec<u64> = (0..n).map(|_| random.next() >> 16).collect();
        let mut rival: HashMap<u64, u64, foldhash::fast::FixedState> = HashMap::default();
        let mut entries = Vec::new();
        for (port, &mac) in (0..).zip(&macs) {
            if rival.insert(mac, port).is_none() {
                entries.push(Entry::new(vec![Match::Exact(mac.into())], 1, vec![port]));
            }
        }
        let tables = build(&[(48, MatchKind::Exact)], entries);
        let snapshot = tables.snapshot();
        let keys = visit(&mut random, &macs, |r| r.next() >> 16);
        let lookup = |key: &u64| rival.get(key).copied().unwrap_or(u64::MAX);
        let us = |key: &u64| ours(&snapshot, &[*key]);
        duel(&mut group, &format!("48bit/{}", name(n)), &keys, us, ("hashbrown+foldhash", &lookup));
    }
    for n in [1_000, 1_000_000] {
        let mut random = Random(n as u64);
        let pairs: Vec<[u64; 2]> = (0..n).map(|_| [random.next(), random.next()]).collect();
        let mut rival: HashMap<[u64; 2], u64, foldhash::fast::FixedState> = HashMap::default();
        let wide = |p: &[u64; 2]| u128::from(p[0]) | u128::from(p[1]) << 64;
        let entry = |(i, p)| Entry::new(vec![Match::Exact(wide(p))], 1, vec![i]);
        let entries = (0..).zip(&pairs).map(entry).collect();
        rival.extend(pairs.iter().copied().zip(0..));
        let tables = build(&[(128, MatchKind::Exact)], entries);
        let snapshot = tables.snapshot();
        let keys = visit(&mut random, &pairs, |r| [r.next(), r.next()]);
        let lookup = |key: &[u64; 2]| rival.get(key).copied().unwrap_or(u64::MAX);
        let us = |key: &[u64; 2]| ours(&snapshot, key);
        duel(
            &mut group,
            &format!("128bit/{}", name(n)),
            &keys,
            us,
            ("hashbrown+foldhash", &lookup),
        );
    }
    group.finish();
}

/// Prefix lengths as in the Internet: more than half /24, the rest mostly /16 to /23.
fn ipv4_routes(n: usize, random: &mut Random) -> Vec<(u32, u32)> {
    let mut routes = std::collections::BTreeSet::new();
    while routes.len() < n {
        let len = match random.below(100) {
            0..60 => 24,
            60..95 => 16 + random.below(8) as u32,
            95..98 => 8 + random.below(8) as u32,
            _ => 25 + random.below(8) as u32,
        };
        // Allocations are dense: three quarters of the routes are in a quarter of the space.
        let area =
            if random.below(4) == 0 { random.next() as u32 } else { random.next() as u32 >> 2 };
        routes.insert((area & (u32::MAX << (32 - len)), len));
    }
    routes.into_iter().collect()
}

/// DIR-24-8 (Gupta, Lin, McKeown, INFOCOM 1998): one load for up to 24 bits, a second for more.
struct Dir24 {
    first: Vec<u32>,
    second: Vec<u32>,
    /// By route: what the lookup is for.
    ports: Vec<u64>,
}

impl Dir24 {
    fn new(routes: &[(u32, u32)]) -> Dir24 {
        let mut dir = Dir24 {
            first: vec![0; 1 << 24],
            second: Vec::new(),
            ports: (0..routes.len() as u64).collect(),
        };
        let mut order: Vec<usize> = (0..routes.len()).collect();
        order.sort_by_key(|&i| routes[i].1);
        for i in order {
            let ((value, len), leaf) = (routes[i], i as u32 + 1);
            let at = (value >> 8) as usize;
            if len <= 24 {
                dir.first[at..at + (1 << (24 - len))].fill(leaf);
                continue;
            }
            if dir.first[at] & 1 << 31 == 0 {
                let inherited = dir.first[at];
                dir.first[at] = 1 << 31 | (dir.second.len() >> 8) as u32;
                dir.second.extend([inherited; 256]);
            }
            let base = ((dir.first[at] & !(1 << 31)) as usize) << 8;
            let low = base + (value & 255) as usize;
            dir.second[low..low + (1 << (32 - len))].fill(leaf);
        }
        dir
    }

    fn lookup(&self, address: u32) -> u64 {
        let mut leaf = self.first[(address >> 8) as usize];
        if leaf & 1 << 31 != 0 {
            leaf = self.second[(((leaf & !(1 << 31)) << 8) | (address & 255)) as usize];
        }
        if leaf == 0 { u64::MAX } else { self.ports[leaf as usize - 1] }
    }
}

fn lpm_v4(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lpm-ipv4");
    for n in [1_000, 10_000, 200_000, 1_000_000] {
        let mut random = Random(n as u64);
        let routes = ipv4_routes(n, &mut random);
        let rival = Dir24::new(&routes);
        let entry = |(port, &(value, prefix_len)): (u64, &(u32, u32))| {
            Entry::new(vec![Match::Lpm { value: value.into(), prefix_len }], 1, vec![port])
        };
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|i| order.swap(i, random.below(i + 1)));
        let entries = order.iter().map(|&i| entry((i as u64, &routes[i]))).collect();
        let tables = build(&[(32, MatchKind::Lpm)], entries);
        let snapshot = tables.snapshot();
        let mut inside = Random(1);
        let addresses: Vec<u64> = routes
            .iter()
            .map(|&(value, len)| {
                u64::from(value | (inside.next() as u32 & !(u32::MAX << (32 - len))))
            })
            .collect();
        let keys = visit(&mut random, &addresses, |r| r.next() >> 32);
        let lookup = |key: &u64| rival.lookup(*key as u32);
        let us = |key: &u64| ours(&snapshot, &[*key]);
        duel(&mut group, name(n), &keys, us, ("DIR-24-8", &lookup));
    }
    group.finish();
}

/// Longest prefix by one hash probe per length in use, longest first.
struct HashPerLength {
    maps: Vec<(u32, HashMap<u128, u64, foldhash::fast::FixedState>)>,
}

impl HashPerLength {
    fn lookup(&self, address: u128) -> u64 {
        let find =
            |(len, map): &(u32, HashMap<_, u64, _>)| map.get(&(address & mask6(*len))).copied();
        self.maps.iter().find_map(find).unwrap_or(u64::MAX)
    }
}

fn mask6(len: u32) -> u128 {
    u128::MAX << (128 - len)
}

fn lpm_v6(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lpm-ipv6");
    for n in [10_000, 200_000] {
        let mut random = Random(n as u64);
        let mut routes = std::collections::BTreeMap::new();
        while routes.len() < n {
            // 2000::/3 with clustered registries; half /48, a third /32 to /47, some longer.
            let len = match random.below(100) {
                0..50 => 48,
                50..60 => 32,
                60..95 => 33 + random.below(15) as u32,
                _ => 49 + random.below(16) as u32,
            };
            let registry = u128::from(0x2000 + random.below(24) as u32 * 16) << 112;
            let site = u128::from(random.below(20_000) as u32) << 96;
            let rest = u128::from(random.next()) << 32;
            routes.insert(((registry | site | rest) & mask6(len), len), routes.len() as u64);
        }
        let mut rival = HashPerLength { maps: Vec::new() };
        for len in (1..=128).rev() {
            let of_len = routes.iter().filter(|((_, l), _)| *l == len);
            let map: HashMap<_, _, _> = of_len.map(|((value, _), port)| (*value, *port)).collect();
            if !map.is_empty() {
                rival.maps.push((len, map));
            }
        }
        let entry = |(&(value, prefix_len), &port): (&(u128, u32), &u64)| {
            Entry::new(vec![Match::Lpm { value, prefix_len }], 1, vec![port])
        };
        let tables = build(&[(128, MatchKind::Lpm)], routes.iter().map(entry).collect());
        let snapshot = tables.snapshot();
        let mut inside = Random(1);
        let mut wide = || u128::from(inside.next()) << 64 | u128::from(inside.next());
        let addresses: Vec<u128> =
            routes.keys().map(|(value, len)| value | (wide() & !mask6(*len))).collect();
        let absent = |r: &mut Random| u128::from(r.next()) << 64 | 0x2 << 124;
        let keys = visit(&mut random, &addresses, absent);
        let lookup = |key: &u128| rival.lookup(*key);
        let us = |key: &u128| ours(&snapshot, &[*key as u64, (*key >> 64) as u64]);
        duel(&mut group, name(n), &keys, us, ("hash per length", &lookup));
    }
    group.finish();
}

/// One rule of an access list over source, destination, protocol and two ports.
#[derive(Clone)]
struct Rule {
    addresses: [(u32, u32); 2],
    protocol: Option<u8>,
    ports: [(u16, u16); 2],
}

fn rules(n: usize, random: &mut Random) -> Vec<Rule> {
    let prefix = |random: &mut Random| {
        let len = [0, 8, 16, 24, 24, 28, 32, 32][random.below(8)];
        let mask = if len == 0 { 0 } else { u32::MAX << (32 - len) };
        (random.next() as u32 & mask, mask)
    };
    let port = |random: &mut Random| match random.below(6) {
        0 | 1 => (0, u16::MAX),
        2 => (1024, u16::MAX),
        3 => {
            let low = random.below(60_000) as u16;
            (low, low + random.below(5_000) as u16)
        }
        _ => {
            let port = [22, 53, 80, 123, 179, 443, 4791, 8080][random.below(8)];
            (port, port)
        }
    };
    let mut rules: Vec<Rule> = (0..n)
        .map(|_| Rule {
            addresses: [prefix(random), prefix(random)],
            protocol: [None, Some(6), Some(17)][random.below(3)],
            ports: [port(random), port(random)],
        })
        .collect();
    // As people write them: the specific before the general, or the general would hide it.
    let free_ports = |rule: &Rule| {
        rule.ports.iter().map(|(lo, hi)| (hi - lo).checked_ilog2().map_or(0, |bits| bits + 1)).sum()
    };
    let free = |rule: &Rule| -> u32 {
        let addresses: u32 = rule.addresses.iter().map(|(_, mask)| mask.count_zeros()).sum();
        let ports: u32 = free_ports(rule);
        addresses + ports + if rule.protocol.is_none() { 8 } else { 0 }
    };
    rules.sort_by_key(free);
    rules
}

fn ternary(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ternary");
    for n in [1_000, 10_000, 100_000] {
        let mut random = Random(n as u64);
        let rules = rules(n, &mut random);
        let entry = |(i, rule): (usize, &Rule)| {
            let address = |(value, mask): (u32, u32)| Match::Ternary {
                value: value.into(),
                mask: mask.into(),
            };
            let range = |(lo, hi): (u16, u16)| Match::Range { lo: lo.into(), hi: hi.into() };
            let matches = vec![
                address(rule.addresses[0]),
                address(rule.addresses[1]),
                Match::Optional(rule.protocol.map(u128::from)),
                range(rule.ports[0]),
                range(rule.ports[1]),
            ];
            let priority = (n - i) as u32;
            Entry { priority, ..Entry::new(matches, 1, vec![i as u64]) }
        };
        use MatchKind::{Optional, Range, Ternary};
        let fields = [(32, Ternary), (32, Ternary), (8, Optional), (16, Range), (16, Range)];
        // Rules that repeat an earlier one can never be hit; the priorities make them distinct.
        let tables = build(&fields, rules.iter().enumerate().map(entry).collect());
        let snapshot = tables.snapshot();
        let mut inside = Random(1);
        let mut packet = |rule: &Rule| {
            let mut address = |(value, mask): (u32, u32)| value | (inside.next() as u32 & !mask);
            let addresses = rule.addresses.map(&mut address);
            let mut port = |(lo, hi): (u16, u16)| lo + inside.below((hi - lo) as usize + 1) as u16;
            let ports = rule.ports.map(&mut port);
            let low = u64::from(addresses[0]) | u64::from(addresses[1]) << 32;
            let protocol = u64::from(rule.protocol.unwrap_or(6));
            [low, protocol | u64::from(ports[0]) << 8 | u64::from(ports[1]) << 24]
        };
        let packets: Vec<[u64; 2]> = rules.iter().map(&mut packet).collect();
        let absent = |r: &mut Random| [r.next(), r.next() & 0xff_ffff_ffff];
        let mut keys = visit(&mut random, &packets, absent);
        keys.truncate(if n > 10_000 { 500 } else { 2_000 });
        let matches = |rule: &Rule, key: &[u64; 2]| {
            let addresses = [key[0] as u32, (key[0] >> 32) as u32];
            let ports = [(key[1] >> 8) as u16, (key[1] >> 24) as u16];
            (0..2).all(|i| {
                addresses[i] & rule.addresses[i].1 == rule.addresses[i].0
                    && (rule.ports[i].0..=rule.ports[i].1).contains(&ports[i])
            }) && rule.protocol.is_none_or(|protocol| u64::from(protocol) == key[1] & 0xff)
        };
        let lookup = |key: &[u64; 2]| {
            rules.iter().position(|rule| matches(rule, key)).map_or(u64::MAX, |i| i as u64)
        };
        let us = |key: &[u64; 2]| ours(&snapshot, key);
        duel(&mut group, name(n), &keys, us, ("linear scan", &lookup));
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .configure_from_args();
    // A filter that names one group spares building the tables of the others.
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    type Run = fn(&mut Criterion);
    let groups: [(&str, Run); 4] =
        [("exact", exact), ("lpm-ipv4", lpm_v4), ("lpm-ipv6", lpm_v6), ("ternary", ternary)];
    let named = groups.iter().any(|(name, _)| filter.starts_with(name));
    for (_, run) in groups.iter().filter(|(name, _)| !named || filter.starts_with(name)) {
        run(&mut criterion);
    }
    criterion.final_summary();
}
