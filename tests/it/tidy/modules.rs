//! Modules of one package import each other in one direction, and functions fit a screen.
//!
//! A module is a file or folder directly under `src`. Inline tests and test files may import what they like.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, complain, sources};

/// Cycles that there still are, by package: each is a set of modules, and no other module may join them. A line goes when its cycle is
/// gone: there is none now.
const CYCLES: &[(&str, &[&str])] = &[];

/// Lines of a function, from its name to its end.
const FUNCTION_LINES_MAX: usize = 70;

/// Longer ones: lists of cases without logic between them, and what is waiting to be cut.
const LONG_FUNCTIONS: &[(&str, &str)] = &[
    ("pipeline/src/ir/verify/code.rs", "op"),
    ("pipeline/src/jit/emit/burst.rs", "path_specialised"),
    ("pipeline/src/jit/emit/expr.rs", "expr"),
    ("pipeline/src/jit/emit/ops.rs", "operation"),
    ("switch/src/lab/scenario/read.rs", "scenario"),
];

/// Imports of a package: module, module that it imports, a file that does so.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// The path of a module under `src`: `core/links.rs` is `[core, links]`.
fn modules(path: &str) -> Option<(&str, Vec<&str>)> {
    let (package, rest) = path.split_once("/src/")?;
    Some((package, rest.strip_suffix(".rs")?.split('/').collect()))
}

/// The first names of what `{a::b, c::{d, e}}` imports; of `a::b` the first.
fn first_names(text: &str) -> Vec<&str> {
    let Some(list) = text.strip_prefix('{') else {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        return vec![&text[..end]];
    };
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (n, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.extend(first_names(list[start..n].trim_start()));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.extend(first_names(list[start..n].trim_start()));
                start = n + 1;
            }
            _ => {}
        }
    }
    names
}

/// What a file of a module imports of its package: after `crate::`, and after as many `super::` as lead to the root.
fn imported(source: &Source, depth: usize) -> Vec<String> {
    let code: Vec<&str> = source.code_without_tests().map(|(_, line)| line).collect();
    let code = code.join("\n");
    let up = "super::".repeat(depth);
    let mut names = Vec::new();
    for (root, is_super) in [("crate::", false), (up.as_str(), true)] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            let rest = &code[at + root.len()..];
            let goes_on = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
            let goes_up = is_super && rest.starts_with("super::");
            if !goes_on && !goes_up {
                names.extend(first_names(rest).into_iter().map(str::to_owned));
            }
        }
    }
    names
}

fn imports(package: &str, sources: &[Source]) -> Imports {
    let mut imports = Imports::new();
    let of_package: Vec<(Vec<&str>, &Source)> = sources
        .iter()
        .filter_map(|source| modules(&source.path).map(|(of, path)| (of, path, source)))
        .filter(|(of, ..)| *of == package)
        .map(|(_, path, source)| (path, source))
        .collect();
    let known: BTreeSet<&str> = of_package.iter().map(|(path, _)| path[0]).collect();
    for (path, source) in &of_package {
        if path.contains(&"tests") || ["lib", "main"].contains(&path[0]) {
            continue;
        }
        for name in imported(source, path.len()) {
            if name != path[0] && known.contains(name.as_str()) {
                let of_module = imports.entry(path[0].to_owned()).or_default();
                of_module.entry(name).or_insert_with(|| source.path.clone());
            }
        }
    }
    imports
}

/// Every module that can be reached from one.
fn reached<'i>(imports: &'i Imports, from: &'i str) -> BTreeSet<&'i str> {
    let (mut reached, mut todo) = (BTreeSet::new(), vec![from]);
    while let Some(module) = todo.pop() {
        for next in imports.get(module).into_iter().flat_map(|of| of.keys()) {
            if reached.insert(next.as_str()) {
                todo.push(next);
            }
        }
    }
    reached
}

/// Sets of modules each of which leads to the others.
fn cycles(imports: &Imports) -> BTreeSet<BTreeSet<&str>> {
    let mut cycles = BTreeSet::new();
    for module in imports.keys() {
        let there = reached(imports, module);
        if there.contains(module.as_str()) {
            let back = |other: &&str| reached(imports, other).contains(module.as_str());
            cycles.insert(there.into_iter().filter(back).collect());
        }
    }
    cycles
}

#[test]
fn modules_of_a_package_import_each_other_in_one_direction() {
    let (sources, mut problems) = (sources(), Vec::new());
    for package in ["tables", "pipeline", "switch"] {
        let imports = imports(package, &sources);
        let allowed: Vec<BTreeSet<&str>> = CYCLES
            .iter()
            .filter(|(of, _)| *of == package)
            .map(|(_, modules)| modules.iter().copied().collect())
            .collect();
        let found = cycles(&imports);
        for cycle in &found {
            if allowed.iter().any(|known| cycle.is_subset(known)) {
                continue;
            }
            problems.push(format!("{package}: these modules import each other: {cycle:?}"));
            for module in cycle {
                for (other, file) in imports.get(*module).into_iter().flatten() {
                    if cycle.contains(other.as_str()) {
                        problems.push(format!("  {module} imports {other} in {file}"));
                    }
                }
            }
        }
        for known in &allowed {
            if !found.iter().any(|cycle| cycle.is_subset(known)) {
                problems
                    .push(format!("{package}: {known:?} is no cycle any more: correct the list"));
            }
        }
    }
    complain(&problems);
}

#[test]
fn a_cycle_is_found_through_any_form_of_import() {
    let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
    let of = |sources: &[Source]| {
        let imports = imports("p", sources);
        cycles(&imports).into_iter().map(|c| c.into_iter().map(str::to_owned).collect()).collect()
    };
    let none: Vec<Vec<String>> = of(&[
        source("p/src/a.rs", "use crate::b::X;\n// crate::c\n"),
        source("p/src/b.rs", "use std::x;\n#[cfg(test)]\nmod tests { use crate::a; }"),
    ]);
    assert!(none.is_empty(), "{none:?}");
    let found: Vec<Vec<String>> = of(&[
        source("p/src/a/x.rs", "use crate::{z::{Y, a}, b};"),
        source("p/src/b.rs", "fn f() -> super::c::T { todo }"),
        source("p/src/c/d.rs", "use super::super::a::x;"),
        source("p/src/z.rs", "use super::w;"),
    ]);
    assert_eq!(found, [["a", "b", "c"]]);
}

/// Name and lines of every function of a file; `rustfmt` has set its end below its beginning.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let Some((before, rest)) = code.split_once("fn ") else { continue };
        let qualifiers = ["pub", "const", "unsafe", "extern", "\"C\"", "async", "pub(in"];
        let is_head = before
            .split_whitespace()
            .all(|word| qualifiers.contains(&word) || word.ends_with(')') && !word.contains('.'));
        if !is_head || line.ends_with(';') || line.ends_with('}') {
            continue;
        }
        let is_end = |line: &&str| line.strip_prefix(indent).is_some_and(|rest| rest == "}");
        let Some(length) = lines[n..].iter().position(is_end) else { continue };
        let name = rest.split(['<', '(']).next().unwrap_or(rest);
        functions.push((name.to_owned(), length + 1));
    }
    functions
}

#[test]
fn functions_fit_a_screen() {
    let (mut problems, mut unused) = (Vec::new(), LONG_FUNCTIONS.to_vec());
    for source in sources() {
        if !source.path.contains("/src/")
            || source.path.starts_with("tests/")
            || source.path.contains("/tests")
        {
            continue;
        }
        for (name, lines) in functions(&source.text) {
            let here = |known: &(&str, &str)| *known == (source.path.as_str(), name.as_str());
            if lines <= FUNCTION_LINES_MAX {
                continue;
            }
            match LONG_FUNCTIONS.iter().any(here) {
                true => unused.retain(|known| !here(known)),
                false => problems.push(format!("{}: `{name}` has {lines} lines", source.path)),
            }
        }
    }
    problems.extend(
        unused.iter().map(|known| format!("{known:?} is not long any more: correct the list")),
    );
    complain(&problems);
}

#[test]
fn the_length_of_a_function_is_that_of_its_lines() {
    let text = "impl X {\n    pub(super) fn one<T>(\n        a: T,\n    ) -> u8 {\n        0\n    }\n\n    fn two(&self) {}\n}\nfn three() {\n}\n";
    assert_eq!(functions(text), [("one".to_owned(), 5), ("three".to_owned(), 2)]);
}
