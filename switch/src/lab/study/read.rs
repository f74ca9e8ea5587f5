//! From a study's file to its model, with all errors at their places.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::{Diagnostics, Files, Rejected, codes};
use wireyard_pipeline::ir::SourceSpan;
use wireyard_pipeline::source::decode::{Decoder, Fields};
use wireyard_pipeline::source::node::{Node, NodeKind};
use wireyard_pipeline::source::shape::{MapShape, Shape, key, needed};
use wireyard_pipeline::source::{DATA_BYTES_MAX, Loader, read_bytes, read_yaml};

use super::points::{Point, Range, Values, all, count};
use super::{Axis, Goal, Sample, Study, change};
use crate::file_kind::{self, FileKind};
use crate::lab::build;
use crate::tm::random::{GAMMA, mix};
use crate::units;
use Shape::{Any, Choice, Count, Either, List, Map, MapOf, Name, OneOrMore, Text};

/// Runs of a study at most.
const RUNS_MAX: u64 = 1_000_000;
/// Points at which a value is tried that the scenario does not take by itself.
const TRIED_MAX: usize = 64;
/// Default number of points of a range.
const STEPS: u32 = 5;

/// A study file.
pub static STUDY: MapShape = MapShape {
    name: "study",
    what: "a study",
    keys: &[
        needed("study", Name, "Its name."),
        key("about", Text, "What it asks."),
        needed("scenario", Text, "The scenario, relative to this file."),
        needed(
            "vary",
            MapOf(&Either(&[Map(&RANGE), OneOrMore(&Any)])),
            "Keys of the scenario, with dots between, and their values: a list, or a range.",
        ),
        key("sample", Map(&SAMPLE), "Points that are drawn; every combination when absent."),
        key("seeds", Count, "Runs of each point; 1 when absent."),
        key(
            "seed",
            Count,
            "Of the first run of each point, and of what is drawn here; 1 when absent.",
        ),
        key("figures", OneOrMore(&Name), "Figures that the report shows."),
        key("goal", Text, "What the best setting is: `min FIGURE` or `max FIGURE`."),
        key("pareto", List(&Text), "Two goals that stand against each other."),
    ],
};

/// A range of values.
pub static RANGE: MapShape = MapShape {
    name: "range",
    what: "a range",
    keys: &[
        needed("from", Text, "The first value."),
        needed("to", Text, "The last value, in the same unit."),
        key("steps", Count, "Points of a grid; 5 when absent."),
        key("scale", Choice(SCALES), "Even steps or even ratios; `linear` when absent."),
    ],
};

/// The choice of points.
pub static SAMPLE: MapShape = MapShape {
    name: "sample",
    what: "a sample",
    keys: &[
        key("random", Count, "So many points, each key by itself."),
        key("latin_hypercube", Count, "So many points, evenly over each key."),
    ],
};

const SCALES: &[&str] = &["linear", "log"];

/// Reads a study.
///
/// # Errors
/// All errors, with their places.
pub fn read(path: &Path, loader: &Loader) -> Result<Study, Rejected> {
    let mut files = Files::new();
    let mut found = Diagnostics::new();
    let node = read_yaml(path, loader, &mut files, &mut found);
    let study =
        node.and_then(|node| study(&mut Decoder::new(&files, &mut found), &node, (path, loader)));
    let Some(mut study) = study.filter(|_| !found.has_errors()) else {
        let errors = Rejected { diagnostics: found, files };
        return Err(file_kind::or_kind(path, loader, FileKind::Study, errors));
    };
    study.files = files;
    find_whole_keys(&mut study, loader);
    let texts = texts(&study, loader)?;
    study.fingerprint = fingerprint(texts.iter().map(|(_, text)| text.as_bytes()));
    study.sources = texts
        .into_iter()
        // Those inside the binary are not on the disk.
        .filter_map(|(path, _)| of_file(&path).map(|mark| (path, mark)))
        .collect();
    Ok(study)
}

/// The fingerprint of a file as it is now.
pub(super) fn of_file(path: &Path) -> Option<String> {
    read_bytes(path, DATA_BYTES_MAX).ok().map(|bytes| fingerprint([bytes.as_slice()]))
}

/// Finds the ranges whose keys take whole numbers only: the scenario refuses others there. Quantities with a unit have
/// fractions. A number may be refused for another reason, so one that is taken decides.
fn find_whole_keys(study: &mut Study, loader: &Loader) {
    let (scenario, files) = (&study.scenario, &study.files);
    let is_read = |changes: &[Change]| {
        crate::lab::scenario::read_changed(scenario, loader, files.clone(), changes).is_ok()
    };
    let firsts = firsts(&study.axes);
    for (place, axis) in study.axes.iter_mut().enumerate() {
        let Values::Range(range) = &mut axis.values else { continue };
        if units::is_unit(&range.unit) {
            continue;
        }
        let [whole, fractions] = range.probes();
        // Another key that varies may be what makes this one legal.
        let is_taken = |node: Node| {
            is_read(&[(axis.path.clone(), node.clone())]) || is_read(&among(&firsts, place, node))
        };
        let takes = |nodes: Vec<Node>| nodes.into_iter().any(is_taken);
        range.is_whole = !takes(fractions) && takes(whole);
    }
    study.points = all(&study.axes, study.sample, study.seed);
}

/// A key of a scenario, and the value that it gets.
type Change = (Vec<Sp<String>>, Node);

/// The first value of each key.
fn firsts(axes: &[Axis]) -> Vec<Change> {
    let first = |axis: &Axis| match &axis.values {
        Values::List(nodes) => nodes[0].clone(),
        Values::Range(range) => range.node(0.0),
    };
    axes.iter().map(|axis| (axis.path.clone(), first(axis))).collect()
}

/// A value of one key among the first ones of the others.
fn among(firsts: &[Change], place: usize, value: Node) -> Vec<Change> {
    let mut changes = firsts.to_vec();
    changes[place].1 = value;
    changes
}

/// The text of every file that a run of the study reads, once: of the study, of the scenario as written, and of the scenario with each
/// value, by itself and, where it needs other keys, at points that have it.
///
/// # Errors
/// A key that the scenario cannot have, or a value that no point can have.
fn texts(study: &Study, loader: &Loader) -> Result<Vec<(PathBuf, String)>, Rejected> {
    let mut known = BTreeSet::new();
    let mut texts = Vec::new();
    let mut take = |files: &Files| {
        for file in files.iter() {
            if known.insert(file.path.clone()) {
                texts.push((file.path.clone(), file.text.clone()));
            }
        }
    };
    let mut read = |changes: &[Change]| -> Result<(), Rejected> {
        let files = study.files.clone();
        let read = crate::lab::scenario::read_changed(&study.scenario, loader, files, changes);
        match read {
            Ok((scenario, files)) => {
                take(&files);
                build::program_files(&scenario).iter().for_each(&mut take);
                Ok(())
            }
            // What was read until then has a part in what is wrong.
            Err(rejected) => {
                take(&rejected.files);
                Err(rejected)
            }
        }
    };
    read(&[])?;
    for (place, axis) in study.axes.iter().enumerate() {
        let by_value = points_by_value(study, place);
        // Each value of a list may be another file; a range may have a million steps.
        let step = match axis.values {
            Values::Range(_) => by_value.len().div_ceil(TRIED_MAX).max(1),
            _ => 1,
        };
        for points in by_value.iter().step_by(step) {
            let value = points[0].nodes[place].clone();
            let Err(alone) = read(&[(axis.path.clone(), value)]) else { continue };
            // Another key that varies may be what makes this one legal. Any of many: at equal steps another key may be the same.
            let is_few = points.len() <= TRIED_MAX;
            let nth = |n: usize| if is_few { n } else { mix(n as u64) as usize % points.len() };
            let mut tried = (0..points.len().min(TRIED_MAX)).map(|n| points[nth(n)]);
            if !tried.any(|point| read(&study.changes(point)).is_ok()) {
                return Err(alone);
            }
        }
    }
    Ok(texts)
}

/// The points of each value of a key; of a range of which points are drawn, all in one.
fn points_by_value(study: &Study, place: usize) -> Vec<Vec<&Point>> {
    let is_drawn = !matches!(study.sample, Sample::Grid);
    let is_one = is_drawn && matches!(study.axes[place].values, Values::Range(_));
    let (mut places, mut found) = (BTreeMap::new(), Vec::<Vec<&Point>>::new());
    for point in &study.points {
        let label = if is_one { "" } else { point.labels[place].as_str() };
        let at = *places.entry(label).or_insert(found.len());
        match found.get_mut(at) {
            Some(points) => points.push(point),
            None => found.push(vec![point]),
        }
    }
    found
}

/// A hash of texts, and of the version.
fn fingerprint<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> String {
    let mut state = mix(GAMMA);
    let mut take = |bytes: &[u8]| {
        for byte in bytes.iter().chain(&[0]) {
            state = mix(state ^ u64::from(*byte)).wrapping_add(GAMMA);
        }
    };
    take(env!("CARGO_PKG_VERSION").as_bytes());
    texts.into_iter().for_each(&mut take);
    format!("{state:016x}")
}

fn study(
    decoder: &mut Decoder<'_>,
    node: &Node,
    (path, loader): (&Path, &Loader),
) -> Option<Study> {
    let fields = decoder.map(node, &STUDY)?;
    let name = decoder.name(fields.get("study")?)?.value;
    let about = fields.get("about").and_then(|node| decoder.word(node));
    let scenario = scenario(decoder, fields.get("scenario")?, (path, loader));
    let axes = axes(decoder, fields.get("vary")?, fields.get("sample").is_some());
    let sample = sample(decoder, &fields);
    let (scenario, axes, sample) = (scenario?, axes?, sample?);
    let mut number = |key: &str, most: u64| match fields.get(key) {
        Some(node) => {
            let found = decoder.count(node)?;
            if found.value == 0 || found.value > most {
                let message = format!("{key}: {}, expected 1 to {most}", found.value);
                return decoder.refuse(codes::SCENARIO, found.span, message);
            }
            Some(found.value)
        }
        None => Some(1),
    };
    let (seeds, seed) = (number("seeds", 100_000)?, number("seed", u64::MAX)?);
    let runs = count(&axes, sample).saturating_mul(seeds);
    if runs > RUNS_MAX {
        let message = format!("{runs} runs: at most {RUNS_MAX}");
        let error = decoder.diagnostics.error(codes::LIMIT, fields.span, message);
        error.help("draw points instead of all combinations: `sample: { latin_hypercube: 100 }`");
        return None;
    }
    let Wanted { goal, pareto, figures, places } = wanted(decoder, &fields)?;
    Some(Study {
        name,
        about: about.map(|about| about.value).unwrap_or_default(),
        path: path.to_owned(),
        scenario,
        points: Vec::new(),
        axes,
        sample,
        seed,
        seeds: (0..seeds).map(|n| seed.wrapping_add(n)).collect(),
        figures,
        goal,
        pareto,
        places,
        files: Files::new(),
        fingerprint: String::new(),
        sources: Vec::new(),
    })
}

/// The file of the scenario, which must be there.
fn scenario(
    decoder: &mut Decoder<'_>,
    node: &Node,
    (path, loader): (&Path, &Loader),
) -> Option<PathBuf> {
    let scenario = path.parent().unwrap_or(Path::new("")).join(decoder.word(node)?.value);
    if !loader.is_there(&scenario) {
        let message = format!("there is no scenario {}", shown(&scenario));
        let error = decoder.diagnostics.error(codes::FILE_NOT_READ, node.span, message);
        error.note("the path is relative to the study");
        return None;
    }
    Some(scenario)
}

/// The figures and goals of a study.
struct Wanted {
    goal: Option<Goal>,
    pareto: Vec<Goal>,
    figures: Vec<String>,
    /// By figure, in the order of `figures`.
    places: Vec<SourceSpan>,
}

fn wanted(decoder: &mut Decoder<'_>, fields: &Fields<'_>) -> Option<Wanted> {
    let goal = match fields.get("goal") {
        Some(node) => Some(read_goal(decoder, node)?),
        None => None,
    };
    let mut goals_at: Vec<SourceSpan> =
        fields.get("goal").map(|node| node.span).into_iter().collect();
    let mut pareto = Vec::new();
    if let Some(node) = fields.get("pareto") {
        let goals = decoder.items(node, "two goals")?;
        if goals.len() != 2 {
            return decoder.refuse(
                codes::SCENARIO,
                node.span,
                "two goals stand against each other",
            );
        }
        pareto = goals.iter().map(|node| read_goal(decoder, node)).collect::<Option<Vec<_>>>()?;
        if pareto[0].figure == pareto[1].figure {
            let message = format!("`{}` stands against itself", pareto[0].figure);
            return decoder.refuse(codes::SCENARIO, goals[1].span, message);
        }
        goals_at.extend(goals.iter().map(|node| node.span));
    }
    let (mut figures, mut places) = (Vec::new(), Vec::new());
    if let Some(node) = fields.get("figures") {
        let names = decoder.each(node, "a figure", Decoder::word);
        (figures, places) = names.into_iter().map(|name| (name.value, name.span)).unzip();
    }
    for (goal, place) in goal.iter().chain(&pareto).zip(goals_at) {
        if !figures.contains(&goal.figure) {
            figures.push(goal.figure.clone());
            places.push(place);
        }
    }
    if figures.is_empty() {
        let message = "a study needs `figures`, or a `goal`: nothing would be shown";
        return decoder.refuse(codes::MISSING_KEY, fields.span, message);
    }
    Some(Wanted { goal, pareto, figures, places })
}

fn read_goal(decoder: &mut Decoder<'_>, node: &Node) -> Option<Goal> {
    let text = decoder.word(node)?;
    let goal = Goal::parse(&text.value);
    if goal.is_none() {
        let message = format!("`{}` is no goal", text.value);
        let error = decoder.diagnostics.error(codes::SCENARIO, text.span, message);
        error.help("a goal is `min FIGURE` or `max FIGURE`");
    }
    goal
}

fn sample(decoder: &mut Decoder<'_>, fields: &Fields<'_>) -> Option<Sample> {
    let Some(node) = fields.get("sample") else { return Some(Sample::Grid) };
    let own = decoder.map(node, &SAMPLE)?;
    match (own.get("random"), own.get("latin_hypercube")) {
        (Some(count), None) => Some(Sample::Random(drawn(decoder, count)?)),
        (None, Some(count)) => Some(Sample::LatinHypercube(drawn(decoder, count)?)),
        _ => {
            let message = "a sample is `random: N` or `latin_hypercube: N`";
            decoder.refuse(codes::SCENARIO, node.span, message)
        }
    }
}

fn drawn(decoder: &mut Decoder<'_>, node: &Node) -> Option<u32> {
    let count = decoder.count(node)?;
    if !(1..=RUNS_MAX).contains(&count.value) {
        let message = format!("{} points, expected 1 to {RUNS_MAX}", count.value);
        return decoder.refuse(codes::SCENARIO, count.span, message);
    }
    Some(count.value as u32)
}

/// Keys of a scenario that cannot vary, why, and the way out.
const FIXED: &[(&str, &str, &str)] = &[
    (
        "seed",
        "every point has the seeds of the study: those of `vary` would be overridden",
        "write `seeds: N` beside `vary` for N runs of each point, and `seed: N` for the first of them",
    ),
    (
        "captures",
        "a study writes no captures: it would run the same again",
        "run the scenario by itself for them: `wireyard lab FILE -o DIR`",
    ),
];

fn axes(decoder: &mut Decoder<'_>, node: &Node, is_drawn: bool) -> Option<Vec<Axis>> {
    let mut axes = Vec::new();
    for (key, value) in decoder.pairs(node, "keys that vary")? {
        let first = key.scalar.text.split('.').next();
        if let Some((name, why, help)) = FIXED.iter().find(|(name, ..)| first == Some(name)) {
            let message = format!("`{name}` cannot vary: {why}");
            decoder.diagnostics.error(codes::SCENARIO, key.span, message).help(*help);
            return None;
        }
        let values = match &value.kind {
            NodeKind::Map(_) => Values::Range(range(decoder, value, is_drawn)?),
            NodeKind::List(items) if items.is_empty() => {
                let message = format!("`{}` has no value", key.scalar.text);
                let error = decoder.diagnostics.error(codes::SCENARIO, value.span, message);
                error.help("write its values, or leave the key out");
                return None;
            }
            NodeKind::List(items) => {
                refuse_twice(decoder, items)?;
                Values::List(items.clone())
            }
            NodeKind::Scalar(_) => Values::List(vec![value.clone()]),
            _ => return decoder.wrong(value, "a list of values, or a range"),
        };
        axes.push(Axis { key: key.scalar.text.clone(), path: change::path(key), values });
    }
    if axes.is_empty() {
        return decoder.refuse(
            codes::SCENARIO,
            node.span,
            "no key varies: there is nothing to study",
        );
    }
    Some(axes)
}

/// A value that is listed twice would count twice in means and maps.
fn refuse_twice(decoder: &mut Decoder<'_>, items: &[Node]) -> Option<()> {
    let mut known = BTreeSet::new();
    for (item, text) in items.iter().filter_map(|item| Some((item, item.text()?))) {
        if !known.insert(text.text.to_owned()) {
            let message = format!("`{}` is listed twice", text.text);
            return decoder.refuse(codes::SCENARIO, item.span, message);
        }
    }
    Some(())
}

/// A number, with an exponent if it has one, and the text after it.
fn quantity(text: &str) -> Option<(f64, &str)> {
    let behind = |from: usize, signs: &str| {
        let end = text[from..].find(|c: char| !c.is_ascii_digit() && !signs.contains(c));
        end.map_or(text.len(), |end| from + end)
    };
    let digits = behind(0, ".+-_");
    let exponent = match text.as_bytes().get(digits) {
        Some(b'e' | b'E') => behind(digits + 1, "+-"),
        _ => digits,
    };
    [exponent, digits].into_iter().find_map(|end| {
        let number = text[..end].replace('_', "").parse().ok()?;
        Some((number, text[end..].trim()))
    })
}

fn range(decoder: &mut Decoder<'_>, node: &Node, is_drawn: bool) -> Option<Range> {
    let fields = decoder.map(node, &RANGE)?;
    if let Some(node) = fields.get("steps").filter(|_| is_drawn) {
        let message =
            "`steps` means nothing beside `sample`, which draws points of the whole range";
        let error = decoder.diagnostics.error(codes::SCENARIO, node.span, message);
        error.help("leave `steps` out, or `sample` for every combination");
        return None;
    }
    let (from, to) = (decoder.word(fields.get("from")?)?, decoder.word(fields.get("to")?)?);
    let (Some((first, unit)), Some((last, other))) = (quantity(&from.value), quantity(&to.value))
    else {
        let message = "a range has two numbers, with their unit";
        return decoder.refuse(codes::BAD_NUMBER, node.span, message);
    };
    let steps = match fields.get("steps") {
        Some(node) => drawn(decoder, node)?,
        None => STEPS,
    };
    let is_logarithmic = match fields.get("scale") {
        Some(node) => decoder.choice(node, SCALES)?.value == "log",
        None => false,
    };
    let problem = match () {
        () if unit != other => Some(format!("`{unit}` and `{other}`: both ends in the same unit")),
        () if is_logarithmic && (first <= 0.0 || last <= 0.0) => {
            Some("even ratios need numbers above zero".to_owned())
        }
        () if steps == 1 && first != last && !is_drawn => Some(
            "a range of one point has one end: `steps` is 2 at least, or write the value"
                .to_owned(),
        ),
        () => None,
    };
    if let Some(message) = problem {
        return decoder.refuse(codes::SCENARIO, node.span, message);
    }
    let place = node.clone();
    Some(Range {
        ends: (first, last),
        unit: unit.to_owned(),
        is_logarithmic,
        is_whole: false,
        steps,
        place,
    })
}
