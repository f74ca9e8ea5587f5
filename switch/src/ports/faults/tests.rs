//! Frames in transit when the cable, or the port behind it, ends.

use wireyard_pipeline::packet::MemoryConfig;

use super::super::shut::ShutPort;
use super::super::{LinkType, memory};
use super::*;

const CHUNKS: u32 = 16;
const DELAY: Span = Span::from_ms(5);

/// A port with a slow cable, and the far end of its link, which takes so many frames.
fn cable(room: usize) -> (PacketMemory, Box<dyn Port>, memory::MemoryPort) {
    let config = MemoryConfig { chunks: CHUNKS, chunk_bytes: 2048, headroom_bytes: 256 };
    let mem = PacketMemory::new(config).unwrap();
    let (near, far) = memory::pair(&mem, ("near", "far"), LinkType::Ethernet, room);
    let setup = FaultSetup { delay: DELAY, ..FaultSetup::NONE };
    // Faults were set after the port had been down by command.
    let mut below = ShutPort::new(Box::new(near));
    below.shut(false);
    (mem, Box::new(FaultyPort::new(Box::new(below), setup)), far)
}

fn send(port: &mut dyn Port, mem: &mut PacketMemory, count: u8) {
    for n in 0..count {
        let buf = mem.alloc_frame(&[n; 60]).unwrap();
        let at = mem.config().headroom_bytes as u16;
        let mut frames = vec![TxFrame::at_once(buf, at, 60, Time::ZERO)];
        assert_eq!(port.tx_burst(mem, Time::ZERO, &mut frames).unwrap().sent, 1);
    }
}

#[test]
fn frames_on_their_way_out_leave_before_the_port_is_closed() {
    let (mut mem, mut port, mut far) = cable(9);
    send(port.as_mut(), &mut mem, 5);
    port.flush(&mut mem).unwrap();
    assert_eq!(far.receive_bytes(&mut mem), [[0; 60], [1; 60], [2; 60], [3; 60], [4; 60]]);
    port.close(&mut mem);
    let sent = port.faults().unwrap().sent;
    assert_eq!((sent.delayed, sent.cut, sent.under_way), (5, 0, 0));
    assert_eq!(mem.free_chunks(), CHUNKS);
}

#[test]
fn frames_that_are_lost_with_the_cable_are_counted() {
    let (mut mem, mut port, mut far) = cable(2);
    send(port.as_mut(), &mut mem, 5);
    assert!(far.send_bytes(&mut mem, &[9; 60]));
    let mut received = Vec::new();
    assert_eq!(port.rx_burst(&mut mem, Time::ZERO, &mut received, 8).unwrap(), 0);
    // The link has room for two of them; nothing arrives any more.
    port.flush(&mut mem).unwrap();
    port.close(&mut mem);
    let FaultReport { received, sent } = port.faults().unwrap();
    assert_eq!((sent.cut, sent.under_way), (3, 0));
    assert_eq!((received.delayed, received.cut, received.under_way), (1, 1, 0));
    assert_eq!(far.receive_bytes(&mut mem).len(), 2);
    assert_eq!(mem.free_chunks(), CHUNKS);
}

#[test]
fn nothing_arrives_at_a_port_that_is_down_by_command() {
    let (mut mem, mut port, mut far) = cable(9);
    assert!(far.send_bytes(&mut mem, &[9; 60]));
    let mut received = Vec::new();
    port.rx_burst(&mut mem, Time::ZERO, &mut received, 8).unwrap();
    assert!(port.shut(true));
    assert_eq!(port.rx_burst(&mut mem, Time::ZERO + DELAY, &mut received, 8).unwrap(), 0);
    assert_eq!((received.len(), port.faults().unwrap().received.cut), (0, 1));
    assert_eq!(mem.free_chunks(), CHUNKS);
}
