//! Random faults of frames on a link, with one stream for each purpose, so that a fault elsewhere changes nothing here.

use std::fmt;

use wireyard_pipeline::packet::{Buf, PacketMemory};
use wireyard_tables::time::Span;

use crate::tm::random::Stream;
use crate::units::Probability;

/// The faults of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultSetup {
    /// Share of frames that never arrive.
    pub loss: Probability,
    /// Share of frames that arrive with a flipped bit.
    pub corruption: Probability,
    /// Share of frames that arrive twice.
    pub duplication: Probability,
    /// Share of frames that arrive late, and so after others.
    pub reordering: Probability,
    /// Extra delay of those frames.
    pub reorder_by: Span,
    /// Delay of every frame.
    pub delay: Span,
    /// Seed of all streams.
    pub seed: u64,
}

impl FaultSetup {
    /// No faults.
    pub const NONE: FaultSetup = FaultSetup {
        loss: Probability::ZERO,
        corruption: Probability::ZERO,
        duplication: Probability::ZERO,
        reordering: Probability::ZERO,
        reorder_by: Span::from_ms(1),
        delay: Span::ZERO,
        seed: 1,
    };

    /// True if any fault or delay is configured.
    pub fn can_happen(&self) -> bool {
        self.delay > Span::ZERO || self.has_chances()
    }

    /// True if any random fault is configured.
    fn has_chances(&self) -> bool {
        let chances = [self.loss, self.corruption, self.duplication, self.reordering];
        chances.iter().any(|chance| *chance != Probability::ZERO)
    }
}

/// In the notation of a port's options: `loss=1%,delay=2ms`.
impl fmt::Display for FaultSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let none = FaultSetup::NONE;
        let chances = [
            ("loss", self.loss),
            ("corrupt", self.corruption),
            ("duplicate", self.duplication),
            ("reorder", self.reordering),
        ];
        let chances = chances.iter().filter(|(_, chance)| *chance != Probability::ZERO);
        let mut parts: Vec<String> =
            chances.map(|(name, chance)| format!("{name}={chance}")).collect();
        let spans =
            [("reorder_by", self.reorder_by, none.reorder_by), ("delay", self.delay, none.delay)];
        let spans = spans.iter().filter(|(_, span, usual)| span != usual);
        parts.extend(spans.map(|(name, span, _)| format!("{name}={span}")));
        if self.seed != none.seed {
            parts.push(format!("seed={}", self.seed));
        }
        f.write_str(&parts.join(",").replace(' ', ""))
    }
}

/// The faults of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// It does not arrive; nothing else was drawn.
    pub is_lost: bool,
    /// A bit of it is flipped; the number selects which, for [`flip_bit`].
    pub corrupts: Option<u32>,
    /// It arrives twice.
    pub is_doubled: bool,
    /// It is delayed behind later frames.
    pub is_reordered: bool,
    /// Its total delay.
    pub later: Span,
}

/// The random faults of one direction of a link.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Chances {
    /// No random fault is configured.
    is_empty: bool,
    setup: FaultSetup,
    loss: Stream,
    corruption: Stream,
    reordering: Stream,
    duplication: Stream,
}

impl Chances {
    /// The streams of direction `number` of those that share a seed.
    pub fn new(setup: FaultSetup, number: u64) -> Chances {
        let stream = |purpose: u64| Stream::new(setup.seed, (purpose << 32) | number);
        Chances {
            is_empty: !setup.has_chances(),
            setup,
            loss: stream(0x10),
            corruption: stream(0x11),
            reordering: stream(0x12),
            duplication: stream(0x13),
        }
    }

    /// The configuration.
    pub fn setup(&self) -> FaultSetup {
        self.setup
    }

    /// The delay of every frame, if no random fault is configured; otherwise `None`.
    #[inline]
    pub fn only_later(&self) -> Option<Span> {
        self.is_empty.then_some(self.setup.delay)
    }

    /// Draws the faults of the next frame.
    pub fn draw(&mut self) -> Fate {
        let setup = &self.setup;
        let mut fate = Fate {
            is_lost: happens(&mut self.loss, setup.loss),
            corrupts: None,
            is_doubled: false,
            is_reordered: false,
            later: setup.delay,
        };
        if fate.is_lost {
            return fate;
        }
        if happens(&mut self.corruption, setup.corruption) {
            fate.corrupts = Some(self.corruption.next_u32());
        }
        fate.is_doubled = happens(&mut self.duplication, setup.duplication);
        if happens(&mut self.reordering, setup.reordering) {
            fate.is_reordered = true;
            fate.later = fate.later + setup.reorder_by;
        }
        fate
    }
}

/// True with probability `chance`; draws only if that is above zero.
fn happens(stream: &mut Stream, chance: Probability) -> bool {
    chance != Probability::ZERO && u64::from(stream.next_u32()) < chance.get()
}

/// Flips the bit of a frame that `draw` selects, each bit with the same chance; false without memory for a copy.
pub fn flip_bit(mem: &mut PacketMemory, buf: &mut Buf, data_off: u16, len: u32, draw: u32) -> bool {
    let used = usize::from(data_off)..usize::from(data_off) + len as usize;
    let bit = (u64::from(draw) * u64::from(len) * 8) >> 32;
    if mem.make_unique(buf, used).is_err() {
        return false;
    }
    let Some(bytes) = mem.frame_mut(buf, data_off, len) else { return false };
    let Some(byte) = bytes.get_mut((bit / 8) as usize) else { return false };
    *byte ^= 1 << (bit % 8);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_only_come_later_where_nothing_has_a_chance() {
        let plain = FaultSetup { delay: Span::from_us(3), ..FaultSetup::NONE };
        assert_eq!(Chances::new(plain, 0).only_later(), Some(plain.delay));
        let tenth = Probability::percent(10).unwrap();
        for faulty in [
            FaultSetup { loss: tenth, ..plain },
            FaultSetup { corruption: tenth, ..plain },
            FaultSetup { duplication: tenth, ..plain },
            FaultSetup { reordering: tenth, ..plain },
        ] {
            assert_eq!(Chances::new(faulty, 0).only_later(), None, "{faulty:?}");
        }
    }
}
