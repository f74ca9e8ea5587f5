//! Ports at run time: added, removed, shut down and brought up, with faults on their cables.

use serde_json::{Value, json};
use wireyard_pipeline::diag::suggest;

use super::filter::Filter;
use crate::control::{Control, ControlError, invalid};
use crate::p4runtime::proto::wireyard::v1 as wire;
use crate::ports::faults::chance::FaultSetup;
use crate::ports::spec::FAULT_OPTIONS;
use crate::ports::{PortNumber, PortSpec, SpecError};
use wire::port_request::Kind;

/// Checks a port's number.
///
/// # Errors
/// It is outside the range of ports.
pub fn number(port: u32) -> Result<PortNumber, ControlError> {
    let number =
        u16::try_from(port).ok().map(PortNumber).filter(|number| crate::config::is_port(*number));
    number.ok_or_else(|| {
        let most = crate::config::PORT_MAX;
        ControlError::invalid(format!("port {port}: ports have numbers from 0 to {most}"))
    })
}

fn faults(text: &str) -> Result<FaultSetup, ControlError> {
    if text.trim().is_empty() {
        return Ok(FaultSetup::NONE);
    }
    let names = text.split(',').filter_map(|one| one.split('=').next()).map(str::trim);
    if let Some(unknown) = names.into_iter().find(|name| !FAULT_OPTIONS.contains(name)) {
        let near = suggest(unknown, FAULT_OPTIONS);
        let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        let all = FAULT_OPTIONS.join(", ");
        return invalid(format!("faults: there is no `{unknown}`; there are: {all}{near}"));
    }
    // Parsed as options of a port's specification; the port is not opened.
    let spec = PortSpec::parse(&format!("raw:any,{text}"));
    let spec = spec.map_err(|error| match error {
        SpecError::Form { why, .. } => ControlError::invalid(format!("faults: {why}")),
        other => ControlError::invalid(format!("faults: {other}")),
    })?;
    Ok(spec.faults)
}

/// Begins or ends captures.
///
/// # Errors
/// Nothing has changed.
pub fn capture(control: &Control, request: &wire::CaptureRequest) -> Result<Value, ControlError> {
    let port = request.port.map(number).transpose()?;
    if request.file.is_empty() && !request.filter.is_empty() {
        return invalid("a filter is of a capture that begins");
    }
    match request.file.as_str() {
        "" => {
            let stopped = control.stop_recording(port)?;
            match (stopped, port) {
                (0, Some(port)) => {
                    return Err(ControlError::NotFound(format!(
                        "nothing records port {port}: `wireyard capture list` shows what is recorded"
                    )));
                }
                (0, None) => {}
                (_, port) => {
                    let of = recorded(port);
                    tracing::info!(
                        event = "capture",
                        port = port.map(|port| port.0),
                        "captures of {of} were ended"
                    );
                }
            }
            Ok(json!([{ "stopped": stopped }]))
        }
        file => {
            let keep = match request.filter.trim() {
                "" => None,
                filter => {
                    let program = control.program();
                    let filter = Filter::read(filter, &program)?;
                    Some(filter.keep(&program, control.recorded_ports(port)?)?)
                }
            };
            control.record(port, std::path::Path::new(file), keep)?;
            let of = recorded(port);
            tracing::info!(
                event = "capture",
                port = port.map(|port| port.0),
                "capture {file} of {of} was begun"
            );
            Ok(json!([{ "file": file }]))
        }
    }
}

fn recorded(port: Option<PortNumber>) -> String {
    port.map_or("all ports".to_owned(), |port| format!("port {port}"))
}

/// Logs a change of a port. That it is shut down or brought up is an event of its link.
fn log(port: PortNumber, kind: Kind, spec: &str) {
    let what = match (kind, spec.trim()) {
        (Kind::Add, spec) => format!("({spec}) was added"),
        (Kind::Remove, _) => "was removed".to_owned(),
        (Kind::Faults, "") => "has no faults any more".to_owned(),
        (Kind::Faults, faults) => format!("has faults: {faults}"),
        _ => return,
    };
    tracing::info!(event = "port", port = port.0, "port {port} {what}");
}

/// Sends a packet into the switch, or out of a port.
///
/// # Errors
/// It was not sent.
pub fn send(control: &Control, request: &wire::PacketRequest) -> Result<Value, ControlError> {
    if request.packet.is_empty() {
        return invalid("the packet is empty");
    }
    match (request.out, request.port) {
        (true, Some(port)) => control.send(number(port)?, &request.packet)?,
        (true, None) => return invalid("say which port the packet leaves by"),
        (false, None) => control.packet_out(&request.packet)?,
        (false, Some(port)) => control.inject(number(port)?, &request.packet)?,
    }
    Ok(json!({ "sent": request.packet.len() }))
}

/// Executes a request; returns it with messages for the user.
///
/// # Errors
/// Nothing has changed.
pub fn change(control: &Control, request: &wire::PortRequest) -> Result<Value, ControlError> {
    let port = number(request.port)?;
    let mut notices = Vec::new();
    let kind = Kind::try_from(request.kind).unwrap_or_default();
    match kind {
        Kind::Unspecified => return invalid("the request does not say what to do"),
        Kind::Add => {
            let spec = PortSpec::list(&[format!("{port}={}", request.spec)], |_| None, None);
            let spec = spec.map_err(ControlError::invalid)?.pop();
            let (_, spec) = spec.ok_or_else(|| ControlError::invalid("the request has no port"))?;
            notices = control.add_port(port, &spec)?;
        }
        Kind::Remove => notices = control.remove_port(port)?,
        Kind::Up => control.shut_port(port, false)?,
        Kind::Down => control.shut_port(port, true)?,
        Kind::Faults => control.set_faults(port, faults(&request.spec)?)?,
    }
    log(port, kind, &request.spec);
    let now = control.ports()?.into_iter().find(|state| state.port == port);
    Ok(json!({ "port": port, "now": now, "notices": notices }))
}
