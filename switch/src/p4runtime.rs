//! P4Runtime v1: the view of a program that controllers get, and the service by which they control a running switch.
//!
//! The wire is gRPC (tonic); messages have the names and numbers of the standard (`switch/proto`). This module
//! translates requests; the control handle of the device ([`crate::control`]) executes them. It processes no packet.

pub mod arbitration;
pub mod counts;
mod described;
pub mod device;
pub mod digests;
pub mod events;
mod fit;
pub mod forms;
pub mod ids;
pub mod info;
pub mod kept;
pub mod p4_ids;
pub mod p4_source;
pub mod pack;
pub mod packets;
pub mod patient;
pub mod persist;
pub mod pipeline;
pub mod proto;
pub mod read;
pub mod room;
pub mod saved;
pub mod schema;
pub mod server;
pub mod service;
pub mod status;
pub mod stream;
pub mod tls;
pub mod translate;
pub mod value;
pub mod watch;
pub mod write;
