//! P4Runtime v1: what a controller sees of a program, and the service by which it steers a running switch.
//!
//! The wire is gRPC (tonic); messages have the names and numbers of the standard (`switch/proto`). What a request means is
//! decided here, what it does is done by the control handle of the device ([`crate::control`]): nothing here touches a packet.

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
pub mod persist;
pub mod pipeline;
pub mod proto;
pub mod read;
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
