//! Telemetry in `each_hop`, and `hpcc.yaml` beside algorithm 1 of its paper, written down in floats.

use crate::roce::telemetry::{HOPS_MAX, TELEMETRY_BYTES, TelemetryBytes};

use super::*;

/// Code of 100 Gbit/s, and of 25 Gbit/s.
const FAST: u64 = 10;
const SLOW: u64 = 6;

/// Code, nanoseconds, units of 128 bytes sent and of 80 bytes in the queue.
type Record = (u64, u64, u64, u64);

fn header(path: u8, hops: &[Record]) -> TelemetryBytes {
    let mut bytes = [0; TELEMETRY_BYTES];
    bytes[..2].copy_from_slice(&[(hops.len() as u8) << 4, path]);
    for (place, (code, time, sent, queue)) in bytes[2..].chunks_mut(8).zip(hops) {
        let word = code << 60 | (time & 0xff_ffff) << 36 | (sent & 0xf_ffff) << 16 | queue;
        place.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

fn with_telemetry(bytes: &TelemetryBytes, acked: u64, sent: u64) -> AckSample<'_> {
    AckSample { telemetry: Some(bytes), ..ack(10, 1, false, acked, sent) }
}

#[test]
fn each_hop_has_its_own_telemetry_and_state() {
    let text = "
rate_control: t
notification: { telemetry: hpcc }
state: { sum: 40, seen: 8, queue: { bits: 30, per_hop: true, start: 7 }, before: 40, rates: 50 }
on:
  ack:
    - sum = 0
    - before = 0
    - rates = 0
    - each_hop:
      - before = before + queue
      - queue = hop.queue_bytes
      - sum = sum + queue + hop.tx_bytes
      - rates = rates + hop.rate
    - seen = ack.hops
    - std.rate = 5
";
    let mut machine = machine(text, 1_000_000);
    let two = header(1, &[(FAST, 5, 3, 2), (SLOW, 6, 4, 1)]);
    machine.on_ack(us(1), &with_telemetry(&two, 1, 1));
    let value = |machine: &Machine, name: &str| machine.value(name).unwrap();
    assert_eq!(value(&machine, "sum"), 3.0 * 80.0 + 7.0 * 128.0);
    assert_eq!((value(&machine, "seen"), value(&machine, "before")), (2.0, 14.0));
    assert_eq!(value(&machine, "rates"), 125e9);
    let all = header(1, &[(FAST, 5, 0, 10); HOPS_MAX]);
    machine.on_ack(us(2), &with_telemetry(&all, 1, 1));
    assert_eq!((value(&machine, "seen"), value(&machine, "before")), (5.0, 240.0 + 21.0));
    // A link without a rate ends the usable hops; without telemetry there are none.
    let unknown = header(1, &[(FAST, 5, 0, 1), (0, 5, 0, 1), (FAST, 5, 0, 1)]);
    machine.on_ack(us(3), &with_telemetry(&unknown, 1, 1));
    assert_eq!((value(&machine, "seen"), value(&machine, "sum")), (1.0, 80.0));
    machine.on_ack(us(4), &ack(10, 1, false, 2, 2));
    assert_eq!((value(&machine, "seen"), value(&machine, "sum")), (0.0, 0.0));
}

#[test]
fn rates_of_links_are_those_of_a_slower_run() {
    let text = "rate_control: t\nnotification: { telemetry: hpcc }\nstate: { rate: 50 }\n\
                on: { ack: [ { each_hop: [ rate = hop.rate ] }, std.rate = 5 ] }\n";
    let program = Arc::new(Program::parse("test.yaml", text).unwrap());
    let slow = Sender { dilation: Dilation::new(100).unwrap(), ..sender(1_000_000) };
    let mut machine = Arc::new(Instance::new(&program, &slow, &[]).unwrap()).start();
    machine.on_ack(us(1), &with_telemetry(&header(1, &[(FAST, 0, 0, 0)]), 1, 1));
    assert_eq!(machine.value("rate"), Some(1e9));
}

#[test]
fn telemetry_out_of_its_place_is_refused() {
    let on = |notification: &str, on: &str| {
        refusal(&format!(
            "rate_control: t\n{notification}state: {{ x: {{ bits: 8, per_hop: true }} }}\non: {{ {on} }}\n"
        ))
    };
    let asks = "notification: { telemetry: hpcc }\n";
    let each = "{ each_hop: [ x = 1 ] }, std.rate = 5";
    for (said, found) in [
        ("needs `telemetry: hpcc`", on("", &format!("ack: [ {each} ]"))),
        ("known in `on: ack`", on(asks, &format!("cnp: [ {each} ]"))),
        (
            "`each_hop` in itself",
            on(asks, "ack: [ { each_hop: [ { each_hop: [ x = 1 ] } ] }, std.rate = 5 ]"),
        ),
        ("`x` is known in `each_hop`", on(asks, "ack: [ x = 1, std.rate = 5 ]")),
        ("`hop.rate` is known in `each_hop`", on(asks, "ack: [ std.rate = hop.rate ]")),
        (
            "`hop.rate` cannot be set",
            on(asks, "ack: [ { each_hop: [ hop.rate = 5 ] }, std.rate = 5 ]"),
        ),
        ("each_hop", on(asks, "ack: [ { each: [ x = 1 ] }, std.rate = 5 ]")),
    ] {
        assert!(found.contains(said), "{said}: {found}");
    }
}

/// Algorithm 1, line by line.
struct Paper {
    reference: f64,
    window: f64,
    utilisation: f64,
    stage: u32,
    last_update: u64,
    links: Option<Vec<(f64, f64, f64)>>,
}

const BASE_RTT: f64 = 13e-6;
const BDP: f64 = 100e9 * BASE_RTT / 8.0;

impl Paper {
    fn measure(&mut self, hops: &[(f64, f64, f64, f64)]) {
        let Some(links) = &self.links else { return };
        let (mut most, mut tau) = (0.0, 0.0);
        for ((rate, time, sent, queue), (time0, sent0, queue0)) in hops.iter().zip(links) {
            let tx_rate = (sent - sent0) * 8.0 / (time - time0);
            let load = queue.min(*queue0) * 8.0 / (rate * BASE_RTT) + tx_rate / rate;
            if load > most {
                (most, tau) = (load, time - time0);
            }
        }
        let weight = f64::min(tau, BASE_RTT) / BASE_RTT;
        self.utilisation = (1.0 - weight) * self.utilisation + weight * most;
    }

    fn ack(&mut self, hops: &[(f64, f64, f64, f64)], acked: u64, sent: u64) {
        self.measure(hops);
        if self.links.is_some() {
            let multiplies = self.utilisation >= 0.95 || self.stage >= 5;
            self.window = match multiplies {
                true => self.reference / (self.utilisation / 0.95) + 80.0,
                false => self.reference + 80.0,
            };
            self.window = self.window.min(BDP);
            if acked > self.last_update {
                self.stage = if multiplies { 0 } else { self.stage + 1 };
                (self.reference, self.last_update) = (self.window, sent);
            }
        }
        self.links = Some(hops.iter().map(|&(_, time, sent, queue)| (time, sent, queue)).collect());
    }
}

/// Two hops, 40,000 acknowledgements: counters of time and bytes wrap several times, loads go above and below the
/// target.
#[test]
fn hpcc_is_algorithm_1_of_its_paper() {
    let mut hpcc = machine(library("hpcc"), 100_000_000_000);
    assert_eq!(hpcc.window_bytes(), Some(BDP as u64));
    let mut paper = Paper {
        reference: BDP,
        window: BDP,
        utilisation: 1.0,
        stage: 0,
        last_update: 0,
        links: None,
    };
    let mut random = 1_u64;
    let mut below = |most: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % most
    };
    let (mut time, mut sent) = ([1_000_u64, 5_000], [7_u64, 900]);
    let (mut stages, mut smallest) = (0, BDP);
    for n in 1..40_000_u64 {
        let busy = 60 + 60 * (n / 500 % 2);
        let mut records = Vec::new();
        for (hop, code) in [FAST, SLOW].into_iter().enumerate() {
            let step = 400 + below(2_000);
            // Nanoseconds at 100 or 25 Gbit/s, in units of 128 bytes.
            let units =
                step * [100, 25][hop] * (busy - 30 * hop as u64 + below(20)) / 100 / 8 / 128;
            (time[hop], sent[hop]) = (time[hop] + step, sent[hop] + units);
            records.push((code, time[hop], sent[hop], below(30) * (n / 500 % 2)));
        }
        let (acked, under_way) = (n, 10 + below(40));
        let floats: Vec<_> = records
            .iter()
            .map(|&(code, time, sent, queue)| {
                let rate = if code == FAST { 100e9 } else { 25e9 };
                (rate, time as f64 * 1e-9, sent as f64 * 128.0, queue as f64 * 80.0)
            })
            .collect();
        hpcc.on_ack(us(n), &with_telemetry(&header(9, &records), acked, acked + under_way));
        paper.ack(&floats, acked, acked + under_way);
        let window = hpcc.window_bytes().unwrap() as f64;
        let utilisation = hpcc.value("utilisation").unwrap();
        assert!(
            (utilisation - paper.utilisation).abs() < 1e-5,
            "{n}: {utilisation} {}",
            paper.utilisation
        );
        assert!((window - paper.window).abs() < 2.0, "{n}: {window}, not {}", paper.window);
        stages = stages.max(paper.stage);
        smallest = smallest.min(window);
    }
    assert!(time[0] > 2 << 24 && sent[0] > 2 << 20, "the counters began anew");
    assert_eq!(stages, 5, "additive increases were followed by a multiplicative one");
    assert!(smallest < BDP / 2.0);
}

/// Counters of other switches are independent of those of these ones.
#[test]
fn hpcc_measures_anew_on_another_path() {
    let mut hpcc = machine(library("hpcc"), 100_000_000_000);
    let start = hpcc.window_bytes();
    hpcc.on_ack(us(1), &with_telemetry(&header(1, &[(FAST, 0, 0, 900)]), 1, 9));
    // Twice the rate of the link, and a queue.
    hpcc.on_ack(us(2), &with_telemetry(&header(2, &[(FAST, 13_000, 2_600, 900)]), 2, 9));
    assert_eq!((hpcc.window_bytes(), hpcc.value("utilisation")), (start, Some(1.0)));
    hpcc.on_ack(us(3), &with_telemetry(&header(2, &[(FAST, 26_000, 5_200, 900)]), 3, 9));
    let window = hpcc.window_bytes().unwrap() as f64;
    let load = 2_600.0 * 128.0 / BDP + 72_000.0 / BDP;
    assert!((window - (BDP / (load / 0.95) + 80.0)).abs() < 3.0, "{window} {load}");
}
