//! State that outlives the process (`run --state DIR`): objects that controllers wrote, and the program that they
//! pushed.
//!
//! A store in DIR (`store`, redb) has one record for each object, as a P4Runtime message by the object's id, so a
//! record has the same meaning after a restart and with a changed program (`record`), and the settings of queues and
//! ports (`settings`). If there is a store, it determines tables, members, groups and sessions, and the entries file is
//! not read. `restore` reads it.
//!
//! A request is acknowledged when it is on the disk; requests that arrive meanwhile share the next commit. Changes by
//! packets (learned and idle entries, counts, registers) are not stored. If the store cannot be read or written, the
//! switch forwards and refuses writes, which would be lost.

mod counts;
mod orphans;
pub mod record;
mod restore;
pub mod settings;
mod store;
#[cfg(test)]
mod tests;

use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use super::device::Pipeline;
use super::schema::Schema;
use super::watch::Watch;
use crate::control::{Change, Control, ControlError, Journal, KeptUnits, Swap};
use crate::ports::PortNumber;
use crate::program::Loaded;
use crate::sync;
pub use counts::StorageCounts;
use record::{Record, Staying};
use settings::{OfPlace, Settings};
pub use store::make_folder;
use store::{FILE, Store, StoreError};

/// Why a device cannot start with its store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// A file stands in the place of its folder.
    #[error("--state {}: it is a file: name a folder", .0.display())]
    File(PathBuf),
    /// Another process has locked the store.
    #[error("--state {}: another process has it: give each switch its own", .0.display())]
    InUse(PathBuf),
    /// The store has the state of another program, which would be lost.
    #[error(
        "--state {}: it has the state of program {of}, of which {lost} objects do not fit {program}; nothing is changed: \
         give {program} a folder of its own, or remove {} to begin anew",
        .folder.display(),
        .folder.join(FILE).display()
    )]
    OtherProgram {
        /// The folder.
        folder: PathBuf,
        /// The program whose state it is.
        of: String,
        /// The program that was to be run.
        program: String,
        /// Number of objects that do not fit it.
        lost: usize,
    },
    /// The operating system cannot create a thread.
    #[error("--state: {0}")]
    Thread(#[source] io::Error),
}

/// The state with which a device starts.
#[derive(Debug, Default)]
pub struct Begun {
    /// A program that a controller pushed, which runs in place of the loaded one.
    pub pipeline: Option<Pipeline>,
    /// Metadata of entries and groups.
    pub metadata: Vec<(Vec<u8>, Vec<u8>)>,
    /// Groups and sessions that depend on links.
    pub watch: Watch,
    /// Settings of queues and ports, which are applied when the workers are polled.
    pub settings: Settings,
    /// Counters of the store.
    pub storage: Option<Arc<StorageCounts>>,
    /// The store had contents, which replace those of the entries file.
    pub is_back: bool,
    /// Messages for the user.
    pub says: Vec<String>,
    /// Warnings for the user.
    pub complaints: Vec<String>,
}

impl Begun {
    /// The state of a device without a store.
    pub fn without_store(loaded: &Loaded) -> Begun {
        let mut begun = Begun::default();
        begun.add_settings(loaded);
        begun
    }

    /// Adds the settings of the entries file, of which those in the store are later. Returns the changes to store.
    fn add_settings(&mut self, loaded: &Loaded) -> Vec<Change> {
        let of_file = loaded.entries.iter().flat_map(|entries| &entries.settings);
        let of_file: Vec<OfPlace> =
            of_file.map(|one| (PortNumber(one.port), one.queue, one.set.clone())).collect();
        let stored = self.settings.all();
        let all = of_file.into_iter().chain(stored);
        all.map(|(port, queue, set)| self.settings.set(port, queue, &set)).collect()
    }

    /// Adds settings from a record.
    fn set(&mut self, place: &[u8], value: &[u8]) {
        if !self.settings.add(place, value) {
            let text = "--state: settings of a port cannot be read, and are not made";
            self.complaints.push(text.into());
        }
    }
}

/// Restores the contents of the store into a device whose workers are not polled yet, and stores writes from now on.
/// `complain` gets later errors.
///
/// # Errors
/// Another process has locked the store, or a thread cannot be created. If the store is unusable, the device starts,
/// and refuses writes.
pub fn begin(
    folder: &Path,
    control: &Control,
    loaded: &Loaded,
    complain: impl Fn(&str) + Send + 'static,
) -> Result<Begun, BeginError> {
    if folder.exists() && !folder.is_dir() {
        return Err(BeginError::File(folder.to_owned()));
    }
    let place = folder.display();
    let kept = Arc::new(KeptUnits::default());
    let counts = Arc::<StorageCounts>::default();
    let (sender, units) = channel();
    let mut begun = Begun::default();
    let is_empty = store::is_empty(folder);
    let opened = Store::open(folder).and_then(|store| {
        let (begun, first) = restore::restore(&store, control, loaded)?;
        if !first.is_empty() {
            store.write(first)?;
        }
        Ok((store, begun))
    });
    match opened {
        Ok((store, found)) => {
            begun = found;
            if is_empty {
                begun.complaints.push(format!(
                    "--state {place}: {FILE} has no bytes: if it held anything, that is lost, and this is a first start, with \
                     what the files say; if you have a copy of it, end the switch and put it there"
                ));
            }
            let (kept, counted) = (Arc::clone(&kept), Arc::clone(&counts));
            let failed = format!("--state {place}");
            let run = move || {
                let work = || store.keep(&units, &kept, &counted);
                if let Err(why) = unless_it_fails(work, &kept, &counted) {
                    complain(&format!("{failed}: {why}: writes are refused from now on"));
                }
            };
            let thread = std::thread::Builder::new().name("state".into());
            thread.spawn(run).map_err(BeginError::Thread)?;
        }
        Err(StoreError::InUse) => return Err(BeginError::InUse(folder.to_owned())),
        Err(StoreError::OtherProgram { of, program, lost }) => {
            return Err(BeginError::OtherProgram { folder: folder.to_owned(), of, program, lost });
        }
        Err(why) => {
            begun.complaints.push(format!(
                "--state {place}: {why}: the switch runs with what its files say and refuses writes; \
                 start it with another folder, or without --state"
            ));
            begun.add_settings(loaded);
            counts.failed();
            kept.fail(why.to_string());
        }
    }
    begun.storage = Some(counts);
    control.keep(Journal::new(recorder(), sender, kept));
    Ok(begun)
}

/// Runs the store. After an error writes are refused; a panic of it is one, as requests wait for what it has not stored.
fn unless_it_fails(
    work: impl FnOnce() -> Result<(), StoreError>,
    kept: &KeptUnits,
    counts: &StorageCounts,
) -> Result<(), StoreError> {
    let defect = |_| Err(StoreError::Failed("a defect of the store".to_owned()));
    let done = std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(defect);
    done.inspect_err(|why| {
        counts.failed();
        kept.fail(why.to_string());
    })
}

/// Records updates by the ids of the running program.
fn recorder() -> crate::control::Record {
    let known: Mutex<Option<Arc<Schema>>> = Mutex::default();
    Box::new(move |control, update, changes| {
        let program = control.program();
        let mut known = sync::lock(&known);
        let schema = known.take().filter(|schema| Arc::ptr_eq(&schema.program, &program));
        let schema = schema.unwrap_or_else(|| Arc::new(Schema::of(program)));
        changes.extend(Record { control, schema: &schema }.update(update));
        *known = Some(schema);
    })
}

/// The records of the cells with which the arrays begin that a prepared program does not take over.
pub fn new_cells(swap: &Swap, control: &Control, schema: &Schema) -> Vec<Change> {
    let (record, mut all) = (Record { control, schema }, Vec::new());
    swap.new_cells(&mut |cell| all.extend(record.record(&cell)));
    all
}

/// The records of a program that replaced another, but for those that stay: packets may have changed their objects since.
/// `cells` has those of [`new_cells`].
///
/// # Errors
/// The workers, which have the registers, do not answer.
pub fn all_but(
    stays: &Staying,
    control: &Control,
    pipeline: &Pipeline,
    cells: Vec<Change>,
) -> Result<Vec<Change>, ControlError> {
    let record = Record { control, schema: &pipeline.schema };
    let mut changes = record.everything();
    changes.retain(|(key, _)| !stays.keys.iter().any(|first| key.starts_with(first)));
    changes.extend(cells);
    changes.extend(record.cells(&stays.renamed)?);
    changes.extend(record::running(pipeline));
    Ok(changes)
}
