//! A port that is shut down by command: it carries no frame in either direction.
//!
//! A decorator of any [`Port`], which then behaves as with a link that is down: frames to be sent are given up and
//! counted (`tx_down`), received frames are dropped (`rx_down`), so that no old frame is received when the port is up
//! again. Frames sent before are completed. The decorator stays on the port when it is up again, so that counters
//! continue.

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::Time;

use super::absent::AbsentPort;
use super::{LinkState, Port, PortCaps, PortError, PortStats, RxFrame, TxDone, TxFrame};

/// A port that is, or was, shut down.
pub struct ShutPort {
    inner: Box<dyn Port>,
    is_shut: bool,
    arrived: Vec<RxFrame>,
    rx_down: u64,
    rx_bytes: u64,
    tx_down: u64,
}

impl ShutPort {
    /// Shuts a port down.
    pub fn new(inner: Box<dyn Port>) -> ShutPort {
        ShutPort { inner, is_shut: true, arrived: Vec::new(), rx_down: 0, rx_bytes: 0, tx_down: 0 }
    }
}

impl Port for ShutPort {
    fn inner(&self) -> Option<&dyn Port> {
        Some(self.inner.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Port> {
        Some(self.inner.as_mut())
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn caps(&self) -> PortCaps {
        self.inner.caps()
    }

    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError> {
        if !self.is_shut {
            return self.inner.rx_burst(mem, now, out, max);
        }
        let received = self.inner.rx_burst(mem, now, &mut self.arrived, max);
        // Also what came before an error.
        for frame in self.arrived.drain(..) {
            self.rx_down += 1;
            self.rx_bytes += u64::from(frame.len);
            mem.free(frame.buf);
        }
        received.map(|_| 0)
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        if !self.is_shut {
            return self.inner.tx_burst(mem, now, frames);
        }
        let dropped = frames.len();
        self.tx_down += dropped as u64;
        frames.drain(..).for_each(|frame| mem.free(frame.buf));
        Ok(TxDone { sent: 0, dropped })
    }

    fn stats(&mut self) -> PortStats {
        let stats = self.inner.stats();
        PortStats {
            rx_frames: stats.rx_frames - self.rx_down.min(stats.rx_frames),
            rx_bytes: stats.rx_bytes - self.rx_bytes.min(stats.rx_bytes),
            rx_down: stats.rx_down + self.rx_down,
            tx_down: stats.tx_down + self.tx_down,
            ..stats
        }
    }

    fn link_state(&mut self, now: Time) -> LinkState {
        match self.inner.link_state(now) {
            LinkState::Up | LinkState::NoCarrier if self.is_shut => LinkState::Down,
            state => state,
        }
    }

    fn is_shut(&self) -> bool {
        self.is_shut
    }

    fn shut(&mut self, is_shut: bool) -> bool {
        self.is_shut = is_shut;
        true
    }

    fn take_inner(&mut self, _: &mut PacketMemory) -> Option<Box<dyn Port>> {
        let place = Box::new(AbsentPort::like(self.inner.as_ref()));
        Some(std::mem::replace(&mut self.inner, place))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use wireyard_pipeline::packet::MemoryConfig;
    use wireyard_tables::time::Span;

    use super::super::ChecksumStatus;
    use super::super::faults::FaultyPort;
    use super::super::faults::chance::FaultSetup;
    use super::super::scripted::ScriptedPort;
    use super::*;

    #[test]
    fn what_a_decorator_does_not_change_is_that_of_the_port_below() {
        let mac = Some([2, 0, 0, 0, 0, 7]);
        let setup = FaultSetup { delay: Span::from_ms(1), ..FaultSetup::NONE };
        let (is_flushed, is_closed) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let lowest = ScriptedPort {
            mac,
            poll_fd: Some(5),
            is_flushed: Arc::clone(&is_flushed),
            is_closed: Arc::clone(&is_closed),
            ..ScriptedPort::default()
        };
        let mut port = ShutPort::new(Box::new(FaultyPort::new(Box::new(lowest), setup)));
        assert_eq!((port.interface_mac(), port.poll_fd()), (mac, Some(5)));
        let config = MemoryConfig { chunks: 4, chunk_bytes: 2048, headroom_bytes: 256 };
        let mut mem = PacketMemory::new(config).unwrap();
        port.flush(&mut mem).unwrap();
        assert!(is_flushed.load(Ordering::Relaxed));
        assert!(port.is_always_polled() && port.faults().is_some());
        assert!(port.set_faults(FaultSetup::NONE) && port.fault_setup().is_none());
        port.close(&mut mem);
        assert!(is_closed.load(Ordering::Relaxed));
    }

    #[test]
    fn frames_before_an_error_are_dropped_too() {
        let config = MemoryConfig { chunks: 4, chunk_bytes: 2048, headroom_bytes: 256 };
        let mut mem = PacketMemory::new(config).unwrap();
        let buf = mem.alloc().unwrap();
        let (timestamp, checksum) = (Time::ZERO, ChecksumStatus::AsReceived);
        let frame = RxFrame { buf, data_off: 256, len: 60, wire_len: 60, timestamp, checksum };
        let mut port =
            ShutPort::new(Box::new(ScriptedPort { last: Some(frame), ..ScriptedPort::default() }));
        assert!(port.rx_burst(&mut mem, Time::ZERO, &mut Vec::new(), 8).is_err());
        assert_eq!((mem.free_chunks(), port.stats().rx_down), (4, 1));
    }
}
