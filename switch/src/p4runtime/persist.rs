//! State that survives the process (`run --state DIR`): what controllers wrote, and the program that they pushed.
//!
//! A store in DIR (`store`, redb) has one record for each object, as a P4Runtime message by the object's id, so a record means the
//! same after a restart and with a program that was changed (`record`), and the settings of queues and ports (`settings`). Once there is a store, it is the truth about tables, members,
//! groups and sessions, and the entries file is not read. It is filled and emptied by `restore`.
//!
//! A request is acknowledged when it is on the disk; requests that come meanwhile share the next commit. What packets do (learned and
//! idle entries, counts, registers) is not kept. Where the store cannot be read or written, the switch forwards and refuses writes, which
//! would be lost.

mod counts;
pub mod record;
mod restore;
pub mod settings;
mod store;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use wireyard_pipeline::source::Parsed;

use super::device::Pipeline;
use super::schema::Schema;
use super::watch::Watch;
use crate::control::{Control, Journal, KeptUnits};
use crate::sync;
pub use counts::StorageCounts;
use record::{Record, Replaced};
use settings::Settings;
pub use store::make_folder;
use store::{Store, StoreError};

/// Why a device cannot begin with what was kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// Another process has the store.
    #[error("--state {}: another process has it: give each switch its own", .0.display())]
    InUse(PathBuf),
    /// The system has no more threads.
    #[error("--state: {0}")]
    Thread(#[source] io::Error),
}

/// What a device begins with.
#[derive(Debug, Default)]
pub struct Begun {
    /// A program that a controller pushed, which runs in the place of the one that was loaded.
    pub pipeline: Option<Pipeline>,
    /// Metadata of entries and groups.
    pub metadata: Vec<(Vec<u8>, Vec<u8>)>,
    /// Groups and sessions that depend on links.
    pub watch: Watch,
    /// Settings of queues and ports, which are made when the workers are polled.
    pub settings: Settings,
    /// What the store counts.
    pub storage: Option<Arc<StorageCounts>>,
    /// There was something in it, which is in force in the place of the entries file.
    pub is_back: bool,
    /// What is to be said.
    pub says: Vec<String>,
    /// What is to be complained about.
    pub complaints: Vec<String>,
}

impl Begun {
    /// Settings of a record.
    fn set(&mut self, place: &[u8], value: &[u8]) {
        if !self.settings.add(place, value) {
            let text = "--state: settings of a port cannot be read, and are not made";
            self.complaints.push(text.into());
        }
    }
}

/// Gives a device, whose workers are not polled yet, what the store has; keeps from now on what is written. `complain` is for what goes
/// wrong later.
///
/// # Errors
/// Another process has the store, or a thread cannot be made. Where the store is unusable, the device begins, and refuses writes.
pub fn begin(
    folder: &Path,
    control: &Control,
    parsed: &Parsed,
    complain: impl Fn(&str) + Send + 'static,
) -> Result<Begun, BeginError> {
    let place = folder.display();
    let kept = Arc::new(KeptUnits::default());
    let counts = Arc::<StorageCounts>::default();
    let (sender, units) = channel();
    let mut begun = Begun::default();
    let opened = Store::open(folder).and_then(|store| {
        let (begun, first) = restore::restore(&store, control, parsed)?;
        if let Some(all) = first {
            store.replace(&all)?;
        }
        Ok((store, begun))
    });
    match opened {
        Ok((store, found)) => {
            begun = found;
            let (kept, counted) = (Arc::clone(&kept), Arc::clone(&counts));
            let failed = format!("--state {place}");
            let run = move || {
                if let Err(why) = store.keep(&units, &kept, &counted) {
                    counted.failed();
                    complain(&format!("{failed}: {why}: writes are refused from now on"));
                    kept.fail(why.to_string());
                }
            };
            let thread = std::thread::Builder::new().name("state".into());
            thread.spawn(run).map_err(BeginError::Thread)?;
        }
        Err(StoreError::InUse) => return Err(BeginError::InUse(folder.to_owned())),
        Err(why) => {
            begun.complaints.push(format!(
                "--state {place}: {why}: the switch runs with what its files say and refuses writes; \
                 start it with another folder, or without --state"
            ));
            counts.failed();
            kept.fail(why.to_string());
        }
    }
    begun.storage = Some(counts);
    control.keep(Journal::new(recorder(), sender, kept));
    Ok(begun)
}

/// Records updates by the ids of the program that runs.
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

/// Everything, for a unit that replaces what is kept: the program was exchanged, and begins anew or keeps what fits.
pub fn all(
    control: &Control,
    pipeline: &Pipeline,
    anew: bool,
) -> (Vec<crate::control::Change>, u8) {
    let record = Record { control, schema: &pipeline.schema };
    let mut changes = record::running(pipeline).to_vec();
    changes.extend(record.everything());
    let replaced = if anew { Replaced::Everything } else { Replaced::AllButArrays };
    (changes, replaced as u8)
}
