//! Objects that depend on links: groups with a `watch_port` of a member, copies with backup replicas (P4Runtime
//! specification 1.5, sections 9.2.2 and 9.5).
//!
//! A group or session that depends on a link, a group with a `max_size`, and copies whose ports are numbers, as before
//! P4Runtime 1.4, are stored as their controller wrote them: clients that write a form read only that. While
//! ports are down, the device has a reduced form of it: members that watch them have weight 0, so that they stay in use,
//! and the first backup that is up is in the place of a copy. A copy without a port that is up is left unchanged. A port
//! that does not exist is down. Ports are checked when the device reports the change of a link, some hundred
//! microseconds after the device has detected it, and when ports are added or removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::proto::p4::v1 as p4;
use super::translate::{Result, action, replication};
use crate::config::is_port;
use crate::control::{ControlError, invalid};
use crate::ports::PortNumber;
use p4::action_profile_group::member::WatchKind;
use p4::entity::Entity as Message;
use p4::packet_replication_engine_entry::Type as Replication;
use p4::replica::PortKind;

/// The identity of a group or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A group of an action profile.
    Group(u32, u32),
    /// A multicast group.
    Multicast(u32),
    /// A clone session.
    Session(u32),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Group(profile, group) => write!(f, "group {group} of profile {profile:#010x}"),
            Name::Multicast(group) => write!(f, "multicast group {group}"),
            Name::Session(session) => write!(f, "clone session {session}"),
        }
    }
}

/// Groups and sessions that the device may have in a reduced form, and the ports that are down.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Shared with reads, which need no lock then: the first write beside one copies it.
    wanted: Arc<BTreeMap<Name, Message>>,
    down: BTreeSet<PortNumber>,
    /// The ports that exist; `None` until they are known: then none counts as absent.
    ports: Option<BTreeSet<PortNumber>>,
}

/// The identity of a group or session; `None` for other messages.
pub fn name(message: &Message) -> Option<Name> {
    Some(match message {
        Message::ActionProfileGroup(group) => Name::Group(group.action_profile_id, group.group_id),
        Message::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref()? {
            Replication::MulticastGroupEntry(group) => Name::Multicast(group.multicast_group_id),
            Replication::CloneSessionEntry(session) => Name::Session(session.session_id),
        },
        _ => return None,
    })
}

fn replicas(message: &mut Message) -> Option<&mut Vec<p4::Replica>> {
    let Message::PacketReplicationEngineEntry(entry) = message else { return None };
    Some(match entry.r#type.as_mut()? {
        Replication::MulticastGroupEntry(group) => &mut group.replicas,
        Replication::CloneSessionEntry(session) => &mut session.replicas,
    })
}

/// The port of a `watch_port`.
///
/// # Errors
/// [`ControlError::OutOfRange`]: it is not the number of a port.
#[expect(deprecated, reason = "clients of P4Runtime 1.3 still send the port as a number")]
pub fn watched(kind: &WatchKind) -> Result<PortNumber> {
    match kind {
        WatchKind::WatchPort(bytes) => replication::port_of(bytes, || "watch_port".into()),
        WatchKind::Watch(port) => u16::try_from(*port)
            .map(PortNumber)
            .map_err(|_| ControlError::OutOfRange(format!("watch {port} is no port"))),
    }
}

/// True if a `watch_port` is empty, which means none.
fn is_unset(kind: &WatchKind) -> bool {
    matches!(kind, WatchKind::WatchPort(port) if port.is_empty())
}

/// A port as a `watch_port`.
pub fn watch_port(port: PortNumber) -> WatchKind {
    WatchKind::WatchPort(replication::port_bytes(port))
}

/// True if the state of links determines the form in the device.
fn has_links(message: &Message) -> bool {
    let has_backups = |replicas: &[p4::Replica]| {
        replicas.iter().any(|replica| !replica.backup_replicas.is_empty())
    };
    match message {
        Message::ActionProfileGroup(group) => {
            group.members.iter().any(|member| member.watch_kind.is_some())
        }
        Message::PacketReplicationEngineEntry(entry) => match &entry.r#type {
            Some(Replication::MulticastGroupEntry(group)) => has_backups(&group.replicas),
            Some(Replication::CloneSessionEntry(session)) => has_backups(&session.replicas),
            None => false,
        },
        _ => false,
    }
}

/// A message whose form in the device may be reduced or has no numbers, with its ports in the shortest form; `None` for
/// any other.
///
/// # Errors
/// Not a port, or a backup equal to its replica.
#[expect(deprecated, reason = "as above")]
fn dependent(message: &Message) -> Result<Option<Message>> {
    let mut message = message.clone();
    let mut depends = false;
    if let Message::ActionProfileGroup(group) = &mut message {
        depends = group.max_size != 0;
        for member in &mut group.members {
            if member.watch_kind.as_ref().is_some_and(is_unset) {
                member.watch_kind = None;
            }
            if let Some(kind) = &mut member.watch_kind {
                (*kind, depends) = (watch_port(watched(kind)?), true);
            }
        }
    }
    let mut has_numbers = false;
    for replica in replicas(&mut message).into_iter().flatten() {
        match &mut replica.port_kind {
            // A port that was written as a number stays one.
            Some(PortKind::EgressPort(_)) => has_numbers = true,
            Some(PortKind::Port(bytes)) => {
                let port = replication::port_of(bytes, || "the port of a replica".into())?;
                *bytes = replication::port_bytes(port);
            }
            None => {}
        }
        if !replica.backup_replicas.is_empty() {
            depends = true;
            for backup in &mut replica.backup_replicas {
                let port =
                    replication::port_of(&backup.port, || "the port of a backup replica".into())?;
                backup.port = replication::port_bytes(port);
            }
        }
    }
    if depends {
        distinct(replicas(&mut message).map_or(&[], |replicas| replicas))?;
    }
    Ok((depends || has_numbers).then_some(message))
}

/// Checks replicas and their backups: each port is once in a replica, and each port with its instance once in all.
fn distinct(replicas: &[p4::Replica]) -> Result<()> {
    let mut seen = BTreeSet::new();
    for replica in replicas {
        let first = replication::member(replica)?;
        let mut ports = BTreeSet::from([first.port]);
        let mut pairs = vec![(first.port, u32::from(first.instance))];
        for backup in &replica.backup_replicas {
            let port =
                replication::port_of(&backup.port, || "the port of a backup replica".into())?;
            if backup.instance > u16::MAX.into() {
                let text =
                    format!("instance {} of a backup replica is above 65535", backup.instance);
                return invalid(text);
            }
            if !ports.insert(port) {
                let text = format!("port {port} is in a replica and in its backups");
                return invalid(text);
            }
            pairs.push((port, backup.instance));
        }
        if let Some((port, instance)) = pairs.into_iter().find(|pair| !seen.insert(*pair)) {
            let text = format!("duplicate port {port} with instance {instance}, backups counted");
            return invalid(text);
        }
    }
    Ok(())
}

impl Watch {
    /// True if the port is down, or does not exist.
    pub fn is_down(&self, port: PortNumber) -> bool {
        // The CPU port has no link.
        let is_absent = |ports: &BTreeSet<PortNumber>| is_port(port) && !ports.contains(&port);
        self.down.contains(&port) || self.ports.as_ref().is_some_and(is_absent)
    }

    /// The current form of a group or session for the device; and the form to store, if they can differ.
    ///
    /// # Errors
    /// It has invalid ports.
    pub fn effective(&self, message: &Message) -> Result<(Message, Option<Message>)> {
        let Some(wanted) = dependent(message)? else { return Ok((message.clone(), None)) };
        Ok((self.left_of(&wanted), Some(wanted)))
    }

    fn left_of(&self, wanted: &Message) -> Message {
        let mut left = wanted.clone();
        let is_up = |kind: &Option<WatchKind>| {
            let port = kind.as_ref().and_then(|kind| watched(kind).ok());
            port.is_none_or(|port| !self.is_down(port))
        };
        if let Message::ActionProfileGroup(group) = &mut left {
            for member in &mut group.members {
                // It stays in use: it cannot be deleted, and it is there when the link returns.
                if !is_up(&member.watch_kind) {
                    member.weight = 0;
                }
                member.watch_kind = None;
            }
        }
        for replica in replicas(&mut left).into_iter().flatten() {
            let backups = std::mem::take(&mut replica.backup_replicas);
            let port = |bytes: &[u8]| replication::port_of(bytes, String::new).unwrap_or_default();
            if replication::member(replica).is_ok_and(|member| self.is_down(member.port))
                && let Some(up) = backups.iter().find(|one| !self.is_down(port(&one.port)))
            {
                replica.port_kind = Some(PortKind::Port(up.port.clone()));
                replica.instance = up.instance;
            }
        }
        left
    }

    /// Stores a group or session that was written, or removes it.
    pub fn set(&mut self, name: Name, wanted: Option<Message>) {
        match wanted {
            Some(message) => _ = Arc::make_mut(&mut self.wanted).insert(name, message),
            None if !self.wanted.contains_key(&name) => {}
            None => _ = Arc::make_mut(&mut self.wanted).remove(&name),
        }
    }

    /// The `max_size` with which a group was inserted.
    pub fn max_size(&self, name: Name) -> i32 {
        match self.wanted.get(&name) {
            Some(Message::ActionProfileGroup(group)) => group.max_size,
            _ => 0,
        }
    }

    /// A group or session as its controller wrote it, if the form in the device may be another one.
    pub fn wanted(&self, name: Name) -> Option<&Message> {
        self.wanted.get(&name)
    }

    /// All stored groups and sessions.
    pub fn all(&self) -> impl Iterator<Item = (Name, &Message)> {
        self.wanted.iter().map(|(name, wanted)| (*name, wanted))
    }

    /// Records the change of a link; returns the new forms for the device of all that depends on links.
    pub fn link(&mut self, port: PortNumber, is_up: bool) -> Vec<Message> {
        let changed = if is_up { self.down.remove(&port) } else { self.down.insert(port) };
        if !changed {
            return Vec::new();
        }
        self.left()
    }

    fn left(&self) -> Vec<Message> {
        let dependent = self.wanted.values().filter(|wanted| has_links(wanted));
        dependent.map(|wanted| self.left_of(wanted)).collect()
    }

    /// Records the state of all ports; returns the new forms for the device of all that depends on links.
    pub fn links(&mut self, up: BTreeSet<PortNumber>, down: BTreeSet<PortNumber>) -> Vec<Message> {
        self.ports = Some(up.union(&down).copied().collect());
        self.down = down;
        self.left()
    }

    /// Whether there is a group or session for which this holds.
    pub fn has(&self, is_it: impl Fn(Name) -> bool) -> bool {
        self.wanted.keys().any(|name| is_it(*name))
    }

    /// Removes all groups and sessions but these; returns the names of those removed.
    pub fn retain(&mut self, stays: impl Fn(Name) -> bool) -> Vec<Name> {
        let gone = Arc::make_mut(&mut self.wanted).extract_if(.., |name, _| !stays(*name));
        gone.map(|(name, _)| name).collect()
    }
}

/// The weight and watched port of an action of a set.
///
/// # Errors
/// As [`watched`].
pub fn watched_action(one: &p4::ActionProfileAction) -> Result<(u32, Option<PortNumber>)> {
    use p4::action_profile_action::WatchKind as Of;
    #[expect(deprecated, reason = "as above")]
    let kind = one.watch_kind.as_ref().map(|kind| match kind {
        Of::WatchPort(bytes) => WatchKind::WatchPort(bytes.clone()),
        Of::Watch(port) => WatchKind::Watch(*port),
    });
    let port = kind.filter(|kind| !is_unset(kind)).map(|kind| watched(&kind));
    Ok((action::weight(one.weight)?, port.transpose()?))
}
