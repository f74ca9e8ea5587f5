//! The store: a file of keys and values, written in units that are stored completely or not at all.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Instant;
use std::{fs, io};

use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
};

use super::counts::StorageCounts;
use crate::control::{Change, Changes, KeptUnits};

/// Records, each with a number that orders them by creation.
const RECORDS: TableDefinition<'_, &[u8], (u64, &[u8])> = TableDefinition::new("records");
/// `format`.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// The version of the stored format.
const FORMAT: u64 = 1;
/// Name of the file.
pub(super) const FILE: &str = "state.redb";
/// Bytes of memory for pages of the file.
const CACHE_BYTES: usize = 32 << 20;
/// Maximum number of units in a commit.
const TOGETHER: usize = 1024;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("another process has the store")]
    InUse,
    #[error(
        "the store is of format {0}, and this switch reads format {FORMAT}: it is left as it is"
    )]
    Newer(u64),
    #[error("the store cannot be read: {0}; it is left as it is")]
    Corrupt(String),
    #[error("the store cannot be written: {0}")]
    Failed(String),
    #[error("{0}")]
    Folder(io::Error),
    /// Objects of a program with another name, of which some do not fit this one.
    #[error("it has the state of program {of}, of which {lost} objects do not fit {program}")]
    OtherProgram { of: String, program: String, lost: usize },
}

fn failed(error: impl Into<redb::Error>) -> StoreError {
    StoreError::Failed(error.into().to_string())
}

fn corrupt(error: impl Into<redb::Error>) -> StoreError {
    StoreError::Corrupt(error.into().to_string())
}

/// A record: its number in the order of creation, its key, its value.
pub(super) type Stored = (u64, Vec<u8>, Vec<u8>);

#[derive(Debug)]
pub(super) struct Store {
    database: Database,
}

/// Creates the folder of a store, accessible to its owner only, if it does not exist.
///
/// # Errors
/// The operating system's error.
pub fn make_folder(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// True if a folder has a store without any bytes, which the library takes for a new one.
pub(super) fn is_empty(folder: &Path) -> bool {
    fs::metadata(folder.join(FILE)).is_ok_and(|file| file.len() == 0)
}

impl Store {
    /// Opens the store of a folder, or creates an empty one.
    pub(super) fn open(folder: &Path) -> Result<Store, StoreError> {
        make_folder(folder).map_err(StoreError::Folder)?;
        // A new file is for its owner alone, whatever the mode of its folder.
        let mut how = fs::File::options();
        how.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file =
            how.open(folder.join(FILE)).map_err(|error| corrupt(StorageError::from(error)))?;
        // With a file that is not a store some versions of the library panic.
        let opened = std::panic::catch_unwind(move || {
            let backend = FileBackend::new(file)?;
            Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend)
        });
        let damaged = || StoreError::Corrupt("its structure is damaged".to_owned());
        let database = match opened.map_err(|_| damaged())? {
            Ok(database) => database,
            Err(DatabaseError::DatabaseAlreadyOpen) => return Err(StoreError::InUse),
            Err(error) => return Err(corrupt(error)),
        };
        let store = Store { database };
        let transaction = store.database.begin_write().map_err(failed)?;
        {
            let mut meta = transaction.open_table(META).map_err(corrupt)?;
            let format = meta.get("format").map_err(corrupt)?.map(|format| format.value());
            match format {
                None => _ = meta.insert("format", FORMAT).map_err(failed)?,
                Some(FORMAT) => {}
                Some(other) => return Err(StoreError::Newer(other)),
            }
            transaction.open_table(RECORDS).map_err(corrupt)?;
        }
        transaction.commit().map_err(failed)?;
        Ok(store)
    }

    /// All records, in the order of creation.
    pub(super) fn load(&self) -> Result<Vec<Stored>, StoreError> {
        let transaction = self.database.begin_read().map_err(corrupt)?;
        let records = transaction.open_table(RECORDS).map_err(corrupt)?;
        let mut all = Vec::new();
        for record in records.iter().map_err(corrupt)? {
            let (key, value) = record.map_err(corrupt)?;
            let (number, value) = value.value();
            all.push((number, key.value().to_vec(), value.to_vec()));
        }
        all.sort_by_key(|(number, _, _)| *number);
        Ok(all)
    }

    /// Makes these changes.
    pub(super) fn write(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.commit(&[Changes { number: 0, changes, stays: None }]).map(|_| ())
    }

    /// Writes units, all of them or none. False, and nothing is written, if they only remove what has no record:
    /// learned entries that aged.
    fn commit(&self, units: &[Changes]) -> Result<bool, StoreError> {
        let mut is_changed = units.iter().any(|unit| unit.stays.is_some());
        let transaction = self.database.begin_write().map_err(failed)?;
        {
            let mut records = transaction.open_table(RECORDS).map_err(failed)?;
            let mut meta = transaction.open_table(META).map_err(failed)?;
            let next = meta.get("next").map_err(failed)?.map_or(0, |next| next.value());
            let mut number = next;
            for unit in units {
                if let Some(stays) = &unit.stays {
                    let stays = |key: &[u8]| stays.iter().any(|first| key.starts_with(first));
                    records.retain(|key, _| stays(key)).map_err(failed)?;
                }
                for (key, value) in &unit.changes {
                    let Some(value) = value else {
                        is_changed |= records.remove(key.as_slice()).map_err(failed)?.is_some();
                        continue;
                    };
                    is_changed = true;
                    // A changed record keeps its place in the order.
                    let old = records.get(key.as_slice()).map_err(failed)?.map(|old| old.value().0);
                    let place = old.unwrap_or(number);
                    number += 1;
                    records.insert(key.as_slice(), (place, value.as_slice())).map_err(failed)?;
                }
            }
            meta.insert("next", number).map_err(failed)?;
        }
        match is_changed {
            true => transaction.commit().map_err(failed)?,
            false => transaction.abort().map_err(failed)?,
        }
        Ok(is_changed)
    }

    /// Stores units as they arrive until all senders are dropped.
    pub(super) fn keep(
        &self,
        units: &Receiver<Changes>,
        kept: &KeptUnits,
        counts: &StorageCounts,
    ) -> Result<(), StoreError> {
        while let Ok(first) = units.recv() {
            let more = std::iter::from_fn(|| units.try_recv().ok()).take(TOGETHER);
            let together: Vec<Changes> = std::iter::once(first).chain(more).collect();
            let began = Instant::now();
            if self.commit(&together)? {
                counts.commit(&together, began.elapsed());
            }
            kept.up_to(together.last().map_or(0, |last| last.number));
        }
        Ok(())
    }
}
