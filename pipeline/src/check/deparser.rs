//! The order of emitted headers, and the values that ingress gives the maps of the traffic manager.

use super::cx::{Cx, Env, InstanceRef, Place};
use super::scope::Symbol;
use crate::ast::*;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::*;
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use std::collections::{BTreeMap, BTreeSet};

/// Most items behind the body.
const AFTER_MAX: usize = 16;

impl Cx<'_> {
    /// Lowers the deparser, or derives one from the parser.
    pub(crate) fn lower_deparser(&mut self) {
        let Some(&root) = self.units.first() else { return };
        self.env = Env::at(Place::Data);
        let (order, links) = self.extraction_links();
        let circles = circles(&order, &links);
        let orders: Vec<_> = circles.iter().filter(|one| one.len() > 1).cloned().collect();
        let in_front = self.whole_stacks(sort_by_links(circles, &order, &links));
        let behind = self.read_behind(&order);
        let extracted: BTreeSet<InstanceId> = in_front.iter().chain(&behind).copied().collect();
        let decl = root.deparser.as_ref();
        let after = decl.map_or(&[][..], |decl| &decl.after);
        self.lower_after(after);
        let has_default = decl.is_none_or(|decl| decl.emit.is_none() && decl.after.is_empty());
        if has_default && behind.len() == 1 && !self.is_discarded(decl, &behind) {
            self.ir.deparser.after.extend(behind.iter().copied().map(AfterBody::Header));
            self.pads.push(None);
        }
        self.ir.deparser.strip_slack = decl.is_some_and(|decl| decl.strip_slack);
        let trailers = self.trailers();
        self.ir.deparser.emit = match decl.and_then(|decl| decl.emit.as_ref()) {
            Some(names) => self.emit_list(names, &trailers),
            None => {
                self.warn_of_orders(&orders);
                in_front.into_iter().filter(|id| !trailers.contains(id)).collect()
            }
        };
        if !self.incomplete && !self.report.has_errors() {
            self.check_coverage(decl, &extracted);
        }
    }

    /// Whether `discard` has one of these headers.
    fn is_discarded(&self, decl: Option<&DeparserDecl>, ids: &[InstanceId]) -> bool {
        let named = |name: &Name| {
            let found = |id: &InstanceId| self.ir.instances.get(*id).map(|known| &known.name);
            ids.iter().any(|id| found(id) == Some(&name.value))
        };
        decl.is_some_and(|decl| decl.discard.iter().any(named))
    }

    fn trailers(&self) -> BTreeSet<InstanceId> {
        let after = self.ir.deparser.after.iter();
        after
            .filter_map(|item| match item {
                AfterBody::Header(id) => Some(*id),
                AfterBody::Pad { .. } => None,
            })
            .collect()
    }

    fn lower_after(&mut self, after: &[AfterDecl]) {
        for item in after {
            if self.ir.deparser.after.len() >= AFTER_MAX {
                let span =
                    self.units.first().and_then(|root| root.deparser.as_ref()).map(|d| d.span);
                if let Some(span) = span {
                    let text = format!("at most {AFTER_MAX} things follow the body");
                    self.report.error(codes::LIMITS, span, text);
                }
                return;
            }
            match item {
                AfterDecl::Header(name) => {
                    for id in self.instances_named(name) {
                        if self.trailers().contains(&id) {
                            let text = format!("`{}` is listed twice", name.value);
                            self.report.error(codes::TWICE, name.span, text);
                            continue;
                        }
                        self.ir.deparser.after.push(AfterBody::Header(id));
                        self.pads.push(None);
                    }
                }
                AfterDecl::Pad { name, bytes, fill, when } => {
                    let bytes = self.offset(bytes);
                    let when = match when {
                        Some(when) => match self.condition(when) {
                            Some(id) => Some(id),
                            None => continue,
                        },
                        None => None,
                    };
                    let fill = self.fill(fill.as_ref());
                    let Some(bytes) = bytes else { continue };
                    self.ir.deparser.after.push(AfterBody::Pad { bytes, fill, when });
                    let name = name.as_ref().map_or("pad", |name| &name.value);
                    self.pads.push(Some(name.to_string()));
                }
            }
        }
    }

    fn fill(&mut self, fill: Option<&Sp<u64>>) -> u8 {
        let Some(fill) = fill else { return 0 };
        u8::try_from(fill.value).unwrap_or_else(|_| {
            let text = format!("a pad is filled with a byte, and {} is none", fill.value);
            self.report.error(codes::DOES_NOT_FIT, fill.span, text);
            0
        })
    }

    /// The instances of a name: one, the elements of a stack, or none if unused.
    pub(crate) fn instances_named(&mut self, name: &Name) -> Vec<InstanceId> {
        let Some(Symbol::Instance(index)) = self.scope.symbol(&name.value) else {
            self.no_such(name, "a header", |symbol| matches!(symbol, Symbol::Instance(_)));
            return Vec::new();
        };
        let found = self.instance_ref(index);
        match found.and_then(|found| self.element_named(found, element(&name.value).1, name)) {
            Some(InstanceRef::One(id)) => vec![id],
            Some(InstanceRef::Stack(stack)) => self.elements(stack),
            None => Vec::new(),
        }
    }

    /// The element of a stack for a name with a number; for one without a number the declaration.
    pub(super) fn element_named(
        &mut self,
        found: InstanceRef,
        at: Option<u32>,
        name: &Name,
    ) -> Option<InstanceRef> {
        let Some(at) = at else { return Some(found) };
        let elements = match found {
            InstanceRef::Stack(stack) => self.elements(stack),
            InstanceRef::One(_) => {
                let text =
                    format!("`{}` is one header: it has no elements", element(&name.value).0);
                return self.report.refuse(codes::WRONG_KIND, name.span, text);
            }
        };
        let one = elements.get(at as usize).copied();
        if one.is_none() {
            let number = name.value.split_once('[').map_or("", |(_, at)| at.trim_end_matches(']'));
            let len = elements.len();
            let text = format!("the stack has {len} elements; there is none of number {number}");
            self.report.error(codes::DOES_NOT_FIT, name.span, text);
        }
        one.map(InstanceRef::One)
    }

    pub(super) fn elements(&self, stack: StackId) -> Vec<InstanceId> {
        let stack = self.ir.stacks.get(stack);
        stack.map_or(Vec::new(), |s| (0..s.len).map(|at| InstanceId(s.first.0 + at)).collect())
    }

    fn emit_list(&mut self, names: &[Name], trailers: &BTreeSet<InstanceId>) -> Vec<InstanceId> {
        let mut emit: Vec<InstanceId> = Vec::new();
        for name in names {
            for id in self.instances_named(name) {
                if emit.contains(&id) || trailers.contains(&id) {
                    let text = format!("`{}` is listed twice", name.value);
                    self.report.error(codes::TWICE, name.span, text);
                    break;
                }
                emit.push(id);
            }
        }
        emit
    }

    /// Every header that may be valid is emitted, a trailer, or discarded on purpose. A header that is extracted or made
    /// valid only in an unreachable state is never valid.
    fn check_coverage(&mut self, decl: Option<&DeparserDecl>, extracted: &BTreeSet<InstanceId>) {
        let mut covered = self.trailers();
        covered.extend(self.ir.deparser.emit.iter().copied());
        for name in decl.map_or(&[][..], |decl| &decl.discard) {
            covered.extend(self.instances_named(name));
        }
        let mut missing: Vec<String> = Vec::new();
        let mut made_here = Vec::new();
        for index in 0..self.scope.instances.len() {
            let ids = match self.instance_ref(index) {
                Some(InstanceRef::One(id)) => vec![id],
                Some(InstanceRef::Stack(stack)) => self.elements(stack),
                None => continue,
            };
            let symbol = Symbol::Instance(index);
            let by_code = self.uses.made_by_code.get(&symbol).copied();
            let made = by_code.is_some() || ids.iter().any(|id| extracted.contains(id));
            if made
                && self.uses.reached.contains(&symbol)
                && ids.iter().any(|id| !covered.contains(id))
                && let Some(item) = self.scope.instances.get(index)
            {
                missing.push(item.name.value.clone());
                made_here.extend(by_code.map(|span| (item.name.value.clone(), span)));
            }
        }
        if missing.is_empty() {
            return;
        }
        let names = missing.join(", ");
        let help = format!(
            "list it in `deparser: {{ emit: [..] }}`, in `after:` if it is a trailer, or say \
             `discard: [{names}]`"
        );
        let root = self.units.first();
        let span = decl.map(|decl| decl.span).or(made_here.first().map(|(_, span)| *span));
        let span = span.or(root.and_then(|root| root.name.as_ref()).map(|name| name.span));
        let text = format!("headers that may be valid are not emitted: {names}");
        let error = match span {
            Some(span) => self.report.error(codes::NOT_EMITTED, span, text),
            None => self.report.error_without_place(codes::NOT_EMITTED, text),
        };
        error.help(help);
        for (name, at) in made_here {
            if span == Some(at) {
                error.here(format!("`{name}` is made valid here"));
            } else {
                error.label(at, format!("`{name}` is made valid here"));
            }
        }
    }

    /// Instances that only `extract_at` reads.
    fn read_behind(&self, order: &[InstanceId]) -> Vec<InstanceId> {
        let mut behind = Vec::new();
        for (_, state) in self.ir.parser.states.entries() {
            for op in &state.ops {
                if let ParserOp::ExtractAt(id, _) = op
                    && !order.contains(id)
                    && !behind.contains(id)
                {
                    behind.push(*id);
                }
            }
        }
        behind
    }

    /// The instances, with all elements of a stack in the place of its first.
    fn whole_stacks(&self, instances: Vec<InstanceId>) -> Vec<InstanceId> {
        let all = instances.into_iter().flat_map(|id| match self.ir.instances.get(id) {
            Some(Instance { element: Some((stack, _)), .. }) => self.elements(*stack),
            _ => vec![id],
        });
        all.collect()
    }

    /// Warns of headers of which each may follow the other: packets keep no order of theirs.
    fn warn_of_orders(&mut self, circles: &[Vec<InstanceId>]) {
        let span = self.units.first().and_then(|root| root.name.as_ref()).map(|name| name.span);
        let Some(span) = span else { return };
        for circle in circles {
            let names: Vec<String> = circle.iter().map(|id| self.extracted_as(*id)).collect();
            let text =
                format!("the parser extracts {} in more than one order", names.join(" and "));
            self.report
                .warning(codes::NO_ORDER, span, text)
                .note("packets leave with them in this order, whatever it was on arrival")
                .help("write the order: `deparser: { emit: [..] }`");
        }
    }

    /// The name of an extracted instance: for an element that of its stack.
    fn extracted_as(&self, id: InstanceId) -> String {
        let name = self.ir.instances.get(id).map_or("", |instance| instance.name.as_str());
        format!("`{}`", element(name).0)
    }

    /// Headers that the parser extracts or makes valid, in the order first seen from the start, and which may follow
    /// which.
    fn extraction_links(&self) -> (Vec<InstanceId>, BTreeSet<(InstanceId, InstanceId)>) {
        let parser = &self.ir.parser;
        let trailers = self.read_behind(&[]);
        let first = |stack: StackId| self.ir.stacks.get(stack).map(|stack| stack.first);
        // All elements of a stack stand together, whichever of them are extracted.
        let first_of = |op: &ParserOp| match op {
            // A trailer that is made valid stays behind the body.
            ParserOp::SetValid(id) if trailers.contains(id) => None,
            ParserOp::Extract(id) | ParserOp::SetValid(id) => {
                match self.ir.instances.get(*id)?.element {
                    Some((stack, _)) => first(stack),
                    None => Some(*id),
                }
            }
            ParserOp::ExtractNext(stack) => first(*stack),
            _ => None,
        };
        let (mut order, mut links) = (Vec::new(), BTreeSet::new());
        let mut before: BTreeMap<StateId, BTreeSet<InstanceId>> = BTreeMap::new();
        let mut open: Vec<StateId> = parser.entries();
        before.extend(open.iter().map(|id| (*id, BTreeSet::new())));
        let mut next = 0;
        while let Some(id) = open.get(next).copied() {
            next += 1;
            let Some(state) = parser.states.get(id) else { continue };
            let mut last = before.get(&id).cloned().unwrap_or_default();
            for header in state.ops.iter().filter_map(first_of) {
                if !order.contains(&header) {
                    order.push(header);
                }
                links.extend(
                    last.iter().filter(|from| **from != header).map(|from| (*from, header)),
                );
                last = BTreeSet::from([header]);
            }
            for target in state.next.targets() {
                let Target::State(to) = target else { continue };
                let fresh = !before.contains_key(&to);
                let known = before.entry(to).or_default();
                let size = known.len();
                known.extend(last.iter().copied());
                if fresh || known.len() > size {
                    open.push(to);
                }
            }
        }
        (order, links)
    }

    /// The fields with DSCP and PCP; the first valid header counts.
    pub(crate) fn lower_qos(&mut self) {
        let Some(&root) = self.units.first() else { return };
        self.env = Env::at(Place::Data);
        self.ir.qos.dscp = self.first_valid(&root.qos.dscp, 6);
        self.ir.qos.pcp = self.first_valid(&root.qos.pcp, 3);
    }

    /// The value of the first field whose header is valid, and whether there is one.
    fn first_valid(&mut self, fields: &[AstExpr], bits: u32) -> Option<(ExprId, ExprId)> {
        let mut found: Option<(ExprId, ExprId)> = None;
        for field in fields.iter().rev() {
            let Some(value) = self.expr(field, bits) else { continue };
            let Some(valid) = self.all_valid(value, field.span) else { continue };
            found = Some(match found {
                None => (value, valid),
                Some((other, any)) => {
                    let kind = ExprKind::Mux(valid, value, other);
                    let either = ExprKind::Binary(BinOp::LogicalOr, valid, any);
                    (self.node(kind, bits, field.span), self.node(either, 1, field.span))
                }
            });
        }
        found
    }
}

impl Cx<'_> {
    /// Whether every header that an expression reads is valid. `None` when it reads none: an error, unless the value is
    /// constant, as that of a header that is never valid.
    fn all_valid(&mut self, value: ExprId, span: SourceSpan) -> Option<ExprId> {
        let (mut headers, mut stacks) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![value];
        while let Some(id) = open.pop() {
            let Some(expr) = self.ir.exprs.get(id) else { continue };
            match &expr.kind {
                ExprKind::Field(instance, _) | ExprKind::Element { instance, .. } => {
                    headers.insert(*instance);
                }
                ExprKind::StackLast(stack, _) => {
                    stacks.insert(*stack);
                }
                _ => {}
            }
            open.extend(eval::operands(&expr.kind));
        }
        let none = headers.is_empty() && stacks.is_empty();
        if none && eval::constant(&self.ir.exprs, value).is_none() {
            let text = "a field of a header is wanted here";
            self.report.error(codes::WRONG_KIND, span, text);
        }
        let mut valid: Vec<ExprId> =
            headers.into_iter().map(|id| self.node(ExprKind::Valid(id), 1, span)).collect();
        valid.extend(stacks.into_iter().map(|stack| self.any_valid(stack, span)));
        let both = |a, b| self.node(ExprKind::Binary(BinOp::LogicalAnd, a, b), 1, span);
        valid.into_iter().reduce(both)
    }
}

/// Headers that may follow each other, together; those of a circle are in the order first seen.
fn circles(
    order: &[InstanceId],
    links: &BTreeSet<(InstanceId, InstanceId)>,
) -> Vec<Vec<InstanceId>> {
    let mut graph: DiGraphMap<InstanceId, ()> = DiGraphMap::new();
    order.iter().for_each(|id| {
        graph.add_node(*id);
    });
    links.iter().for_each(|(from, to)| {
        graph.add_edge(*from, *to, ());
    });
    let mut circles: Vec<Vec<InstanceId>> = tarjan_scc(&graph);
    let rank = |id: &InstanceId| order.iter().position(|known| known == id);
    circles.iter_mut().for_each(|circle| circle.sort_by_key(rank));
    circles
}

/// An order in which each header comes before those that may follow it; headers in a cycle, and those without links,
/// stay in the order first seen.
fn sort_by_links(
    mut circles: Vec<Vec<InstanceId>>,
    order: &[InstanceId],
    links: &BTreeSet<(InstanceId, InstanceId)>,
) -> Vec<InstanceId> {
    let rank = |id: &InstanceId| order.iter().position(|known| known == id);
    let mut sorted: Vec<InstanceId> = Vec::new();
    while !circles.is_empty() {
        let ready = |circle: &Vec<InstanceId>| {
            let inside = |id: &InstanceId| circle.contains(id) || sorted.contains(id);
            circle
                .iter()
                .all(|id| links.iter().filter(|(_, to)| to == id).all(|(from, _)| inside(from)))
        };
        let candidates = circles.iter().enumerate().filter(|(_, circle)| ready(circle));
        let best = candidates.min_by_key(|(_, circle)| circle.first().and_then(rank));
        let at = best.map_or(0, |(at, _)| at);
        sorted.extend(circles.swap_remove(at));
    }
    sorted
}
