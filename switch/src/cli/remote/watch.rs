//! `digest`, `events` and `packet`: notices of a running switch, and packets to it.

use std::time::Duration;

use serde_json::Value;

use super::{Outcome, connect, connect_at, print, reader_is_gone};
use crate::cli::args::{
    DigestArgs, EventsArgs, LiveTraceArgs, PacketArgs, PacketCommand, SwitchArgs, UntilArgs,
};
use crate::management::client::Calls;
use crate::p4runtime::proto::wireyard::v1 as wire;
use crate::terminal;

/// Prints notices until there are enough, or the time is over.
fn watch(
    on: &SwitchArgs,
    until: &UntilArgs,
    request: wire::WatchRequest,
    wanted: impl Fn(&Value) -> bool,
) -> Outcome {
    let most = match until.seconds {
        Some(seconds) if (0.0..=1e9).contains(&seconds) => Some(Duration::from_secs_f64(seconds)),
        Some(seconds) => return Err(format!("--seconds {seconds}: give 0 to 1000000000").into()),
        None => None,
    };
    let mut left = match until.count {
        Some(0) => return Err("--count 0: give 1 or more, or leave it out for no end".into()),
        count => count.unwrap_or(u64::MAX),
    };
    let remote = connect(on)?;
    let call = |mut calls: Calls| async move { calls.watch(request).await };
    Ok(remote.list_for(most, call, &mut |notice| {
        if !wanted(&notice) && notice.get("lost").is_none() {
            return left > 0;
        }
        match on.json {
            true => print::line(&notice),
            false => super::super::print(&(people(&notice) + "\n")),
        }
        left = left.saturating_sub(1);
        left > 0 && !reader_is_gone()
    })?)
}

/// A notice in one line.
fn people(notice: &Value) -> String {
    let seconds = notice["time_ns"].as_u64().unwrap_or(0) as f64 / 1e9;
    let members = notice.as_object().into_iter().flatten();
    let members = members.filter(|(name, _)| !["time_ns", "worker"].contains(&name.as_str()));
    let words = members.map(|(name, value)| format!("{name} {}", print::cell(value)));
    format!("{seconds:12.6}  {}", words.collect::<Vec<_>>().join("  "))
}

pub(super) fn digest(args: &DigestArgs) -> Outcome {
    let request = wire::WatchRequest { digests: true, ..Default::default() };
    let name = args.name.as_deref();
    if let Some(name) = name {
        check_digest(&args.on, name)?;
    }
    watch(&args.on, &args.until, request, |notice| name.is_none_or(|name| notice["digest"] == name))
}

/// Refuses a digest that the program does not have: it would never arrive.
fn check_digest(on: &SwitchArgs, name: &str) -> Outcome {
    let remote = connect(on)?;
    let all = super::describe(&remote)?;
    let digests = all["program"]["digests"].as_array().into_iter().flatten();
    let known: Vec<&str> = digests.filter_map(|one| one["name"].as_str()).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let near = wireyard_pipeline::diag::suggest(name, known.iter().copied());
    let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    Err(format!("the program has no digest {name}{near}").into())
}

pub(super) fn events(args: &EventsArgs) -> Outcome {
    let request = wire::WatchRequest { events: true, idle: true, ..Default::default() };
    watch(&args.on, &args.until, request, |_| true)
}

pub(super) fn packet(args: &PacketArgs) -> Outcome {
    match &args.command {
        PacketCommand::Listen { until } => {
            let request = wire::WatchRequest { packets: true, ..Default::default() };
            watch(&args.on, until, request, |_| true)
        }
        PacketCommand::Send { hex, port, out } => {
            let request = wire::PacketRequest {
                packet: crate::cli::trace::bytes(hex).map_err(|why| why.replace("--hex: ", ""))?,
                port: out.or(*port),
                out: out.is_some(),
            };
            let remote = connect(&args.on)?;
            let call = |mut calls: Calls| async move { calls.send_packet(request).await };
            let done = remote.document(call)?;
            if args.on.json {
                print::line(&done);
            }
            Ok(())
        }
    }
}

pub(super) fn trace(args: &LiveTraceArgs, as_json: bool) -> Outcome {
    let (count, rate) = (args.count.unwrap_or(1), args.rate.unwrap_or(1000));
    let seconds = args.seconds.unwrap_or(60.0);
    if !(0.001..=3600.0).contains(&seconds) || rate == 0 {
        return Err(format!(
            "--seconds {seconds} --rate {rate}: give 0.001 to 3600, and 1 to 20000"
        )
        .into());
    }
    let request = wire::TraceRequest {
        filter: args.filter.clone().unwrap_or_default(),
        count,
        milliseconds: (seconds * 1e3) as u32,
        rate,
    };
    let remote = connect_at(&args.place)?;
    let is_filtered = !request.filter.is_empty();
    let waits = awaited(count, is_filtered, seconds);
    let came = if is_filtered { "met the filter" } else { "came" };
    let call = |mut calls: Calls| async move {
        let passes = calls.trace(request).await?;
        // The switch has taken the filter.
        if !as_json {
            note(&waits);
        }
        Ok(passes)
    };
    let (mut packets, mut is_over) = (0, false);
    let done = remote.list(call, &mut |mut pass| {
        if let (Some(skipped), Some(lost)) = (pass["skipped"].as_u64(), pass["lost"].as_u64()) {
            is_over = true;
            if packets < u64::from(count) {
                note(&format!("{packets} of {count} packets {came} in {seconds} s"));
            }
            say_missing(rate, skipped, lost);
            return true;
        }
        packets = packets.max(pass["packet"].as_u64().unwrap_or(0));
        let text = pass.as_object_mut().and_then(|pass| pass.remove("text")).unwrap_or_default();
        match as_json {
            true => print::line(&pass),
            false => {
                let (packet, name) = (&pass["packet"], print::cell(&pass["pass"]));
                super::super::print(&format!("packet {packet}, {name}\n{}\n", print::cell(&text)));
            }
        }
        !reader_is_gone()
    });
    // Ctrl-C, before the end notice of the switch.
    if done.is_ok() && !is_over && !reader_is_gone() && packets < u64::from(count) {
        note(&format!("{packets} of {count} packets {came} until it was interrupted"));
    }
    Ok(done?)
}

/// The awaited packets of a trace, in words.
fn awaited(count: u32, is_filtered: bool, seconds: f64) -> String {
    let wanted = match (count, is_filtered) {
        (1, false) => "the next packet".to_owned(),
        (1, true) => "a packet that meets the filter".to_owned(),
        (_, false) => format!("{count} packets"),
        (_, true) => format!("{count} packets that meet the filter"),
    };
    format!("waits for {wanted}, {seconds} s at most; Ctrl-C ends it")
}

/// Reports the packets that are missing in a trace.
fn say_missing(rate: u32, skipped: u64, lost: u64) {
    if skipped > 0 {
        note(&format!(
            "{skipped} packets that might have met it were not looked at: more than --rate {rate} came in a second, or several workers met \
             some at once; compare more fields by ==, or raise the rate"
        ));
    }
    if lost > 0 {
        note(&format!(
            "{lost} passes were lost: this reader was too slow, or several workers met some at once"
        ));
    }
}

fn note(text: &str) {
    terminal::err(&format!("note: {text}\n"));
}
