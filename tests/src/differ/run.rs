//! Runs a case on every engine at every level and says where they differ.

use std::path::Path;
use std::sync::Arc;

use wireyard_pipeline::check::{ExternRegistry, compile};
use wireyard_pipeline::diag::{Diagnostics, render};
use wireyard_pipeline::entries::{self, Resolved};
use wireyard_pipeline::exec::{Descriptor, Intrinsic, PacketPath, Verdict, flags};
use wireyard_pipeline::ir::Program;
use wireyard_pipeline::source::{Loader, parse_entries, parse_program};

use super::Case;
use super::rig::{Pass, Rig, Way};

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

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All engines agree; so many packets made their whole way on the compiled engine
    /// at some level, each held against the interpreter.
    Agree {
        /// Packets times levels of the compiled engine.
        executions: u64,
        /// Packets that came to the end of egress.
        forwarded: u64,
    },
    /// They do not.
    Differ(String),
    /// The front end, or the loading of tables, refuses the program.
    Refused(String),
}

/// Compiles a case.
///
/// # Errors
/// Everything that is wrong with the program or its entries.
pub fn compiled(case: &Case) -> Result<(Arc<Program>, Option<Resolved>), String> {
    let mut files = vec![("p.yaml".to_owned(), case.program.to_string())];
    files.extend(case.entries.as_ref().map(|entries| ("e.yaml".to_owned(), entries.to_string())));
    let loader = Loader::in_memory(files, &[]);
    let parsed = parse_program(Path::new("p.yaml"), &loader).map_err(|e| e.to_string())?;
    let program = compile(&parsed, &ExternRegistry::new())
        .map_err(|found| render::plain(&found, &parsed.files))?;
    let program = Arc::new(program.program);
    if case.entries.is_none() {
        return Ok((program, None));
    }
    let (mut files, mut found) = (parsed.files, Diagnostics::new());
    let read = parse_entries(Path::new("e.yaml"), &loader, &mut files, &mut found);
    let resolved = read.and_then(|ast| entries::resolve(&ast, &program, &mut found));
    match found.has_errors() {
        true => Err(render::plain(&found, &files)),
        false => Ok((program, resolved)),
    }
}

/// Runs a case.
pub fn run(case: &Case) -> Outcome {
    let (program, entries) = match compiled(case) {
        Ok(compiled) => compiled,
        Err(why) => return Outcome::Refused(why),
    };
    let mut rigs = Vec::new();
    for way in WAYS {
        match Rig::new(&program, entries.as_ref(), way) {
            Ok(rig) => rigs.push(rig),
            Err(why) => return Outcome::Refused(why),
        }
    }
    let mut bench = Bench {
        rigs,
        traced: case.traced,
        through: case.through,
        executions: 0,
        forwarded: 0,
        last: vec![0; 64],
    };
    let ended = bench.packets(case).and_then(|()| bench.contents());
    match ended {
        Ok(()) => Outcome::Agree { executions: bench.executions, forwarded: bench.forwarded },
        Err(report) => Outcome::Differ(report),
    }
}

/// All rigs side by side.
struct Bench {
    rigs: Vec<Rig>,
    traced: usize,
    through: bool,
    executions: u64,
    forwarded: u64,
    /// What the last packet that was forwarded left as.
    last: Vec<u8>,
}

/// The same packets on each rig: by rig, then by packet.
type Lanes = Vec<Vec<Descriptor>>;

impl Bench {
    fn packets(&mut self, case: &Case) -> Result<(), String> {
        let mut now = 0;
        for burst in case.packets.chunks(case.burst.max(1)) {
            let mut lanes: Lanes = self.rigs.iter().map(|_| Vec::new()).collect();
            for packet in burst {
                now += 1_000;
                let bytes = if packet.bytes.is_empty() { &self.last } else { &packet.bytes };
                for (rig, lane) in self.rigs.iter_mut().zip(&mut lanes) {
                    let received = rig.receive(bytes, packet.port, now + lane.len() as u64);
                    lane.push(received.ok_or("no chunk is left: one was lost")?);
                }
            }
            // The compiled engine at each of its levels.
            self.executions += 3 * burst.len() as u64;
            let mark = burst.iter().any(|packet| packet.mark);
            self.burst(lanes, mark)?;
        }
        Ok(())
    }

    /// A burst through ingress, again as often as it asks, and through egress.
    fn burst(&mut self, mut lanes: Lanes, mark: bool) -> Result<(), String> {
        for _ in 0..ROUNDS {
            let Sorted { forward, again } = self.ingress(lanes, mark)?;
            let recirculated = self.egress(forward, mark)?;
            lanes = again.into_iter().zip(recirculated).map(|(a, b)| join(a, b)).collect();
            if lanes.iter().all(Vec::is_empty) {
                break;
            }
        }
        for (rig, lane) in self.rigs.iter_mut().zip(lanes) {
            lane.into_iter().for_each(|packet| rig.free(packet));
        }
        Ok(())
    }

    fn ingress(&mut self, mut lanes: Lanes, mark: bool) -> Result<Sorted, String> {
        let pass = if self.through { Pass::Through } else { Pass::Ingress };
        let metas = self.pass(&mut lanes, pass, mark)?;
        let mut sorted = Sorted { forward: Vec::new(), again: Vec::new() };
        let mut last = None;
        for ((rig, lane), metas) in self.rigs.iter_mut().zip(lanes).zip(metas) {
            let (mut forward, mut again) = (Vec::new(), Vec::new());
            for (mut packet, mut meta) in lane.into_iter().zip(metas) {
                if meta.left == 1 {
                    self.forwarded += u64::from(rig.way == WAYS[0] && left(&meta));
                    again.extend(out(rig, packet, &meta, &mut last));
                    continue;
                }
                if let Some(original) = meta.original.take() {
                    let mut clone = packet.with_buf(original);
                    (clone.data_off, clone.len) = (meta.original_off, meta.original_len);
                    clone.forget_headers();
                    clone.path = PacketPath::CloneIngress as u8;
                    forward.push(clone);
                }
                match meta.verdict() {
                    Verdict::Forward => forward.push(packet),
                    Verdict::Resubmit => {
                        packet.path = PacketPath::Resubmit as u8;
                        again.push(packet);
                    }
                    Verdict::Drop | Verdict::Punt => rig.free(packet),
                }
            }
            sorted.forward.push(forward);
            sorted.again.push(again);
        }
        self.last = last.unwrap_or(std::mem::take(&mut self.last));
        Ok(sorted)
    }

    /// Egress; returns what enters ingress again.
    fn egress(&mut self, mut lanes: Lanes, mark: bool) -> Result<Lanes, String> {
        let metas = self.pass(&mut lanes, Pass::Egress, mark)?;
        let first = metas.first().into_iter().flatten();
        self.forwarded += first.filter(|meta| left(meta)).count() as u64;
        let mut last = None;
        let mut again = Vec::new();
        for ((rig, lane), metas) in self.rigs.iter_mut().zip(lanes).zip(metas) {
            let packets = lane.into_iter().zip(metas);
            again.push(packets.filter_map(|(p, meta)| out(rig, p, &meta, &mut last)).collect());
        }
        self.last = last.unwrap_or(std::mem::take(&mut self.last));
        Ok(again)
    }

    /// A pass of a burst on every rig, compared.
    fn pass(
        &mut self,
        lanes: &mut Lanes,
        pass: Pass,
        mark: bool,
    ) -> Result<Vec<Vec<Intrinsic>>, String> {
        let traced = self.traced;
        let mut metas = Vec::new();
        let mut stories = Vec::new();
        for (rig, lane) in self.rigs.iter_mut().zip(lanes.iter_mut()) {
            let meta = |packet: &Descriptor| Intrinsic {
                now_ns: packet.ingress_ns + 500,
                enqueue_ns: packet.ingress_ns + 100,
                dequeue_ns: packet.ingress_ns + 200,
                enqueue_depth_bytes: packet.len * 3,
                dequeue_depth_bytes: packet.len,
                congestion_mark: (pass != Pass::Ingress && mark).into(),
                ..Intrinsic::default()
            };
            let mut meta: Vec<Intrinsic> = lane.iter().map(meta).collect();
            stories.push(rig.run(lane, &mut meta, pass, traced));
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

/// What becomes of the packets of ingress, by rig.
struct Sorted {
    forward: Lanes,
    again: Lanes,
}

fn join(mut a: Vec<Descriptor>, b: Vec<Descriptor>) -> Vec<Descriptor> {
    a.extend(b);
    a
}

/// Egress lets it go on.
fn left(meta: &Intrinsic) -> bool {
    meta.verdict() == Verdict::Forward
}

/// What egress left: noted if it is the first one, and given back if it is to enter again.
fn out(
    rig: &mut Rig,
    mut packet: Descriptor,
    meta: &Intrinsic,
    last: &mut Option<Vec<u8>>,
) -> Option<Descriptor> {
    let bytes = rig.bytes(&packet);
    if last.is_none() && left(meta) && !bytes.is_empty() {
        *last = Some(bytes[..bytes.len().min(200)].to_vec());
    }
    if left(meta) && packet.flags & flags::RECIRCULATE != 0 {
        packet.path = PacketPath::Recirculate as u8;
        return Some(packet);
    }
    rig.free(packet);
    None
}

/// A packet on two rigs.
fn compare(
    (rig_a, a, a_meta): (&Rig, &mut Descriptor, &mut Intrinsic),
    (rig_b, b, b_meta): (&Rig, &mut Descriptor, &mut Intrinsic),
) -> Result<(), String> {
    if a_meta.left == 1 && b_meta.left == 1 {
        // Nobody looks for headers behind egress.
        (b.valid, b.body_off, b.body_len) = (a.valid, a.body_off, a.body_len);
        if a.flags & flags::RECIRCULATE == 0 {
            b.carried = a.carried;
        }
    }
    // Handles are of two memories.
    let bufs = (a.buf.take(), b.buf.take());
    let originals = (a_meta.original.take(), b_meta.original.take());
    let same = *a == *b && *a_meta == *b_meta && originals.0.is_some() == originals.1.is_some();
    let told = if same { String::new() } else { format!("{a:?}\n{a_meta:?}\n{b:?}\n{b_meta:?}") };
    (a.buf, b.buf) = bufs;
    (a_meta.original, b_meta.original) = originals;
    if !same {
        return Err(format!("descriptors\n{told}"));
    }
    let (a, b) = (rig_a.bytes(a), rig_b.bytes(b));
    if a_meta.verdict() != Verdict::Drop && a != b {
        return Err(format!("bytes\n{}\n{}", super::file::hex(a), super::file::hex(b)));
    }
    Ok(())
}
