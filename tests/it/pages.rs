//! The commands on the programs' pages and in the README work: each is run as it is printed.
//!
//! A command of a page is an indented line that begins with `wireyard`. Interfaces that it names are veth pairs in
//! a private network namespace, captures are made, and `run` ends by itself after a moment. Live ones
//! need root and skip loudly otherwise.

use std::path::Path;
use std::process::Command;

use wireyard_switch::ports::LinkType;
use wireyard_tests::binary::wireyard;
use wireyard_tests::{scripts, skip, workspace_root};

use crate::packets::bytes;
use crate::rig::{ip, private_network, veth};

/// A CNP over IPv4 with a right ICRC.
const CNP: &str = concat!(
    "020000000002020000000001080045c2003c00014000401125ec0a0000010a000002c00012b700280000",
    "8100ffff40000118000000000000000000000000000000000000000022f0f941",
);

/// The commands of a page.
fn commands(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
    lines.filter(|line| line.starts_with("wireyard ")).map(str::to_owned).collect()
}

/// Interfaces that a command names as ports: `1=veth1,link=infiniband`, not `3=pcap:events.pcap`.
fn interfaces(command: &str) -> Vec<&str> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let specs = words.windows(2).filter(|pair| pair[0] == "--port").map(|pair| pair[1]);
    let names = specs.filter_map(|spec| spec.split(',').next()?.split_once('='));
    names.map(|(_, name)| name).filter(|name| !name.contains(':')).collect()
}

/// A folder in which the commands find programs and captures.
fn workplace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let programs = workspace_root().join("programs");
    std::os::unix::fs::symlink(programs, folder.path().join("programs")).unwrap();
    folder
}

/// Every capture that a command reads and none before it wrote: ten CNPs.
fn make_inputs(command: &str, folder: &Path) {
    let frame = bytes(CNP);
    let words: Vec<&str> = command.split_whitespace().collect();
    for pair in words.windows(2) {
        let name = match pair[0] {
            "--in" => pair[1].split_once('=').unwrap().1,
            "--pcap" | "decode" => pair[1],
            _ => continue,
        };
        let (file, all) = (folder.join(name), (0..10).map(|n| (n, frame.as_slice())));
        if !file.exists() {
            scripts::write_pcap(&file, LinkType::Ethernet, all);
        }
    }
}

fn run_as_printed(command: &str, folder: &Path) -> Result<(), String> {
    // Shorter than a reader's; other tests run whole studies, and packet tests on both engines.
    let tails = [
        ("wireyard run ", " --duration 0.3"),
        ("wireyard lab sweep ", " --only 1:1"),
        ("wireyard test programs/", " --engine interp"),
    ];
    let shell = command.split(" #").next().unwrap_or(command).trim_end();
    // README's packet tests of all programs run as they are.
    let is_longer = |start: &str| shell.starts_with(start) && shell != start;
    let tail = tails.iter().find(|(start, _)| is_longer(start)).map_or("", |(_, tail)| *tail);
    let shell = format!("{shell}{tail}");
    let binary = wireyard().parent().unwrap().display();
    let path = format!("{binary}:{}", std::env::var("PATH").unwrap_or_default());
    let done = Command::new("sh")
        .args(["-ec", &shell])
        .env("PATH", path)
        .current_dir(folder)
        .output()
        .expect("sh runs");
    if done.status.success() {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Err(format!("{shell}\n{}{}", text(&done.stdout), text(&done.stderr)))
}

#[test]
fn the_commands_on_every_page_work() {
    let test = "the_commands_on_every_page_work";
    let network = private_network(test);
    let mut failures = Vec::new();
    let (mut run, mut live) = (0, 0);
    for program in scripts::programs() {
        let commands = commands(&program.join("README.md"));
        let shows =
            |word: &str| commands.iter().any(|c| c.starts_with(&format!("wireyard {word} ")));
        let name = program.file_name().unwrap().to_string_lossy().into_owned();
        assert!(shows("run") || shows("replay"), "{name}: the page does not show how to run it");
        for command in &commands {
            let interfaces = interfaces(command);
            if !interfaces.is_empty() && network.is_none() {
                continue;
            }
            for (n, interface) in interfaces.iter().enumerate() {
                veth(interface, &format!("peer{n}"));
            }
            let folder = workplace();
            make_inputs(command, folder.path());
            run += 1;
            live += usize::from(!interfaces.is_empty());
            failures.extend(run_as_printed(command, folder.path()).err());
            interfaces.iter().for_each(|interface| ip(&format!("link del {interface}")));
        }
    }
    assert!(failures.is_empty(), "{} of {run} fail:\n{}", failures.len(), failures.join("\n"));
    match network {
        Some(_) => assert!(live >= 18, "{live} commands with interfaces"),
        None => skip(test, "`run` needs a private network namespace"),
    }
}

/// Lines of the README's shell blocks, continued ones joined, and the commands of the references. What builds, and what takes half a
/// minute and has a test of its own, is not among them.
fn readme_commands() -> Vec<String> {
    let text = std::fs::read_to_string(workspace_root().join("README.md")).unwrap();
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let joined = blocks.collect::<String>().replace("\\\n", "");
    let references = ["programs/switch.md", "programs/lab/README.md"];
    let referred = references.iter().flat_map(|page| commands(&workspace_root().join(page)));
    let all = joined.lines().filter(|line| !line.is_empty()).map(str::to_owned).chain(referred);
    let others = ["cargo ", "alias ", "wireyard demo"];
    let is_long =
        |line: &str| others.iter().any(|other| line.starts_with(other)) || line.contains("--live");
    all.filter(|line| !is_long(line)).collect()
}

#[test]
fn the_commands_of_readme_and_references_work() {
    let test = "the_commands_of_readme_and_references_work";
    let commands = readme_commands();
    for word in ["ip link add", "wireyard run", "wireyard replay", "wireyard lab", "wireyard trace"]
    {
        assert!(commands.iter().any(|command| command.starts_with(word)), "no {word}");
    }
    let network = private_network(test);
    let folder = workplace();
    let mut failures = Vec::new();
    for command in &commands {
        let needs_network = !command.starts_with("wireyard") || command.starts_with("wireyard run");
        if needs_network && network.is_none() {
            continue;
        }
        make_inputs(command, folder.path());
        failures.extend(run_as_printed(command, folder.path()).err());
    }
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
    if network.is_none() {
        skip(test, "interfaces and `run` need a private network namespace");
    }
}
