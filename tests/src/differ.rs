//! The differential machine: random programs through the real front end, on every engine at every level.
//!
//! A [`Case`] is a program with entries, as the tree that its YAML is made of, and packets. [`generate`]
//! makes one from a seed. [`run`] compiles it, runs it on the interpreter without passes, and holds every
//! other engine and level against that: bytes, verdict, descriptor, intrinsic metadata, messages to the
//! device, traces, and at the end counters, registers, tables. [`shrink`] takes a case that differs apart
//! until nothing can go; [`mod@file`] keeps it as a file that CI runs again (`tests/data/regressions`).
//!
//! `cargo run --release -p wireyard-tests --example differ -- --seed 1 --count 10000` runs it for long.

pub mod expression;
pub mod file;
pub mod generate;
pub mod parser;
pub mod random;
pub mod rig;
pub mod run;
pub mod shrink;
pub mod statement;
pub mod table;

use serde_json::Value;

/// A program, its entries, and what it is fed.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The program file as a tree; JSON is YAML.
    pub program: Value,
    /// The entries file, if there is one.
    pub entries: Option<Value>,
    /// Packets in order.
    pub packets: Vec<Packet>,
    /// Packets of a burst.
    pub burst: usize,
    /// Every so many packets one is traced; 0 is none.
    pub traced: usize,
    /// Packets that leave by a low port do egress right behind ingress.
    pub through: bool,
}

/// A packet of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The port it comes in by.
    pub port: u16,
    /// The traffic manager wants it marked.
    pub mark: bool,
    /// Its bytes. Empty: what the last packet that was forwarded left as.
    pub bytes: Vec<u8>,
}
