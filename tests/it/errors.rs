//! Every bad program under `data/errors` says exactly what its `.stderr` file holds.
//!
//! `NAME.yaml`, `NAME.p4` or `NAME.json` is the program, `NAME.entries.yaml` its entries if there are any, `NAME.stderr` the
//! rendering. `BLESS=1 cargo test -p wireyard-tests errors` writes the renderings anew: read the
//! difference before you commit it. A file that begins with `lab:` is a scenario, with
//! `rate_control:` a rate control.

use std::fs;
use std::path::{Path, PathBuf};

use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::diag::{codes, render};
use wireyard_pipeline::entries;
use wireyard_pipeline::source::{Loader, parse_entries, parse_program};
use wireyard_switch::roce::rp::program::Program;

const FOLDER: &str = "data/errors";
const HEADERS: &str = "../programs/headers";

/// The bad programs, by name.
fn programs() -> Vec<PathBuf> {
    let entries = fs::read_dir(FOLDER).expect("the folder of bad programs");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| {
        let name = path.to_string_lossy();
        let is_program = name.ends_with(".yaml") && !name.ends_with(".entries.yaml");
        path.is_file() && (is_program || name.ends_with(".p4") || name.ends_with(".json"))
    });
    paths.sort();
    paths
}

/// What `wireyard check` says about a program and its entries.
fn findings(path: &Path) -> String {
    let loader = Loader::new(vec![HEADERS.into()], &[]);
    if fs::read_to_string(path).is_ok_and(|text| text.starts_with("lab:")) {
        return match wireyard_switch::lab::scenario::read(path, &loader) {
            Err(rejected) => rejected.to_string(),
            Ok(_) => String::new(),
        };
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    if text.starts_with("rate_control:") {
        let name = path.display().to_string();
        return Program::parse(&name, &text)
            .err()
            .map(|found| found.to_string())
            .unwrap_or_default();
    }
    let parsed = match parse_program(path, &loader) {
        Err(rejected) => return rejected.to_string(),
        Ok(parsed) => parsed,
    };
    let (mut found, program) = match compile(&parsed, &ExternRegistry::default()) {
        Ok(compiled) => (compiled.warnings, Some(compiled.program)),
        Err(found) => (found, None),
    };
    let mut files = parsed.files;
    let beside = path.with_extension("entries.yaml");
    if beside.exists() {
        let read = parse_entries(&beside, &loader, &mut files, &mut found);
        if let (Some(ast), Some(program)) = (read, program) {
            entries::resolve(&ast, &program, &mut found);
        }
    }
    render::plain(&found, &files)
}

#[test]
fn bad_programs_say_what_they_should() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for path in programs() {
        let found = findings(&path);
        assert!(!found.is_empty(), "{}: nothing is wrong with it", path.display());
        let golden = path.with_extension("stderr");
        if bless {
            fs::write(&golden, &found).expect("writes the rendering");
        } else if fs::read_to_string(&golden).ok().as_deref() != Some(found.as_str()) {
            wrong.push(format!("{}:\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "not as in the .stderr files:\n{}", wrong.join("\n"));
}

#[test]
fn every_code_has_a_bad_program() {
    let mut texts = String::new();
    for path in programs() {
        texts += &fs::read_to_string(path.with_extension("stderr")).unwrap_or_default();
    }
    // What the command makes of errors is in `p4_commands`.
    let by_the_command = [codes::NOT_RUN_HERE];
    let missing: Vec<&str> = codes::ALL
        .iter()
        .filter(|code| !by_the_command.contains(code))
        .map(|code| code.id)
        .filter(|id| !texts.contains(&format!("[{id}]")))
        .collect();
    assert!(missing.is_empty(), "no program under {FOLDER} shows {}", missing.join(", "));
}

#[test]
fn every_rendering_has_its_program() {
    for entry in fs::read_dir(FOLDER).expect("the folder of bad programs") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "stderr") {
            let has = |extension: &str| path.with_extension(extension).exists();
            let is_there = has("yaml") || has("p4") || has("json");
            assert!(is_there, "{} is left over", path.display());
        }
    }
}

/// The YAML examples of a page: the wrong one and the right one.
fn examples(page: &str) -> Vec<&str> {
    page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn the_examples_of_the_pages_are_wrong_and_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page.yaml");
    let says = |text: &str, code: &str| {
        fs::write(&path, text).expect("writes the example");
        findings(&path).contains(&format!("[{code}]"))
    };
    let mut shown = 0;
    for code in codes::ALL {
        if let [wrong, right] = examples(code.page)[..] {
            assert!(says(wrong, code.id), "{}: the wrong example is not wrong", code.id);
            assert!(!says(right, code.id), "{}: the right example is not right", code.id);
            shown += 1;
        }
    }
    assert!(shown >= 15, "most pages have examples that are programs");
}
