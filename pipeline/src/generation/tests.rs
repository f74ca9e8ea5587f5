use super::*;
use crate::exec::{Intrinsic, NoDevice};
use crate::interp::tests::build::{Build, ethernet_ipv4};
use crate::interp::tests::ipv4_packet;
use crate::ir::{Op, StdField};
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
        self.executor.ingress(memory, device, None, &mut packets, &mut meta);
        let ([packet], [meta]) = (packets, meta);
        (packet, meta)
    }

    /// The last byte of the source address as it leaves.
    fn egress(&mut self, packets: Vec<Descriptor>) -> Vec<u8> {
        let mut packets = packets;
        let mut meta: Vec<Intrinsic> = packets.iter().map(|_| Intrinsic::default()).collect();
        let (memory, device) = (&mut self.memory, &mut NoDevice);
        self.executor.egress(memory, device, None, &mut packets, &mut meta);
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
fn another_worker_does_egress() {
    let loader = loader(2);
    let memory = PacketMemory::new(MemoryConfig::default()).unwrap();
    let mut b = Worker { executor: loader.executor(1), memory: memory.worker() };
    let mut a = Worker { executor: loader.executor(0), memory };
    loader.replace(program(2, 0xb), Time::ZERO).unwrap();
    // B has moved on; A, which has not yet, still lets packets in by the old program.
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
    worker.executor.generation(packet.generation).unwrap().gone(1);
    assert_eq!(loader.alive(), 1);
}
