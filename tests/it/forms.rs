//! Which program of the library compiles in which form at which level, and why others do not, is exactly what
//! `data/forms.txt` holds: no program becomes slow without somebody reading the difference.
//!
//! `BLESS=1 cargo test -p wireyard-tests forms` writes it anew: read the difference before you commit.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use wireyard_pipeline::jit::{Jit, Options};
use wireyard_pipeline::passes::{self, LEVEL_MAX};
use wireyard_pipeline::state::{State, StateOptions};
use wireyard_switch::program::{Place, load};
use wireyard_tests::workspace_root;

const GOLDEN: &str = "data/forms.txt";

fn folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace_root().join("programs")).expect("the programs");
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    folders.retain(|path| path.join("program.yaml").is_file());
    folders.sort();
    folders
}

#[test]
fn programs_have_the_forms_of_code_that_they_should() {
    let mut found = String::new();
    for folder in folders() {
        let loaded = load(&Place { program: folder.clone(), ..Place::default() });
        let loaded = loaded.unwrap_or_else(|error| panic!("{}:\n{error}", folder.display()));
        let state = State::new(&loaded.program, StateOptions::default()).expect("a state");
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for level in 0..=LEVEL_MAX {
            let program = passes::optimised(&loaded.program, level);
            let text = Jit::text(&program, &state, Options { level });
            let forms = text.unwrap_or_else(|error| panic!("{name}, level {level}: {error}")).forms;
            let _ = writeln!(found, "{name}, level {level}");
            let _ = writeln!(found, "  ingress {}", forms.ingress);
            let _ = writeln!(found, "  egress behind ingress {}", forms.fused);
            let _ = writeln!(found, "  egress {}", forms.egress);
        }
    }
    if std::env::var_os("BLESS").is_some() {
        fs::write(GOLDEN, &found).expect("writes the list");
    }
    let golden = fs::read_to_string(GOLDEN).unwrap_or_default();
    assert_eq!(found, golden, "not as in {GOLDEN}");
}

#[test]
fn a_plan_says_where_headers_are_and_what_is_done_about_them() {
    let folder = workspace_root().join("programs/ipv4_router");
    let loaded = load(&Place { program: folder, ..Place::default() }).expect("the program");
    let state = State::new(&loaded.program, StateOptions::default()).expect("a state");
    let program = passes::optimised(&loaded.program, 1);
    let plan = Jit::text(&program, &state, Options { level: 1 }).expect("a plan").plan;
    for line in [
        "table fib: trie, 16 bits in the root",
        "ingress: path-specialised",
        "  path start > ipv4 > [ipv4.ihl == 5]",
        "    headers ethernet@0 ipv4@14, body@34",
        "    verify ipv4.checksum",
        "    leave ethernet ipv4; update ipv4.checksum",
        "egress behind ingress: fused",
    ] {
        assert!(plan.lines().any(|found| found == line), "{line}:\n{plan}");
    }
}
