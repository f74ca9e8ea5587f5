//! P4 and YAML are two doors into one house: what `wireyard convert` prints of a P4 program is the same program, and both engines at every level
//! run it alike.
//!
//! The programs are ours, those of the collection, and changes of them that are still programs. `WIREYARD_P4_DOORS=1` takes all of them, where CI takes
//! a part.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wireyard_pipeline::ast::print::units;
use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::ir::print;
use wireyard_pipeline::source::{Loader, parse_program};
use wireyard_tests::differ::random::Random;
use wireyard_tests::differ::run::{Outcome, run};
use wireyard_tests::differ::{At, Case, Packet};
use wireyard_tests::{shared, skip};

/// Every so many programs of the collection one, in CI.
const PART: usize = 12;

fn programs(test: &str) -> Vec<PathBuf> {
    let own = [
        "router.p4",
        "places.p4",
        "psa.p4",
        "psa_more.p4",
        "turns.p4",
        "counted.p4",
        "ranged.p4",
        "parsed.p4",
        "parser_breaks.p4",
    ];
    let mut paths: Vec<PathBuf> = own.iter().map(|name| Path::new("data/p4").join(name)).collect();
    let Some(folder) = shared().map(|shared| shared.join("p4")).filter(|p4| p4.is_dir()) else {
        skip(test, "no p4c collection in ../shared/p4");
        return paths;
    };
    let mut of_collection = Vec::new();
    for list in ["stf.txt", "compile.txt"] {
        let text = fs::read_to_string(folder.join(list)).expect("a list of programs");
        of_collection.extend(text.lines().map(|name| folder.join("samples").join(name.trim())));
    }
    let part = if std::env::var_os("WIREYARD_P4_DOORS").is_some() { 1 } else { PART };
    paths.extend(of_collection.into_iter().step_by(part));
    paths
}

/// The YAML of a program that can run, and the program as text; `None` where it cannot.
fn through_p4(text: &[u8], folder: &Path) -> Option<(String, String)> {
    let made = tempfile::Builder::new().suffix(".p4").tempfile().ok()?;
    fs::write(made.path(), text).ok()?;
    let parsed = parse_program(made.path(), &Loader::new(vec![folder.to_owned()], &[])).ok()?;
    let compiled = compile(&parsed, &ExternRegistry::new()).ok()?;
    Some((units(&parsed.units), print::program(&compiled.program)))
}

fn through_yaml(yaml: &str) -> Result<String, String> {
    let loader = Loader::in_memory([("program.yaml", yaml)], &[]);
    let parsed = parse_program("program.yaml".as_ref(), &loader).map_err(|why| why.to_string())?;
    match compile(&parsed, &ExternRegistry::new()) {
        Ok(compiled) => Ok(print::program(&compiled.program)),
        Err(found) => Err(format!("{found:?}")),
    }
}

#[track_caller]
fn same_through_both_doors(name: &str, text: &[u8], folder: &Path) -> Option<String> {
    let (yaml, by_p4) = through_p4(text, folder)?;
    let by_yaml = through_yaml(&yaml).unwrap_or_else(|why| panic!("{name}: {why}\n{yaml}"));
    let differs = by_p4.lines().zip(by_yaml.lines()).find(|(a, b)| a != b);
    assert!(by_p4 == by_yaml, "{name}: {differs:?}");
    Some(yaml)
}

/// Changes numbers, operators and widths, so that many changes are programs.
fn changed(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut text = text.to_vec();
    let is_there = |byte: u8| b"0123456789+-&|^<>".contains(&byte);
    let places: Vec<usize> = (0..text.len()).filter(|at| is_there(text[*at])).collect();
    for _ in 0..=random.below(3) {
        if places.is_empty() {
            break;
        }
        let at = random.pick(&places);
        text[at] = match text[at] {
            b'0'..=b'9' => random.pick(b"0123456789"),
            _ => random.pick(b"+-&|^<>"),
        };
    }
    text
}

#[test]
fn a_p4_program_and_its_yaml_are_one_program() {
    let (mut same, mut mutants) = (0, 0);
    let mut random = Random::new(21);
    for path in programs("a_p4_program_and_its_yaml_are_one_program") {
        let name = path.display().to_string();
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        let text = fs::read(&path).expect("a program");
        same += usize::from(same_through_both_doors(&name, &text, &folder).is_some());
        for _ in 0..3 {
            let text = changed(&text, &mut random);
            mutants += usize::from(same_through_both_doors(&name, &text, &folder).is_some());
        }
    }
    println!("{same} programs and {mutants} changes of them are the same through both doors");
    assert!(same >= 8 && mutants > 0, "{same} programs, {mutants} changes");
}

/// Packets of a script, some of them changed, and random ones.
fn packets(path: &Path, random: &mut Random) -> Vec<Packet> {
    let script = fs::read_to_string(path.with_extension("stf")).unwrap_or_default();
    let mut all: Vec<Vec<u8>> = script
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("packet ")?.split_whitespace();
            words.next()?;
            let digits: Vec<u8> = words.flat_map(str::bytes).collect();
            let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
            digits.chunks_exact(2).map(byte).collect()
        })
        .collect();
    all.truncate(8);
    for n in 0..all.len() {
        let mut bytes = all[n].clone();
        let at = random.below(bytes.len().max(1));
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= random.bits() as u8;
        }
        all.push(bytes);
    }
    all.extend((0..8).map(|_| (0..random.below(120)).map(|_| random.bits() as u8).collect()));
    let packet = |bytes| Packet {
        port: random.below(4) as u16,
        at: At::Headroom,
        bytes,
        ..Packet::default()
    };
    all.into_iter().map(packet).collect()
}

#[test]
fn engines_agree_on_p4_programs() {
    let mut random = Random::new(2021);
    let (mut agreed, mut packets_run) = (0, 0);
    for path in programs("engines_agree_on_p4_programs") {
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        let text = fs::read(&path).expect("a program");
        let Some((yaml, _)) = through_p4(&text, &folder) else { continue };
        let packets = packets(&path, &mut random);
        packets_run += packets.len();
        let case = Case {
            program: Value::String(yaml),
            entries: None,
            packets,
            burst: 8,
            traced: 4,
            through: random.chance(50),
            workers: 1 + random.below(2),
            step_ns: 1000,
            changes: Vec::new(),
        };
        match run(&case) {
            Outcome::Agree { .. } => agreed += 1,
            other => panic!("{}: {other:?}", path.display()),
        }
    }
    println!("engines agree on {agreed} programs with {packets_run} packets");
    assert!(agreed >= 8, "{agreed}");
}
