//! A port that is down by command: it carries no frame in either direction.
//!
//! A decorator of any [`Port`], as with a link that is down: what is to be sent is given up and counted (`tx_down`), what arrives is taken
//! and dropped (`rx_down`), so that nothing old comes in when the port is up again. It stays on the port then, so that counters go on.

use std::any::Any;
use std::os::fd::RawFd;

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::Time;

use super::absent::AbsentPort;
use super::faults::FaultReport;
use super::faults::chance::FaultSetup;
use super::{LinkState, Port, PortCaps, PortError, PortStats, RxFrame, TxDone, TxFrame};

/// A port that is, or was, down.
pub struct ShutPort {
    inner: Box<dyn Port>,
    is_shut: bool,
    arrived: Vec<RxFrame>,
    rx_down: u64,
    rx_bytes: u64,
    tx_down: u64,
}

impl ShutPort {
    /// Takes a port down.
    pub fn new(inner: Box<dyn Port>) -> ShutPort {
        ShutPort { inner, is_shut: true, arrived: Vec::new(), rx_down: 0, rx_bytes: 0, tx_down: 0 }
    }
}

impl Port for ShutPort {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn interface_mac(&self) -> Option<[u8; 6]> {
        self.inner.interface_mac()
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
        self.inner.rx_burst(mem, now, &mut self.arrived, max)?;
        for frame in self.arrived.drain(..) {
            self.rx_down += 1;
            self.rx_bytes += u64::from(frame.len);
            mem.free(frame.buf);
        }
        Ok(0)
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

    /// What left before it was taken down is completed.
    fn flush(&mut self, mem: &mut PacketMemory) -> Result<(), PortError> {
        self.inner.flush(mem)
    }

    fn next_arrival(&mut self) -> Option<Time> {
        self.inner.next_arrival()
    }

    fn poll_fd(&self) -> Option<RawFd> {
        self.inner.poll_fd()
    }

    fn is_always_polled(&self) -> bool {
        self.inner.is_always_polled()
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

    fn notices(&mut self) -> Vec<String> {
        self.inner.notices()
    }

    fn faults(&self) -> Option<FaultReport> {
        self.inner.faults()
    }

    fn fault_setup(&self) -> Option<FaultSetup> {
        self.inner.fault_setup()
    }

    fn set_faults(&mut self, setup: FaultSetup) -> bool {
        self.inner.set_faults(setup)
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

    fn as_any_mut(&mut self) -> Option<&mut dyn Any> {
        self.inner.as_any_mut()
    }

    fn close(&mut self, mem: &mut PacketMemory) {
        self.inner.close(mem);
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::ScriptedPort;
    use super::*;

    #[test]
    fn the_address_of_the_interface_shows_through() {
        let mac = Some([2, 0, 0, 0, 0, 7]);
        let port = ShutPort::new(Box::new(ScriptedPort { mac, ..ScriptedPort::default() }));
        assert_eq!(port.interface_mac(), mac);
    }
}
