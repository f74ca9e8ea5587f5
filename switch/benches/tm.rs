//! Cost of the traffic manager per packet: offer, begin and commit, with everything on (dynamic
//! thresholds, cells, congestion point, lossless group, DWRR), and the pass-through path beside it.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use wireyard_switch::config::qos::{PortLink, QosConfig};
use wireyard_switch::ports::PortNumber;
use wireyard_switch::tm::{Arrival, Offered, PortId, Tm};
use wireyard_switch::units::BitsPerSec;
use wireyard_tables::time::{Span, Time};

/// What core queues: a 64-byte descriptor.
type Descriptor = [u64; 8];

const PACKETS: u64 = 1_000;

fn manager(preset: &str, ports: usize, gbit: u32) -> Tm<Descriptor> {
    let text = format!("{{ \"preset\": \"{preset}\", \"cell\": \"96 B\" }}");
    let config: QosConfig = serde_json::from_str(&text).expect("a preset is valid");
    let rate = (gbit != 0).then(|| BitsPerSec::gbit(gbit));
    let links: Vec<PortLink> =
        (0..ports).map(|n| PortLink { number: PortNumber(n as u16), rate }).collect();
    let qos = config.resolve(&links).expect("a preset resolves");
    let mut tm = Tm::new(qos.tm);
    for port in qos.ports {
        tm.add_port(port.tm).expect("a resolved port fits");
    }
    tm
}

fn arrival(port: usize, ports: usize) -> Arrival {
    let egress = PortId(port as u16);
    let ingress = PortId(((port + 1) % ports) as u16);
    Arrival { ingress, group: 3, egress, queue: 3, bytes: 1_024, ect: true, ..Arrival::default() }
}

/// Offers a packet; false where it is refused.
fn offer(tm: &mut Tm<Descriptor>, now: Time, packet: Descriptor, arrival: &Arrival) -> bool {
    match tm.offer(now, arrival) {
        Offered::Refused(_) | Offered::Trims(_) => return false,
        Offered::Queued(slot) => tm.put(slot, packet),
        Offered::Departs(departure) => {
            black_box(departure);
        }
    }
    true
}

/// Sends everything that may leave at `now`.
fn send(tm: &mut Tm<Descriptor>, now: Time) -> u64 {
    let mut sent = 0;
    tm.advance(now);
    while let Some(port) = tm.next_ready() {
        if let Some((_, departure)) = tm.begin(now, port) {
            black_box(departure.mark);
            tm.commit(now, port, 1_024);
            sent += 1;
        }
    }
    sent
}

fn queued(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tm");
    group.throughput(Throughput::Elements(PACKETS));
    for (ports, depth) in [(2, 0), (32, 0), (32, 64)] {
        let mut tm = manager("sonic_azure", ports, 100);
        let mut now = Time::ZERO;
        for n in 0..depth * ports {
            assert!(offer(&mut tm, now, [0; 8], &arrival(n % ports, ports)), "the pool is large");
        }
        let step = Span::from_ps(90_000 / ports as u64);
        let mut port = 0;
        group.bench_function(
            BenchmarkId::new("queued", format!("{ports}ports_depth{depth}")),
            |bench| {
                bench.iter(|| {
                    let mut sent = 0;
                    for n in 0..PACKETS {
                        port = (port + 1) % ports;
                        now += step;
                        let packet = black_box([n; 8]);
                        black_box(offer(&mut tm, now, packet, &arrival(port, ports)));
                        sent += send(&mut tm, now);
                    }
                    sent
                });
            },
        );
        tm.view(now).audit().expect("every identity holds");
    }
    let mut tm = manager("plain", 32, 0);
    group.bench_function("pass_through", |bench| {
        bench.iter(|| {
            for n in 0..PACKETS {
                let packet = black_box([n; 8]);
                let arrival = arrival(n as usize % 32, 32);
                black_box(offer(&mut tm, Time::ZERO, packet, &arrival));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, queued);
criterion_main!(benches);
