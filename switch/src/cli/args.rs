//! The command line: what can be asked, with an example for each command.

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::core::EntriesShown;

/// Version and commit, as in `0.1.0 (8d1f0a2)`.
pub const VERSION: &str = env!("WIREYARD_VERSION");

/// A programmable software switch for lossless RDMA fabrics.
#[derive(Debug, Parser)]
#[command(name = "wireyard", version = VERSION, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 success, 1 a check or an expectation failed, 2 wrong usage \
    or input."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
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
    /// Tell the long story of an error code.
    #[command(after_help = "Example: wireyard explain E0001")]
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
        picks the fastest that works and says which. SIGUSR1 prints the counters; Ctrl-C prints \
        them and leaves nothing behind.")]
    Run(RunArgs),
    /// Run a RoCE end point on an interface, driven by JSON lines.
    #[command(after_help = HOST_HELP)]
    Host(HostArgs),
    /// Run a program on capture files: same input, same output, no privileges.
    #[command(after_help = "Example: wireyard replay programs/ipv4_router --in 1=in.pcap --out \
        2=out.pcap")]
    Replay(ReplayArgs),
    /// Tell the story of one packet: states, fields, tables, actions, verdict.
    #[command(after_help = "Example: wireyard trace programs/ipv4_router --pcap in.pcap --frame 3")]
    Trace(TraceArgs),
    /// Run packet tests (STF) on every engine.
    #[command(after_help = "Example: wireyard test programs/")]
    Test(TestArgs),
    /// Show what is in a capture file, and check the CRCs of every packet.
    #[command(after_help = "Examples:\n  wireyard decode capture.pcap\n  wireyard decode \
        capture.pcap --verify-crc\n  wireyard decode capture.pcap --filter 'bth.opcode == 0x81 && \
        ipv4.dscp == 48' --tree\n\nLink types: Ethernet (1), InfiniBand (247), ERF (197), \
        Omni-Path 16B (147, LINKTYPE_USER0). Field names are those of the header libraries \
        (programs/headers). A comparison is false where the header of a field is not there.")]
    Decode(DecodeArgs),
    /// Run a scenario of the laboratory: hosts, switches, congestion control, in virtual time or live.
    #[command(
        after_help = "Examples:\n  wireyard lab programs/lab/incast.yaml -o out\n  wireyard lab \
        programs/lab/fixed_point_40g.yaml --seeds 8 --jobs 2\n  wireyard lab programs/lab/live.yaml --live --compare\n\nThe same build, seed and scenario give the same \
        bytes. Exit status 1: a check or an expectation failed."
    )]
    Lab(LabArgs),
}

/// `lab`.
#[derive(Debug, Args)]
pub struct LabArgs {
    /// The scenario: a file, or the name of one that is inside wireyard (incast, dumbbell, fat_tree, ..).
    pub scenario: PathBuf,
    /// Instead of the scenario's seed.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// So many runs, with this seed and the next ones.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
    /// So many runs at a time; the results are the same.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Write report.html, report.json, series.csv, series.parquet, tables, captures and entries into this folder.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// The engine.
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto)]
    pub engine: EngineChoice,
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
    /// Run it in virtual time first; marking probability, queue and throughput of both must agree within so many percent
    /// [default: 15].
    #[arg(long, value_name = "PERCENT", requires = "live", num_args = 0..=1, default_missing_value = "15")]
    pub compare: Option<f64>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub limits: LimitArgs,
    /// No progress line.
    #[arg(long, short)]
    pub quiet: bool,
    /// The report as JSON.
    #[arg(long)]
    pub json: bool,
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

/// The program under work.
#[derive(Debug, Args)]
pub struct ProgramArgs {
    /// A folder with program.yaml (and entries.yaml, switch.yaml), a program file, or the name of a program that is inside
    /// wireyard (l2_switch, ipv4_router, rocev2_lossless, ..).
    pub program: PathBuf,
    /// Look for included libraries in this folder too.
    #[arg(long = "include", value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Table entries; default: entries.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE")]
    pub entries: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub limits: LimitArgs,
}

/// How packets are run.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// The engine. `auto` is machine code, the interpreter while it is made and where there can be none; the counters of
    /// `run` say which runs.
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto)]
    pub engine: EngineChoice,
    /// Optimisation level: 0 none, 1 cheap passes and machine code in place, 2 all passes and optimised code [default: 2; of a
    /// trace: 0].
    #[arg(long, value_name = "0..2", value_parser = clap::value_parser!(u8).range(0..=2))]
    pub opt_level: Option<u8>,
}

/// An engine by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// The fastest that this program and machine allow.
    #[default]
    Auto,
    /// The interpreter: the definition.
    Interp,
    /// Machine code, or an error where that cannot be.
    Jit,
}

/// `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// How long it takes, in seconds.
    #[arg(long, default_value_t = 35, value_parser = clap::value_parser!(u64).range(4..=3600))]
    pub seconds: u64,
    /// The page with the pictures.
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "wireyard-demo.html")]
    pub output: PathBuf,
    /// Print the outcome as JSON.
    #[arg(long)]
    pub json: bool,
    /// Seed of the marking.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// What runs packets.
    #[arg(long, value_enum, default_value_t = EngineChoice::Auto)]
    pub engine: EngineChoice,
    /// Judge by another Pmax than is configured, in percent: to see the judge refuse.
    #[arg(long, value_name = "PERCENT", hide = true)]
    pub judge_pmax: Option<f64>,
}

/// `check`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("checked").args(["program", "config"]).required(true).multiple(true))]
pub struct CheckArgs {
    /// A folder with program.yaml (and entries.yaml, switch.yaml), or a program file; without it, --config is checked alone.
    pub program: Option<PathBuf>,
    /// Look for included libraries in this folder too.
    #[arg(long = "include", value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Table entries; default: entries.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE", requires = "program")]
    pub entries: Option<PathBuf>,
    /// The switch configuration; default: switch.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub engine: EngineArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub limits: LimitArgs,
    /// Warnings fail the check.
    #[arg(long)]
    pub strict: bool,
    /// Diagnostics as JSON: a list (of more than 100 the last object says how many), or with queues in the configuration `{diagnostics, queues}`.
    #[arg(long)]
    pub json: bool,
}

/// `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// A code such as E0001; without it, all codes with a line each.
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
}

/// `new`.
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The folder to make; its name is that of the program.
    pub name: PathBuf,
    /// What it begins as.
    #[arg(long, value_enum, default_value_t = Template::L2)]
    pub template: Template,
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

/// `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write wireyard.1 and a page for each command into this folder; without it, the first page goes to standard output.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
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
    Scenario,
    /// switch.yaml.
    Switch,
}

/// `dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
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
    #[expect(missing_docs, reason = "documented on the type")]
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

/// `pack`.
#[derive(Debug, Args)]
pub struct PackArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub program: ProgramArgs,
    /// Where to write; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// `graph`.
#[derive(Debug, Args)]
pub struct GraphArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub program: ProgramArgs,
    /// Where to write: .svg or .dot.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Only this graph.
    #[arg(long, value_enum)]
    pub only: Option<GraphKind>,
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

/// `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub program: ProgramArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub engine: EngineArgs,
    /// The switch configuration; default: switch.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A port, as in `1=veth0` or `2=tap:tap0,link=ethernet`; again for each port.
    #[arg(long = "port", value_name = "N=SPEC")]
    pub ports: Vec<String>,
    /// The ports as a file (`ports: { 1: { interface: veth0 } }`), read again on SIGHUP: ports come and go while packets flow.
    #[arg(long = "ports", value_name = "FILE", conflicts_with = "ports")]
    pub port_file: Option<PathBuf>,
    /// Workers, each with a processor core and ports of its own, which they get in turns.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub workers: u8,
    /// Packet memory for packets of up to 1791 bytes and for rings, as in 256MiB; default: what ports and queues need.
    #[arg(long, value_name = "SIZE")]
    pub packet_memory: Option<crate::units::Bytes>,
    /// Stop after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// What becomes of PAUSE and PFC frames.
    #[arg(long, value_enum, default_value_t = MacControl::Port)]
    pub mac_control: MacControl,
    /// Record every port into this pcapng file: in, out and dropped (with reason and queue depth). One port: 1=veth0,capture=FILE.
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Serve the counters to Prometheus on this loopback address, as in 127.0.0.1:9101 (port 0: any free one).
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    pub metrics: Option<SocketAddr>,
    /// Serve P4Runtime on this loopback address, as in 127.0.0.1:9559 (port 0: any free one): controllers read and write tables, counters,
    /// registers, groups and packets, and replace the program.
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    pub p4runtime: Option<SocketAddr>,
    /// The number of this device in P4Runtime.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "p4runtime")]
    pub device_id: u64,
    /// Let the kernel be the control plane of a router, in this network namespace (`ip netns add NAME`) or in that of the switch: each port gets
    /// an interface there, and the kernel's neighbours and routes go into the tables.
    #[arg(long, value_name = "NETNS", num_args = 0..=1)]
    pub linux: Option<Option<String>>,
    /// Show what each entry counted too, of tables with `counters: true` or a meter: the N that most packets met, or all [N
    /// without a value: 20].
    #[arg(long, value_name = "N|all", num_args = 0..=1, require_equals = true, default_missing_value = "20")]
    pub entry_counters: Option<EntriesShown>,
    /// Counters as JSON.
    #[arg(long)]
    pub json: bool,
}

/// An address that only this machine reaches.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr =
        text.parse().map_err(|_| "write an address and a port: 127.0.0.1:9101".to_owned())?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(format!(
        "{} is no loopback address, and what is served there has no password: use 127.0.0.1:{} and a proxy",
        address.ip(),
        address.port()
    ))
}

/// What becomes of MAC control frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MacControl {
    /// They end at the port (IEEE 802.3 clause 31).
    Port,
    /// The program sees them.
    Pass,
}

/// `host`.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// The interface, as in `run`: raw:tap0, tap:tap0, xdp:veth0.
    #[arg(long, value_name = "SPEC")]
    pub port: String,
    /// Address of this host; ARP or neighbour discovery is answered for it.
    #[arg(long, value_name = "ADDRESS")]
    pub ip: std::net::IpAddr,
    /// MAC address; default: 02:77 and the end of the IP address.
    #[arg(long, value_name = "MAC")]
    pub mac: Option<crate::frames::Mac>,
    /// Rate of the link.
    #[arg(long, value_name = "RATE", default_value = "1Gbit/s")]
    pub rate: crate::units::BitsPerSec,
    /// `fixed`, or the name of a DCQCN preset.
    #[arg(long, value_name = "NAME", default_value = "fixed")]
    pub rate_control: String,
}

/// `replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub program: ProgramArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub engine: EngineArgs,
    /// The switch configuration; default: switch.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Frames into a port: NUMBER=FILE (pcap or pcapng); again for each port.
    #[arg(long = "in", value_name = "N=FILE", required = true)]
    pub inputs: Vec<String>,
    /// Frames out of a port: NUMBER=FILE; frames of other ports are counted and not kept.
    #[arg(long = "out", value_name = "N=FILE")]
    pub outputs: Vec<String>,
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
#[command(group = ArgGroup::new("frames").args(["pcap", "hex"]).required(true))]
pub struct TraceArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub program: ProgramArgs,
    /// The switch configuration; default: switch.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub engine: EngineArgs,
    /// The capture file with the frame.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Which frame, from 1; the frames before it run first, without a trace.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub frame: u64,
    /// The frame itself, as hexadecimal digits.
    #[arg(long, value_name = "BYTES")]
    pub hex: Option<String>,
    /// The port it comes in by.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub port: u16,
    /// Its link type, for --hex.
    #[arg(long, value_name = "TYPE", default_value = "ethernet")]
    pub link: String,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Scripts, or folders with scripts below them.
    #[arg(required = true)]
    pub paths: Vec<PathBuf>,
    /// Look for included libraries in this folder too.
    #[arg(long = "include", value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// The engine [default: every engine].
    #[arg(long, value_enum)]
    pub engine: Option<EngineChoice>,
    /// Optimisation level: 0 none, 1 cheap passes and path-specialised machine code, 2 all passes and optimised code.
    #[arg(long, value_name = "0..2", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub opt_level: u8,
    /// At every optimisation level.
    #[arg(long, conflicts_with = "opt_level")]
    pub every_level: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub limits: LimitArgs,
    /// Results as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `decode`.
#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// The capture: pcap or pcapng.
    pub file: PathBuf,
    /// Check every declared CRC (ICRC, VCRC), show only packets where one is wrong, and sum up; exit
    /// status 1 if one is wrong.
    #[arg(long)]
    pub verify_crc: bool,
    /// One JSON object for each packet, each in a line; with --verify-crc, a last one with the sums.
    #[arg(long, conflicts_with = "tree")]
    pub json: bool,
    /// Every header with every field.
    #[arg(long)]
    pub tree: bool,
    /// Only packets for which this expression of the program language is true.
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Only this packet, from 1.
    #[arg(long, value_name = "N")]
    pub frame: Option<u64>,
}
