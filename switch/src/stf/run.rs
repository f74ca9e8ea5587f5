//! Runs a script against a fresh device and says what differed.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wireyard_pipeline::entries::Resolved;
use wireyard_pipeline::generation::Generation;
use wireyard_pipeline::ids::RegisterId;
use wireyard_pipeline::ir::{CPU_PORT, Program, SourceFile};
use wireyard_pipeline::trace::{Recorder, TraceSink, text};
use wireyard_tables::time::Time;
use wireyard_tables::{BatchError, EntryError, Update};

use super::compare::difference;
use super::entry::{Known, Statement as Entries, did_you_mean};
use super::script::{
    Comparison, CounterName, EntryText, Line, PatternBytes, Statement, TestPort, parse,
};
use crate::ports::LinkType;
use crate::program::{DeviceOptions, EngineKind, Place, load};
use crate::replicate::{Group, Member, Members, Session};
use crate::sandbox::Sandbox;

/// Ports that a script has when it names none.
const PORTS: u16 = 8;

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every expectation held.
    Passed {
        /// Packets that the script sent.
        packets: u64,
    },
    /// An expectation did not hold; the report says which and why.
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

/// How a script is run.
#[derive(Clone, Copy, Debug)]
struct How<'a> {
    engine: EngineKind,
    level: u8,
    include: &'a [PathBuf],
    /// The text of the script, under the name that it was given by.
    source: &'a Arc<SourceFile>,
    /// Tell the story of every packet. A packet that is traced is done by the interpreter, so that a
    /// script is told only after it failed.
    told: bool,
}

/// Runs a script file on one engine at one optimisation level.
pub fn run_file(path: &Path, engine: EngineKind, level: u8, include: &[PathBuf]) -> Outcome {
    let shown = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return Outcome::Malformed(format!("{shown}: {error}")),
    };
    let lines = match parse(&text) {
        Ok(lines) => lines,
        Err(error) => return Outcome::Malformed(format!("{shown}:{error}")),
    };
    let source = &Arc::new(SourceFile { name: shown.to_string(), text });
    let how = How { engine, level, include, source, told: false };
    match run_lines(path, &lines, how) {
        Ok(packets) => Outcome::Passed { packets },
        Err((line, Stop::Failed(report))) => {
            match run_lines(path, &lines, How { told: true, ..how }) {
                Err((line, Stop::Failed(told))) => {
                    Outcome::Failed(format!("{shown}:{line}: {told}"))
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
    let first = lines.first().map_or(1, |line| line.number);
    let mut script = Script::start(path, lines, how).map_err(|stop| (first, stop))?;
    for line in lines {
        script.line = line.number;
        script.step(&line.statement).map_err(|stop| (line.number, stop))?;
    }
    let last = lines.last().map_or(1, |line| line.number);
    script.compare().and_then(|()| script.check_ledger()).map_err(|stop| (last, stop))?;
    Ok(script.packets)
}

/// A packet that went to the CPU port.
struct Punted {
    reason: String,
    bytes: Vec<u8>,
    cause: usize,
    expected_by_bytes: bool,
    expected_by_reason: bool,
}

/// A script under way.
struct Script {
    sandbox: Sandbox,
    program: Arc<Program>,
    /// The program as statements about entries see it: what it declares is in the tables, which decide.
    bare: Program,
    generation: Arc<Generation>,
    now: Time,
    source: Arc<SourceFile>,
    line: usize,
    packets: u64,
    expected: Vec<(TestPort, PatternBytes, usize)>,
    drops: Vec<(String, usize)>,
    punts: Vec<(String, usize)>,
    arrived: BTreeMap<u16, VecDeque<(Vec<u8>, usize)>>,
    punted: Vec<Punted>,
    drops_before: BTreeMap<String, u64>,
    /// By line of the packet, when they are wanted.
    stories: Option<Vec<(usize, String)>>,
    nodes: Vec<(u16, Vec<u16>)>,
    groups: BTreeMap<u16, (bool, Vec<Member>)>,
}

impl Script {
    fn start(path: &Path, lines: &[Line], how: How<'_>) -> Result<Script, Stop> {
        let How { engine, level, include, source, told } = how;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut place = Place {
            program: folder.join("program.yaml"),
            include: include.to_vec(),
            entries: Some(folder.join("entries.yaml")).filter(|file| file.is_file()),
            ..Place::default()
        };
        let mut ports: Vec<u16> = (1..=PORTS).collect();
        let mut links = BTreeMap::new();
        for line in lines {
            match &line.statement {
                Statement::Program(file) => place.program = folder.join(file),
                Statement::Config(file) => place.config = Some(folder.join(file)),
                Statement::Entries(file) => place.entries = file.as_ref().map(|f| folder.join(f)),
                Statement::Ports(list) => ports = list.clone(),
                Statement::Link(port, link) => {
                    let known = LinkType::ALL.into_iter().find(|l| l.name() == link);
                    links.insert(*port, known.ok_or(format!("no link type `{link}`"))?);
                }
                _ => {}
            }
        }
        place.no_entries = place.entries.is_none();
        let loaded = load(&place).map_err(|rejected| rejected.to_string())?;
        let options = DeviceOptions { engine, opt_level: level, ..DeviceOptions::small() };
        let mut core = loaded.device(options)?;
        core.listen_to_punts();
        for port in links.keys().filter(|port| !ports.contains(port)).copied().collect::<Vec<_>>() {
            ports.push(port);
        }
        let link = |port: u16| links.get(&port).copied().unwrap_or(LinkType::Ethernet);
        loaded.set_queues(&mut core, &ports)?;
        let ports: Vec<_> = ports.into_iter().map(|port| (port, link(port))).collect();
        let generation = Arc::clone(core.generation().ok_or("no program runs".to_owned())?);
        Ok(Script {
            sandbox: Sandbox::new(core, &ports)?,
            bare: bare(&loaded.program),
            program: loaded.program,
            generation,
            now: Time::ZERO,
            source: Arc::clone(source),
            line: 0,
            packets: 0,
            expected: Vec::new(),
            drops: Vec::new(),
            punts: Vec::new(),
            arrived: BTreeMap::new(),
            punted: Vec::new(),
            drops_before: BTreeMap::new(),
            stories: told.then(Vec::new),
            nodes: Vec::new(),
            groups: BTreeMap::new(),
        })
    }

    fn step(&mut self, statement: &Statement) -> Result<(), Stop> {
        match statement {
            Statement::Program(_)
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
                self.compare()?;
                self.now += *span;
                self.sandbox.run_until(self.now, None);
                self.sandbox.core.age(self.now);
                self.collect();
            }
            Statement::CongestionMark(on) => self.sandbox.core.mark_all = *on,
            other => self.change(other)?,
        }
        Ok(())
    }

    fn change(&mut self, statement: &Statement) -> Result<(), Stop> {
        let known = self.known()?;
        let entries = || Entries::new(&self.bare, &known, &self.source, self.line);
        match statement {
            Statement::Add(entry) => {
                let resolved = entries().one_entry(entry)?;
                self.apply(resolved)
            }
            Statement::SetDefault(table, action) => {
                let resolved = entries().default(table, action)?;
                self.apply(resolved)
            }
            Statement::Member(table, id, action) => {
                let resolved = entries().member(table, *id, action)?;
                self.apply(resolved)
            }
            Statement::Group(table, id, members) => {
                let resolved = entries().group(table, *id, members)?;
                self.apply(resolved)
            }
            Statement::ValueSet(name, values) => {
                let resolved = entries().value_set(name, values)?;
                self.apply(resolved)
            }
            Statement::Register(name, index, cell, value) => {
                let resolved = entries().register(name, *index, cell.as_deref(), *value)?;
                self.apply(resolved)
            }
            Statement::Remove(entry) => self.remove(entry),
            Statement::RemoveAll => self.remove_all(),
            Statement::GroupCreate(id, prune) => {
                self.groups.insert(*id, (*prune, Vec::new()));
                self.publish_group(*id)
            }
            Statement::NodeCreate(instance, ports) => {
                self.nodes.push((*instance, ports.clone()));
                Ok(())
            }
            Statement::NodeAssociate(group, node) => self.associate(*group, *node),
            Statement::Mirror(id, port) => {
                if *port != CPU_PORT {
                    self.known_port(TestPort::Port(*port), "mirroring_add")?;
                }
                let session =
                    Session { port: *port, instance: *id, traffic_class: None, truncate_bytes: 0 };
                self.sandbox.core.replication.set_session(*id, session);
                Ok(())
            }
            other => self.check(other),
        }
    }

    /// Members and groups that selectors have now.
    fn known(&self) -> Result<Known, Stop> {
        let tables = self.generation.state.tables();
        let mut known = Known::new();
        let snapshot = tables.snapshot();
        for (id, table) in self.program.tables.entries() {
            let view = snapshot.table(wireyard_tables::TableId(id.0));
            let Some(profile) = view.and_then(|view| view.profile()) else { continue };
            let ids = |e: wireyard_tables::EntryError| e.to_string();
            let members = tables.members(profile).map_err(ids)?.into_iter().map(|(id, _)| id);
            let groups = tables.groups(profile).map_err(ids)?.into_iter().map(|(id, _)| id);
            known.insert(table.name.clone(), (members.collect(), groups.collect()));
        }
        Ok(known)
    }

    fn apply(&mut self, resolved: Resolved) -> Result<(), Stop> {
        self.batch(&resolved.updates)?;
        let rest = Resolved { updates: Vec::new(), ..resolved };
        Ok(rest.apply(&self.generation.state)?)
    }

    fn one_entry(&self, entry: &EntryText) -> Result<Resolved, Stop> {
        let known = self.known()?;
        Ok(Entries::new(&self.bare, &known, &self.source, self.line).one_entry(entry)?)
    }

    fn remove(&mut self, entry: &EntryText) -> Result<(), Stop> {
        let resolved = self.one_entry(entry)?;
        let delete = |update: &Update| match update {
            Update::Insert(table, entry) => {
                Some(Update::Delete(*table, entry.matches.clone(), entry.priority))
            }
            _ => None,
        };
        let updates: Vec<Update> = resolved.updates.iter().filter_map(delete).collect();
        self.batch(&updates)
    }

    fn remove_all(&mut self) -> Result<(), Stop> {
        let tables = self.generation.state.tables();
        let mut updates = Vec::new();
        for (id, table) in self.program.tables.entries().filter(|(_, t)| !t.const_entries) {
            let id = wireyard_tables::TableId(id.0);
            let entries = tables.entries(id).map_err(|e| format!("{}: {e}", table.name))?;
            updates.extend(
                entries.into_iter().map(|(_, e)| Update::Delete(id, e.matches, e.priority)),
            );
        }
        self.batch(&updates)
    }

    fn batch(&mut self, updates: &[Update]) -> Result<(), Stop> {
        self.sandbox.core.rest();
        let done = self.generation.state.tables().batch(updates, self.now);
        done.map(|_| ()).map_err(|BatchError { name, error, .. }| match error {
            EntryError::NotFound => format!("{name}: there is no such entry").into(),
            error => format!("{name}: {error}").into(),
        })
    }

    fn associate(&mut self, group: u16, node: usize) -> Result<(), Stop> {
        let (instance, ports) =
            self.nodes.get(node).cloned().ok_or(format!("there is no node {node}"))?;
        let (_, members) =
            self.groups.get_mut(&group).ok_or(format!("there is no group {group}"))?;
        members.extend(ports.into_iter().map(|port| Member { port, instance }));
        self.publish_group(group)
    }

    fn publish_group(&mut self, id: u16) -> Result<(), Stop> {
        let Some((prune_ingress, members)) = self.groups.get(&id).cloned() else { return Ok(()) };
        let group = Group { members: Members::List(members), prune_ingress };
        Ok(self.sandbox.core.replication.set_group(id, group)?)
    }

    fn known_port(&self, port: TestPort, statement: &str) -> Result<(), String> {
        match port {
            TestPort::Port(number) if !self.sandbox.has_port(number) => Err(format!(
                "{statement}: there is no {}; `ports` names them, without it there are 1 to {PORTS}",
                show(port)
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
        let trace = self.stories.is_some().then_some(&mut recorder as &mut dyn TraceSink);
        let sent = match port {
            TestPort::Port(port) => self.sandbox.send(port, bytes, self.now, trace),
            TestPort::Cpu => self.sandbox.send_from_cpu(bytes, self.now, trace),
        };
        if !sent {
            return Err("packet: packet memory is full: too much waits in queues"
                .to_owned()
                .into());
        }
        if let Some(stories) = &mut self.stories {
            stories.push((self.line, text::story(&self.program, &recorder.events)));
        }
        self.collect();
        Ok(())
    }

    /// Takes what left the device, with the line of the packet that caused it.
    fn collect(&mut self) {
        for (port, frame) in self.sandbox.received() {
            self.arrived.entry(port).or_default().push_back((frame, self.line));
        }
        for punted in self.sandbox.core.take_punted() {
            self.punted.push(Punted {
                reason: punted.reason,
                bytes: punted.bytes,
                cause: self.line,
                expected_by_bytes: false,
                expected_by_reason: false,
            });
        }
    }

    /// Compares what left since the last time with what was expected.
    fn compare(&mut self) -> Result<(), Stop> {
        for (port, pattern, line) in std::mem::take(&mut self.expected) {
            let next = match port {
                TestPort::Port(port) => self.arrived.get_mut(&port).and_then(VecDeque::pop_front),
                TestPort::Cpu => self.next_punted(&pattern),
            };
            let Some((frame, cause)) = next else {
                let report = format!("line {line}: expected a packet on {}, none came", show(port));
                return Err(self.failed(report, None));
            };
            if !pattern.matches(&frame) {
                let what = format!("line {line}: the packet on {} differs", show(port));
                let report = format!("{what}\n{}", difference(&self.program, &pattern, &frame));
                return Err(self.failed(report, Some(cause)));
            }
        }
        let next = |(port, queue): (&u16, &mut VecDeque<_>)| Some((*port, queue.pop_front()?));
        if let Some((port, (frame, cause))) = self.arrived.iter_mut().find_map(next) {
            let port = show(TestPort::Port(port));
            let report = format!("a packet on {port} was not expected: {}", hex(&frame));
            return Err(self.failed(report, Some(cause)));
        }
        self.compare_punts()?;
        self.compare_drops()?;
        self.stories.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// The next packet on the CPU port with these bytes; without one, the next at all, to show.
    fn next_punted(&mut self, pattern: &PatternBytes) -> Option<(Vec<u8>, usize)> {
        let free = |p: &&mut Punted| !p.expected_by_bytes;
        let place =
            self.punted.iter().position(|p| !p.expected_by_bytes && pattern.matches(&p.bytes));
        let found = match place {
            Some(place) => self.punted.get_mut(place),
            None => self.punted.iter_mut().find(free),
        }?;
        found.expected_by_bytes = true;
        Some((found.bytes.clone(), found.cause))
    }

    /// Each punted packet is expected by its reason, by its bytes, or by both.
    fn compare_punts(&mut self) -> Result<(), Stop> {
        for (reason, line) in std::mem::take(&mut self.punts) {
            let free = |p: &&mut Punted| !p.expected_by_reason && p.reason == reason;
            let Some(found) = self.punted.iter_mut().find(free) else {
                let reasons: Vec<&str> = self.punted.iter().map(|p| p.reason.as_str()).collect();
                let report = format!(
                    "line {line}: no packet was punted for `{reason}`, but for {reasons:?}"
                );
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
                    "line {line}: {} packets were dropped for `{reason}`, {count} expected; drops \
                     so far: {dropped:?}",
                    now - before
                );
                return Err(self.failed(report, None));
            }
        }
        self.drops_before = dropped;
        Ok(())
    }

    fn failed(&self, mut report: String, cause: Option<usize>) -> Stop {
        let stories = self.stories.as_deref().unwrap_or_default();
        let cause = cause.or(stories.last().map(|(line, _)| *line));
        for (line, story) in stories.iter().filter(|(line, _)| Some(*line) == cause) {
            report.push_str(&format!("\nthe packet of line {line}:\n{story}"));
        }
        Stop::Failed(report)
    }

    fn check(&mut self, statement: &Statement) -> Result<(), Stop> {
        let (what, found, wanted) = match statement {
            Statement::CheckCounter(name, bytes, wanted) => {
                (format!("{name:?}"), self.counter(name, *bytes)?, *wanted)
            }
            Statement::CheckDrops(reason, wanted) => {
                self.known_reason(reason)?;
                (format!("drops for `{reason}`"), self.sandbox.core.drops(reason), *wanted)
            }
            Statement::CheckPunts(reason, wanted) => {
                self.known_reason(reason)?;
                (format!("punts for `{reason}`"), self.sandbox.core.consumed(reason), *wanted)
            }
            Statement::CheckParserErrors(name, wanted) => {
                (format!("parser errors `{name}`"), self.parser_errors(name)?, *wanted)
            }
            Statement::CheckRegister(name, index, cell, wanted) => {
                (format!("{name}({index})"), self.register(name, *index, cell.as_deref())?, *wanted)
            }
            Statement::CheckEntries(name, wanted) => {
                (format!("entries of {name}"), self.entries(name)?, *wanted)
            }
            other => return Err(format!("{other:?} is not a check").into()),
        };
        self.holds(&what, found, wanted)
    }

    /// A reason that nobody has is a spelling mistake: it would count 0 for ever.
    fn known_reason(&self, name: &str) -> Result<(), String> {
        let reasons = self.program.reasons.iter().map(String::as_str);
        let mut all = reasons.chain(self.sandbox.core.reasons());
        if all.any(|known| known == name) {
            return Ok(());
        }
        let reasons = self.program.reasons.iter().map(String::as_str);
        let all = reasons.chain(self.sandbox.core.reasons());
        Err(did_you_mean(format!("there is no reason `{name}`"), name, all))
    }

    fn holds(&self, what: &str, found: u64, wanted: Comparison) -> Result<(), Stop> {
        if wanted.holds(found) {
            return Ok(());
        }
        Err(self.failed(format!("{what} is {found}, expected {wanted}"), None))
    }

    fn counter(&self, name: &CounterName, bytes: bool) -> Result<u64, Stop> {
        let count = match name {
            CounterName::Indexed(name, index) => {
                let id = self.program.counters.entries().find(|(_, c)| c.name == *name);
                let id = id.map(|(id, _)| id).ok_or(format!("there is no counter `{name}`"))?;
                let array = self.generation.state.counter(id);
                let last = self.program.counters[id].size.saturating_sub(1);
                array
                    .and_then(|a| a.read(*index as usize))
                    .ok_or(format!("counter `{name}` counts at 0 to {last}, not at {index}"))?
            }
            CounterName::Direct(entry) => {
                let resolved = self.one_entry(entry)?;
                let Some(Update::Insert(table, wanted)) = resolved.updates.first() else {
                    return Err(format!("{} has no such entry", entry.table).into());
                };
                let tables = self.generation.state.tables();
                let found = tables.entry(*table, &wanted.matches, wanted.priority);
                let (slot, _) = found.map_err(|error| match error {
                    EntryError::NotFound => format!("{}: there is no such entry", entry.table),
                    error => format!("{}: {error}", entry.table),
                })?;
                let snapshot = tables.snapshot();
                let view = snapshot.table(*table).and_then(|view| view.counters());
                let counters = view.ok_or(format!("{} counts nothing", entry.table))?;
                counters.read(slot.0 as usize).ok_or("no such counter".to_owned())?
            }
        };
        Ok(if bytes { count.bytes } else { count.packets })
    }

    fn parser_errors(&self, name: &str) -> Result<u64, Stop> {
        let id = self.program.errors.iter().position(|error| error == name);
        let id = id.ok_or(format!("there is no parser error `{name}`"))?;
        let count = self.generation.state.tallies().parser_errors.read(id);
        Ok(count.map_or(0, |count| count.packets))
    }

    fn register(&self, name: &str, index: u64, cell: Option<&str>) -> Result<u64, Stop> {
        let found = self.program.registers.entries().find(|(_, r)| r.name == name);
        let (id, declared): (RegisterId, _) = found.ok_or(format!("no register `{name}`"))?;
        let cell = cell.unwrap_or("value");
        let place = declared.cells.iter().position(|c| c.name == cell);
        let place = place.ok_or(format!("{name} has no cell `{cell}`"))?;
        let array = self.generation.state.register(id);
        let value = array.and_then(|array| array.load(index, place));
        Ok(value.ok_or(format!("{name} has {} entries", declared.size))?)
    }

    fn entries(&self, name: &str) -> Result<u64, Stop> {
        let tables = self.generation.state.tables();
        let id = tables.find_table(name).ok_or(format!("there is no table `{name}`"))?;
        Ok(tables.entries(id).map_err(|e| e.to_string())?.len() as u64)
    }

    fn check_ledger(&mut self) -> Result<(), Stop> {
        let reports = self.sandbox.core.port_reports();
        let wrong = reports.iter().find(|report| !report.ledger.balanced);
        match wrong {
            None => Ok(()),
            Some(report) => Err(self.failed(format!("packets do not add up: {report:?}"), None)),
        }
    }
}

/// A program without entries of its own, all of whose tables can be asked about.
fn bare(program: &Program) -> Program {
    let mut bare = program.clone();
    for table in bare.tables.iter_mut() {
        table.entries.clear();
        table.const_entries = false;
    }
    bare
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn show(port: TestPort) -> String {
    match port {
        TestPort::Port(port) => format!("port {port}"),
        TestPort::Cpu => "the CPU port".into(),
    }
}
