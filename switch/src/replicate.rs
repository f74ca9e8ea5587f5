//! Packet replication: multicast groups and mirror sessions (PSA: packet replication engine).
//!
//! Configuration only: the copies to make. The core makes them (sharing packet memory, accounting). The control plane
//! publishes all groups and sessions as one version ([`SharedReplication`]), which each worker reads without waiting.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use wireyard_pipeline::entries::{Replica, Resolved};

use crate::ports::PortNumber;

/// Most packets that result from one received packet, including itself.
pub const COPIES_MAX: u32 = 1 << 12;

/// Ports that get a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// Every port of the switch at that time, instance 0.
    All,
    /// These, in this order.
    List(Vec<Member>),
}

/// One copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its port.
    pub port: PortNumber,
    /// The copy's value of `std.instance`.
    pub instance: u16,
}

/// A multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Copies.
    pub members: Members,
    /// No copy to the packet's ingress port.
    pub prune_ingress: bool,
}

/// A mirror session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its copies: ports, and values of `std.instance`. At least one.
    pub replicas: Vec<Member>,
    /// Its class, when the session has one of its own.
    pub traffic_class: Option<u8>,
    /// Cut the copy to this many bytes; 0 is uncut.
    pub truncate_bytes: u32,
}

/// A copy of a packet to a mirror session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorCopy {
    /// Its port, and its value of `std.instance`.
    pub member: Member,
    /// Its class, when the session has one of its own.
    pub traffic_class: Option<u8>,
    /// Cut it to this many bytes; 0 is uncut.
    pub truncate_bytes: u32,
}

/// An invalid group or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicationError {
    /// In programs 0 is "no group".
    #[error("multicast group 0 means \"no group\": use 1 to 65535")]
    GroupZero,
    /// More copies than one packet may have.
    #[error("multicast group {group}: {members} members, at most {COPIES_MAX}")]
    Members {
        /// The group.
        group: u16,
        /// Its members.
        members: usize,
    },
    /// No copy, or more than one packet may have.
    #[error("mirror session {session}: {copies} copies; 1 to {COPIES_MAX}")]
    Copies {
        /// The session.
        session: u16,
        /// Its copies.
        copies: usize,
    },
}

/// All groups and sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replication {
    groups: BTreeMap<u16, Group>,
    sessions: BTreeMap<u16, Session>,
}

impl Replication {
    /// Sets a group; group 0 means "no group" in a program and cannot be set.
    ///
    /// # Errors
    /// Group 0, or more members than a packet may have copies.
    pub fn set_group(&mut self, id: u16, group: Group) -> Result<(), ReplicationError> {
        if id == 0 {
            return Err(ReplicationError::GroupZero);
        }
        if let Members::List(members) = &group.members
            && members.len() > COPIES_MAX as usize
        {
            return Err(ReplicationError::Members { group: id, members: members.len() });
        }
        self.groups.insert(id, group);
        Ok(())
    }

    /// Sets the groups and sessions of an entries file.
    ///
    /// # Errors
    /// As [`Replication::set_group`].
    pub fn fill(&mut self, entries: &Resolved) -> Result<(), ReplicationError> {
        let member = |replica: &Replica| Member {
            port: PortNumber(replica.port),
            instance: replica.instance,
        };
        for (id, group) in &entries.groups {
            let members = match &group.replicas {
                Some(replicas) => Members::List(replicas.iter().map(member).collect()),
                None => Members::All,
            };
            self.set_group(*id, Group { members, prune_ingress: group.prune_ingress })?;
        }
        for (id, session) in &entries.sessions {
            let copy = Session {
                replicas: session.replicas.iter().map(member).collect(),
                traffic_class: session.traffic_class,
                truncate_bytes: session.truncate_bytes,
            };
            self.set_session(*id, copy)?;
        }
        Ok(())
    }

    /// A group, if it exists.
    pub fn group(&self, id: u16) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// Groups by number.
    pub fn groups(&self) -> impl Iterator<Item = (u16, &Group)> {
        self.groups.iter().map(|(id, group)| (*id, group))
    }

    /// Removes a group; false if there is none.
    pub fn remove_group(&mut self, id: u16) -> bool {
        self.groups.remove(&id).is_some()
    }

    /// Sessions by number.
    pub fn sessions(&self) -> impl Iterator<Item = (u16, &Session)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// Removes a session; false if there is none.
    pub fn remove_session(&mut self, id: u16) -> bool {
        self.sessions.remove(&id).is_some()
    }

    /// Adds those of `others` that do not exist here.
    pub fn add(&mut self, others: &Replication) {
        for (id, group) in &others.groups {
            self.groups.entry(*id).or_insert_with(|| group.clone());
        }
        for (id, session) in &others.sessions {
            self.sessions.entry(*id).or_insert_with(|| session.clone());
        }
    }

    /// Sets a session.
    ///
    /// # Errors
    /// No copy, or more than a packet may have.
    pub fn set_session(&mut self, id: u16, session: Session) -> Result<(), ReplicationError> {
        let copies = session.replicas.len();
        if !(1..=COPIES_MAX as usize).contains(&copies) {
            return Err(ReplicationError::Copies { session: id, copies });
        }
        self.sessions.insert(id, session);
        Ok(())
    }

    /// A session, if it exists.
    pub fn session(&self, id: u16) -> Option<&Session> {
        self.sessions.get(&id)
    }

    /// Fills `out` with the copies of a packet to these sessions: `None` for a session that does not exist.
    pub fn mirrors(&self, sessions: &[u16], out: &mut Vec<Option<MirrorCopy>>) {
        out.clear();
        for id in sessions {
            let Some(session) = self.session(*id) else {
                out.push(None);
                continue;
            };
            let (traffic_class, truncate_bytes) = (session.traffic_class, session.truncate_bytes);
            let copy =
                |member: &Member| MirrorCopy { member: *member, traffic_class, truncate_bytes };
            out.extend(session.replicas.iter().map(copy).map(Some));
        }
    }

    /// Fills `out` with the copies of a packet from `ingress_port`; false when there is no such
    /// group. `ports` are all ports of the switch, in order.
    pub fn copies(
        &self,
        id: u16,
        ingress_port: PortNumber,
        ports: &[PortNumber],
        out: &mut Vec<Member>,
    ) -> bool {
        out.clear();
        let Some(group) = self.groups.get(&id) else { return false };
        let wanted = |member: &Member| !(group.prune_ingress && member.port == ingress_port);
        match &group.members {
            Members::All => {
                let all = ports.iter().map(|&port| Member { port, instance: 0 });
                out.extend(all.filter(wanted));
            }
            Members::List(list) => out.extend(list.iter().copied().filter(wanted)),
        }
        true
    }
}

/// The groups and sessions of a device, for all its workers: a change publishes a new version, which a worker reads as
/// a whole.
#[derive(Clone, Debug, Default)]
pub struct SharedReplication {
    current: Arc<ArcSwap<Replication>>,
}

impl SharedReplication {
    /// These, in one version.
    pub fn new(replication: Replication) -> SharedReplication {
        SharedReplication { current: Arc::new(ArcSwap::from_pointee(replication)) }
    }

    /// The current version.
    pub fn load(&self) -> Arc<Replication> {
        self.current.load_full()
    }

    /// A new version.
    pub fn publish(&self, replication: Replication) {
        self.current.store(Arc::new(replication));
    }

    /// The view of one worker.
    pub fn reader(&self) -> ReplicationReader {
        ReplicationReader { cache: Cache::new(Arc::clone(&self.current)) }
    }
}

/// One worker's view of groups and sessions: the current version costs one load and a comparison while nothing is
/// published.
#[derive(Clone, Debug)]
pub struct ReplicationReader {
    cache: Cache<Arc<ArcSwap<Replication>>, Arc<Replication>>,
}

impl Default for ReplicationReader {
    fn default() -> ReplicationReader {
        SharedReplication::default().reader()
    }
}

impl ReplicationReader {
    /// The current version.
    #[inline]
    pub fn get(&mut self) -> &Replication {
        self.cache.load()
    }

    /// Changes groups and sessions, for a device that has no other worker and no [control](crate::control) that changes
    /// them meanwhile.
    ///
    /// # Errors
    /// The error of `change`; then nothing has changed.
    pub fn change<E>(
        &mut self,
        change: impl FnOnce(&mut Replication) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut replication = self.get().clone();
        change(&mut replication)?;
        self.cache.arc_swap().store(Arc::new(replication));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pruned_group_leaves_the_ingress_port_out() {
        let mut replication = Replication::default();
        let group = Group { members: Members::All, prune_ingress: true };
        replication.set_group(1, group).unwrap();
        let (mut out, ports) = (Vec::new(), [1, 2, 3].map(PortNumber));
        assert!(replication.copies(1, ports[1], &ports, &mut out));
        assert_eq!(out.iter().map(|m| m.port.0).collect::<Vec<_>>(), [1, 3]);
        assert!(!replication.copies(9, ports[1], &ports, &mut out));
        assert!(
            replication
                .set_group(0, Group { members: Members::All, prune_ingress: false })
                .is_err()
        );
    }
}
