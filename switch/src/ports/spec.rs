//! Port specifications, in the notation of the command line: `1=xdp:eth0,queue=0` and the like.
//!
//! `[NUMBER=][KIND:]TARGET[,OPTION=VALUE]...`. Parsing opens nothing and makes no system call.

mod error;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::suggest;
use wireyard_pipeline::ir::CPU_PORT;
use wireyard_tables::time::Span;

use super::LinkType;
use super::faults::chance::FaultSetup;
pub use super::kind::PortKind;
use super::kind::kinds_with;
use super::xdp::rings::{RECEIVE_MAX, RING_MIN};
use crate::units::{Interval, Probability};
pub use error::SpecError;

/// The highest number of a port; higher ones are reserved, from the CPU port's on.
pub(crate) const PORT_MAX: PortNumber = PortNumber(CPU_PORT - 1);

/// The number of a port in configuration, command line and program; those of the device's ports are below that of the
/// CPU port. The traffic manager's [`PortId`](crate::tm::PortId) is a different number, which counts the ports of one
/// worker.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct PortNumber(pub u16);

impl fmt::Display for PortNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// True for a number that a port may have.
pub(crate) fn is_port(number: PortNumber) -> bool {
    number <= PORT_MAX
}

/// When the records of an input file are delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Without delay.
    #[default]
    Now,
    /// With the time gaps of the file.
    Recorded,
}

/// A parsed port specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// The port's number in the program, if it was given.
    pub number: Option<u32>,
    /// How it reaches its medium.
    pub kind: PortKind,
    /// Interface name; empty for a capture port.
    pub target: String,
    /// The file that is read, `-` for standard input; `None` for an interface, and for a capture port that only writes.
    pub input: Option<PathBuf>,
    /// The link type of the frames, if it was given (`link=`).
    pub link: Option<LinkType>,
    /// Receive queue of the interface (`queue=`): AF_XDP receives the frames of one queue only.
    pub queue: u32,
    /// Number of receive queues (`queues=`), each for a worker of its own; `None` for the default of
    /// [`Spread`](super::Spread).
    pub queues: Option<u32>,
    /// Frames that may wait in the kernel while the process does not run (`ring=`), for AF_XDP; rounded up, as far as
    /// packet memory allows.
    pub ring: Option<u32>,
    /// MTU to set on a TAP that is created (`mtu=`).
    pub mtu_bytes: Option<u32>,
    /// File to which sent frames are written (`out=`).
    pub out: Option<PathBuf>,
    /// Timing of an input file (`pace=now|recorded`).
    pub pace: Pace,
    /// File into which all frames of the port are recorded (`capture=`).
    pub capture: Option<PathBuf>,
    /// Faults of its cable (`loss=`, `corrupt=`, `duplicate=`, `reorder=`, `reorder_by=`, `delay=`, `seed=`).
    pub faults: FaultSetup,
}

/// Options of the port itself.
const OPTIONS: [&str; 8] = ["link", "queue", "queues", "ring", "mtu", "out", "pace", "capture"];
/// Options for faults of its cable.
pub(crate) const FAULT_OPTIONS: [&str; 7] =
    ["loss", "corrupt", "duplicate", "reorder", "reorder_by", "delay", "seed"];
/// Maximum delay by a fault: a frame later than this is as good as lost.
const FAULT_DELAY_MAX: Span = Span::from_ms(10_000);
/// IFNAMSIZ less the closing zero.
const NAME_BYTES_MAX: usize = 15;

impl PortSpec {
    /// A port of a kind on an interface, or on a file (none when empty), with default options.
    pub fn new(kind: PortKind, target: &str) -> PortSpec {
        let is_file = kind.is_file();
        PortSpec {
            number: None,
            kind,
            target: if is_file { String::new() } else { target.to_owned() },
            input: Some(PathBuf::from(target)).filter(|_| is_file && !target.is_empty()),
            link: None,
            queue: 0,
            queues: None,
            ring: None,
            mtu_bytes: None,
            out: None,
            pace: Pace::Now,
            capture: None,
            faults: FaultSetup::NONE,
        }
    }

    /// Parses `[NUMBER=][KIND:]TARGET[,OPTION=VALUE]...`.
    ///
    /// # Errors
    /// What was found, the valid words, and the nearest of them.
    pub fn parse(text: &str) -> Result<PortSpec, SpecError> {
        parse(text).map_err(|why| SpecError::Form { spec: text.to_owned(), why })
    }
}

impl PortSpec {
    /// Parses the ports of a switch; one without a number gets its place in the list. `link_of` gives the default link
    /// type of a port. Ports without `capture=` are recorded into `capture`, if there is one.
    ///
    /// # Errors
    /// A number, an interface or a file that is already in use, and those of [`PortSpec::parse`].
    pub fn list(
        texts: &[String],
        link_of: impl Fn(PortNumber) -> Option<LinkType>,
        capture: Option<&Path>,
    ) -> Result<Vec<(PortNumber, PortSpec)>, SpecError> {
        let mut ports: Vec<(PortNumber, PortSpec)> = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let mut spec = PortSpec::parse(text)?;
            let number = match spec.number {
                Some(number) => {
                    let number = u16::try_from(number).ok().map(PortNumber);
                    let number = number.filter(|number| is_port(*number));
                    number.ok_or_else(|| SpecError::Number(text.clone()))?
                }
                None => PortNumber(index as u16 + 1),
            };
            if ports.iter().any(|(known, _)| *known == number) {
                return Err(SpecError::NumberTaken { spec: text.clone(), number });
            }
            if let Some((port, _)) = ports.iter().find(|(_, known)| spec.shares_interface(known)) {
                return Err(SpecError::InterfaceTaken { spec: text.clone(), port: *port });
            }
            spec.link = spec.link.or_else(|| link_of(number));
            spec.capture = spec.capture.take().or(capture.map(Path::to_owned));
            spec.check_capture()?;
            ports.push((number, spec));
        }
        Ok(ports)
    }

    /// True if both use one interface: each of two sockets there would receive every frame.
    pub(crate) fn shares_interface(&self, other: &PortSpec) -> bool {
        let is_live = |spec: &PortSpec| !spec.kind.is_file();
        is_live(self) && is_live(other) && self.target == other.target
    }

    /// True if an open port of one specification can serve the other: they differ at most in number, faults and
    /// capture.
    pub(crate) fn is_same_medium(&self, other: &PortSpec) -> bool {
        let medium = |spec: &PortSpec| PortSpec {
            number: None,
            capture: None,
            faults: FaultSetup::NONE,
            ..spec.clone()
        };
        medium(self) == medium(other)
    }

    /// True if one can be opened only after the other is closed.
    pub(crate) fn excludes(&self, other: &PortSpec) -> bool {
        self.shares_interface(other) || self.out.is_some() && self.out == other.out
    }

    /// Checks that a capture does not overwrite the port's own files.
    fn check_capture(&self) -> Result<(), SpecError> {
        let is_own = |file: &PathBuf| [&self.input, &self.out].contains(&&Some(file.clone()));
        match &self.capture {
            Some(file) if file.as_os_str() == "-" => Err(SpecError::CaptureToOutput),
            Some(file) if is_own(file) => Err(SpecError::Capture(file.clone())),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for PortSpec {
    /// Kind and target, which identify the port in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.input.as_ref().or(self.out.as_ref());
        match (self.kind, file) {
            (PortKind::Auto, _) => f.write_str(&self.target),
            (kind, Some(file)) if kind.is_file() => write!(f, "{}:{}", kind.name(), shown(file)),
            (kind, _) => write!(f, "{}:{}", kind.name(), self.target),
        }
    }
}

fn parse(text: &str) -> Result<PortSpec, String> {
    let mut pieces = text.split(',');
    let head = pieces.next().unwrap_or_default();
    let (number, place) = split_number(head)?;
    let (kind, target) = match place.split_once(':') {
        None => (PortKind::Auto, place),
        Some((word, target)) => (parse_kind(word)?, target),
    };
    let mut spec = PortSpec { number, ..PortSpec::new(kind, target) };
    let mut seen: Vec<&str> = Vec::new();
    for piece in pieces {
        let Some((key, value)) = piece.split_once('=') else {
            return Err(format!("option `{piece}` has no value: write OPTION=VALUE"));
        };
        if seen.contains(&key.trim()) {
            return Err(format!("duplicate option `{}`", key.trim()));
        }
        seen.push(key.trim());
        set_option(&mut spec, key.trim(), value.trim())?;
    }
    check(&spec)?;
    check_options(&spec, &seen)?;
    Ok(spec)
}

/// Splits off the number: `1=veth0` has one; in `pcap:a=b.pcap` the sign belongs to the file name.
fn split_number(head: &str) -> Result<(Option<u32>, &str), String> {
    let Some((number, rest)) = head.split_once('=') else { return Ok((None, head)) };
    if number.contains(':') {
        return Ok((None, head));
    }
    match number.trim().parse() {
        Ok(number) => Ok((Some(number), rest)),
        Err(_) => {
            Err(format!("`{number}` is not a port number: write for example 1={}", rest.trim()))
        }
    }
}

fn parse_kind(word: &str) -> Result<PortKind, String> {
    PortKind::NAMED.iter().copied().find(|kind| kind.name() == word).ok_or_else(|| {
        let names: Vec<&str> = PortKind::NAMED.iter().map(|kind| kind.name()).collect();
        format!("unknown kind `{word}`{}; known are {}", hint(word, &names), names.join(", "))
    })
}

fn set_option(spec: &mut PortSpec, key: &str, value: &str) -> Result<(), String> {
    let count = |what| {
        value.parse::<u32>().map_err(|_| format!("{key}=`{value}` is not a number of {what}"))
    };
    match key {
        "link" => {
            let names = LinkType::ALL.map(LinkType::name);
            let found = LinkType::ALL.into_iter().find(|link| link.name() == value);
            spec.link = Some(found.ok_or_else(|| {
                let near = hint(value, &names);
                format!("unknown link `{value}`{near}; known are {}", names.join(", "))
            })?);
        }
        "queue" => match count("a queue")? {
            queue @ 0..=65_535 => spec.queue = queue,
            queue => return Err(format!("queue={queue}: use 0 to 65535")),
        },
        "queues" => match count("queues")? {
            queues @ 1..=64 => spec.queues = Some(queues),
            queues => return Err(format!("queues={queues}: use 1 to 64")),
        },
        "ring" => match count("entries")? {
            ring @ RING_MIN..=RECEIVE_MAX => spec.ring = Some(ring),
            ring => return Err(format!("ring={ring}: use {RING_MIN} to {RECEIVE_MAX} entries")),
        },
        "mtu" => match count("bytes")? {
            mtu @ 68..=65_521 => spec.mtu_bytes = Some(mtu),
            mtu => return Err(format!("mtu={mtu}: a TAP takes 68 to 65521 bytes")),
        },
        "out" | "capture" if value.is_empty() => return Err(format!("{key}= names no file")),
        "capture" => spec.capture = Some(PathBuf::from(value)),
        "out" if value == "-" => {
            return Err("out=-: standard output is for counters: name a file".to_owned());
        }
        "out" => spec.out = Some(PathBuf::from(value)),
        "pace" => {
            spec.pace = match value {
                "now" => Pace::Now,
                "recorded" => Pace::Recorded,
                _ => return Err(format!("pace=`{value}`: write pace=now or pace=recorded")),
            };
        }
        _ if set_fault(&mut spec.faults, key, value)? => {}
        _ => {
            let known = [&OPTIONS[..], &FAULT_OPTIONS].concat();
            let near = hint(key, &known);
            return Err(format!("unknown option `{key}`{near}; known are {}", known.join(", ")));
        }
    }
    Ok(())
}

/// Sets an option of the faults; false if `key` is not one of them.
fn set_fault(faults: &mut FaultSetup, key: &str, value: &str) -> Result<bool, String> {
    let chance = || value.parse::<Probability>().map_err(|error| format!("{key}={error}"));
    let span = || {
        let interval = value.parse::<Interval>().map_err(|error| format!("{key}={error}"))?;
        match interval.span() {
            span if span <= FAULT_DELAY_MAX => Ok(span),
            _ => Err(format!("{key}={value}: at most 10 s")),
        }
    };
    match key {
        "loss" => faults.loss = chance()?,
        "corrupt" => faults.corruption = chance()?,
        "duplicate" => faults.duplication = chance()?,
        "reorder" => faults.reordering = chance()?,
        "reorder_by" => faults.reorder_by = span()?,
        "delay" => faults.delay = span()?,
        "seed" => {
            faults.seed = value.parse().map_err(|_| format!("seed=`{value}` is not a number"))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn check(spec: &PortSpec) -> Result<(), String> {
    let target = spec.target.as_str();
    spec.check_capture().map_err(|error| error.to_string())?;
    if spec.kind.is_file() {
        if spec.input.is_none() && spec.out.is_none() {
            return Err("names no file: write pcap:in.pcap, pcap:in.pcap,out=out.pcap or \
                        pcap:,out=out.pcap"
                .to_owned());
        }
        return Ok(());
    }
    if target.is_empty() {
        return Err("names no interface: write for example 1=veth0".to_owned());
    }
    if target.len() > NAME_BYTES_MAX || target.contains(['/', ' ', ':']) {
        return Err(format!(
            "`{target}` is no interface name: Linux takes at most {NAME_BYTES_MAX} bytes without \
             `/`, `:` and spaces (a capture file is pcap:{target})"
        ));
    }
    Ok(())
}

/// Refuses options without an effect on this port; `given` are the names of those that were written.
fn check_options(spec: &PortSpec, given: &[&str]) -> Result<(), String> {
    let of_files = ["out", "pace"].into_iter().find(|option| given.contains(option));
    if let Some(option) = of_files.filter(|_| !spec.kind.is_file()) {
        return Err(format!("{option}= is for pcap: ports"));
    }
    let some = [
        ("queues", spec.queues.is_some()),
        ("queue", spec.queue != 0),
        ("ring", spec.ring.is_some()),
        ("mtu", spec.mtu_bytes.is_some()),
    ];
    let foreign = some.into_iter().find(|(option, is_set)| *is_set && !spec.kind.takes(option));
    if let Some((option, _)) = foreign {
        let remedy = match option {
            "mtu" if !spec.kind.is_file() => {
                format!("; here: ip link set {} mtu BYTES", spec.target)
            }
            _ => String::new(),
        };
        return Err(format!("{option}= is for {} ports{remedy}", kinds_with(option)));
    }
    if given.contains(&"reorder_by") && spec.faults.reordering == Probability::ZERO {
        return Err(
            "reorder_by= is how late the frames of reorder= are, which is not given".to_owned()
        );
    }
    Ok(())
}

/// ` (did you mean ...?)` if a valid word begins like this or is close.
fn hint(word: &str, known: &[&str]) -> String {
    let near = suggest(word, known.iter().copied());
    near.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        PortSpec::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn the_usual_forms_are_understood() {
        let spec = PortSpec::parse("1=veth0").unwrap();
        assert_eq!(spec, PortSpec { number: Some(1), ..PortSpec::new(PortKind::Auto, "veth0") });
        let spec = PortSpec::parse("xdp:eth0,queue=3").unwrap();
        assert_eq!(spec, PortSpec { queue: 3, ..PortSpec::new(PortKind::Xdp, "eth0") });
        let spec = PortSpec::parse("2=tap:tap0,mtu=9000,link=infiniband").unwrap();
        assert_eq!((spec.number, spec.mtu_bytes), (Some(2), Some(9000)));
        assert_eq!(spec.link, Some(LinkType::Infiniband));
        let spec = PortSpec::parse("3=pcap:a=b.pcap,out=dir/c.pcapng,pace=recorded").unwrap();
        assert_eq!((spec.input, spec.pace), (Some(PathBuf::from("a=b.pcap")), Pace::Recorded));
        assert_eq!(spec.out, Some(PathBuf::from("dir/c.pcapng")));
        assert_eq!(PortSpec::parse("pcap:a=b.pcap").unwrap().to_string(), "pcap:a=b.pcap");
        assert_eq!(PortSpec::parse("pcap:,out=c.pcap").unwrap().to_string(), "pcap:c.pcap");
        assert_eq!(PortSpec::parse("raw:x").unwrap().to_string(), "raw:x");
    }

    #[test]
    fn mistakes_get_a_way_out() {
        for (text, expected) in [
            ("1=rwa:eth0", "did you mean `raw`?"),
            ("1=RAW:eth0", "did you mean `raw`?"),
            ("zzz:eth0", "known are xdp, raw, pnet, tap, pcap"),
            ("eth=veth0", "`eth` is not a port number"),
            ("1=", "names no interface"),
            ("1=pcap:", "names no file"),
            ("tap:t,mtu=20", "68 to 65521"),
            ("raw:t,mtu=2000", "ip link set t mtu"),
            ("raw:t,ring=64", "ring= is for xdp"),
            ("pnet:t,queues=2", "queues= is for xdp:, raw: and tap:"),
            ("raw:t,queues=0", "1 to 64"),
            ("xdp:t,ring=1", "64 to 65536"),
            ("raw:t,que=1", "did you mean `queue`?"),
            ("raw:t,queue", "has no value"),
            ("raw:t,queue=x", "not a number"),
            ("raw:t,link=ether", "known are ethernet, infiniband, opa, erf"),
            ("a-very-long-interface", "at most 15 bytes"),
            ("dir/file.pcap", "pcap:dir/file.pcap"),
            ("raw:t,out=x", "for pcap"),
            ("raw:t,loss=5", "\"5\": missing unit"),
            ("raw:t,loss=101%", "at most 100 %"),
            ("raw:t,los=1%", "did you mean `loss`?"),
            ("raw:t,re=1%", "did you mean `reorder`?"),
            ("raw:t,delay=5", "\"5\": missing unit"),
            ("raw:t,delay=11s", "at most 10 s"),
            ("raw:t,seed=x", "not a number"),
            ("raw:t,loss=1%,loss=2%", "duplicate option `loss`"),
            ("raw:t,link=eth", "did you mean `ethernet`?"),
            ("raw:t,capture=", "capture= names no file"),
            ("raw:t,capture=-", "a named pipe (mkfifo PIPE)"),
            ("pcap:a.pcap,capture=a.pcap", "the port uses this file"),
            ("pcap:,out=a.pcap,capture=a.pcap", "the port uses this file"),
            ("pcap:t,pace=slow", "pace=recorded"),
            ("raw:t,pace=recorded", "pace= is for pcap: ports"),
            ("pcap:t,mtu=9000", "mtu= is for tap: ports"),
            ("pcap:t,ring=128", "ring= is for xdp"),
            ("pcap:,out=t,queue=3", "queue= is for xdp"),
            ("raw:t,reorder_by=5ms", "reorder="),
        ] {
            let message = error(text);
            assert!(message.contains(expected) && message.contains(text), "{message}");
        }
    }
}
