//! Ports on real interfaces: veth pairs and TAPs in a private network namespace, every kind the same tests.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_switch::ports::sys::bpf::tag_on_egress;
use wireyard_switch::ports::sys::interface::look_up;
use wireyard_switch::ports::sys::packet::{self, Batch};
use wireyard_switch::ports::{
    ChecksumStatus, LinkState, PortError, PortSpec, PortStats, RxFrame, TxFrame, open,
};

use crate::rig::{DOUBLE_TAGGED, SERVICE_TAGGED, TAGGED, Wire, frame, ip, private_network, veth};

fn every_shape() -> Vec<Vec<u8>> {
    let tags: [&[u8]; 4] = [&[], TAGGED, SERVICE_TAGGED, DOUBLE_TAGGED];
    // Around what a chunk holds, and a page.
    let lengths = [60, 64, 65, 1514, 1788, 1791, 1792, 1793, 2048, 4096, 4097, 9200];
    let mut all: Vec<_> =
        lengths.iter().flat_map(|len| tags.iter().map(|tag| frame(tag, *len))).collect();
    all.push(frame(&[], 9216));
    // The smallest that Linux sends.
    all.push(frame(&[], 14));
    all
}

/// Every kind of tag and every length, both ways, unharmed and (where the port promises it) in order.
fn carries_every_shape(kind: &str, in_order: bool) {
    let Some(_network) = private_network(&format!("{kind}: carries_every_shape")) else { return };
    veth("sw", "host");
    let mut switch = Wire::open(&format!("{kind}:sw"));
    let mut host = Wire::open("raw:host");
    let frames = every_shape();
    host.send(&frames);
    let mut received = switch.receive(frames.len());
    let mut sent = frames.clone();
    if !in_order {
        received.sort();
        sent.sort();
    }
    assert!(received == sent, "{kind} received: {}", difference(&received, &sent));
    switch.send(&frames);
    let received = host.receive(frames.len());
    assert!(received == frames, "{kind} sent: {}", difference(&received, &frames));
    assert!(switch.receive_unexpected().is_empty(), "{kind} received what it sent");
    switch.port.flush(&mut switch.mem).unwrap();
    let (count, bytes) = (frames.len() as u64, frames.iter().map(Vec::len).sum::<usize>() as u64);
    let expected = PortStats {
        rx_frames: count,
        rx_bytes: bytes,
        tx_frames: count,
        tx_bytes: bytes,
        ..PortStats::default()
    };
    assert_eq!(switch.port.stats(), expected, "nothing else happened");
    switch.close();
    host.close();
}

fn difference(got: &[Vec<u8>], expected: &[Vec<u8>]) -> String {
    let at = got.iter().zip(expected).position(|(g, e)| g != e);
    let head = |f: &Vec<u8>| format!("{} bytes {:02x?}", f.len(), f.get(..24).unwrap_or(f));
    match at.and_then(|i| Some((i, got.get(i)?, expected.get(i)?))) {
        Some((i, g, e)) => format!("frame {i} is {}, not {}", head(g), head(e)),
        None => format!("{} frames, not {}", got.len(), expected.len()),
    }
}

/// Neither its own frames nor those that another socket, or the host itself, sends by the interface.
fn hears_nothing_of_its_own_side(kind: &str) {
    let Some(_network) = private_network(&format!("{kind}: own side")) else { return };
    veth("host", "peer");
    let mut switch = Wire::open(&format!("{kind}:host"));
    let neighbour = packet::tx_socket(look_up("host").unwrap().index).unwrap();
    let mut peer = Wire::open("raw:peer");
    let burst = [frame(&[], 60), frame(TAGGED, 70)].map(|bytes| switch.frame(&bytes));
    assert_eq!(Batch::new().send(&neighbour, &switch.mem, &burst).unwrap(), 2);
    burst.into_iter().for_each(|frame| switch.mem.free(frame.buf));
    switch.send(&[frame(&[], 61), frame(TAGGED, 71)]);
    // Packet sockets see what takes this way, past the queueing discipline or not.
    let socket = host_stack();
    socket.send_to(b"from this host", "192.0.2.2:9").unwrap();
    let _tagger = tag_on_egress(look_up("host").unwrap().index, 0x8100, 7).unwrap();
    socket.send_to(b"with a tag", "192.0.2.2:9").unwrap();
    assert_eq!(peer.receive(6).len(), 6);
    assert_eq!(switch.receive_unexpected(), Vec::<Vec<u8>>::new());
    switch.close();
}

/// Deleting the interface is reported once and clearly; a new one of the same name is taken up.
fn survives_deletion(kind: &str) {
    let Some(_network) = private_network(&format!("{kind}: survives_deletion")) else { return };
    veth("sw", "host");
    let mut switch = Wire::open(&format!("{kind}:sw"));
    switch.await_link_up();
    ip("link del sw");
    let error = switch.error();
    assert!(matches!(error, PortError::Gone { .. }), "{error}");
    assert!(error.to_string().contains(&format!("{kind}:sw")), "{error}");
    assert!(switch.receive_unexpected().is_empty(), "reported once");
    let now = switch.now();
    assert_eq!(switch.port.link_state(now), LinkState::Gone);
    let mut lost = vec![switch.frame(&frame(&[], 60))];
    let done = switch.port.tx_burst(&mut switch.mem, now, &mut lost).unwrap();
    assert_eq!((done.dropped, lost.len(), switch.port.stats().tx_down), (1, 0, 1));
    veth("sw", "host");
    let mut host = Wire::open("raw:host");
    switch.await_link_up();
    host.send(&[frame(TAGGED, 60)]);
    assert_eq!(switch.receive(1), [frame(TAGGED, 60)]);
    switch.send(&[frame(&[], 80)]);
    assert_eq!(host.receive(1), [frame(&[], 80)]);
    switch.close();
    host.close();
}

/// Down is reported once, with the command that helps; up again is enough.
fn survives_down_and_up(kind: &str) {
    let Some(_network) = private_network(&format!("{kind}: survives_down_and_up")) else { return };
    veth("sw", "host");
    let mut switch = Wire::open(&format!("{kind}:sw"));
    let mut host = Wire::open("raw:host");
    for _ in 0..2 {
        ip("link set sw down");
        let error = switch.error();
        assert!(matches!(error, PortError::Down { .. }), "{error}");
        assert!(error.to_string().contains("ip link set sw up"), "{error}");
        assert!(switch.receive_unexpected().is_empty(), "reported once");
        assert_eq!(switch.port.link_state(switch.now()), LinkState::Down);
        ip("link set sw up");
        switch.await_link_up();
        host.send(&[frame(&[], 60)]);
        assert_eq!(switch.receive(1), [frame(&[], 60)]);
        switch.send(&[frame(&[], 80)]);
        assert_eq!(host.receive(1), [frame(&[], 80)]);
    }
    switch.close();
}

/// A VLAN device hands its tag to the interface beside the frame; it must arrive inside.
fn keeps_tags_beside_the_frame(kind: &str) {
    let Some(_network) = private_network(&format!("{kind}: tags beside the frame")) else { return };
    veth("sw", "host");
    let mut switch = Wire::open(&format!("{kind}:sw"));
    let socket = host_stack();
    let index = look_up("host").unwrap().index;
    let mut copies = Vec::new();
    for (tag, protocol, control) in [(TAGGED, 0x8100, 0x6064), (SERVICE_TAGGED, 0x88a8, 0x200a)] {
        let tagger = tag_on_egress(index, protocol, control).unwrap();
        // As a child has that another test forks meanwhile: the tagger ends nevertheless.
        copies.push(tagger.as_fd().try_clone_to_owned().unwrap());
        for payload in [vec![7; 12], vec![8; 8900]] {
            socket.send_to(&payload, "192.0.2.2:9").unwrap();
            let received = switch.receive(1);
            let [frame] = received.as_slice() else { panic!("{} frames", received.len()) };
            assert_eq!(frame.get(12..18), Some([tag, &[0x08, 0x00]].concat().as_slice()));
            assert_eq!(frame.len(), 12 + 4 + 2 + 20 + 8 + payload.len());
            assert!(frame.ends_with(&payload));
        }
    }
    socket.send_to(&[9; 20], "192.0.2.2:9").unwrap();
    let received = switch.receive(1);
    assert_eq!(
        received[0].get(12..14),
        Some([0x08, 0x00].as_slice()),
        "no tag of an earlier frame"
    );
    switch.close();
}

/// The kernel's own stack on `host`, with a neighbour 192.0.2.2.
fn host_stack() -> UdpSocket {
    ip("address add 192.0.2.1/24 dev host");
    ip("neighbour add 192.0.2.2 lladdr 02:00:00:00:00:09 dev host");
    UdpSocket::bind("192.0.2.1:7").unwrap()
}

/// A datagram of the host's own stack, whose checksum it leaves to the card, arrives finished.
fn finishes_checksums(kind: &str, marked: bool) {
    let Some(_network) = private_network(&format!("{kind}: finishes_checksums")) else { return };
    veth("sw", "host");
    let socket = host_stack();
    let mut switch = Wire::open(&format!("{kind}:sw"));
    socket.send_to(b"hello, checksum", "192.0.2.2:9").unwrap();
    let deadline = Instant::now() + Duration::from_secs(1);
    let frames = loop {
        let frames = switch.poll().unwrap();
        if !frames.is_empty() || Instant::now() > deadline {
            break frames;
        }
    };
    let [received] = <[RxFrame; 1]>::try_from(frames).expect("one datagram");
    assert_eq!(received.checksum == ChecksumStatus::FinishedByPort, marked);
    let bytes = switch.bytes(received);
    let udp = &bytes[34..];
    let pseudo: Vec<u8> = [&bytes[26..34], &[0, 17], &udp[4..6]].concat();
    let mut sum = 0u32;
    for pair in pseudo.chunks(2).chain(udp.chunks(2)) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    assert_eq!(sum, 0xffff, "the UDP checksum is right");
    assert_eq!(switch.port.stats().rx_checksums_finished, u64::from(marked));
    switch.close();
}

/// A frame over the MTU is dropped under its name, and those around it pass.
fn refuses_what_is_too_long(kind: &str) {
    let Some(_network) = private_network(&format!("{kind}: refuses_what_is_too_long")) else {
        return;
    };
    veth("sw", "host");
    ip("link set sw mtu 1500");
    let mut switch = Wire::open(&format!("{kind}:sw"));
    let mut host = Wire::open("raw:host");
    assert_eq!(switch.port.caps().mtu_bytes, Some(1500));
    let lengths = [1514, 1515, 9000, 60];
    let mut burst: Vec<TxFrame> = lengths.iter().map(|l| switch.frame(&frame(&[], *l))).collect();
    let now = switch.now();
    let mut results = Vec::new();
    while !burst.is_empty() {
        let done = switch.port.tx_burst(&mut switch.mem, now, &mut burst).unwrap();
        results.push((done.sent, done.dropped));
    }
    assert_eq!(results, [(1, 1), (0, 1), (1, 0)], "what was sent, then what was given up");
    assert_eq!(switch.port.stats().tx_too_long, 2);
    assert_eq!(host.receive(2), [frame(&[], 1514), frame(&[], 60)]);
    switch.close();
}

/// Without a free chunk nothing is lost: frames wait in the kernel.
fn waits_for_memory(kind: &str) {
    let Some(_network) = private_network(&format!("{kind}: waits_for_memory")) else { return };
    veth("sw", "host");
    let mut switch = Wire::with_chunks(&format!("{kind}:sw"), 512);
    let mut host = Wire::open("raw:host");
    let mut held = Vec::new();
    let frames: Vec<_> = (0..600).map(|i| frame(&[], 60 + i)).collect();
    frames.chunks(50).for_each(|some| host.send(some));
    let mut received = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(1);
    while switch.port.stats().rx_no_memory == 0 && Instant::now() < deadline {
        held.extend(switch.poll().unwrap());
    }
    assert!(switch.port.stats().rx_no_memory > 0, "{} frames held", held.len());
    for frame in held {
        received.push(switch.bytes(frame));
    }
    let rest = frames.len() - received.len();
    received.extend(switch.receive(rest));
    assert!(received == frames, "{}", difference(&received, &frames));
    switch.close();
}

#[test]
fn missing_interfaces_are_explained() {
    let Some(_network) = private_network("missing_interfaces_are_explained") else { return };
    veth("sw", "host");
    let mem = PacketMemory::new(MemoryConfig { chunks: 16, ..MemoryConfig::default() }).unwrap();
    for kind in ["raw:", "pnet:", "xdp:", ""] {
        let spec = PortSpec::parse(&format!("1={kind}nothere")).unwrap();
        let error = open(&spec, &mem).err().expect("no such interface").to_string();
        assert!(error.contains("nothere: no such interface"), "{error}");
        assert!(error.contains("has host, lo, sw"), "{error}");
        assert!(error.contains("ip link add nothere type veth"), "{error}");
    }
}

#[test]
fn a_bare_name_says_which_kind_it_took() {
    let Some(_network) = private_network("a_bare_name_says_which_kind_it_took") else { return };
    veth("sw", "host");
    let mem = PacketMemory::new(MemoryConfig { chunks: 64, ..MemoryConfig::default() }).unwrap();
    let opened = open(&PortSpec::parse("1=sw").unwrap(), &mem).unwrap();
    let name = opened.port.name();
    assert!(opened.notices.iter().any(|n| n.contains(&format!("opened as {name}"))), "{name}");
}

/// A card passes on frames for its own address only, unless it is asked for all.
#[test]
fn ports_receive_frames_for_all_addresses() {
    let Some(_network) = private_network("ports_receive_frames_for_all_addresses") else { return };
    veth("sw", "host");
    for kind in ["raw", "pnet", "xdp"] {
        let switch = Wire::open(&format!("{kind}:sw"));
        let shown = std::process::Command::new("ip").args(["-d", "link", "show", "sw"]).output();
        let shown = String::from_utf8(shown.expect("ip").stdout).unwrap();
        assert!(
            shown.contains("promiscuity ") && !shown.contains("promiscuity 0 "),
            "{kind}: {shown}"
        );
        switch.close();
    }
}

/// Flows are spread over all receive queues of an interface, and AF_XDP receives from those that have a socket.
#[test]
fn a_bare_name_takes_no_xdp_that_would_lose_queues() {
    let test = "a_bare_name_takes_no_xdp_that_would_lose_queues";
    let Some(_network) = private_network(test) else { return };
    let queues = "numrxqueues 2 numtxqueues 2";
    ip(&format!("link add sw {queues} type veth peer name host {queues}"));
    ip("link set sw up");
    ip("link set host up");
    let mem = PacketMemory::new(MemoryConfig { chunks: 256, ..MemoryConfig::default() }).unwrap();
    for (spec, name) in [("1=sw", "raw:sw"), ("1=xdp:sw", "xdp:sw")] {
        let mut opened = open(&PortSpec::parse(spec).unwrap(), &mem).unwrap();
        let said = opened.notices.join("\n");
        assert_eq!(opened.port.name(), name, "{said}");
        assert!(said.contains("has 2 receive queues and the port has sockets for 1"), "{said}");
        opened.port.close(&mut mem.worker());
    }
}

/// What is said is what helps: an MTU that is too large for packet memory, or a queue that is not there.
#[test]
fn an_xdp_port_says_what_fits() {
    let Some(_network) = private_network("an_xdp_port_says_what_fits") else { return };
    veth("sw", "host");
    let config = MemoryConfig { chunks: 256, chunk_bytes: 2048, ..MemoryConfig::default() };
    let mem = PacketMemory::new(config).unwrap();
    let why = |spec: &str| {
        open(&PortSpec::parse(spec).unwrap(), &mem).err().expect("it is refused").to_string()
    };
    let error = why("1=xdp:sw");
    assert!(error.contains("frames of MTU 9202 fit no chunk"), "{error}");
    assert!(error.contains("ip link set sw mtu 1774") && !error.contains("larger"), "{error}");
    ip("link set sw mtu 1500");
    let error = why("1=xdp:sw,queue=3");
    assert!(error.contains("queues 3 to 3 are asked for, sw has 1"), "{error}");
}

mod raw {
    #[test]
    fn carries_every_shape() {
        super::carries_every_shape("raw", true);
    }

    #[test]
    fn hears_nothing_of_its_own_side() {
        super::hears_nothing_of_its_own_side("raw");
    }

    #[test]
    fn survives_deletion() {
        super::survives_deletion("raw");
    }

    #[test]
    fn survives_down_and_up() {
        super::survives_down_and_up("raw");
    }

    #[test]
    fn finishes_checksums() {
        super::finishes_checksums("raw", true);
    }

    #[test]
    fn keeps_tags_beside_the_frame() {
        super::keeps_tags_beside_the_frame("raw");
    }

    #[test]
    fn refuses_what_is_too_long() {
        super::refuses_what_is_too_long("raw");
    }

    #[test]
    fn waits_for_memory() {
        super::waits_for_memory("raw");
    }
}

mod pnet {
    #[test]
    fn carries_every_shape() {
        super::carries_every_shape("pnet", false);
    }

    #[test]
    fn hears_nothing_of_its_own_side() {
        super::hears_nothing_of_its_own_side("pnet");
    }

    #[test]
    fn survives_deletion() {
        super::survives_deletion("pnet");
    }

    #[test]
    fn survives_down_and_up() {
        super::survives_down_and_up("pnet");
    }

    #[test]
    fn finishes_checksums() {
        super::finishes_checksums("pnet", true);
    }

    #[test]
    fn keeps_tags_beside_the_frame() {
        super::keeps_tags_beside_the_frame("pnet");
    }

    #[test]
    fn refuses_what_is_too_long() {
        super::refuses_what_is_too_long("pnet");
    }

    #[test]
    fn waits_for_memory() {
        super::waits_for_memory("pnet");
    }
}

mod xdp {
    #[test]
    fn carries_every_shape() {
        super::carries_every_shape("xdp", true);
    }

    #[test]
    fn hears_nothing_of_its_own_side() {
        super::hears_nothing_of_its_own_side("xdp");
    }

    #[test]
    fn survives_deletion() {
        super::survives_deletion("xdp");
    }

    #[test]
    fn survives_down_and_up() {
        super::survives_down_and_up("xdp");
    }

    #[test]
    fn finishes_checksums() {
        super::finishes_checksums("xdp", true);
    }

    #[test]
    fn keeps_tags_beside_the_frame() {
        super::keeps_tags_beside_the_frame("xdp");
    }

    #[test]
    fn refuses_what_is_too_long() {
        super::refuses_what_is_too_long("xdp");
    }
}

mod tap {
    use super::{Wire, difference, every_shape, ip, private_network};
    use wireyard_switch::ports::PortError;

    #[test]
    fn carries_every_shape() {
        let Some(_network) = private_network("tap: carries_every_shape") else { return };
        let mut switch = Wire::open("tap:sw,mtu=9202");
        switch.await_link_up();
        let mut host = Wire::open("raw:sw");
        let frames = every_shape();
        host.send(&frames);
        let received = switch.receive(frames.len());
        assert!(received == frames, "{}", difference(&received, &frames));
        switch.send(&frames);
        let received = host.receive(frames.len());
        assert!(received == frames, "{}", difference(&received, &frames));
        assert!(switch.receive_unexpected().is_empty());
        switch.close();
        host.close();
    }

    #[test]
    fn takes_over_a_device_and_leaves_it() {
        let Some(_network) = private_network("tap: takes_over_a_device_and_leaves_it") else {
            return;
        };
        ip("tuntap add sw mode tap multi_queue");
        let switch = Wire::open("tap:sw");
        assert_eq!(switch.port.caps().mtu_bytes, Some(1500));
        switch.close();
        ip("link show sw");
        Wire::open("tap:mine").close();
        let gone =
            std::process::Command::new("ip").args(["link", "show", "mine"]).output().unwrap();
        assert!(!gone.status.success(), "a device that was made here goes with its port");
    }

    #[test]
    fn survives_deletion() {
        let Some(_network) = private_network("tap: survives_deletion") else { return };
        ip("tuntap add sw mode tap");
        let mut switch = Wire::open("tap:sw");
        ip("link del sw");
        let error = switch.error();
        assert!(matches!(error, PortError::Gone { .. }), "{error}");
        assert!(switch.receive_unexpected().is_empty(), "reported once");
        ip("tuntap add sw mode tap");
        ip("link set sw up");
        let mut host = Wire::open("raw:sw");
        std::thread::sleep(std::time::Duration::from_millis(250));
        switch.send(&[super::frame(&[], 60)]);
        assert_eq!(host.receive(1), [super::frame(&[], 60)]);
        switch.close();
    }

    #[test]
    fn no_tap_is_refused() {
        let Some(_network) = private_network("tap: no_tap_is_refused") else { return };
        super::veth("sw", "host");
        let mem = wireyard_pipeline::packet::PacketMemory::new(Default::default()).unwrap();
        let spec = wireyard_switch::ports::PortSpec::parse("tap:sw").unwrap();
        let error = wireyard_switch::ports::open(&spec, &mem).err().unwrap().to_string();
        assert!(error.contains("is no TAP device: use raw:sw"), "{error}");
    }
}
