//! The CRCs of the device's own frames: the declared coverage, converted to one mask at start.
//!
//! A declaration lists headers with masked fields, then the rest of the packet. For a fixed stack of headers that is a
//! run of bytes with a mask of ones over it, followed by unmasked bytes.

use std::ops::Range;

use wireyard_pipeline::externs::crc::CrcEngine;
use wireyard_pipeline::ir::Covered;

use super::layout::{LayoutError, Layouts, Stack};

/// Length of the leading ones and the longest headers covered, with the BTH, rounded up to whole registers.
const HEAD_BYTES_MAX: usize = 80;

/// A CRC over frames that begin with one stack of headers.
#[derive(Debug)]
pub(super) struct CrcPlan {
    engine: CrcEngine,
    /// Number of leading bytes of ones.
    ones: usize,
    /// Covered bytes of the frame to which the mask applies.
    masked: Range<usize>,
    /// Bytes among the masked ones that are not covered: their offset in the frame, and their number.
    gap: Option<(usize, usize)>,
    /// ORed over the leading ones and the masked bytes.
    mask: [u8; HEAD_BYTES_MAX],
}

impl CrcPlan {
    /// The plan of the CRC called `name` for frames that begin with `stack`.
    ///
    /// # Errors
    /// The declaration covers something other than a run of headers and the rest.
    pub(super) fn new(
        layouts: &Layouts,
        name: &str,
        stack: &Stack<'_>,
    ) -> Result<CrcPlan, LayoutError> {
        let crc = layouts.crc(name)?;
        let wrong = |problem| LayoutError::Crc { crc: name.to_owned(), problem };
        let (mut ones, mut from, mut mask) = (0, None, Vec::new());
        for covered in &crc.over {
            match covered {
                Covered::Ones(bytes) if from.is_none() => ones += *bytes as usize,
                Covered::Header { instance, ones } => {
                    let Some(place) = stack.place_of(*instance) else { continue };
                    let start = *from.get_or_insert(place.start);
                    if start + mask.len() != place.start {
                        return Err(wrong("covers no unbroken run of headers"));
                    }
                    mask.extend_from_slice(ones);
                    mask.resize(place.end - start, 0);
                }
                Covered::Body | Covered::After(_) => {}
                _ => return Err(wrong("covers more than headers and what follows them")),
            }
        }
        let from = from.ok_or_else(|| wrong("covers no header of this frame"))?;
        if ones + mask.len() > HEAD_BYTES_MAX {
            return Err(wrong("covers headers of more bytes than those of this device have"));
        }
        let masked = from..from + mask.len();
        let mut whole = [0xff; HEAD_BYTES_MAX];
        whole[ones..ones + mask.len()].copy_from_slice(&mask);
        Ok(CrcPlan { engine: CrcEngine::new(crc.params), ones, masked, gap: None, mask: whole })
    }

    /// The plan for frames with `bytes` additional bytes at `at`, which are not covered.
    pub(super) fn around(self, at: usize, bytes: usize) -> CrcPlan {
        CrcPlan { gap: (bytes > 0).then_some((at, bytes)), ..self }
    }

    /// The covered bytes with the bytes before and after them, as a copy of fixed length; `None` unless the frame has
    /// enough bytes on both sides, as a full packet behind an Ethernet header has.
    #[inline]
    fn fixed_head(&self, frame: &[u8]) -> Option<[u8; HEAD_BYTES_MAX]> {
        let from = self.masked.start.checked_sub(self.ones)?;
        frame.get(from..from + HEAD_BYTES_MAX)?.try_into().ok()
    }

    /// The value of the CRC's field for a frame that ends where its coverage ends.
    pub(super) fn value(&self, frame: &[u8]) -> u64 {
        if let Some((at, bytes)) = self.gap {
            return self.value_around(frame, at, bytes).unwrap_or(0);
        }
        let behind = frame.get(self.masked.start..).unwrap_or_default();
        let Some((covered, body)) = behind.split_at_checked(self.masked.len()) else { return 0 };
        let end = self.ones + covered.len();
        let mut head = self.fixed_head(frame).unwrap_or_else(|| {
            let mut head = [0; HEAD_BYTES_MAX];
            head[self.ones..end].copy_from_slice(covered);
            head
        });
        head.iter_mut().zip(&self.mask).for_each(|(byte, ones)| *byte |= ones);
        self.engine.field_value(&[&head[..end], body])
    }

    /// Like [`Self::value`], without the bytes of the gap; `None` for a frame that ends before the end of the masked
    /// bytes.
    fn value_around(&self, frame: &[u8], at: usize, bytes: usize) -> Option<u64> {
        let front = frame.get(self.masked.start..at)?;
        let behind = frame.get(at + bytes..)?;
        let (back, body) = behind.split_at_checked(self.masked.len().checked_sub(front.len())?)?;
        let middle = self.ones + front.len();
        let end = middle + back.len();
        let mut head = [0; HEAD_BYTES_MAX];
        head[self.ones..middle].copy_from_slice(front);
        head[middle..end].copy_from_slice(back);
        head.iter_mut().zip(&self.mask).for_each(|(byte, ones)| *byte |= ones);
        Some(self.engine.field_value(&[&head[..end], body]))
    }
}
