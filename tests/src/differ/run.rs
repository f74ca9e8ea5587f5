//! Runs a case on every engine at every level and says where they differ.

use std::path::Path;
use std::sync::Arc;

use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::diag::{Diagnostics, render};
use wireyard_pipeline::entries::{self, Resolved};
use wireyard_pipeline::exec::{Descriptor, Intrinsic, PacketPath, Verdict, flags};
use wireyard_pipeline::ir::{Display, ExternSignature, Param, Program};
use wireyard_pipeline::source::{Loader, parse_entries, parse_program};

use wireyard_tables::time::Time;

use serde_json::Value;

use super::file::hex;
use super::rig::{Pass, Rig, Way};
use super::{Case, How};

/// The interpreter without passes is what the others are held against.
const WAYS: [Way; 6] = [
    Way { jit: false, level: 0 },
    Way { jit: false, level: 1 },
    Way { jit: false, level: 2 },
    Way { jit: true, level: 0 },
    Way { jit: true, level: 1 },
    Way { jit: true, level: 2 },
];

/// Rounds of a packet that is resubmitted or recirculated.
const ROUNDS: usize = 3;
/// What is left of a packet that was trimmed: some lose all of their body, some a part of it.
const TRIM_BYTES: u32 = 40;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All engines agree; so many packets made their whole way on the compiled engine
    /// at some level, each held against the interpreter.
    Agree {
        /// Packets times levels of the compiled engine.
        executions: u64,
        /// What happened meanwhile.
        seen: Seen,
    },
    /// They do not.
    Differ(String),
    /// The front end, or the loading of tables, refuses the program.
    Refused(String),
}

/// A case as the engines take it.
pub struct Compiled {
    /// The program before passes.
    pub program: Arc<Program>,
    entries: Option<Resolved>,
    changes: Vec<(usize, How, Resolved)>,
}

/// What happened in cases that agree: a machine that never gets there tests nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets that came to the end of egress.
    pub forwarded: u64,
    /// Path-specialised code worked on packets.
    pub specialised: u64,
    /// Learners that found no room.
    pub full: u64,
    /// Times that entries were removed because of their age.
    pub aged: u64,
    /// Changes of tables that were done, and those that were refused.
    pub changed: [u64; 2],
    /// Chunks that somebody else had a reference to.
    pub held: u64,
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, more: Seen) {
        self.forwarded += more.forwarded;
        self.specialised += more.specialised;
        self.full += more.full;
        self.aged += more.aged;
        self.changed[0] += more.changed[0];
        self.changed[1] += more.changed[1];
        self.held += more.held;
    }
}

/// What the device offers to programs of cases: a function with a result, and one without.
fn externs() -> ExternRegistry {
    let mut registry = ExternRegistry::new();
    let param =
        |bits: &u32| Param { name: String::new(), bits: *bits, display: Display::default() };
    for (name, params, result_bits) in
        [("device_weigh", &[70, 8][..], Some(32)), ("device_note", &[8], None)]
    {
        let params = params.iter().map(param).collect();
        let controls = (true, true);
        registry.add(ExternSignature { name: name.into(), params, result_bits, controls });
    }
    registry
}

/// Compiles a case.
///
/// # Errors
/// Everything that is wrong with the program, its entries or a change.
pub fn compiled(case: &Case) -> Result<Compiled, String> {
    let name = |n: usize| format!("e{n}.yaml");
    let text = match &case.program {
        Value::String(text) => text.clone(),
        tree => tree.to_string(),
    };
    let mut files = vec![("p.yaml".to_owned(), text)];
    let entries = case.entries.iter().chain(case.changes.iter().map(|change| &change.entries));
    files.extend(entries.enumerate().map(|(n, entries)| (name(n), entries.to_string())));
    let count = files.len() - 1;
    let loader = Loader::in_memory(files, &[]);
    let parsed = parse_program(Path::new("p.yaml"), &loader).map_err(|e| e.to_string())?;
    let program =
        compile(&parsed, &externs()).map_err(|found| render::plain(&found, &parsed.files))?;
    let program = Arc::new(program.program);
    let mut files = parsed.files;
    let mut all = Vec::new();
    for n in 0..count {
        let mut found = Diagnostics::new();
        let read = parse_entries(Path::new(&name(n)), &loader, &mut files, &mut found);
        let resolved = read.and_then(|ast| entries::resolve(&ast, &program, &mut found));
        match resolved.filter(|_| !found.has_errors()) {
            Some(resolved) => all.push(resolved),
            None => return Err(render::plain(&found, &files)),
        }
    }
    let changes = all.split_off(usize::from(case.entries.is_some()));
    let changes = case.changes.iter().zip(changes).map(|(c, resolved)| (c.before, c.how, resolved));
    Ok(Compiled { program, entries: all.pop(), changes: changes.collect() })
}

/// Runs a case.
pub fn run(case: &Case) -> Outcome {
    let compiled = match compiled(case) {
        Ok(compiled) => compiled,
        Err(why) => return Outcome::Refused(why),
    };
    let mut rigs = Vec::new();
    for way in WAYS {
        let Compiled { program, entries, .. } = &compiled;
        match Rig::new(program, entries.as_ref(), way, case.workers.max(1)) {
            Ok(rig) => rigs.push(rig),
            Err(why) => return Outcome::Refused(why),
        }
    }
    let mut bench = Bench {
        rigs,
        traced: case.traced,
        through: case.through,
        worker: 0,
        now_ns: 0,
        executions: 0,
        seen: Seen::default(),
        last: vec![0; 64],
    };
    let ended = bench.packets(case, &compiled.changes).and_then(|()| bench.contents());
    if let Some(rig) = bench.rigs.last() {
        (bench.seen.specialised, bench.seen.full) = (rig.specialised.into(), rig.learn_failures());
    }
    match ended.and_then(|()| bench.rigs.iter_mut().try_for_each(Rig::end)) {
        Ok(()) => Outcome::Agree { executions: bench.executions, seen: bench.seen },
        Err(report) => Outcome::Differ(report),
    }
}

/// All rigs side by side.
struct Bench {
    rigs: Vec<Rig>,
    traced: usize,
    through: bool,
    /// The worker of this burst; another one does its egress.
    worker: usize,
    now_ns: u64,
    executions: u64,
    seen: Seen,
    /// What the last packet that was forwarded left as.
    last: Vec<u8>,
}

/// The same packets on each rig: by rig, then by packet.
type Lanes = Vec<Vec<Descriptor>>;

/// What is done to the packets of one rig once a pass is over.
#[derive(Default)]
struct Lane {
    /// They go to egress.
    forward: Vec<Descriptor>,
    /// They enter ingress again.
    again: Vec<Descriptor>,
    /// Copies that egress asked for.
    clones: Vec<Descriptor>,
}

impl Bench {
    fn packets(&mut self, case: &Case, changes: &[(usize, How, Resolved)]) -> Result<(), String> {
        let mut changes = changes.iter().peekable();
        let ages = self.rigs.first().is_some_and(Rig::may_age);
        let size = case.burst.max(1);
        for (n, burst) in case.packets.chunks(size).enumerate() {
            while let Some((_, how, change)) = changes.next_if(|(before, ..)| *before <= n * size) {
                let now = Time::from_ns(self.now_ns);
                let results = self.same("a change", |rig| rig.change(change, *how, now))?;
                for line in results {
                    self.seen.changed[usize::from(line.starts_with("Err"))] += 1;
                }
            }
            if ages {
                let now = Time::from_ns(self.now_ns);
                let old = self.same("what is too old", |rig| rig.age(now))?;
                self.seen.aged += old.len() as u64;
            }
            let mut lanes: Lanes = self.rigs.iter().map(|_| Vec::new()).collect();
            for packet in burst {
                self.now_ns += case.step_ns.max(1);
                self.seen.held += u64::from(packet.held);
                let bytes = if packet.bytes.is_empty() { &self.last } else { &packet.bytes };
                for (rig, lane) in self.rigs.iter_mut().zip(&mut lanes) {
                    let received = rig.receive(packet, bytes, self.now_ns);
                    lane.push(received.ok_or("no chunk is left: one was lost")?);
                }
            }
            // The compiled engine at each of its levels.
            self.executions += 3 * burst.len() as u64;
            let mark = burst.iter().any(|packet| packet.mark);
            self.worker = n;
            self.burst(lanes, mark)?;
            self.rigs.iter_mut().try_for_each(Rig::release_held)?;
        }
        Ok(())
    }

    /// Does something on every rig, with the same result.
    fn same(
        &mut self,
        what: &str,
        mut each: impl FnMut(&mut Rig) -> Vec<String>,
    ) -> Result<Vec<String>, String> {
        let mut results: Vec<Vec<String>> = self.rigs.iter_mut().map(&mut each).collect();
        for (rig, other) in self.rigs.iter().zip(&results) {
            if *other != results[0] {
                return Err(format!("{}: {what}\n  {:?}\n  {other:?}", rig.way, results[0]));
            }
        }
        Ok(results.swap_remove(0))
    }

    /// A burst through ingress, again as often as it asks, and through egress.
    fn burst(&mut self, mut lanes: Lanes, mark: bool) -> Result<(), String> {
        for _ in 0..ROUNDS {
            let mut sorted = self.ingress(lanes, mark)?;
            let forward = sorted.iter_mut().map(|lane| std::mem::take(&mut lane.forward)).collect();
            self.egress(forward, mark, &mut sorted)?;
            let clones = sorted.iter_mut().map(|lane| std::mem::take(&mut lane.clones)).collect();
            self.egress(clones, mark, &mut sorted)?;
            for (rig, lane) in self.rigs.iter_mut().zip(&mut sorted) {
                lane.clones.drain(..).for_each(|copy| rig.free(copy));
            }
            lanes = sorted.into_iter().map(|lane| lane.again).collect();
            if lanes.iter().all(Vec::is_empty) {
                break;
            }
        }
        for (rig, lane) in self.rigs.iter_mut().zip(lanes) {
            lane.into_iter().for_each(|packet| rig.free(packet));
        }
        Ok(())
    }

    fn ingress(&mut self, mut lanes: Lanes, mark: bool) -> Result<Vec<Lane>, String> {
        let pass = if self.through { Pass::Through } else { Pass::Ingress };
        let metas = self.pass(&mut lanes, pass, mark)?;
        let mut all = Vec::new();
        let mut last = None;
        for ((rig, lane), metas) in self.rigs.iter_mut().zip(lanes).zip(metas) {
            let mut sorted = Lane::default();
            for (mut packet, mut meta) in lane.into_iter().zip(metas) {
                if meta.egress_done == 1 {
                    self.seen.forwarded += u64::from(rig.way == WAYS[0] && left(&meta));
                    sorted.out(rig, packet, &meta, &mut last);
                    continue;
                }
                if let Some(original) = meta.original.take() {
                    let mut clone = packet.with_buf(original);
                    (clone.data_off, clone.len) = (meta.original_off, meta.original_len);
                    clone.forget_headers();
                    clone.path = PacketPath::CloneIngress as u8;
                    sorted.forward.push(clone);
                }
                match meta.verdict() {
                    Verdict::Forward => sorted.replicate(rig, packet, meta.multicast_group),
                    Verdict::Resubmit => {
                        packet.path = PacketPath::Resubmit as u8;
                        sorted.again.push(packet);
                    }
                    Verdict::Drop | Verdict::Punt => rig.free(packet),
                }
            }
            all.push(sorted);
        }
        self.last = last.unwrap_or(std::mem::take(&mut self.last));
        Ok(all)
    }

    /// Egress, on another worker.
    fn egress(&mut self, mut lanes: Lanes, mark: bool, into: &mut [Lane]) -> Result<(), String> {
        if mark {
            self.trim(&mut lanes);
        }
        if lanes.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let metas = self.pass(&mut lanes, Pass::Egress, mark)?;
        let first = metas.first().into_iter().flatten();
        self.seen.forwarded += first.filter(|meta| left(meta)).count() as u64;
        let mut last = None;
        let rigs = self.rigs.iter_mut().zip(into);
        for (((rig, into), lane), metas) in rigs.zip(lanes).zip(metas) {
            for (packet, meta) in lane.into_iter().zip(metas) {
                into.out(rig, packet, &meta, &mut last);
            }
        }
        self.last = last.unwrap_or(std::mem::take(&mut self.last));
        Ok(())
    }

    /// Of packets that egress marks, every second was trimmed by the queue too.
    fn trim(&self, lanes: &mut Lanes) {
        for (rig, lane) in self.rigs.iter().zip(lanes) {
            lane.iter_mut().step_by(2).for_each(|packet| packet.trim(TRIM_BYTES, rig.trailers));
        }
    }

    /// A pass of a burst on every rig, compared.
    fn pass(
        &mut self,
        lanes: &mut Lanes,
        pass: Pass,
        mark: bool,
    ) -> Result<Vec<Vec<Intrinsic>>, String> {
        let traced = self.traced;
        let worker = self.worker + usize::from(pass == Pass::Egress);
        let mut metas = Vec::new();
        let mut stories = Vec::new();
        for (rig, lane) in self.rigs.iter_mut().zip(lanes.iter_mut()) {
            let meta = |packet: &Descriptor| Intrinsic {
                now_ns: packet.ingress_ns + 500,
                enqueue_ns: packet.ingress_ns + 100,
                dequeue_ns: packet.ingress_ns + 200,
                enqueue_depth_bytes: packet.len * 3,
                dequeue_depth_bytes: packet.len,
                enqueue_depth_packets: packet.len as u16 ^ 0x8001,
                dequeue_depth_packets: packet.len as u16,
                congestion_mark: (pass != Pass::Ingress && mark).into(),
                ..Intrinsic::default()
            };
            let mut meta: Vec<Intrinsic> = lane.iter().map(meta).collect();
            stories.push(rig.run(worker, lane, &mut meta, pass, traced));
            metas.push(meta);
        }
        let place = |n: usize| format!("{pass:?}, {}", self.rigs[n].way);
        let (first, others) = self.rigs.split_first().ok_or("no engine")?;
        for (n, rig) in others.iter().enumerate() {
            let n = n + 1;
            let (head, tail) = lanes.split_at_mut(n);
            let (meta_head, meta_tail) = metas.split_at_mut(n);
            let pairs = head[0].iter_mut().zip(&mut meta_head[0]);
            let others = tail[0].iter_mut().zip(&mut meta_tail[0]);
            for ((a, a_meta), (b, b_meta)) in pairs.zip(others) {
                let same = compare((first, a, a_meta), (rig, b, b_meta));
                same.map_err(|why| format!("{}: {why}", place(n)))?;
            }
        }
        for level in 0..3 {
            // Passes may take events away, so that stories are compared at one level.
            if stories[level] != stories[level + 3] {
                let (a, b) = (&stories[level], &stories[level + 3]);
                return Err(format!("{}: traces\n{a:?}\n{b:?}", place(level + 3)));
            }
        }
        Ok(metas)
    }

    fn contents(&mut self) -> Result<(), String> {
        let (first, others) = self.rigs.split_first().ok_or("no engine")?;
        let expected = first.contents();
        for rig in others {
            for ((name, a), (_, b)) in expected.iter().zip(rig.contents()) {
                if *a != b {
                    return Err(format!("{}: {name}\n  {a}\n  {b}", rig.way));
                }
            }
        }
        Ok(())
    }
}

/// Egress lets it go on.
fn left(meta: &Intrinsic) -> bool {
    meta.verdict() == Verdict::Forward
}

impl Lane {
    /// A packet that ingress forwards, and more copies of it where it goes to a group.
    fn replicate(&mut self, rig: &Rig, mut packet: Descriptor, group: u16) {
        if group != 0 {
            packet.path = PacketPath::Multicast as u8;
            let copies = (1..=group % 3).filter_map(|n| {
                let mut copy = rig.copy(&packet)?;
                (copy.instance, copy.egress_port) = (n, n);
                Some(copy)
            });
            self.forward.extend(copies);
        }
        self.forward.push(packet);
    }

    /// What egress left: noted if it is the first one, copied if egress asked for that, and given back unless it is to
    /// enter again.
    fn out(
        &mut self,
        rig: &mut Rig,
        mut packet: Descriptor,
        meta: &Intrinsic,
        last: &mut Option<Vec<u8>>,
    ) {
        let bytes = rig.bytes(&packet);
        if last.is_none() && left(meta) && !bytes.is_empty() {
            *last = Some(bytes[..bytes.len().min(200)].to_vec());
        }
        if meta.clone_count > 0
            && let Some(mut copy) = rig.copy(&packet)
        {
            copy.forget_headers();
            (copy.path, copy.flags) = (PacketPath::CloneEgress as u8, 0);
            self.clones.push(copy);
        }
        if left(meta) && packet.flags & flags::RECIRCULATE != 0 {
            packet.path = PacketPath::Recirculate as u8;
            return self.again.push(packet);
        }
        rig.free(packet);
    }
}

/// A packet on two rigs.
fn compare(
    (rig_a, a, a_meta): (&Rig, &mut Descriptor, &mut Intrinsic),
    (rig_b, b, b_meta): (&Rig, &mut Descriptor, &mut Intrinsic),
) -> Result<(), String> {
    if a_meta.egress_done == 1 && b_meta.egress_done == 1 {
        // Nobody looks for headers behind egress, nor for the timeout of a packet that was not held.
        b_meta.hold_timeout_ns = a_meta.hold_timeout_ns;
        (b.valid, b.body_off, b.body_len) = (a.valid, a.body_off, a.body_len);
        if a.flags & flags::RECIRCULATE == 0 {
            b.carried = a.carried;
        }
    }
    // Handles are of two memories.
    let bufs = (a.buf.take(), b.buf.take());
    let originals = (a_meta.original.take(), b_meta.original.take());
    if let (Some(one), Some(other)) = &originals {
        let (at, len) = (a_meta.original_off, a_meta.original_len);
        let (one, other) = (rig_a.frame(one, at, len), rig_b.frame(other, at, len));
        if one != other {
            return Err(format!("originals\n{}\n{}", hex(one), hex(other)));
        }
    }
    let same = *a == *b && *a_meta == *b_meta && originals.0.is_some() == originals.1.is_some();
    let results =
        if same { String::new() } else { format!("{a:?}\n{a_meta:?}\n{b:?}\n{b_meta:?}") };
    (a.buf, b.buf) = bufs;
    (a_meta.original, b_meta.original) = originals;
    if !same {
        return Err(format!("descriptors\n{results}"));
    }
    let (a, b) = (rig_a.bytes(a), rig_b.bytes(b));
    if (a_meta.verdict() != Verdict::Drop || a_meta.clone_count > 0) && a != b {
        return Err(format!("bytes\n{}\n{}", hex(a), hex(b)));
    }
    Ok(())
}
