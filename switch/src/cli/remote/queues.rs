//! `queue` and `capture`: settings of ports at run time.

use std::path::Path;

use serde_json::Value;

use super::{Outcome, connect, print, show};
use crate::cli::args::{CaptureArgs, CaptureCommand, QueueArgs, QueueCommand, SwitchArgs};
use crate::management::client::{Calls, Remote};
use crate::p4runtime::proto::wireyard::v1 as wire;

pub(super) fn queue(args: &QueueArgs) -> Outcome {
    match &args.command {
        QueueCommand::List { port, queue } => show(&args.on, |remote| {
            let (port, queue) = (*port, *queue);
            ask(remote, &args.on, wire::QueueRequest { port, queue, settings: Vec::new() })
        }),
        QueueCommand::Set { port, queue, settings } => {
            let wrong = |_| format!("`{queue}`: write a queue, 0 to 7, or `port`");
            let queue = match queue.as_str() {
                "port" => None,
                number => Some(number.parse().map_err(wrong)?),
            };
            let remote = connect(&args.on)?;
            let settings = settings.clone();
            ask(&remote, &args.on, wire::QueueRequest { port: Some(*port), queue, settings })
        }
    }
}

fn ask(remote: &Remote, on: &SwitchArgs, request: wire::QueueRequest) -> Outcome {
    let call = |mut calls: Calls| async move { calls.change_queue(request).await };
    rows(
        on,
        &remote.document(call)?,
        "there are no queues: the switch has no `qos:` (switch.yaml)",
    );
    Ok(())
}

fn rows(on: &SwitchArgs, list: &Value, nothing: &str) {
    let mut rows = print::Rows::new(on.json);
    list.as_array().into_iter().flatten().cloned().all(|object| rows.add(object));
    rows.finish_or(nothing);
}

pub(super) fn capture(args: &CaptureArgs) -> Outcome {
    let port = |text: &str| match text {
        "all" => Ok(None),
        number => number
            .parse::<u32>()
            .map(Some)
            .map_err(|_| format!("`{number}`: write the number of a port, or `all`")),
    };
    let request = match &args.command {
        CaptureCommand::List => None,
        CaptureCommand::Start { file, .. } if file == Path::new("-") => {
            return Err("the switch writes the capture, so it has no standard output of this command: name a file".into());
        }
        CaptureCommand::Start { filter: Some(filter), .. } if filter.trim().is_empty() => {
            return Err("--filter is an empty word: leave it out to record everything".into());
        }
        CaptureCommand::Start { port: of, file, filter } => {
            // The switch writes it, and its working directory may differ.
            let file = std::path::absolute(file)?;
            let file = file.to_str().ok_or("the name of the file is no UTF-8")?.to_owned();
            Some(wire::CaptureRequest {
                port: port(of)?,
                file,
                filter: filter.clone().unwrap_or_default(),
            })
        }
        CaptureCommand::Stop { port: of } => {
            Some(wire::CaptureRequest { port: port(of)?, ..Default::default() })
        }
    };
    let on = &args.on;
    let Some(request) = request else {
        return show(on, |remote| {
            let request = wire::StatisticsRequest::default();
            let call = |mut calls: Calls| async move { calls.statistics(request).await };
            rows(on, &remote.document(call)?["captures"], "nothing is captured");
            Ok(())
        });
    };
    let remote = connect(on)?;
    let done = remote.document(|mut calls: Calls| async move { calls.capture(request).await })?;
    rows(on, &done, "nothing is captured");
    Ok(())
}
