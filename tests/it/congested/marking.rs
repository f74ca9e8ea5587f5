//! The open-loop marking test of the SONiC plan on veth: PFC stops a port, packets go in, the pause ends, CE
//! by position.
//!
//! A frame of a class that is not paused follows the packets on the same way; when it has overtaken them, all of them wait.
//! A round in which one left before is not counted: the machine was too busy to keep the pause fresh.

use std::time::{Duration, Instant};

use wireyard_tests::live::Switch;

use super::{counters, dropped, queue, receive_until};
use crate::queues::marking::{Curve, DCQCN, agrees};
use crate::queues::pauses::pfc;
use crate::queues::{frame, is_ce};
use crate::rig::{Wire, private_network, veth};

const PROGRAM: &str = "programs/rocev2_lossless";
/// DSCP of the lossless class, whose packets may be marked, and of the class that no pause stops.
const LOSSLESS: u8 = 26;
const OTHER: u8 = 0;
/// Packets sent before the hosts look again.
const CHUNK: usize = 64;
const ROUNDS: u64 = 50;

/// A switch with two hosts; the port to the second has a rate and a marking curve.
struct Bench<'a> {
    curve: &'a Curve,
    /// How long the longest pause stops the port.
    longest_pause: Duration,
    host1: Wire,
    host2: Wire,
    paused_at: Instant,
    probes: u32,
}

/// One packet of the lossless class: its PSN, and whether it was marked.
fn lossless(bytes: &[u8]) -> Option<(u32, bool)> {
    (bytes[15] >> 2 == LOSSLESS)
        .then(|| (u32::from_be_bytes([0, bytes[51], bytes[52], bytes[53]]), is_ce(bytes)))
}

impl Bench<'_> {
    /// Stops the class, or keeps it stopped.
    fn pause(&mut self) {
        self.paused_at = Instant::now();
        self.host2.send(&[pfc(3, u16::MAX).to_vec()]);
    }

    /// Sends a frame that nothing stops from one host to the other, and waits for it. Returns packets of the lossless class
    /// that came with it.
    fn probe(&mut self, to_second: bool) -> usize {
        self.probes += 1;
        let number = self.probes;
        let (from, to, near, far) = match to_second {
            true => (1, 2, &mut self.host1, &mut self.host2),
            false => (2, 1, &mut self.host2, &mut self.host1),
        };
        near.send(&[frame(from, to, OTHER, 0, number, 100)]);
        let mut others = 0;
        receive_until(far, |bytes| {
            others += usize::from(lossless(&bytes).is_some());
            bytes[15] >> 2 == OTHER && bytes[50..54] == number.to_be_bytes()
        });
        others
    }

    /// Packets in while the port is stopped; marks by position when it sends again, or nothing if it sent before.
    fn round(&mut self) -> Option<Vec<bool>> {
        self.pause();
        // What follows the pause on its way shows that the switch has obeyed it.
        let mut early = self.probe(false);
        let psns: Vec<u32> = (0..self.curve.packets as u32).collect();
        for chunk in psns.chunks(CHUNK) {
            if self.paused_at.elapsed() > self.longest_pause / 4 {
                self.pause();
            }
            let bytes = self.curve.bytes;
            let packet = |psn: &u32| frame(1, 2, LOSSLESS, 2, *psn, bytes);
            self.host1.send(&chunk.iter().map(packet).collect::<Vec<_>>());
            early += self.probe(true);
        }
        self.host2.send(&[pfc(3, 0).to_vec()]);
        let (mut marks, count) = (Vec::new(), self.curve.packets - early);
        receive_until(&mut self.host2, |bytes| {
            if let Some((psn, mark)) = lossless(&bytes) {
                assert_eq!(psn as usize, early + marks.len(), "in order, none lost");
                marks.push(mark);
            }
            marks.len() == count
        });
        (early == 0).then_some(marks)
    }
}

/// Fifty rounds through ports of one kind; `rate_mbit` lets the longest pause last long enough to fill the queue.
fn marks_follow_the_curve(test: &str, kind: &str, curve: &Curve, rate_mbit: u64) {
    let Some(_network) = private_network(test) else { return };
    veth("sw1", "host1");
    veth("sw2", "host2");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("switch.yaml");
    let text = format!(
        "ports: {{ 1: {{ rate: 10Gbps }}, 2: {{ rate: {rate_mbit}Mbps }} }}\nqos:\n  preset: onyx_roce\n  wred_profiles: {{ ROCE: {{ \
         green: {{ kmin: {} B, kmax: {} B, pmax: {} % }} }} }}\n",
        curve.kmin, curve.kmax, curve.pmax_percent
    );
    std::fs::write(&config, text).unwrap();
    let (one, two) = (format!("1={kind}:sw1"), format!("2={kind}:sw2"));
    let config = config.to_str().unwrap();
    let switch =
        Switch::start(&[PROGRAM, "--config", config, "--port", &one, "--port", &two, "--json"]);
    let longest_pause = Duration::from_nanos(u64::from(u16::MAX) * 512 * 1000 / rate_mbit);
    let (host1, host2) = (Wire::open("raw:host1"), Wire::open("raw:host2"));
    let paused_at = Instant::now();
    let mut bench = Bench { curve, longest_pause, host1, host2, paused_at, probes: 0 };
    let mut rounds = Vec::new();
    let mut spoilt = 0;
    while rounds.len() < ROUNDS as usize {
        match bench.round() {
            Some(marks) => rounds.push(marks),
            None => spoilt += 1,
        }
        assert!(spoilt < ROUNDS, "this machine does not keep a port stopped for so long");
    }
    let report = counters(&switch.end("INT"));
    judge(curve, &rounds);
    let counted = queue(&report, 1, 3);
    eprintln!("{test}: {spoilt} rounds spoilt; {counted}");
    if spoilt == 0 {
        let marks = rounds.iter().flatten().filter(|mark| **mark).count();
        assert_eq!(counted["marked"], marks, "{counted}");
        assert_eq!(counted["eligible"], ROUNDS * curve.packets as u64, "{counted}");
        assert_eq!(counted["peak_bytes"], curve.packets * curve.bytes, "{counted}");
    }
    assert_eq!(dropped(&report, None), 0, "{report:#}");
}

fn judge(curve: &Curve, rounds: &[Vec<bool>]) {
    let totals: Vec<u32> =
        rounds.iter().map(|marks| marks.iter().map(|mark| u32::from(*mark)).sum()).collect();
    let mean = agrees(&totals, (0..curve.packets).map(|i| curve.p(curve.behind(i))));
    eprintln!("{mean:.2} marks expected in each of {} rounds; {totals:?}", rounds.len());
    for marks in rounds {
        for (position, mark) in marks.iter().enumerate() {
            match curve.behind(position) {
                q if q > curve.kmax => assert!(mark, "{position} of {} is CE", marks.len()),
                q if q <= curve.kmin => assert!(!mark, "{position} of {} is not", marks.len()),
                _ => {}
            }
        }
        assert_eq!((marks.first(), marks.last()), (Some(&true), Some(&false)));
    }
}

/// By the binomial law: 400K/1600K/20 %, 197.46 +- 9.96 marks of 1610 packets.
const STEEP: Curve =
    Curve { kmin: 400_000, kmax: 1_600_000, pmax_percent: 20.0, packets: 1610, bytes: 1048 };

#[test]
fn marks_follow_the_curve_through_xdp_ports() {
    marks_follow_the_curve("marks_follow_the_curve_through_xdp_ports", "xdp", &DCQCN, 100);
}

#[test]
fn marks_follow_a_steep_curve_through_xdp_ports() {
    marks_follow_the_curve("marks_follow_a_steep_curve_through_xdp_ports", "xdp", &STEEP, 250);
}

#[test]
fn marks_follow_the_curve_through_pnet_ports() {
    marks_follow_the_curve("marks_follow_the_curve_through_pnet_ports", "pnet", &DCQCN, 100);
}
