//! The device externs that a program may call: names with types, and nothing about what they do.

use crate::ids::{ExternId, IdVec};
use crate::ir::ExternSignature;

/// Signatures in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct ExternRegistry {
    signatures: IdVec<ExternId, ExternSignature>,
}

impl ExternRegistry {
    /// No externs.
    pub fn new() -> Self {
        ExternRegistry::default()
    }

    /// Registers a function of the device; the id is what [`crate::exec::Device::call`] gets.
    pub fn add(&mut self, signature: ExternSignature) -> ExternId {
        self.signatures.push(signature)
    }

    /// All of them.
    pub fn signatures(&self) -> &IdVec<ExternId, ExternSignature> {
        &self.signatures
    }
}
