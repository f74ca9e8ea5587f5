//! The parser, and its counterpart at the start of egress that finds the headers again.

use super::pass::{End, Pass};
use crate::ids::*;
use crate::ir::{AfterBody, BuiltinError, ParserOp, Pattern, Target, Transition};
use crate::phv::bit;
use crate::trace::Event;

fn reject(error: BuiltinError) -> End {
    End::Reject(error.id())
}

impl<'a> Pass<'a> {
    /// Walks the parser graph, then finds body, trailers and slack. Ends with [`End::Reject`] on a parser error; the
    /// headers before it stay valid.
    pub(super) fn parse(&mut self) -> Result<(), End> {
        self.parse_from(StateId(0))
    }

    /// The same from this state.
    pub(super) fn parse_from(&mut self, first: StateId) -> Result<(), End> {
        let parser = &self.program.parser;
        self.scratch.phv.locals.resize(parser.locals.len(), 0);
        let walked = self.walk_states(first);
        self.scratch.phv.locals.clear();
        let framed = self.find_body();
        walked.and(framed)
    }

    fn walk_states(&mut self, first: StateId) -> Result<(), End> {
        let parser = &self.program.parser;
        let mut at = Target::State(first);
        for _ in 0..parser.max_states {
            let id = match at {
                Target::State(id) => id,
                Target::Accept => return Ok(()),
                Target::Reject(error) => return Err(End::Reject(error)),
            };
            // A program without a parser has no state: nothing is a header.
            let Some(state) = parser.states.get(id) else { return Ok(()) };
            self.trace(|_| Event::State(id));
            for op in &state.ops {
                self.parser_op(op)?;
            }
            if !self.scalars.cursor_bits.is_multiple_of(8) {
                return Err(reject(BuiltinError::HeaderLength));
            }
            at = self.transition(&state.next)?;
        }
        match at {
            Target::Accept => Ok(()),
            Target::Reject(error) => Err(End::Reject(error)),
            Target::State(_) => Err(reject(BuiltinError::TooManyStates)),
        }
    }

    pub(super) fn parser_op(&mut self, op: &'a ParserOp) -> Result<(), End> {
        match op {
            ParserOp::Extract(instance) => self.extract_next_bytes(*instance),
            ParserOp::ExtractNext(stack) => {
                let free = self.stack(*stack).find(|i| !self.scratch.phv.is_valid(*i));
                self.extract_next_bytes(free.ok_or(reject(BuiltinError::StackOverflow))?)
            }
            ParserOp::ExtractAt(instance, offset) => {
                let at = self.eval(*offset)?;
                match self.extract(*instance, at as usize, self.packet.len as usize) {
                    Err(_) if self.is_cut_off(at + u128::from(self.fixed_bytes(*instance))) => {
                        Ok(())
                    }
                    extracted => extracted.map(|_| ()),
                }
            }
            ParserOp::SetValid(instance) => {
                if !self.scratch.phv.is_valid(*instance) {
                    let header = &self.program.headers[self.program.instances[*instance].header];
                    self.scratch.phv.set_zero(*instance, header.fixed_bytes);
                }
                self.trace(|pass| Event::Headers { valid: pass.scratch.phv.valid });
                Ok(())
            }
            ParserOp::SetInvalid(instance) => {
                self.scratch.phv.clear(*instance);
                self.trace(|pass| Event::Headers { valid: pass.scratch.phv.valid });
                Ok(())
            }
            ParserOp::Advance(bits) => {
                let to = u128::from(self.scalars.cursor_bits) + self.eval(*bits)?;
                if to > u128::from(self.packet.len) * 8 {
                    return Err(reject(BuiltinError::PacketTooShort));
                }
                self.scalars.cursor_bits = to as u64;
                Ok(())
            }
            ParserOp::BodyEnd(offset) => {
                let end = self.eval(*offset)?;
                if end > u128::from(self.packet.len) && !self.is_cut_off(end) {
                    return Err(reject(BuiltinError::BodyEnd));
                }
                self.scalars.body_end = end.min(self.packet.len.into()) as u32;
                Ok(())
            }
            ParserOp::Set(to, value) => {
                let value = self.eval(*value)?;
                self.assign(to, value, None)
            }
            ParserOp::Verify(condition, error) => match self.eval(*condition)? {
                1 => Ok(()),
                _ => Err(End::Reject(*error)),
            },
        }
    }

    /// True for the end of something that the packet had, and that a capture left out: no error of the packet.
    fn is_cut_off(&self, end: u128) -> bool {
        let len = u128::from(self.packet.len);
        end > len && end <= len + u128::from(self.scratch.missing)
    }

    fn fixed_bytes(&self, instance: InstanceId) -> u32 {
        self.program.headers[self.program.instances[instance].header].fixed_bytes
    }

    fn extract_next_bytes(&mut self, instance: InstanceId) -> Result<(), End> {
        if !self.scalars.cursor_bits.is_multiple_of(8) {
            return Err(reject(BuiltinError::HeaderLength));
        }
        let at = (self.scalars.cursor_bits / 8) as usize;
        let len = self.extract(instance, at, self.packet.len as usize)?;
        self.scalars.cursor_bits += len as u64 * 8;
        Ok(())
    }

    /// Reads a header at a byte offset, all of it before `limit`; returns its length. A header whose
    /// extraction fails is not valid.
    pub(super) fn extract(
        &mut self,
        instance: InstanceId,
        at: usize,
        limit: usize,
    ) -> Result<usize, End> {
        let too_short = || reject(BuiltinError::PacketTooShort);
        let declared = &self.program.instances[instance];
        let header = &self.program.headers[declared.header];
        let fixed = header.fixed_bytes as usize;
        self.scratch.phv.clear(instance);
        let frame = match self.packet.buf.as_ref() {
            Some(buf) => self.memory.frame(buf, self.packet.data_off, self.packet.len),
            None => &[],
        };
        let frame = frame.get(..limit).unwrap_or(frame);
        let bytes = |from: usize, len: usize| frame.get(from..from.checked_add(len)?);
        self.scratch.phv.append(instance, bytes(at, fixed).ok_or_else(too_short)?);
        let mut len = fixed;
        if let Some(variable_bits) = declared.variable_bits {
            // The expression reads the fields just copied.
            self.scratch.phv.valid |= bit(instance);
            let bits = self.eval(variable_bits);
            self.scratch.phv.valid &= !bit(instance);
            let bits = bits?;
            let longest = u128::from(header.max_bytes - header.fixed_bytes) * 8;
            if bits % 8 != 0 || bits > longest {
                return Err(reject(BuiltinError::HeaderLength));
            }
            let more = (bits / 8) as usize;
            self.scratch.phv.append(instance, bytes(at + fixed, more).ok_or_else(too_short)?);
            len += more;
        }
        self.scratch.phv.set_received(instance, at as u32);
        self.trace(|pass| Event::Extract {
            instance,
            at: at as u32,
            header: pass.scratch.phv.header(instance).to_vec(),
        });
        Ok(len)
    }

    fn transition(&mut self, next: &'a Transition) -> Result<Target, End> {
        let (keys, cases, default) = match next {
            Transition::To(target) => return Ok(*target),
            Transition::Select { keys, cases, default } => (keys, cases, *default),
        };
        let base = self.scratch.phv.locals.len();
        for key in keys {
            let value = self.eval(*key)?;
            self.scratch.phv.locals.push(value);
        }
        let values = &self.scratch.phv.locals[base..];
        let hit = cases.iter().find(|case| {
            case.patterns.iter().zip(values).all(|(pattern, key)| self.matches(pattern, *key))
        });
        let to = hit.map_or(default, |case| case.to);
        self.trace(|pass| Event::Select { keys: pass.scratch.phv.locals[base..].to_vec(), to });
        self.scratch.phv.locals.truncate(base);
        Ok(to)
    }

    fn matches(&self, pattern: &Pattern, key: u128) -> bool {
        match pattern {
            Pattern::Any => true,
            Pattern::Value(value) => key == *value,
            Pattern::Mask { value, mask } => key & mask == *value,
            Pattern::Range { low, high } => (*low..=*high).contains(&key),
            Pattern::Set(set) => self.state.value_set_contains(*set, key),
        }
    }

    /// Finds the start and end of the body, and the items behind it. The body ends at the declared end or where the
    /// first received trailer starts. When that is before the cursor, these trailers are not valid, and the body goes
    /// to the end of the packet. A trailer that the parser made valid has no place in the packet.
    pub(super) fn find_body(&mut self) -> Result<(), End> {
        // A half-moved cursor (an error inside a state) points into a byte that stays in the body.
        self.scalars.body_start = (self.scalars.cursor_bits / 8) as u32;
        let trailers = self.scratch.phv.received & self.engine.after_mask;
        for instance in instances(trailers) {
            self.scalars.body_end =
                self.scalars.body_end.min(self.scratch.phv.received_at(instance));
        }
        let fits = self.scalars.body_start <= self.scalars.body_end;
        if !fits {
            self.scratch.phv.valid &= !trailers;
            self.scratch.phv.received &= !trailers;
            self.scalars.body_end = self.packet.len;
        }
        self.find_trailers(|pass, instance, at| {
            let phv = &pass.scratch.phv;
            match phv.is_received(instance) {
                true => at.max(phv.received_at(instance) + phv.header(instance).len() as u32),
                false => at,
            }
        })?;
        if fits { Ok(()) } else { Err(reject(BuiltinError::BodyEnd)) }
    }

    /// Records the bytes of each item behind the body; `header_end` returns the end of a valid trailer expected at an
    /// offset. A pad was received where it ends before the trailers behind it: bytes of a trailer are no pad.
    fn find_trailers(
        &mut self,
        header_end: impl Fn(&mut Self, InstanceId, u32) -> u32,
    ) -> Result<(), End> {
        let program = self.program;
        let mut at = self.scalars.body_end;
        for (n, item) in program.deparser.after.iter().enumerate() {
            let mut len = 0;
            match item {
                AfterBody::Header(instance) if self.scratch.phv.is_valid(*instance) => {
                    len = header_end(self, *instance, at).saturating_sub(at);
                }
                AfterBody::Header(_) => {}
                AfterBody::Pad { bytes, when, .. } => {
                    let pad = self.pad_len(*bytes, *when)?;
                    let behind = program.deparser.after[n + 1..].iter();
                    let limit = behind.filter_map(|item| self.received_trailer(item)).min();
                    let limit = limit.unwrap_or(self.packet.len);
                    if u64::from(at) + u64::from(pad) <= u64::from(limit) {
                        len = pad;
                    }
                }
            }
            self.scratch.phv.tail[n].received_at = at;
            self.scratch.phv.tail[n].received_len = len;
            at += len;
        }
        self.scalars.slack_at = at.min(self.packet.len);
        Ok(())
    }

    /// The offset of a trailer that has been read.
    fn received_trailer(&self, item: &AfterBody) -> Option<u32> {
        let phv = &self.scratch.phv;
        match item {
            AfterBody::Header(instance) if phv.is_received(*instance) => {
                Some(phv.received_at(*instance))
            }
            _ => None,
        }
    }

    /// Bytes of a pad at present.
    pub(super) fn pad_len(&self, bytes: ExprId, when: Option<ExprId>) -> Result<u32, End> {
        if let Some(when) = when
            && self.eval(when)? == 0
        {
            return Ok(0);
        }
        Ok(self.eval(bytes)? as u32)
    }

    /// Start of egress: finds the headers by the validity mask that ingress left. A header in another place than
    /// expected (its own fields give another length than it was emitted with) ends the walk: it and the following ones
    /// are not valid, and their bytes belong to the body.
    pub(super) fn resume(&mut self) -> Result<(), End> {
        let program = self.program;
        let (mask, body_off) = (self.packet.valid, usize::from(self.packet.body_off));
        let limit = body_off.min(self.packet.len as usize);
        let mut at = 0;
        for instance in self.engine.emitted(mask) {
            match self.extract(instance, at, limit) {
                Ok(len) => at += len,
                Err(_) => break,
            }
        }
        self.scalars.body_start = at as u32;
        let end = u64::from(self.packet.body_off) + u64::from(self.packet.body_len);
        self.scalars.body_end = end.min(self.packet.len.into()) as u32;
        self.scalars.body_start = self.scalars.body_start.min(self.scalars.body_end);
        let trailers = mask & self.engine.after_mask;
        for instance in instances(trailers) {
            // Until it is read a trailer is valid and all zeros.
            let header = &program.headers[program.instances[instance].header];
            self.scratch.phv.set_zero(instance, header.fixed_bytes);
        }
        self.find_trailers(|pass, instance, at| {
            let len = pass.extract(instance, at as usize, pass.packet.len as usize);
            at + len.unwrap_or(0) as u32
        })
    }
}

/// The instances of a mask.
pub(super) fn instances(mut mask: u64) -> impl Iterator<Item = InstanceId> {
    std::iter::from_fn(move || {
        let next = (mask != 0).then(|| InstanceId(mask.trailing_zeros()));
        mask &= mask.wrapping_sub(1);
        next
    })
}
