//! Devices in one process, joined by links with a delay, in virtual time.
//!
//! A [`Line`] is a port whose frames arrive at the far end when their last bit has left, plus the
//! delay. [`Fabric`] polls each device when something is due there, in order of time, and at no other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use wireyard_pipeline::packet::PacketMemory;
use wireyard_switch::core::{Core, PortReport};
use wireyard_switch::ports::{
    ChecksumStatus, LinkState, LinkType, Port, PortCaps, PortError, PortStats, RxFrame, TxDone,
    TxFrame,
};
use wireyard_tables::time::{Span, Time};

/// A frame on its way, or one that arrived where nobody reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    /// First bit on the wire.
    pub start: Time,
    /// When it arrives.
    pub at: Time,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

type Queue = Arc<Mutex<VecDeque<Passing>>>;

fn lock(queue: &Queue) -> MutexGuard<'_, VecDeque<Passing>> {
    queue.lock().expect("no test thread died with it")
}

/// One end of a link.
#[derive(Debug)]
pub struct Line {
    inbound: Queue,
    outbound: Queue,
    delay: Span,
    down: Arc<AtomicBool>,
    stats: PortStats,
}

/// The test's end of a link.
#[derive(Clone, Debug)]
pub struct Far {
    to_device: Queue,
    from_device: Queue,
    down: Arc<AtomicBool>,
}

impl Far {
    /// Takes the link of the device's port down, or up again.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    /// Lets a frame arrive at the device at this time.
    pub fn send(&self, at: Time, frame: &[u8]) {
        lock(&self.to_device).push_back(Passing { start: at, at, bytes: frame.to_vec() });
    }

    /// Takes what is on its way to the device off the link.
    pub fn cut(&self) -> Vec<Passing> {
        lock(&self.to_device).drain(..).collect()
    }

    /// Frames that the device sent since the last call.
    pub fn take(&self) -> Vec<Passing> {
        lock(&self.from_device).drain(..).collect()
    }

    /// How many the device sent since the last call, without keeping them.
    pub fn count(&self) -> usize {
        let mut queue = lock(&self.from_device);
        let count = queue.len();
        queue.clear();
        count
    }
}

/// Two ends of a link between devices.
pub fn link(delay: Span) -> (Line, Line) {
    let (one, two) = (Queue::default(), Queue::default());
    let end = |inbound: &Queue, outbound: &Queue| Line {
        inbound: Arc::clone(inbound),
        outbound: Arc::clone(outbound),
        delay,
        down: Arc::default(),
        stats: PortStats::default(),
    };
    (end(&one, &two), end(&two, &one))
}

/// A port whose other end is the test.
pub fn open_line() -> (Line, Far) {
    let (near, far) = link(Span::ZERO);
    let down = Arc::clone(&near.down);
    (near, Far { to_device: far.outbound, from_device: far.inbound, down })
}

impl Port for Line {
    fn name(&self) -> &str {
        "line"
    }

    fn caps(&self) -> PortCaps {
        PortCaps { link: LinkType::Ethernet, mtu_bytes: None }
    }

    fn rx_burst(
        &mut self,
        mem: &mut PacketMemory,
        now: Time,
        out: &mut Vec<RxFrame>,
        max: usize,
    ) -> Result<usize, PortError> {
        let mut queue = lock(&self.inbound);
        let mut count = 0;
        while count < max && queue.front().is_some_and(|frame| frame.at <= now) {
            let Some(frame) = queue.pop_front() else { break };
            let buf = mem.alloc_frame(&frame.bytes).expect("packet memory for every frame");
            let len = frame.bytes.len() as u32;
            out.push(RxFrame {
                buf,
                data_off: mem.config().headroom_bytes as u16,
                len,
                wire_len: len,
                timestamp: frame.at,
                checksum: ChecksumStatus::AsReceived,
            });
            count += 1;
        }
        self.stats.rx_frames += count as u64;
        Ok(count)
    }

    fn tx_burst(
        &mut self,
        mem: &mut PacketMemory,
        _now: Time,
        frames: &mut Vec<TxFrame>,
    ) -> Result<TxDone, PortError> {
        let sent = frames.len();
        let mut queue = lock(&self.outbound);
        for frame in frames.drain(..) {
            let bytes = mem.frame(&frame.buf, frame.data_off, frame.len).to_vec();
            let at = frame.end + self.delay;
            queue.push_back(Passing { start: frame.start, at, bytes });
            mem.free(frame.buf);
        }
        self.stats.tx_frames += sent as u64;
        Ok(TxDone { sent, dropped: 0 })
    }

    fn next_arrival(&mut self) -> Option<Time> {
        lock(&self.inbound).front().map(|frame| frame.at)
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }

    fn link_state(&mut self, _now: Time) -> LinkState {
        if self.down.load(Ordering::Relaxed) { LinkState::Down } else { LinkState::Up }
    }
}

/// Devices that share a time.
pub struct Fabric {
    /// The devices.
    pub cores: Vec<Core>,
    /// Now.
    pub now: Time,
}

impl Fabric {
    /// These devices, at time zero.
    pub fn new(cores: Vec<Core>) -> Fabric {
        Fabric { cores, now: Time::ZERO }
    }

    /// Goes to the next time at which something is due, if that is not after `end`, and does it.
    pub fn step(&mut self, end: Time) -> bool {
        let now = self.now;
        let dues: Vec<Option<Time>> =
            self.cores.iter_mut().map(|core| core.next_event_at(now)).collect();
        let Some(next) = dues.iter().flatten().min().copied().filter(|at| *at <= end) else {
            return false;
        };
        self.now = next;
        for (core, due) in self.cores.iter_mut().zip(dues) {
            if due.is_some_and(|due| due <= next) {
                core.poll(next, None);
            }
        }
        true
    }

    /// Goes on until `end`.
    pub fn run_until(&mut self, end: Time) {
        while self.step(end) {}
        self.now = end;
    }

    /// Everything adds up, in every device.
    #[track_caller]
    pub fn check(&mut self) {
        for core in &mut self.cores {
            core.view(core.time()).audit().expect("the traffic manager adds up");
            assert!(core.report().balanced, "{:?}", core.report());
            for port in PortReport::all(core) {
                assert!(port.ledger.balanced, "{port:?}");
            }
        }
    }
}
