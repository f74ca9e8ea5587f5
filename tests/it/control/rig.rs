//! A device of two workers in threads, and traffic through it that counts what is lost and what is mixed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_switch::control::{Control, Entity, Query};
use wireyard_switch::core::Core;
use wireyard_switch::ports::absent::AbsentPort;
use wireyard_switch::ports::memory::{self, MemoryPort};
use wireyard_switch::ports::{LinkType, Port, PortNumber};
use wireyard_switch::program::{DeviceOptions, EngineKind, Loaded, from_text};
use wireyard_tables::time::{Span, Time};

const PORTS: u16 = 4;
const WORKERS: usize = 2;
/// Frames on their way in each direction at most.
const WINDOW: u64 = 256;

/// What ingress does with a frame, by its type.
pub(super) const TRAFFIC: u16 = 0x88b5;
pub(super) const OUTSIDE: u16 = 0x88b6;
pub(super) const REPORT: u16 = 0x0101;
pub(super) const PUNT: u16 = 0x0102;
pub(super) const FLOOD: u16 = 0x0103;
pub(super) const MIRROR: u16 = 0x0104;

/// A program that marks what passes; `more` is in its ingress.
pub(super) fn program(mark: u8, more: &str) -> String {
    format!(
        "
pipeline: marks_{mark}
include: [ethernet]
headers: {{ tag_t: {{ fields: {{ seq: 64, by_ingress: 8, by_egress: 8 }} }} }}
instances: {{ tag: tag_t }}
registers: {{ seen: {{ struct: {{ frames: 32, twice: 32 }}, size: 8 }} }}
counters: {{ packets: {{ size: 8 }} }}
value_sets: {{ refused: {{ bits: 16, size: 4 }} }}
digests: {{ report: {{ port: std.ingress_port }} }}
parser:
  start: {{ extract: ethernet, select: ethernet.ether_type, cases: [ {{ match: ['@refused'], next: refused }} ], default: tag }}
  refused: {{ select: ethernet.ether_type, cases: [ {{ match: [0], next: tag }} ] }}
  tag: {{ extract: tag }}
on_parser_error: drop
tables:
  ways: {{ key: {{ std.ingress_port: exact }}, actions: [out, nop], default: nop, size: 64, counters: true, idle_timeout_ms: 60000 }}
actions:
  out: {{ params: {{ to: port }}, do: [ std.egress_port = to ] }}
ingress:
  - tag.by_ingress = {mark}
  - count(packets, std.ingress_port)
  - {{ update: 'seen[0]', as: n, do: [ n.frames = n.frames + 1, n.twice = n.twice + 2 ] }}
  - {{ switch: ethernet.ether_type, cases: {{ 0x0101: [ digest(report), drop reported ], 0x0102: [ punt asked ], 0x0103: [ std.multicast_group = 1, exit ], 0x0104: [ clone(5), drop mirrored ] }} }}
{more}
  - apply: ways
egress:
  - tag.by_egress = {mark}
deparser: {{ emit: [ethernet, tag] }}
"
    )
}

pub(super) fn loaded(text: &str) -> Loaded {
    from_text("marks.yaml", text).unwrap_or_else(|rejected| panic!("{rejected}"))
}

/// A frame of a type with a number, as it is sent.
pub(super) fn frame(ether_type: u16, seq: u64) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(ether_type.to_be_bytes());
    frame.extend(seq.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// What one direction counts.
#[derive(Default)]
pub(super) struct Traffic {
    received: AtomicU64,
    /// Frames that nobody waits for.
    forgiven: AtomicBool,
    /// By mark, how many frames had it.
    marks: Mutex<BTreeMap<u8, u64>>,
    wrong: Mutex<Vec<String>>,
}

impl Traffic {
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until so many frames more have passed.
    #[track_caller]
    pub(super) fn wait_for(&self, frames: u64) {
        let (until, end) = (self.received() + frames, Instant::now() + Duration::from_secs(60));
        while self.received() < until {
            assert!(Instant::now() < end, "no traffic: {} of {until}", self.received());
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// The frames on their way were dropped on purpose.
    pub(super) fn forgive(&self) {
        self.forgiven.store(true, Ordering::Relaxed);
        while self.forgiven.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_micros(200));
        }
    }

    pub(super) fn marks(&self) -> BTreeMap<u8, u64> {
        self.marks.lock().unwrap().clone()
    }

    fn check(&self, bytes: &[u8], expected: &mut u64) {
        let seq = u64::from_be_bytes(bytes[14..22].try_into().unwrap());
        let (first, last) = (bytes[22], bytes[23]);
        *self.marks.lock().unwrap().entry(first).or_default() += 1;
        if seq != *expected || first != last {
            let text = format!("frame {seq} for {expected}: ingress {first}, egress {last}");
            self.wrong.lock().unwrap().push(text);
        }
        *expected = seq + 1;
        self.received.fetch_add(1, Ordering::Relaxed);
    }
}

pub(super) struct Rig {
    pub(super) control: Control,
    pub(super) traffic: Arc<Traffic>,
    pub(super) memory: PacketMemory,
    fars: BTreeMap<u16, MemoryPort>,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<Core>>,
    sender: Option<JoinHandle<u64>>,
    stop_sending: Arc<AtomicBool>,
}

fn work(mut core: Core, began: Instant, stop: &AtomicBool) -> Core {
    let mut check = Time::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let now = Time::from_ns(began.elapsed().as_nanos() as u64 + 1);
        let progress = core.poll(now, None);
        if now >= check {
            core.check_links(now);
            core.age(now);
            check = now + Span::from_ms(10);
        }
        if progress == Default::default() {
            core.before_sleep();
            thread::yield_now();
        }
    }
    core
}

/// Sends both ways between the two ends until it is to stop and all has arrived; returns how many frames it sent.
fn send(
    ends: [MemoryPort; 2],
    mut memory: PacketMemory,
    traffic: &Traffic,
    stop: &AtomicBool,
) -> u64 {
    let (mut ends, mut sent, mut expected) = (ends, [0u64; 2], [0u64; 2]);
    let mut silent_since = Instant::now();
    let mut all = 0;
    loop {
        for n in 0..2 {
            let frames = ends[n].receive_bytes(&mut memory);
            if !frames.is_empty() {
                silent_since = Instant::now();
            }
            frames.iter().for_each(|bytes| traffic.check(bytes, &mut expected[n]));
        }
        if traffic.forgiven.swap(false, Ordering::Relaxed) {
            expected = [sent[1], sent[0]];
        }
        if stop.load(Ordering::Relaxed) {
            let arrived = expected == [sent[1], sent[0]];
            if arrived || silent_since.elapsed() > Duration::from_secs(10) {
                assert!(arrived, "lost: {sent:?} were sent, {expected:?} are expected next");
                return all;
            }
            thread::yield_now();
            continue;
        }
        let mut quiet = true;
        for n in 0..2 {
            while sent[n] - expected[1 - n] < WINDOW
                && ends[n].send_bytes(&mut memory, &frame(TRAFFIC, sent[n]))
            {
                sent[n] += 1;
                all += 1;
                quiet = false;
            }
        }
        if quiet {
            thread::yield_now();
        }
    }
}

impl Rig {
    pub(super) fn start(text: &str) -> Rig {
        let loaded = loaded(text);
        let config = MemoryConfig { chunks: 8192, chunk_bytes: 2048, headroom_bytes: 256 };
        let options =
            DeviceOptions { engine: EngineKind::Auto, memory: config, ..DeviceOptions::default() };
        let mut cores = loaded.workers(options, WORKERS).expect("a device");
        let memory = cores[0].memory().worker();
        let mut fars = BTreeMap::new();
        for number in 1..=PORTS {
            let owner = usize::from(number - 1) % WORKERS;
            let names = (format!("near{number}"), format!("far{number}"));
            let (near, far) = memory::pair(&memory, (&names.0, &names.1), LinkType::Ethernet, 1024);
            let place = AbsentPort::like(&near as &dyn Port);
            for (_, core) in cores.iter_mut().enumerate().filter(|(me, _)| *me != owner) {
                core.add_elsewhere(PortNumber(number), owner as u8, place.clone())
                    .expect("a free number");
            }
            cores[owner].add_port(PortNumber(number), Box::new(near)).expect("a free number");
            fars.insert(number, far);
        }
        let control = Control::of(&cores[0]).expect("a handle").clone();
        let (stop, began) = (Arc::<AtomicBool>::default(), Instant::now());
        let start = |core| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || work(core, began, &stop))
        };
        let workers = cores.into_iter().map(start).collect();
        let ways = control.table("ways").unwrap();
        for (from, to) in [(1, 2), (2, 1)] {
            use wireyard_switch::control::TableEntry;
            let action = control.call("out", &[to]).unwrap();
            let matches = vec![wireyard_tables::Match::Exact(from)];
            control.insert(TableEntry::new(ways, matches, action)).unwrap();
        }
        let (traffic, stop_sending) = (Arc::<Traffic>::default(), Arc::<AtomicBool>::default());
        let ends = [fars.remove(&1).unwrap(), fars.remove(&2).unwrap()];
        let sender = {
            let (memory, traffic, stop) =
                (memory.worker(), Arc::clone(&traffic), Arc::clone(&stop_sending));
            thread::spawn(move || send(ends, memory, &traffic, &stop))
        };
        let sender = Some(sender);
        Rig { control, traffic, memory, fars, stop, workers, sender, stop_sending }
    }

    /// What arrived at the far end of a port.
    pub(super) fn far(&mut self, port: u16) -> Vec<Vec<u8>> {
        let far = self.fars.get_mut(&port).expect("a port without traffic");
        far.receive_bytes(&mut self.memory)
    }

    /// The same, once there is something.
    #[track_caller]
    pub(super) fn take(&mut self, port: u16) -> Vec<Vec<u8>> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let frames = self.far(port);
            if !frames.is_empty() {
                return frames;
            }
            assert!(Instant::now() < end, "nothing leaves by port {port}");
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Closes the far end of a port.
    pub(super) fn cut(&mut self, port: u16) {
        let mut far = self.fars.remove(&port).expect("a port");
        far.close(&mut self.memory);
    }

    /// Frames that the register counted, in both of its cells.
    pub(super) fn seen(&self) -> u64 {
        let register = self.control.register("seen").unwrap();
        let query = Query::Registers { register: Some(register), index: Some(0) };
        match &self.control.read(&query).unwrap()[..] {
            [Entity::Register { cells, .. }] => {
                assert_eq!(cells[1], cells[0] * 2, "both cells are of one instant");
                cells[0]
            }
            other => panic!("{other:?}"),
        }
    }

    /// Everything that control wrote, without what packets change.
    pub(super) fn contents(&self) -> String {
        let mut text = String::new();
        let read = |query| self.control.read(&query).unwrap();
        for mut entity in read(Query::Entries { table: None }) {
            if let Entity::TableEntry(entry) = &mut entity {
                (entry.counter, entry.since_hit) = (None, None);
            }
            text.push_str(&format!("{entity:?}\n"));
        }
        for query in [
            Query::DefaultActions { table: None },
            Query::ValueSets { set: None },
            Query::Meters { meter: None, index: None },
            Query::Multicast { id: None },
            Query::Mirrors { id: None },
        ] {
            text.push_str(&format!("{:?}\n", read(query)));
        }
        text + &self.control.program().name
    }

    /// Stops sending, waits until everything has arrived, and checks what did. Returns how many frames were sent.
    #[track_caller]
    pub(super) fn stop_traffic(&mut self) -> u64 {
        self.stop_sending.store(true, Ordering::Relaxed);
        let sent = self.sender.take().map_or(0, |sender| sender.join().expect("nothing is lost"));
        let wrong = self.traffic.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "{} of {sent} are wrong: {:?}", wrong.len(), wrong.first());
        sent
    }

    /// Ends everything; the ledgers of both workers add up.
    #[track_caller]
    pub(super) fn end(mut self) -> u64 {
        let sent = self.stop_traffic();
        self.stop.store(true, Ordering::Relaxed);
        let (mut came, mut went) = (0, 0);
        for worker in self.workers.drain(..) {
            let core = worker.join().expect("a worker");
            let report = core.report();
            came += report.received + report.generated;
            let ended = report.dropped_packets() + report.consumed_packets();
            went += report.sent + ended + report.queued;
        }
        assert_eq!(came, went, "received and generated is sent, dropped, consumed and queued");
        sent
    }
}
