//! Arguments of the commands that forward packets between interfaces: `run` and `host`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};

use super::{EngineArgs, ProgramArgs};
use crate::config::room::MEMORY_MIN;
use crate::core::EntriesShown;
use crate::management::socket::{Choice, NoChoice};
use crate::ports::PortNumber;
use crate::units::{Bytes, UnitError};

/// `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub program: ProgramArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    /// The switch configuration; default: switch.yaml in the program's folder, if it is there.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A port, as in `1=veth0` or `2=tap:tap0,link=ethernet`; again for each port.
    #[arg(long = "port", value_name = "N=SPEC")]
    pub ports: Vec<String>,
    /// The ports as a file (`ports: { 1: { interface: veth0 } }`), read again on SIGHUP: ports come and go while
    /// packets flow.
    #[arg(long = "ports", value_name = "FILE", conflicts_with = "ports")]
    pub port_file: Option<PathBuf>,
    /// Workers, each with a processor core. Ports belong to them in turn; a port with several queues (1=eth0,queues=4;
    /// xdp: all of the interface) is served by as many.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub workers: u8,
    /// Let the workers come before every ordinary thread of the machine (SCHED_FIFO): packets wait for nobody, and a
    /// busy worker has its processor for itself. It takes root, CAP_SYS_NICE, or a limit of real-time priorities
    /// (`ulimit -r`) of 1.
    #[arg(long)]
    pub realtime: bool,
    /// Seed of choices in groups (ECMP). Switches behind each other choose alike without one, and use one of the ways
    /// between them: give each tier another number. 0: the hash of the program chooses as it is.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub selector_seed: u64,
    /// Packet memory for packets of up to 1791 bytes and for rings, as in 256MiB; default: what ports and queues need.
    #[arg(long, value_name = "SIZE", value_parser = packet_memory)]
    pub packet_memory: Option<Bytes>,
    /// Stop after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// What becomes of PAUSE and PFC frames.
    #[arg(long, value_enum, default_value_t = MacControl::Port)]
    pub mac_control: MacControl,
    /// Record every port into this pcapng file: in, out and dropped (with reason and queue depth). One port:
    /// 1=veth0,capture=FILE. A capture that is there becomes FILE.1.
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Serve the counters to Prometheus on this address, as in 127.0.0.1:9101 (port 0: any free one); one that other
    /// machines reach needs --insecure.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Serve a page for a browser on this address, as in 127.0.0.1:8080 (port 0: any free one): ports, queues, the
    /// program's graphs with hits, tables. It reads only. One that other machines reach needs --insecure.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub http: Option<SocketAddr>,
    /// Serve P4Runtime on this address, as in 127.0.0.1:9559 (port 0: any free one): controllers read and write tables,
    /// counters, registers, groups and packets, and replace the program. One that other machines reach needs
    /// --tls-cert, or --insecure.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub p4runtime: Option<SocketAddr>,
    /// Serve --p4runtime with TLS: the certificate of the switch, and those that lead to its authority, in PEM.
    #[arg(long, value_name = "FILE", requires_all = ["p4runtime", "tls_key"])]
    pub tls_cert: Option<PathBuf>,
    /// The private key of --tls-cert, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Serve only clients with a certificate of these authorities, in PEM (mutual TLS).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Serve addresses that other machines reach without TLS: who reaches --p4runtime steers the switch.
    #[arg(long)]
    pub insecure: bool,
    /// Serve gNMI on the address of --p4runtime: names, states and counters of the ports, which it takes down and up.
    #[arg(long, requires = "p4runtime")]
    pub gnmi: bool,
    /// The number of this device in P4Runtime.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub device_id: u64,
    /// A number that the program has for the CPU port (v1model: what simple_switch_grpc has as --cpu-port): packets for
    /// it go to controllers, theirs come in by it. CPU_PORT of YAML and PSA_PORT_CPU need no number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..).map(PortNumber))]
    pub cpu_port: Option<PortNumber>,
    /// The unix socket for `wireyard table`, `port`, `stats` and the others, and for P4Runtime; `none` for no socket
    /// [default: NAME.sock in /run/wireyard or $XDG_RUNTIME_DIR/wireyard].
    #[arg(long, value_name = "PATH|none", default_value = "", hide_default_value = true, value_parser = control)]
    pub control: Choice,
    /// Let this group use the socket too (mode 0660); otherwise only its owner may (0600).
    #[arg(long, value_name = "GROUP")]
    pub control_group: Option<String>,
    /// Keep what controllers write in this folder, and begin with what is in it: entries, groups, sessions, meters,
    /// registers, the pushed program.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Let the kernel be the control plane of a router, in this network namespace (`ip netns add NAME`) or in that of
    /// the switch: each port gets an interface there, and the kernel's neighbours and routes go into the tables.
    #[arg(long, value_name = "NETNS", num_args = 0..=1)]
    pub linux: Option<Option<String>>,
    /// Keep every privilege, and reach every file and system call, while it runs.
    #[arg(long)]
    pub no_sandbox: bool,
    /// Let the sandbox write beneath this folder too: for captures that begin, and files of ports that are added, while
    /// the switch runs; again for each folder.
    #[arg(long, value_name = "DIR", conflicts_with = "no_sandbox")]
    pub writable: Vec<PathBuf>,
    /// Show what each entry counted too, of tables with `counters: true` or a meter: the N that most packets met, or
    /// all [N without a value: 20].
    #[arg(long, value_name = "N|all", num_args = 0..=1, require_equals = true, default_missing_value = "20")]
    pub entry_counters: Option<EntriesShown>,
    /// Counters as JSON.
    #[arg(long)]
    pub json: bool,
    /// What is reported on standard error: events of this level, and graver ones.
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info)]
    pub log: LogLevel,
    /// Report as JSON lines: time, level, message, and what the event is about (event, port, state, stream).
    #[arg(long)]
    pub log_json: bool,
    /// Give each port the rate that tc(8) set for its interface (htb, tbf), and a queue of 96 KB, unless the switch
    /// configuration has queues.
    #[arg(long)]
    pub rates_of_interfaces: bool,
    /// What runs first.
    #[arg(skip)]
    pub start: Start,
    /// Started with the arguments of bmv2's switch: as there, ports are not needed and SIGHUP ends it, and messages have
    /// the names of its options. Its control socket has the number of the device.
    #[arg(skip)]
    pub is_simple_switch: bool,
}

/// What a switch begins with.
#[derive(Clone, Debug, Default)]
pub enum Start {
    /// The program of the command line.
    #[default]
    Program,
    /// None: every packet is dropped until a controller pushes one.
    Nothing,
    /// A packed program.
    Packed(Vec<u8>),
}

fn control(text: &str) -> Result<Choice, NoChoice> {
    if text.is_empty() { Ok(Choice::Default) } else { text.parse() }
}

fn packet_memory(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|error: UnitError| error.to_string())?;
    match bytes >= MEMORY_MIN {
        true => Ok(bytes),
        false => Err(format!("packet memory has at least {MEMORY_MIN}")),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
        let port = port.map_or("PORT".to_owned(), |port| port.to_string());
        format!("write an IP address and a port, as 127.0.0.1:{port}: names are not looked up")
    })
}

impl RunArgs {
    /// Checks that each address that other machines reach has TLS, or `--insecure`.
    ///
    /// # Errors
    /// One has neither; the text has the options to add.
    pub(in crate::cli) fn check_addresses(&self) -> Result<(), String> {
        let open = |address: &Option<SocketAddr>| {
            address.filter(|address| !address.ip().is_loopback() && !self.insecure)
        };
        for (option, address, what) in [
            ("--metrics", &self.metrics, "the counters have"),
            ("--http", &self.http, "the page has"),
        ] {
            if let Some(address) = open(address) {
                return Err(format!(
                    "{option} {address}: {} is no loopback address, and {what} no password: use 127.0.0.1:{} and a proxy, or --insecure",
                    address.ip(),
                    address.port()
                ));
            }
        }
        match open(&self.p4runtime) {
            Some(address) if self.tls_cert.is_none() => Err(format!(
                "--p4runtime {address}: {} is no loopback address, and who reaches it steers the switch: give --tls-cert, --tls-key and \
                 --tls-client-ca, use 127.0.0.1:{}, or --insecure in a network that nobody else reaches",
                address.ip(),
                address.port()
            )),
            _ => Ok(()),
        }
    }
}

/// How grave an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// And what may need somebody: links that go down, pause storms, a primary that went.
    Warn,
    /// And what is as it should be: starts, links that come up, controllers, programs.
    Info,
    /// And each request of a controller that was refused.
    Debug,
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
