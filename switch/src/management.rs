//! The device service: access to a running switch by the names of its program, on a unix socket of its own and beside
//! P4Runtime.
//!
//! The server of `wireyard table`, `port`, `stats` and the other commands for a running switch
//! (`switch/proto/wireyard/v1/device.proto`). Matches, actions and rates are texts of entries.yaml, resolved by the
//! same code against the running program, so that there is one grammar of literals; answers are JSON in the same
//! notation. The control handle executes all requests ([`crate::control`]): this service processes no packet, and a
//! client that does not read blocks only its own stream.
//!
//! A process that may open the socket has all rights: the mode of the socket is the permission. P4Runtime's arbitration
//! is between controllers only; a user of the socket writes independently of them.

pub mod change;
pub mod client;
pub mod describe;
pub mod filter;
pub mod ports;
pub mod queues;
pub mod restore;
pub mod save;
pub mod service;
pub mod show;
pub mod socket;
pub mod statistics;
pub mod swap;
pub mod trace;
pub mod watch;
