//! The capabilities of this machine for a switch, found by trying: machine code, port kinds, privileges, interfaces.
//!
//! Nothing is changed: ports are tried on a virtual cable in a network namespace of a child process, which ends with
//! it.

mod confined;
mod machine;
mod probe;

use serde::Serialize;

pub use confined::try_sandbox;
pub use probe::try_ports;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// It works, with a limit.
    Limited,
    /// It does not work at present.
    Missing,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject: `xdp:`, `interface eth0`.
    pub subject: String,
    /// Its severity.
    pub verdict: Verdict,
    /// The result.
    pub found: String,
    /// A remedy or improvement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    fn new(subject: &str, verdict: Verdict, found: impl Into<String>) -> Finding {
        Finding { subject: subject.to_owned(), verdict, found: found.into(), advice: None }
    }

    fn good(subject: &str, found: impl Into<String>) -> Finding {
        Finding::new(subject, Verdict::Good, found)
    }

    fn limited(subject: &str, found: impl Into<String>) -> Finding {
        Finding::new(subject, Verdict::Limited, found)
    }

    fn missing(subject: &str, found: impl Into<String>) -> Finding {
        Finding::new(subject, Verdict::Missing, found)
    }

    fn advise(mut self, advice: impl Into<String>) -> Finding {
        self.advice = Some(advice.into());
        self
    }
}

/// A named interface that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no interface {name} in this network namespace; there are {}", .there.join(", "))]
pub struct NoInterface {
    /// Its name.
    pub name: String,
    /// The existing ones.
    pub there: Vec<String>,
}

/// Examines the machine, and these interfaces of the network namespace (all of them if none is named).
///
/// # Errors
/// A named interface that does not exist.
pub fn examine(interfaces: &[String]) -> Result<Vec<Finding>, NoInterface> {
    let interfaces = machine::interfaces(interfaces)?;
    let mut all = vec![machine::system(), machine::machine_code(), machine::privileges()];
    all.extend(probe::ports());
    all.push(confined::sandbox());
    all.push(machine::locked_memory());
    all.extend(interfaces);
    Ok(all)
}
