//! From a graph of steps to nested blocks: where the branches of a step join again.
//!
//! Pipelines and actions of bmv2 are graphs without cycles. Steps that all branches share are run once, after them:
//! they begin at the branching step's immediate post-dominator. A graph that p4c made of `if` and `switch` becomes
//! these again.

/// Behind the last step.
pub(super) const END: usize = usize::MAX;

/// For each step the step where its branches join, [`END`] for the end.
///
/// # Errors
/// There is a cycle, through the returned step.
pub(super) fn meetings(next: &[Vec<usize>]) -> Result<Vec<usize>, usize> {
    let order = order(next)?;
    // Steps behind a step are settled before it; depth is the distance from the end.
    let mut meeting = vec![END; next.len()];
    let mut depth = vec![0_usize; next.len()];
    for step in order {
        let mut found: Option<usize> = None;
        for branch in &next[step] {
            found = Some(match found {
                None => *branch,
                Some(other) => common(other, *branch, &meeting, &depth),
            });
        }
        let found = found.unwrap_or(END);
        meeting[step] = found;
        depth[step] = if found == END { 1 } else { depth[found] + 1 };
    }
    Ok(meeting)
}

fn common(mut a: usize, mut b: usize, meeting: &[usize], depth: &[usize]) -> usize {
    let of = |step: usize| if step == END { 0 } else { depth[step] };
    while a != b {
        if of(a) >= of(b) {
            a = if a == END { END } else { meeting[a] };
        } else {
            b = if b == END { END } else { meeting[b] };
        }
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

    #[test]
    fn branches_meet_where_all_of_them_come_by() {
        // 0 -> 1 or 2; 1 -> 3; 2 -> 3 or 4; 3 -> 4; 4 ends; 5 -> 4.
        let next = [vec![1, 2], vec![3], vec![3, 4], vec![4], vec![END], vec![4]];
        assert_eq!(meetings(&next), Ok(vec![4, 3, 4, 4, END, 4]));
        assert_eq!(meetings(&[vec![1, END], vec![END]]), Ok(vec![END, END]));
        assert_eq!(meetings(&[vec![1], vec![2], vec![1]]), Err(1));
    }
}
