//! Arguments of `simple-switch-grpc`: those of bmv2's simple_switch_grpc.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::{ArgAction, Args, Parser};

use crate::ports::PortNumber;

/// `simple-switch-grpc`.
#[derive(Debug, Args)]
#[command(version = super::VERSION, disable_version_flag = true)]
pub struct SimpleSwitchArgs {
    /// The JSON that p4c made for bmv2, a P4 program (NAME.p4), a folder or file as in `run`, or what `wireyard pack`
    /// made. Behind `--pcap`, the folder of captures may stand in front.
    #[arg(value_name = "PROGRAM", num_args = 0..=2)]
    pub program: Vec<PathBuf>,
    /// A port, as in 1@veth0; again for each port.
    #[arg(short = 'i', long = "interface", value_name = "PORT@IF", value_parser = interface)]
    pub interfaces: Vec<(PortNumber, String)>,
    /// Start without a program, until a controller pushes one.
    #[arg(long)]
    pub no_p4: bool,
    /// The number of this device in P4Runtime.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device_id: u64,
    /// Record each port in a file of this folder (IF.pcapng, with what came in, left and was dropped).
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    pub pcap: Option<PathBuf>,
    /// Messages go to the console, as they do without it.
    #[arg(long)]
    pub log_console: bool,
    /// Taken for the sake of scripts: messages go to standard error, which a shell redirects.
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Taken for the sake of scripts.
    #[arg(short = 'L', long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Taken for the sake of scripts.
    #[arg(long)]
    pub log_flush: bool,
    /// Taken for the sake of scripts.
    #[arg(long, value_name = "BYTES")]
    pub log_file_max_size: Option<u64>,
    /// Taken for the sake of scripts.
    #[arg(long, value_name = "N")]
    pub log_file_max_files: Option<u64>,
    /// Taken for the sake of scripts: the number of ports has no limit of its own.
    #[arg(long, value_name = "N")]
    pub max_port_count: Option<u32>,
    /// Taken for the sake of scripts: `wireyard trace --live` follows packets.
    #[arg(long)]
    pub debugger: bool,
    /// Taken for the sake of scripts, as --debugger.
    #[arg(long, value_name = "ADDRESS")]
    pub debugger_addr: Option<String>,
    /// Taken for the sake of scripts: `wireyard trace --live` follows packets.
    #[arg(long, value_name = "DIR")]
    pub trace_dir: Option<PathBuf>,
    /// Refused: states of bmv2 are not read; `wireyard restore` reads what `wireyard save` wrote.
    #[arg(long, value_name = "FILE")]
    pub restore_state: Option<PathBuf>,
    /// Taken for the sake of scripts: there is no Thrift server.
    #[arg(long, value_name = "PORT")]
    pub thrift_port: Option<u16>,
    /// Taken for the sake of scripts.
    #[arg(long, value_name = "ADDRESS")]
    pub nanolog: Option<String>,
    /// Taken for the sake of scripts.
    #[arg(long, value_name = "ADDRESS")]
    pub notifications_addr: Option<String>,
    /// Taken for the sake of scripts: `wireyard trace` shows packets.
    #[arg(long, value_name = "BYTES")]
    pub dump_packet_data: Option<u64>,
    /// Print the version.
    #[arg(short = 'v', long, action = ArgAction::Version)]
    pub version: Option<bool>,
    /// A switch configuration, with queues for the ports; without one a port has the rate that tc(8) set for its interface. Not of bmv2.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Serve --grpc-server-addr to other machines without TLS: who reaches it steers the switch. Not of bmv2.
    #[arg(long)]
    pub insecure: bool,
    #[command(flatten)]
    pub target: TargetArgs,
    /// The options of the target, as bmv2 wants them: -- --grpc-server-addr 127.0.0.1:50051 --cpu-port 255.
    #[arg(last = true, value_name = "TARGET OPTIONS")]
    pub behind: Vec<String>,
}

/// The options of bmv2 after `--`.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Where P4Runtime is served; without TLS and --insecure 0.0.0.0 is 127.0.0.1 here [default: 0.0.0.0:9559].
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = server_address)]
    pub grpc_server_addr: Option<SocketAddr>,
    /// Serve with TLS: with --grpc-server-cert and --grpc-server-key.
    #[arg(long)]
    pub grpc_server_ssl: bool,
    /// The certificate of the switch, in PEM.
    #[arg(long, value_name = "FILE")]
    pub grpc_server_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    pub grpc_server_key: Option<PathBuf>,
    /// The authority of clients' certificates, in PEM: for --grpc-server-with-client-auth.
    #[arg(long, value_name = "FILE")]
    pub grpc_server_cacert: Option<PathBuf>,
    /// Serve only clients with a certificate of --grpc-server-cacert.
    #[arg(long)]
    pub grpc_server_with_client_auth: bool,
    /// The number that the program has for the CPU port.
    #[arg(long, value_name = "N")]
    pub cpu_port: Option<u16>,
    /// The number that means drop: 511, as v1model.p4 has it.
    #[arg(long, value_name = "N")]
    pub drop_port: Option<u16>,
    /// Taken for the sake of scripts: queues are those of a switch.yaml.
    #[arg(long, value_name = "N")]
    pub priority_queues: Option<u16>,
    /// Taken for the sake of scripts.
    #[arg(long)]
    pub enable_swap: bool,
    /// Taken for the sake of scripts.
    #[arg(long)]
    pub disable_swap: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented on the type")]
    pub refused: RefusedArgs,
}

/// Options of bmv2 that have no counterpart, and without which the switch would do something else.
#[derive(Debug, Default, Args)]
pub struct RefusedArgs {
    /// Refused: `pcap:` ports and `wireyard replay` read captures.
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub use_files: Option<String>,
    /// Refused: ports are interfaces.
    #[arg(long, value_name = "ADDRESS", hide = true)]
    pub packet_in: Option<String>,
    /// Refused: there is no such number to print.
    #[arg(long, hide = true)]
    pub json_version: bool,
    /// Refused: ports are interfaces.
    #[arg(long, value_name = "ADDRESS", hide = true)]
    pub dp_grpc_server_addr: Option<String>,
    /// Refused: a packet without an egress port leaves by port 0, as v1model has it.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, hide = true)]
    pub egress_spec_init_to_drop: Option<Option<String>>,
    /// Refused: there are no externs of others.
    #[arg(long, value_name = "FILES", hide = true)]
    pub load_modules: Option<String>,
}

impl RefusedArgs {
    /// Why the first of those that are given is refused.
    pub fn reason(&self) -> Option<&'static str> {
        let all = [
            (
                self.use_files.is_some(),
                "--use-files: captures are read by ports of `wireyard run` (--port 1=pcap:FILE) and by `wireyard replay`",
            ),
            (self.packet_in.is_some(), "--packet-in: ports are interfaces (-i PORT@IF)"),
            (
                self.json_version,
                "--json-version: it is not printed; --version prints the version of this program",
            ),
            (
                self.dp_grpc_server_addr.is_some(),
                "--dp-grpc-server-addr: ports are interfaces (-i PORT@IF)",
            ),
            (
                self.egress_spec_init_to_drop.is_some(),
                "--egress-spec-init-to-drop: egress_spec begins as 0; call mark_to_drop in the program",
            ),
            (
                self.load_modules.is_some(),
                "--load-modules: externs of other libraries are not loaded",
            ),
        ];
        all.into_iter().find_map(|(is_given, why)| is_given.then_some(why))
    }
}

/// The options behind `--` alone.
#[derive(Debug, Parser)]
#[command(name = "simple_switch_grpc .. --", no_binary_name = true)]
pub struct TargetCli {
    #[command(flatten)]
    pub target: TargetArgs,
}

/// An address, or the name of a host. Of the addresses of a name, as `localhost`, the first one of IPv4 if there is one.
fn server_address(text: &str) -> Result<SocketAddr, String> {
    let all: Vec<SocketAddr> = text.to_socket_addrs().map_err(|why| why.to_string())?.collect();
    let found = all.iter().find(|one| one.is_ipv4()).or(all.first());
    found.copied().ok_or_else(|| "this name has no address".into())
}

fn interface(text: &str) -> Result<(PortNumber, String), String> {
    let port = text.split_once('@').and_then(|(port, name)| Some((port.parse().ok()?, name)));
    match port {
        Some((port, name)) if !name.is_empty() => Ok((PortNumber(port), name.to_owned())),
        _ => Err("write PORT@INTERFACE, as in 1@veth0".into()),
    }
}
