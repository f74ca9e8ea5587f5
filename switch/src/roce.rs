//! RoCE end points as state machines: notification point, reaction point, reliable and unreliable transport.
//!
//! * [`np`]: decides whether a congestion mark causes a CNP. The only notification point.
//! * [`rp`]: the sending rate of a queue pair: a fixed rate, DCQCN and programs behind one trait, and the pacer.
//! * [`qp`]: a queue pair (RC, UC, UD): states, requester, responder, completions; [`verbs`] are its work requests.
//! * [`endpoint`]: many queue pairs behind one port: dispatch, and the next one to send.
//! * [`memory`]: registered regions, real or synthetic.
//! * [`packet`], [`opcode`], [`psn`], [`aeth`]: the transport's values; [`telemetry`]: the measurements of switches on
//!   the path.
//!
//! Everything here is sans-I/O. Time is an argument ([`wireyard_tables::time`]), inputs and outputs are plain structs;
//! there is no socket, no clock and no header byte except those in the payload of an acknowledgement. `frames` and
//! `core` turn the structs into wire bytes from the YAML layouts, and parsed headers into the structs.

pub mod aeth;
pub mod endpoint;
pub mod memory;
pub mod np;
pub mod opcode;
pub mod packet;
pub mod psn;
pub mod qp;
mod requester;
mod responder;
pub mod rp;
mod schedule;
pub mod telemetry;
pub mod verbs;
