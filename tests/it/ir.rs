//! The IR of the programs under `data/ir` is exactly what their `.ir` files hold, and stays right
//! after every pass.
//!
//! `BLESS=1 cargo test -p wireyard-tests ir` writes them anew: read the difference before you commit.

use std::fs;
use std::path::{Path, PathBuf};

use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::ir::{print, verify};
use wireyard_pipeline::passes;
use wireyard_pipeline::source::{Loader, parse_program};

const FOLDER: &str = "data/ir";
const HEADERS: &str = "../programs/headers";

fn programs() -> Vec<PathBuf> {
    let entries = fs::read_dir(FOLDER).expect("the folder of programs");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    paths
}

fn compiled(path: &Path) -> wireyard_pipeline::ir::Program {
    let loader = Loader::new(vec![HEADERS.into()], &[]);
    let parsed = parse_program(path, &loader).unwrap_or_else(|rejected| panic!("{rejected}"));
    match compile(&parsed, &ExternRegistry::new()) {
        Ok(compiled) => compiled.program,
        Err(found) => {
            panic!("{}", wireyard_pipeline::diag::render::plain(&found, &parsed.files))
        }
    }
}

#[test]
fn programs_lower_to_what_they_should() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    let paths = programs();
    assert!(!paths.is_empty(), "no programs under {FOLDER}");
    for path in paths {
        let found = print::program(&compiled(&path));
        let golden = path.with_extension("ir");
        if bless {
            fs::write(&golden, &found).expect("writes the IR");
        } else if fs::read_to_string(&golden).ok().as_deref() != Some(found.as_str()) {
            wrong.push(format!("{}:\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "not as in the .ir files:\n{}", wrong.join("\n"));
}

#[test]
fn every_pass_keeps_the_ir_right() {
    for path in programs() {
        for pass in passes::PASSES {
            let mut program = compiled(&path);
            assert_eq!(verify::verify(&program), Vec::<String>::new(), "{}", path.display());
            let others = passes::PASSES.iter().filter(|other| other.name != pass.name);
            let without = others.map(|other| other.name.to_string()).collect();
            passes::run(&mut program, &passes::Options { without });
            let found = verify::verify(&program);
            assert_eq!(found, Vec::<String>::new(), "{} after {}", path.display(), pass.name);
        }
    }
}
