//! `simple-switch-grpc`: the arguments of bmv2's simple_switch_grpc as those of `run`.
//!
//! A translation and nothing else, so that scripts for Mininet and PTF start this switch. Arguments without a
//! counterpart are named in a message.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Parser;
use wireyard_pipeline::source::{DATA_BYTES_MAX, read_bytes};

use super::args::{
    Cli, Command, RefusedArgs, RunArgs, SimpleSwitchArgs, Start, TargetArgs, TargetCli,
};
use super::run::run as run_switch;
use super::{Status, complain, say};
use crate::p4runtime::pack;

/// The name under which a link to the binary is this command.
const NAME: &str = "simple_switch_grpc";
/// Default port of simple_switch_grpc for P4Runtime.
const PORT: u16 = 9559;
/// The port of v1model for dropping.
const DROP_PORT: u16 = 511;

/// The arguments of the process: with this command in front if the binary is called by bmv2's name.
pub fn arguments(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = given.collect();
    let name = all.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name == NAME) {
        all.insert(1, "simple-switch-grpc".into());
    }
    all
}

pub(super) fn run(args: &SimpleSwitchArgs) -> Status {
    match translate(args) {
        Ok((args, notes)) => {
            notes.iter().for_each(|note| say(note));
            run_switch(&args)
        }
        Err(message) => {
            complain(&message);
            Status::Wrong
        }
    }
}

/// The text of clap's error, without the leading word, which is added on printing.
fn text_of(error: &clap::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned()
}

/// The arguments of `run`, and messages about those without a counterpart.
fn translate(args: &SimpleSwitchArgs) -> Result<(RunArgs, Vec<String>), String> {
    let behind = TargetCli::try_parse_from(&args.behind).map_err(|error| text_of(&error))?.target;
    if let Some(why) = behind.refused.reason().or(args.target.refused.reason()) {
        return Err(why.into());
    }
    let target = joined(behind, &args.target);
    if let Some(other) = target.drop_port.filter(|port| *port != DROP_PORT) {
        return Err(format!(
            "--drop-port {other}: programs of v1model drop at {DROP_PORT}, no other number can be had"
        ));
    }
    if args.restore_state.is_some() {
        return Err("--restore-state: states of bmv2 are not read; `wireyard save` writes the state of a running switch, `wireyard restore` reads it".into());
    }
    let (pcap, program) = program(args)?;
    let mut notes = Vec::new();
    if let Some(program) = program.as_ref().filter(|_| args.no_p4) {
        notes.push(format!("--no-p4: {} is not loaded", program.display()));
    }
    let tls = tls(&target)?;
    let address = address(&target, args.insecure, &mut notes);
    let mut words: Vec<OsString> = vec!["wireyard".into(), "run".into()];
    let start = start(args, program.as_deref())?;
    words.push(program.map_or_else(|| "no_program".into(), PathBuf::into_os_string));
    let mut add = |name: &str, value: String| words.extend([name.into(), value.into()]);
    for (number, interface) in &args.interfaces {
        let capture = pcap.as_ref().map_or(String::new(), |folder| {
            let name = interface.rsplit(':').next().unwrap_or(interface);
            format!(",capture={}", folder.join(format!("{name}.pcapng")).display())
        });
        add("--port", format!("{number}={interface}{capture}"));
    }
    add("--p4runtime", address);
    for (name, file) in tls {
        words.extend([name.into(), file.into_os_string()]);
    }
    if args.insecure {
        words.push("--insecure".into());
    }
    let mut add = |name: &str, value: String| words.extend([name.into(), value.into()]);
    add("--device-id", args.device_id.to_string());
    if let Some(cpu) = target.cpu_port.filter(|cpu| *cpu != 0) {
        add("--cpu-port", cpu.to_string());
    }
    match &args.config {
        Some(config) => words.extend(["--config".into(), config.clone().into_os_string()]),
        // bmv2 knows no flow control: a pause is a frame like any other.
        None => words.extend(["--mac-control".into(), "pass".into()]),
    }
    notes.extend(without_effect(args, &target));
    let cli = Cli::try_parse_from(words).map_err(|error| text_of(&error))?;
    match cli.command {
        Command::Run(run) => {
            let (rates_of_interfaces, is_simple_switch) = (true, true);
            Ok((RunArgs { start, rates_of_interfaces, is_simple_switch, ..*run }, notes))
        }
        _ => Err("`run` takes these arguments".into()),
    }
}

/// Messages about arguments that do nothing here.
fn without_effect(args: &SimpleSwitchArgs, target: &TargetArgs) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if target.priority_queues.is_some() {
        notes.push(
            "--priority-queues: queues and their schedulers are those of a switch.yaml (--config FILE)".into(),
        );
    }
    if args.thrift_port.is_some() {
        notes.push(format!(
            "--thrift-port: there is no Thrift server; `wireyard table`, `counter`, `mirror` and the others do what simple_switch_CLI does, \
             as in `wireyard table dump TABLE --switch device_{}`",
            args.device_id
        ));
    }
    if args.debugger || args.debugger_addr.is_some() || args.trace_dir.is_some() {
        notes.push("--debugger, --trace-dir: `wireyard trace --live` follows the packets of a running switch".into());
    }
    if args.log_file.is_some() {
        notes.push("--log-file: messages go to standard error".into());
    }
    notes
}

/// The folder of captures and the program: `--pcap DIR PROGRAM` has both as positional arguments.
fn program(args: &SimpleSwitchArgs) -> Result<(Option<PathBuf>, Option<PathBuf>), String> {
    let is_program = |path: &Path| {
        let end = path.extension();
        end.is_some_and(|end| end == "json" || end == "p4" || end == "yaml") || path.is_file()
    };
    let (folder, program) = match (&args.pcap, args.program.as_slice()) {
        (pcap, []) => (pcap.as_ref(), None),
        (Some(_), [first]) if args.no_p4 && !is_program(first) => (Some(first), None),
        (pcap, [program]) => (pcap.as_ref(), Some(program)),
        (Some(_), [first, program]) if !is_program(first) => (Some(first), Some(program)),
        (_, words) => {
            let words: Vec<String> = words.iter().map(|one| one.display().to_string()).collect();
            return Err(format!("one program is run, not {}", words.join(" and ")));
        }
    };
    match folder.filter(|folder| !folder.is_dir()) {
        Some(none) => Err(format!("--pcap {}: there is no such folder", none.display())),
        None => Ok((folder.cloned(), program.cloned())),
    }
}

/// The first program.
fn start(args: &SimpleSwitchArgs, program: Option<&Path>) -> Result<Start, String> {
    let Some(path) = program.filter(|_| !args.no_p4) else {
        return match args.no_p4 {
            true => Ok(Start::Nothing),
            false => {
                Err("no program: name one, or give --no-p4 and let a controller push it".into())
            }
        };
    };
    let name = path.display();
    let is_source = path.extension().is_some_and(|end| end == "p4" || end == "yaml");
    if is_source || !path.is_file() {
        return Ok(Start::Program);
    }
    let blob = read_bytes(path, DATA_BYTES_MAX).map_err(|error| format!("{name}: {error}"))?;
    if pack::is_json(&blob) {
        return Ok(Start::Program);
    }
    // Its errors are reported on loading.
    match pack::unpack(&blob, None) {
        Err(
            why @ (pack::PackError::NotPacked
            | pack::PackError::Empty
            | pack::PackError::Json
            | pack::PackError::Syntax(_)),
        ) => Err(format!("{name}: {why}; or name the P4 source itself")),
        _ => Ok(Start::Packed(blob)),
    }
}

/// The options of the target behind `--`, and those in front of it, which scripts of other builds give.
fn joined(behind: TargetArgs, front: &TargetArgs) -> TargetArgs {
    let file = |one: Option<PathBuf>, other: &Option<PathBuf>| one.or_else(|| other.clone());
    TargetArgs {
        grpc_server_addr: behind.grpc_server_addr.or(front.grpc_server_addr),
        grpc_server_ssl: behind.grpc_server_ssl || front.grpc_server_ssl,
        grpc_server_cert: file(behind.grpc_server_cert, &front.grpc_server_cert),
        grpc_server_key: file(behind.grpc_server_key, &front.grpc_server_key),
        grpc_server_cacert: file(behind.grpc_server_cacert, &front.grpc_server_cacert),
        grpc_server_with_client_auth: behind.grpc_server_with_client_auth
            || front.grpc_server_with_client_auth,
        cpu_port: behind.cpu_port.or(front.cpu_port),
        drop_port: behind.drop_port.or(front.drop_port),
        priority_queues: behind.priority_queues.or(front.priority_queues),
        enable_swap: behind.enable_swap || front.enable_swap,
        disable_swap: behind.disable_swap || front.disable_swap,
        refused: RefusedArgs::default(),
    }
}

/// The files of TLS, with the options of `run` for them; none without `--grpc-server-ssl`, as in bmv2.
fn tls(target: &TargetArgs) -> Result<Vec<(&'static str, PathBuf)>, String> {
    if !target.grpc_server_ssl {
        return Ok(Vec::new());
    }
    let (Some(cert), Some(key)) = (&target.grpc_server_cert, &target.grpc_server_key) else {
        return Err(
            "--grpc-server-ssl needs --grpc-server-cert FILE and --grpc-server-key FILE".into()
        );
    };
    let mut files = vec![("--tls-cert", cert.clone()), ("--tls-key", key.clone())];
    match (&target.grpc_server_cacert, target.grpc_server_with_client_auth) {
        (Some(authority), true) => files.push(("--tls-client-ca", authority.clone())),
        (None, true) => {
            return Err("--grpc-server-with-client-auth needs --grpc-server-cacert FILE, the authority of the clients' certificates".into());
        }
        // bmv2 asks clients for no certificate then.
        (_, false) => {}
    }
    Ok(files)
}

/// The address of P4Runtime: all addresses only where `run` would permit it.
fn address(target: &TargetArgs, insecure: bool, notes: &mut Vec<String>) -> String {
    let default = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
    let address = target.grpc_server_addr.unwrap_or(default);
    if !address.ip().is_unspecified() || target.grpc_server_ssl || insecure {
        return address.to_string();
    }
    let port = address.port();
    let given = target.grpc_server_addr.map(|_| format!("--grpc-server-addr {address}: "));
    notes.push(format!(
        "{}P4Runtime is served on this machine only, 127.0.0.1:{port}; --grpc-server-ssl or --insecure serves others",
        given.unwrap_or_default()
    ));
    format!("127.0.0.1:{port}")
}

#[cfg(test)]
mod tests;
