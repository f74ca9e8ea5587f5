//! Arguments of `lab` and of the commands beneath it.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;

use super::LimitArgs;
use crate::cli::complete;
use crate::program::EngineKind;

/// `lab`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: Option<LabCommand>,
    /// The scenario: a file, or the name of one that is inside wireyard (incast, dumbbell, fat_tree, ..).
    #[arg(required = true, add = ArgValueCompleter::new(complete::scenarios))]
    pub scenario: Option<PathBuf>,
    /// Instead of the scenario's seed.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// So many runs, with this seed and the next ones.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
    /// So many runs at a time; the results are the same.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// So many threads run one scenario together; the results are the same.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,
    /// Write report.html, .txt and .json, series.csv and .parquet, fct.txt, pfc.txt, tables, captures and entries into this folder, and files.txt, their list.
    #[arg(short, long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(results_folder))]
    pub output: Option<PathBuf>,
    /// The engine.
    #[arg(long, value_enum, default_value_t = EngineKind::Auto)]
    pub engine: EngineKind,
    /// Read, build, check every expectation, and run nothing.
    #[arg(long)]
    pub check: bool,
    /// In real time, on virtual cables in a network namespace that ends with the run, slowed down to what this machine
    /// carries.
    #[arg(long, conflicts_with_all = ["seeds", "jobs"])]
    pub live: bool,
    /// Slow a live run down by this factor.
    #[arg(long, value_name = "N", requires = "live", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub dilate: Option<u64>,
    /// End a live run after so many seconds of real time, wherever it is then; the report is of the part that ran.
    #[arg(long, value_name = "N", requires = "live", conflicts_with = "compare", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub seconds: Option<u64>,
    /// Run it in virtual time first; marking probability, queue and throughput of both must agree within so many percent
    /// [default: 15].
    #[arg(long, value_name = "PERCENT", requires = "live", num_args = 0..=1, default_missing_value = "15", value_parser = percent)]
    pub compare: Option<f64>,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// No progress line.
    #[arg(long, short)]
    pub quiet: bool,
    /// The report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What is done with results.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Compare two folders of results: which figures differ, by how much, and whether that is more than chance.
    #[command(after_help = "Example: wireyard lab compare dcqcn hpcc -o comparison")]
    Compare(CompareArgs),
    /// Run a study: a scenario with many settings and seeds.
    #[command(
        after_help = "Examples:\n  wireyard lab sweep programs/lab/studies/marking.yaml -o out\n  wireyard lab sweep study.yaml -o out --shard 3/16\n  wireyard lab \
        sweep study.yaml -o out --slurm 16\n\nA study that was killed goes on where it was when it is run again."
    )]
    Sweep(SweepArgs),
    /// Put the parts of a study together.
    #[command(after_help = "Example: wireyard lab merge out1 out2 -o out")]
    Merge(MergeArgs),
    /// Search the best setting of a study's ranges in a stated number of runs.
    #[command(
        after_help = "Example: wireyard lab tune programs/lab/studies/marking.yaml --budget 100 -o out"
    )]
    Tune(TuneArgs),
}

/// `lab sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// The study.
    pub study: PathBuf,
    /// Results go here, and a study that was begun there goes on [default: its name].
    #[arg(short, long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(results_folder))]
    pub output: Option<PathBuf>,
    /// Part K of N of the runs.
    #[arg(long, value_name = "K/N", value_parser = shard)]
    pub shard: Option<(u32, u32)>,
    /// So many runs at a time [default: the processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Run those again that failed, as after a shortage of memory.
    #[arg(long, conflicts_with_all = ["slurm", "kubernetes", "only"])]
    pub retry_failed: bool,
    /// One run alone, and its report: point and seed.
    #[arg(long, value_name = "POINT:SEED", value_parser = only)]
    pub only: Option<(usize, u64)>,
    /// Submit an array of so many tasks to Slurm, and the merge behind it.
    #[arg(long, value_name = "TASKS", conflicts_with_all = ["shard", "only"], value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub slurm: Option<u32>,
    /// Print the manifest of a Kubernetes Indexed Job of so many tasks.
    #[arg(long, value_name = "TASKS", conflicts_with_all = ["shard", "only", "slurm"], requires_all = ["image", "claim"], value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub kubernetes: Option<u32>,
    /// Its image, with `wireyard` in it.
    #[arg(long, requires = "kubernetes")]
    pub image: Option<String>,
    /// The volume claim with the study, which takes the results.
    #[arg(long, requires = "kubernetes")]
    pub claim: Option<String>,
    /// The engine.
    #[arg(long, value_enum, default_value_t = EngineKind::Auto)]
    pub engine: EngineKind,
    /// The report as JSON.
    #[arg(long, conflicts_with_all = ["shard", "slurm", "kubernetes"])]
    pub json: bool,
    /// No progress line.
    #[arg(long, short)]
    pub quiet: bool,
}

/// `lab merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Folders with parts of one study.
    #[arg(required = true)]
    pub folders: Vec<PathBuf>,
    /// The report goes here.
    #[arg(short, long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(results_folder))]
    pub output: PathBuf,
    /// The report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `lab tune`.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// The study: its ranges, its goal, its seeds for each setting.
    pub study: PathBuf,
    /// Runs in all.
    #[arg(long, value_name = "RUNS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub budget: u32,
    /// So many runs at a time [default: the processors].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// The report goes here.
    #[arg(short, long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(results_folder))]
    pub output: Option<PathBuf>,
    /// The engine.
    #[arg(long, value_enum, default_value_t = EngineKind::Auto)]
    pub engine: EngineKind,
    /// The report as JSON.
    #[arg(long)]
    pub json: bool,
    /// No progress line.
    #[arg(long, short)]
    pub quiet: bool,
}

/// `3/16`.
fn shard(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((k, n)) if k >= 1 && k <= n && n <= 100_000 => Ok((k, n)),
        _ => Err("expected K/N with K from 1 to N".to_owned()),
    }
}

/// `3:1`.
fn only(text: &str) -> Result<(usize, u64), String> {
    let parts = text
        .split_once(':')
        .and_then(|(point, seed)| Some((point.parse().ok()?, seed.parse().ok()?)));
    parts
        .filter(|(point, _)| *point >= 1)
        .ok_or_else(|| "expected POINT:SEED, the first point is 1".to_owned())
}

/// A difference in percent.
fn percent(text: &str) -> Result<f64, &'static str> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0);
    value.ok_or(
        "expected a number of percent from 0 on; a scenario stands in front of --compare, or write --compare=15",
    )
}

/// A folder for results: `-`, which is standard output everywhere else, cannot be one by that name.
fn results_folder(path: PathBuf) -> Result<PathBuf, &'static str> {
    match path.as_os_str() == "-" {
        true => Err("results are a folder: name one (./- for one of this name)"),
        false => Ok(path),
    }
}

/// `lab compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A folder of results (`lab -o`), of one run or of several seeds.
    pub a: PathBuf,
    /// The other one.
    pub b: PathBuf,
    /// Write report.html, report.json and the table into this folder.
    #[arg(short, long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(results_folder))]
    pub output: Option<PathBuf>,
    /// The comparison as JSON.
    #[arg(long)]
    pub json: bool,
}
