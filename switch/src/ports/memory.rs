//! Two ports joined by a link in memory, for tests and for devices in one process.
//!
//! Frames move as handles and are never copied, so both ends must use the same packet memory. The link has a bounded
//! queue per direction and no rate: rates are in the traffic manager.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use wireyard_pipeline::packet::{PacketMemory, RegionPin};
use wireyard_tables::time::Time;

use super::{ChecksumStatus, LinkState, LinkType, Port, PortCaps, PortError, PortStats, RxFrame};
use super::{TxDone, TxFrame};
use crate::sync::lock;

type Queue = Arc<Mutex<VecDeque<TxFrame>>>;

/// One end of an in-memory link.
#[derive(Debug)]
pub struct MemoryPort {
    name: String,
    link: LinkType,
    inbound: Queue,
    outbound: Queue,
    capacity_frames: usize,
    region: RegionPin,
    stats: PortStats,
}

/// A link between two ports on the packet memory `mem`, with room for `capacity_frames` each way.
pub fn pair(
    mem: &PacketMemory,
    names: (&str, &str),
    link: LinkType,
    capacity_frames: usize,
) -> (MemoryPort, MemoryPort) {
    let (one, two) = (Queue::default(), Queue::default());
    let end = |name: &str, inbound: &Queue, outbound: &Queue| MemoryPort {
        name: name.to_owned(),
        link,
        inbound: Arc::clone(inbound),
        outbound: Arc::clone(outbound),
        capacity_frames,
        region: mem.pin(),
        stats: PortStats::default(),
    };
    (end(names.0, &one, &two), end(names.1, &two, &one))
}

impl MemoryPort {
    fn other_memory(&self) -> PortError {
        PortError::Unsupported {
            port: self.name.clone(),
            why: "its two ends use different packet memories".to_owned(),
        }
    }

    /// Sends a copy of `frame`; false if there is no free chunk or no room on the link.
    pub fn send_bytes(&mut self, mem: &mut PacketMemory, frame: &[u8]) -> bool {
        let Some(buf) = mem.alloc_frame(frame) else { return false };
        let data_off = mem.config().headroom_bytes as u16;
        let len = frame.len() as u32;
        let mut frames = vec![TxFrame::at_once(buf, data_off, len, Time::ZERO)];
        let sent = self.tx_burst(mem, Time::ZERO, &mut frames).is_ok_and(|done| done.sent == 1);
        frames.drain(..).for_each(|f| mem.free(f.buf));
        sent
    }

    /// Takes all waiting frames, as bytes.
    pub fn receive_bytes(&mut self, mem: &mut PacketMemory) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        // The only error is a wrong memory, which has no frames of this port.
        let _ = self.rx_burst(mem, Time::ZERO, &mut frames, usize::MAX);
        let copy = |frame: RxFrame| {
            let bytes = mem.frame(&frame.buf, frame.data_off, frame.len).to_vec();
            mem.free(frame.buf);
            bytes
        };
        frames.into_iter().map(copy).collect()
    }
}

impl Port for MemoryPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn caps(&self) -> PortCaps {
        PortCaps { link: self.link, mtu_bytes: None }
    }

    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError> {
        if !self.region.is_of(mem) {
            return Err(self.other_memory());
        }
        let mut queue = lock(&self.inbound);
        let count = queue.len().min(max);
        for frame in queue.drain(..count) {
            self.stats.rx_bytes += u64::from(frame.len);
            out.push(RxFrame {
                buf: frame.buf,
                data_off: frame.data_off,
                len: frame.len,
                wire_len: frame.wire_len,
                timestamp: now,
                checksum: ChecksumStatus::AsReceived,
            });
        }
        self.stats.rx_frames += count as u64;
        Ok(count)
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        _now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        if !self.region.is_of(mem) {
            return Err(self.other_memory());
        }
        let mut queue = lock(&self.outbound);
        let count = frames.len().min(self.capacity_frames.saturating_sub(queue.len()));
        self.stats.tx_full += u64::from(count < frames.len());
        self.stats.tx_frames += count as u64;
        self.stats.tx_bytes += frames.iter().take(count).map(|f| u64::from(f.len)).sum::<u64>();
        queue.extend(frames.drain(..count));
        Ok(TxDone { sent: count, dropped: 0 })
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn link_state(&mut self, _now: Time) -> LinkState {
        if Arc::strong_count(&self.inbound) > 1 { LinkState::Up } else { LinkState::NoCarrier }
    }

    fn close(&mut self, mem: &mut PacketMemory) {
        lock(&self.inbound).drain(..).for_each(|frame| mem.free(frame.buf));
    }
}

#[cfg(test)]
mod tests {
    use wireyard_pipeline::packet::MemoryConfig;

    use super::*;

    fn memory() -> PacketMemory {
        let config = MemoryConfig { chunks: 8, chunk_bytes: 2048, headroom_bytes: 256 };
        PacketMemory::new(config).unwrap()
    }

    #[test]
    fn frames_cross_in_order_without_a_copy() {
        let mut mem = memory();
        let (mut a, mut b) = pair(&mem, ("a", "b"), LinkType::Ethernet, 3);
        assert!((0..3u8).all(|i| a.send_bytes(&mut mem, &[i; 60])));
        assert!(!a.send_bytes(&mut mem, &[3; 60]), "the link is full");
        assert_eq!(b.receive_bytes(&mut mem), [[0; 60], [1; 60], [2; 60]]);
        assert!(b.receive_bytes(&mut mem).is_empty() && a.receive_bytes(&mut mem).is_empty());
        let stats = a.stats();
        assert_eq!((stats.tx_frames, stats.tx_bytes, stats.tx_full), (3, 180, 1));
        assert_eq!((b.stats().rx_frames, mem.free_chunks()), (3, 8));
    }

    #[test]
    fn another_memory_is_refused() {
        let (mut mem, mut other) = (memory(), memory());
        let (mut a, mut b) = pair(&mem, ("a", "b"), LinkType::Ethernet, 3);
        assert!(a.send_bytes(&mut mem, b"x"));
        assert!(!a.send_bytes(&mut other, b"x"));
        assert!(b.rx_burst(&mut other, Time::ZERO, &mut Vec::new(), 1).is_err());
        b.close(&mut mem);
        drop(a);
        assert_eq!((mem.free_chunks(), other.free_chunks()), (8, 8));
        assert_eq!(b.link_state(Time::ZERO), LinkState::NoCarrier);
    }
}
