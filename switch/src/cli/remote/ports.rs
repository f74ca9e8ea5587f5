//! `port`: the ports of a running switch.

use serde_json::json;

use super::{Outcome, connect, describe, list, print};
use crate::cli::args::{PortArgs, PortCommand, SwitchArgs};
use crate::cli::say;
use crate::p4runtime::proto::wireyard::v1 as wire;
use wire::port_request::Kind;

pub(super) fn run(args: &PortArgs) -> Outcome {
    let on = &args.on;
    match &args.command {
        PortCommand::List => list(on, "ports"),
        PortCommand::Add { port, spec } => change(on, Kind::Add, *port, spec),
        PortCommand::Remove { port } => change(on, Kind::Remove, *port, ""),
        PortCommand::Up { port } => change(on, Kind::Up, *port, ""),
        PortCommand::Down { port } => change(on, Kind::Down, *port, ""),
        PortCommand::Faults { port, spec: None } => faults(on, *port),
        // As of a variable of the shell that is not set.
        PortCommand::Faults { spec: Some(spec), .. } if spec.trim().is_empty() => {
            Err("the faults are an empty word: write them as in loss=1%, or `none` to end them"
                .into())
        }
        PortCommand::Faults { port, spec: Some(spec) } => {
            change(on, Kind::Faults, *port, if spec == "none" { "" } else { spec })
        }
    }
}

/// The faults that are on the cable of a port.
fn faults(on: &SwitchArgs, port: u32) -> Outcome {
    let all = describe(&connect(on)?)?;
    let ports = all["ports"].as_array().into_iter().flatten();
    let Some(found) = ports.clone().find(|one| one["port"] == port) else {
        let numbers: Vec<String> = ports.map(|one| one["port"].to_string()).collect();
        return Err(format!("there is no port {port}; there are: {}", numbers.join(", ")).into());
    };
    let mut rows = print::Rows::new(on.json);
    rows.add(json!({ "port": port, "faults": found["faults"] }));
    rows.finish();
    Ok(())
}

fn change(on: &SwitchArgs, kind: Kind, port: u32, spec: &str) -> Outcome {
    let remote = connect(on)?;
    let request = wire::PortRequest { kind: kind.into(), port, spec: spec.to_owned() };
    let done = remote.document(|mut calls| async move { calls.change_port(request).await })?;
    if on.json {
        print::line(&done);
    }
    for notice in done["notices"].as_array().into_iter().flatten() {
        say(&format!("port {port}: {}", print::cell(notice)));
    }
    Ok(())
}
