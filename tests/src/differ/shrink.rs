//! Takes a case apart as long as it still differs: packets, then parts of the tree, then expressions.

use serde_json::Value;

use super::{At, Case};

/// Most cases that are tried.
const TRIALS_MAX: usize = 4_000;

/// The smallest case found for which `fails` still holds.
pub fn shrink(case: &Case, fails: &mut dyn FnMut(&Case) -> bool) -> Case {
    let mut work = Work { best: case.clone(), left: TRIALS_MAX, fails };
    loop {
        let before = work.best.clone();
        work.packets();
        work.tree();
        work.strings();
        if work.best == before || work.left == 0 {
            return work.best;
        }
    }
}

struct Work<'f> {
    best: Case,
    left: usize,
    fails: &'f mut dyn FnMut(&Case) -> bool,
}

impl Work<'_> {
    /// Keeps a smaller case if it fails too.
    fn keep(&mut self, change: impl FnOnce(&mut Case)) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let mut smaller = self.best.clone();
        change(&mut smaller);
        let better = smaller != self.best && (self.fails)(&smaller);
        if better {
            self.best = smaller;
        }
        better
    }

    fn packets(&mut self) {
        self.keep(|case| case.traced = 0);
        self.keep(|case| case.through = false);
        self.keep(|case| case.burst = 1);
        self.keep(|case| case.workers = 1);
        self.keep(|case| case.step_ns = 1);
        for n in (0..self.best.changes.len()).rev() {
            self.keep(|case| _ = case.changes.remove(n));
        }
        for n in 0..self.best.changes.len() {
            self.keep(|case| case.changes[n].before = 0);
        }
        let mut size = self.best.packets.len();
        while size > 0 {
            let mut at = self.best.packets.len();
            while at > 0 {
                let from = at.saturating_sub(size);
                self.keep(|case| _ = case.packets.drain(from..at));
                at = from.min(self.best.packets.len());
            }
            size /= 2;
        }
        for n in 0..self.best.packets.len() {
            let mut cut = self.best.packets[n].bytes.len() / 2;
            while cut > 0 {
                let len = self.best.packets[n].bytes.len();
                if !self.keep(|case| case.packets[n].bytes.truncate(len - cut.min(len - 1))) {
                    cut /= 2;
                }
            }
            for at in 0..self.best.packets[n].bytes.len() {
                self.keep(|case| case.packets[n].bytes[at] = 0);
            }
            self.keep(|case| case.packets[n].mark = false);
            self.keep(|case| case.packets[n].held = false);
            self.keep(|case| case.packets[n].at = At::Headroom);
        }
    }

    /// Members of objects and elements of lists, outer ones first, last ones first.
    fn tree(&mut self) {
        self.keep(|case| case.entries = None);
        for depth in 1..12 {
            let mut places = Vec::new();
            collect(&self.best.program, &mut Vec::new(), depth, &mut places);
            for place in places.into_iter().rev() {
                if !self.keep(|case| remove(&mut case.program, &place)) {
                    self.keep(|case| unwrap(&mut case.program, &place));
                }
            }
            let Some(entries) = self.best.entries.clone() else { continue };
            let mut places = Vec::new();
            collect(&entries, &mut Vec::new(), depth, &mut places);
            for place in places.into_iter().rev() {
                self.keep(|case| case.entries.iter_mut().for_each(|e| remove(e, &place)));
            }
        }
        for n in 0..self.best.changes.len() {
            for depth in 2..6 {
                let mut places = Vec::new();
                collect(&self.best.changes[n].entries, &mut Vec::new(), depth, &mut places);
                for place in places.into_iter().rev() {
                    self.keep(|case| remove(&mut case.changes[n].entries, &place));
                }
            }
        }
    }

    /// Parts in parentheses by 0 and 1, in every string.
    fn strings(&mut self) {
        let mut places = Vec::new();
        for depth in 1..14 {
            collect(&self.best.program, &mut Vec::new(), depth, &mut places);
        }
        for place in places {
            let mut at = 0;
            while let Some(text) = text_at(&self.best.program, &place)
                && let Some(start) = text[at..].find('(').map(|found| at + found)
            {
                let end = closing(text, start).unwrap_or(text.len());
                let with = |part: &str| format!("{}{part}{}", &text[..start], &text[end..]);
                let inner = text.get(start + 1..end.saturating_sub(1)).unwrap_or_default();
                let mut tries: Vec<String> = ["0", "1"].map(with).to_vec();
                tries.extend(inner.split(" ? ").chain(inner.split(" : ")).map(with));
                let shorter = tries.into_iter().filter(|t| t.len() < text.len());
                let done = shorter
                    .collect::<Vec<_>>()
                    .into_iter()
                    .any(|shorter| self.keep(|case| set_text(&mut case.program, &place, shorter)));
                if !done {
                    at = start + 1;
                }
            }
        }
    }
}

/// The end of the group that opens at `start`.
fn closing(text: &str, start: usize) -> Option<usize> {
    let mut open = 0;
    for (at, c) in text[start..].char_indices() {
        match c {
            '(' => open += 1,
            ')' if open == 1 => return Some(start + at + 1),
            ')' => open -= 1,
            _ => {}
        }
    }
    None
}

/// A step into a tree.
#[derive(Clone, Debug)]
enum Step {
    Key(String),
    At(usize),
}

/// Every place at a depth.
fn collect(value: &Value, path: &mut Vec<Step>, depth: usize, into: &mut Vec<Vec<Step>>) {
    if depth == 0 {
        into.push(path.clone());
        return;
    }
    let mut go = |step: Step, inner: &Value| {
        path.push(step);
        collect(inner, path, depth - 1, into);
        path.pop();
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| go(Step::Key(k.clone()), v)),
        Value::Array(list) => list.iter().enumerate().for_each(|(n, v)| go(Step::At(n), v)),
        _ => {}
    }
}

fn walk<'v>(value: &'v mut Value, path: &[Step]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::At(n) => value.get_mut(*n),
    })
}

fn remove(value: &mut Value, path: &[Step]) {
    let Some((last, path)) = path.split_last() else { return };
    match (walk(value, path), last) {
        (Some(Value::Object(map)), Step::Key(key)) => _ = map.shift_remove(key),
        (Some(Value::Array(list)), Step::At(n)) if *n < list.len() => _ = list.remove(*n),
        _ => {}
    }
}

/// Puts what is inside a compound statement in its place.
fn unwrap(value: &mut Value, path: &[Step]) {
    let Some((Step::At(n), path)) = path.split_last() else { return };
    let Some(Value::Array(list)) = walk(value, path) else { return };
    let inside = |statement: &Value| {
        let parts = ["then", "else", "hit", "miss", "do"];
        parts.iter().find_map(|part| statement.get(part)?.as_array().cloned())
    };
    if let Some(inner) = list.get(*n).and_then(inside) {
        list.splice(*n..=*n, inner);
    }
}

fn text_at<'v>(value: &'v Value, path: &[Step]) -> Option<&'v str> {
    let found = path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::At(n) => value.get(*n),
    });
    found?.as_str()
}

fn set_text(value: &mut Value, path: &[Step], text: String) {
    if let Some(place) = walk(value, path) {
        *place = Value::String(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differ::generate;

    #[test]
    fn what_does_not_matter_goes() {
        let case = generate::case(3);
        let mut fails = |case: &Case| {
            let port = case.program["ingress"][0].as_str();
            port.is_some_and(|s| s.starts_with("std.egress_port")) && case.packets.len() >= 2
        };
        assert!(fails(&case));
        let small = shrink(&case, &mut fails);
        assert_eq!(small.packets.len(), 2);
        assert_eq!(small.program.as_object().map(|top| top.len()), Some(1));
        assert_eq!(small.program["ingress"].as_array().map(Vec::len), Some(1));
    }
}
