//! A stand-in for a port that this worker does not have: another worker owns it, or it was removed.
//!
//! It has the name and the capabilities of the port, so that programs, groups and reports are the same at all workers.
//! It moves no frames: packets for another worker's port are handed over before, and the number of a removed port does
//! not exist for the program.

use wireyard_pipeline::packet::PacketMemory;
use wireyard_tables::time::Time;

use super::{LinkState, Port, PortCaps, PortError, PortStats, RxFrame, TxDone, TxFrame};

/// The stand-in for a port.
#[derive(Clone, Debug)]
pub struct AbsentPort {
    name: String,
    caps: PortCaps,
}

impl AbsentPort {
    /// A stand-in for this port.
    pub fn like(port: &dyn Port) -> AbsentPort {
        AbsentPort { name: port.name().to_owned(), caps: port.caps() }
    }
}

impl Port for AbsentPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn caps(&self) -> PortCaps {
        self.caps
    }

    fn rx_burst(
        &mut self,
        _: &mut PacketMemory,
        _: Time,
        _: &mut Vec<RxFrame>,
        _: usize,
    ) -> Result<usize, PortError> {
        Ok(0)
    }

    /// Gives all frames up: frames for the port are handed over before.
    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        _: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        let dropped = frames.len();
        frames.drain(..).for_each(|frame| mem.free(frame.buf));
        Ok(TxDone { sent: 0, dropped })
    }

    fn stats(&mut self) -> PortStats {
        PortStats::default()
    }

    /// It never receives a frame, and never reports that it cannot send: the owner of the port does.
    fn link_state(&mut self, _: Time) -> LinkState {
        LinkState::Ended
    }
}
