//! The summary of the tests that were skipped in a run.

use std::collections::BTreeMap;

/// Counts tests by reason, the most frequent first. `notes` has a line for each: test, tab, reason.
pub fn summary(notes: &str) -> String {
    let mut reasons: BTreeMap<&str, &str> = BTreeMap::new();
    for (test, why) in notes.lines().filter_map(|line| line.split_once('\t')) {
        // A test that gives a second reason is one test.
        reasons.entry(test).or_insert(why);
    }
    if reasons.is_empty() {
        return "no test was skipped\n".to_owned();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    reasons.values().for_each(|why| *counts.entry(why).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let lines = counts.iter().map(|(why, count)| format!("{count:>5}  {why}\n"));
    let total = reasons.len();
    let tests = if total == 1 { "test was" } else { "tests were" };
    format!("{total} {tests} skipped:\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_reason() {
        let notes = "a\tno root\nb\tno tshark\nb\tno root\nc\tno root\n";
        assert_eq!(summary(notes), "3 tests were skipped:\n    2  no root\n    1  no tshark\n");
        assert_eq!(summary("a\tno root\n"), "1 test was skipped:\n    1  no root\n");
        assert_eq!(summary(""), "no test was skipped\n");
    }
}
