//! The laws of ARCHITECTURE.md, checked on the source itself.

mod modules;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use wireyard_tests::{has_tool, skip, workspace_root};

const CRATES: [&str; 4] = ["tables", "pipeline", "switch", "tests"];

/// Lines of a file before someone must ask, and before tidy refuses.
const LINES_MAX: usize = 800;

/// Modules that may say `unsafe`, with everything below them.
const UNSAFE_PLACES: [&str; 7] = [
    "pipeline/src/packet.rs",
    "pipeline/src/packet/",
    "pipeline/src/jit/",
    "switch/src/lab/lease.rs",
    "switch/src/ports/sys.rs",
    "switch/src/ports/sys/",
    "tables/src/prefetch.rs",
];

/// Places that may read a clock.
const CLOCK_PLACES: [&str; 10] = [
    "switch/src/main.rs",
    "switch/src/control/stream.rs",
    "switch/src/linux/mirror.rs",
    "switch/src/ports/",
    "switch/src/gnmi/",
    "switch/src/live",
    "switch/src/p4runtime/events.rs",
    "switch/src/p4runtime/persist/store.rs",
    "switch/src/time_of_day.rs",
    "switch/src/web",
];
/// Dependencies that only code made by `build.rs` names.
const GENERATED_USES: [&str; 1] = ["tonic-prost"];

/// Everything at the top of the repository.
const TOP_LEVEL: [&str; 18] = [
    ".ci",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "ci.sh",
    "deny.toml",
    "pipeline",
    "programs",
    "rustfmt.toml",
    "switch",
    "tables",
    "tests",
];

struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The code without comments, one string per line.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines.map(|(n, line)| (n + 1, line.split("//").next().unwrap_or("")))
    }

    /// Inline tests are the last part of a file.
    fn code_without_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = self.text.find("#[cfg(test)]\nmod tests {").unwrap_or(self.text.len());
        let last = self.text[..end].lines().count();
        let is_test_file = self.path.contains("/tests");
        self.code().take_while(move |(n, _)| !is_test_file && *n <= last)
    }
}

/// The files of the project: those that git tracks. What else lies in the checkout is the user's.
fn tracked_files() -> Vec<String> {
    files_of(&workspace_root())
}

/// The same for a checkout, or for an unpacked archive, which has no list of its files: all below the known names.
fn files_of(root: &Path) -> Vec<String> {
    let listed = std::process::Command::new("git").arg("ls-files").current_dir(root).output();
    let text = listed.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let text = String::from_utf8(text.unwrap_or_default()).expect("file names are UTF-8");
    let mut files: Vec<String> = text.lines().map(str::to_owned).collect();
    if files.is_empty() {
        TOP_LEVEL.iter().for_each(|name| walk(root, Path::new(name), &mut files));
    }
    files.retain(|path| root.join(path).is_file());
    files
}

fn walk(root: &Path, path: &Path, files: &mut Vec<String>) {
    let Ok(folder) = fs::read_dir(root.join(path)) else {
        return files.push(path.to_string_lossy().into_owned());
    };
    for entry in folder.flatten() {
        walk(root, &path.join(entry.file_name()), files);
    }
}

/// Pictures and reports that the commands of README.md leave in the checkout are no files of the project; an archive has no git.
#[test]
fn only_tracked_files_are_judged() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("switch/src")).unwrap();
    for file in ["README.md", "switch/src/lib.rs", "router.svg"] {
        fs::write(root.join(file), "").unwrap();
    }
    let project = ["README.md", "switch/src/lib.rs"];
    let mut found = files_of(root);
    found.sort();
    assert_eq!(found, project, "without git");
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(arguments).current_dir(root).output().is_ok_and(|output| output.status.success())
    };
    if !has_tool("git") {
        return skip("only_tracked_files_are_judged", "no git: an archive is judged whole");
    }
    assert!(git(&["init", "-q"]) && git(&["add", "README.md", "switch"]));
    assert_eq!(files_of(root), project);
}

fn sources() -> Vec<Source> {
    tracked_files()
        .into_iter()
        .filter(|path| path.ends_with(".rs"))
        .map(|path| {
            let text = fs::read_to_string(workspace_root().join(&path)).expect("a tracked file");
            Source { path, text }
        })
        .collect()
}

fn complain(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn the_top_level_is_what_the_design_says() {
    let allowed: BTreeSet<&str> = TOP_LEVEL.into();
    let found: BTreeSet<String> = tracked_files()
        .iter()
        .filter_map(|path| path.split('/').next().map(str::to_owned))
        .collect();
    let extra: Vec<String> = found
        .iter()
        .filter(|name| !allowed.contains(name.as_str()))
        .map(|name| format!("{name}: not a top-level file of this project"))
        .collect();
    complain(&extra);
}

#[test]
fn packages_depend_in_one_direction() {
    let mut problems = Vec::new();
    for (rank, package) in CRATES.iter().enumerate() {
        let manifest = fs::read_to_string(workspace_root().join(package).join("Cargo.toml"))
            .expect("a manifest");
        for later in &CRATES[rank..] {
            let name = format!("wireyard-{later}");
            let depends =
                manifest.lines().any(|line| line.starts_with(&name) && !line.starts_with("name"));
            if depends {
                problems.push(format!("{package}/Cargo.toml depends on {name}"));
            }
        }
    }
    complain(&problems);
}

/// A dependency of a package that none of its sources names, and one of the workspace that no package has.
#[test]
fn every_dependency_is_used() {
    let manifest = |folder: &str| {
        let path = workspace_root().join(folder).join("Cargo.toml");
        fs::read_to_string(path).expect("a manifest")
    };
    let (sources, mut problems, mut used) = (sources(), Vec::new(), BTreeSet::new());
    for package in CRATES {
        for line in manifest(package).lines() {
            let optional = || line.split_once(" = { workspace = true");
            let Some((name, _)) = line.split_once(".workspace = true").or_else(optional) else {
                continue;
            };
            used.insert(name.to_owned());
            let word = name.replace('-', "_");
            let names = |source: &&Source| {
                source.path.starts_with(&format!("{package}/")) && has_word(&source.text, &word)
            };
            let of_manifest = ["version", "edition", "rust-version", "license", "publish"];
            if GENERATED_USES.contains(&name) {
                continue;
            }
            if !of_manifest.contains(&name) && !sources.iter().any(|source| names(&source)) {
                problems.push(format!("{package}/Cargo.toml: nothing uses {name}"));
            }
        }
    }
    let text = manifest("");
    let list = text.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let list = list.split("\n[").next().unwrap_or_default();
    for (name, _) in list.lines().filter_map(|line| line.split_once(" = ")) {
        if !name.starts_with('#') && !used.contains(name) {
            problems.push(format!("Cargo.toml: no package uses {name}"));
        }
    }
    complain(&problems);
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

#[test]
fn files_are_small() {
    let problems: Vec<String> = sources()
        .iter()
        .filter(|source| source.text.lines().count() > LINES_MAX)
        .map(|source| format!("{}: over {LINES_MAX} lines", source.path))
        .collect();
    complain(&problems);
}

#[test]
fn every_module_says_what_it_is() {
    let problems: Vec<String> = sources()
        .iter()
        .filter(|source| !source.text.starts_with("//!") && !source.path.ends_with("/tests.rs"))
        .map(|source| format!("{}: the first line is not `//!`", source.path))
        .collect();
    complain(&problems);
}

#[test]
fn unsafe_has_an_address_and_a_reason() {
    let mut problems = Vec::new();
    for source in sources() {
        let named = UNSAFE_PLACES.iter().any(|place| source.path.starts_with(place));
        let lines: Vec<&str> = source.text.lines().collect();
        for (n, code) in source.code() {
            let says = code.contains("unsafe {") || code.contains("unsafe impl");
            let declares = code.contains("unsafe fn") || code.contains("allow(unsafe_code)");
            if (says || declares) && !named && !source.path.starts_with("tests/it/tidy") {
                problems.push(format!("{}:{n}: unsafe outside its places", source.path));
            }
            let before = &lines[n.saturating_sub(9)..n];
            if says && named && !before.iter().any(|line| line.contains("SAFETY:")) {
                problems.push(format!("{}:{n}: no SAFETY comment", source.path));
            }
        }
    }
    complain(&problems);
}

#[test]
fn the_core_reads_no_clock() {
    let mut problems = Vec::new();
    for source in sources() {
        if source.path.starts_with("tests/")
            || source.path.contains("/benches/")
            || CLOCK_PLACES.iter().any(|place| source.path.starts_with(place))
        {
            continue;
        }
        for (n, code) in source.code_without_tests() {
            if code.contains("Instant::now") || code.contains("SystemTime") {
                problems.push(format!("{}:{n}: reads a clock", source.path));
            }
        }
    }
    complain(&problems);
}

/// `setcap` takes away what it does not name: all advice names the same privileges.
#[test]
fn one_list_of_capabilities_is_advised() {
    let mut all = sources();
    all.retain(|source| source.path.starts_with("switch/src/"));
    let lines = all.iter().flat_map(|source| source.code_without_tests());
    let found = lines.filter(|(_, code)| code.contains("cap_net_raw,")).count();
    assert_eq!(found, 1, "ports::SETCAP is the one");
}

#[test]
fn the_core_crates_know_no_protocol_and_no_socket() {
    let protocols = ["ipv4", "ipv6", "roce", "infiniband", "bth", "vlan", "udp", "pfc", "cnp"];
    let mut problems = Vec::new();
    for source in sources() {
        let pipeline = source.path.starts_with("pipeline/src/");
        let tables = source.path.starts_with("tables/src/");
        if !pipeline && !tables {
            continue;
        }
        for (n, code) in source.code_without_tests() {
            let names = code.to_ascii_lowercase();
            let words = || names.split(|c: char| !c.is_ascii_alphanumeric());
            // Names of link types are the device's, also as text.
            let quoted = ["\"ethernet\"", "\"infiniband\"", "\"opa\"", "\"erf\""];
            if let Some(link) = quoted.iter().find(|link| code.contains(**link)) {
                problems.push(format!("{}:{n}: knows the link type {link}", source.path));
            }
            // Address literals and displays are formats of values, not headers.
            let known = words().find(|word| protocols.contains(word));
            let is_format = code.contains("Ipv4") || code.contains("Ipv6") || code.contains('"');
            if let Some(word) = known
                && !is_format
            {
                problems.push(format!("{}:{n}: knows `{word}`", source.path));
            }
            if code.contains("std::net::Tcp") || code.contains("std::net::Udp") {
                problems.push(format!("{}:{n}: knows a socket", source.path));
            }
        }
    }
    complain(&problems);
}

#[test]
fn the_sans_io_parts_import_no_io() {
    let parts = ["switch/src/tm", "switch/src/roce", "switch/src/units"];
    let banned = ["crate::ports", "crate::core", "crate::frames", "std::net", "libc::", "std::fs"];
    let mut problems = Vec::new();
    for source in sources() {
        if !parts.iter().any(|part| source.path.starts_with(part)) {
            continue;
        }
        for (n, code) in source.code_without_tests() {
            if let Some(word) = banned.iter().find(|word| code.contains(**word)) {
                problems.push(format!("{}:{n}: imports {word}", source.path));
            }
        }
    }
    complain(&problems);
}

#[test]
fn no_source_file_is_dead() {
    let files: BTreeSet<String> = sources().into_iter().map(|source| source.path).collect();
    let mut reached = BTreeSet::new();
    let roots =
        ["tables/src/lib.rs", "pipeline/src/lib.rs", "switch/src/lib.rs"].into_iter().chain([
            "switch/build.rs",
            "switch/src/main.rs",
            "tests/src/lib.rs",
            "tests/it/main.rs",
            "tests/skipped.rs",
            "tests/models/src/lib.rs",
        ]);
    for root in roots {
        reach(root, &mut reached);
    }
    let problems: Vec<String> = files
        .iter()
        .filter(|path| !reached.contains(*path))
        // Benches, examples, fuzz targets and a crate's own `tests/` are roots by themselves.
        .filter(|path| {
            !["/benches/", "/examples/", "/fuzz/"].iter().any(|part| path.contains(part))
        })
        .filter(|path| !CRATES.iter().any(|c| path.starts_with(&format!("{c}/tests/"))))
        .map(|path| format!("{path}: no `mod` line leads to it"))
        .collect();
    complain(&problems);
}

/// Follows `mod name;` from a file to its children.
fn reach(path: &str, reached: &mut BTreeSet<String>) {
    let Ok(text) = fs::read_to_string(workspace_root().join(path)) else { return };
    reached.insert(path.to_owned());
    let stem = Path::new(path).with_extension("");
    let is_root = ["lib", "main"].iter().any(|root| stem.ends_with(root));
    let folder = if is_root { stem.parent().map(PathBuf::from).unwrap_or_default() } else { stem };
    for line in text.lines() {
        let line = line.trim();
        let Some(name) = line.strip_suffix(';').and_then(|l| l.rsplit_once("mod ")).map(|p| p.1)
        else {
            continue;
        };
        let child = folder.join(format!("{name}.rs"));
        reach(&child.to_string_lossy(), reached);
    }
}

/// A page that a comment names is one that its reader has: in this repository, or in the one that the comment names.
#[test]
fn comments_name_pages_that_exist() {
    let elsewhere = ["docs/JSON_format.md"];
    let tracked = tracked_files();
    let is_there = |page: &str| {
        elsewhere.contains(&page)
            || tracked.iter().any(|path| path == page || path.ends_with(&format!("/{page}")))
    };
    let mut problems = Vec::new();
    for source in sources() {
        for (n, line) in source.text.lines().enumerate() {
            let Some((_, comment)) = line.split_once("//") else { continue };
            let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
            let words = comment.split(|c: char| !is_part(c));
            let pages =
                words.map(|word| word.trim_matches('.')).filter(|word| word.ends_with(".md"));
            for page in pages.filter(|page| !is_there(page)) {
                problems.push(format!("{}:{}: there is no {page}", source.path, n + 1));
            }
        }
    }
    complain(&problems);
}

#[test]
fn nothing_is_left_unfinished() {
    let marks = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("FIX", "ME")];
    let mut problems = Vec::new();
    for source in sources() {
        for (n, line) in source.text.lines().enumerate() {
            if marks.iter().any(|mark| line.contains(mark))
                || line.contains(concat!("#[ig", "nore"))
            {
                problems.push(format!("{}:{}: unfinished", source.path, n + 1));
            }
        }
    }
    complain(&problems);
}
