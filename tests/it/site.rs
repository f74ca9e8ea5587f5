//! The site: every page is in its contents, and the contents name nothing else. Links are checked by `links_on_pages.rs`, and those of the
//! built site by `./ci.sh site`.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use wireyard_tests::{has_tool, skip, workspace_root};

fn listed() -> Vec<String> {
    let path = workspace_root().join("programs/site/contents.txt");
    let text = fs::read_to_string(path).expect("the contents");
    text.lines().filter(|line| line.ends_with(".md")).map(str::to_owned).collect()
}

#[test]
fn every_page_is_in_the_contents() {
    let root = workspace_root();
    let tracked =
        Command::new("git").args(["ls-files", "programs/*.md", "*.md"]).current_dir(&root).output();
    let tracked = tracked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let tracked: BTreeSet<String> =
        tracked.unwrap_or_default().lines().map(str::to_owned).collect();
    // Error pages are for `wireyard explain`.
    let pages =
        tracked.into_iter().filter(|path| path.starts_with("programs/") || !path.contains('/'));
    let pages: BTreeSet<String> = pages.collect();
    let listed = listed();
    let once: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    for page in &listed {
        assert!(root.join(page).is_file(), "{page} is listed, and not there");
    }
    if pages.is_empty() {
        return skip("every_page_is_in_the_contents", "not a checkout of git");
    }
    assert_eq!(once, pages, "programs/site/contents.txt has every page, and no other");
}

/// The source of the book has a title for every page.
#[test]
fn the_book_has_a_summary() {
    let test = "the_book_has_a_summary";
    if !has_tool("python3") || !has_tool("git") {
        return skip(test, "no python3 or no git");
    }
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("python3")
        .arg("programs/site/make.py")
        .arg(folder.path().join("book"))
        .current_dir(workspace_root())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let summary = fs::read_to_string(folder.path().join("book/src/SUMMARY.md")).unwrap();
    for page in listed() {
        assert!(summary.contains(&format!("]({page})")), "{page}: {summary}");
    }
    assert!(
        folder.path().join("book/src/programs/lab/incast.yaml").is_file(),
        "what pages link to is there"
    );
}
