//! Defects that a simulation must find: on a port between a device and a host, in a program, in control, in the cables.

use wireyard_pipeline::packet::{Buf, PacketMemory};
use wireyard_switch::ports::{
    LinkState, Port, PortCaps, PortError, PortStats, RxFrame, TxDone, TxFrame,
};
use wireyard_tables::time::Time;

use crate::wires::Line;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A port sends some frames twice.
    Twice,
    /// A port loses some frames and counts them as sent.
    Lost,
    /// A port sends some frames after the next one.
    Overtake,
    /// A port changes a bit of some frames.
    Flip,
    /// A port keeps packet memory of frames that it sent.
    Leak,
    /// A port does not send pauses.
    NoPauses,
    /// A change of an entry is acknowledged and not done.
    LostWrite,
    /// Egress of a replacement is that of the program before.
    HalfSwap,
    /// The cables of two hosts are exchanged.
    Crossed,
    /// A program takes lossless frames for lossy ones.
    Unclassed,
    /// Pauses of hosts are not obeyed.
    Deaf,
    /// A port that is held goes on.
    Unheld,
    /// A port begins some frames before the end of the last one.
    Early,
    /// A batch that is refused is done up to the update that is wrong.
    Partial,
    /// Some frames are lost, and their drops have the reason of a port without a link.
    Excused,
    /// All lossy frames are lost, and their drops have the reason of a full pool.
    Shut,
}

impl Defect {
    /// All of them.
    pub const ALL: [Defect; 16] = [
        Defect::Twice,
        Defect::Lost,
        Defect::Overtake,
        Defect::Flip,
        Defect::Leak,
        Defect::NoPauses,
        Defect::LostWrite,
        Defect::HalfSwap,
        Defect::Crossed,
        Defect::Unclassed,
        Defect::Deaf,
        Defect::Unheld,
        Defect::Early,
        Defect::Partial,
        Defect::Excused,
        Defect::Shut,
    ];
}

/// One frame of so many is treated wrongly.
pub(super) const EVERY: u64 = 16;

/// A line with a defect.
#[derive(Debug)]
pub struct Planted {
    inner: Line,
    defect: Option<Defect>,
    frames: u64,
    late: Option<TxFrame>,
    /// When the last frame began.
    last_start: Time,
    kept: Vec<Buf>,
}

impl Planted {
    /// This line, with a defect if one is given.
    pub fn new(inner: Line, defect: Option<Defect>) -> Planted {
        Planted { inner, defect, frames: 0, late: None, last_start: Time::ZERO, kept: Vec::new() }
    }

    /// What is sent in the place of a frame.
    fn instead(&mut self, mem: &mut PacketMemory, mut frame: TxFrame, out: &mut Vec<TxFrame>) {
        let bytes = mem.frame(&frame.buf, frame.data_off, frame.len).to_vec();
        let is_pause = is_pause(&bytes);
        if self.defect == Some(Defect::NoPauses) && is_pause {
            return mem.free(frame.buf);
        }
        if !is_pause {
            self.frames += 1;
        }
        let at = mem.config().headroom_bytes as u16;
        let is_wrong = !is_pause && self.frames.is_multiple_of(EVERY);
        let like =
            Like { len: frame.len, wire_len: frame.wire_len, start: frame.start, end: frame.end };
        let before = std::mem::replace(&mut self.last_start, frame.start);
        match self.defect.filter(|_| is_wrong) {
            Some(Defect::Twice) => {
                let again = Like { start: frame.end, ..like };
                out.push(frame);
                out.extend(mem.alloc_frame(&bytes).map(|buf| again.with(buf, at)));
            }
            Some(Defect::Lost) => mem.free(frame.buf),
            Some(Defect::Overtake) => {
                out.extend(self.late.replace(frame));
            }
            Some(Defect::Flip) => {
                let mut bytes = bytes;
                if let Some(last) = bytes.last_mut() {
                    *last ^= 0x10;
                }
                mem.free(frame.buf);
                out.extend(mem.alloc_frame(&bytes).map(|buf| like.with(buf, at)));
            }
            Some(Defect::Leak) => {
                self.kept.extend(mem.alloc_frame(&bytes));
                out.push(frame);
            }
            Some(Defect::Early) => {
                frame.start = before;
                out.push(frame);
            }
            _ => {
                let end = frame.end;
                out.push(frame);
                out.extend(self.late.take().map(|late| TxFrame { start: end, end, ..late }));
            }
        }
    }
}

fn is_pause(bytes: &[u8]) -> bool {
    bytes.get(12..14) == Some(&[0x88, 0x08])
}

/// A pause is one for no class.
fn without_classes(mem: &mut PacketMemory, frame: &mut RxFrame) {
    let mut bytes = mem.frame(&frame.buf, frame.data_off, frame.len).to_vec();
    if !is_pause(&bytes) {
        return;
    }
    bytes[17] = 0;
    if let Some(buf) = mem.alloc_frame(&bytes) {
        mem.free(std::mem::replace(&mut frame.buf, buf));
        frame.data_off = mem.config().headroom_bytes as u16;
    }
}

/// A frame without its memory.
struct Like {
    len: u32,
    wire_len: u32,
    start: Time,
    end: Time,
}

impl Like {
    fn with(&self, buf: Buf, data_off: u16) -> TxFrame {
        let Like { len, wire_len, start, end } = *self;
        TxFrame { buf, data_off, len, wire_len, start, end }
    }
}

impl Port for Planted {
    fn inner(&self) -> Option<&dyn Port> {
        Some(&self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Port> {
        Some(&mut self.inner)
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
        let before = out.len();
        let received = self.inner.rx_burst(mem, now, out, max);
        if self.defect == Some(Defect::Deaf) {
            out[before..].iter_mut().for_each(|frame| without_classes(mem, frame));
        }
        received
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        let sent = frames.len();
        let mut out = Vec::new();
        for frame in frames.drain(..) {
            self.instead(mem, frame, &mut out);
        }
        self.inner.tx_burst(mem, now, &mut out)?;
        Ok(TxDone { sent, dropped: 0 })
    }

    fn stats(&mut self) -> PortStats {
        self.inner.stats()
    }

    fn link_state(&mut self, now: Time) -> LinkState {
        self.inner.link_state(now)
    }
}
