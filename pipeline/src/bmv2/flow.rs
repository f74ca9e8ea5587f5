//! From a graph of steps to nested blocks: where the branches of a step join again.
//!
//! Pipelines and actions of bmv2 are graphs without cycles. Steps that the branches of a step share are run once, after
//! them: they begin where the branches join. A graph that p4c made of `if` and `switch` becomes these again.
//!
//! Branches that all come by a step join at their immediate post-dominator. In a pipeline some may end before (`exit`,
//! `return`): these are left out, so that the others still join.

/// Behind the last step.
pub(super) const END: usize = usize::MAX;

/// Where the branches of a step join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Join {
    /// The step, [`END`] for the end.
    pub(super) at: usize,
    /// This is one of the branches, and all of the others end without it.
    pub(super) alone: bool,
}

/// The joins of all steps, the first of which is `first`.
///
/// # Errors
/// There is a cycle, through the returned step.
pub(super) fn joins(next: &[Vec<usize>], first: usize) -> Result<Vec<Join>, usize> {
    let order = order(next)?;
    let weight = weights(next, first, &order);
    // Joins make trees, whose roots are the last steps. Steps behind a step are settled before it.
    let mut join = vec![Join { at: END, alone: false }; next.len()];
    let mut root: Vec<usize> = (0..next.len()).collect();
    let mut depth = vec![1_usize; next.len()];
    for step in order {
        let branches = next[step].iter().copied().filter(|branch| *branch != END);
        // The end that most paths lead to; the others are early ones.
        let Some(end) = branches.clone().map(|to| root[to]).max_by_key(|end| (weight[*end], *end))
        else {
            continue;
        };
        let mut going_on = branches.filter(|to| root[*to] == end);
        let Some(one) = going_on.next() else { continue };
        let at = going_on.fold(one, |a, b| common(a, b, &join, &depth));
        let leaves = |to: &usize| *to == END || root[*to] != end;
        let alone = next[step].iter().all(|to| *to == at || leaves(to));
        join[step] = Join { at, alone: alone && next[step].iter().any(leaves) };
        root[step] = end;
        depth[step] = depth[at] + 1;
    }
    Ok(join)
}

/// How many paths lead to each step, and the length of the longest.
fn weights(next: &[Vec<usize>], first: usize, order: &[usize]) -> Vec<(u64, usize)> {
    let mut weight = vec![(0_u64, 0_usize); next.len()];
    if let Some(first) = weight.get_mut(first) {
        first.0 = 1;
    }
    for step in order.iter().rev() {
        let (paths, length) = weight[*step];
        for to in next[*step].iter().filter(|to| **to != END) {
            let of = &mut weight[*to];
            *of = (of.0.saturating_add(paths), of.1.max(length + 1));
        }
    }
    weight
}

/// Where two steps of one tree join.
fn common(mut a: usize, mut b: usize, join: &[Join], depth: &[usize]) -> usize {
    while a != b {
        if depth[a] >= depth[b] { a = join[a].at } else { b = join[b].at }
    }
    a
}

/// The steps, each after all of its successors.
fn order(next: &[Vec<usize>]) -> Result<Vec<usize>, usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        Open,
        Done,
    }
    let mut seen = vec![Seen::No; next.len()];
    let mut order = Vec::new();
    for first in 0..next.len() {
        // An explicit stack: a pipeline may be deeper than the thread's stack.
        let mut open: Vec<(usize, usize)> = Vec::new();
        if seen[first] == Seen::No {
            seen[first] = Seen::Open;
            open.push((first, 0));
        }
        while let Some((step, at)) = open.pop() {
            let Some(branch) = next[step].get(at).copied() else {
                seen[step] = Seen::Done;
                order.push(step);
                continue;
            };
            open.push((step, at + 1));
            if branch == END {
                continue;
            }
            match seen[branch] {
                Seen::No => {
                    seen[branch] = Seen::Open;
                    open.push((branch, 0));
                }
                Seen::Open => return Err(branch),
                Seen::Done => {}
            }
        }
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(next: &[Vec<usize>]) -> Vec<usize> {
        let joins = joins(next, 0).expect("no cycle");
        joins.into_iter().map(|join| join.at).collect()
    }

    #[test]
    fn branches_meet_where_all_of_them_come_by() {
        // 0 -> 1 or 2; 1 -> 3; 2 -> 3 or 4; 3 -> 4; 4 ends; 5 -> 4.
        let next = [vec![1, 2], vec![3], vec![3, 4], vec![4], vec![END], vec![4]];
        assert_eq!(at(&next), [4, 3, 4, 4, END, 4]);
        assert_eq!(joins(&[vec![1], vec![2], vec![1]], 0), Err(1));
    }

    #[test]
    fn branches_that_end_do_not_keep_the_others_from_joining() {
        // 1 ends, and so does 3, which runs a step first; 2 and 4 go on to 5.
        let next = [vec![1, 2], vec![END], vec![3, 4], vec![END], vec![5], vec![END, 6], vec![END]];
        assert_eq!(at(&next), [2, END, 4, END, 5, 6, END]);
        let joins = joins(&next, 0).expect("no cycle");
        let alone: Vec<bool> = joins.iter().map(|join| join.alone).collect();
        assert_eq!(alone, [true, false, true, false, false, true, false]);
        // 0 -> 1 or 2; 1 -> 3, which ends late, or 5; 2 -> 5: the end of most paths counts.
        let next = [vec![1, 2], vec![3, 5], vec![5], vec![4], vec![END], vec![END]];
        assert_eq!(at(&next), [5, 5, 5, 4, END, END]);
    }
}
