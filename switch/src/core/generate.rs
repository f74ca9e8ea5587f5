//! Packet generators: frames that enter ingress by themselves, on time.
//!
//! A frame enters as if its port had received it at the moment it was due, with `path.generated`, and is booked as generated
//! there. In virtual time that moment is exact; a live loop that comes late sends what it missed in order, a burst in each
//! turn. A generator is no port: it waits for nothing and is not held back by a pause.

use wireyard_pipeline::exec::{BURST_MAX, Descriptor, Intrinsic, NO_PORT};
use wireyard_tables::time::{Span, Time};

use super::Core;
use super::manager::OWN;

/// A frame, and when it comes.
#[derive(Clone, Debug)]
pub struct Generator {
    port: u16,
    frame: Box<[u8]>,
    next: Time,
    period: Span,
    /// Frames to come; `None` never ends.
    left: Option<u64>,
}

impl Generator {
    /// `count` frames (`None`: without end) into `port`, the first at `first`, one in each `period` above zero.
    pub fn new(
        port: u16,
        frame: Box<[u8]>,
        first: Time,
        period: Span,
        count: Option<u64>,
    ) -> Generator {
        Generator { port, frame, next: first, period: period.max(Span::from_ps(1)), left: count }
    }

    fn due(&self) -> Option<Time> {
        (self.left != Some(0)).then_some(self.next)
    }
}

impl Core {
    /// Lets a generator run from now on. Frames for a port that is not there are not made.
    pub fn add_generator(&mut self, generator: Generator) {
        self.generators.push(generator);
    }

    /// Ends generators: all of them, or those that would never end.
    pub fn end_generators(&mut self, only_endless: bool) {
        self.generators.retain(|generator| only_endless && generator.left.is_some());
    }

    /// True while a generator that ends has frames to come.
    pub fn generates(&self) -> bool {
        self.generators.iter().any(|generator| generator.left.is_some_and(|left| left > 0))
    }

    /// When the next frame of a generator is due.
    pub(super) fn next_generated(&self) -> Option<Time> {
        self.generators.iter().filter_map(Generator::due).min()
    }

    /// Puts the frames that are due on the work list: in order of time, at one time in the order of the generators.
    pub(super) fn generate(&mut self) {
        for _ in 0..BURST_MAX {
            let dues = self.generators.iter().enumerate();
            let next = dues.filter_map(|(n, generator)| Some((generator.due()?, n))).min();
            let Some((at, index)) = next.filter(|(at, _)| *at <= self.now) else { return };
            let generator = &mut self.generators[index];
            generator.next = at + generator.period;
            generator.left = generator.left.map(|left| left - 1);
            // It is moved out and back: a device makes frames by itself and by nothing of a packet's.
            let frame = std::mem::take(&mut generator.frame);
            if let Some(slot) = self.slot(self.generators[index].port) {
                self.enter(slot, &frame, at);
            }
            self.generators[index].frame = frame;
        }
    }

    /// A frame of the device's own enters ingress as if a port had received it.
    pub(super) fn enter(&mut self, slot: usize, frame: &[u8], at: Time) {
        let Some(mut packet) = self.own_packet(slot, frame) else { return };
        packet.flags &= !OWN;
        packet.ingress_link = self.slots[slot].link_code();
        packet.ingress_ns = at.as_ns();
        let packet = Descriptor { egress_port: NO_PORT, ..packet };
        let now_ns = self.now.as_ns();
        self.again.push_back((packet, Intrinsic { now_ns, ..Intrinsic::default() }));
    }
}
