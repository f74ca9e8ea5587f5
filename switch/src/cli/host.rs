//! `host`: a RoCE end point on an interface, driven by JSON lines.

use std::io::BufRead;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use wireyard_tables::time::Time;

use super::args::HostArgs;
use super::{Failure, Status, ended, print, say};
use crate::core::Core;
use crate::frames::envelope::{Encap, mapped};
use crate::frames::{Frames, Mac};
use crate::host::session::Session;
use crate::host::{END_POINT_PORT, EndPointPort, HostConfig, WIRE_PORT, end_point, nic_program};
use crate::live::{self, Event, Workers};
use crate::ports::PortSpec;
use crate::program::DeviceOptions;
use crate::roce::qp::QpConfig;
use crate::roce::rp::RateAlgorithm;

/// Unacknowledged packets of a queue pair, as Linux rxe has.
const OUTSTANDING_PACKETS: u32 = 128;

pub(super) fn run(args: &HostArgs) -> Status {
    ended(start(args))
}

fn start(args: &HostArgs) -> Result<Status, Failure> {
    let rate = args.rate;
    let algorithm = RateAlgorithm::by_name(&args.rate_control, rate.get() as f64)?;
    let address = match args.ip {
        IpAddr::V4(four) => mapped(four),
        IpAddr::V6(six) => six.to_bits(),
    };
    let is_of_host = match args.ip {
        IpAddr::V4(four) => !four.is_unspecified() && !four.is_multicast() && !four.is_broadcast(),
        IpAddr::V6(six) => !six.is_unspecified() && !six.is_multicast(),
    };
    if !is_of_host {
        return Err(format!("--ip {}: not the address of a host", args.ip).into());
    }
    let mac = args.mac.unwrap_or_else(|| mac_of(address));
    if mac.0[0] & 1 == 1 || mac.0 == [0; 6] {
        return Err(format!("--mac {mac}: not the address of an interface").into());
    }
    let config = HostConfig { rate: Some(rate), ..HostConfig::ethernet("host", mac, address) };
    let mut core = nic_program()?.device(DeviceOptions::live())?;
    let spec = PortSpec::parse(&args.port)?;
    for notice in live::attach(&mut core, WIRE_PORT, &spec)? {
        say(&notice);
    }
    let frames = Frames::shared()?;
    core.add_port(END_POINT_PORT, Box::new(EndPointPort::new(config, frames)))?;
    let overhead = match args.ip {
        IpAddr::V4(_) => Encap::RoceV2Ipv4.overhead_bytes(false),
        IpAddr::V6(_) => Encap::RoceV2Ipv6.overhead_bytes(false),
    };
    let session = Session::new(QpConfig {
        max_outstanding_packets: OUTSTANDING_PACKETS,
        frame_overhead_bytes: overhead + 4,
        ..QpConfig::new(algorithm)
    });
    say(&format!("host {} ({mac}) runs on {}; commands on standard input", args.ip, args.port));
    serve(&mut core, session)
}

/// A locally administered address made of the end of an IP address.
fn mac_of(address: u128) -> Mac {
    Mac::from(0x0277_0000_0000 | u64::from(address as u32))
}

fn serve(core: &mut Core, mut session: Session) -> Result<Status, Failure> {
    let lines = read_lines();
    let mut open = true;
    let mut alone = Workers::one().map_err(|error| format!("a worker: {error}"))?;
    let result = live::run(core, &mut alone, None, &mut |event, _| match event {
        Event::Message(message) => say(&message),
        Event::Counters(_) | Event::Reload { .. } => {}
        Event::Polled { core, now, stop } => {
            let Some(end) = end_point(core, END_POINT_PORT) else { return };
            after_poll(end, now, &mut session, &lines, &mut open);
            *stop = session.is_ended() || !open && session.is_ready();
        }
    });
    result?;
    Ok(Status::Success)
}

/// Executes the pending commands and prints their results.
fn after_poll(
    end: &mut EndPointPort,
    now: Time,
    session: &mut Session,
    lines: &Receiver<String>,
    open: &mut bool,
) {
    if let Some(answer) = session.poll(end, now) {
        print(&format!("{answer}\n"));
    }
    while session.is_ready() {
        match lines.try_recv() {
            Ok(line) => {
                if let Some(answer) = session.command(end, now, &line) {
                    print(&format!("{answer}\n"));
                }
            }
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => {
                *open = false;
                return;
            }
        }
    }
}

fn read_lines() -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if !line.trim().is_empty() && send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}
