//! The way in: what a port received becomes a packet, or ends here.

use super::Core;
use crate::ports::RxFrame;
use wireyard_pipeline::exec::{BURST_MAX, Descriptor, Intrinsic};

impl Core {
    /// Takes the only frame that a port has now; where it has none or more, or one may not go straight on, what there is comes into
    /// [`Core::rx`]. Returns how many frames came.
    #[inline]
    pub(super) fn ask_for_one(&mut self, slot: usize) -> (usize, Option<RxFrame>) {
        let may_go_on = self.manager.tm.next_ready().is_none();
        let port = &mut self.slots[slot];
        if port.recorded.is_none()
            && let Some((frame, is_last)) = port.port.rx_one(&mut self.mem, self.now)
        {
            if is_last && may_go_on {
                port.ledger.received += 1;
                return (1, Some(frame));
            }
            self.rx.push(frame);
        }
        let received = self.ask(slot);
        // Ports without a way for one frame.
        if received == 1 && may_go_on { (1, self.rx.pop()) } else { (received, None) }
    }

    /// Takes one burst from a port into [`Core::rx`], behind a frame that [`Core::ask_for_one`] took. Returns how many frames came,
    /// with that one.
    #[inline]
    pub(super) fn ask(&mut self, slot: usize) -> usize {
        let port = &mut self.slots[slot];
        let room = BURST_MAX - self.rx.len();
        if let Err(error) = port.port.rx_burst(&mut self.mem, self.now, &mut self.rx, room) {
            self.port_messages.push(error.to_string());
        }
        let received = self.rx.len();
        port.ledger.received += received as u64;
        if let Some(place) = port.recorded {
            let rx = std::mem::take(&mut self.rx);
            self.record_received(place, &rx);
            self.rx = rx;
        }
        received
    }

    /// Takes what came into the work list.
    #[inline]
    pub(super) fn list_received(&mut self, slot: usize) {
        let mut rx = std::mem::take(&mut self.rx);
        for frame in rx.drain(..) {
            if self.is_mac_control(slot, &frame) {
                self.mac_control_received(slot, frame);
                continue;
            }
            let packet = self.describe(slot, frame);
            self.burst.push(packet);
            self.meta.push(Intrinsic { now_ns: self.now.as_ns(), ..Intrinsic::default() });
        }
        self.rx = rx;
    }

    #[inline]
    pub(super) fn describe(&mut self, slot: usize, frame: RxFrame) -> Descriptor {
        let cut = self.cut(frame.wire_len.wrapping_sub(frame.len));
        let port = &self.slots[slot];
        let received_ns = frame.timestamp.as_ns();
        let mut descriptor =
            Descriptor::received(frame.buf, frame.data_off, frame.len, port.number, received_ns);
        descriptor.ingress_link = port.link_code();
        descriptor.cut = cut;
        descriptor
    }

    /// The number for so many missing bytes; 0 for none, and for the 65,536th different number.
    #[inline]
    pub(super) fn cut(&mut self, missing: u32) -> u16 {
        if missing == 0 { 0 } else { self.cut_number(missing) }
    }

    fn cut_number(&mut self, missing: u32) -> u16 {
        let known = self.cuts.iter().position(|&m| m == missing);
        let index = known.unwrap_or_else(|| {
            self.cuts.push(missing);
            self.cuts.len() - 1
        });
        u16::try_from(index + 1).unwrap_or(0)
    }

    #[inline]
    pub(super) fn wire_len(&self, descriptor: &Descriptor) -> u32 {
        let missing = match descriptor.cut {
            0 => 0,
            cut => self.cuts.get(cut as usize - 1).copied().unwrap_or(0),
        };
        descriptor.len.wrapping_add(missing)
    }

    /// Bytes that a packet costs in buffers and on links: those of a capture record that was cut too,
    /// unless they are more than any frame has.
    #[inline]
    pub(super) fn frame_bytes(&self, descriptor: &Descriptor) -> u32 {
        let wire = self.wire_len(descriptor);
        if wire <= 1 << 16 { wire.max(descriptor.len) } else { descriptor.len }
    }

    /// Packets for another pass go to the work list.
    pub(super) fn take_again(&mut self) {
        let count = self.again.len().min(BURST_MAX);
        for (descriptor, intrinsic) in self.again.drain(..count) {
            self.burst.push(descriptor);
            self.meta.push(intrinsic);
        }
    }
}
