//! The part of a file that a diagnostic shows.
//!
//! A file may have 64 MiB, all of it in one line, and a hundred diagnostics. So the renderer gets only the lines of the
//! labels, a long line as a window around its label, and the lines of a file are counted once.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::{Files, safe};
use crate::ids::FileId;
use crate::ir::SourceSpan;

/// Longest line that is shown whole.
const LINE_BYTES_MAX: usize = 500;
/// Window of a longer line, and its part before the label.
const WINDOW_BYTES: usize = 240;
const BEFORE_BYTES: usize = 60;
/// Longest span that is underlined whole.
const SPAN_BYTES_MAX: usize = 2000;
/// Labels further away from the caret get an excerpt of their own.
pub(super) const NEAR_BYTES: usize = 32 << 10;

/// Where the lines of files begin, computed on first use.
pub(super) struct Lines<'f> {
    files: &'f Files,
    starts: BTreeMap<FileId, Vec<u32>>,
    /// The last column that was computed: file, line, offset and column, both from 0.
    last: (FileId, usize, usize, usize),
}

impl<'f> Lines<'f> {
    pub(super) fn new(files: &'f Files) -> Self {
        Lines { files, starts: BTreeMap::new(), last: (FileId(0), 0, 0, 0) }
    }

    fn text(&self, file: FileId) -> &'f str {
        self.files.get(file).map_or("", |file| file.text.as_str())
    }

    fn starts(&mut self, file: FileId) -> &[u32] {
        let text = self.text(file);
        self.starts.entry(file).or_insert_with(|| {
            let ends = text.bytes().zip(1u32..).filter(|(byte, _)| *byte == b'\n');
            std::iter::once(0).chain(ends.map(|(_, next)| next)).collect()
        })
    }

    /// The number of the line of an offset, from 0.
    fn line(&mut self, file: FileId, offset: usize) -> usize {
        let starts = self.starts(file);
        starts.partition_point(|start| *start as usize <= offset).saturating_sub(1)
    }

    /// The bytes of a line without its end.
    fn line_bytes(&mut self, file: FileId, line: usize) -> Range<usize> {
        let end = self.text(file).len();
        let starts = self.starts(file);
        let at = |line: usize| starts.get(line).map(|start| *start as usize);
        at(line).unwrap_or(end)..at(line + 1).map_or(end, |next| next - 1)
    }

    /// Line and column of an offset, both from 1; the column counts characters.
    pub(super) fn line_column(&mut self, file: FileId, offset: u32) -> (usize, usize) {
        let text = self.text(file);
        let offset = floor(text, offset as usize);
        let line = self.line(file, offset);
        let (last_file, last_line, at, column) = self.last;
        // Offsets ascend, so that a long line is counted only once.
        let (from, before) = match (last_file, last_line) == (file, line) && at <= offset {
            true => (at, column),
            false => (self.line_bytes(file, line).start, 0),
        };
        let column = before + text.get(from..offset).unwrap_or_default().chars().count();
        self.last = (file, line, offset, column);
        (line + 1, column + 1)
    }

    /// The bytes of a span, made safe for a text that it may not belong to: inside the text, on character boundaries,
    /// and no longer than is useful to underline.
    pub(super) fn range(&self, span: SourceSpan) -> Range<usize> {
        let text = self.text(span.file);
        let start = floor(text, span.start as usize);
        let end = floor(text, span.end as usize).clamp(start, start + SPAN_BYTES_MAX);
        start..floor(text, end)
    }

    /// The excerpt of a file for these places, the first of which is the most important.
    pub(super) fn excerpt(&mut self, file: FileId, places: &[Range<usize>]) -> Excerpt<'f> {
        let text = self.text(file);
        let from = places.iter().map(|place| place.start).min().unwrap_or(0);
        let to = places.iter().map(|place| place.end).max().unwrap_or(0);
        let (mut first, last) = (self.line(file, from), self.line(file, to));
        if self.line_bytes(file, first).is_empty() {
            // The renderer requires text: an empty line is shown with the line before it.
            first = first.saturating_sub(1);
        }
        let lines: Vec<Range<usize>> =
            (first..=last).map(|line| self.line_bytes(file, line)).collect();
        let whole = self.line_bytes(file, first).start..self.line_bytes(file, last + 1).start;
        if lines.iter().all(|line| line.len() <= LINE_BYTES_MAX) {
            let shift = |place: &Range<usize>| place.start - whole.start..place.end - whole.start;
            let places = places.iter().map(shift).collect();
            let text = safe::masked(text.get(whole).unwrap_or_default());
            return Excerpt { text, first_line: first + 1, places, is_cut: false };
        }
        let mut cut = Cut { text, out: String::new(), pieces: Vec::new() };
        lines.into_iter().for_each(|line| cut.line(line, places));
        let places = places.iter().map(|place| cut.at(place.start)..cut.at(place.end)).collect();
        let text = Cow::Owned(safe::masked(&cut.out).into_owned());
        Excerpt { text, first_line: first + 1, places, is_cut: true }
    }
}

/// Lines of a file with the places in them.
pub(super) struct Excerpt<'f> {
    pub(super) text: Cow<'f, str>,
    /// Number of its first line, from 1.
    pub(super) first_line: usize,
    /// The places, as bytes of the text.
    pub(super) places: Vec<Range<usize>>,
    /// A line is a window: its columns are not those of the file.
    pub(super) is_cut: bool,
}

impl Excerpt<'_> {
    /// The column of the first place in this text, from 1.
    pub(super) fn column(&self) -> usize {
        let before = self.places.first().and_then(|place| self.text.get(..place.start));
        let line = before.unwrap_or_default().rsplit('\n').next().unwrap_or_default();
        line.chars().count() + 1
    }
}

/// Lines of which the long ones are windows.
struct Cut<'t> {
    text: &'t str,
    out: String,
    /// The ranges that were taken of the text, and their offsets now.
    pieces: Vec<(Range<usize>, usize)>,
}

impl Cut<'_> {
    fn line(&mut self, line: Range<usize>, places: &[Range<usize>]) {
        let mut taken = line.clone();
        if line.len() > LINE_BYTES_MAX {
            let here = |place: &&Range<usize>| place.start <= line.end && line.start <= place.end;
            let start = places.iter().find(here).map_or(line.start, |place| place.start);
            let start = start.clamp(line.start, line.end);
            taken.start = floor(self.text, start.saturating_sub(BEFORE_BYTES).max(line.start));
            taken.end = floor(self.text, (taken.start + WINDOW_BYTES).min(line.end));
        }
        let dots = |missing: bool| if missing { "..." } else { "" };
        self.out.push_str(dots(taken.start > line.start));
        let at = self.out.len();
        self.out.push_str(self.text.get(taken.clone()).unwrap_or_default());
        self.out.push_str(dots(taken.end < line.end));
        self.out.push('\n');
        self.pieces.push((taken, at));
    }

    /// Where an offset of the file is now; an offset that was left out is at the nearest end of its window.
    fn at(&self, offset: usize) -> usize {
        let before = self.pieces.iter().take_while(|(taken, _)| taken.start <= offset).last();
        let Some((taken, at)) = before.or(self.pieces.first()) else { return 0 };
        at + offset.clamp(taken.start, taken.end) - taken.start
    }
}

/// The offset, or the next before it that is in the text and between two characters.
fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}
