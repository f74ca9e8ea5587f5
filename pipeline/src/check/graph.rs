//! Checks on the parser as a graph: reachability, progress, headers extracted over themselves.

use super::cx::Cx;
use crate::diag::codes;
use crate::ids::*;
use crate::ir::validity::{self, parser_op};
use crate::ir::*;
use petgraph::algo::tarjan_scc;
use petgraph::graph::NodeIndex;
use petgraph::visit::{Dfs, Walker};

impl Cx<'_> {
    /// Leaves out states that are never reached, then checks loops and extractions.
    pub(crate) fn check_parser(&mut self) {
        if self.ir.parser.states.is_empty() {
            return;
        }
        self.prune_states();
        // P4 has no such rule: a packet that visits too many states has the error `ParserTimeout`.
        let is_p4 = self.in_words_of(false, true);
        if !self.incomplete && !is_p4 {
            self.check_progress();
        }
        self.check_extracted_twice();
    }

    fn prune_states(&mut self) {
        let graph = self.ir.parser.graph();
        let mut reached = vec![false; self.ir.parser.states.len()];
        for entry in self.ir.parser.entries() {
            for node in Dfs::new(&graph, NodeIndex::new(entry.index())).iter(&graph) {
                if let Some(slot) = reached.get_mut(node.index()) {
                    *slot = true;
                }
            }
        }
        for (id, state) in self.ir.parser.states.entries() {
            let own =
                id.index() < self.main_states && state.span.is_some_and(|s| s.file == FileId(0));
            if self.incomplete {
                break;
            }
            if let (false, true, Some(span)) =
                (reached.get(id.index()) == Some(&true), own, state.span)
            {
                let text = format!("state `{}` is never reached", state.name);
                self.report.warning(codes::UNREACHABLE_STATE, span, text);
            }
        }
        let mut next = 0;
        let numbers: Vec<StateId> = reached
            .iter()
            .map(|reached| {
                let number = StateId(next);
                next += u32::from(*reached);
                number
            })
            .collect();
        let renumber = |target: &mut Target| {
            if let Target::State(id) = target
                && let Some(number) = numbers.get(id.index())
            {
                *id = *number;
            }
        };
        let keep = |index: usize| reached.get(index) == Some(&true);
        let states = std::mem::take(&mut self.ir.parser.states);
        let kept = states.entries().filter(|(id, _)| keep(id.index()));
        self.ir.parser.states = kept.map(|(_, state)| state.clone()).collect();
        if let Some(egress) = &mut self.ir.parser.egress
            && let Some(number) = numbers.get(egress.index())
        {
            *egress = *number;
        }
        let mut index = 0;
        self.op_spans.retain(|_| {
            index += 1;
            keep(index - 1)
        });
        for state in self.ir.parser.states.iter_mut() {
            match &mut state.next {
                Transition::To(target) => renumber(target),
                Transition::Select { cases, default, .. } => {
                    cases.iter_mut().for_each(|case| renumber(&mut case.to));
                    renumber(default);
                }
            }
        }
    }

    /// Every cycle of states has one that moves the cursor.
    fn check_progress(&mut self) {
        let mut graph = self.ir.parser.graph();
        let moves: Vec<bool> = self
            .ir
            .parser
            .states
            .iter()
            .map(|state| state.ops.iter().any(|op| self.moves(op)))
            .collect();
        graph.retain_edges(|graph, edge| {
            graph
                .edge_endpoints(edge)
                .is_some_and(|(from, _)| moves.get(from.index()) == Some(&false))
        });
        for circle in tarjan_scc(&graph) {
            let alone = match circle.as_slice() {
                [node] => !graph.contains_edge(*node, *node),
                _ => false,
            };
            if alone {
                continue;
            }
            let mut ids: Vec<StateId> =
                circle.iter().map(|node| StateId::new(node.index())).collect();
            ids.sort();
            let states: Vec<&State> =
                ids.iter().filter_map(|id| self.ir.parser.states.get(*id)).collect();
            let names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
            let Some(span) = states.first().and_then(|state| state.span) else { continue };
            let text = format!("this loop may not move the cursor: {}", names.join(", "));
            self.report
                .error(codes::NO_PROGRESS, span, text)
                .note("every iteration of a loop must extract a header or advance")
                .help("extract into a stack, or `advance(8)`");
        }
    }

    fn moves(&self, op: &ParserOp) -> bool {
        let fixed = |instance: InstanceId| {
            let header = self.ir.instances.get(instance).map(|instance| instance.header);
            header.and_then(|id| self.ir.headers.get(id)).is_some_and(|h| h.fixed_bytes > 0)
        };
        match op {
            ParserOp::Extract(id) => fixed(*id),
            // A stack ends, though its elements may be empty.
            ParserOp::ExtractNext(_) => true,
            // A distance that is computed may be 0: a packet that then visits too many states has the error `too_many_states`.
            ParserOp::Advance(bits) => {
                eval::constant(&self.ir.exprs, *bits).is_none_or(|value| value >= 8)
            }
            _ => false,
        }
    }

    fn check_extracted_twice(&mut self) {
        let validity = validity::parser(&self.ir);
        let mut found = Vec::new();
        for ((id, state), entry) in self.ir.parser.states.entries().zip(&validity.entry) {
            let Some(mut now) = *entry else { continue };
            for (at, op) in state.ops.iter().enumerate() {
                if let ParserOp::Extract(header) | ParserOp::ExtractAt(header, _) = op
                    && now.may(*header)
                {
                    let span =
                        self.op_spans.get(id.index()).and_then(|spans| spans.get(at)).copied();
                    let name = self.ir.instances.get(*header).map(|instance| instance.name.clone());
                    found.extend(span.zip(name));
                }
                parser_op(&self.ir, op, &mut now);
            }
        }
        let origin = self.ir.origin.clone();
        for (span, name) in found {
            let name = match &origin {
                None => name,
                Some(origin) if origin.counted_elements.contains(&name) => continue,
                // A header of a variable is not in the packet, so nothing is lost.
                Some(origin) => match origin.header(&name) {
                    Some(name) => name,
                    None => continue,
                },
            };
            let text =
                format!("header `{name}` may be extracted already when this state is reached");
            self.report
                .warning(codes::EXTRACTED_TWICE, span, text)
                .note("the earlier one is overwritten, and leaves the packet")
                .help(format!(
                    "make it a stack: `instances: {{ {name}: {{ header: .., stack: 4 }} }}`, in P4 `{name}[4]` and `extract({name}.next)`"
                ));
        }
    }
}
