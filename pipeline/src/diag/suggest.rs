//! The nearest name to a misspelt one.

/// Longest name that is compared, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Most pairs of letters that are compared for one name: some hundred names of usual length. After that the best so far
/// is returned.
const WORK_MAX: usize = 250_000;

/// Fewest letters that stand for a name that begins with them.
const BEGINNING_MIN: usize = 2;

/// The candidate most similar to `found`, if one is near enough: equal except for upper and lower case or `-` and `_`,
/// or at most a third of the letters wrong, missing, extra or swapped; else one that begins like this. Of equals the first wins.
pub fn suggest<'c>(found: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if found.len() > NAME_BYTES_MAX {
        return None;
    }
    let found = fold(found);
    let mut work = 0;
    let limit = (found.len() / 3).max(1);
    let mut best: Option<(usize, &'c str)> = None;
    let mut begun = None;
    for candidate in candidates {
        if candidate.len() > NAME_BYTES_MAX {
            continue;
        }
        work += 1 + found.len() * candidate.len();
        if work > WORK_MAX {
            break;
        }
        let folded = fold(candidate);
        if found.len() >= BEGINNING_MIN && folded.starts_with(&found) {
            begun = begun.or(Some(candidate));
        }
        if folded.len().abs_diff(found.len()) > limit {
            continue;
        }
        let distance = distance(&found, &folded);
        if distance <= limit
            && (distance == 0 || distance < folded.len().max(found.len()))
            && best.is_none_or(|(least, _)| distance < least)
        {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate).or(begun)
}

fn fold(name: &str) -> Vec<char> {
    name.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Optimal string alignment distance: insertions, deletions, substitutions, transpositions of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let substitute = last[j] + usize::from(x != y);
            let mut cost = substitute.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::suggest;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let keys = ["fields", "bytes", "word", "default", "const_default"];
        assert_eq!(suggest("feilds", keys), Some("fields"));
        assert_eq!(suggest("Bytes", keys), Some("bytes"));
        assert_eq!(suggest("const-default", keys), Some("const_default"));
        assert_eq!(suggest("defualt", keys), Some("default"));
        assert_eq!(suggest("parser", keys), None);
        assert_eq!(suggest("", keys), None);
        assert_eq!(suggest("x", ["y"]), None, "nothing in common is not near");
        assert_eq!(suggest("ipv5", ["ipv4", "ipv6"]), Some("ipv4"), "of equals the first");
    }
}
