//! Warnings of egress that may copy its own copies, or send a packet round endlessly.
//!
//! A mirror copy made by egress goes through egress again, and a recirculated packet through the whole program: if no
//! condition on the path to the statement distinguishes them from the packet before, each makes the next. The device
//! stops it (`too_many_copies`, `too_many_passes`); this warns of it in advance.

use super::cx::Cx;
use super::depend::{actions_of, deciders, dependent};
use crate::diag::codes;
use crate::ids::{ExprId, MetaId};
use crate::ir::eval::reads;
use crate::ir::std_meta::StdField;
use crate::ir::{Body, ExprKind, LValue, Op, OpAt, Program, SourceSpan, Term};

/// True for an input that differs between a copy and its original.
fn tells_copies_apart(kind: &ExprKind) -> bool {
    use StdField::{EgressPort, Instance, PacketPath};
    matches!(kind, ExprKind::Std(PacketPath | Instance | EgressPort))
}

/// True for an input that may differ in the next pass.
fn is_of_the_packet(kind: &ExprKind) -> bool {
    !matches!(kind, ExprKind::Const(_))
}

impl Cx<'_> {
    /// Warns of egress that may reach its own statements endlessly.
    pub(crate) fn check_loops(&mut self) {
        let (copies, again) = self.in_words_of(
            (
                "make it depend on `std.packet_path != path.clone_egress`",
                "make it depend on `std.packet_path != path.recirculate`, or on what the pass changes",
            ),
            (
                "make it depend on `instance_type` (v1model) or `packet_path` (PSA)",
                "make it depend on `instance_type` (v1model) or `packet_path` (PSA), or on what the pass changes",
            ),
        );
        // Of several clones of a P4 program the last one is made, where it is known that one was asked for: its own
        // conditions are not seen there.
        let is_asked = |kind: &ExprKind| {
            let ExprKind::Meta(id) = kind else { return false };
            let name = self.ir.metadata.get(*id).map_or("", |meta| meta.name.as_str());
            self.in_words_of(false, name.starts_with("egress_clone_session"))
        };
        let marks = marks_of_originals(&self.ir);
        let is_mark = |kind: &ExprKind| matches!(kind, ExprKind::Meta(id) if marks.contains(id));
        let distinguishes =
            |kind: &ExprKind| tells_copies_apart(kind) || is_asked(kind) || is_mark(kind);
        let clones = unguarded(&self.ir, &distinguishes, &|op| matches!(op, Op::Clone(_)));
        for span in clones {
            self.report
                .warning(codes::COPIES_ITSELF, span, "the copy made here may be copied here again")
                .note("a mirror copy made by egress goes through egress: copies of copies end as `too_many_copies`")
                .help(copies);
        }
        // A program of v1model asks for it by a mark, and recirculates the marked packets when egress ends.
        let origin = self.units.first().and_then(|root| root.origin.as_ref());
        let mark = origin.and_then(|origin| origin.again_mark.clone());
        let marks = |op: &Op| {
            let Op::Set(LValue::Meta(id), value) = op else { return false };
            let name = self.ir.metadata.get(*id).map(|meta| &meta.name);
            let value = self.ir.exprs.get(*value).map(|expr| &expr.kind);
            name.is_some_and(|name| Some(name) == mark.as_ref())
                && matches!(value, Some(ExprKind::Const(list)) if *list != 0)
        };
        let asks = |op: &Op| match &mark {
            Some(_) => marks(op),
            None => matches!(op, Op::Recirculate),
        };
        let passes = unguarded(&self.ir, &is_of_the_packet, &asks);
        for span in passes {
            self.report
                .warning(codes::COPIES_ITSELF, span, "every packet comes here again")
                .note("a packet that recirculates has 8 passes at most, and ends as `too_many_passes`")
                .help(again);
        }
    }
}

/// Metadata that only egress sets, and only where a condition distinguishes copies from originals, or to such a condition.
fn marks_of_originals(program: &Program) -> Vec<MetaId> {
    let is_zero = |value: ExprId| {
        matches!(program.exprs.get(value).map(|expr| &expr.kind), Some(ExprKind::Const(0)))
    };
    let sets = |op: &Op| match op {
        Op::Set(LValue::Meta(id), value) if !is_zero(*value) => Some((*id, *value)),
        _ => None,
    };
    let never = |_: &ExprKind| false;
    let all = unguarded_in(program, &program.egress, &never);
    let open = unguarded_in(program, &program.egress, &tells_copies_apart);
    let open = open.into_iter().filter_map(|op| sets(&op.op));
    let of_ingress = unguarded_in(program, &program.ingress, &never);
    let mut others: Vec<MetaId> = open
        .filter(|(_, value)| !reads(program, *value, &tells_copies_apart))
        .chain(of_ingress.into_iter().filter_map(|op| sets(&op.op)))
        .map(|(id, _)| id)
        .collect();
    others.sort_unstable();
    let set = all.into_iter().filter_map(|op| sets(&op.op)).map(|(id, _)| id);
    let mut marks: Vec<MetaId> = set.filter(|id| others.binary_search(id).is_err()).collect();
    marks.sort_unstable();
    marks.dedup();
    marks
}

/// Places of an operation in egress that no condition guards against the next copy.
fn unguarded(
    program: &Program,
    distinguishes: &dyn Fn(&ExprKind) -> bool,
    wanted: &dyn Fn(&Op) -> bool,
) -> Vec<SourceSpan> {
    let found = unguarded_in(program, &program.egress, distinguishes);
    found.into_iter().filter(|op| wanted(&op.op)).filter_map(|op| op.span).collect()
}

/// Operations of a control and its actions that no such condition guards.
fn unguarded_in<'p>(
    program: &'p Program,
    control: &'p Body,
    distinguishes: &dyn Fn(&ExprKind) -> bool,
) -> Vec<&'p OpAt> {
    let decides = |term: &Term| {
        deciders(program, term).into_iter().any(|expr| reads(program, expr, distinguishes))
    };
    let places = |body: &'p Body| {
        let depends = dependent(body, &decides);
        let free = body.blocks.iter().zip(depends).filter(|(_, depends)| !depends);
        free.flat_map(|(block, _)| &block.ops).collect::<Vec<_>>()
    };
    let mut found = places(control);
    for (id, guarded) in actions_of(program, control, &decides) {
        if let (false, Some(action)) = (guarded, program.actions.get(id)) {
            found.extend(places(&action.body));
        }
    }
    found
}
