//! Links between the pages: each leads to a file that is there, and to a heading that it has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use wireyard_tests::workspace_root;

/// Tracked pages with their text.
fn pages() -> BTreeMap<PathBuf, String> {
    let root = workspace_root();
    let listed = Command::new("git").args(["ls-files", "*.md"]).current_dir(&root).output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let paths = listed.unwrap_or_default().lines().map(|line| root.join(line)).collect::<Vec<_>>();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Text outside of blocks and code spans.
pub(crate) fn prose(text: &str) -> String {
    let outside: String = text.split("```").step_by(2).collect();
    outside.split('`').step_by(2).collect()
}

/// Targets of `[words](target)`.
pub(crate) fn links(text: &str) -> Vec<String> {
    let found = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    found.map(|target| target.split_whitespace().collect()).collect()
}

/// The anchor that GitHub gives a heading: lower case, letters, digits, `-` and `_`, blanks as `-`.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ if letter.is_alphanumeric() => Some(letter.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

fn anchors(text: &str) -> Vec<String> {
    let outside: String = text.split("```").step_by(2).collect();
    let headings = outside.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

/// What is wrong with a link of a page.
fn problem(page: &Path, target: &str, pages: &BTreeMap<PathBuf, String>) -> Option<String> {
    if target.starts_with("http") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let folder = page.parent()?;
    let path = if file.is_empty() { page.to_owned() } else { folder.join(file) };
    let Ok(path) = path.canonicalize() else { return Some(format!("there is no {file}")) };
    let known = pages.iter().find(|(page, _)| page.canonicalize().is_ok_and(|page| page == path));
    match known {
        Some((_, text)) if !heading.is_empty() && !anchors(text).iter().any(|a| a == heading) => {
            Some(format!("there is no heading #{heading}"))
        }
        _ => None,
    }
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let (mut count, mut problems) = (0, Vec::new());
    for (page, text) in &pages {
        for target in links(&prose(text)) {
            count += 1;
            let wrong = problem(page, &target, &pages);
            problems.extend(wrong.map(|wrong| format!("{}: ({target}): {wrong}", page.display())));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    if pages.is_empty() {
        return wireyard_tests::skip("every_link_leads_somewhere", "git lists no pages here");
    }
    assert!(count > 40, "{count} links");
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let page = workspace_root().join("README.md");
    let pages = BTreeMap::from([(page.clone(), "## What is [counted](x.md)\n".to_owned())]);
    assert_eq!(problem(&page, "#what-is-countedxmd", &pages), None);
    assert!(problem(&page, "#what-else", &pages).is_some());
    assert!(problem(&page, "no/such.md", &pages).is_some());
    assert_eq!(links(&prose("a [b](c.md) `[d](e.md)`")), ["c.md"]);
}
