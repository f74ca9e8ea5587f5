//! gNMI: names, states and counters of the ports, for controllers that ask for them beside P4Runtime, and take ports down.
//!
//! A part of gNMI 0.10 and of the model `openconfig-interfaces`: Capabilities, Get, Subscribe in all its modes, and Set of `config/enabled`.
//! The tree is made of the device's statistics (`tree`); what of it a path means is decided there, without streams. A device is
//! asked at most twenty times a second, however many ask here.

mod service;
mod set;
mod subscribe;
mod tree;

pub use service::Service;
