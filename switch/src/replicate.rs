//! Packet replication: multicast groups and mirror sessions (PSA: packet replication engine).
//!
//! Configuration only: which copies there are. Making them (sharing packet memory, accounting) is
//! the core's. Groups and sessions are filled by control and read between packets of one worker.

use std::collections::BTreeMap;

use wireyard_pipeline::entries::{Replica, Resolved};

/// Most packets that are made of one received packet, itself among them.
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
    /// Where it goes.
    pub port: u16,
    /// What the program reads in `std.instance`.
    pub instance: u16,
}

/// A multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Copies.
    pub members: Members,
    /// No copy to the port the packet came in by.
    pub prune_ingress: bool,
}

/// A mirror session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Where the copy goes.
    pub port: u16,
    /// What the program reads in `std.instance`.
    pub instance: u16,
    /// Its class, when the session has one of its own.
    pub traffic_class: Option<u8>,
    /// Cut the copy to so many bytes; 0 is whole.
    pub truncate_bytes: u32,
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
    pub fn set_group(&mut self, id: u16, group: Group) -> Result<(), String> {
        if id == 0 {
            return Err("multicast group 0 means \"no group\": use 1 to 65535".into());
        }
        if let Members::List(members) = &group.members
            && members.len() > COPIES_MAX as usize
        {
            let members = members.len();
            return Err(format!("multicast group {id}: {members} members, at most {COPIES_MAX}"));
        }
        self.groups.insert(id, group);
        Ok(())
    }

    /// Sets the groups and sessions of an entries file.
    ///
    /// # Errors
    /// As [`Replication::set_group`].
    pub fn fill(&mut self, entries: &Resolved) -> Result<(), String> {
        for (id, group) in &entries.groups {
            let member =
                |replica: &Replica| Member { port: replica.port, instance: replica.instance };
            let members = match &group.replicas {
                Some(replicas) => Members::List(replicas.iter().map(member).collect()),
                None => Members::All,
            };
            self.set_group(*id, Group { members, prune_ingress: group.prune_ingress })?;
        }
        for (id, session) in &entries.sessions {
            self.set_session(
                *id,
                Session {
                    port: session.port,
                    instance: session.instance,
                    traffic_class: session.traffic_class,
                    truncate_bytes: session.truncate_bytes,
                },
            );
        }
        Ok(())
    }

    /// Sets a session.
    pub fn set_session(&mut self, id: u16, session: Session) {
        self.sessions.insert(id, session);
    }

    /// The session, if there is one.
    pub fn session(&self, id: u16) -> Option<Session> {
        self.sessions.get(&id).copied()
    }

    /// Fills `out` with the copies of a packet from `ingress_port`; false when there is no such
    /// group. `ports` are all ports of the switch, in order.
    pub fn copies(&self, id: u16, ingress_port: u16, ports: &[u16], out: &mut Vec<Member>) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pruned_group_leaves_the_ingress_port_out() {
        let mut replication = Replication::default();
        let group = Group { members: Members::All, prune_ingress: true };
        replication.set_group(1, group).unwrap();
        let mut out = Vec::new();
        assert!(replication.copies(1, 2, &[1, 2, 3], &mut out));
        assert_eq!(out.iter().map(|m| m.port).collect::<Vec<_>>(), [1, 3]);
        assert!(!replication.copies(9, 2, &[1, 2, 3], &mut out));
        assert!(
            replication
                .set_group(0, Group { members: Members::All, prune_ingress: false })
                .is_err()
        );
    }
}
