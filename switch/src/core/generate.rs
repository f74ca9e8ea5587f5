//! Packet generators: frames that enter ingress by themselves, on time.
//!
//! A frame enters as if its port had received it at the moment it was due, with `path.generated`, and is counted as generated
//! there. In virtual time that moment is exact; a live loop that comes late sends what it missed in order, a burst in each
//! poll. A generator is no port: it waits for nothing and is not held back by a pause.

use wireyard_tables::time::{Span, Time};

use crate::config::generators::GeneratorSection;
use crate::units::Interval;

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

impl From<&GeneratorSection> for Generator {
    fn from(section: &GeneratorSection) -> Generator {
        let first = Time::ZERO + section.start.map_or(Span::ZERO, Interval::span);
        let (frame, period) = (section.frame.bytes().into(), section.period.span());
        Generator::new(section.port, frame, first, period, section.count)
    }
}

/// The generators of a device.
#[derive(Debug, Default)]
pub(super) struct Generators(Vec<Generator>);

impl Generators {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, generator: Generator) {
        self.0.push(generator);
    }

    /// Ends all of them, or those that would never end.
    pub(super) fn end(&mut self, only_endless: bool) {
        self.0.retain(|generator| only_endless && generator.left.is_some());
    }

    /// True while one that ends has frames to come.
    pub(super) fn have_frames(&self) -> bool {
        self.0.iter().any(|generator| generator.left.is_some_and(|left| left > 0))
    }

    /// When the next frame is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.iter().filter_map(Generator::due).min()
    }

    /// The next frame that is due, its port and its time: in order of time, at one time in the order of the generators.
    pub(super) fn take(&mut self, now: Time) -> Option<(&[u8], u16, Time)> {
        let dues = self.0.iter().enumerate();
        let next = dues.filter_map(|(n, generator)| Some((generator.due()?, n))).min();
        let (at, index) = next.filter(|(at, _)| *at <= now)?;
        let generator = &mut self.0[index];
        generator.next = at + generator.period;
        generator.left = generator.left.map(|left| left - 1);
        Some((&generator.frame, generator.port, at))
    }
}
