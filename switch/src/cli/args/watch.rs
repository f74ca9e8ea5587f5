//! Commands for a switch that runs, beyond its objects and ports: queues, programs, packets, notices.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCandidates;

use crate::cli::complete;

use super::{PlaceArgs, ProgramArgs, SwitchArgs};

/// `queue`.
#[derive(Debug, Args)]
pub struct QueueArgs {
    #[command(subcommand)]
    pub command: QueueCommand,
    #[command(flatten)]
    pub on: SwitchArgs,
}

/// A command of `queue`.
#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// Show rates, thresholds and marking curves in force.
    List {
        /// Of this port.
        #[arg(add = ArgValueCandidates::new(complete::ports))]
        port: Option<u32>,
        /// And this queue.
        queue: Option<u32>,
    },
    /// Change rates, thresholds and marking curves of a queue or port.
    Set {
        /// The port.
        #[arg(add = ArgValueCandidates::new(complete::ports))]
        port: u32,
        /// The queue and its priority group, 0 to 7; `port` for what belongs to the whole port.
        queue: String,
        /// kmin=100KB, kmax=400KB, pmax=1%, alpha=1/8, limit=200KB, xon_at=50KB, xon_below_xoff=20KB; of a port rate=10Gbit/s,
        /// pfc=3,4 (priorities with PFC, or none).
        #[arg(value_name = "NAME=VALUE", required = true)]
        settings: Vec<String>,
    },
}

/// `swap`.
#[derive(Debug, Args)]
pub struct SwapArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub on: SwitchArgs,
    /// Say what would survive, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Keep nothing: begin with the entries of the new program.
    #[arg(long, conflicts_with = "keep_all")]
    pub anew: bool,
    /// Refuse where the contents of a table, register, counter or meter, or a default action that was set, would be lost.
    #[arg(long)]
    pub keep_all: bool,
}

/// When a stream of notices ends.
#[derive(Clone, Debug, Args)]
pub struct UntilArgs {
    /// End after so many.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// End after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
}

/// `digest`.
#[derive(Debug, Args)]
pub struct DigestArgs {
    /// Only this digest.
    #[arg(add = ArgValueCandidates::new(complete::arrays))]
    pub name: Option<String>,
    #[command(flatten)]
    pub until: UntilArgs,
    #[command(flatten)]
    pub on: SwitchArgs,
}

/// `events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    #[command(flatten)]
    pub until: UntilArgs,
    #[command(flatten)]
    pub on: SwitchArgs,
}

/// `packet`.
#[derive(Debug, Args)]
pub struct PacketArgs {
    #[command(subcommand)]
    pub command: PacketCommand,
    #[command(flatten)]
    pub on: SwitchArgs,
}

/// A command of `packet`.
#[derive(Debug, Subcommand)]
pub enum PacketCommand {
    /// Send a packet into the switch, as if it came in by a port, or out of a port as it is.
    Send {
        /// The packet, as hexadecimal digits.
        hex: String,
        /// Into ingress by this port; without it, by the CPU port.
        #[arg(long, value_name = "N", conflicts_with = "out", add = ArgValueCandidates::new(complete::ports))]
        port: Option<u32>,
        /// Out of this port, without the program.
        #[arg(long, value_name = "N", add = ArgValueCandidates::new(complete::ports))]
        out: Option<u32>,
    },
    /// Show packets to the CPU port, from now on.
    Listen {
        #[command(flatten)]
        until: UntilArgs,
    },
}

/// `capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    #[command(subcommand)]
    pub command: CaptureCommand,
    #[command(flatten)]
    pub on: SwitchArgs,
}

/// A command of `capture`.
#[derive(Debug, Subcommand)]
pub enum CaptureCommand {
    /// List capture files with their records.
    List,
    /// Record a port, in, out and dropped, into a new pcapng file.
    Start {
        /// The port, or `all`.
        #[arg(add = ArgValueCandidates::new(complete::ports_or_all))]
        port: String,
        /// The file, which must not be there.
        file: PathBuf,
        /// Only what meets this, as in 'ipv4.dst == 10.1.0.2 && udp.valid': the headers that the program's parser finds in a record.
        #[arg(long, value_name = "EXPR")]
        filter: Option<String>,
    },
    /// End the capture of a port.
    Stop {
        /// The port, or `all`.
        #[arg(add = ArgValueCandidates::new(complete::ports_or_all))]
        port: String,
    },
}

/// `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub on: SwitchArgs,
    /// Show it once and end.
    #[arg(long)]
    pub once: bool,
}

/// `trace --live`.
#[derive(Debug, Args)]
pub struct LiveTraceArgs {
    /// Trace packets that pass a switch that runs, and no program on its own.
    #[arg(long, conflicts_with_all = [
        "program", "pcap", "hex", "port", "link", "frame", "config", "engine", "opt_level", "include", "defines", "entries"
    ])]
    pub live: bool,
    /// Which packets, as in 'std.ingress_port == 1 && ipv4.dst == 10.1.0.2'; all without it.
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// End after so many packets [default: 1].
    #[arg(long, value_name = "N")]
    pub count: Option<u32>,
    /// End after so many seconds [default: 60].
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
    /// Packets that each worker looks at in a second, at most [default: 1000]: those that may meet the filter are done by the interpreter.
    #[arg(long, value_name = "N")]
    pub rate: Option<u32>,
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// `save`.
#[derive(Debug, Args)]
pub struct SaveArgs {
    #[command(flatten)]
    pub on: SwitchArgs,
    /// Into this file; without it, and for `-`, to standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// An entries file, as `save` writes it; `-` is standard input.
    pub file: PathBuf,
    #[command(flatten)]
    pub on: SwitchArgs,
}
