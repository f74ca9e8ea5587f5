//! A program on disk: the program file, its entries and its switch configuration, read together.

mod error;
mod swap;
mod weak;

use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wireyard_pipeline::check::compile_within;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::{Diagnostic, Diagnostics, Files, Rejected, codes, suggest};
use wireyard_pipeline::engine::Engine;
use wireyard_pipeline::entries::{self, Resolved};
use wireyard_pipeline::generation::{Executor, Loader as Generations, MakeEngine};
use wireyard_pipeline::interp::Interp;
use wireyard_pipeline::ir::Program;
use wireyard_pipeline::jit;
use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_pipeline::passes;
use wireyard_pipeline::source::{EMBEDDED, Loader, Parsed, is_p4, parse_program};
use wireyard_pipeline::state::size::{self, STATE_BYTES_MAX};
use wireyard_pipeline::state::{State, StateOptions};

use crate::config::SwitchConfig;
use crate::config::qos::WorkerShare;
use crate::config::room::{Holders, Room};
use crate::control::Control;
use crate::core::{Core, Generator, Mesh};
use crate::device::{self, notify::Notifier};
use crate::file_kind::{self, FileKind};
use crate::library::{self, LIBRARIES, program_path};
use crate::linux_words;
use crate::ports::PortNumber;
use crate::replicate::{Replication, SharedReplication};
use crate::terminal;

pub use error::BuildError;

/// The paths of a program and of its other files.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// A folder with `program.yaml`, or a program file.
    pub program: PathBuf,
    /// Folders with more libraries.
    pub include: Vec<PathBuf>,
    /// Macros of a P4 program, name and value; those of the configuration come first.
    pub defines: Vec<(String, String)>,
    /// The entries file; by default `entries.yaml` of the folder, if it is there.
    pub entries: Option<PathBuf>,
    /// Take no entries at all.
    pub no_entries: bool,
    /// The switch configuration; by default `switch.yaml` of the folder, if it is there.
    pub config: Option<PathBuf>,
    /// Most bytes of its tables, registers, counters and meters; by default [`STATE_BYTES_MAX`].
    pub max_state: Option<u64>,
}

/// A program that was read and checked.
#[derive(Debug)]
pub struct Loaded {
    /// The syntax trees.
    pub parsed: Parsed,
    /// The program.
    pub program: Arc<Program>,
    /// The content of its entries file.
    pub entries: Option<Resolved>,
    /// Path of that file, on the disk or inside the binary.
    pub entries_path: Option<PathBuf>,
    /// Its switch configuration.
    pub config: Option<SwitchConfig>,
    /// Warnings, those of the configuration too.
    pub warnings: Diagnostics,
    /// Every file that was read; that of the configuration is last.
    pub files: Files,
    /// Most bytes of a device's state.
    max_state: u64,
    /// Machine code of its devices.
    codes: Arc<jit::Codes>,
}

/// Reads and checks everything.
///
/// # Errors
/// All errors, with their places.
pub fn load(place: &Place) -> Result<Loaded, Rejected> {
    let loader = Loader::new(place.include.clone(), LIBRARIES);
    let program = program_path(&place.program);
    let folder = loader.is_folder(&program).then_some(program.as_path());
    let beside = |name: &str| folder.map(|f| f.join(name)).filter(|path| loader.is_there(path));
    let mut config_files = Files::new();
    let mut found = Diagnostics::new();
    let config_path = place.config.clone().or_else(|| beside("switch.yaml"));
    let config = config_path
        .and_then(|path| SwitchConfig::read(&path, &loader, &mut config_files, &mut found));
    if found.has_errors() {
        return Err(Rejected { diagnostics: found, files: config_files });
    }
    let named = config.as_ref().and_then(|config| config.program.clone());
    let is_named = named.is_some();
    let program_path = match folder {
        Some(folder) => named.unwrap_or_else(|| folder.join("program.yaml")),
        None => program.clone(),
    };
    if !loader.is_file(&program_path) && is_missing(&program_path) {
        // A file that switch.yaml names is not one to guess.
        let folder = folder.filter(|_| !is_named);
        return Err(not_there(&program_path, folder));
    }
    let mut defines = config.as_ref().map(|config| config.defines.clone()).unwrap_or_default();
    defines.extend(place.defines.iter().cloned());
    let loader = loader.clone().with_defines(defines);
    let parsed = parse_program(&program_path, &loader)
        .map_err(|errors| file_kind::or_kind(&program_path, &loader, FileKind::Program, errors))?;
    let max_state = place.max_state.unwrap_or(STATE_BYTES_MAX);
    let (program, mut warnings) = checked(&parsed, max_state)?;
    let mut files = parsed.files.clone();
    let named = config.as_ref().and_then(|config| config.entries.clone());
    let entries_path = match &place.entries {
        _ if place.no_entries => None,
        Some(path) => Some(path.clone()),
        None => named.or_else(|| beside("entries.yaml")),
    };
    let entries = match &entries_path {
        Some(path) => {
            let resolved = entries::load(path, &loader, &program, &mut files, &mut warnings);
            if warnings.has_errors() {
                return Err(Rejected { diagnostics: warnings, files });
            }
            resolved
        }
        None => None,
    };
    warnings.append(found.behind(u32::try_from(files.len()).unwrap_or(u32::MAX)));
    for file in config_files.iter() {
        files.push(file.clone());
    }
    let codes = Arc::default();
    Ok(Loaded { parsed, program, entries, entries_path, config, warnings, files, max_state, codes })
}

/// True if there is nothing of this name; false where it may not be looked at.
fn is_missing(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    std::fs::metadata(path).is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

/// The error for a missing program: with the programs of its folder if it is looked for in one, and with the programs
/// inside the binary if it may be the name of one.
fn not_there(path: &Path, folder: Option<&Path>) -> Rejected {
    let message = format!("cannot read {}: there is no such file", shown(path));
    let mut missing = Diagnostic::new(codes::FILE_NOT_READ, None, message);
    let programs = library::programs();
    let near = path.to_str().and_then(|name| suggest(name, programs.iter().copied()));
    let beside = folder.map(program_files).unwrap_or_default();
    if let Some(near) = near {
        missing.help(format!("did you mean `{near}`, which is inside wireyard?"));
    } else if !beside.is_empty() {
        missing.help(format!("name a file: in the folder are {}", beside.join(", ")));
    } else if folder.is_none() && path.extension().is_none() {
        missing.note(format!("inside wireyard are the programs {}", programs.join(", ")));
    }
    let mut diagnostics = Diagnostics::new();
    diagnostics.push(missing);
    Rejected { diagnostics, files: Files::new() }
}

/// The names of a folder's first files that may be programs.
fn program_files(folder: &Path) -> Vec<String> {
    const MOST: usize = 8;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut names: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|known| known == "yaml" || known == "p4"))
        .filter_map(|path| Some(shown(path.file_name()?.as_ref()).into_owned()))
        .filter(|name| !["switch.yaml", "entries.yaml"].contains(&name.as_str()))
        .collect();
    names.sort();
    names.truncate(MOST);
    names
}

/// A program inside the binary, without entries; `None` if there is none of this name.
///
/// # Errors
/// Its errors, which do not occur in a build that passed its tests.
pub fn embedded(name: &str) -> Option<Result<Loaded, Rejected>> {
    let path = Path::new(EMBEDDED).join(name).join("program.yaml");
    let loader = Loader::new(Vec::new(), LIBRARIES);
    loader.is_file(&path).then(|| parse_program(&path, &loader).and_then(without_entries))
}

/// A program from its text, without entries: its libraries are those inside the binary. `name` is for messages.
///
/// # Errors
/// All errors, with their places.
pub fn from_text(name: &str, text: &str) -> Result<Loaded, Rejected> {
    let path = PathBuf::from(name);
    let loader = Loader::in_memory([(path.clone(), text)], LIBRARIES);
    parse_program(&path, &loader).and_then(without_entries)
}

/// A program for tests: received packets leave by port 1.
#[cfg(test)]
pub(crate) fn one_way() -> Loaded {
    const TEXT: &str = "
pipeline: one_way
include: [ethernet]
parser: { start: { extract: ethernet, next: accept } }
ingress: [ std.egress_port = 1 ]
deparser: { emit: [ethernet] }
";
    from_text("one_way.yaml", TEXT).unwrap_or_else(|rejected| panic!("{rejected}"))
}

/// A program and a small device that runs it, for tests. The device is there as long as the core.
#[cfg(test)]
pub(crate) fn started(name: &str, text: &str) -> (Loaded, Core, Control) {
    let loaded = from_text(name, text).unwrap_or_else(|rejected| panic!("{rejected}"));
    let core = loaded.device(DeviceOptions::small()).unwrap();
    let control = Control::of(&core).unwrap().clone();
    (loaded, core, control)
}

/// A program that was read, without entries.
///
/// # Errors
/// All errors, with their places.
pub fn without_entries(parsed: Parsed) -> Result<Loaded, Rejected> {
    let files = parsed.files.clone();
    let max_state = STATE_BYTES_MAX;
    let (program, warnings) = checked(&parsed, max_state)?;
    let (entries, entries_path, config, codes) = (None, None, None, Arc::default());
    Ok(Loaded { parsed, program, entries, entries_path, config, warnings, files, max_state, codes })
}

/// The program, with the words of its `linux:` checked, and warnings.
fn checked(parsed: &Parsed, max_state: u64) -> Result<(Arc<Program>, Diagnostics), Rejected> {
    let rejected = |diagnostics| Rejected { diagnostics, files: parsed.files.clone() };
    let compiled = compile_within(parsed, &device::externs(), max_state).map_err(rejected)?;
    let mut found = Diagnostics::new();
    linux_words::check(&compiled.program, &mut found);
    match found.has_errors() {
        true => Err(rejected(found)),
        false => Ok((Arc::new(compiled.program), compiled.warnings)),
    }
}

/// The engine of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
pub enum EngineKind {
    /// The fastest that this program and machine allow.
    Auto,
    /// The interpreter: the definition.
    #[default]
    Interp,
    /// Machine code, or an error where that cannot be.
    Jit,
}

impl EngineKind {
    /// Every engine; [`EngineKind::Auto`] selects one of them.
    pub const ALL: [EngineKind; 2] = [EngineKind::Interp, EngineKind::Jit];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Auto => "auto",
            EngineKind::Interp => "interp",
            EngineKind::Jit => "jit",
        }
    }
}

/// Options of a device for a program. The default engine is the interpreter, which supports every program and machine;
/// for speed use [`EngineKind::Auto`].
#[derive(Clone, Copy, Debug)]
pub struct DeviceOptions {
    /// The engine.
    pub engine: EngineKind,
    /// Optimisation level, 0 to 2, for any engine.
    pub opt_level: u8,
    /// With [`EngineKind::Auto`]: interpret while another thread compiles. Not for virtual time.
    pub background: bool,
    /// Seed of everything random in it.
    pub seed: u64,
    /// Seed of the hashes inside tables: fixed, except in [`DeviceOptions::live`].
    pub hash_seed: u64,
    /// Seed of choices in groups: consecutive switches choose alike without one, so each needs a different one. 0: the
    /// hash is used unchanged.
    pub selector_seed: u64,
    /// Packet memory.
    pub memory: MemoryConfig,
    /// Number of large chunks of packet memory in addition, for a device built with [`Loaded::workers`].
    pub large_chunks: u32,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        DeviceOptions {
            engine: EngineKind::default(),
            opt_level: 2,
            background: false,
            seed: 1,
            hash_seed: 0,
            selector_seed: 0,
            memory: MemoryConfig::default(),
            large_chunks: 0,
        }
    }
}

impl DeviceOptions {
    /// For a device with untrusted senders: the seed of its hashes is random.
    pub fn live() -> DeviceOptions {
        let hash_seed = RandomState::new().hash_one(0);
        DeviceOptions { hash_seed, ..DeviceOptions::default() }
    }

    /// Little packet memory, for tests and traces of a few packets.
    pub fn small() -> DeviceOptions {
        let memory = MemoryConfig::for_frames(512, 12 << 10, 256);
        DeviceOptions { memory, ..DeviceOptions::default() }
    }
}

/// Makes the engine of every generation.
fn maker(options: DeviceOptions, codes: &Arc<jit::Codes>) -> Box<MakeEngine> {
    let level = jit::Options { level: options.opt_level };
    let (codes, is_first) = (Arc::clone(codes), AtomicBool::new(true));
    Box::new(move |program, state| {
        // The engine of a replacement is compiled before the change: nothing becomes slower.
        let is_first = is_first.swap(false, Ordering::Relaxed);
        match options.engine {
            EngineKind::Interp => {
                let program = passes::optimised(program, options.opt_level);
                Ok(Box::new(Interp::new(Arc::new(program))))
            }
            EngineKind::Auto if options.background && is_first => {
                Ok(in_background(program, state, level))
            }
            EngineKind::Auto | EngineKind::Jit => match codes.engine(program, state, level) {
                Ok(jit) => Ok(Box::new(jit)),
                Err((refused, _)) if options.engine == EngineKind::Jit => Err(refused),
                Err((refused, program)) => {
                    warn_interpreted(&program.name, &refused);
                    Ok(Box::new(Interp::new(program)))
                }
            },
        }
    })
}

/// The interpreter until the program is compiled.
fn in_background(program: &Arc<Program>, state: &State, level: jit::Options) -> Box<dyn Engine> {
    let name = program.name.clone();
    let complain = move |best: Option<u8>, refused: jit::CompileError| match best {
        None => warn_interpreted(&name, &refused),
        Some(best) => {
            terminal::err(&format!("wireyard: code of level {best} runs {name}: {refused}\n"));
        }
    };
    jit::background(program, state, level, Arc::new(complain))
}

fn warn_interpreted(program: &str, refused: &jit::CompileError) {
    let text = format!("wireyard: the interpreter runs {program}: no machine code: {refused}\n");
    terminal::err(&text);
}

impl Loaded {
    /// The paths of all files that were read.
    pub fn sources(&self) -> Vec<PathBuf> {
        self.files.iter().map(|file| file.path.clone()).collect()
    }

    /// True for a program in P4, which may have macros.
    pub fn is_in_p4(&self) -> bool {
        self.parsed.files.iter().next().is_some_and(|file| is_p4(Path::new(&file.name)))
    }

    /// The program with this switch configuration instead, as the text of a `switch.yaml` of this name, for
    /// [`Loaded::set_queues`]. The files and macros that it names are ignored: the program is already read.
    ///
    /// # Errors
    /// All errors, with their places.
    pub fn with_config(mut self, name: &str, text: &str) -> Result<Loaded, Rejected> {
        let loader = Loader::in_memory([(name, text)], &[]);
        let (mut files, mut diagnostics) = (Files::new(), Diagnostics::new());
        let read = SwitchConfig::read(name.as_ref(), &loader, &mut files, &mut diagnostics);
        let Some(config) = read else { return Err(Rejected { diagnostics, files }) };
        files.iter().for_each(|file| {
            self.files.push(file.clone());
        });
        self.config = Some(config);
        Ok(self)
    }

    /// The program with these entries instead, as the text of an entries file of this name, and without a
    /// configuration.
    ///
    /// # Errors
    /// All errors, with their places.
    pub fn with_entries(&self, name: &str, text: &str) -> Result<Loaded, Rejected> {
        let loader = Loader::in_memory([(name, text)], &[]);
        let (mut files, mut diagnostics) = (self.files.clone(), Diagnostics::new());
        let entries =
            entries::load(name.as_ref(), &loader, &self.program, &mut files, &mut diagnostics);
        if diagnostics.has_errors() || entries.is_none() {
            return Err(Rejected { diagnostics, files });
        }
        Ok(Loaded {
            parsed: self.parsed.clone(),
            program: Arc::clone(&self.program),
            entries,
            entries_path: None,
            config: None,
            warnings: Diagnostics::new(),
            files: self.files.clone(),
            max_state: self.max_state,
            codes: Arc::clone(&self.codes),
        })
    }

    /// The packet memory of a live switch with these ports; limits its queues to that from now on.
    pub fn size_memory(&mut self, numbers: &[PortNumber], holders: &Holders) -> Room {
        let config = self.config.as_mut();
        let room = config.and_then(|config| {
            let room = config.room(numbers, Some(holders))?;
            let qos = config.qos.get_or_insert_default();
            qos.packet_slots = Some(room.packets);
            // Those that are held are some of them.
            qos.hold_slots = qos.hold_slots.map(|hold| hold.min(room.packets));
            Some(room)
        });
        room.unwrap_or_else(|| Room::plain(holders))
    }

    /// Gives a device the queues and generators that the configuration describes, for these ports.
    ///
    /// # Errors
    /// Contradictions, with their numbers; a generator of another port.
    pub fn set_queues(&self, core: &mut Core, numbers: &[PortNumber]) -> Result<(), BuildError> {
        self.set_queues_of(core, numbers, None)
    }

    /// The same for one worker of several: its part of the buffer, in which the priority groups of
    /// its own ports are charged.
    ///
    /// # Errors
    /// The same, and contents that do not fit into the part.
    pub fn set_queues_of(
        &self,
        core: &mut Core,
        numbers: &[PortNumber],
        part: Option<&WorkerShare<'_>>,
    ) -> Result<(), BuildError> {
        let Some(config) = &self.config else { return Ok(()) };
        for (number, port) in &config.ports {
            if let Some(mac) = port.mac {
                core.ports_mut().set_mac(*number, mac);
            }
        }
        match config.queues(numbers) {
            None => {}
            Some(Ok(qos)) => match part {
                None => core.set_qos(&qos)?,
                Some(part) => core.set_qos(&part.of(&qos)?)?,
            },
            Some(Err(report)) => return Err(BuildError::Queues(report)),
        }
        config.check_generators(numbers)?;
        for section in &config.generators {
            if part.is_none_or(|part| (part.owns)(section.port)) {
                core.generators().add(Generator::from(section));
            }
        }
        Ok(())
    }

    /// A device without ports that runs this program with its entries.
    ///
    /// # Errors
    /// An invalid table or entry, or no memory.
    pub fn device(&self, options: DeviceOptions) -> Result<Core, BuildError> {
        self.device_on(PacketMemory::of_device(options.memory)?, options)
    }

    /// The same on a packet memory that other devices use too.
    ///
    /// # Errors
    /// An invalid table or entry.
    pub fn device_on(
        &self,
        memory: PacketMemory,
        options: DeviceOptions,
    ) -> Result<Core, BuildError> {
        let mut workers = self.workers_on(memory, options, 1)?;
        workers.pop().ok_or(BuildError::NoWorker)
    }

    /// A device of several workers without ports: one [`Core`] for each, on the same program, tables and
    /// packet memory.
    ///
    /// # Errors
    /// As [`Loaded::device`].
    pub fn workers(&self, options: DeviceOptions, workers: usize) -> Result<Vec<Core>, BuildError> {
        let asked = self.config.as_ref().and_then(|config| config.qos.as_ref()?.packet_slots);
        let memory = PacketMemory::with_large(options.memory, options.large_chunks);
        let memory = memory.map_err(|error| match asked {
            Some(packets) => BuildError::Slots { source: error, packets },
            None => BuildError::Memory(error),
        })?;
        let mut cores = self.workers_on(memory, options, workers)?;
        for (core, mesh) in cores.iter_mut().zip(Mesh::of(workers)) {
            core.mesh = mesh;
        }
        Ok(cores)
    }

    fn workers_on(
        &self,
        memory: PacketMemory,
        options: DeviceOptions,
        workers: usize,
    ) -> Result<Vec<Core>, BuildError> {
        self.check_state(workers)?;
        let DeviceOptions { seed, hash_seed, selector_seed, .. } = options;
        let state =
            StateOptions { seed, hash_seed, selector_seed, workers, ..StateOptions::default() };
        let make = maker(options, &self.codes);
        let generations = Generations::new(Arc::clone(&self.program), state, make)?;
        if let Some(entries) = &self.entries {
            entries.apply(&generations.current().state)?;
        }
        let mut replication = Replication::default();
        if let Some(entries) = &self.entries {
            replication.fill(entries)?;
        }
        let replication = SharedReplication::new(replication);
        let executors: Vec<_> = (0..workers).map(|lane| generations.executor(lane)).collect();
        let (_, links) = Control::new(generations, replication.clone(), workers);
        let others = (1..workers).map(|_| memory.worker()).collect::<Vec<_>>();
        let memories = std::iter::once(memory).chain(others);
        let cores = memories.zip(executors).zip(links).map(|((memory, executor), link)| {
            let mut core = self.worker(memory, executor)?;
            core.replication = replication.reader();
            core.control = Some(Box::new(link));
            Ok(core)
        });
        cores.collect()
    }

    /// Checks the size of the state: counters have a lane for each worker, so with several a state may exceed the limit
    /// that it passed when loaded.
    pub(crate) fn check_state(&self, workers: usize) -> Result<(), BuildError> {
        let parts = size::parts(&self.program, workers);
        let total = size::total(&parts);
        if total <= self.max_state {
            return Ok(());
        }
        Err(BuildError::State {
            program: self.program.name.clone(),
            bytes: total,
            workers,
            most: self.max_state,
            largest: size::largest(&parts),
        })
    }

    fn worker(&self, memory: PacketMemory, executor: Executor) -> Result<Core, BuildError> {
        let mut core = Core::new(memory, executor);
        let notification = self.config.as_ref().map(|config| config.notification.clone());
        core.device.notifier = Some(Notifier::new(&notification.unwrap_or_default())?);
        Ok(core)
    }
}
