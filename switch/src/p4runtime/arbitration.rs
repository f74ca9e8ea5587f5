//! Which controller may write: primaries and backups, by role (P4Runtime specification 1.5, section 5).
//!
//! A state machine without streams and clocks: its input is events of streams, its output notices for streams. Among
//! the live streams of a role, the one with the highest election id so far is primary; all others are backups. A
//! controller without an election id is a backup.

use std::collections::BTreeMap;

use crate::control::{ControlError, invalid};

/// Maximum number of open streams.
pub const STREAMS_MAX: usize = 64;
/// Maximum number of roles whose highest election id is kept. Beyond it that of the role without a stream which was elected longest ago
/// goes, so that nobody locks others out with names.
const ROLES_MAX: usize = 1024;
/// Maximum length in bytes of the name of a role.
const ROLE_BYTES_MAX: usize = 256;

/// A stream of messages with a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// The standing of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may write.
    Primary,
    /// Another controller may write.
    Backup,
    /// No controller may write.
    BackupWithoutPrimary,
}

/// A notice for a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The stream.
    pub stream: StreamId,
    /// Its role.
    pub role: String,
    /// The highest election id of the role so far.
    pub election: Option<u128>,
    /// Its new standing.
    pub standing: Standing,
}

/// The role for messages; controllers without roles have the one with the empty name.
pub fn of_role(role: &str) -> String {
    if role.is_empty() { String::new() } else { format!(" of role {role}") }
}

#[derive(Clone, Debug)]
struct Stream {
    role: Option<String>,
    election: Option<u128>,
}

/// The elections of a role.
#[derive(Clone, Copy, Debug)]
struct Elections {
    /// The highest id so far.
    highest: u128,
    /// The number of the last one among all of the device.
    last: u64,
}

/// All streams of a device.
#[derive(Debug, Default)]
pub struct Arbitration {
    streams: BTreeMap<StreamId, Stream>,
    elections: BTreeMap<String, Elections>,
    elected: u64,
    next: u64,
}

impl Arbitration {
    /// Opens a new stream, without role and election id yet.
    ///
    /// # Errors
    /// [`ControlError::ResourceExhausted`]: too many are open.
    pub fn open(&mut self) -> Result<StreamId, ControlError> {
        if self.streams.len() >= STREAMS_MAX {
            return Err(ControlError::ResourceExhausted(format!(
                "{STREAMS_MAX} controllers have streams already; close one first"
            )));
        }
        let id = StreamId(self.next);
        self.next += 1;
        self.streams.insert(id, Stream { role: None, election: None });
        Ok(id)
    }

    /// Checks the device of an arbitration message; a stream keeps the one that it began with.
    ///
    /// # Errors
    /// Those of `found`; [`ControlError::FailedPrecondition`] for a stream that began with another device.
    pub fn check_device(
        &self,
        id: StreamId,
        found: Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        let has_begun = self.streams.get(&id).is_some_and(|stream| stream.role.is_some());
        found.map_err(|error| match has_begun {
            true => ControlError::FailedPrecondition(
                "a stream keeps the device that it began with: open another one".into(),
            ),
            false => error,
        })
    }

    /// Sets role and election id of a stream. Returns notices, that of the new primary last.
    ///
    /// # Errors
    /// The stream is to be closed: its election id is in use, it changed its role, or the name of its role is too long
    /// ([`ControlError::ResourceExhausted`]).
    pub fn update(
        &mut self,
        id: StreamId,
        role: &str,
        election: Option<u128>,
    ) -> Result<Vec<Notice>, ControlError> {
        let election = election.filter(|election| *election != 0);
        let known = self.streams.get(&id).and_then(|stream| stream.role.as_deref());
        if known.is_some_and(|known| known != role) {
            return Err(ControlError::FailedPrecondition(
                "a stream keeps the role that it began with: open another one".into(),
            ));
        }
        let is_used = |(other, stream): (&StreamId, &Stream)| {
            *other != id && stream.role.as_deref() == Some(role) && stream.election == election
        };
        if let Some(election) = election
            && self.streams.iter().any(is_used)
        {
            return invalid(format!("election id {election} is used by another controller"));
        }
        if role.len() > ROLE_BYTES_MAX {
            return Err(ControlError::ResourceExhausted(format!(
                "the name of the role has {} bytes, and {ROLE_BYTES_MAX} are kept: take a shorter one",
                role.len()
            )));
        }
        let before = self.primary(role);
        if let Some(stream) = self.streams.get_mut(&id) {
            (stream.role, stream.election) = (Some(role.to_owned()), election);
        }
        if let Some(election) = election {
            self.note_election(role, election);
        }
        Ok(match before == self.primary(role) && self.primary(role) != Some(id) {
            true => self.notice(id).into_iter().collect(),
            false => self.notices(role),
        })
    }

    fn note_election(&mut self, role: &str, election: u128) {
        if self.elections.len() >= ROLES_MAX && !self.elections.contains_key(role) {
            let is_live =
                |role: &str| self.streams.values().any(|one| one.role.as_deref() == Some(role));
            // The role without a name is always there.
            let left = self.elections.iter().filter(|(role, _)| !role.is_empty() && !is_live(role));
            let oldest = left.min_by_key(|(_, elections)| elections.last);
            if let Some(oldest) = oldest.map(|(role, _)| role.clone()) {
                self.elections.remove(&oldest);
            }
        }
        self.elected += 1;
        let first = Elections { highest: election, last: self.elected };
        let elections = self.elections.entry(role.to_owned()).or_insert(first);
        elections.highest = elections.highest.max(election);
        elections.last = self.elected;
    }

    /// The highest election id of a role so far.
    fn highest(&self, role: &str) -> Option<u128> {
        self.elections.get(role).map(|elections| elections.highest)
    }

    /// Closes a stream. Returns notices.
    pub fn close(&mut self, id: StreamId) -> Vec<Notice> {
        let role = self.streams.get(&id).and_then(|stream| stream.role.clone());
        let was_primary = role.as_deref().is_some_and(|role| self.primary(role) == Some(id));
        self.streams.remove(&id);
        match role {
            Some(role) if was_primary => self.notices(&role),
            _ => Vec::new(),
        }
    }

    /// The primary of a role: the live stream with the highest election id so far.
    pub fn primary(&self, role: &str) -> Option<StreamId> {
        let highest = self.highest(role)?;
        let mut streams = self.streams.iter();
        let found = streams.find(|(_, stream)| {
            stream.role.as_deref() == Some(role) && stream.election == Some(highest)
        });
        found.map(|(id, _)| *id)
    }

    /// All primaries.
    pub fn primaries(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.elections.keys().filter_map(|role| self.primary(role))
    }

    /// Roles with a primary, and its stream.
    pub fn by_role(&self) -> impl Iterator<Item = (String, StreamId)> + '_ {
        self.elections.keys().filter_map(|role| Some((role.clone(), self.primary(role)?)))
    }

    /// Number of open streams.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Checks that requests with this role and election id may write.
    ///
    /// # Errors
    /// [`ControlError::PermissionDenied`]; [`ControlError::NotFound`]: no controller has had the role.
    pub fn may_write(&self, role: &str, election: Option<u128>) -> Result<(), ControlError> {
        let highest = self.highest(role);
        let mut roles = self.streams.values().map(|stream| stream.role.as_deref());
        // The role without a name is always there.
        if !role.is_empty() && highest.is_none() && !roles.any(|known| known == Some(role)) {
            return Err(ControlError::NotFound(format!(
                "there is no role {role}: send an arbitration update with it first"
            )));
        }
        let denied = |text: String| Err(ControlError::PermissionDenied(text));
        match (self.primary(role), election.filter(|election| *election != 0)) {
            (Some(_), Some(election)) if Some(election) == highest => Ok(()),
            (None, _) => denied(without_primary(highest, role)),
            (Some(_), _) => {
                denied(format!("only the primary controller{} may write", of_role(role)))
            }
        }
    }

    fn notice(&self, id: StreamId) -> Option<Notice> {
        let role = self.streams.get(&id)?.role.clone()?;
        let standing = match self.primary(&role) {
            Some(primary) if primary == id => Standing::Primary,
            Some(_) => Standing::Backup,
            None => Standing::BackupWithoutPrimary,
        };
        let election = self.highest(&role);
        Some(Notice { stream: id, role, election, standing })
    }

    /// A notice for every stream of a role; that of the primary is last.
    fn notices(&self, role: &str) -> Vec<Notice> {
        let of_role =
            self.streams.iter().filter(|(_, stream)| stream.role.as_deref() == Some(role));
        let mut all: Vec<Notice> = of_role.filter_map(|(id, _)| self.notice(*id)).collect();
        all.sort_by_key(|notice| notice.standing == Standing::Primary);
        all
    }
}

/// Why nobody of a role may write, and what to do, with the highest election id that the role has seen.
pub fn without_primary(highest: Option<u128>, role: &str) -> String {
    let none = format!("no controller{} is primary", of_role(role));
    match highest {
        Some(highest) => format!(
            "{none}: the highest election id so far is {highest}, and a controller with at least that id becomes primary"
        ),
        None => format!("{none}: send an arbitration update with an election id above 0"),
    }
}

#[cfg(test)]
mod tests;
