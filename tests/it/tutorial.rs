//! The tutorial works as it is printed: every command in its order, in one shell, and every line of output that the page shows.
//!
//! It needs root for a network and a mount namespace of its own, in which `ip netns` names nothing of this machine.

use std::process::Command;
use std::time::Instant;

use wireyard_tests::binary::wireyard;
use wireyard_tests::{skip, workspace_root};

/// What the page may take; a reader has 50 minutes.
const SECONDS_MAX: u64 = 120;

/// A shell block of the page and the lines that are shown behind it.
struct Block {
    commands: String,
    shown: Vec<String>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    for part in page.split("```").skip(1).step_by(2) {
        if let Some(commands) = part.strip_prefix("sh\n") {
            all.push(Block { commands: commands.to_owned(), shown: Vec::new() });
        } else if let (Some(shown), Some(block)) = (part.strip_prefix("text\n"), all.last_mut()) {
            block.shown.extend(shown.lines().map(str::to_owned));
        }
    }
    all
}

/// Whether a line of the output is the one that the page shows, where `..` stands for anything.
fn is_shown(shown: &str, output: &str) -> bool {
    output.lines().any(|line| {
        let mut rest = line;
        shown.split("..").map(str::trim).all(|part| match rest.find(part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    })
}

#[test]
fn every_step_of_the_tutorial_does_what_the_page_says() {
    let test = "every_step_of_the_tutorial_does_what_the_page_says";
    let is_private = Command::new("unshare").args(["-nm", "true"]).status();
    if !is_private.is_ok_and(|status| status.success()) {
        return skip(test, "needs root and unshare(1)");
    }
    let page =
        std::fs::read_to_string(workspace_root().join("programs/tutorial/README.md")).unwrap();
    let blocks = blocks(&page);
    let steps = page.lines().filter(|line| line.starts_with("## ")).count();
    assert_eq!(steps, 10, "the page promises ten steps");
    let mut script = String::from("exec 2>&1\nmount -t tmpfs none /run\nip link set lo up\n");
    for (number, block) in blocks.iter().enumerate() {
        script += &format!("echo '<<<block {number}>>>'\n{}\n", block.commands);
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = wireyard().parent().unwrap().display();
    let begin = Instant::now();
    let output = Command::new("unshare")
        .args(["-nm", "timeout", "-k", "5", &SECONDS_MAX.to_string(), "bash", "-ec", &script])
        .env("PATH", format!("{binary}:{}", std::env::var("PATH").unwrap_or_default()))
        .env("LC_ALL", "C")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{:?} after {:?}\n{out}", output.status, begin.elapsed());
    for (number, block) in blocks.iter().enumerate() {
        let printed = out.split(&format!("<<<block {number}>>>\n")).nth(1).unwrap_or_default();
        let printed = printed.split("<<<block ").next().unwrap_or_default();
        for shown in &block.shown {
            assert!(
                is_shown(shown, printed),
                "`{shown}` is not in the output of\n{}\n{printed}",
                block.commands
            );
        }
    }
}

#[test]
fn a_line_that_is_not_printed_is_found() {
    assert!(is_shown("3 packets, .. ms", "x\n3 packets, lost 0, 12 ms\n"));
    assert!(!is_shown("3 packets, .. ms", "3 packets\n12 ms\n"));
    assert_eq!(blocks("a\n```sh\nls\n```\n```text\nb\n```\n")[0].shown, ["b"]);
}
