//! gNMI: names, states and counters of the ports, for controllers that ask for them beside P4Runtime.
//!
//! A part of gNMI 0.10 and of the model `openconfig-interfaces`: Capabilities, Get, and Subscribe in all its modes. Nothing can be set.
//! The tree is made of the device's statistics (`tree`); what of it a path means is decided there, without streams. A device is
//! asked at most twenty times a second, however many ask here.

mod service;
mod subscribe;
mod tree;

pub use service::Service;
