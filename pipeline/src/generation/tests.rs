use super::*;
use crate::engine::NoDevice;
use crate::exec::Intrinsic;
use crate::interp::tests::build::{Build, ethernet_ipv4};
use crate::interp::tests::ipv4_packet;
use crate::ir::{Op, StdField};
use crate::jit::NotSupported;
use crate::packet::MemoryConfig;

/// Forwards to `port`; egress writes `mark` into the source address's last byte.
fn program(port: u128, mark: u128) -> Arc<Program> {
    let mut build = Build::new();
    let (ethernet, _) = ethernet_ipv4(&mut build);
    let ops = vec![build.set_std(StdField::EgressPort, port)];
    build.ingress(ops);
    let mark = build.num(mark, 48);
    let ops = vec![build.set(ethernet, "src", mark)];
    build.egress(ops);
    let index = build.num(0, 8);
    build.program.counters.push(crate::ir::Counter { name: "c".into(), size: 1 });
    let count = Op::Count(crate::ids::CounterId(0), index);
    let at = crate::ir::OpAt { op: count, span: None };
    build.program.ingress.blocks[crate::ids::BlockId(0)].ops.push(at);
    Arc::new(build.program)
}

fn loader(workers: usize) -> Loader {
    let options = StateOptions { workers, ..StateOptions::default() };
    Loader::new(program(1, 0xa), options, Box::new(interpreter)).unwrap()
}

struct Worker {
    executor: Executor,
    memory: PacketMemory,
}

impl Worker {
    fn ingress(&mut self) -> (Descriptor, Intrinsic) {
        let buf = self.memory.alloc_frame(&ipv4_packet(0)).unwrap();
        let mut packets = [Descriptor::received(buf, 256, 34, 7, 0)];
        let mut meta = [Intrinsic::default()];
        let (memory, device) = (&mut self.memory, &mut NoDevice);
        self.executor.ingress(memory, device, None, &mut packets, &mut meta, None);
        let ([packet], [meta]) = (packets, meta);
        (packet, meta)
    }

    /// The last byte of the source address as it leaves.
    fn egress(&mut self, packets: Vec<Descriptor>) -> Vec<u8> {
        let mut packets = packets;
        let mut meta: Vec<Intrinsic> = packets.iter().map(|_| Intrinsic::default()).collect();
        let (memory, device) = (&mut self.memory, &mut NoDevice);
        self.executor.egress(memory, device, None, &mut packets, &mut meta);
        packets.iter().for_each(|packet| self.executor.count_out(packet.generation));
        let mut marks = Vec::new();
        for packet in &mut packets {
            let buf = packet.buf.take().unwrap();
            marks.push(self.memory.frame(&buf, packet.data_off, packet.len)[11]);
            self.memory.free(buf);
        }
        marks
    }
}

#[test]
fn a_packet_leaves_by_the_program_it_came_by() {
    let loader = loader(1);
    let memory = PacketMemory::new(MemoryConfig::default()).unwrap();
    let mut worker = Worker { executor: loader.executor(0), memory };
    let (before, _) = worker.ingress();
    assert_eq!((before.generation, before.egress_port), (0, 1));
    loader.replace(program(2, 0xb), Time::ZERO).unwrap();
    let (after, _) = worker.ingress();
    assert_eq!((after.generation, after.egress_port), (1, 2));
    assert_eq!(loader.alive(), 2);
    assert_eq!(worker.egress(vec![after, before]), [0xb, 0xa]);
    assert_eq!(loader.alive(), 1);
    let count = loader.current().state.counter(crate::ids::CounterId(0)).unwrap().read(0).unwrap();
    assert_eq!(count.packets, 2, "the counter moved to the new program");
}

#[test]
fn a_program_that_is_prepared_runs_when_it_is_committed() {
    let loader = loader(1);
    let before = loader.current().id;
    drop(loader.prepare(program(2, 0xb), Time::ZERO).unwrap());
    assert_eq!((loader.current().id, loader.alive()), (before, 1));
    let prepared = loader.prepare(program(2, 0xb), Time::ZERO).unwrap();
    assert_eq!(prepared.kept().counters, [crate::ids::CounterId(0)]);
    assert_eq!(loader.prepare_anew(program(2, 0xb), Time::ZERO).unwrap().kept(), Kept::default());
    assert_eq!(loader.commit(prepared).id, before + 1);
}

#[test]
fn another_worker_does_egress() {
    let loader = loader(2);
    let memory = PacketMemory::new(MemoryConfig::default()).unwrap();
    let mut b = Worker { executor: loader.executor(1), memory: memory.worker() };
    let mut a = Worker { executor: loader.executor(0), memory };
    loader.replace(program(2, 0xb), Time::ZERO).unwrap();
    // B has moved on; A, which has not yet, still receives packets for the old program.
    b.executor.refresh();
    assert_eq!(loader.alive(), 2);
    let (first, _) = a.ingress();
    assert_eq!(first.generation, 1);
    loader.replace(program(3, 0xc), Time::ZERO).unwrap();
    let (second, _) = a.ingress();
    assert_eq!(b.egress(vec![first, second]), [0xb, 0xc]);
    b.executor.refresh();
    assert_eq!(loader.alive(), 1);
}

#[test]
fn a_drop_in_the_queue_lets_the_program_go() {
    let loader = loader(1);
    let memory = PacketMemory::new(MemoryConfig::default()).unwrap();
    let mut worker = Worker { executor: loader.executor(0), memory };
    let (mut packet, _) = worker.ingress();
    loader.replace(program(2, 0xb), Time::ZERO).unwrap();
    worker.executor.refresh();
    assert_eq!(loader.alive(), 2);
    worker.memory.free(packet.buf.take().unwrap());
    worker.executor.count_out(packet.generation);
    assert_eq!(loader.alive(), 1);
}

/// The interpreter, with a counter of calls of its egress.
#[derive(Debug)]
struct Entered {
    interp: Interp,
    entered: Arc<AtomicU64>,
}

impl Engine for Entered {
    fn name(&self) -> &'static str {
        "entered"
    }

    fn program(&self) -> &Arc<Program> {
        self.interp.program()
    }

    fn ingress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.interp.ingress(cx, packets, meta);
    }

    fn egress(&self, cx: &mut Context<'_>, packets: &mut [Descriptor], meta: &mut [Intrinsic]) {
        self.entered.fetch_add(1, Ordering::Relaxed);
        self.interp.egress(cx, packets, meta);
    }
}

/// A program that forwards to port 1 and has no egress.
fn plain() -> crate::ir::Program {
    let mut build = Build::new();
    ethernet_ipv4(&mut build);
    let ops = vec![build.set_std(StdField::EgressPort, 1)];
    build.ingress(ops);
    build.program
}

#[test]
fn an_empty_egress_is_entered_only_for_who_listens() {
    let entered = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&entered);
    let make = move |program: &Arc<Program>, _: &State| -> Result<Box<dyn Engine>, CompileError> {
        let entered = Arc::clone(&count);
        Ok(Box::new(Entered { interp: Interp::new(program.clone()), entered }))
    };
    let options = StateOptions { workers: 1, ..StateOptions::default() };
    let loader = Loader::new(Arc::new(plain()), options, Box::new(make)).unwrap();
    let memory = PacketMemory::new(MemoryConfig::default()).unwrap();
    let mut worker = Worker { executor: loader.executor(0), memory };
    let leave = |worker: &mut Worker, sink: Option<&mut dyn TraceSink>| {
        let (packet, _) = worker.ingress();
        assert_eq!(loader.current().queued(), 1);
        // Stale outputs of an earlier packet are no decision about this one.
        let stale =
            Intrinsic { verdict: Verdict::Drop as u8, clone_count: 2, ..Intrinsic::default() };
        let (mut packets, mut meta) = ([packet], [stale]);
        let (memory, device) = (&mut worker.memory, &mut NoDevice);
        worker.executor.egress(memory, device, sink, &mut packets, &mut meta);
        assert_eq!((meta[0].verdict(), meta[0].clone_count), (Verdict::Forward, 0));
        assert_eq!(loader.current().queued(), 1, "until its copies are counted in");
        worker.executor.count_out(packets[0].generation);
        assert_eq!(loader.current().queued(), 0);
        let buf = packets[0].buf.take().unwrap();
        let frame = worker.memory.frame(&buf, packets[0].data_off, packets[0].len).to_vec();
        worker.memory.free(buf);
        frame
    };
    assert_eq!(leave(&mut worker, None), ipv4_packet(0));
    assert_eq!(entered.load(Ordering::Relaxed), 0);
    let mut recorder = crate::trace::Recorder::default();
    assert_eq!(leave(&mut worker, Some(&mut recorder)), ipv4_packet(0));
    assert_eq!(entered.load(Ordering::Relaxed), 1);
    assert!(!recorder.events.is_empty(), "the recording has an egress");
}

#[test]
fn what_is_done_to_a_leaving_packet_is_no_empty_egress() {
    assert!(plain().egress_is_empty());
    assert!(!program(1, 0xa).egress_is_empty());
    let mut stripping = plain();
    stripping.deparser.strip_slack = true;
    assert!(!stripping.egress_is_empty());
    let mut trailing = plain();
    trailing.deparser.after.push(crate::ir::AfterBody::Header(crate::ids::InstanceId(0)));
    assert!(!trailing.egress_is_empty());
}

#[test]
fn a_replacement_that_its_engine_refuses_changes_nothing() {
    let make = |program: &Arc<Program>, state: &State| match program.egress_is_empty() {
        true => Err(NotSupported::System("none".into()).into()),
        false => interpreter(program, state),
    };
    let loader = Loader::new(program(1, 0xa), StateOptions::default(), Box::new(make)).unwrap();
    let before = loader.current().id;
    for refused in [
        loader.prepare(Arc::new(plain()), Time::ZERO),
        loader.prepare_anew(Arc::new(plain()), Time::ZERO),
    ] {
        assert!(matches!(refused, Err(PrepareError::Engine(_))), "{refused:?}");
    }
    assert_eq!((loader.current().id, loader.alive()), (before, 1));
}
