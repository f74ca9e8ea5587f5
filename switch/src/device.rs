//! What a program may ask of the device in the middle of a pass: digests and externs.
//!
//! `pipeline` checks the call against [`externs`] and never knows what it does; this is where it is
//! done. Digests wait here for control, up to a limit; what finds no room is counted.

use std::collections::VecDeque;

use wireyard_pipeline::check::ExternRegistry;
use wireyard_pipeline::exec::{Descriptor, Device};
use wireyard_pipeline::ids::{DigestId, ExternId};
use wireyard_tables::time::Time;

/// Digests that wait at most.
const DIGESTS_MAX: usize = 4096;

/// A digest that a program sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestMessage {
    /// Which digest of the program.
    pub digest: DigestId,
    /// One value for each field.
    pub values: Vec<u128>,
}

/// Digests and externs of one worker.
#[derive(Clone, Debug, Default)]
pub struct DeviceState {
    listening: bool,
    digests: VecDeque<DigestMessage>,
    /// Digests lost because nobody read them in time.
    pub digests_lost: u64,
}

/// The externs that this device offers to programs.
pub fn externs() -> ExternRegistry {
    ExternRegistry::new()
}

impl DeviceState {
    /// Keep digests from now on.
    pub fn listen(&mut self) {
        self.listening = true;
    }

    /// Digests since the last call.
    pub fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.digests.drain(..).collect()
    }
}

impl Device for DeviceState {
    fn digest(&mut self, digest: DigestId, values: &[u128]) {
        if !self.listening || self.digests.len() >= DIGESTS_MAX {
            self.digests_lost += 1;
            return;
        }
        self.digests.push_back(DigestMessage { digest, values: values.to_vec() });
    }

    fn call(&mut self, _: ExternId, _: &[u128], _: &Descriptor, _: &[u8], _: Time) -> u128 {
        0
    }
}
