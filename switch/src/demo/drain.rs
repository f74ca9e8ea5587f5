//! First phase, the open loop: the marking law alone, without a control loop around it.
//!
//! The port to the receiver is stopped, the senders put a known number of equal packets into its queue, the port is
//! resumed, and the receiver records CE by position. The n-th packet from the end leaves (n - 1) packets behind: its
//! depth is known without the switch's counters. This is the test that SONiC has for real switches. The senders here
//! are bare cables: no rate control, and they do not obey pauses, so each filling stays below the buffer's XOFF.

use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_tables::time::Time;

use super::cables::{self, HOSTS, RECEIVER, host_ip, host_mac, switch_port};
use super::judge::Tally;
use super::setting::{self, DATA_CLASS, FRAME_BYTES, LAW, PAYLOAD_BYTES, SENDERS};
use super::{DemoError, Options, Progress, devices};
use crate::core::Core;
use crate::frames::Frames;
use crate::frames::envelope::{Address, Class};
use crate::frames::neighbour::{FRAME_BYTES_MAX, Message};
use crate::lab::scenario::Scenario;
use crate::live::clock::{DeviceClock, Stalls};
use crate::ports::{LinkType, Port, RxFrame, TxFrame};
use crate::roce::packet::{Bth, Headers};
use crate::roce::psn::Psn;
use crate::stats::LedgerReport;
use crate::tm::PortStatus;

/// Marks that each bucket of the ramp should have.
pub(super) const MARKS_WANTED: u64 = 500;
/// RC RDMA WRITE Middle: a data packet without an extended header.
const WRITE_MIDDLE: u8 = 0x07;
/// Packets beyond the target bucket, so that its deepest depths occur too.
const BEYOND: usize = 4;
/// Packets above Kmax in the first filling.
const ABOVE_KMAX: usize = 50;
/// Frames that a sender puts on its cable in one step.
const BURST: usize = 16;
/// Steps after which a filling or a draining is aborted.
const STEPS_MAX: u32 = 20_000;
/// Bytes and number of chunks of a cable's end.
const MEMORY: MemoryConfig = MemoryConfig { chunks: 512, chunk_bytes: 2048, headroom_bytes: 256 };

/// The results of the open loop.
#[derive(Clone, Debug)]
pub struct Drained {
    /// Marks by depth, as received.
    pub tally: Tally,
    /// Fillings that count.
    pub fillings: u64,
    /// Fillings that were discarded: packets left too early, or some were missing.
    pub broken: u64,
    /// Data frames that the senders put on their cables.
    pub sent: u64,
    /// Data frames that the receiver took off its cable, with a correct ICRC.
    pub received: u64,
    /// Of these, with CE.
    pub ce: u64,
    /// Counters of the receiver's port of the switch.
    pub port: PortStatus,
    /// The account of every packet of the switch.
    pub ledger: LedgerReport,
    /// It ended because it was complete, not because the time was over.
    pub complete: bool,
    /// Time lost by the clock, and the wall-clock time that passed.
    pub stalls: Stalls,
}

/// The end of a cable without a host.
struct Bare {
    port: Box<dyn Port>,
    memory: PacketMemory,
    frames: Vec<TxFrame>,
    received: Vec<RxFrame>,
}

impl Bare {
    fn open(host: usize) -> Result<Bare, DemoError> {
        let mut memory = PacketMemory::of_device(MEMORY)?;
        let port = cables::open_host(host, &mut memory)?.port;
        Ok(Bare { port, memory, frames: Vec::new(), received: Vec::new() })
    }

    /// Sends copies of a frame; returns the number sent.
    fn send(&mut self, now: Time, frame: &[u8], count: usize) -> Result<usize, DemoError> {
        let offset = self.memory.config().headroom_bytes as u16;
        for _ in 0..count {
            let Some(buf) = self.memory.alloc_frame(frame) else { break };
            self.frames.push(TxFrame::at_once(buf, offset, frame.len() as u32, now));
        }
        let done = self.port.tx_burst(&mut self.memory, now, &mut self.frames);
        self.frames.drain(..).for_each(|frame| self.memory.free(frame.buf));
        Ok(done?.sent)
    }

    /// Passes every pending frame to `each`.
    fn receive(&mut self, now: Time, mut each: impl FnMut(&[u8])) -> Result<(), DemoError> {
        let (received, memory) = (&mut self.received, &mut self.memory);
        let result = self.port.rx_burst(memory, now, received, 64);
        for frame in received.drain(..) {
            each(memory.frame(&frame.buf, frame.data_off, frame.len));
            memory.free(frame.buf);
        }
        result?;
        Ok(())
    }
}

/// The open loop.
struct Rig {
    switch: Core,
    ends: Vec<Bare>,
    /// The data frame of each sender.
    data: Vec<Vec<u8>>,
    frames: std::sync::Arc<Frames>,
    clock: DeviceClock,
    result: Drained,
}

/// Drains filled queues until every bucket has its marks, or until `until` in wall-clock time.
///
/// # Errors
/// A port that cannot be opened or disappears.
pub(super) fn run(
    scenario: &Scenario,
    options: &Options,
    until: std::time::Duration,
    progress: &mut dyn Progress,
) -> Result<Drained, DemoError> {
    let mut rig = Rig::new(scenario, options)?;
    rig.introduce()?;
    let all = FRAME_BYTES as f64;
    let mut first = true;
    while !progress.is_stopped() && rig.clock.real() < until {
        let tally = &rig.result.tally;
        let Some(wanted) = tally.wanting(MARKS_WANTED) else {
            rig.result.complete = true;
            break;
        };
        let deepest = if first { LAW.kmax } else { wanted.up_to };
        let beyond = if first { ABOVE_KMAX } else { BEYOND };
        first = false;
        let packets = (deepest / all) as usize + beyond;
        rig.fill_and_drain(packets)?;
        progress.drained(&rig.result, rig.clock.real().as_secs_f64() / until.as_secs_f64());
    }
    rig.finish()
}

impl Rig {
    fn new(scenario: &Scenario, options: &Options) -> Result<Rig, DemoError> {
        let mut switch = devices::switch(scenario, options.engine, options.seed)?;
        let frames = Frames::shared()?;
        let data = (0..SENDERS).map(|host| data_frame(host, &frames)).collect::<Result<_, _>>()?;
        let ends = (0..HOSTS).map(Bare::open).collect::<Result<_, _>>()?;
        let port = switch.port_status(switch_port(RECEIVER));
        let port = port.ok_or(DemoError::Missing("the switch has no port"))?;
        let result = Drained {
            tally: Tally::new(&options.law),
            fillings: 0,
            broken: 0,
            sent: 0,
            received: 0,
            ce: 0,
            port,
            ledger: switch.report(),
            complete: false,
            stalls: Stalls::default(),
        };
        let clock = DeviceClock::start(1);
        Ok(Rig { switch, ends, data, frames, clock, result })
    }

    /// Lets the switch learn all addresses: each end sends a request for one.
    fn introduce(&mut self) -> Result<(), DemoError> {
        for host in 0..HOSTS {
            let (asks, whom) = (host_ip(host), host_ip((host + 1) % HOSTS));
            let message = Message::ask(host_mac(host), asks, whom, None);
            let mut frame = [0; FRAME_BYTES_MAX];
            let built = self.frames.neighbour.build(&message, &mut frame);
            let frame = frame.get(..built.unwrap_or(0)).unwrap_or_default().to_vec();
            let now = self.clock.now();
            self.ends[host].send(now, &frame, 1)?;
            // The switch floods the requests: the ends take the frames off the cables.
            for _ in 0..20 {
                self.step()?;
            }
        }
        Ok(())
    }

    /// One step of the clock; returns the marks of data frames that reached the receiver.
    fn step(&mut self) -> Result<Vec<bool>, DemoError> {
        let now = self.clock.step(setting::STEP);
        self.switch.poll(now, None);
        let mut marks = Vec::new();
        let transport = &self.frames.transport;
        for (host, end) in self.ends.iter_mut().enumerate() {
            end.receive(now, |frame| {
                if host == RECEIVER
                    && let Ok(received) = transport.parse(LinkType::Ethernet, frame)
                {
                    marks.push(received.mark.is_some());
                }
            })?;
        }
        self.result.received += marks.len() as u64;
        self.result.ce += marks.iter().filter(|is_marked| **is_marked).count() as u64;
        Ok(marks)
    }

    fn queued_packets(&mut self) -> usize {
        let status = self.switch.port_status(switch_port(RECEIVER));
        status.map_or(0, |status| status.queues[usize::from(DATA_CLASS)].packets as usize)
    }

    fn fill_and_drain(&mut self, packets: usize) -> Result<(), DemoError> {
        let to = switch_port(RECEIVER);
        self.switch.block(self.clock.now(), to, true);
        let mut early = 0;
        let mut sent = 0;
        let mut steps = 0;
        while self.queued_packets() < packets && steps < STEPS_MAX {
            let now = self.clock.now();
            for (end, frame) in self.ends.iter_mut().zip(&self.data) {
                let count = BURST.min(packets - sent);
                sent += end.send(now, frame, count)?;
            }
            early += self.step()?.len();
            steps += 1;
        }
        self.result.sent += sent as u64;
        let filled = self.queued_packets();
        self.switch.block(self.clock.now(), to, false);
        let mut marks = Vec::with_capacity(packets);
        let mut steps = 0;
        while marks.len() < sent - early && steps < STEPS_MAX {
            marks.extend(self.step()?);
            steps += 1;
        }
        if early > 0 || filled != packets || marks.len() != packets {
            self.result.broken += 1;
            return Ok(());
        }
        self.result.fillings += 1;
        for (position, is_marked) in marks.into_iter().enumerate() {
            let behind = (packets - 1 - position) as f64;
            self.result.tally.count(behind * f64::from(FRAME_BYTES), is_marked);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Drained, DemoError> {
        for _ in 0..20 {
            self.step()?;
        }
        if let Some(port) = self.switch.port_status(switch_port(RECEIVER)) {
            self.result.port = port;
        }
        self.result.ledger = self.switch.report();
        self.result.stalls = self.clock.stalls();
        self.switch.close();
        for end in &mut self.ends {
            end.port.close(&mut end.memory);
        }
        Ok(self.result)
    }
}

/// A data packet of a sender to the receiver, capable of ECN.
fn data_frame(host: usize, frames: &Frames) -> Result<Vec<u8>, DemoError> {
    let address =
        Address::rocev2(host_mac(host), host_mac(RECEIVER), host_ip(host), host_ip(RECEIVER))?;
    let envelope = frames.transport.envelope(&address, &Class::DATA)?;
    let bth = Bth {
        opcode: WRITE_MIDDLE,
        solicited: false,
        pad: 0,
        pkey: 0xffff,
        fecn: false,
        becn: false,
        dest_qp: 0x11,
        ack_req: false,
        psn: Psn::new(0),
    };
    let mut frame = vec![0; FRAME_BYTES as usize];
    let built = frames.transport.build_with(
        &envelope,
        &Headers::new(bth),
        PAYLOAD_BYTES as usize,
        &mut frame,
        |payload| {
            payload.fill(host as u8);
            Ok(())
        },
    );
    match built? {
        bytes if bytes == FRAME_BYTES as usize => Ok(frame),
        bytes => Err(DemoError::FrameLength(bytes)),
    }
}
