//! Paths through the parser: the steps of each state, and the facts there.

use super::checksums::{self, Followed, Verified};
use super::edits;
use super::facts::fields_of;
use super::validity::KnownValidity;
use super::{Control, EgressCopy, Form, HEADER_SETS_MAX, Tail};
use crate::ids::*;
use crate::ir::{Half, LValue, ParserOp, Pattern, Program, Target, Transition};
use crate::jit::error::NotSupported;
use crate::packet::READABLE_BEHIND_BYTES;
use crate::phv::bit;

/// The facts on a path.
#[derive(Clone, Debug)]
pub(in crate::jit) struct Path {
    /// Headers that are valid at the start of the control.
    pub(in crate::jit) valid: u64,
    /// Headers of the received packet.
    pub(in crate::jit) received: u64,
    /// The offset of each of them.
    pub(in crate::jit) at: Vec<u32>,
    /// In the order in which they are in the packet.
    pub(in crate::jit) order: Vec<InstanceId>,
    /// Bytes of all of them.
    pub(in crate::jit) cursor: u32,
    /// Bytes that the packet has at least.
    pub(in crate::jit) checked: u32,
    /// Fields whose value is known, of those that this control never writes.
    pub(in crate::jit) facts: Vec<((InstanceId, FieldId), u128)>,
    /// Headers whose validity the control changes, and their known validity.
    pub(in crate::jit) mutable: u64,
    pub(in crate::jit) validity: KnownValidity,
    /// States visited.
    depth: u32,
    /// Elements of stacks read.
    elements: u32,
}

impl Path {
    /// A path without facts, except that the packet has at least `checked` bytes.
    pub(super) fn new(program: &Program, checked: u32) -> Path {
        Path {
            valid: 0,
            received: 0,
            at: vec![0; program.instances.len()],
            order: Vec::new(),
            cursor: 0,
            checked,
            facts: Vec::new(),
            mutable: 0,
            validity: KnownValidity::default(),
            depth: 0,
            elements: 0,
        }
    }

    /// The same path after a control that left these headers valid.
    pub(in crate::jit) fn left_with(&self, valid: u64) -> Path {
        Path { valid, mutable: 0, ..self.clone() }
    }

    /// Whether a header is valid; `None` where that is not known.
    pub(in crate::jit) fn is_valid(&self, instance: InstanceId) -> Option<bool> {
        match self.mutable & bit(instance) {
            0 => Some(self.valid & bit(instance) != 0),
            _ => self.validity.of(instance),
        }
    }

    /// The value of a field of a valid header.
    pub(in crate::jit) fn known_field(&self, instance: InstanceId, field: FieldId) -> Option<u128> {
        let known = self.facts.iter().find(|(known, _)| *known == (instance, field));
        known.map(|(_, value)| *value)
    }
}

/// How far a header may be read before the packet's length is checked: every chunk is followed by at least as much
/// memory.
const AHEAD_MAX: u32 = READABLE_BEHIND_BYTES as u32 / 2;

/// Why packets of this path run generic code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jit) enum Detour {
    /// The parser ends with an error.
    ParserError,
    /// More states than the parser may visit.
    TooManyStates,
    /// More elements of stacks than a path has.
    StackElements,
    /// A header is extracted that is already valid: the previous one leaves the packet, while its bytes remain in front
    /// of others.
    ExtractedTwice,
    /// A variable part is not empty.
    VariablePart,
    /// Headers are emitted in another order than extracted.
    Order,
    /// A checksum is in a header that may be added, or covers headers that may be added or removed.
    ChecksumOfChanges,
    /// More sets of headers may be emitted than [`HEADER_SETS_MAX`].
    HeaderSets,
}

impl std::fmt::Display for Detour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Detour::ParserError => "parser error",
            Detour::TooManyStates => "more states than the parser may visit",
            Detour::StackElements => "more stack elements than a path has",
            Detour::ExtractedTwice => "a header is extracted twice",
            Detour::VariablePart => "a variable part that is not empty",
            Detour::Order => "headers leave in another order than they came",
            Detour::ChecksumOfChanges => "a checksum over headers that come and go",
            Detour::HeaderSets => {
                return write!(f, "more than {HEADER_SETS_MAX} sets of headers may leave");
            }
        })
    }
}

/// The continuation of a path.
#[derive(Debug)]
pub(in crate::jit) enum Way {
    /// A parser state.
    State(Box<Visit>),
    /// The end of the parser.
    Leaf(Box<Leaf>),
    /// Generic code.
    Detour(Detour),
}

/// A state on a path.
#[derive(Debug)]
pub(in crate::jit) struct Visit {
    pub(in crate::jit) state: StateId,
    /// The facts at the start of the state.
    pub(in crate::jit) path: Path,
    pub(in crate::jit) steps: Vec<Step>,
    /// The facts after the steps.
    pub(in crate::jit) after: Path,
    /// The default and then each other target of the state, see [`outcomes`]; or the steps themselves end in generic
    /// code.
    pub(in crate::jit) next: Result<Vec<Way>, Detour>,
}

/// A step of a state on a path.
#[derive(Debug)]
pub(in crate::jit) enum Step {
    Extract(Extract),
    Set(LValue, ExprId),
    /// Generic code unless this is true; the facts after it.
    Verify(ExprId, Path),
}

/// A header at the cursor.
#[derive(Debug)]
pub(in crate::jit) struct Extract {
    /// The packet must first have this many bytes.
    pub(in crate::jit) need_bytes: Option<u32>,
    pub(in crate::jit) instance: InstanceId,
    /// Generic code unless its variable part is empty.
    pub(in crate::jit) empty: EmptyPart,
    /// The facts with the header.
    pub(in crate::jit) after: Path,
}

/// The test for an empty variable part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::jit) enum EmptyPart {
    /// There is none, or it is known to be empty.
    Known,
    /// By one value of one field: no options.
    Field(FieldId, u128),
    /// By its length in bits.
    Length(ExprId),
}

/// The end of a path through the parser.
#[derive(Debug)]
pub(in crate::jit) struct Leaf {
    /// The facts for the control.
    pub(in crate::jit) path: Path,
    pub(in crate::jit) code: Result<Specialised, Detour>,
}

/// The control on a path.
#[derive(Debug)]
pub(in crate::jit) struct Specialised {
    /// The packet must have this many bytes.
    pub(in crate::jit) need_bytes: Option<u32>,
    /// Bytes of headroom that headers may grow into, and carried metadata in front of them.
    pub(in crate::jit) headroom_bytes: u32,
    pub(in crate::jit) verified: Vec<Verified>,
    pub(in crate::jit) followed: Vec<Followed>,
    /// Headers that the control may add and that are in registers until they are emitted.
    pub(in crate::jit) synthesized: Vec<InstanceId>,
    /// One for each set of headers that may be emitted; empty if every path drops.
    pub(in crate::jit) tails: Vec<Tail>,
}

/// Keys that have a known value.
pub(in crate::jit) type Equal = Vec<(ExprId, u128)>;

/// The targets of a transition: the default first, then each other target once, with the facts about the keys there.
pub(in crate::jit) fn outcomes(next: &Transition) -> Vec<(Target, Equal)> {
    let (keys, cases, default) = match next {
        Transition::To(target) => return vec![(*target, Equal::new())],
        Transition::Select { keys, cases, default } => (keys, cases, *default),
    };
    let mut outcomes: Vec<(Target, Equal)> = vec![(default, Equal::new())];
    for case in cases {
        // Facts of two cases with one target are not known there.
        match outcomes[1..].iter_mut().find(|(target, _)| *target == case.to) {
            Some((_, facts)) => facts.clear(),
            None => {
                let facts = keys.iter().zip(&case.patterns);
                let facts = facts.filter_map(|(key, pattern)| match pattern {
                    Pattern::Value(value) => Some((*key, *value)),
                    _ => None,
                });
                outcomes.push((case.to, facts.collect()));
            }
        }
    }
    outcomes
}

/// The first element of a stack that is not valid.
pub(super) fn next_free(program: &Program, stack: StackId, valid: u64) -> Option<InstanceId> {
    let stack = &program.stacks[stack];
    let mut elements = (stack.first.0..stack.first.0 + stack.len).map(InstanceId);
    elements.find(|instance| valid & bit(*instance) == 0)
}

/// All paths from the start of the parser.
pub(super) fn from_parser(control: &Control<'_>) -> Form<Way> {
    control.state(StateId(0), Path::new(control.program, 0))
}

/// Egress of packets with these headers, which are adjacent at the start of the packet.
pub(super) fn egress_copy(control: &Control<'_>, valid: u64) -> Form<EgressCopy> {
    let program = control.program;
    let mut path = Path::new(program, control.emitted_bytes(valid));
    let mut extracts = Vec::new();
    for instance in program.deparser.emit.iter().filter(|i| valid & bit(**i) != 0) {
        match control.extract(&mut path, *instance, None) {
            Ok(extract) => extracts.push(extract),
            Err(detour) => return Ok(EgressCopy { valid, extracts, end: Way::Detour(detour) }),
        }
    }
    Ok(EgressCopy { valid, extracts, end: control.leaf(path)? })
}

impl Control<'_> {
    fn state(&self, id: StateId, mut path: Path) -> Form<Way> {
        let program = self.program;
        path.depth += 1;
        let Some(state) = program.parser.states.get(id) else { return self.leaf(path) };
        if path.depth > program.parser.max_states {
            return Ok(Way::Detour(Detour::TooManyStates));
        }
        let (start, mut steps) = (path.clone(), Vec::with_capacity(state.ops.len()));
        for op in &state.ops {
            if let ParserOp::SetInvalid(instance) = op
                && path.valid & bit(*instance) == 0
            {
                continue;
            }
            match self.step(&mut path, op)? {
                Ok(step) => steps.push(step),
                Err(detour) => {
                    let (path, after) = (start, path);
                    return Ok(Way::State(Box::new(Visit {
                        state: id,
                        path,
                        steps,
                        after,
                        next: Err(detour),
                    })));
                }
            }
        }
        if let Transition::Select { keys, .. } = &state.next {
            keys.iter().try_for_each(|key| self.can_evaluate(*key))?;
        }
        let next = outcomes(&state.next).into_iter().map(|(target, facts)| {
            let mut path = path.clone();
            facts.iter().for_each(|(key, value)| self.learn_equal(&mut path, *key, *value));
            match target {
                Target::State(next) => self.state(next, path),
                Target::Accept => self.leaf(path),
                Target::Reject(_) => Ok(Way::Detour(Detour::ParserError)),
            }
        });
        let next = Ok(next.collect::<Form<Vec<Way>>>()?);
        Ok(Way::State(Box::new(Visit { state: id, path: start, steps, after: path, next })))
    }

    /// One operation of a state; the inner `Err` sends packets to generic code.
    fn step(&self, path: &mut Path, op: &ParserOp) -> Form<Result<Step, Detour>> {
        Ok(Ok(match op {
            ParserOp::SetInvalid(_) => return Ok(Err(Detour::ExtractedTwice)),
            ParserOp::Extract(instance) if path.valid & bit(*instance) != 0 => {
                return Ok(Err(Detour::ExtractedTwice));
            }
            ParserOp::Extract(instance) => match self.parse(path, *instance) {
                Ok(extract) => Step::Extract(extract),
                Err(detour) => return Ok(Err(detour)),
            },
            ParserOp::ExtractNext(stack) => {
                path.elements += 1;
                let free = next_free(self.program, *stack, path.valid);
                let free = free.filter(|_| path.elements <= self.elements_max);
                match free.ok_or(Detour::StackElements).and_then(|next| self.parse(path, next)) {
                    Ok(extract) => Step::Extract(extract),
                    Err(detour) => return Ok(Err(detour)),
                }
            }
            // A packet that runs generic code later is unchanged.
            ParserOp::Set(to, value)
                if matches!(to, LValue::Meta(_) | LValue::Local(_) | LValue::Std(_)) =>
            {
                self.can_evaluate(*value)?;
                Step::Set(to.clone(), *value)
            }
            ParserOp::Set(..) | ParserOp::SetValid(_) => {
                return Err(NotSupported::ParserAssignment.into());
            }
            ParserOp::Verify(condition, _) => {
                self.can_evaluate(*condition)?;
                self.learn_condition(path, *condition);
                Step::Verify(*condition, path.clone())
            }
            ParserOp::ExtractAt(..) | ParserOp::Advance(_) | ParserOp::BodyEnd(_) => {
                return Err(NotSupported::BodyBounds.into());
            }
        }))
    }

    /// A header of the packet, which may be too short.
    fn parse(&self, path: &mut Path, instance: InstanceId) -> Result<Extract, Detour> {
        let stop = path.cursor + self.fixed_bytes(instance);
        let need = (stop > AHEAD_MAX && stop > path.checked).then_some(stop);
        if stop > AHEAD_MAX {
            path.checked = stop;
        }
        self.extract(path, instance, need)
    }

    /// Records that a header is at the cursor.
    fn extract(
        &self,
        path: &mut Path,
        instance: InstanceId,
        need_bytes: Option<u32>,
    ) -> Result<Extract, Detour> {
        path.at[instance.index()] = path.cursor;
        path.valid |= bit(instance);
        path.received |= bit(instance);
        path.order.push(instance);
        path.cursor += self.fixed_bytes(instance);
        let empty = match self.program.instances[instance].variable_bits {
            Some(variable) => self.empty_part(path, instance, variable)?,
            None => EmptyPart::Known,
        };
        Ok(Extract { need_bytes, instance, empty, after: path.clone() })
    }

    fn empty_part(
        &self,
        path: &mut Path,
        instance: InstanceId,
        variable: ExprId,
    ) -> Result<EmptyPart, Detour> {
        let Some((field, value)) = self.only_zero(path, instance, variable) else {
            return Ok(EmptyPart::Length(variable));
        };
        let stays = self.half == Half::Egress && self.empty_parts & bit(instance) != 0;
        if !stays && let Some(known) = path.known_field(instance, field) {
            return if known == value { Ok(EmptyPart::Known) } else { Err(Detour::VariablePart) };
        }
        self.learn_fact(path, instance, field, value);
        Ok(if stays { EmptyPart::Known } else { EmptyPart::Field(field, value) })
    }

    /// The end of a path: checksums, the control, the headers that may be emitted.
    pub(super) fn leaf(&self, mut path: Path) -> Form<Way> {
        let code = match self.tail_headers(&path) {
            Ok(left) => {
                self.can_evaluate_qos()?;
                let (verified, followed) = checksums::before(self, &path)?;
                let need_bytes = (path.cursor > path.checked).then_some(path.cursor);
                let most = left.iter().map(|mask| self.emitted_bytes(*mask)).max().unwrap_or(0);
                let headroom_bytes = most.saturating_sub(path.cursor) + self.carried_in_chunk();
                let mut synthesized = Vec::new();
                if self.changes != 0 {
                    path.mutable = self.changes;
                    path.validity = KnownValidity::all(path.valid);
                    synthesized = edits::synthesized(self, &path);
                    path.facts.retain(|((instance, _), _)| self.changes & bit(*instance) == 0);
                }
                let tails = left
                    .into_iter()
                    .map(|mask| edits::tail(self, &path, mask, &followed, &synthesized));
                let tails = tails.collect::<Form<Vec<Tail>>>()?;
                Ok(Specialised {
                    need_bytes,
                    headroom_bytes,
                    verified,
                    followed,
                    synthesized,
                    tails,
                })
            }
            Err(detour) => Err(detour),
        };
        Ok(Way::Leaf(Box::new(Leaf { path, code })))
    }

    /// Bytes of the chunk that carried metadata may take when the packet leaves this control.
    fn carried_in_chunk(&self) -> u32 {
        let goes_on = self.half == Half::Ingress || self.program.brings_metadata();
        if goes_on { self.program.carried_in_chunk() as u32 } else { 0 }
    }

    /// Sets of headers that may leave.
    fn tail_headers(&self, path: &Path) -> Result<Vec<u64>, Detour> {
        let emitted = self.program.deparser.emit.iter().filter(|i| path.valid & bit(**i) != 0);
        if !emitted.eq(&path.order) {
            return Err(Detour::Order);
        }
        if checksums::cannot_follow(self, path.valid) {
            return Err(Detour::ChecksumOfChanges);
        }
        match self.changes {
            0 => Ok(vec![path.valid]),
            _ => edits::masks_left(self.program, self.half, path.valid).ok_or(Detour::HeaderSets),
        }
    }

    /// Headers whose empty variable part stays empty in this control: it neither adds them nor writes what the part
    /// depends on.
    pub(super) fn keeps_empty(&self) -> u64 {
        let stays = |(instance, declared): (InstanceId, &crate::ir::Instance)| {
            let reads = fields_of(self.program, declared.variable_bits?);
            let written = reads.iter().any(|(owner, field)| self.may_write(*owner, *field));
            (!written && self.added & bit(instance) == 0).then_some(bit(instance))
        };
        self.program.instances.entries().filter_map(stays).fold(0, |all, one| all | one)
    }
}

impl Way {
    /// Every end of the parser, in the order of paths.
    pub(in crate::jit) fn each_leaf<'a>(&'a self, visit: &mut dyn FnMut(&'a Leaf)) {
        match self {
            Way::State(state) => state.next.iter().flatten().for_each(|way| way.each_leaf(visit)),
            Way::Leaf(leaf) => visit(leaf),
            Way::Detour(_) => {}
        }
    }
}
