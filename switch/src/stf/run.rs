//! Runs a script against a fresh device and reports the differences.

mod change;
mod check;
mod left;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use wireyard_pipeline::bmv2::is_bmv2;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::generation::Generation;
use wireyard_pipeline::ir::{Program, SourceFile};
use wireyard_pipeline::source::{CONFIG_BYTES_MAX, Loader, is_p4, read_bytes, read_text};
use wireyard_pipeline::trace::names::hex;
use wireyard_pipeline::trace::{Recorder, TraceSink, text};
use wireyard_tables::time::Time;

use super::compare::difference;
use super::names;
use super::script::{Line, PatternBytes, Statement, TestPort, parse};
use crate::core::PortReport;
use crate::library::LIBRARIES;
use crate::ports::{LinkType, PortNumber};
use crate::program::{DeviceOptions, EngineKind, Place, load};
use crate::replicate::Member;
use crate::sandbox::Sandbox;
pub use left::{Left, LeftError, left_by};

/// Most bytes of a script.
const SCRIPT_BYTES_MAX: u64 = 16 << 20;
/// Default number of ports of a script.
const PORTS: u16 = 8;
/// The same of a script of a P4 program: as used by scripts of p4c.
pub const PORTS_OF_P4: u16 = 32;

/// The outcome of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every expectation held.
    Passed {
        /// Packets that the script sent.
        packets: u64,
    },
    /// An expectation failed; the report has it and the reason.
    Failed(String),
    /// The script or its program cannot be used.
    Malformed(String),
}

/// Why a script stopped.
enum Stop {
    Failed(String),
    Malformed(String),
}

impl From<String> for Stop {
    fn from(message: String) -> Stop {
        Stop::Malformed(message)
    }
}

/// Options of running a script.
#[derive(Clone, Copy, Debug)]
struct How<'a> {
    engine: EngineKind,
    level: u8,
    /// Folders, macros and limits of the program.
    place: &'a Place,
    /// The text of the script, under the name that was given.
    source: &'a Arc<SourceFile>,
    /// Trace every packet. A traced packet runs in the interpreter, so a script is traced only after it failed.
    traced: bool,
}

/// Runs a script file on one engine at one optimisation level, with the folders, macros and limits of a place; the
/// script names the program.
pub fn run_file(path: &Path, engine: EngineKind, level: u8, place: &Place) -> Outcome {
    let shown = shown(path);
    let inside = crate::library::text_at(path).map(str::to_owned);
    let text = match inside.map_or_else(|| read_text(path, SCRIPT_BYTES_MAX), Ok) {
        Ok(text) => text,
        Err(error) => return Outcome::Malformed(format!("{shown}: {error}")),
    };
    let lines = match parse(&text) {
        Ok(lines) => lines,
        Err(error) => return Outcome::Malformed(format!("{shown}:{error}")),
    };
    let source = &Arc::new(SourceFile::read_from(path, text));
    let how = How { engine, level, place, source, traced: false };
    match run_lines(path, &lines, how) {
        Ok(packets) => Outcome::Passed { packets },
        Err((line, Stop::Failed(report))) => {
            match run_lines(path, &lines, How { traced: true, ..how }) {
                Err((line, Stop::Failed(report))) => {
                    Outcome::Failed(format!("{shown}:{line}: {report}"))
                }
                _ => Outcome::Failed(format!(
                    "{shown}:{line}: {report}\nwith a trace, which the interpreter does, the script \
                 passes: {} at level {level} is wrong",
                    engine.name()
                )),
            }
        }
        Err((line, Stop::Malformed(why))) => Outcome::Malformed(format!("{shown}:{line}: {why}")),
    }
}

fn run_lines(path: &Path, lines: &[Line], how: How<'_>) -> Result<u64, (usize, Stop)> {
    script_ended(path, lines, how).map(|script| script.packets)
}

fn script_ended(path: &Path, lines: &[Line], how: How<'_>) -> Result<Script, (usize, Stop)> {
    let first = lines.first().map_or(1, |line| line.number);
    let mut script = Script::start(path, lines, how).map_err(|stop| (first, stop))?;
    for line in lines {
        script.line = line.number;
        script.step(&line.statement).map_err(|stop| (script.line, stop))?;
    }
    let last = lines.last().map_or(1, |line| line.number);
    script.line = last;
    script.compare().and_then(|()| script.check_ledger()).map_err(|stop| (script.line, stop))?;
    Ok(script)
}

/// The first byte of each line.
fn starts(text: &str) -> Vec<usize> {
    let ends = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).collect()
}

/// A packet that went to the CPU port.
struct Punted {
    reason: String,
    bytes: Vec<u8>,
    cause: usize,
    expected_by_bytes: bool,
    expected_by_reason: bool,
}

/// The state of a running script.
struct Script {
    sandbox: Sandbox,
    program: Arc<Program>,
    /// Priorities of the script begin at 0, as some scripts of p4c have it: those of entries begin at 1.
    raises_priorities: bool,
    /// The program for statements about entries, without its declared entries: the tables have these, and decide.
    bare: Program,
    generation: Arc<Generation>,
    now: Time,
    source: Arc<SourceFile>,
    /// Where each line of the script begins.
    lines: Vec<usize>,
    line: usize,
    packets: u64,
    expected: Vec<(TestPort, PatternBytes, usize)>,
    drops: Vec<(String, usize)>,
    punts: Vec<(String, usize)>,
    arrived: BTreeMap<PortNumber, VecDeque<(Vec<u8>, usize)>>,
    punted: Vec<Punted>,
    drops_before: BTreeMap<String, u64>,
    /// By line of the packet, if they are requested.
    traces: Option<Vec<(usize, String)>>,
    /// The link types of ports that are not Ethernet.
    links: BTreeMap<PortNumber, LinkType>,
    nodes: Vec<(u16, Vec<PortNumber>)>,
    groups: BTreeMap<u16, (bool, Vec<Member>)>,
}

/// Whether priorities are those of P4: in a source, and in p4c's JSON for bmv2.
fn has_p4_priorities(program: &Path) -> bool {
    is_p4(program) || read_bytes(program, CONFIG_BYTES_MAX).is_ok_and(|bytes| is_bmv2(&bytes))
}

impl Script {
    fn start(path: &Path, lines: &[Line], how: How<'_>) -> Result<Script, Stop> {
        let How { engine, level, place, source, traced } = how;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut place = Place {
            program: folder.join("program.yaml"),
            entries: Some(folder.join("entries.yaml"))
                .filter(|file| Loader::new(Vec::new(), LIBRARIES).is_there(file)),
            ..place.clone()
        };
        let own = path.with_extension("p4");
        if own.is_file() {
            place.program = own;
        }
        let mut ports = None;
        let mut links = BTreeMap::new();
        for line in lines {
            match &line.statement {
                Statement::Program(file) => place.program = folder.join(file),
                Statement::Define(name, value) => place.defines.push((name.clone(), value.clone())),
                Statement::Config(file) => place.config = Some(folder.join(file)),
                Statement::Entries(file) => place.entries = file.as_ref().map(|f| folder.join(f)),
                Statement::Ports(list) => ports = Some(list.clone()),
                Statement::Link(port, link) => {
                    let known = LinkType::ALL.into_iter().find(|l| l.name() == link);
                    links.insert(*port, known.ok_or(format!("no link type `{link}`"))?);
                }
                _ => {}
            }
        }
        let mut ports: Vec<PortNumber> = ports.unwrap_or_else(|| match is_p4(&place.program) {
            true => (0..PORTS_OF_P4).map(PortNumber).collect(),
            false => (1..=PORTS).map(PortNumber).collect(),
        });
        place.no_entries = place.entries.is_none();
        let raises_priorities = has_p4_priorities(&place.program)
            && lines.iter().any(|line| names::has_priority_0(&line.statement));
        let loaded = load(&place).map_err(|rejected| rejected.to_string())?;
        let options = DeviceOptions { engine, opt_level: level, ..DeviceOptions::small() };
        let mut core = loaded.device(options).map_err(|error| error.to_string())?;
        core.outcomes_mut().listen_to_punts();
        for port in links.keys().filter(|port| !ports.contains(port)).copied().collect::<Vec<_>>() {
            ports.push(port);
        }
        let link = |port: PortNumber| links.get(&port).copied().unwrap_or(LinkType::Ethernet);
        loaded.set_queues(&mut core, &ports).map_err(|error| error.to_string())?;
        let ports: Vec<_> = ports.into_iter().map(|port| (port, link(port))).collect();
        let generation = Arc::clone(core.generation().ok_or("no program runs".to_owned())?);
        Ok(Script {
            sandbox: Sandbox::new(core, &ports).map_err(|error| error.to_string())?,
            bare: change::bare(&loaded.program),
            program: loaded.program,
            raises_priorities,
            generation,
            now: Time::ZERO,
            source: Arc::clone(source),
            lines: starts(&source.text),
            line: 0,
            packets: 0,
            expected: Vec::new(),
            drops: Vec::new(),
            punts: Vec::new(),
            arrived: BTreeMap::new(),
            punted: Vec::new(),
            drops_before: BTreeMap::new(),
            traces: traced.then(Vec::new),
            links,
            nodes: Vec::new(),
            groups: BTreeMap::new(),
        })
    }

    fn step(&mut self, statement: &Statement) -> Result<(), Stop> {
        match statement {
            Statement::Program(_)
            | Statement::Define(..)
            | Statement::Config(_)
            | Statement::Entries(_)
            | Statement::Ports(_)
            | Statement::Link(..) => {
                if self.packets > 0 {
                    return Err("this stands before the first packet: the device is made then"
                        .to_owned()
                        .into());
                }
            }
            Statement::Packet(port, bytes) => self.packet(*port, bytes)?,
            Statement::Expect(port, bytes) => {
                self.known_port(*port, "expect")?;
                self.expected.push((*port, bytes.clone(), self.line));
            }
            Statement::ExpectDrop(reason) => {
                self.known_reason(reason)?;
                self.drops.push((reason.clone(), self.line));
            }
            Statement::ExpectPunt(reason) => {
                self.known_reason(reason)?;
                self.punts.push((reason.clone(), self.line));
            }
            Statement::NoPacket => {}
            Statement::Wait(span) => {
                let ends = self.now.as_ps().checked_add(span.as_ps()).map(Time::from_ps);
                let ends = ends
                    .ok_or_else(|| "wait: all waits of a script are at most 213 days".to_owned())?;
                self.compare()?;
                self.now = ends;
                self.sandbox.run_until(self.now, None);
                self.sandbox.core.age(self.now);
                self.collect();
            }
            Statement::CongestionMark(on) => self.sandbox.core.stand_in.mark(*on),
            Statement::Trim(bytes) => self.sandbox.core.stand_in.trim(*bytes),
            other => {
                let mut statement = names::of_program(other, &self.program);
                if self.raises_priorities {
                    names::raise_priority(&mut statement);
                }
                self.change(&statement)?;
            }
        }
        Ok(())
    }

    fn known_port(&self, port: TestPort, statement: &str) -> Result<(), String> {
        match port {
            TestPort::Port(number) if !self.sandbox.has_port(number) => Err(format!(
                "{statement}: there is no {}; `ports` names them, without it there are 1 to {PORTS}, of a P4 program 0 to {}",
                show(port),
                PORTS_OF_P4 - 1
            )),
            TestPort::Port(_) | TestPort::Cpu => Ok(()),
        }
    }

    fn packet(&mut self, port: TestPort, bytes: &[u8]) -> Result<(), Stop> {
        self.known_port(port, "packet")?;
        let (found, most) = (bytes.len(), self.sandbox.core.memory().max_frame_bytes());
        if found > most as usize {
            return Err(format!("packet: {found} bytes are too many: at most {most}").into());
        }
        self.packets += 1;
        let mut recorder = Recorder::default();
        let trace = self.traces.is_some().then_some(&mut recorder as &mut dyn TraceSink);
        let sent = match port {
            TestPort::Port(port) => self.sandbox.send(port, bytes, self.now, trace),
            TestPort::Cpu => self.sandbox.send_from_cpu(bytes, self.now, trace),
        };
        if !sent {
            return Err("packet: packet memory is full: too much waits in queues"
                .to_owned()
                .into());
        }
        if let Some(traces) = &mut self.traces {
            traces.push((self.line, text::packet_trace(&self.program, &recorder.events)));
        }
        self.collect();
        Ok(())
    }

    /// Takes the packets that left the device, with the line of the packet that caused them.
    fn collect(&mut self) {
        for (port, frame) in self.sandbox.received() {
            self.arrived.entry(port).or_default().push_back((frame, self.line));
        }
        for punted in self.sandbox.core.outcomes_mut().take_punted() {
            self.punted.push(Punted {
                reason: punted.reason,
                bytes: punted.bytes,
                cause: self.line,
                expected_by_bytes: false,
                expected_by_reason: false,
            });
        }
    }

    /// Compares the packets that left since the last comparison with the expected ones. A failure is at the line that expects.
    fn compare(&mut self) -> Result<(), Stop> {
        for (port, pattern, line) in std::mem::take(&mut self.expected) {
            let next = match port {
                TestPort::Port(port) => self.arrived.get_mut(&port).and_then(VecDeque::pop_front),
                TestPort::Cpu => self.next_punted(&pattern),
            };
            let Some((frame, cause)) = next else {
                self.line = line;
                let report = format!("expected a packet on {}, none came", show(port));
                return Err(self.failed(report + &self.elsewhere(), None));
            };
            if !pattern.matches(&frame) {
                self.line = line;
                let what = format!("the packet on {} differs", show(port));
                let link = match port {
                    TestPort::Port(port) => self.links.get(&port).copied(),
                    TestPort::Cpu => None,
                };
                let link = link.unwrap_or(LinkType::Ethernet) as u8;
                let bytes = difference(&self.program, &pattern, &frame, link);
                let report = format!("{what}\n{bytes}");
                return Err(self.failed(report, Some(cause)));
            }
        }
        let next =
            |(port, queue): (&PortNumber, &mut VecDeque<_>)| Some((*port, queue.pop_front()?));
        if let Some((port, (frame, cause))) = self.arrived.iter_mut().find_map(next) {
            let port = show(TestPort::Port(port));
            let report = format!("a packet on {port} was not expected: {}", hex(&frame));
            return Err(self.failed(report, Some(cause)));
        }
        self.compare_punts()?;
        self.compare_drops()?;
        self.traces.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// Packets that came out and that no comparison has taken.
    fn elsewhere(&self) -> String {
        let waiting = self.arrived.iter().filter(|(_, queue)| !queue.is_empty());
        let ports: Vec<String> =
            waiting.map(|(port, queue)| format!("{} on port {port}", queue.len())).collect();
        match ports.is_empty() {
            true => String::new(),
            false => format!("; packets that came: {}", ports.join(", ")),
        }
    }

    /// The next packet on the CPU port with these bytes, behind those that were expected by theirs; without one, the
    /// next of any bytes, for the report.
    fn next_punted(&mut self, pattern: &PatternBytes) -> Option<(Vec<u8>, usize)> {
        let from = self.punted.iter().rposition(|p| p.expected_by_bytes).map_or(0, |at| at + 1);
        let behind = self.punted.get_mut(from..)?;
        let place = behind.iter().position(|p| pattern.matches(&p.bytes)).unwrap_or(0);
        let found = behind.get_mut(place)?;
        found.expected_by_bytes = true;
        Some((found.bytes.clone(), found.cause))
    }

    /// Each punted packet is expected by its reason, by its bytes, or by both.
    fn compare_punts(&mut self) -> Result<(), Stop> {
        for (reason, line) in std::mem::take(&mut self.punts) {
            let free = |p: &&mut Punted| !p.expected_by_reason && p.reason == reason;
            let Some(found) = self.punted.iter_mut().find(free) else {
                let reasons: Vec<&str> = self.punted.iter().map(|p| p.reason.as_str()).collect();
                let report = format!("no packet was punted for `{reason}`, but for {reasons:?}");
                self.line = line;
                return Err(self.failed(report, None));
            };
            found.expected_by_reason = true;
        }
        for punted in std::mem::take(&mut self.punted) {
            if !punted.expected_by_bytes && !punted.expected_by_reason {
                let (reason, bytes) = (punted.reason, hex(&punted.bytes));
                let report = format!("a packet was punted for `{reason}`: {bytes}");
                return Err(self.failed(report, Some(punted.cause)));
            }
        }
        Ok(())
    }

    fn compare_drops(&mut self) -> Result<(), Stop> {
        let dropped: BTreeMap<String, u64> =
            self.sandbox.core.report().dropped.into_iter().collect();
        let mut wanted: BTreeMap<String, (u64, usize)> = BTreeMap::new();
        for (reason, line) in std::mem::take(&mut self.drops) {
            let count = wanted.entry(reason).or_insert((0, line));
            count.0 += 1;
        }
        for (reason, (count, line)) in wanted {
            let before = self.drops_before.get(&reason).copied().unwrap_or(0);
            let now = dropped.get(&reason).copied().unwrap_or(0);
            if now - before < count {
                let report = format!(
                    "{} packets were dropped for `{reason}`, {count} expected; drops so far: {dropped:?}",
                    now - before
                );
                self.line = line;
                return Err(self.failed(report, None));
            }
        }
        self.drops_before = dropped;
        Ok(())
    }

    fn failed(&self, mut report: String, cause: Option<usize>) -> Stop {
        let traces = self.traces.as_deref().unwrap_or_default();
        let cause = cause.or(traces.last().map(|(line, _)| *line));
        for (line, trace) in traces.iter().filter(|(line, _)| Some(*line) == cause) {
            report.push_str(&format!("\nthe packet of line {line}:\n{trace}"));
        }
        Stop::Failed(report)
    }

    fn check_ledger(&mut self) -> Result<(), Stop> {
        let reports = PortReport::all(&mut self.sandbox.core);
        let wrong = reports.iter().find(|report| !report.ledger.balanced);
        match wrong {
            None => Ok(()),
            Some(report) => Err(self.failed(format!("packets do not add up: {report:?}"), None)),
        }
    }
}

fn show(port: TestPort) -> String {
    match port {
        TestPort::Port(port) => format!("port {port}"),
        TestPort::Cpu => "the CPU port".into(),
    }
}
