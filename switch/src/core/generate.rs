//! Packet generators: frames that the device itself sends into ingress, at given times.
//!
//! A frame enters as if its port had received it when it was due, with `path.generated`, and is counted as generated
//! there. In virtual time that instant is exact; a live loop that is late sends the missed frames in order, one burst
//! in each poll. A generator is no port: it is not held back by a pause. MAC control frames end at the port.

use wireyard_tables::time::{Span, Time};

use crate::config::generators::GeneratorSection;
use crate::ports::PortNumber;
use crate::units::Interval;

/// A frame, and its times.
#[derive(Clone, Debug)]
pub struct Generator {
    port: PortNumber,
    frame: Box<[u8]>,
    next: Time,
    period: Span,
    /// Frames left; `None` for no limit.
    left: Option<u64>,
}

impl Generator {
    /// Sends `count` frames (`None`: no limit) into `port`, the first at `first`, one in each `period` above zero.
    pub fn new(
        port: PortNumber,
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

impl From<&GeneratorSection> for Generator {
    fn from(section: &GeneratorSection) -> Generator {
        let first = Time::ZERO + section.start.map_or(Span::ZERO, Interval::span);
        let (frame, period) = (section.frame.bytes().into(), section.period.span());
        Generator::new(section.port, frame, first, period, section.count)
    }
}

/// The generators of a device.
#[derive(Debug, Default)]
pub struct Generators(Vec<Generator>);

impl Generators {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Starts one.
    pub fn add(&mut self, generator: Generator) {
        self.0.push(generator);
    }

    /// Stops all of them, or only those without a frame limit.
    pub fn end(&mut self, only_endless: bool) {
        self.0.retain(|generator| only_endless && generator.left.is_some());
    }

    /// True while a generator with a frame limit has frames left.
    pub fn have_frames(&self) -> bool {
        self.0.iter().any(|generator| generator.left.is_some_and(|left| left > 0))
    }

    /// When the next frame is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.iter().filter_map(Generator::due).min()
    }

    /// The next frame that is due, its port and its time: in order of time, then in the order of the generators.
    pub(super) fn take(&mut self, now: Time) -> Option<(&[u8], PortNumber, Time)> {
        let dues = self.0.iter().enumerate();
        let next = dues.filter_map(|(n, generator)| Some((generator.due()?, n))).min();
        let (at, index) = next.filter(|(at, _)| *at <= now)?;
        let generator = &mut self.0[index];
        generator.next = at + generator.period;
        generator.left = generator.left.map(|left| left - 1);
        Some((&generator.frame, generator.port, at))
    }
}
