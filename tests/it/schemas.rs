//! The JSON Schemas that `wireyard schema` prints, by a validator of its own: editors with them accept every file of the project, and mark a misspelt key.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wireyard_tests::binary::run;
use wireyard_tests::{skip, workspace_root};

/// Schema files as arguments, each with the files that are to fit it, behind `--`; a line for each that does not. YAML 1.2 has no `on` for true.
const VALIDATE: &str = r#"
import json, sys, yaml
from jsonschema import Draft202012Validator
class Loader(yaml.SafeLoader): pass
Loader.yaml_implicit_resolvers = {
    first: [(tag, known) for tag, known in all if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")]
    for first, all in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
import re
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), "tf")
validator = Draft202012Validator(json.load(open(sys.argv[1])))
for path in sys.argv[2:]:
    found = yaml.load(open(path), Loader)
    for error in validator.iter_errors(found):
        print(f"{path}: {error.json_path}: {error.message[:200]}")
"#;

/// A Python that has a validator.
fn python() -> Option<&'static str> {
    ["/usr/bin/python3", "python3"].into_iter().find(|python| {
        let import = Command::new(python).args(["-c", "import jsonschema, yaml"]).output();
        import.is_ok_and(|ended| ended.status.success())
    })
}

fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files
}

/// Files of `programs/` by the kind of their schema.
fn files() -> BTreeMap<&'static str, Vec<PathBuf>> {
    let programs = workspace_root().join("programs");
    let mut all: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    for (kind, folder) in [
        ("program", "headers"),
        ("rate-control", "rate_control"),
        ("scenario", "lab"),
        ("study", "lab/studies"),
    ] {
        all.entry(kind).or_default().extend(yaml_files(&programs.join(folder)));
    }
    for folder in fs::read_dir(&programs).expect("programs").map(|entry| entry.expect("one").path())
    {
        if !folder.join("program.yaml").is_file() {
            continue;
        }
        for file in yaml_files(&folder) {
            let text = fs::read_to_string(&file).expect("a file");
            let has = |key: &str| text.lines().any(|line| line.starts_with(key));
            let kind = match file.file_stem().and_then(|name| name.to_str()) {
                // What `decode` shows of a program; it has no schema.
                Some("summary") => continue,
                Some("program") => "program",
                _ if has("ports:") || has("qos:") || has("linux:") => "switch",
                _ => "entries",
            };
            all.entry(kind).or_default().push(file);
        }
    }
    all
}

/// What the validator says of files.
fn wrong(python: &str, folder: &Path, kind: &str, files: &[PathBuf]) -> String {
    let schema = folder.join(kind);
    fs::write(&schema, run(&["schema", kind]).out).expect("a file");
    let ended = Command::new(python).args(["-c", VALIDATE]).arg(&schema).args(files).output();
    let ended = ended.expect("python");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

#[test]
fn every_file_of_the_project_fits_its_schema_and_a_misspelt_key_does_not() {
    let Some(python) = python() else {
        return skip("schemas", "python3-jsonschema and python3-yaml are not both there");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let all = files();
    for (kind, files) in &all {
        assert!(files.len() > 2, "{kind}: {files:?}");
        assert_eq!(wrong(python, folder.path(), kind, files), "", "{kind}");
    }
    for (kind, text) in [
        ("switch", "ports: { 1: { raet: 10 Gbit/s } }\n"),
        ("rate-control", "rate_control: x\nparametres: {}\n"),
        ("program", "pipelin: x\n"),
    ] {
        let file = folder.path().join("misspelt.yaml");
        fs::write(&file, text).expect("a file");
        assert_ne!(wrong(python, folder.path(), kind, &[file]), "", "{kind}");
    }
}
