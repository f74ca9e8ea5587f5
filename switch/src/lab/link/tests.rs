//! Effects of a link on frames: delay, loss, order, cuts.

use wireyard_pipeline::packet::MemoryConfig;

use super::*;
use crate::units::Probability;

fn setup() -> LinkSetup {
    LinkSetup { reorder_by: Span::from_us(5), ..LinkSetup::clean() }
}

fn memory() -> PacketMemory {
    let config = MemoryConfig { chunks: 2048, chunk_bytes: 512, headroom_bytes: 64 };
    PacketMemory::new(config).unwrap()
}

/// The partitions of the ends of a link.
struct Parts([(Arc<ArrivalIndex>, Arc<Lease>); 2]);

impl Parts {
    fn one() -> Parts {
        let part = (ArrivalIndex::new([1, 1]), Lease::new());
        Parts([part.clone(), part])
    }

    fn two() -> Parts {
        Parts([(); 2].map(|()| (ArrivalIndex::new([1, 1]), Lease::new())))
    }

    fn ends(&self) -> [LinkEnd<'_>; 2] {
        [0, 1].map(|place| {
            let (arrival_index, lease) = &self.0[place];
            LinkEnd { arrival_index, lease, place, is_host: place == 1 }
        })
    }
}

/// Sends frames of one byte value each, one every 100 ns, and returns the frames that have arrived by the end.
fn send(setup: LinkSetup, count: u64) -> (Vec<(Time, Vec<u8>)>, LinkCounters, PacketMemory) {
    send_over(&Parts::one(), setup, count)
}

fn send_over(
    parts: &Parts,
    setup: LinkSetup,
    count: u64,
) -> (Vec<(Time, Vec<u8>)>, LinkCounters, PacketMemory) {
    let mut mem = memory();
    let names = ["a".to_owned(), "b".to_owned()];
    let ([mut a, mut b], [there, _back]) =
        join(names, LinkType::Ethernet, setup, (7, 0), parts.ends());
    for n in 0..count {
        let buf = mem.alloc_frame(&[n as u8; 64]).unwrap();
        let now = Time::from_ns(100 * n);
        let mut frames = vec![TxFrame::at_once(buf, 64, 64, now)];
        a.tx_burst(&mut mem, now, &mut frames).unwrap();
        there.take_leaving(|frame| {
            there.arrive(frame);
        });
    }
    let mut got = Vec::new();
    while let Some(now) = there.next_arrival().instant() {
        let mut out = Vec::new();
        b.rx_burst(&mut mem, now, &mut out, 64).unwrap();
        for frame in out {
            got.push((frame.timestamp, mem.frame(&frame.buf, frame.data_off, 64).to_vec()));
            mem.free(frame.buf);
        }
    }
    (got, there.counters(), mem)
}

/// A packet in any place takes less than 100 bytes beside its frame.
#[test]
fn packets_in_flight_are_small() {
    let waits = crate::tm::Tm::<wireyard_pipeline::exec::Descriptor>::BYTES_PER_PACKET;
    assert!(waits < 100, "{waits} bytes for a packet in a queue");
    let flies = size_of::<RxFrame>();
    assert!(flies < 100, "{flies} bytes for a packet on a link");
}

#[test]
fn a_frame_arrives_one_delay_after_it_left() {
    let (got, counters, mem) = send(setup(), 3);
    let times: Vec<u64> = got.iter().map(|(at, _)| at.as_ns()).collect();
    assert_eq!(times, [1000, 1100, 1200]);
    assert_eq!((counters.sent, counters.arrived, counters.under_way()), (3, 3, Some(0)));
    assert_eq!(mem.free_chunks(), 2048);
}

/// Random faults and their times do not depend on the threads that run the ends of a link.
#[test]
fn a_link_between_partitions_is_the_same_link() {
    let tenth = Probability::percent(10).unwrap();
    let faulty = LinkSetup { loss: tenth, corruption: tenth, reordering: tenth, ..setup() };
    let (one, one_counters, _) = send_over(&Parts::one(), faulty, 1000);
    let (two, two_counters, mem) = send_over(&Parts::two(), faulty, 1000);
    assert_eq!((one, one_counters), (two, two_counters));
    assert_eq!(mem.free_chunks(), 2048);
}

#[test]
fn both_ports_count_what_the_link_carried() {
    let mut mem = memory();
    let names = ["a".to_owned(), "b".to_owned()];
    let ([mut a, mut b], _) = join(names, LinkType::Ethernet, setup(), (7, 0), Parts::one().ends());
    let frame = |mem: &mut PacketMemory, bytes: u32| {
        let buf = mem.alloc_frame(&vec![1; bytes as usize]).unwrap();
        TxFrame::at_once(buf, 64, bytes, Time::ZERO)
    };
    let mut three: Vec<TxFrame> = [100, 200, 300].map(|bytes| frame(&mut mem, bytes)).into();
    a.tx_burst(&mut mem, Time::ZERO, &mut three).unwrap();
    let back = frame(&mut mem, 64);
    b.tx_burst(&mut mem, Time::ZERO, &mut vec![back]).unwrap();
    let mut received = Vec::new();
    assert_eq!(b.rx_burst(&mut mem, Time::from_ns(1_000), &mut received, 1).unwrap(), 1);
    let received = received.remove(0);
    assert!(received.len == 100 && received.timestamp == Time::from_ns(1_000));
    mem.free(received.buf);
    let (sent, received) = (a.stats(), b.stats());
    assert_eq!((sent.tx_frames, sent.tx_bytes, sent.rx_frames, sent.rx_bytes), (3, 600, 0, 0));
    let there = (received.rx_frames, received.rx_bytes);
    assert_eq!((there, received.tx_frames, received.tx_bytes), ((1, 100), 1, 64));
    a.close(&mut mem);
    b.close(&mut mem);
    assert_eq!(mem.free_chunks(), 2048);
}

#[test]
fn faults_happen_as_often_as_they_should_and_frames_are_accounted_for() {
    let tenth = Probability::percent(10).unwrap();
    let faulty = LinkSetup { loss: tenth, corruption: tenth, reordering: tenth, ..setup() };
    let (got, counters, mem) = send(faulty, 1000);
    assert_eq!(counters.sent, counters.arrived + counters.lost);
    assert_eq!(counters.arrived, got.len() as u64);
    let wrong = got.iter().filter(|(_, bytes)| bytes.iter().any(|b| *b != bytes[5])).count();
    assert!(wrong as u64 <= counters.corrupted && wrong as u64 + 3 > counters.corrupted);
    for count in [counters.lost, counters.corrupted, counters.reordered] {
        // 100 expected, standard deviation 9.5.
        assert!((60..=140).contains(&count), "{counters:?}");
    }
    let late = got.windows(2).filter(|pair| pair[0].1[40] > pair[1].1[40]).count();
    assert!(late > 30, "{late} frames were overtaken");
    assert_eq!(mem.free_chunks(), 2048);
    let (again, ..) = send(faulty, 1000);
    assert_eq!(got, again, "the same seed, the same faults");
}

#[test]
fn a_cut_link_loses_what_is_under_way() {
    let mut mem = memory();
    let names = ["a".to_owned(), "b".to_owned()];
    let ([mut a, mut b], [there, _back]) =
        join(names, LinkType::Ethernet, setup(), (7, 0), Parts::one().ends());
    let buf = mem.alloc_frame(&[1; 64]).unwrap();
    a.tx_burst(&mut mem, Time::ZERO, &mut vec![TxFrame::at_once(buf, 64, 64, Time::ZERO)]).unwrap();
    there.set_up(false, &mut mem);
    assert_eq!(b.link_state(Time::ZERO), LinkState::NoCarrier);
    assert_eq!(b.rx_burst(&mut mem, Time::from_ns(5_000), &mut Vec::new(), 8).unwrap(), 0);
    assert_eq!((there.counters().cut, there.counters().under_way()), (1, Some(0)));
    assert_eq!(mem.free_chunks(), 2048);
}
