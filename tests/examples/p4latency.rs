//! How late frames leave a switch while a controller writes entries as fast as it can, and while none does, in turns.
//!
//! `p4latency [PAIRS [OPTION..]]` as root, with options of `run` such as `--realtime`: a switch on two veth pairs in a network namespace of its own, a frame every 100 us, turns of a second with
//! batches of 1,000 entries (4 under way) and of a second without. Generator and meter are one thread that comes before all others. One line of JSON: the median over the pairs of turns of the 50th and 99th percentile
//! of both kinds, of how much the 99th grows in a pair, and how many entries a second were written.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_switch::config::room::CHUNK_BYTES;
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_switch::ports::sys::netns::enter_private_network;
use wireyard_switch::ports::sys::schedule::give_way;
use wireyard_switch::ports::{Port, PortSpec, TxFrame, open};
use wireyard_tables::time::Time;
use wireyard_tests::live::Switch;
use wireyard_tests::p4client::{Controller, insert, update};

use p4::entity::Entity;

const PROGRAM: &str = "tests/data/p4runtime/program.yaml";
const ADDRESS: &str = "127.0.0.1:19559";
const APART: Duration = Duration::from_micros(100);
const TURN: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_micros(10);
const BATCH: usize = 1000;
const TOGETHER: usize = 40;
const UNDER_WAY: usize = 4;
/// Where a frame has the time that it was sent at.
const STAMP: std::ops::Range<usize> = 14..22;

struct End {
    memory: PacketMemory,
    port: Box<dyn Port>,
}

impl End {
    fn open(spec: &str) -> End {
        let config =
            MemoryConfig { chunks: 2048, chunk_bytes: CHUNK_BYTES, ..MemoryConfig::default() };
        let memory = PacketMemory::new(config).expect("packet memory");
        let port = open(&PortSpec::parse(spec).expect("a port"), &memory).expect("it opens").port;
        End { memory, port }
    }

    fn send(&mut self, bytes: &[u8]) {
        let buf = self.memory.alloc_frame(bytes).expect("a free chunk");
        let offset = self.memory.config().headroom_bytes as u16;
        let mut frames = vec![TxFrame::at_once(buf, offset, bytes.len() as u32, Time::ZERO)];
        let _ = self.port.tx_burst(&mut self.memory, Time::ZERO, &mut frames);
        frames.into_iter().for_each(|frame| self.memory.free(frame.buf));
    }

    /// How long ago the frames that are there were sent, in nanoseconds.
    fn ages(&mut self, began: Instant, ages: &mut Vec<u64>) {
        let mut frames = Vec::new();
        self.port.rx_burst(&mut self.memory, Time::ZERO, &mut frames, 64).expect("it works");
        let now = began.elapsed().as_nanos() as u64;
        for frame in frames {
            let bytes = self.memory.frame(&frame.buf, frame.data_off, frame.len);
            if let Some(stamp) = bytes.get(STAMP).and_then(|stamp| stamp.try_into().ok()) {
                ages.push(now.saturating_sub(u64::from_be_bytes(stamp)));
            }
            self.memory.free(frame.buf);
        }
    }
}

/// One turn: the ages of its frames, sorted.
fn turn(ends: &mut [End; 2], began: Instant) -> Vec<u64> {
    let (until, mut next, mut ages) = (Instant::now() + TURN, Instant::now(), Vec::new());
    let mut frame = [0; 60];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa]);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    while Instant::now() < until {
        if Instant::now() >= next {
            next += APART;
            frame[STAMP].copy_from_slice(&(began.elapsed().as_nanos() as u64).to_be_bytes());
            ends[0].send(&frame);
        }
        ends[1].ages(began, &mut ages);
        // A thread that comes first leaves the processor to the others.
        std::thread::sleep(REST);
    }
    ages.sort_unstable();
    ages
}

fn percentile(sorted: &[u64], percent: usize) -> u64 {
    sorted
        .get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0)
}

/// Writes and deletes entries while it is to; how many were.
fn write(mut controller: Controller, is_on: &AtomicBool, is_over: &AtomicBool, done: &AtomicUsize) {
    // It is on another machine as a rule, and takes no processor from the switch there.
    give_way().expect("no privilege is needed");
    let action = controller.action("forward", &[&[2]]);
    let entry = |number: usize| {
        let key = (0x0400_0000_0000 + number as u64).to_be_bytes();
        Entity::TableEntry(controller.exact("fdb", &key[2..], action.clone()))
    };
    let entities: Vec<_> = (0..BATCH * TOGETHER).map(entry).collect();
    let delete = |entity| update(p4::update::Type::Delete, entity);
    let requests = |of: &dyn Fn(Entity) -> p4::Update| -> Vec<_> {
        let batch =
            |some: &[Entity]| controller.write_request(some.iter().cloned().map(of).collect());
        entities.chunks(BATCH).map(batch).collect()
    };
    let kinds = [requests(&insert), requests(&delete)];
    for batches in kinds.iter().cycle() {
        while !is_on.load(SeqCst) {
            if is_over.load(SeqCst) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let wanted = batches.len();
        assert_eq!(controller.pipelined(batches.clone(), UNDER_WAY), wanted, "all are written");
        done.fetch_add(wanted * BATCH, SeqCst);
    }
}

/// What is said of a frame may not be how late this thread is itself: it gets a processor at once when it wakes, as a machine of its own would
/// give it one (chrt(1)).
fn come_first() {
    let own = std::fs::read_link("/proc/thread-self").expect("procfs");
    let thread = own.file_name().expect("the number of the thread");
    let done = Command::new("chrt").args(["--fifo", "--pid", "1"]).arg(thread).status();
    assert!(done.expect("chrt runs (util-linux)").success(), "a real-time policy");
}

fn main() {
    let mut args = std::env::args().skip(1);
    let pairs = args.next().map_or(20, |text| text.parse().expect("a number"));
    let options: Vec<String> = args.collect();
    let _network = enter_private_network().expect("root");
    let ip = |words: &str| {
        let done = Command::new("ip").args(words.split(' ')).status().expect("ip runs");
        assert!(done.success(), "ip {words}");
    };
    ip("link set lo up");
    for name in ["a", "b"] {
        ip(&format!("link add {name}0 type veth peer name {name}1"));
        [0, 1].iter().for_each(|end| ip(&format!("link set {name}{end} up")));
    }
    let own = ["--p4runtime", ADDRESS].into_iter();
    let options: Vec<&str> = own.chain(options.iter().map(String::as_str)).collect();
    let switch = Switch::on(PROGRAM, &["1=raw:a1", "2=raw:b1"], &options);
    let (mut controller, _) = Controller::connect(ADDRESS, 1).expect("a stream");
    let action = controller.action("forward", &[&[2]]);
    let way = controller.exact("fdb", &[2, 0, 0, 0, 0, 0xb], action);
    controller.write(vec![insert(Entity::TableEntry(way))]).expect("an entry");
    let flags: [Arc<AtomicBool>; 2] = Default::default();
    let (written, [is_on, is_over]) =
        (Arc::<AtomicUsize>::default(), flags.each_ref().map(Arc::clone));
    let counting = Arc::clone(&written);
    let writer = std::thread::spawn(move || write(controller, &is_on, &is_over, &counting));
    come_first();
    let (mut ends, began) = ([End::open("raw:a0"), End::open("raw:b0")], Instant::now());
    let (mut quiet, mut busy) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        quiet.push(turn(&mut ends, began));
        flags[0].store(true, SeqCst);
        busy.push(turn(&mut ends, began));
        flags[0].store(false, SeqCst);
        // The last batches end.
        std::thread::sleep(TURN / 2);
    }
    flags[1].store(true, SeqCst);
    writer.join().expect("the writer ends");
    switch.end("TERM");
    let median = |mut all: Vec<i64>| {
        all.sort_unstable();
        all[all.len() / 2] as f64 / 1000.0
    };
    let of = |turns: &[Vec<u64>], percent| -> Vec<i64> {
        turns.iter().map(|ages| percentile(ages, percent) as i64).collect()
    };
    let growth = of(&busy, 99).into_iter().zip(of(&quiet, 99)).map(|(busy, quiet)| busy - quiet);
    println!(
        "{{\"pairs\": {pairs}, \"quiet_p50_us\": {:.1}, \"quiet_p99_us\": {:.1}, \"busy_p50_us\": {:.1}, \"busy_p99_us\": {:.1}, \
         \"p99_growth_us\": {:.1}, \"entries_per_s\": {}}}",
        median(of(&quiet, 50)),
        median(of(&quiet, 99)),
        median(of(&busy, 50)),
        median(of(&busy, 99)),
        median(growth.collect()),
        written.load(SeqCst) / pairs
    );
}
