//! Multicast groups and clone sessions (the packet replication engine).
//!
//! Ports are bytestrings, or numbers as before P4Runtime 1.4; backup replicas are resolved before
//! ([`watch`](crate::p4runtime::watch)).

use wireyard_pipeline::ir::CPU_PORT;

use super::{Result, bits, invalid};
use crate::control::{Control, ControlError, Entity, Query, named};
use crate::p4runtime::proto::p4::v1 as p4;
use crate::p4runtime::value::shortest;
use crate::ports::PortNumber;
use crate::replicate::{Group, Member, Members, Session};
use p4::packet_replication_engine_entry::Type;
use p4::replica::PortKind;

fn number(value: u32, what: &str) -> Result<u16> {
    u16::try_from(value)
        .map_err(|_| ControlError::OutOfRange(format!("{what} {value} is above 65535")))
}

/// SDN_PORT_CPU: the port of the control plane, whatever its number in the program (P4Runtime specification,
/// "Translation of Port Numbers").
const SDN_PORT_CPU: u32 = 0xffff_fffd;

/// The port of a bytestring.
pub(in crate::p4runtime) fn port_of(bytes: &[u8], what: impl Fn() -> String) -> Result<PortNumber> {
    match bits(bytes, 32, &what) {
        Ok(port) if port == SDN_PORT_CPU.into() => Ok(PortNumber(CPU_PORT)),
        _ => Ok(PortNumber(bits(bytes, 16, what)? as u16)),
    }
}

/// The bytestring of a port.
pub(in crate::p4runtime) fn port_bytes(port: PortNumber) -> Vec<u8> {
    let number = if port.0 == CPU_PORT { SDN_PORT_CPU } else { port.0.into() };
    shortest(number.into())
}

#[expect(deprecated, reason = "clients of P4Runtime 1.3 still send the port as a number")]
pub(in crate::p4runtime) fn member(replica: &p4::Replica) -> Result<Member> {
    let port = match &replica.port_kind {
        Some(PortKind::Port(bytes)) => port_of(bytes, || "the port of a replica".into())?,
        Some(PortKind::EgressPort(port)) => PortNumber(number(*port, "port")?),
        None => return invalid("a replica has no port"),
    };
    let Ok(instance) = u16::try_from(replica.instance) else {
        return invalid(format!("instance {} is above 65535", replica.instance));
    };
    Ok(Member { port, instance })
}

fn replica(member: &Member) -> p4::Replica {
    p4::Replica {
        port_kind: Some(PortKind::Port(port_bytes(member.port))),
        instance: member.instance.into(),
        backup_replicas: Vec::new(),
    }
}

fn members(replicas: &[p4::Replica], what: impl Fn() -> String) -> Result<Vec<Member>> {
    let members = replicas.iter().map(member).collect::<Result<Vec<Member>>>()?;
    let mut seen = std::collections::BTreeSet::new();
    let twice = members.iter().find(|member| !seen.insert((member.port, member.instance)));
    if let Some(Member { port, instance }) = twice {
        return invalid(format!("{}: duplicate port {port} with instance {instance}", what()));
    }
    Ok(members)
}

/// A group or session. For a deletion only its number is read.
pub fn entity(entry: &p4::PacketReplicationEngineEntry, deleted: bool) -> Result<Entity> {
    match &entry.r#type {
        Some(Type::MulticastGroupEntry(group)) => {
            named(group.multicast_group_id, "multicast group")?;
            let id = number(group.multicast_group_id, "multicast group")?;
            let replicas: &[p4::Replica] = if deleted { &[] } else { &group.replicas };
            let members = members(replicas, || format!("multicast group {id}"))?;
            let group = Group { members: Members::List(members), prune_ingress: false };
            Ok(Entity::Multicast { id, group })
        }
        Some(Type::CloneSessionEntry(session)) => clone_session(session, deleted),
        None => invalid("the entry of the packet replication engine is empty"),
    }
}

/// A group or session as an update of one that exists: what P4Runtime has no field for stays. That is whether a group
/// leaves out the ingress port of a packet, and that it has all ports, which is read as no replicas.
///
/// # Errors
/// As [`entity`].
pub fn modified(entry: &p4::PacketReplicationEngineEntry, control: &Control) -> Result<Entity> {
    let mut entity = entity(entry, false)?;
    if let Entity::Multicast { id, group } = &mut entity
        && let Ok(found) = control.read(&Query::Multicast { id: Some(*id) })
        && let [Entity::Multicast { group: before, .. }] = found.as_slice()
    {
        group.prune_ingress = before.prune_ingress;
        let is_empty = matches!(&group.members, Members::List(members) if members.is_empty());
        if is_empty && matches!(before.members, Members::All) {
            group.members = Members::All;
        }
    }
    Ok(entity)
}

fn clone_session(session: &p4::CloneSessionEntry, deleted: bool) -> Result<Entity> {
    named(session.session_id, "clone session")?;
    let id = number(session.session_id, "clone session")?;
    if deleted {
        let replicas = vec![Member { port: PortNumber(0), instance: 0 }];
        let session = Session { replicas, traffic_class: None, truncate_bytes: 0 };
        return Ok(Entity::Mirror { id, session });
    }
    let replicas = members(&session.replicas, || format!("clone session {id}"))?;
    let class = u8::try_from(session.class_of_service).ok().filter(|class| *class < 8);
    let Some(class) = class else {
        return invalid(format!(
            "class_of_service is {}; classes are 0 to 7",
            session.class_of_service
        ));
    };
    let Ok(truncate_bytes) = u32::try_from(session.packet_length_bytes) else {
        return invalid("packet_length_bytes cannot be negative");
    };
    let traffic_class = (class != 0).then_some(class);
    let session = Session { replicas, traffic_class, truncate_bytes };
    Ok(Entity::Mirror { id, session })
}

/// A group as a message, with the metadata that its controller set.
pub fn group_message(
    id: u16,
    group: &Group,
    kept: Option<Vec<u8>>,
) -> p4::PacketReplicationEngineEntry {
    let (replicas, metadata) = match &group.members {
        Members::List(members) => (members.iter().map(replica).collect(), Vec::new()),
        // A group of an entries file with `all`: P4Runtime has no replica for that.
        Members::All => (Vec::new(), b"all ports".to_vec()),
    };
    let metadata = kept.unwrap_or(metadata);
    let multicast_group_id = id.into();
    let group = p4::MulticastGroupEntry { multicast_group_id, replicas, metadata };
    p4::PacketReplicationEngineEntry { r#type: Some(Type::MulticastGroupEntry(group)) }
}

/// A session as a message.
pub fn session_message(id: u16, session: &Session) -> p4::PacketReplicationEngineEntry {
    let session = p4::CloneSessionEntry {
        session_id: id.into(),
        replicas: session.replicas.iter().map(replica).collect(),
        class_of_service: session.traffic_class.unwrap_or(0).into(),
        packet_length_bytes: session.truncate_bytes as i32,
    };
    p4::PacketReplicationEngineEntry { r#type: Some(Type::CloneSessionEntry(session)) }
}
