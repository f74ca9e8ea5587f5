//! `port`: the ports of a running switch.

use serde_json::json;

use super::{Outcome, connect, describe, list, print};
use crate::cli::args::{PortArgs, PortCommand, SwitchArgs};
use crate::cli::{Failure, say};
use crate::p4runtime::proto::wireyard::v1 as wire;
use wire::port_request::Kind;

pub(super) fn run(args: &PortArgs) -> Outcome {
    let on = &args.on;
    match &args.command {
        PortCommand::List => list(on, "ports"),
        PortCommand::Add { port, spec } => {
            change(on, Kind::Add, *port, &with_absolute_files(spec)?)
        }
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

/// The specification with absolute paths: the switch opens the files, and its working directory may differ.
fn with_absolute_files(spec: &str) -> Result<String, Failure> {
    let absolute = |path: &str| -> Result<String, Failure> {
        let path = std::path::absolute(path)?;
        Ok(path.to_str().ok_or("the name of the file is no UTF-8")?.to_owned())
    };
    let option = |(place, option): (usize, &str)| {
        let is_input = place == 0 && option.starts_with("pcap:");
        let split = option.split_once(if is_input { ':' } else { '=' });
        match split.map(|(name, value)| (name, value.trim())) {
            Some((_, "" | "-")) | None => Ok(option.to_owned()),
            Some((kind, path)) if is_input => Ok(format!("{kind}:{}", absolute(path)?)),
            Some((name, path)) if place > 0 && matches!(name.trim(), "out" | "capture") => {
                Ok(format!("{name}={}", absolute(path)?))
            }
            Some(_) => Ok(option.to_owned()),
        }
    };
    Ok(spec.split(',').enumerate().map(option).collect::<Result<Vec<_>, Failure>>()?.join(","))
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
