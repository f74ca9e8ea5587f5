//! ICRC over RoCEv2 packets, beside `crc32fast` alone over as many bytes, and a CRC that only tables can
//! do beside `crc` alone. Every value is compared with a CRC computed bit by bit before anything is timed.
//!
//! Prints bytes per nanosecond and the ratio of times, ours / rival, the median over pairs of runs.
//! Run with `cargo bench -p wireyard-pipeline --bench crc`.

#![allow(missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::{Duration, Instant};
use wireyard_pipeline::externs::crc::CrcEngine;
use wireyard_pipeline::ir::CrcParams;

const ICRC: CrcParams = CrcParams {
    width: 32,
    poly: 0x04c1_1db7,
    init: 0xffff_ffff,
    reflect: true,
    xor_out: 0xffff_ffff,
    store_little_endian: true,
};

/// InfiniBand's VCRC.
const VCRC: CrcParams = CrcParams {
    width: 16,
    poly: 0x100b,
    init: 0xffff,
    reflect: true,
    xor_out: 0xffff,
    store_little_endian: false,
};

/// The CRC of a packet, as somebody else computes it.
type Rival<'r> = dyn Fn(&[u8]) -> u64 + 'r;

/// Packets of one length.
const PACKETS: usize = 64;
/// Bytes in front of the body that a switch may change and that count as ones are in the first part.
const HEADERS: usize = 60;
const PAIRS: usize = 101;

fn packets(len: usize) -> Vec<Vec<u8>> {
    let byte = |n: usize, at: usize| (n * 31 + at * 7 + at / 251) as u8;
    (0..PACKETS).map(|n| (0..len).map(|at| byte(n, at)).collect()).collect()
}

/// As the engines do it: ones, masked headers, body.
fn ours(engine: &CrcEngine, packet: &[u8]) -> u64 {
    let mut run = engine.start();
    let (headers, body) = packet.split_at(HEADERS.min(packet.len()));
    run.add(headers);
    run.add(body);
    run.field_value()
}

/// The definition, one bit at a time.
fn bitwise(p: CrcParams, bytes: &[u8]) -> u64 {
    let top = 1u64 << (p.width - 1);
    let ones = top | (top - 1);
    let mut register = p.init;
    for byte in bytes {
        for bit in 0..8 {
            let feedback = (register & top != 0) ^ (byte >> bit & 1 == 1);
            register = register << 1 & ones ^ if feedback { p.poly } else { 0 };
        }
    }
    let value = register.reverse_bits() >> (64 - p.width) ^ p.xor_out;
    let value = if p.store_little_endian { value.swap_bytes() >> (64 - p.width) } else { value };
    value & ones
}

fn time(packets: &[Vec<u8>], crc: &mut dyn FnMut(&[u8]) -> u64) -> Duration {
    let start = Instant::now();
    for packet in packets {
        black_box(crc(packet));
    }
    start.elapsed()
}

fn duel(c: &mut Criterion, (name, params): (&str, CrcParams), rival: (&str, &Rival<'_>)) {
    let engine = CrcEngine::new(params);
    let mut group = c.benchmark_group(name);
    for len in [64, 256, 1024, 4096] {
        let packets = packets(len);
        for packet in &packets {
            let expected = bitwise(params, packet);
            assert_eq!(ours(&engine, packet), expected, "{name}, {len} bytes");
            assert_eq!(rival.1(packet), expected, "{}, {len} bytes", rival.0);
        }
        let mut ratios = Vec::new();
        let mut best = Duration::MAX;
        for _ in 0..PAIRS {
            let us = time(&packets, &mut |packet| ours(&engine, packet));
            let them = time(&packets, &mut |packet| rival.1(packet));
            best = best.min(us);
            ratios.push(us.as_secs_f64() / them.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        println!(
            "RATIO {name} {len} bytes: ours / {} = {:.2}; best {:.1} GB/s",
            rival.0,
            ratios[PAIRS / 2],
            (len * PACKETS) as f64 / best.as_nanos().max(1) as f64,
        );
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(len.to_string(), |b| b.iter(|| ours(&engine, black_box(&packets[0]))));
    }
    group.finish();
}

fn crcs(c: &mut Criterion) {
    let fast = |packet: &[u8]| u64::from(crc32fast::hash(packet).swap_bytes());
    duel(c, ("icrc", ICRC), ("crc32fast", &fast));
    static ALGORITHM: crc::Algorithm<u16> = crc::Algorithm {
        width: 16,
        poly: 0x100b,
        init: 0xffff,
        refin: true,
        refout: true,
        xorout: 0xffff,
        check: 0,
        residue: 0,
    };
    let table = crc::Crc::<u16, crc::Table<16>>::new(&ALGORITHM);
    let by_table = move |packet: &[u8]| u64::from(table.checksum(packet));
    duel(c, ("vcrc", VCRC), ("crc", &by_table));
}

criterion_group!(benches, crcs);
criterion_main!(benches);
