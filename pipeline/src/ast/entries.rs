//! An entries file as it is written: the initial contents of the tables and of the device.

use super::{AstExpr, EntryDecl, MemberDecl, MeterRates, Name, Named, Sp};

/// Values by number, in the order written.
pub type Numbered<T> = Vec<(Sp<u64>, T)>;

/// `entries.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntriesFile {
    /// `entries:` by table.
    pub entries: Named<Vec<EntryDecl>>,
    /// `defaults:` the default action by table, a call.
    pub defaults: Named<AstExpr>,
    /// `members:` of a selector, a call by number, by table.
    pub members: Named<Numbered<AstExpr>>,
    /// `groups:` of a selector by number, by table.
    pub groups: Named<Numbered<Vec<GroupMember>>>,
    /// `value_sets:` members by set.
    pub value_sets: Named<Vec<MemberDecl>>,
    /// `registers:` cells by index, by register; a plain value is the cell `value`.
    pub registers: Named<Numbered<Named<AstExpr>>>,
    /// `meters:` rates by index, by meter.
    pub meters: Named<Numbered<MeterRates>>,
    /// `counters:` counts by index, by counter.
    pub counters: Named<Numbered<CountDecl>>,
    /// `multicast_groups:` by number.
    pub multicast_groups: Numbered<MulticastDecl>,
    /// `mirror_sessions:` by number.
    pub mirror_sessions: Numbered<MirrorDecl>,
    /// `settings:` of ports and queues.
    pub settings: Vec<SettingDecl>,
}

/// The count of a cell of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountDecl {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Settings of a port, or of one of its queues: the device defines them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDecl {
    /// The port.
    pub port: Sp<u64>,
    /// The queue; `None`: the whole port.
    pub queue: Option<Sp<u64>>,
    /// `NAME=VALUE`.
    pub set: Vec<Name>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Number of the member.
    pub member: Sp<u64>,
    /// Its weight; 1 when not written.
    pub weight: Sp<u64>,
}

/// A multicast group: a list of copies, or `{ ports: [..], prune_ingress: true }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastDecl {
    /// The copies; `None` for `ports: all`, one to every port of the switch.
    pub replicas: Option<Vec<ReplicaDecl>>,
    /// No copy to the packet's ingress port.
    pub prune_ingress: bool,
}

/// A copy of a multicast packet: a port, or `{ port: 1, instance: 5 }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaDecl {
    /// Egress port, a constant.
    pub port: AstExpr,
    /// `std.instance` of the copy; 0 when not written.
    pub instance: Option<Sp<u64>>,
}

/// A mirror session: `{ port: 4, truncate: 128 }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorDecl {
    /// The copies.
    pub replicas: Vec<ReplicaDecl>,
    /// `std.traffic_class` of the copy.
    pub traffic_class: Option<Sp<u64>>,
    /// Bytes that are left of it.
    pub truncate: Option<Sp<u64>>,
}
