//! The P4Info of a P4 program, by the rules of p4c.
//!
//! It is read from the checked program, before lowering, so that it has the names that the source gives and does not
//! depend on what this project can run. The result is [`crate::p4info`].

mod ids;
mod keys;
mod notes;
mod objects;
mod table;
mod types;
mod walk;

pub use crate::p4info::*;
pub(super) use ids::full_name;
pub use ids::number as id_of_name;
pub(super) use walk::digest_name;
pub(super) use walk::info;
