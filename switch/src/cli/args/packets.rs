//! Arguments of the commands that run or show packets of files: `replay`, `trace`, `test` and `decode`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{ArgPredicate, TypedValueParser};
use clap::{ArgGroup, Args};
use clap_complete::engine::ArgValueCompleter;

use super::{EngineArgs, LimitArgs, LiveTraceArgs, MacControl, ProgramArgs, SourceArgs};
use crate::cli::complete;
use crate::core::EntriesShown;
use crate::ports::PortNumber;
use crate::program::EngineKind;

/// `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    /// The switch configuration; default: switch.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Frames into a port: NUMBER=FILE (pcap or pcapng); again for each port.
    #[arg(long = "in", value_name = "N=FILE", required = true)]
    pub inputs: Vec<OsString>,
    /// Frames out of a port: NUMBER=FILE; frames of other ports are counted and not kept.
    #[arg(long = "out", value_name = "N=FILE")]
    pub outputs: Vec<OsString>,
    /// What becomes of PAUSE and PFC frames.
    #[arg(long, value_enum, default_value_t = MacControl::Port)]
    pub mac_control: MacControl,
    /// Show what each entry counted too, of tables with `counters: true` or a meter: the N that most packets met, or all [N
    /// without a value: 20].
    #[arg(long, value_name = "N|all", num_args = 0..=1, require_equals = true, default_missing_value = "20")]
    pub entry_counters: Option<EntriesShown>,
    /// Counters as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `trace`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("frames").args(["pcap", "hex", "live"]).required(true))]
#[command(mut_arg("program", |arg| {
    arg.required(false).required_unless_present("live").default_value_if("live", ArgPredicate::IsPresent, ".")
}))]
pub struct TraceArgs {
    #[command(flatten)]
    pub live: LiveTraceArgs,
    #[command(flatten)]
    pub program: ProgramArgs,
    /// The switch configuration; default: switch.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub engine: EngineArgs,
    /// The capture file with the frame; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Which frame of --pcap, from 1; the frames before it run first, without a trace.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "hex")]
    pub frame: u64,
    /// The frame itself, as hexadecimal digits.
    #[arg(long, value_name = "BYTES")]
    pub hex: Option<String>,
    /// The port it comes in by.
    #[arg(long, value_name = "N", default_value_t = PortNumber(1), value_parser = clap::value_parser!(u16).map(PortNumber))]
    pub port: PortNumber,
    /// Its link type, for --hex.
    #[arg(long, value_name = "TYPE", default_value = "ethernet", conflicts_with = "pcap")]
    pub link: String,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Scripts, folders with scripts below them, or names of programs that are inside wireyard (l2_switch).
    #[arg(required = true, add = ArgValueCompleter::new(complete::programs))]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub sources: SourceArgs,
    /// The engine [default: every engine].
    #[arg(long, value_enum)]
    pub engine: Option<EngineKind>,
    /// Optimisation level: 0 none, 1 cheap passes and path-specialised machine code, 2 all passes and optimised code.
    #[arg(long, value_name = "0..2", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub opt_level: u8,
    /// At every optimisation level.
    #[arg(long, conflicts_with = "opt_level")]
    pub every_level: bool,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Results as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `decode`.
#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// The capture: pcap or pcapng; `-` is standard input.
    pub file: PathBuf,
    /// Check every declared CRC (ICRC, VCRC), show only packets where one is wrong (with --json all), and sum up; exit
    /// status 1 if one is wrong.
    #[arg(long)]
    pub verify_crc: bool,
    /// One JSON object for each packet, each in a line; with --verify-crc, a last one with the sums.
    #[arg(long, conflicts_with = "tree")]
    pub json: bool,
    /// Every header with every field.
    #[arg(long)]
    pub tree: bool,
    /// The bytes of each packet that is shown, in hexadecimal: in rows of 16, with --json as a string.
    #[arg(long)]
    pub bytes: bool,
    /// Only packets for which this expression of the program language is true.
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Only this packet, from 1.
    #[arg(long, value_name = "N")]
    pub frame: Option<u64>,
}
