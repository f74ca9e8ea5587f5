//! The command line: all commands, with an example for each.

#![expect(
    missing_docs,
    reason = "a flattened field is documented on its type; tests/it/cli.rs asks for help"
)]

#[cfg(feature = "lab")]
mod lab;
mod packets;
mod program;
mod remote;
mod run;
mod simple_switch;
mod watch;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;

use super::complete;
use crate::program::EngineKind;

#[cfg(feature = "lab")]
pub use lab::{CompareArgs, LabArgs, LabCommand, MergeArgs, SweepArgs, TuneArgs};
pub use packets::*;
pub use program::*;
pub use remote::*;
pub use run::*;
pub use simple_switch::*;
pub use watch::*;

/// Version and commit, as in `0.1.0 (8d1f0a2)`.
pub const VERSION: &str = env!("WIREYARD_VERSION");

/// Most columns of help.
const WIDTH: usize = 100;

/// A programmable software switch for lossless RDMA fabrics.
#[derive(Debug, Parser)]
#[command(name = "wireyard", version = VERSION, max_term_width = WIDTH)]
#[command(
    after_help = "Examples:\n  wireyard demo\n  wireyard new my_switch\n  wireyard run l2_switch --port 1=eth1 --port 2=eth2\n  wireyard lab \
    incast -o out\n\nExit status: 0 success, 1 a check or an expectation failed, 2 wrong usage or input."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The whole command line. A command beneath another shows that one's examples, where it has none of its own.
pub fn command_line() -> clap::Command {
    let command = Cli::command().mut_subcommands(with_examples);
    // A terminal of no width, as some set it: unknown.
    match std::env::var("COLUMNS").as_deref() {
        Ok("0") => command.term_width(WIDTH),
        _ => command,
    }
}

fn with_examples(command: clap::Command) -> clap::Command {
    let examples = command.get_after_help().cloned();
    command.mut_subcommands(|beneath| match (&examples, beneath.get_after_help()) {
        (Some(examples), None) => with_examples(beneath.after_help(examples.clone())),
        _ => with_examples(beneath),
    })
}

const HOST_HELP: &str = "\
Example: wireyard host --port raw:tap0 --ip 10.77.0.2

Commands are JSON objects, one a line, on standard input; each has one answer, a line on standard output.
  {\"do\": \"memory\", \"bytes\": 4096, \"file\": \"data.bin\"}      register memory (file: its content) -> key, va
  {\"do\": \"save\", \"key\": 257, \"file\": \"out.bin\"}          write memory to a file
  {\"do\": \"queue_pair\"}                                   a reliable connection in RESET -> qp
  {\"do\": \"connect\", \"qp\": 17, \"ip\": \"10.77.0.1\", \"peer_qp\": 18}
                                        to RTS; also peer_psn, psn, mtu, timeout, vlan
  {\"do\": \"recv\", \"qp\": 17, \"id\": 1, \"key\": 257, \"va\": 4294967296, \"bytes\": 4096}
  {\"do\": \"send\", ...}   the same fields; write and read: also remote_key, remote_va;
                        fetch_add: also add; cmp_swap: also compare, swap
  {\"do\": \"wait\", \"completions\": 1, \"seconds\": 30}        -> completions
  {\"do\": \"counters\"}
  {\"do\": \"end\"}                                          as does the end of the input";

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what it does: a DCQCN incast on real interfaces, measured and judged.
    #[cfg(feature = "lab")]
    #[command(
        after_help = "Example: wireyard demo\n\nNeeds Linux with user namespaces, or root. Makes a \
        network namespace of its own with veth cables, which end with it; nothing of your network is \
        touched. Exit status 1 if a check fails."
    )]
    Demo(DemoArgs),
    /// Check a program (and its entries and configuration) and list every error.
    #[command(
        after_help = "Examples:\n  wireyard check programs/ipv4_router\n  wireyard check --config \
        programs/rocev2_lossless/switch.yaml"
    )]
    Check(CheckArgs),
    /// Explain an error code, the fields of a header, a header library, or what an adapter of the lab's `nic` stands for.
    #[command(
        after_help = "Examples:\n  wireyard explain E0001\n  wireyard explain bth\n  wireyard explain roce\n  wireyard explain connectx6"
    )]
    Explain(ExplainArgs),
    /// Say what this machine can do for a switch: machine code, port kinds, privileges, interfaces.
    #[command(
        after_help = "Examples:\n  wireyard doctor\n  wireyard doctor eth0 eth1\n\nPorts are tried on a virtual \
        cable in a network namespace of its own; nothing is changed. Exit status 1 if something is missing."
    )]
    Doctor(DoctorArgs),
    /// Write a program of one's own to begin with: program, entries, configuration, packet tests.
    #[command(
        after_help = "Examples:\n  wireyard new my_switch\n  wireyard new edge --template router"
    )]
    New(NewArgs),
    /// Write the manual pages.
    #[command(after_help = "Example: wireyard man -o /usr/local/share/man/man1")]
    Man(ManArgs),
    /// Print the JSON Schema of a file format, for editors.
    #[command(after_help = "Example: wireyard schema program > wireyard-program.schema.json")]
    Schema(SchemaArgs),
    /// Print a program in one of its compiled forms.
    #[command(after_help = "Example: wireyard dump programs/ipv4_router --stage ir")]
    Dump(DumpArgs),
    /// Print a program in P4-16 as the same program in YAML.
    #[command(
        after_help = "Example: wireyard convert router.p4 -o router.yaml\n\nThe YAML is a program of its own: what was included is in it, and \
        macros have their values."
    )]
    Convert(ConvertArgs),
    /// Print what a P4Runtime controller sees of a program: its P4Info.
    #[command(
        name = "p4info",
        after_help = "Examples:\n  wireyard p4info programs/l2_switch\n  wireyard p4info \
        programs/l2_switch --format binary -o l2.p4info.bin\n\nIds follow from names: the same \
        program has the same ids, whatever the order of its declarations."
    )]
    P4Info(P4InfoArgs),
    /// Pack a program and the libraries that it includes into one file, for a P4Runtime controller.
    #[command(
        after_help = "Example: wireyard pack programs/l2_switch -o l2.bin\n\nThe file is the \
        device configuration (p4_device_config) of SetForwardingPipelineConfig."
    )]
    Pack(PackArgs),
    /// Draw the parser and control graphs.
    #[command(after_help = "Example: wireyard graph programs/ipv4_router -o router.svg")]
    Graph(GraphArgs),
    /// Run a program as a switch between interfaces.
    #[command(after_help = "Example: wireyard run programs/rocev2_lossless --port 1=veth0 --port \
        2=tap:tap0\n\nPort kinds: xdp:IF raw:IF pnet:IF tap:IF pcap:FILE; a bare interface name \
        picks the fastest that works and says which; a port without a number has its place in the list. SIGUSR1 prints the counters; Ctrl-C prints \
        them and leaves nothing behind.")]
    Run(Box<RunArgs>),
    /// The same with the arguments of bmv2's simple_switch_grpc, for scripts of Mininet and PTF.
    #[command(
        after_help = "Example: wireyard simple-switch-grpc -i 1@veth0 -i 2@veth2 --no-p4 -- --grpc-server-addr 127.0.0.1:50051 --cpu-port 255\n\nA link \
        named simple_switch_grpc to the binary is this command. Controllers push the JSON that p4c makes, or what `wireyard pack X.p4` makes, as p4_device_config."
    )]
    SimpleSwitchGrpc(Box<SimpleSwitchArgs>),
    /// Read and write the tables of a switch that runs.
    #[command(after_help = TABLE_HELP)]
    Table(TableArgs),
    /// Read and write counters of a switch that runs.
    #[command(
        after_help = "Examples:\n  wireyard counter dump\n  wireyard counter clear vlan_flooded"
    )]
    Counter(CounterArgs),
    /// Read and write meters of a switch that runs.
    #[command(
        after_help = "Example: wireyard meter set police 0 cir=10Mbit/s cbs=16KB pir=20Mbit/s pbs=32KB\n\nNames are those of the program that runs: `wireyard meter list`."
    )]
    Meter(MeterArgs),
    /// Read and write registers of a switch that runs.
    #[command(
        after_help = "Examples:\n  wireyard register dump seen\n  wireyard register set pair 3 low=5 high=0x10\n\nNames are those of the program that runs: `wireyard register list`."
    )]
    Register(RegisterArgs),
    /// Read and write value sets of a switch that runs.
    #[command(
        after_help = "Example: wireyard value-set set known_types 0x0800 0x86dd\n\nNames are those of the program that runs."
    )]
    ValueSet(ValueSetArgs),
    /// Members of tables with a selector: actions that groups choose among.
    #[command(
        after_help = "Example: wireyard member add ways 1 forward 2\n\nNames are those of the program that runs: `wireyard table list`."
    )]
    Member(MemberArgs),
    /// Groups of tables with a selector.
    #[command(
        after_help = "Example: wireyard group add ways 7 1 2*3\n\nMembers with their weights: member 2 gets three times as much as member 1."
    )]
    Group(GroupArgs),
    /// Multicast groups of a switch that runs.
    #[command(after_help = "Example: wireyard multicast set 1 1 2 3 --prune-ingress")]
    Multicast(MulticastArgs),
    /// Mirror sessions of a switch that runs.
    #[command(after_help = "Example: wireyard mirror set 3 port=4 truncate=128")]
    Mirror(MirrorArgs),
    /// Ports of a switch that runs: list, add, remove, up, down, faults on their cables.
    #[command(
        after_help = "Examples:\n  wireyard port list\n  wireyard port add 3 raw:veth5\n  wireyard port down 3\n  \
        wireyard port faults 3 loss=1%,delay=2ms"
    )]
    Port(PortArgs),
    /// What a switch that runs has counted.
    #[command(
        after_help = "Examples:\n  wireyard stats\n  wireyard stats --watch\n  wireyard stats --json"
    )]
    Stats(StatsArgs),
    /// What a switch does now: rates, queues, who pauses whom, drops, the entries that most packets meet.
    #[command(after_help = "Examples:\n  wireyard top\n  wireyard top --once --json")]
    Top(TopArgs),
    /// Rates, marking curves and thresholds of a switch that runs.
    #[command(
        after_help = "Examples:\n  wireyard queue list 1 3\n  wireyard queue set 1 3 kmin=100KB kmax=400KB pmax=1% alpha=1/8\n  \
        wireyard queue set 1 port rate=5Gbit/s"
    )]
    Queue(QueueArgs),
    /// Capture files of a switch that runs.
    #[command(
        after_help = "Examples:\n  wireyard capture start 1 port1.pcapng\n  wireyard capture stop 1"
    )]
    Capture(CaptureArgs),
    /// Write the entries and the state that a switch has now as an entries file.
    #[command(after_help = "Example: wireyard save -o saved.yaml")]
    Save(SaveArgs),
    /// An entries file in the place of all that was written into a switch while it ran: whole, or not at all.
    #[command(after_help = "Example: wireyard restore saved.yaml")]
    Restore(RestoreArgs),
    /// Replace the program of a switch that runs, between two packets.
    #[command(
        after_help = "Examples:\n  wireyard swap --dry-run programs/l2_switch\n  wireyard swap programs/l2_switch\n\nTables, \
        registers, counters, meters and value sets of the same name and shape keep what is in them. Queues and ports stay."
    )]
    Swap(SwapArgs),
    /// Digests that the program of a running switch sends.
    #[command(after_help = "Example: wireyard digest --count 1 --json")]
    Digest(DigestArgs),
    /// What happens to a running switch: links, pause storms, idle entries, programs.
    #[command(after_help = "Example: wireyard events --seconds 10")]
    Events(EventsArgs),
    /// Packets into, out of, and from a running switch.
    #[command(
        after_help = "Examples:\n  wireyard packet listen --count 1\n  wireyard packet send --port 1 ffffffffffff0200000000020806"
    )]
    Packet(PacketArgs),
    /// Run a RoCE end point on an interface, driven by JSON lines.
    #[command(after_help = HOST_HELP)]
    Host(HostArgs),
    /// Run a program on capture files: same input, same output, no privileges.
    #[command(after_help = "Example: wireyard replay programs/ipv4_router --in 1=in.pcap --out \
        2=out.pcap")]
    Replay(ReplayArgs),
    /// Trace one packet: states, fields, tables, actions, verdict.
    #[command(after_help = "Example: wireyard trace programs/ipv4_router --pcap in.pcap --frame 3")]
    Trace(TraceArgs),
    /// Run packet tests (STF) on every engine.
    #[command(after_help = "Example: wireyard test programs/")]
    Test(TestArgs),
    /// Show what is in a capture file, and check the CRCs of every packet.
    #[command(after_help = "Examples:\n  wireyard decode capture.pcap\n  wireyard decode \
        capture.pcap --verify-crc\n  wireyard decode capture.pcap --filter 'bth.opcode == 0x81 && \
        ipv4.dscp == 48' --tree\n  tcpdump -U -i veth0 -w - | wireyard decode -\n\nLink types: Ethernet (1), InfiniBand (247), ERF (197), \
        Omni-Path 16B (147, LINKTYPE_USER0). Field names are those of the header libraries \
        (programs/headers). A comparison is false where the header of a field is not there.")]
    Decode(DecodeArgs),
    /// Run a scenario of the laboratory: hosts, switches, congestion control, in virtual time or live.
    #[cfg(feature = "lab")]
    #[command(
        after_help = "Examples:\n  wireyard lab programs/lab/incast.yaml -o out\n  wireyard lab \
        programs/lab/fixed_point_40g.yaml --seeds 8 --jobs 2\n  wireyard lab programs/lab/live.yaml --live --compare\n\nThe same build, seed and scenario give the same \
        bytes. Exit status 1: a check or an expectation failed."
    )]
    Lab(LabArgs),
}

/// What a program may take.
#[derive(Clone, Copy, Debug, Args)]
pub struct LimitArgs {
    /// Most memory of a program's tables (when full), registers, counters and meters [default: 1 GiB].
    #[arg(long, value_name = "SIZE")]
    pub max_state: Option<crate::units::Bytes>,
}

impl LimitArgs {
    /// The limit in bytes, where one is given.
    pub fn max_state(&self) -> Option<u64> {
        self.max_state.map(crate::units::Bytes::get)
    }
}

/// Where the sources of a program are found, and macros of one in P4.
#[derive(Clone, Debug, Default, Args)]
pub struct SourceArgs {
    /// Look for included libraries and P4 files in this folder too.
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Define a macro of a P4 program, as 1 where no value is given: -D WITH_INT -D PORTS=16.
    #[arg(short = 'D', long = "define", value_name = "NAME[=VALUE]", value_parser = define)]
    pub defines: Vec<(String, String)>,
}

fn define(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, "1"));
    if crate::config::is_macro_name(name) {
        return Ok((name.to_owned(), value.to_owned()));
    }
    Err("a macro is NAME or NAME=VALUE; its name has letters, digits and `_`".to_owned())
}

/// The program under work.
#[derive(Debug, Args)]
pub struct ProgramArgs {
    /// A folder with program.yaml (and entries.yaml, switch.yaml), a program file, or the name of a program that is
    /// inside wireyard (l2_switch, ipv4_router, rocev2_lossless, ..).
    #[arg(add = ArgValueCompleter::new(complete::programs))]
    pub program: PathBuf,
    #[command(flatten)]
    pub sources: SourceArgs,
    /// Table entries; default: entries.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE")]
    pub entries: Option<PathBuf>,
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// How packets are run.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// The engine. `auto` is machine code, the interpreter while it is made and where there can be none; the counters
    /// of `run` say which runs.
    #[arg(long, value_enum, default_value_t = EngineKind::Auto)]
    pub engine: EngineKind,
    /// Optimisation level: 0 none, 1 cheap passes and machine code in place, 2 all passes and optimised code [default:
    /// 2; of a trace: 0].
    #[arg(long, value_name = "0..2", value_parser = clap::value_parser!(u8).range(0..=2))]
    pub opt_level: Option<u8>,
}

/// `demo`.
#[cfg(feature = "lab")]
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How long it takes, in seconds.
    #[arg(long, default_value_t = 35, value_parser = clap::value_parser!(u64).range(4..=3600))]
    pub seconds: u64,
    /// The page with the pictures; `-` is standard output, in place of the outcome.
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "wireyard-demo.html")]
    pub output: PathBuf,
    /// Print the outcome as JSON.
    #[arg(long)]
    pub json: bool,
    /// Seed of the marking.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// What runs packets.
    #[arg(long, value_enum, default_value_t = EngineKind::Auto)]
    pub engine: EngineKind,
    /// Judge by another Pmax than is configured, in percent: to see the judge refuse.
    #[arg(long, value_name = "PERCENT", hide = true)]
    pub judge_pmax: Option<f64>,
}

/// `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A code such as E0001, a header such as bth, a library such as roce, or an adapter such as connectx6; without it, all codes with a
    /// line each.
    pub code: Option<String>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Interfaces to look at; default: all of this network namespace.
    pub interfaces: Vec<String>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// In the child process of the command: try the port kinds and print what came of it.
    #[arg(long, hide = true)]
    pub try_ports: bool,
    /// In the child process of the command: enter the sandbox of `run` and print what it refuses.
    #[arg(long, hide = true)]
    pub try_sandbox: bool,
}

/// `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write wireyard.1 and a page for each command into this folder; without it, or with `-`, the first page goes to
    /// standard output.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}
