//! The device service: a running switch by the names of its program, on a unix socket of its own and beside P4Runtime.
//!
//! It is what `wireyard table`, `port`, `stats` and the other commands for a running switch talk to (`switch/proto/wireyard/v1/device.proto`).
//! Matches, actions and rates are texts of entries.yaml, resolved by the same code against the program that runs, so that there is one
//! grammar of literals; answers are JSON in the same words. All of it is done by the control handle ([`crate::control`]): nothing here
//! touches a packet, and a client that reads nothing keeps its own stream waiting only.
//!
//! Whoever may open the socket may do everything: its mode is the permission. P4Runtime's arbitration is among controllers; a person at
//! the socket writes beside them.

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
