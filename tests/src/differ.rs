//! The differential machine: random programs through the real front end, on every engine at every level.
//!
//! A [`Case`] is a program with entries, as the tree that its YAML is made of, and packets. [`generate`]
//! makes one from a seed. [`run`] compiles it, runs it on the interpreter without passes, and holds every
//! other engine and level against that: bytes, verdict, descriptor, intrinsic metadata, messages to the
//! device, traces, and at the end counters, registers, tables. Packets lie anywhere in their chunks, which others may have a
//! reference to; bursts go to several workers in turn; tables and sets change between them, and entries age. Each chunk
//! has a guard on both sides, and all are to be free in the end. [`shrink`] takes a case that differs apart
//! until nothing can go; [`mod@file`] keeps it as a file that CI runs again (`tests/data/regressions`).
//!
//! `cargo run --release -p wireyard-tests --example differ -- --seed 1 --count 10000` runs it for long.

pub mod expression;
pub mod file;
pub mod forms;
pub mod generate;
pub mod packets;
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
    /// The program file as a tree, which JSON is; or its text, as a string.
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
    /// Workers, which do bursts in turn.
    pub workers: usize,
    /// From one packet to the next.
    pub step_ns: u64,
    /// What changes between bursts, in order.
    pub changes: Vec<Change>,
}

/// A packet of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The port it comes in by.
    pub port: u16,
    /// The traffic manager wants it marked.
    pub mark: bool,
    /// Where in its chunk it lies.
    pub at: At,
    /// Somebody else has a reference to its chunk, whose bytes must stay as they are.
    pub held: bool,
    /// How it came.
    pub from: Origin,
    /// Its bytes. Empty: what the last packet that was forwarded left as.
    pub bytes: Vec<u8>,
}

/// Where a packet lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// Behind the headroom.
    #[default]
    Headroom,
    /// At the start of the chunk.
    Start,
    /// It ends with the chunk.
    End,
}

/// Where a packet comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// A link.
    #[default]
    Link,
    /// The control plane.
    Cpu,
    /// The device itself.
    Generator,
}

/// A change between bursts.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// How many packets come before it, at least: then it is done before the next burst.
    pub before: usize,
    /// What is done with entries, members and groups.
    pub how: How,
    /// An entries file with what changes.
    pub entries: Value,
}

/// What is done with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is added.
    Insert,
    /// It is there and becomes another one.
    Modify,
    /// It is removed.
    Delete,
}
