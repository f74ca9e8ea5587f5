//! The deparser: valid headers in emit order, the body, the items after it, slack.
//!
//! Only bytes that differ are written, and the first of them makes the chunk this packet's own. The body stays in
//! place: headers grow and shrink in front of it. It is copied, to another chunk, only when there is no room left in
//! front.

use super::pass::{End, Pass};
use crate::ids::*;
use crate::ir::{AfterBody, BuiltinReason};
use crate::phv::bit;

/// The layout of the emitted packet.
struct Plan {
    headers: usize,
    tail: usize,
    slack: usize,
}

/// Longest pad.
const PAD_MAX: u32 = u16::MAX as u32;

fn too_long() -> End {
    End::Drop(BuiltinReason::TooLong.id())
}

impl Pass<'_> {
    /// Deparses the packet and updates the descriptor. After an error the descriptor still describes the packet as
    /// received.
    pub(super) fn deparse(&mut self) -> Result<(), End> {
        self.plan_tail()?;
        self.update_covered()?;
        let plan = self.plan()?;
        let body_len = self.body_len() as usize;
        let total = plan.headers + body_len + plan.tail + plan.slack;
        let (old_off, old_len) = (usize::from(self.packet.data_off), self.packet.len as usize);
        let mut at = Writer {
            body_at: old_off + self.scalars.body_start as usize,
            valid: old_off..old_off + old_len,
        };
        let chunk = match &self.packet.buf {
            Some(buf) => self.memory.end_max(buf),
            None => self.memory.config().chunk_bytes as usize,
        };
        let room = at.body_at.checked_sub(plan.headers);
        let front = if self.goes_on() { self.program.carried_in_chunk() } else { 0 };
        let may_begin = front..=usize::from(u16::MAX);
        let in_place = room.is_some_and(|off| may_begin.contains(&off) && off + total <= chunk);
        if !in_place {
            self.relocate(&mut at, plan.headers, total, front)?;
        }
        let slack_from = at.body_at + (self.scalars.slack_at - self.scalars.body_start) as usize;
        let slack_to = at.body_at + body_len + plan.tail;
        if slack_from != slack_to && plan.slack > 0 {
            let bytes = self.own_bytes(&at)?;
            bytes.copy_within(slack_from..slack_from + plan.slack, slack_to);
        }
        self.write_headers(&at, plan.headers)?;
        self.write_tail(&at, body_len)?;
        let new_off = at.body_at - plan.headers;
        self.packet.data_off = new_off as u16;
        self.packet.len = total as u32;
        self.describe(plan.headers, body_len);
        Ok(())
    }

    /// Lengths of what follows the body.
    fn plan_tail(&mut self) -> Result<(), End> {
        let program = self.program;
        let mut distance = 0;
        for (n, item) in program.deparser.after.iter().enumerate() {
            let len = match item {
                AfterBody::Header(instance) => self.scratch.phv.header(*instance).len() as u32,
                AfterBody::Pad { bytes, when, .. } => self.pad_len(*bytes, *when)?,
            };
            if len > PAD_MAX {
                return Err(too_long());
            }
            let body_end = self.scalars.body_end;
            let tail = &mut self.scratch.phv.tail[n];
            tail.len = len;
            tail.at_same_distance = tail.received_at.checked_sub(body_end) == Some(distance);
            distance += len;
        }
        Ok(())
    }

    fn plan(&self) -> Result<Plan, End> {
        let headers = self.emit_len() as usize;
        let tail = self.scratch.phv.tail.iter().map(|item| item.len as usize).sum();
        let slack = match self.program.deparser.strip_slack {
            true => 0,
            false => (self.packet.len - self.scalars.slack_at) as usize,
        };
        let total = headers + self.body_len() as usize + tail + slack;
        let longest = self.memory.max_chunk_bytes() as usize;
        if headers > usize::from(u16::MAX) || total > longest {
            return Err(too_long());
        }
        Ok(Plan { headers, tail, slack })
    }

    /// Copies the body and the bytes behind it to a new chunk with as much headroom as possible, `front` bytes at
    /// least.
    fn relocate(
        &mut self,
        at: &mut Writer,
        headers: usize,
        total: usize,
        front: usize,
    ) -> Result<(), End> {
        let config = self.memory.config();
        let rest = at.valid.end - at.body_at;
        let need = total.max(headers + rest);
        let longest = self.memory.max_chunk_bytes() as usize;
        let spare = longest.checked_sub(need).ok_or_else(too_long)?;
        // The offset of a packet has 16 bits; `headers` is no more than that.
        let most = usize::from(u16::MAX) - headers;
        let headroom = spare.min(front.max(config.headroom_bytes as usize)).min(most);
        if headroom < front {
            return Err(too_long());
        }
        let body_at = headers + headroom;
        let no_memory = || End::Drop(BuiltinReason::NoMemory.id());
        let mut new = self.memory.alloc_to(headroom + need).ok_or_else(no_memory)?;
        let old = self.packet.buf.take();
        if let (Some(old), Some(to)) = (&old, self.memory.bytes_mut(&mut new)) {
            let from = self.memory.bytes(old).get(at.body_at..at.valid.end);
            if let (Some(to), Some(from)) = (to.get_mut(body_at..body_at + rest), from) {
                to.copy_from_slice(from);
            }
        }
        if let Some(old) = old {
            self.memory.free(old);
        }
        self.packet.buf = Some(new);
        // The bytes in front of the body are no longer in the chunk, and the descriptor must not include them if a
        // later step fails: from here on the packet begins with the body.
        self.packet.data_off = body_at as u16;
        self.packet.len = rest as u32;
        self.scalars.body_end -= self.scalars.body_start;
        self.scalars.slack_at -= self.scalars.body_start;
        for item in &mut self.scratch.phv.tail {
            item.received_at = item.received_at.saturating_sub(self.scalars.body_start);
        }
        self.scalars.body_start = 0;
        *at = Writer { body_at, valid: body_at..body_at + rest };
        Ok(())
    }

    /// The chunk's bytes for writing, after making them this packet's own.
    fn own_bytes(&mut self, at: &Writer) -> Result<&mut [u8], End> {
        let no_memory = || End::Drop(BuiltinReason::NoMemory.id());
        let buf = self.packet.buf.as_mut().ok_or_else(no_memory)?;
        self.memory.make_unique(buf, at.valid.clone()).map_err(|_| no_memory())?;
        self.memory.bytes_mut(buf).ok_or_else(no_memory)
    }

    /// True when these bytes are already in the packet at this place of the chunk.
    fn is_there(&self, at: &Writer, place: usize, bytes: &[u8]) -> bool {
        let end = place + bytes.len();
        let Some(buf) = &self.packet.buf else { return false };
        place >= at.valid.start
            && end <= at.valid.end
            && self.memory.bytes(buf).get(place..end) == Some(bytes)
    }

    fn write_header(&mut self, at: &Writer, place: usize, instance: InstanceId) -> Result<(), End> {
        // Most headers of a program are not in a packet. Comparing zero bytes is a call, which takes 20 ns where a
        // masked load at no address is suppressed by microcode.
        let header = self.scratch.phv.header(instance);
        if header.is_empty() || self.is_there(at, place, header) {
            return Ok(());
        }
        self.own_bytes(at)?;
        let Some(buf) = &mut self.packet.buf else { return Ok(()) };
        let header = self.scratch.phv.header(instance);
        let to = self.memory.bytes_mut(buf).and_then(|b| b.get_mut(place..place + header.len()));
        to.ok_or_else(too_long)?.copy_from_slice(header);
        Ok(())
    }

    fn write_headers(&mut self, at: &Writer, headers: usize) -> Result<(), End> {
        let mut place = at.body_at - headers;
        for instance in self.engine.emitted(self.scratch.phv.valid) {
            self.write_header(at, place, instance)?;
            place += self.scratch.phv.header(instance).len();
        }
        Ok(())
    }

    fn write_tail(&mut self, at: &Writer, body_len: usize) -> Result<(), End> {
        let program = self.program;
        let mut place = at.body_at + body_len;
        for (n, item) in program.deparser.after.iter().enumerate() {
            let tail = self.scratch.phv.tail[n];
            let end = place + tail.len as usize;
            match item {
                AfterBody::Header(instance) => self.write_header(at, place, *instance)?,
                AfterBody::Pad { fill, .. } if !tail.keeps() && tail.len > 0 => {
                    let bytes = self.own_bytes(at)?;
                    bytes.get_mut(place..end).ok_or_else(too_long)?.fill(*fill);
                }
                AfterBody::Pad { .. } => {}
            }
            place = end;
        }
        Ok(())
    }

    /// Writes to the descriptor what egress needs to locate headers and body, after truncating the packet if the
    /// program requested it.
    fn describe(&mut self, mut headers: usize, body_len: usize) {
        let total = self.packet.len as usize;
        let mut valid = self.scratch.phv.valid & (self.engine.emit_mask | self.engine.after_mask);
        let mut body_end = headers + body_len;
        let cut = total.min(self.scalars.truncate_to as usize);
        if cut < total {
            self.packet.len = cut as u32;
            if cut < headers {
                let mut kept = 0;
                let mut whole = true;
                for instance in self.engine.emitted(valid) {
                    let len = self.scratch.phv.header(instance).len();
                    whole &= kept + len <= cut;
                    if whole {
                        kept += len;
                    } else {
                        valid &= !bit(instance);
                    }
                }
                headers = kept;
            }
            body_end = body_end.min(cut);
            valid &= !self.cut_trailers(headers.max(body_end), cut);
        }
        self.packet.valid = valid;
        self.packet.body_off = headers as u16;
        self.packet.body_len = body_end.saturating_sub(headers) as u32;
    }

    /// The trailers that are no longer whole, or that follow a truncated body.
    fn cut_trailers(&self, body_end: usize, cut: usize) -> u64 {
        let (mut end, mut gone) = (body_end, 0);
        for (item, tail) in self.program.deparser.after.iter().zip(&self.scratch.phv.tail) {
            end += tail.len as usize;
            if let AfterBody::Header(instance) = item
                && end > cut
            {
                gone |= bit(*instance);
            }
        }
        gone
    }
}

/// The start of the body in the chunk, and the range of the chunk that is the packet.
struct Writer {
    body_at: usize,
    valid: std::ops::Range<usize>,
}
