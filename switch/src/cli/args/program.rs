//! Arguments of the commands that check, make and show programs, and run no packet.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use clap_complete::engine::ArgValueCompleter;

use super::{EngineArgs, LimitArgs, ProgramArgs, SourceArgs};
use crate::cli::complete;

/// `check`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("checked").args(["program", "config"]).required(true).multiple(true))]
pub struct CheckArgs {
    /// A folder with program.yaml (and entries.yaml, switch.yaml), or a program file; without it, --config is checked alone.
    #[arg(add = ArgValueCompleter::new(complete::programs))]
    pub program: Option<PathBuf>,
    #[command(flatten)]
    pub sources: SourceArgs,
    /// Table entries; default: entries.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE", requires = "program")]
    pub entries: Option<PathBuf>,
    /// The switch configuration; default: switch.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Warnings fail the check.
    #[arg(long)]
    pub strict: bool,
    /// Diagnostics as JSON: a list (of more than 100 the last object says how many), or with queues in the configuration `{diagnostics, queues}`.
    #[arg(long)]
    pub json: bool,
}

/// `new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The folder to make; its name is that of the program.
    pub name: PathBuf,
    /// What it begins as.
    #[arg(long, value_enum, default_value_t = Template::L2)]
    pub template: Template,
    /// The folder and its files as JSON.
    #[arg(long)]
    pub json: bool,
}

/// A program to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Template {
    /// A VLAN-aware bridge that learns addresses (l2_switch).
    L2,
    /// An IPv4 router with equal-cost paths (ipv4_router).
    Router,
    /// A lossless RoCEv2 switch with ECN marking (rocev2_lossless).
    Roce,
}

/// `schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Which format.
    #[arg(value_enum, default_value_t = SchemaKind::Program)]
    pub kind: SchemaKind,
}

/// A file format with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// program.yaml and header libraries.
    Program,
    /// entries.yaml.
    Entries,
    /// A rate control.
    RateControl,
    /// A scenario of the laboratory.
    #[cfg(feature = "lab")]
    Scenario,
    /// switch.yaml.
    Switch,
    /// Studies of the laboratory.
    #[cfg(feature = "lab")]
    Study,
}

/// `dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Which form.
    #[arg(long, value_enum, default_value_t = Stage::Ir)]
    pub stage: Stage,
    /// Optimisation level: 0 none, 1 cheap passes and path-specialised machine code, 2 all passes and optimised code.
    #[arg(long, value_name = "0..2", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub opt_level: u8,
}

/// A compiled form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stage {
    /// The syntax tree.
    Ast,
    /// The intermediate representation, as the passes of the level leave it.
    Ir,
    /// What the compiler of machine code decided: forms of code, paths, offsets, header edits, checksums, lookups.
    Plan,
    /// The code generator's form, with the lines of the program.
    Clif,
    /// Machine code, with the lines of the program.
    Asm,
}

/// `p4info`.
#[derive(Debug, Args)]
pub struct P4InfoArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// How it is written.
    #[arg(long, value_enum, default_value_t = P4InfoFormat::Text)]
    pub format: P4InfoFormat,
    /// Where to write; standard output when absent, or `-`.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A form of a P4Info.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum P4InfoFormat {
    /// Protobuf text, as p4c writes it (.p4info.txt).
    Text,
    /// Protobuf binary.
    Binary,
    /// Protobuf JSON.
    Json,
}

/// `convert`.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// The program, NAME.p4, or the JSON that p4c made of it for bmv2.
    pub program: PathBuf,
    #[command(flatten)]
    pub sources: SourceArgs,
    /// Where to write; standard output when absent, or `-`.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `pack`.
#[derive(Debug, Args)]
pub struct PackArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Where to write; `-` is standard output. NAME.json is the same as text, for controllers that push the JSON of bmv2.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// `graph`.
#[derive(Debug, Args)]
pub struct GraphArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    /// Where to write: NAME.svg or NAME.dot; `-` is standard output, the default of --json.
    #[arg(short, long, value_name = "FILE", required_unless_present = "json")]
    pub output: Option<PathBuf>,
    /// The graphs with their nodes and edges as JSON.
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// The format, where the name of the file does not say it.
    #[arg(long, value_enum)]
    pub format: Option<GraphFormat>,
    /// Only this graph.
    #[arg(long, value_enum)]
    pub only: Option<GraphKind>,
}

/// A format of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphFormat {
    /// A picture.
    Svg,
    /// The language of Graphviz.
    Dot,
}

/// A graph of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphKind {
    /// Parser states.
    Parser,
    /// Blocks of ingress.
    Ingress,
    /// Blocks of egress.
    Egress,
}
