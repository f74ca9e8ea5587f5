//! Reasons of drops and of consumed packets by number, and copies of dropped and punted packets for callers that
//! enabled them.
//!
//! The counts are in the ledgers of the [`ports`](super::ports); here are the names. Those of a program are added when
//! a packet of its generation first needs one.

use std::sync::Arc;

use wireyard_pipeline::exec::Descriptor;
use wireyard_pipeline::generation::Executor;
use wireyard_pipeline::ids::{Id, ReasonId};
use wireyard_pipeline::packet::PacketMemory;

use super::ports::ingress_of;
use crate::ports::PortNumber;
use crate::stats::{DeviceReason, ReasonIndex, Reasons, device_reasons};

/// A packet for the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PuntedPacket {
    /// The reason.
    pub reason: String,
    /// Its ingress port.
    pub ingress_port: PortNumber,
    /// Its headers: bit n for header instance n of the program.
    pub valid: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A packet that was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedPacket {
    /// The reason.
    pub reason: String,
    /// Its ingress port.
    pub ingress_port: PortNumber,
    /// Its bytes when it was dropped.
    pub bytes: Vec<u8>,
}

/// Names of the reasons for which packets end, and packets kept for callers that enabled it.
pub struct Outcomes {
    pub(super) reasons: Reasons,
    /// For each generation, the index in `reasons` of each reason of its program.
    of_programs: Vec<(u16, Vec<ReasonIndex>)>,
    /// Packets for the control plane, while collected.
    pub(super) punted: Option<Vec<PuntedPacket>>,
    /// Dropped packets, while collected.
    pub(super) dropped: Option<Vec<DroppedPacket>>,
}

impl std::fmt::Debug for Outcomes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outcomes").finish_non_exhaustive()
    }
}

impl Default for Outcomes {
    fn default() -> Outcomes {
        Outcomes { reasons: device_reasons(), of_programs: Vec::new(), punted: None, dropped: None }
    }
}

impl Outcomes {
    /// All reasons for which packets were or may be dropped or consumed; those of a program from its first use on.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.reasons.names()
    }

    /// Collects packets for the control plane from now on; [`Outcomes::take_punted`] returns them.
    pub fn listen_to_punts(&mut self) {
        self.punted.get_or_insert_with(Vec::new);
    }

    /// Packets for the control plane since the last call.
    pub fn take_punted(&mut self) -> Vec<PuntedPacket> {
        self.punted.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Collects dropped packets from now on; [`Outcomes::take_dropped`] returns them. Only to show which packets they
    /// were: the ledger counts without it.
    pub fn listen_to_drops(&mut self) {
        self.dropped.get_or_insert_with(Vec::new);
    }

    /// Packets dropped since the last call.
    pub fn take_dropped(&mut self) -> Vec<DroppedPacket> {
        self.dropped.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Index of a program's reason.
    pub(super) fn program_reason(
        &mut self,
        executor: &Executor,
        generation: u16,
        reason: ReasonId,
    ) -> ReasonIndex {
        let known = self.of_programs.iter().position(|(id, _)| *id == generation);
        let place = known.unwrap_or_else(|| {
            let program = executor.generation(generation).map(|g| Arc::clone(&g.program));
            let names = program.iter().flat_map(|p| p.reasons.iter());
            let indices = names.map(|name| self.reasons.intern(name)).collect();
            // Generation numbers are reused.
            self.of_programs.retain(|(id, _)| executor.generation(*id).is_some());
            self.of_programs.push((generation, indices));
            self.of_programs.len() - 1
        });
        let index = self.of_programs[place].1.get(reason.index()).copied();
        index.unwrap_or(DeviceReason::NoSuchPort.index())
    }

    /// Stores a packet for the control plane, if these are collected.
    pub(super) fn keep_punted(
        &mut self,
        mem: &PacketMemory,
        packet: &Descriptor,
        reason: ReasonIndex,
    ) {
        if let (Some(list), Some(buf)) = (&mut self.punted, &packet.buf) {
            list.push(PuntedPacket {
                reason: self.reasons.name(reason).to_owned(),
                ingress_port: ingress_of(packet),
                valid: packet.valid,
                bytes: mem.frame(buf, packet.data_off, packet.len).to_vec(),
            });
        }
    }

    /// Stores a dropped packet, if these are collected.
    pub(super) fn keep_dropped(
        &mut self,
        mem: &PacketMemory,
        packet: &Descriptor,
        reason: ReasonIndex,
    ) {
        if let (Some(list), Some(buf)) = (&mut self.dropped, &packet.buf) {
            list.push(DroppedPacket {
                reason: self.reasons.name(reason).to_owned(),
                ingress_port: ingress_of(packet),
                bytes: mem.frame(buf, packet.data_off, packet.len).to_vec(),
            });
        }
    }
}
