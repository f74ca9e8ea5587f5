//! `trace`: the trace of one packet.

use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::packet::MemoryConfig;
use wireyard_pipeline::trace::{Recorder, json, text};
use wireyard_tables::time::{Span, Time};

use super::args::{MacControl, TraceArgs};
use super::decode::open;
use super::load::{device, load_from, place};
use super::output::hex_rows;
use super::{Failure, Status, complain, ended, print, print_json, remote, say};
use crate::decode::Frame;
use crate::pcap::{PcapReader, Timestamp};
use crate::ports::{LinkType, PortNumber};
use crate::program::{DeviceOptions, Loaded, Place};
use crate::replay::{AGE_EVERY, SPAN_NOTE};
use crate::sandbox::Sandbox;

/// Ports that exist when the configuration names none.
const PORTS: u16 = 8;
/// Longest wait for a packet that its program delays or holds.
const LONGEST: Span = Span::from_ms(60_000);

/// A frame to trace, and the frames before it, with the device's time of each.
struct Frames {
    link: LinkType,
    frames: Vec<(Time, Vec<u8>)>,
}

pub(super) fn run(args: &TraceArgs) -> Status {
    if args.live.live {
        return remote::trace(args);
    }
    let live = &args.live;
    if live.filter.is_some()
        || live.count.is_some()
        || live.seconds.is_some()
        || live.rate.is_some()
    {
        complain(
            "--filter, --count, --seconds and --rate choose packets of a switch that runs: add --live, and name no program",
        );
        return Status::Wrong;
    }
    ended(start(args))
}

fn start(args: &TraceArgs) -> Result<Status, Failure> {
    let frames = frames(args)?;
    let place = Place { config: args.config.clone(), ..place(&args.program) };
    let Some(loaded) = load_from(&place) else { return Ok(Status::Wrong) };
    show(args, &loaded, &frames)?;
    Ok(Status::Success)
}

fn frames(args: &TraceArgs) -> Result<Frames, String> {
    let Some(path) = &args.pcap else {
        let link = LinkType::ALL.into_iter().find(|link| link.name() == args.link);
        let link = link.ok_or_else(|| {
            format!("--link {}: there are ethernet, infiniband, opa and erf", args.link)
        })?;
        let digits: String = args.hex.iter().flat_map(|h| h.chars()).collect();
        return Ok(Frames { link, frames: vec![(Time::ZERO, bytes(&digits)?)] });
    };
    let name = shown(path);
    if args.frame == 0 {
        return Err("--frame 0: frames are counted from 1".into());
    }
    let (file, _) = open(path).map_err(|error| format!("{name}: {error}"))?;
    let failed = |error| format!("{name}: {error}");
    let mut reader = PcapReader::new(file).map_err(failed)?;
    let mut all: Vec<(LinkType, Timestamp, Vec<u8>)> = Vec::new();
    for number in 1..=args.frame {
        let Some(record) = reader.next_record().map_err(failed)? else {
            let have = number - 1;
            return Err(format!("{name} has {have} frames, not {}", args.frame));
        };
        match Frame::of(&record) {
            Ok(frame) => all.push((frame.link, record.time, frame.bytes.to_vec())),
            Err(why) if number == args.frame => return Err(format!("{name}: {why}")),
            Err(_) => {}
        }
    }
    // A port has one link type: that of the requested frame.
    let link = all.last().map_or(LinkType::Ethernet, |(link, ..)| *link);
    all.retain(|(of, ..)| *of == link);
    let origin = all.first().map(|(_, time, _)| *time).unwrap_or_default();
    let frames = all.into_iter().map(|(_, time, bytes)| (time.since(origin), bytes)).collect();
    Ok(Frames { link, frames })
}

pub(super) fn bytes(digits: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> =
        digits.chars().filter(|c| !c.is_whitespace() && !":-".contains(*c)).collect();
    if digits.is_empty() {
        return Err("--hex: there is no byte of a frame".into());
    }
    let digit =
        |c: &char| c.to_digit(16).ok_or_else(|| format!("--hex: `{c}` is not a hexadecimal digit"));
    let digits = digits.iter().map(digit).collect::<Result<Vec<u32>, String>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err(format!("--hex: {} hexadecimal digits are not whole bytes", digits.len()));
    }
    Ok(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

fn show(args: &TraceArgs, loaded: &Loaded, frames: &Frames) -> Result<(), Failure> {
    let longest = frames.frames.iter().map(|(_, frame)| frame.len()).max().unwrap_or(0) as u32;
    let memory = MemoryConfig::for_frames(256, longest.max(9216), 256);
    // Without passes the trace has every statement of the program.
    let options = DeviceOptions { memory, opt_level: 0, ..DeviceOptions::default() };
    let core = device(loaded, Some(&args.engine), MacControl::Port, options)?;
    let configured = loaded.config.iter().flat_map(|config| config.ports.keys().copied());
    let mut numbers: Vec<PortNumber> = configured.collect();
    if numbers.is_empty() {
        numbers = (1..=PORTS).map(PortNumber).collect();
    }
    if !numbers.contains(&args.port) {
        numbers.push(args.port);
    }
    let link = |number: PortNumber| {
        let port = loaded.config.as_ref().and_then(|config| config.ports.get(&number));
        let configured = port.and_then(|port| port.link).unwrap_or(LinkType::Ethernet);
        if number == args.port { frames.link } else { configured }
    };
    let ports: Vec<_> = numbers.into_iter().map(|number| (number, link(number))).collect();
    let numbers: Vec<PortNumber> = ports.iter().map(|(number, _)| *number).collect();
    let mut core = core;
    loaded.set_queues(&mut core, &numbers)?;
    // The trace is only of the given frames.
    core.generators().end(false);
    let mut sandbox = Sandbox::new(core, &ports)?;
    let Some(((time, last), before)) = frames.frames.split_last() else {
        return Err("no frame to trace".into());
    };
    let mut clock = Clock::default();
    for (time, frame) in before {
        clock.advance(&mut sandbox, *time);
        sandbox.send(args.port, frame, clock.now, None);
        sandbox.received();
    }
    clock.advance(&mut sandbox, *time);
    if clock.now == Timestamp::SPAN_MAX {
        say(SPAN_NOTE);
    }
    let mut recorder = Recorder::default();
    sandbox.send(args.port, last, clock.now, Some(&mut recorder));
    sandbox.run_to_the_end(clock.now + LONGEST, Some(&mut recorder));
    if args.json {
        print_json(&json::packet_trace(&loaded.program, &recorder.events));
        return Ok(());
    }
    print(&text::packet_trace(&loaded.program, &recorder.events));
    for (port, frame) in sandbox.received() {
        print(&format!("out of port {port}: {} bytes\n{}", frame.len(), hex_rows(&frame)));
    }
    let report = sandbox.core.report();
    for (reason, count) in report.dropped.iter().filter(|_| frames.frames.len() == 1) {
        print(&format!("dropped: {reason} ({count})\n"));
    }
    Ok(())
}

/// The time of a device, as in a replay of the same capture: what is due between two frames is done, and idle entries
/// are found.
#[derive(Default)]
struct Clock {
    now: Time,
    age_at: Time,
}

impl Clock {
    fn advance(&mut self, sandbox: &mut Sandbox, to: Time) {
        // Timestamps of a capture may decrease; the device's time does not.
        self.now = self.now.max(to);
        sandbox.run_until(self.now, None);
        sandbox.received();
        if self.now >= self.age_at {
            sandbox.core.age(self.now);
            self.age_at = self.now + AGE_EVERY;
        }
    }
}
