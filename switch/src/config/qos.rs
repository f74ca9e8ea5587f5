//! Quality of service in `switch.yaml`: pools, profiles, thresholds, schedulers, maps, flow control.
//!
//! Words and tables are SONiC's (`BUFFER_POOL`, `WRED_PROFILE`, `DSCP_TO_TC_MAP`, ...), in lower case, so that a
//! CONFIG_DB can be imported later; two words differ because SONiC's have two meanings: `headroom` is the bytes after
//! XOFF (SAI `xoff`), and a resume level is `xon_at` or `xon_below_xoff`, never both. Quantities carry their unit.
//!
//! This file is the model. [`QosConfig::resolve`] turns it into traffic manager configuration, or
//! refuses with every contradiction and its numbers; either way the [`Report`] holds the computed thresholds.

use std::collections::BTreeMap;

use serde::Deserialize;
use wireyard_tables::time::Span;

use crate::units::{BitsPerSec, Bytes, Dilation, Interval, Length, PoolAlpha, Probability, Quanta};

mod check;
mod dilate;
pub mod headroom;
mod key;
pub(super) mod names;
mod part;
mod preset;
mod report;
mod resolve;

pub use dilate::DilationError;
pub use headroom::HeadroomFormula;
pub(super) use key::spread;
pub use key::{ClassKey, ClassMap};
pub use part::{PartError, WorkerShare};
pub use preset::{Preset, PresetError};
pub use report::{GroupReport, PoolReport, Problem, QueueReport, Report};
pub use resolve::{CATCH_UP_FRAMES, Classifier, PortLink, Qos, QosPort, Trust};

/// The largest `packet_slots`: with the chunks held by ports it fills the largest packet memory.
pub const PACKET_SLOTS_MAX: u32 = 1_000_000;

/// Assumed response time of a peer that is a process, unless it was measured.
pub const PROCESS_DELAY: Span = Span::from_ms(5);

/// The `qos:` section.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QosConfig {
    /// Start from a preset; this section replaces its entries of the same name.
    pub preset: Option<Preset>,
    /// Seed of WRED and ECN randomness (default 1).
    pub seed: Option<u64>,
    /// Packets in the traffic manager at once (default 65536; in `run` what the pools hold, up to 8192).
    pub packet_slots: Option<u32>,
    /// Most of these that are delayed or held (default 4096).
    pub hold_slots: Option<u32>,
    /// Accept a configuration whose lossless promise cannot be kept; problems become warnings.
    pub allow_lossy_headroom: bool,
    /// Allocation unit of packet memory ("96 B"); absent charges plain bytes.
    pub cell: Option<Bytes>,
    /// `BUFFER_POOL`.
    pub buffer_pools: BTreeMap<String, PoolSection>,
    /// `BUFFER_PROFILE`.
    pub buffer_profiles: BTreeMap<String, ProfileSection>,
    /// `WRED_PROFILE`.
    pub wred_profiles: BTreeMap<String, WredSection>,
    /// `SCHEDULER`.
    pub schedulers: BTreeMap<String, SchedulerSection>,
    /// `DSCP_TO_TC_MAP`: traffic class of each DSCP.
    pub dscp_to_tc_maps: BTreeMap<String, ClassMap>,
    /// `DOT1P_TO_TC_MAP`: traffic class of each VLAN priority.
    pub dot1p_to_tc_maps: BTreeMap<String, ClassMap>,
    /// `TC_TO_QUEUE_MAP`.
    pub tc_to_queue_maps: BTreeMap<String, ClassMap>,
    /// `TC_TO_PRIORITY_GROUP_MAP`.
    pub tc_to_priority_group_maps: BTreeMap<String, ClassMap>,
    /// `MAP_PFC_PRIORITY_TO_QUEUE`: queue that a received pause stops.
    pub pfc_priority_to_queue_maps: BTreeMap<String, ClassMap>,
    /// `PFC_PRIORITY_TO_PRIORITY_GROUP_MAP`: group whose occupancy pauses a priority.
    pub pfc_priority_to_priority_group_maps: BTreeMap<String, ClassMap>,
    /// The default of every port; `ports` takes precedence.
    pub port_defaults: PortSection,
    /// By port name.
    pub ports: BTreeMap<String, PortSection>,
    /// The factor by which links are slower than those that they model: defaults that depend on rate or time follow.
    #[serde(skip)]
    pub dilation: Dilation,
    /// Of a live device: the response time of a process at the other end of a link. `None` in virtual time.
    #[serde(skip)]
    pub live: Option<Span>,
}

/// `peer`: the kind of peer at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerWord {
    /// A process: it responds when its system schedules it.
    Software,
    /// A card or a switch: it responds within the bounds of IEEE 802.3.
    Hardware,
}

/// What a pool accounts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolDirection {
    /// Priority groups.
    Ingress,
    /// Queues.
    Egress,
}

/// A buffer pool.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSection {
    /// Priority groups or queues.
    pub direction: PoolDirection,
    /// All of its bytes: reserved, headroom and shared.
    pub size: Bytes,
    /// Headroom shared by the pool's groups; absent means the sum of theirs.
    pub shared_headroom: Option<Bytes>,
}

/// Headroom of a lossless profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadroomSize {
    /// By the formula, for each port's rate and cable.
    Auto,
    /// This many bytes.
    Bytes(Bytes),
}

/// A buffer profile, for priority groups or queues. One threshold: `pool_alpha`, `dynamic_th` or `static_th`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSection {
    /// Pool.
    pub pool: String,
    /// Bytes of its own (SAI `size`).
    #[serde(default)]
    pub reserved: Bytes,
    /// Dynamic threshold: factor of the pool's free bytes.
    pub pool_alpha: Option<PoolAlpha>,
    /// Dynamic threshold as SONiC writes it: alpha is 2 to this power.
    pub dynamic_th: Option<i8>,
    /// Fixed threshold of shared bytes.
    pub static_th: Option<Bytes>,
    /// Makes it lossless: bytes after XOFF, or "auto".
    pub headroom: Option<HeadroomSize>,
    /// Resume at this occupancy.
    pub xon_at: Option<Bytes>,
    /// Resume this far below the current XOFF occupancy.
    pub xon_below_xoff: Option<Bytes>,
    /// Treatment of packets that its queues refuse (SONiC `packet_discard_action`).
    #[serde(default, alias = "packet_discard_action")]
    pub discard: DiscardWord,
    /// `trim`: bytes of a frame that are left, without FCS (SONiC `SWITCH_TRIMMING` `size`; default 128 B).
    pub trim_size: Option<Bytes>,
    /// `trim`: queue of the same port that takes them (`queue_index`).
    pub trim_queue: Option<u8>,
}

/// `discard`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is its word in the file")]
pub enum DiscardWord {
    #[default]
    Drop,
    Trim,
}

/// One marking curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurveSection {
    /// No mark up to here.
    pub kmin: Bytes,
    /// Probability `pmax` here, 1 above.
    pub kmax: Bytes,
    /// Probability at `kmax`.
    pub pmax: Probability,
}

/// A WRED profile.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WredSection {
    /// Curve of green packets.
    pub green: Option<CurveSection>,
    /// Curve of yellow packets.
    pub yellow: Option<CurveSection>,
    /// Curve of red packets.
    pub red: Option<CurveSection>,
    /// The point at which the queue is read; "dequeue" is that of DCQCN.
    #[serde(default)]
    pub decide_at: DecideAtWord,
    /// Treatment of selected packets without ECT.
    #[serde(default)]
    pub not_ect: NotEctWord,
}

/// `decide_at`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is its word in the file")]
pub enum DecideAtWord {
    #[default]
    Dequeue,
    Enqueue,
}

/// `not_ect`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is its word in the file")]
pub enum NotEctWord {
    Drop,
    #[default]
    Pass,
}

/// `type` of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is its word in the file")]
pub enum SchedulerType {
    Strict,
    Dwrr,
}

/// A scheduler profile.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerSection {
    /// Strict or DWRR.
    #[serde(rename = "type")]
    pub kind: SchedulerType,
    /// DWRR weight, 1 to 65535.
    pub weight: Option<u16>,
    /// Guaranteed rate (`cir`).
    pub min_rate: Option<BitsPerSec>,
    /// Its bucket (`cbs`; default 9216 B).
    pub min_burst: Option<Bytes>,
    /// Maximum rate (`pir`).
    pub max_rate: Option<BitsPerSec>,
    /// Its bucket (`pbs`; default 9216 B).
    pub max_burst: Option<Bytes>,
}

/// `flow_control`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is its word in the file")]
pub enum FlowControlWord {
    Off,
    Pause,
    Pfc,
}

/// `action` of the watchdog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is its word in the file")]
pub enum StormActionWord {
    #[default]
    Drop,
    Forward,
    Alert,
}

/// `pfcwd`: the PFC storm watchdog.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchdogSection {
    /// Default 200 ms.
    pub detection_time: Option<Interval>,
    /// Default 200 ms.
    pub restoration_time: Option<Interval>,
    /// Default 100 ms, or the shorter of the two times above where that is less.
    pub poll_interval: Option<Interval>,
    /// Default drop.
    #[serde(default)]
    pub action: StormActionWord,
}

/// The settings of a port; all are optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PortSection {
    /// Link rate; absent (everywhere) passes packets through without scheduling.
    pub rate: Option<BitsPerSec>,
    /// Preamble and inter-frame gap (default 20 B).
    pub preamble_and_gap: Option<Bytes>,
    /// Frame check sequence (default 4 B).
    pub fcs: Option<Bytes>,
    /// Shortest frame with FCS (default 64 B).
    pub min_frame: Option<Bytes>,
    /// How far a late run loop may catch up (default 100 ms). Packets that waited meanwhile then leave at once, but no
    /// later ones: a process that was delayed keeps the rate.
    pub max_catch_up: Option<Interval>,
    /// Port shaper.
    pub max_rate: Option<BitsPerSec>,
    /// Its bucket (default 9216 B).
    pub max_burst: Option<Bytes>,
    /// Cable to the peer, one way (`CABLE_LENGTH`; default 5 m).
    pub cable: Option<Length>,
    /// Largest frame with FCS (default 9216 B).
    pub mtu: Option<Bytes>,
    /// Largest frame of lossless classes with FCS (default: `mtu`).
    pub lossless_mtu: Option<Bytes>,
    /// Formula of headroom (default ieee).
    pub headroom_formula: Option<HeadroomFormula>,
    /// Kind of the peer (default: `software` on live ports, `hardware` in virtual time). `peer_response` takes
    /// precedence.
    pub peer: Option<PeerWord>,
    /// Response of the peer to a pause (default: bound of 802.3 31B.3.7).
    pub peer_response: Option<Interval>,
    /// Delay of both interfaces, there and back (default: IEEE bound).
    pub interface_delay: Option<Interval>,
    /// Share of 64-byte packets assumed for cell rounding (default 100).
    pub small_packet_percent: Option<u8>,
    /// Classify by DSCP or VLAN priority (default dscp).
    pub trust: Option<Trust>,
    /// Traffic class of packets without either (default 0).
    pub default_tc: Option<u8>,
    /// Map name.
    pub dscp_to_tc_map: Option<String>,
    /// Map name.
    pub dot1p_to_tc_map: Option<String>,
    /// Map name; absent is the identity.
    pub tc_to_queue_map: Option<String>,
    /// Map name; absent is the identity.
    pub tc_to_pg_map: Option<String>,
    /// Map name; absent is the identity.
    pub pfc_to_queue_map: Option<String>,
    /// Map name; absent is the identity.
    pub pfc_to_pg_map: Option<String>,
    /// Default: pfc if `pfc_enable` names a priority, else off.
    pub flow_control: Option<FlowControlWord>,
    /// PFC priorities.
    pub pfc_enable: Option<Vec<u8>>,
    /// Pause time announced (default 65535 quanta).
    pub pause_time: Option<Quanta>,
    /// Model of a slow peer: time from receiving a pause to obeying it (default 0).
    pub pause_response: Option<Interval>,
    /// Watchdog; absent is off.
    pub pfcwd: Option<WatchdogSection>,
    /// Queues of the watchdog (default: those of `pfc_enable`).
    pub pfcwd_sw_enable: Option<Vec<u8>>,
    /// `BUFFER_PG`: profile of each priority group ("3-4": name); absent groups use `ingress_lossy`.
    pub priority_groups: Option<BTreeMap<ClassKey, String>>,
    /// `BUFFER_QUEUE`: profile of each queue; absent queues use `egress_lossy`.
    pub queue_buffers: Option<BTreeMap<ClassKey, String>>,
    /// `QUEUE` wred_profile of each queue; absent queues have none.
    pub queue_wred: Option<BTreeMap<ClassKey, String>>,
    /// `QUEUE` scheduler of each queue; absent queues are DWRR of weight 1.
    pub queue_schedulers: Option<BTreeMap<ClassKey, String>>,
}

/// Sum that stops at the largest value.
fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
