//! gNMI: names, states and counters of the ports, for controllers that use it beside P4Runtime, and shutting ports
//! down.
//!
//! A part of gNMI 0.10 and of the model `openconfig-interfaces`: Capabilities, Get, Subscribe in all its modes, and Set
//! of `config/enabled`. The tree is made from the device's statistics (`tree`), which also resolves paths, without
//! streams. The device is read at most twenty times a second, whatever the number of clients.

mod service;
mod set;
mod subscribe;
mod tree;

pub use service::Service;
