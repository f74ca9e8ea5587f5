//! What a program may refer to in its device: externs with their types, and link types. Not what they do.

use crate::ids::{ExternId, IdVec};
use crate::ir::ExternSignature;

/// Signatures in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct ExternRegistry {
    signatures: IdVec<ExternId, ExternSignature>,
    link_types: Vec<(String, u8)>,
}

impl ExternRegistry {
    /// No externs and no link types.
    pub fn new() -> Self {
        ExternRegistry::default()
    }

    /// Registers a function of the device; the id is what [`crate::engine::Device::call`] gets.
    pub fn add(&mut self, signature: ExternSignature) -> ExternId {
        self.signatures.push(signature)
    }

    /// Names a link type: `link.name` is this value of `std.ingress_link`.
    pub fn add_link_type(&mut self, name: impl Into<String>, value: u8) {
        self.link_types.push((name.into(), value));
    }

    /// Link types with their values, in the order in which they were named.
    pub fn link_types(&self) -> &[(String, u8)] {
        &self.link_types
    }

    /// All externs.
    pub fn signatures(&self) -> &IdVec<ExternId, ExternSignature> {
        &self.signatures
    }
}
