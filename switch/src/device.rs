//! Calls of a program to the device during a pass: digests and externs.
//!
//! `pipeline` checks a call against [`externs`]; this module executes it. Digests wait here for control, up to a limit;
//! more are lost and counted.

pub mod notify;

use std::collections::VecDeque;
use std::sync::Arc;

use wireyard_pipeline::check::ExternRegistry;
use wireyard_pipeline::engine::Device;
use wireyard_pipeline::exec::Descriptor;
use wireyard_pipeline::ids::{DigestId, ExternId, Id};
use wireyard_pipeline::ir::{Display, ExternSignature, Half, Param, Program};
use wireyard_tables::time::Time;

use notify::Notifier;

/// Maximum number of digests that wait.
const DIGESTS_MAX: usize = 4096;

/// A digest that a program sent.
#[derive(Clone)]
pub struct DigestMessage {
    /// The program.
    pub program: Arc<Program>,
    /// Which digest of the program.
    pub digest: DigestId,
    /// One value for each field.
    pub values: Vec<u128>,
}

impl DigestMessage {
    /// The digest's name.
    pub fn name(&self) -> &str {
        self.program.digests.get(self.digest).map_or("", |digest| digest.name.as_str())
    }
}

/// Name and values; the whole program would fill pages.
impl std::fmt::Debug for DigestMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("DigestMessage");
        shown.field("program", &self.program.name).field("digest", &self.name());
        shown.field("values", &self.values).finish()
    }
}

/// Digests and externs of one worker. Fields that every packet uses come first, together.
#[derive(Debug, Default)]
#[repr(C)]
pub struct DeviceState {
    /// The half of the program that runs.
    pub half: Half,
    listening: bool,
    /// The notification point; without one, reported congestion is ignored.
    pub notifier: Option<Notifier>,
    digests: VecDeque<DigestMessage>,
    /// Digests for which there was no room, because their reader is slow. Without a reader none is counted.
    pub digests_lost: u64,
}

/// Parameters of `notify_congestion`: addresses as in a FlowKey, the BTH's DestQP and opcode, the kind of mark (0 IP
/// CE, 1 FECN), and the sender's queue pair (0 if unknown).
const NOTIFY: [(&str, u32); 6] =
    [("src", 128), ("dst", 128), ("dest_qp", 24), ("opcode", 8), ("mark", 1), ("sender_qp", 24)];

/// The link types and externs that this device offers to programs.
pub fn externs() -> ExternRegistry {
    let mut registry = crate::link_type::link_types();
    let param = |&(name, bits): &(&str, u32)| Param {
        name: name.to_owned(),
        bits,
        display: Display::default(),
    };
    registry.add(ExternSignature {
        name: "notify_congestion".to_owned(),
        params: NOTIFY.iter().map(param).collect(),
        result_bits: None,
        controls: (true, true),
    });
    registry
}

impl DeviceState {
    /// Collects digests from now on.
    pub fn listen(&mut self) {
        self.listening = true;
    }

    /// Stops collecting digests.
    pub(crate) fn stop_listening(&mut self) {
        self.listening = false;
        self.digests.clear();
    }

    /// True while digests wait.
    #[inline]
    pub(crate) fn has_digests(&self) -> bool {
        !self.digests.is_empty()
    }

    /// Digests since the last call.
    pub fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.digests.drain(..).collect()
    }
}

impl Device for DeviceState {
    fn digest(&mut self, program: &Arc<Program>, digest: DigestId, values: &[u128]) {
        if !self.listening {
            return;
        }
        if self.digests.len() >= DIGESTS_MAX {
            self.digests_lost += 1;
            return;
        }
        let (program, values) = (Arc::clone(program), values.to_vec());
        self.digests.push_back(DigestMessage { program, digest, values });
    }

    fn call(
        &mut self,
        external: ExternId,
        args: &[u128],
        packet: &Descriptor,
        bytes: &[u8],
        now: Time,
    ) -> u128 {
        // The registry has one extern, with id 0.
        if let (0, Some(notifier)) = (external.index(), &mut self.notifier) {
            notifier.report(args, packet, bytes, self.half, now);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::one_way;

    #[test]
    fn digests_that_find_no_room_are_counted_and_those_without_a_listener_are_not() {
        let program = one_way().program;
        let mut device = DeviceState::default();
        let digests = |device: &mut DeviceState, count| {
            (0..count).for_each(|_| device.digest(&program, DigestId::new(0), &[]));
        };
        digests(&mut device, 1);
        assert_eq!(device.digests_lost, 0);
        device.listen();
        digests(&mut device, DIGESTS_MAX + 2);
        assert_eq!((device.digests_lost, device.take_digests().len()), (2, DIGESTS_MAX));
    }
}
