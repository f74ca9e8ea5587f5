//! The stored result of each run: a line of JSON in the file of its part, written when the run is over.
//!
//! The first line identifies the study; parts of different studies are not merged. A line that a kill cut short is
//! ignored, and its run is repeated. Numbers are read back from the file even in the run that wrote them, so the
//! reports of a study that was killed, of one in parts and of one in a single run are the same bytes.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Study;
use crate::folder::{FileError, Folder};
use crate::report::Unit;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::source::read_bytes;

/// Most bytes of a file of results of one part.
const PART_BYTES_MAX: u64 = 1 << 30;

/// The first line of a part: the study, so that a merge needs no other file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Name.
    pub study: String,
    /// Its question.
    pub about: String,
    /// Of its files.
    pub fingerprint: String,
    /// The build that began it, with its commit where that is known.
    #[serde(default)]
    pub build: String,
    /// Its path on the command line.
    pub path: String,
    /// Keys that vary.
    pub keys: Vec<String>,
    /// Values of each point.
    pub points: Vec<Vec<String>>,
    /// All combinations, so that a map can be drawn.
    pub is_grid: bool,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Figures to show.
    pub figures: Vec<String>,
    /// The goal.
    pub goal: Option<String>,
    /// Two goals.
    pub pareto: Vec<String>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its point.
    pub point: usize,
    /// Its seed.
    pub seed: u64,
    /// Why there are no figures.
    pub failed: Option<String>,
    /// True if every check and expectation passed.
    pub passed: bool,
    /// Figures that were measured.
    pub figures: BTreeMap<String, f64>,
    /// Units of the figures that the study shows, by their names in CSV.
    #[serde(default)]
    pub units: BTreeMap<String, String>,
}

/// Why results of a study cannot be read, stored or merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// The operating system's error, with the path.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file of the study changed.
    #[error(transparent)]
    Changed(#[from] super::Changed),
    /// Another process has opened the part.
    #[error(
        "{}: another process adds to it: let that one end, or give this one another part or folder",
        shown(.0)
    )]
    InUse(PathBuf),
    /// A part that could not be read back.
    #[error(
        "{}: full: a part has up to {} bytes: run the study in more parts (`--shard K/N`), in another folder",
        shown(.0), PART_BYTES_MAX
    )]
    Full(PathBuf),
    /// A line that is no record.
    #[error("{}:{line}: no result of a study: {source}", shown(.path))]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, from 1 on.
        line: usize,
        /// The cause.
        source: serde_json::Error,
    },
    /// A file without a first line, which identifies its study.
    #[error("{}: an empty file", shown(.0))]
    Empty(PathBuf),
    /// A point with more or fewer values than the study has keys.
    #[error(
        "{}:1: a damaged part: point {point} has {values} values, and the study varies {keys} keys: remove this file, \
         and run its part again", shown(.path)
    )]
    Values {
        /// The file.
        path: PathBuf,
        /// The point, from 1 on.
        point: usize,
        /// Its values.
        values: usize,
        /// Keys that vary.
        keys: usize,
    },
    /// A run of a point or a seed that the study does not have.
    #[error("{}:{line}: a run that the study of its first line has not", shown(.path))]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its line, from 1 on.
        line: usize,
    },
    /// A folder has a part of another study.
    #[error(
        "{}: this is a part of another study, `{}` with fingerprint {}, and not of `{}` with {}: choose another folder \
         (`-o`), or remove it", shown(.path), .found.study, .found.fingerprint, .wanted.study, .wanted.fingerprint
    )]
    OfAnother {
        /// The file.
        path: PathBuf,
        /// Its study.
        found: Box<Head>,
        /// The expected study.
        wanted: Box<Head>,
    },
    /// Parts that do not belong together.
    #[error(
        "parts of different studies: {} is of `{}` with fingerprint {}, and {} of `{}` with {}",
        shown(&.paths[0]), .heads[0].study, .heads[0].fingerprint, shown(&.paths[1]), .heads[1].study,
        .heads[1].fingerprint
    )]
    Different {
        /// Two files.
        paths: [PathBuf; 2],
        /// Their studies.
        heads: Box<[Head; 2]>,
    },
    /// A run gave two results.
    #[error(
        "{}: point {point} with seed {seed} has two results that differ: not the same build", shown(.path)
    )]
    TwoResults {
        /// The file with the second.
        path: PathBuf,
        /// The point, from 1 on.
        point: usize,
        /// The seed.
        seed: u64,
    },
    /// Folders without a part.
    #[error("no part of a study in {0}")]
    None(String),
}

/// Adds the path to an operating system's error.
fn of_file(path: &Path) -> impl Fn(io::Error) -> FileError + '_ {
    move |source| FileError { path: path.to_owned(), source }
}

impl Head {
    /// Whether runs of both may be together.
    fn is_same(&self, other: &Head) -> bool {
        self.fingerprint == other.fingerprint
            && self.points == other.points
            && self.seeds == other.seeds
    }

    /// Of a study.
    pub fn of(study: &Study) -> Head {
        Head {
            study: study.name.clone(),
            about: study.about.clone(),
            fingerprint: study.fingerprint.clone(),
            build: env!("WIREYARD_VERSION").to_owned(),
            path: shown(&study.path).into_owned(),
            keys: study.axes.iter().map(|axis| axis.key.clone()).collect(),
            points: study.points.iter().map(|point| point.labels.clone()).collect(),
            is_grid: study.sample == super::Sample::Grid,
            seeds: study.seeds.clone(),
            figures: study.figures.clone(),
            goal: study.goal.as_ref().map(super::Goal::text),
            pareto: study.pareto.iter().map(super::Goal::text).collect(),
        }
    }
}

/// The file of a part, open for more lines.
#[derive(Debug)]
pub struct PartFile {
    file: File,
    path: PathBuf,
    /// Its length.
    bytes: u64,
    /// Earlier results.
    pub done: Vec<Record>,
}

/// The name of a part's file.
pub fn part_name((part, parts): (u32, u32)) -> String {
    format!("part-{part}-of-{parts}.jsonl")
}

impl PartFile {
    /// Opens the part of a study in a folder, or begins it.
    ///
    /// # Errors
    /// The operating system's error, or that it belongs to another study.
    pub fn open(folder: &Path, head: &Head, part: (u32, u32)) -> Result<PartFile, RecordsError> {
        let name = part_name(part);
        let mut file = Folder::make(folder)?.open_to_extend(&name)?;
        let path = folder.join(name);
        let failed = of_file(&path);
        // Two processes would overwrite each other's lines: a cluster may start a task again while the old one runs. A
        // file system without locks has none to refuse.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(RecordsError::InUse(path.clone()));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(&failed)?;
        // An incomplete line after a kill is overwritten.
        let text = whole_lines(&path, bytes)?;
        let end = text.len() as u64;
        file.set_len(end).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        let mut part = PartFile { file, path: path.clone(), bytes: end, done: Vec::new() };
        if text.is_empty() {
            part.line(head)?;
            return Ok(part);
        }
        let (known, done) = parse(&path, &text)?;
        of_study(&path, known, head)?;
        part.done = done;
        Ok(part)
    }

    /// Adds a run.
    ///
    /// # Errors
    /// The operating system's error, or that the part is full.
    pub fn add(&mut self, record: &Record) -> Result<(), RecordsError> {
        self.line(record)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), RecordsError> {
        let failed = of_file(&self.path);
        let text = serde_json::to_string(value).map_err(|error| failed(error.into()))? + "\n";
        let end = self.bytes + text.len() as u64;
        if end > PART_BYTES_MAX {
            return Err(RecordsError::Full(self.path.clone()));
        }
        if let Err(error) = self.file.write_all(text.as_bytes()) {
            // A part of a line, as a full disk leaves it, would be in front of the next one.
            let cut = self.file.set_len(self.bytes);
            let _ = cut.and_then(|()| self.file.seek(SeekFrom::Start(self.bytes)));
            return Err(failed(error).into());
        }
        self.bytes = end;
        Ok(())
    }
}

/// Refuses a part of another study.
fn of_study(path: &Path, found: Head, wanted: &Head) -> Result<(), RecordsError> {
    if found.is_same(wanted) {
        return Ok(());
    }
    let (found, wanted) = (Box::new(found), Box::new(wanted.clone()));
    Err(RecordsError::OfAnother { path: path.to_owned(), found, wanted })
}

/// The complete lines; a kill may cut a line anywhere, inside of a character too.
fn whole_lines(path: &Path, mut bytes: Vec<u8>) -> Result<String, FileError> {
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    String::from_utf8(bytes).map_err(|error| of_file(path)(io::Error::other(error)))
}

fn parse(path: &Path, text: &str) -> Result<(Head, Vec<Record>), RecordsError> {
    let wrong = |line, source: serde_json::Error| RecordsError::Line {
        path: path.to_owned(),
        line,
        source,
    };
    let mut lines = text.lines().zip(1..);
    let (first, number) = lines.next().ok_or_else(|| RecordsError::Empty(path.to_owned()))?;
    let head: Head = serde_json::from_str(first).map_err(|error| wrong(number, error))?;
    let keys = head.keys.len();
    if let Some((n, of)) = head.points.iter().enumerate().find(|(_, of)| of.len() != keys) {
        let (path, point, values) = (path.to_owned(), n + 1, of.len());
        return Err(RecordsError::Values { path, point, values, keys });
    }
    let seeds: BTreeSet<u64> = head.seeds.iter().copied().collect();
    let records = lines.map(|(text, line)| {
        let record: Record = serde_json::from_str(text).map_err(|error| wrong(line, error))?;
        if record.point >= head.points.len() || !seeds.contains(&record.seed) {
            return Err(RecordsError::Foreign { path: path.to_owned(), line });
        }
        Ok(record)
    });
    let records = records.collect::<Result<_, RecordsError>>()?;
    Ok((head, records))
}

/// Everything of a study, by run.
#[derive(Clone, Debug)]
pub struct Results {
    /// The study.
    pub head: Head,
    /// Runs, by point and seed.
    pub runs: BTreeMap<(usize, u64), Record>,
    /// The builds that began its parts.
    pub builds: BTreeSet<String>,
}

impl Results {
    /// The unit of a figure that is shown; a plain number if no run has it.
    pub fn unit(&self, figure: &str) -> Unit {
        let name = self.runs.values().find_map(|run| run.units.get(figure));
        name.and_then(|name| Unit::by_name(name)).unwrap_or(Unit::Plain)
    }

    /// Runs without a result.
    pub fn missing(&self) -> usize {
        self.head.points.len() * self.head.seeds.len() - self.runs.len()
    }
}

/// The files of the parts in a folder.
fn parts_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_part = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("part-") && name.ends_with(".jsonl")
    };
    Ok(files.filter(is_part).collect())
}

/// Checks before the runs that all parts in a folder are of a study, as they are merged behind them. Returns the builds that
/// began them, but this one.
///
/// # Errors
/// A part of another study, or a file that is no part.
pub fn check(folder: &Path, head: &Head) -> Result<BTreeSet<String>, RecordsError> {
    let mut builds = BTreeSet::new();
    // A folder that is not there has no parts.
    for path in parts_in(folder).unwrap_or_default() {
        let mut first = Vec::new();
        let file = File::open(&path).map_err(of_file(&path))?.take(PART_BYTES_MAX);
        BufReader::new(file).read_until(b'\n', &mut first).map_err(of_file(&path))?;
        let text = whole_lines(&path, first)?;
        if !text.is_empty() {
            let known = parse(&path, &text)?.0;
            builds.insert(known.build.clone());
            of_study(&path, known, head)?;
        }
    }
    builds.retain(|build| !build.is_empty() && *build != head.build);
    Ok(builds)
}

/// A part's study and runs; `None` of one in which nothing is written yet.
fn read_part(path: &Path) -> Result<Option<(Head, Vec<Record>)>, RecordsError> {
    let bytes = read_bytes(path, PART_BYTES_MAX);
    let bytes = bytes.map_err(|error| of_file(path)(io::Error::other(error)))?;
    let text = whole_lines(path, bytes)?;
    if text.is_empty() { Ok(None) } else { parse(path, &text).map(Some) }
}

/// The runs in a folder's parts of other divisions: those of the same one have other runs than this part.
///
/// # Errors
/// A part that cannot be read.
pub fn of_other_divisions(
    folder: &Path,
    (_, parts): (u32, u32),
) -> Result<Vec<Record>, RecordsError> {
    let same = format!("-of-{parts}.jsonl");
    let mut found = Vec::new();
    for path in parts_in(folder).map_err(of_file(folder))? {
        if !path.to_string_lossy().ends_with(&same) {
            found.extend(read_part(&path)?.map(|(_, records)| records).unwrap_or_default());
        }
    }
    Ok(found)
}

/// Adds a run to those that are known; of one that was tried again, the result with figures counts. Returns false where
/// it has two such results that differ.
fn add_run(runs: &mut BTreeMap<(usize, u64), Record>, record: Record) -> bool {
    match runs.entry((record.point, record.seed)) {
        Entry::Occupied(known) if known.get().failed.is_none() => {
            record.failed.is_some() || *known.get() == record
        }
        free_or_failed => {
            free_or_failed.insert_entry(record);
            true
        }
    }
}

/// Reads all parts in folders.
///
/// # Errors
/// No part, parts of different studies, or two results of one run that differ.
pub fn merge(folders: &[PathBuf]) -> Result<Results, RecordsError> {
    let mut paths = Vec::new();
    for folder in folders {
        paths.extend(parts_in(folder).map_err(of_file(folder))?);
    }
    paths.sort();
    let mut results: Option<(PathBuf, Results)> = None;
    for path in paths {
        let Some((head, records)) = read_part(&path)? else { continue };
        let (first, all) = results.get_or_insert_with(|| {
            let (runs, builds) = (BTreeMap::new(), BTreeSet::new());
            (path.clone(), Results { head: head.clone(), runs, builds })
        });
        all.builds.insert(head.build.clone());
        if !all.head.is_same(&head) {
            let heads = Box::new([all.head.clone(), head]);
            return Err(RecordsError::Different { paths: [first.clone(), path], heads });
        }
        for record in records {
            let (point, seed) = (record.point + 1, record.seed);
            if !add_run(&mut all.runs, record) {
                return Err(RecordsError::TwoResults { path, point, seed });
            }
        }
    }
    let folders: Vec<String> = folders.iter().map(|folder| shown(folder).into_owned()).collect();
    results.map(|(_, results)| results).ok_or_else(|| RecordsError::None(folders.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_is_no_line() {
        let lines = |bytes: &[u8]| whole_lines(Path::new("part"), bytes.to_vec());
        assert_eq!(lines(b"one\ntwo").unwrap(), "one\n".to_owned());
        assert_eq!(lines("one\nK\u{f6}ln".as_bytes().split_at(6).0).unwrap(), "one\n".to_owned());
        assert_eq!(lines(b"one").unwrap(), String::new());
        assert!(lines(b"\xff\n").unwrap_err().to_string().starts_with("part: "));
    }

    #[test]
    fn a_point_without_a_value_of_each_key_is_refused() {
        let head = r#"{"study":"s","about":"","fingerprint":"f","path":"s.yaml","keys":["a","b"],"points":[["1"]],"is_grid":true,"seeds":[1],"figures":[],"goal":null,"pareto":[]}"#;
        let text = parse(Path::new("part"), &format!("{head}\n")).unwrap_err().to_string();
        assert!(text.starts_with("part:1: a damaged part: point 1 has 1 values"), "{text}");
    }

    #[test]
    fn a_run_that_the_study_does_not_have_is_refused() {
        let head = r#"{"study":"s","about":"","fingerprint":"f","path":"s.yaml","keys":["k"],"points":[["1"]],"is_grid":true,"seeds":[1],"figures":[],"goal":null,"pareto":[]}"#;
        let run = |point: usize, seed: u64| {
            format!(
                r#"{{"point":{point},"seed":{seed},"failed":null,"passed":true,"figures":{{}}}}"#
            )
        };
        let read = |run: String| parse(Path::new("part"), &format!("{head}\n{run}\n"));
        assert_eq!(read(run(0, 1)).unwrap().1.len(), 1);
        for wrong in [run(1, 1), run(0, 2)] {
            assert!(read(wrong).unwrap_err().to_string().starts_with("part:2: "));
        }
    }

    #[test]
    fn a_run_that_was_tried_again_has_its_figures() {
        let run = |failed: Option<&str>, value: f64| Record {
            point: 0,
            seed: 1,
            failed: failed.map(str::to_owned),
            passed: failed.is_none(),
            figures: BTreeMap::from([("f".to_owned(), value)]),
            units: BTreeMap::new(),
        };
        let (bad, good) = (run(Some("no memory"), 0.0), run(None, 1.0));
        for order in [[&bad, &bad, &good], [&bad, &good, &bad], [&good, &bad, &good]] {
            let mut runs = BTreeMap::new();
            assert!(order.iter().all(|one| add_run(&mut runs, (*one).clone())));
            assert_eq!(runs[&(0, 1)], good);
        }
        let mut runs = BTreeMap::from([((0, 1), good)]);
        assert!(!add_run(&mut runs, run(None, 2.0)), "figures that differ");
    }
}
