//! Packet tests in STF: scripts of packets, expectations and table entries.
//!
//! [`script`] reads the text, [`run`] runs it on a fresh device. The notation is defined in `programs/STF.md`.

mod compare;
mod entry;
mod names;
mod parse;
pub mod run;
pub mod script;
