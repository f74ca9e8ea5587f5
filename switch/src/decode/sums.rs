//! CRC verdicts of packets, and their sums over a capture.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Decoded;

/// A CRC that a packet should have and that could not be checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unchecked {
    /// Its name.
    pub crc: String,
    /// The reason.
    pub reason: String,
}

/// The verdicts on the CRCs of one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Names of those that are right.
    pub right: Vec<String>,
    /// Names of those that are wrong.
    pub wrong: Vec<String>,
    /// Those that could not be checked.
    pub unchecked: Vec<Unchecked>,
}

/// Right and wrong ones of a CRC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrcCount {
    /// Right.
    pub right: u64,
    /// Wrong.
    pub wrong: u64,
}

/// Sums over a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Packets.
    pub packets: u64,
    /// By CRC of the program.
    pub crcs: BTreeMap<String, CrcCount>,
    /// Packets whose CRC could not be checked.
    pub unchecked: BTreeMap<Unchecked, u64>,
    /// Packets that have none.
    pub without: u64,
}

/// Name of a CRC of a packet whose parser failed before its kind was known.
const ANY: &str = "any";

impl Decoded<'_> {
    /// The verdicts on the CRCs of this packet.
    pub fn verdict(&self) -> Verdict {
        let mut verdict = Verdict::default();
        for crc in self.parsed.crcs() {
            let list = if crc.right { &mut verdict.right } else { &mut verdict.wrong };
            list.push(crc.name.to_owned());
        }
        let why = match (self.frame.missing(), self.parsed.error()) {
            (0, Some(error)) => Some(error),
            (0, None) => None,
            _ => Some("cut by the capture"),
        };
        let mut unchecked = |crc: &str, reason: &str| {
            verdict.unchecked.push(Unchecked { crc: crc.to_owned(), reason: reason.to_owned() });
        };
        let has = |name: &String| self.parsed.crcs().any(|crc| crc.name == name);
        for known in &self.summary.expected {
            if !self.parsed.is_valid(known.header) {
                continue;
            }
            match &known.never {
                Some(never) => unchecked(&known.crc, never),
                None if known.one_of.iter().any(has) => {}
                None => unchecked(&known.crc, why.unwrap_or("none is declared for this packet")),
            }
        }
        // The first expected one is the innermost: unknown if its header was not reached.
        let innermost = self.summary.expected.first();
        let is_reached = innermost.is_some_and(|known| self.parsed.is_valid(known.header));
        if let Some(error) = self.parsed.error()
            && !is_reached
            && verdict.unchecked.is_empty()
        {
            let (crc, reason) = (ANY.to_owned(), why.unwrap_or(error).to_owned());
            verdict.unchecked.push(Unchecked { crc, reason });
        }
        verdict
    }
}

impl Sums {
    /// Counts a packet.
    pub fn add(&mut self, verdict: &Verdict) {
        self.packets += 1;
        for name in &verdict.right {
            self.crcs.entry(name.clone()).or_default().right += 1;
        }
        for name in &verdict.wrong {
            self.crcs.entry(name.clone()).or_default().wrong += 1;
        }
        for crc in &verdict.unchecked {
            *self.unchecked.entry(crc.clone()).or_default() += 1;
        }
        let nothing = verdict.right.is_empty() && verdict.wrong.is_empty();
        self.without += u64::from(nothing && verdict.unchecked.is_empty());
    }

    /// Wrong CRCs.
    pub fn wrong(&self) -> u64 {
        self.crcs.values().map(|count| count.wrong).sum()
    }

    /// For people.
    pub fn text(&self) -> String {
        let names = self.crcs.keys().chain(self.unchecked.keys().map(|crc| &crc.crc));
        let width = names.map(String::len).max().unwrap_or(0).max("packets".len());
        let mut text = format!("{:width$}  {}\n", "packets", self.packets);
        // Writing to a string cannot fail.
        for (name, count) in &self.crcs {
            let _ = writeln!(text, "{name:width$}  {} ok, {} bad", count.right, count.wrong);
        }
        for (crc, count) in &self.unchecked {
            let _ = writeln!(text, "{:width$}  {count} not checkable: {}", crc.crc, crc.reason);
        }
        if self.without > 0 {
            let _ = writeln!(text, "{:width$}  {} packets without a CRC", "none", self.without);
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let crcs = self
            .crcs
            .iter()
            .map(|(name, count)| json!({ "name": name, "ok": count.right, "bad": count.wrong }));
        let unchecked = self
            .unchecked
            .iter()
            .map(|(crc, count)| json!({ "crc": crc.crc, "reason": crc.reason, "packets": count }));
        json!({
            "packets": self.packets,
            "crcs": crcs.collect::<Vec<_>>(),
            "not_checkable": unchecked.collect::<Vec<_>>(),
            "without_crc": self.without,
        })
    }
}
