//! A configuration between VERIFY_AND_SAVE and COMMIT (P4Runtime specification 1.5, section 13).
//!
//! Read and Write refer to the new program from VERIFY_AND_SAVE on, though the old one forwards. So a second device
//! without ports runs the new one: it executes writes, refuses invalid ones, and answers reads. COMMIT repeats its
//! writes on the device that forwards.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;
use wireyard_tables::time::Time;

use super::device::{Device, Pipeline};
use super::persist::Begun;
use super::proto::p4::v1 as p4;
use super::read::{self, Read};
use super::room::Share;
use super::translate::Result;
use super::write;
use crate::control::{Control, ControlError, Mode};
use crate::core::Core;
use crate::program::{DeviceOptions, Loaded};
use crate::sync::lock;

/// Maximum number of updates that wait for COMMIT: they use memory of the switch.
const UPDATES_MAX: usize = 1 << 20;
/// Maximum number of their bytes.
const BYTES_MAX: usize = 256 << 20;
/// Time between two polls of the second device's worker while a request waits for it.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// A checked program, with its form for controllers.
#[derive(Debug)]
pub struct Checked {
    /// The program.
    pub loaded: Loaded,
    /// Its pipeline, once it runs.
    pub pipeline: Arc<Pipeline>,
}

/// Updates of a request that were done, and the mode of the request.
pub type Done = (Mode, Vec<p4::Update>);

/// What was done since VERIFY_AND_SAVE. Encoded, a request needs a tenth of the memory.
#[derive(Default)]
struct Waiting {
    requests: Vec<(Mode, Vec<u8>)>,
    updates: usize,
    bytes: usize,
}

impl Waiting {
    /// Checks that there is room for these updates.
    fn check(&self, updates: &[p4::Update]) -> Result<()> {
        let exhausted = |text| Err(ControlError::ResourceExhausted(text));
        if self.updates + updates.len() > UPDATES_MAX {
            return exhausted(format!("more than {UPDATES_MAX} updates would wait for COMMIT"));
        }
        let bytes: usize = updates.iter().map(Message::encoded_len).sum();
        if self.bytes + bytes > BYTES_MAX {
            return exhausted(format!("more than {BYTES_MAX} bytes would wait for COMMIT"));
        }
        Ok(())
    }

    fn add(&mut self, mode: Mode, updates: Vec<p4::Update>) {
        self.updates += updates.len();
        let request = p4::WriteRequest { updates, ..Default::default() }.encode_to_vec();
        self.bytes += request.len();
        self.requests.push((mode, request));
    }
}

/// A program that waits for COMMIT.
pub struct Saved {
    /// The program.
    pub checked: Checked,
    device: Device,
    core: Mutex<Core>,
    /// `None` once it is in force: further writes are refused.
    done: Mutex<Option<Waiting>>,
}

impl std::fmt::Debug for Saved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Saved").field("checked", &self.checked).finish_non_exhaustive()
    }
}

impl Saved {
    /// Creates the second device.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(id: u64, checked: Checked) -> Result<Saved> {
        let internal = |text: String| ControlError::Internal(text);
        let core = checked.loaded.device(DeviceOptions::small());
        let core = core.map_err(|error| internal(error.to_string()))?;
        let control = Control::of(&core).cloned();
        let control =
            control.ok_or_else(|| internal("a device without a control handle".into()))?;
        let device = Device::new(id, control, &checked.loaded.parsed, Begun::default());
        device.set_pipeline(Arc::clone(&checked.pipeline));
        Ok(Saved {
            checked,
            device,
            core: Mutex::new(core),
            done: Mutex::new(Some(Waiting::default())),
        })
    }

    /// Executes the updates of a request.
    ///
    /// # Errors
    /// As [`write::write`].
    pub fn write(
        &self,
        updates: &[p4::Update],
        mode: Mode,
    ) -> std::result::Result<(), Vec<Result<()>>> {
        let mut done = lock(&self.done);
        let Some(done) = &mut *done else {
            let text = "the saved configuration was put in force meanwhile; nothing was done";
            let refused = ControlError::FailedPrecondition(text.into());
            return Err(vec![Err(refused); updates.len()]);
        };
        done.check(updates).map_err(|error| vec![Err(error); updates.len()])?;
        let schema = &self.checked.pipeline.schema;
        let (_, result) = self.answered(|| write::write(&self.device, schema, updates, mode));
        let is_done =
            |at: usize| result.as_ref().map_or_else(|results| results[at].is_ok(), |()| true);
        let taken = updates.iter().enumerate().filter(|(at, _)| is_done(*at));
        let taken: Vec<p4::Update> = taken.map(|(_, update)| update.clone()).collect();
        if !taken.is_empty() {
            done.add(mode, taken);
        }
        result
    }

    /// Reads the state that COMMIT will put in force.
    pub fn read(&self, entities: &[p4::Entity], share: &Share) -> Read {
        self.answered(|| read::read(&self.device, &self.checked.pipeline.schema, entities, share))
    }

    /// The writes since VERIFY_AND_SAVE; further ones are refused.
    pub fn take(&self) -> impl Iterator<Item = Done> {
        let requests = lock(&self.done).take().unwrap_or_default().requests.into_iter();
        requests.map(|(mode, request)| {
            // It was encoded here.
            let request = p4::WriteRequest::decode(request.as_slice()).unwrap_or_default();
            (mode, request.updates)
        })
    }

    /// Executes a request while polling the worker, which registers need.
    fn answered<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let mut core = lock(&self.core);
            let working = scope.spawn(work);
            while !working.is_finished() {
                core.poll(Time::ZERO, None);
                std::thread::sleep(POLL_INTERVAL);
            }
            working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4runtime::schema::Schema;
    use crate::program::one_way;

    #[test]
    fn updates_that_wait_are_bounded_in_number_and_bytes() {
        let entity = p4::entity::Entity::TableEntry(p4::TableEntry {
            metadata: vec![0; 1000],
            ..Default::default()
        });
        let entity = Some(p4::Entity { entity: Some(entity) });
        let updates = vec![p4::Update { r#type: 1, entity }];
        let mut waiting = Waiting::default();
        waiting.check(&updates).unwrap();
        waiting.add(Mode::Atomic, updates.clone());
        assert!(waiting.updates == 1 && (1000..1100).contains(&waiting.bytes));
        let is_refused = |waiting: &Waiting| {
            matches!(waiting.check(&updates), Err(ControlError::ResourceExhausted(_)))
        };
        assert!(!is_refused(&waiting));
        assert!(is_refused(&Waiting { bytes: BYTES_MAX - 999, ..Waiting::default() }));
        assert!(is_refused(&Waiting { updates: UPDATES_MAX, ..Waiting::default() }));
        let loaded = one_way();
        let schema = Arc::new(Schema::of(Arc::clone(&loaded.program)));
        let pipeline = Pipeline { schema, blob: Vec::new(), cookie: 0, is_absent: false };
        let saved = Saved::new(1, Checked { loaded, pipeline: Arc::new(pipeline) }).unwrap();
        *lock(&saved.done) = Some(Waiting { updates: UPDATES_MAX, ..Waiting::default() });
        let results = saved.write(&updates, Mode::Atomic).unwrap_err();
        assert!(matches!(results[..], [Err(ControlError::ResourceExhausted(_))]), "{results:?}");
    }
}
