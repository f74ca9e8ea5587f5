//! Decoding RoCEv2 frames of 4 KB, with their ICRC checked. Prints GB/s.
//!
//! `cargo bench -p wireyard-switch --bench decode`

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wireyard_pipeline::externs::crc::CrcEngine;
use wireyard_pipeline::ir::CrcParams;
use wireyard_switch::decode::{Dissector, Frame};
use wireyard_switch::ports::LinkType;

const PAYLOAD_BYTES: usize = 4096;

const ICRC: CrcParams = CrcParams {
    width: 32,
    poly: 0x04c1_1db7,
    init: 0xffff_ffff,
    reflect: true,
    xor_out: 0xffff_ffff,
    store_little_endian: true,
};

/// An RC WRITE Middle with a right ICRC.
fn frame() -> Vec<u8> {
    let ip_bytes = 20 + 8 + 12 + PAYLOAD_BYTES + 4;
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 2];
    frame.extend((ip_bytes as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc0, 0, 0x12, 0xb7]);
    frame.extend((ip_bytes as u16 - 20).to_be_bytes());
    frame.extend([0, 0, 0x07, 0x40, 0xff, 0xff, 0, 0, 1, 0x18, 0, 0, 0, 1]);
    frame.extend((0..PAYLOAD_BYTES).map(|n| n as u8));
    let mut masked = vec![0xff; 8];
    masked.extend(&frame[14..]);
    for at in [1, 8, 10, 11, 26, 27, 32] {
        masked[8 + at] = 0xff;
    }
    let engine = CrcEngine::new(ICRC);
    let mut run = engine.start();
    run.add(&masked);
    frame.extend((run.field_value() as u32).to_be_bytes());
    frame
}

fn decode(c: &mut Criterion) {
    let bytes = frame();
    let frame = Frame { bytes: &bytes, wire_len: bytes.len() as u32, link: LinkType::Ethernet };
    let mut dissector = Dissector::new(None).expect("the embedded program");
    let right = |dissector: &mut Dissector| {
        let decoded = dissector.decode(frame).expect("a frame of ordinary length");
        decoded.parsed.crcs().any(|crc| crc.right)
    };
    assert!(right(&mut dissector), "the ICRC of the frame is right");
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("rocev2_4k_icrc", |bench| bench.iter(|| right(&mut dissector)));
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
