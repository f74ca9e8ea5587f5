//! The statements of a packet test, and their text form.
//!
//! `programs/STF.md` is the definition. This reads lines without a program: names and values stay text until the runner
//! resolves them in the program under test.

use std::fmt;
use wireyard_tables::time::Span;

use crate::ports::PortNumber;

/// Where a frame enters or leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestPort {
    /// A port of the device.
    Port(PortNumber),
    /// The port of the control plane.
    Cpu,
}

/// Bytes to compare with: value and mask for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatternBytes {
    /// Value and mask.
    pub bytes: Vec<(u8, u8)>,
    /// Nothing may follow.
    pub ends: bool,
}

/// A table entry as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryText {
    /// Table.
    pub table: String,
    /// Priority.
    pub priority: Option<u32>,
    /// Key and value.
    pub keys: Vec<(String, String)>,
    /// `action(args)`; empty if none is needed.
    pub action: String,
}

/// A number that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The comparison.
    pub op: CompareOp,
    /// With what.
    pub value: u64,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is its symbol")]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// The name of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterName {
    /// `name(index)`.
    Indexed(String, u64),
    /// Table and keys: the direct counter of an entry.
    Direct(EntryText),
}

/// In the form of a script: `hits(3)`, `fib ipv4.dst:10.0.0.0/8`.
impl fmt::Display for CounterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CounterName::Indexed(name, index) => write!(f, "{name}({index})"),
            CounterName::Direct(entry) => {
                f.write_str(&entry.table)?;
                entry.keys.iter().try_for_each(|(key, value)| write!(f, " {key}:{value}"))
            }
        }
    }
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `program FILE`.
    Program(String),
    /// `define NAME`, `define NAME=VALUE`: a macro of a program in P4.
    Define(String, String),
    /// Queues, ports and links of a `switch.yaml`, relative to the script.
    Config(String),
    /// `entries FILE`, or `none`.
    Entries(Option<String>),
    /// `ports 1 2 3`.
    Ports(Vec<PortNumber>),
    /// `link PORT TYPE`.
    Link(PortNumber, String),
    /// `packet PORT HEX`.
    Packet(TestPort, Vec<u8>),
    /// `expect PORT HEX`.
    Expect(TestPort, PatternBytes),
    /// `no_packet`.
    NoPacket,
    /// `wait`, `wait 5s`.
    Wait(Span),
    /// `expect_drop REASON`.
    ExpectDrop(String),
    /// `expect_punt REASON`.
    ExpectPunt(String),
    /// `congestion_mark on`.
    CongestionMark(bool),
    /// `trim 128`, `trim off`.
    Trim(Option<u32>),
    /// `add`.
    Add(EntryText),
    /// `setdefault`.
    SetDefault(String, String),
    /// `remove TABLE ..`.
    Remove(EntryText),
    /// `remove all`.
    RemoveAll,
    /// `member TABLE ID ACTION`.
    Member(String, u32, String),
    /// `group TABLE ID MEMBER ...`.
    Group(String, u32, Vec<u32>),
    /// `value_set NAME VALUE ...`.
    ValueSet(String, Vec<String>),
    /// `register NAME(INDEX).CELL = VALUE`.
    Register(String, u64, Option<String>, u64),
    /// `register_reset NAME`.
    RegisterReset(String),
    /// `register_read NAME INDEX`: p4c's runner prints it.
    RegisterRead(String, u64),
    /// `meter_set_rates NAME INDEX RATE:BURST RATE:BURST`, or `meter_array_set_rates` without the index: committed,
    /// then peak, in bytes or packets per microsecond.
    MeterRates(String, Option<u64>, [(u64, u64); 2]),
    /// `meter_get_rates NAME INDEX`: p4c's runner prints it.
    MeterRead(String, u64),
    /// `mirroring_get SESSION`: p4c's runner prints it.
    MirrorRead(u16),
    /// `mc_mgrp_create GROUP [prune_ingress]`.
    GroupCreate(u16, bool),
    /// `mc_node_create INSTANCE PORT ...`.
    NodeCreate(u16, Vec<PortNumber>),
    /// `mc_node_associate GROUP NODE`.
    NodeAssociate(u16, usize),
    /// `mirroring_add SESSION PORT`.
    Mirror(u16, PortNumber),
    /// `mirroring_add_mc SESSION GROUP`.
    MirrorGroup(u16, u16),
    /// `check_counter`.
    CheckCounter(CounterName, bool, Comparison),
    /// `check_drops`.
    CheckDrops(String, Comparison),
    /// `check_punts`.
    CheckPunts(String, Comparison),
    /// `check_parser_errors`.
    CheckParserErrors(String, Comparison),
    /// `check_register`.
    CheckRegister(String, u64, Option<String>, Comparison),
    /// `check_entries`.
    CheckEntries(String, Comparison),
}

/// A statement and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line number from 1.
    pub number: usize,
    /// Its content.
    pub statement: Statement,
}

/// Why a script cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {message}")]
pub struct ScriptError {
    /// Line number from 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl Comparison {
    /// Whether the comparison is true for `found`.
    pub fn holds(self, found: u64) -> bool {
        match self.op {
            CompareOp::Eq => found == self.value,
            CompareOp::Ne => found != self.value,
            CompareOp::Lt => found < self.value,
            CompareOp::Le => found <= self.value,
            CompareOp::Gt => found > self.value,
            CompareOp::Ge => found >= self.value,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            CompareOp::Eq => "==",
            CompareOp::Ne => "!=",
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
        };
        write!(f, "{op} {}", self.value)
    }
}

impl PatternBytes {
    /// Whether a frame is as expected.
    pub fn matches(&self, frame: &[u8]) -> bool {
        let long_enough = frame.len() >= self.bytes.len();
        let ends = !self.ends || frame.len() == self.bytes.len();
        long_enough && ends && self.bytes.iter().zip(frame).all(|((v, m), b)| v & m == b & m)
    }
}

/// Most characters of a message; it may quote a line, which may be as long as the file.
const MESSAGE_CHARS_MAX: usize = 400;

/// The message, without its middle where it is too long: what was expected stands at its ends.
fn shortened(message: String) -> String {
    let chars = message.chars().count();
    if chars <= MESSAGE_CHARS_MAX {
        return message;
    }
    let half = MESSAGE_CHARS_MAX / 2;
    let first: String = message.chars().take(half).collect();
    let last: String = message.chars().skip(chars - half).collect();
    format!("{first} ... {last}")
}

/// Reads a whole script.
///
/// # Errors
/// The first line that is malformed.
pub fn parse(text: &str) -> Result<Vec<Line>, ScriptError> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let code = raw.split('#').next().unwrap_or("").trim_end();
        if code.trim().is_empty() {
            continue;
        }
        match lines.last_mut() {
            Some((_, last)) if code.starts_with([' ', '\t']) => {
                last.push(' ');
                last.push_str(code.trim());
            }
            _ => lines.push((index + 1, code.trim().to_owned())),
        }
    }
    lines
        .into_iter()
        .map(|(number, code)| {
            let statement = super::parse::statement(&code)
                .map_err(|message| ScriptError { line: number, message: shortened(message) })?;
            Ok(Line { number, statement })
        })
        .collect()
}
