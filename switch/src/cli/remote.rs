//! Commands for a running switch: each sends a request to the device service and prints the response.

mod cells;
mod groups;
mod ports;
mod print;
mod queues;
mod save;
mod stats;
mod swap;
mod table;
mod top;
mod watch;
mod words;

use std::time::Duration;

use serde_json::Value;

use super::args::{Command, PlaceArgs, SwitchArgs, TraceArgs};
use super::{Failure, Status, ended, reader_is_gone};
use crate::management::client::{Calls, Remote};
use crate::p4runtime::proto::wireyard::v1 as wire;
use crate::p4runtime::tls;
use wire::change::Kind;

/// The result of a command.
type Outcome = Result<(), Failure>;

/// Runs a command for a running switch.
pub(super) fn run(command: &Command) -> Status {
    let done = match command {
        Command::Table(args) => table::run(args),
        Command::Counter(args) => cells::run(&cells::COUNTERS, &args.command, &args.on),
        Command::Meter(args) => cells::run(&cells::METERS, &args.command, &args.on),
        Command::Register(args) => cells::run(&cells::REGISTERS, &args.command, &args.on),
        Command::ValueSet(args) => groups::value_set(args),
        Command::Member(args) => groups::member(args),
        Command::Group(args) => groups::group(args),
        Command::Multicast(args) => groups::multicast(args),
        Command::Mirror(args) => groups::mirror(args),
        Command::Port(args) => ports::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Queue(args) => queues::queue(args),
        Command::Capture(args) => queues::capture(args),
        Command::Save(args) => save::save(args),
        Command::Restore(args) => save::restore(args),
        Command::Swap(args) => swap::run(args),
        Command::Digest(args) => watch::digest(args),
        Command::Events(args) => watch::events(args),
        Command::Packet(args) => watch::packet(args),
        Command::Top(args) => top::run(args),
        other => Err(format!("{other:?} is not for a switch that runs").into()),
    };
    ended(done.map(|()| Status::Success))
}

/// Traces packets that pass.
pub(super) fn trace(args: &TraceArgs) -> Status {
    ended(watch::trace(&args.live, args.json).map(|()| Status::Success))
}

/// Connects to the selected switch, for a single request.
fn connect(on: &SwitchArgs) -> Result<Remote, Failure> {
    match on.watch {
        Some(_) => {
            Err("--watch shows something again and again, and this is done once: leave it out"
                .into())
        }
        None => connect_at(&on.place),
    }
}

fn connect_at(place: &PlaceArgs) -> Result<Remote, Failure> {
    let tls = place.tls_ca.as_deref().map(|ca| {
        let identity = place.tls_cert.as_deref().zip(place.tls_key.as_deref());
        tls::ClientFiles { ca, identity }.read()
    });
    // As of a variable of the environment that is not set.
    let switch = place.switch.as_deref().filter(|name| !name.is_empty());
    Ok(Remote::connect(switch, tls.transpose()?)?)
}

/// Shows something once, or repeatedly with `--watch`.
fn show(on: &SwitchArgs, mut once: impl FnMut(&Remote) -> Outcome) -> Outcome {
    let remote = connect_at(&on.place)?;
    let Some(seconds) = on.watch else { return once(&remote) };
    if !(0.05..=86_400.0).contains(&seconds) {
        return Err(format!("--watch={seconds}: give 0.05 to 86400 seconds").into());
    }
    let mut interrupts = remote.interrupts()?;
    loop {
        if !on.json {
            print::clear_screen();
        }
        once(&remote)?;
        if reader_is_gone() || interrupts.within(Duration::from_secs_f64(seconds)) {
            return Ok(());
        }
    }
}

/// Makes one change, and reports what was done.
fn change(on: &SwitchArgs, change: wire::Change) -> Outcome {
    let remote = connect(on)?;
    change_on(&remote, on, change)
}

fn change_on(remote: &Remote, on: &SwitchArgs, change: wire::Change) -> Outcome {
    let request = wire::WriteRequest { changes: vec![change] };
    let done = remote.document(|mut calls| async move { calls.write(request).await })?;
    if on.json {
        print::line(&done);
    }
    Ok(())
}

/// A change in words of entries.yaml.
fn of_entries(kind: Kind, document: &Value) -> wire::Change {
    wire::Change { kind: kind.into(), entries: words::yaml(document), ..Default::default() }
}

/// Reads objects, and prints them as they arrive.
fn dump(on: &SwitchArgs, request: &wire::ReadRequest, nothing: &str) -> Outcome {
    dump_if(on, request, nothing, &|_| true)
}

/// The same, of those objects that `is_it` selects.
fn dump_if(
    on: &SwitchArgs,
    request: &wire::ReadRequest,
    nothing: &str,
    is_it: &dyn Fn(&Value) -> bool,
) -> Outcome {
    show(on, |remote| {
        let mut rows = print::Rows::new(on.json);
        let request = request.clone();
        let call = |mut calls: Calls| async move { calls.read(request).await };
        remote.list(call, &mut |object| {
            if !is_it(&object) {
                return !reader_is_gone();
            }
            rows.add(object)
        })?;
        rows.finish_or(nothing);
        Ok(())
    })
}

/// Prints a part of the switch's description, a list.
fn list(on: &SwitchArgs, part: &'static str) -> Outcome {
    show(on, |remote| {
        let all = describe(remote)?;
        let mut rows = print::Rows::new(on.json);
        let found = all["program"][part].as_array().or(all[part].as_array());
        found.into_iter().flatten().cloned().all(|object| rows.add(object));
        rows.finish_or(&format!("there are no {}", part.replace('_', " ")));
        Ok(())
    })
}

pub(super) fn describe(remote: &Remote) -> Result<Value, Failure> {
    let request = wire::DescribeRequest {};
    Ok(remote.document(|mut calls| async move { calls.describe(request).await })?)
}
