//! Errors of requests to a running device, one kind for each status that P4Runtime has for them.

use std::path::Path;

use thiserror::Error;
use wireyard_tables::{BatchError, EntryError, FieldError};

use super::{Entity, Update};

/// Why a request was refused. Nothing has changed, unless the documentation of the function states otherwise. Each kind
/// is a status code of P4Runtime with the same name ([`ControlError::NoEntry`] is NOT_FOUND,
/// [`ControlError::EntryExists`] ALREADY_EXISTS); the text is for people: what was found, and what would work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// An object does not exist: table, session, port, or one that an entry refers to.
    #[error("{0}")]
    NotFound(String),
    /// An object to be created already exists: a port, a session, a multicast group.
    #[error("{0}")]
    AlreadyExists(String),
    /// The entry, member or group to be changed, deleted or read does not exist. The text names its table, and the number
    /// of a member or group.
    #[error("{0}")]
    NoEntry(String),
    /// The entry, member or group to be inserted already exists. The text as above.
    #[error("{0}")]
    EntryExists(String),
    /// The request is invalid, independent of the state of the device.
    #[error("{0}")]
    InvalidArgument(String),
    /// A value is wider than its field, or an index beyond the end of its array.
    #[error("{0}")]
    OutOfRange(String),
    /// The table, group or set is full.
    #[error("{0}")]
    ResourceExhausted(String),
    /// The program does not allow it: a constant table, an action that is for the default only.
    #[error("{0}")]
    PermissionDenied(String),
    /// The state of the device does not allow it: a member that is in use, no queues, a program that was replaced
    /// meanwhile.
    #[error("{0}")]
    FailedPrecondition(String),
    /// Another update of the same atomic batch was refused, so this one was not done.
    #[error("{0}")]
    Aborted(String),
    /// This device does not support it.
    #[error("{0}")]
    Unimplemented(String),
    /// A worker did not answer in time, or the device has ended.
    #[error("{0}")]
    Unavailable(String),
    /// A defect of this program.
    #[error("{0}")]
    Internal(String),
}

impl ControlError {
    /// [`ControlError::InvalidArgument`].
    pub(crate) fn invalid(text: impl ToString) -> ControlError {
        ControlError::InvalidArgument(text.to_string())
    }

    /// A file that is to be written exists.
    pub(super) fn exists(file: &Path) -> ControlError {
        let file = file.display();
        ControlError::AlreadyExists(format!("{file} already exists: name a new file"))
    }
}

/// Refuses a request as invalid.
pub(crate) fn invalid<T>(text: impl ToString) -> Result<T, ControlError> {
    Err(ControlError::invalid(text))
}

/// A batch of which at least one update was not done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", first_of(.results))]
pub struct WriteError {
    /// The result of each update of the batch, in order. After an atomic batch none was done, and those that were not
    /// refused are [`ControlError::Aborted`]; except where no worker wrote its registers: then the others were done.
    pub results: Vec<Result<(), ControlError>>,
}

impl WriteError {
    /// The first update that was itself refused: its place in the batch and the error.
    pub fn first(&self) -> Option<(usize, &ControlError)> {
        let errors = self.results.iter().enumerate();
        let mut errors = errors.filter_map(|(at, result)| Some((at, result.as_ref().err()?)));
        errors.find(|(_, error)| !matches!(error, ControlError::Aborted(_)))
    }
}

fn first_of(results: &[Result<(), ControlError>]) -> String {
    let refused = results.iter().filter(|result| result.is_err()).count();
    let write = WriteError { results: results.to_vec() };
    match write.first() {
        Some((at, error)) => {
            format!("update {at}: {error} ({refused} of {} updates were not done)", results.len())
        }
        None => "no update was refused".to_owned(),
    }
}

impl From<WriteError> for ControlError {
    fn from(error: WriteError) -> ControlError {
        let first = error.first().map(|(_, error)| error.clone());
        first.unwrap_or_else(|| ControlError::Internal(error.to_string()))
    }
}

/// The error of a table or profile; `name` is its name, if known.
pub(super) fn of_entry(name: &str, error: &EntryError) -> ControlError {
    let text = match name {
        "" => error.to_string(),
        name => format!("table {name}: {error}"),
    };
    kind_of(error)(text)
}

fn kind_of(error: &EntryError) -> fn(String) -> ControlError {
    match error {
        EntryError::Full { .. } | EntryError::GroupTooLarge { .. } => {
            ControlError::ResourceExhausted
        }
        EntryError::Duplicate => ControlError::EntryExists,
        EntryError::NotFound => ControlError::NoEntry,
        EntryError::NoSuchTable(_)
        | EntryError::NoSuchProfile(_)
        | EntryError::NoSuchMember(_)
        | EntryError::NoSuchGroup(_) => ControlError::NotFound,
        EntryError::Const => ControlError::PermissionDenied,
        EntryError::Moved | EntryError::InUse { .. } | EntryError::Owned(_) => {
            ControlError::FailedPrecondition
        }
        EntryError::Field { error, .. } => match &**error {
            FieldError::TooWide { .. } => ControlError::OutOfRange,
            _ => ControlError::InvalidArgument,
        },
        _ => ControlError::InvalidArgument,
    }
}

/// The error of an update of tables. Members and groups are in the profile of a table, and named by their numbers.
pub(super) fn of_batch(error: &BatchError, update: &Update) -> ControlError {
    let (what, id) = match update.entity() {
        Entity::Member { id, .. } => ("member", id),
        Entity::Group { id, .. } => ("group", id),
        _ => return of_entry(&error.name, &error.error),
    };
    kind_of(&error.error)(format!("{what} {id} of table {}: {}", error.name, error.error))
}
