//! Control dependence: which blocks of a body run only because of a condition.
//!
//! A block depends on a branch, a switch or a table when it is between it and the point where all of its paths join
//! again. Paths that end in a drop or punt are ignored.

use std::collections::BTreeMap;

use petgraph::algo::dominators::{Dominators, simple_fast};
use petgraph::graph::{DiGraph, NodeIndex};

use crate::ids::*;
use crate::ir::{Body, Op, Program, Term};

/// The expressions that decide the next block: a condition, a value, or the keys of a table.
pub(crate) fn deciders(program: &Program, term: &Term) -> Vec<ExprId> {
    match term {
        Term::Branch { cond, .. } => vec![*cond],
        Term::Switch { value, .. } => vec![*value],
        Term::Apply { table, .. } => {
            let table = program.tables.get(*table);
            let keys = table.iter().flat_map(|table| &table.keys).map(|key| key.value);
            let hashed = table.iter().flat_map(|table| &table.selector);
            keys.chain(hashed.flat_map(|selector| selector.keys.iter().copied())).collect()
        }
        _ => Vec::new(),
    }
}

/// By block, whether it runs only because of a block that `decides`.
pub(crate) fn dependent(body: &Body, decides: &dyn Fn(&Term) -> bool) -> Vec<bool> {
    let mut found = vec![false; body.blocks.len()];
    let mut joins = None;
    for (id, block) in body.blocks.entries() {
        if !decides(&block.term) {
            continue;
        }
        let joins = joins.get_or_insert_with(|| join_points(body));
        let join = joins.immediate_dominator(NodeIndex::new(id.index() + 1));
        let mut open = block.term.successors();
        while let Some(next) = open.pop() {
            if join == Some(NodeIndex::new(next.index() + 1)) {
                continue;
            }
            if let (Some(slot), Some(block)) = (found.get_mut(next.index()), body.blocks.get(next))
                && !std::mem::replace(slot, true)
            {
                open.extend(block.term.successors());
            }
        }
    }
    found
}

/// Immediate dominators of the reversed graph, whose node 0 is the end and n + 1 is block n.
fn join_points(body: &Body) -> Dominators<NodeIndex> {
    let mut graph = DiGraph::<(), ()>::with_capacity(body.blocks.len() + 1, body.blocks.len());
    for _ in 0..=body.blocks.len() {
        graph.add_node(());
    }
    let node = |id: BlockId| NodeIndex::new(id.index() + 1);
    for (id, block) in body.blocks.entries() {
        if matches!(block.term, Term::Return | Term::Exit) {
            graph.add_edge(NodeIndex::new(0), node(id), ());
        }
        for next in block.term.successors() {
            graph.add_edge(node(next), node(id), ());
        }
    }
    simple_fast(&graph, NodeIndex::new(0))
}

/// Actions that egress may run, and for each whether every path to it depends on a block that `decides`.
pub(crate) fn actions_of(
    program: &Program,
    root: &Body,
    decides: &dyn Fn(&Term) -> bool,
) -> BTreeMap<ActionId, bool> {
    let mut known: BTreeMap<ActionId, bool> = BTreeMap::new();
    let mut open: Vec<(Option<ActionId>, bool)> = vec![(None, false)];
    while let Some((id, always)) = open.pop() {
        let body = match id {
            None => Some(root),
            Some(id) => program.actions.get(id).map(|action| &action.body),
        };
        let Some(body) = body else { continue };
        let depends = dependent(body, decides);
        for (at, block) in body.blocks.entries() {
            let here = always || depends.get(at.index()).copied().unwrap_or(false);
            let calls = block.ops.iter().filter_map(|op| match op.op {
                Op::Call(action, _) => Some((action, here)),
                _ => None,
            });
            let applied = match &block.term {
                Term::Apply { table, .. } => program.tables.get(*table),
                _ => None,
            };
            let here = here || decides(&block.term);
            let run = applied
                .iter()
                .flat_map(|table| table.actions.iter().chain([&table.default.action]))
                .map(|action| (*action, here));
            for (action, here) in calls.chain(run) {
                let before = known.get(&action).copied();
                if before.is_none_or(|before| before && !here) {
                    known.insert(action, here);
                    open.push((Some(action), here));
                }
            }
        }
    }
    known
}
