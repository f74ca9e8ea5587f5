//! The `generators:` section: frames that the device feeds into its own ingress, by its clock.

use serde::Deserialize;
use wireyard_tables::time::Span;

use crate::ports::PortNumber;
use crate::units::Interval;

/// Shortest and longest frame, without FCS.
const FRAME_BYTES: std::ops::RangeInclusive<usize> = 14..=9216;

/// One generator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeneratorSection {
    /// The ingress port of the frames.
    pub port: PortNumber,
    /// The frame without FCS, in hexadecimal digits; blanks are ignored.
    pub frame: FrameHex,
    /// Time from one frame to the next.
    pub period: Period,
    /// Number of frames; absent: as long as the device runs.
    pub count: Option<u64>,
    /// Time of the first frame (default: when the device starts).
    pub start: Option<Interval>,
}

/// Bytes in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct FrameHex(Box<[u8]>);

impl FrameHex {
    /// The frame.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<String> for FrameHex {
    type Error = String;

    fn try_from(text: String) -> Result<FrameHex, String> {
        let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        if let Some(other) = digits.iter().find(|c| !c.is_ascii_hexdigit()) {
            return Err(format!("`{other}` is no hexadecimal digit"));
        }
        if digits.len() % 2 == 1 {
            return Err(format!("{} digits are no whole number of bytes", digits.len()));
        }
        let value = |c: char| c.to_digit(16).unwrap_or(0) as u8;
        let bytes: Box<[u8]> =
            digits.chunks_exact(2).map(|two| value(two[0]) << 4 | value(two[1])).collect();
        if !FRAME_BYTES.contains(&bytes.len()) {
            let (least, most) = (FRAME_BYTES.start(), FRAME_BYTES.end());
            let found = bytes.len();
            return Err(format!("a frame has {least} to {most} bytes without FCS, not {found}"));
        }
        Ok(FrameHex(bytes))
    }
}

/// A time above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Interval")]
pub struct Period(Span);

impl Period {
    /// The time.
    pub fn span(self) -> Span {
        self.0
    }
}

impl TryFrom<Interval> for Period {
    type Error = String;

    fn try_from(interval: Interval) -> Result<Period, String> {
        match interval.span() {
            Span::ZERO => Err("a period is above zero".into()),
            span => Ok(Period(span)),
        }
    }
}
