//! A port for tests, with configurable limit, address and descriptor.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::Time;

use super::{LinkState, LinkType, Port, PortCaps, PortError, PortStats, RxFrame, TxDone, TxFrame};

/// The port; it receives at most one frame, with an error, and sends all frames except those that are too long.
#[derive(Default)]
pub(crate) struct ScriptedPort {
    /// Longest frame that it sends; zero sends all.
    pub(crate) longest: u32,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) poll_fd: Option<RawFd>,
    /// Received by the next burst, which fails.
    pub(crate) last: Option<RxFrame>,
    /// Set when it is flushed.
    pub(crate) is_flushed: Arc<AtomicBool>,
    /// Set when it is closed.
    pub(crate) is_closed: Arc<AtomicBool>,
}

impl Port for ScriptedPort {
    fn name(&self) -> &str {
        "scripted"
    }

    fn caps(&self) -> PortCaps {
        PortCaps { link: LinkType::Ethernet, mtu_bytes: None }
    }

    fn interface_mac(&self) -> Option<[u8; 6]> {
        self.mac
    }

    fn rx_burst(
        &mut self,
        _: &mut PacketMemory,
        _: Time,
        out: &mut Vec<RxFrame>,
        _: usize,
    ) -> Result<usize, PortError> {
        let Some(last) = self.last.take() else { return Ok(0) };
        out.push(last);
        Err(PortError::Gone { port: "scripted".into(), help: String::new() })
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        _: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        let fits = |frame: &TxFrame| self.longest == 0 || frame.len <= self.longest;
        let sent = frames.iter().take_while(|frame| fits(frame)).count();
        let dropped = usize::from(sent < frames.len());
        frames.drain(..sent + dropped).for_each(|frame| mem.free(frame.buf));
        Ok(TxDone { sent, dropped })
    }

    fn flush(&mut self, _: &mut PacketMemory) -> Result<(), PortError> {
        self.is_flushed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn poll_fd(&self) -> Option<RawFd> {
        self.poll_fd
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }

    fn link_state(&mut self, _: Time) -> LinkState {
        LinkState::Up
    }

    fn close(&mut self, _: &mut PacketMemory) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}
