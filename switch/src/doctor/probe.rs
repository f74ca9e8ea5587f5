//! Tries each port kind on a virtual cable, in a child process with a network namespace of its own.
//!
//! A process of its own, because only one without threads may leave its user namespace, and because a trial must leave
//! no traces.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};

use super::machine::privileges;
use super::{Finding, Verdict};
use crate::ports::sys::netns;
use crate::ports::{PortSpec, open, veth};

/// The cable of the trial.
const CABLE: [&str; 2] = ["doctor0", "doctor1"];
const MTU_BYTES: u32 = 1500;
/// The port kinds that are tried, fastest first, and the alternative if one does not work.
const KINDS: [(&str, &str); 4] = [
    ("xdp:doctor0", "raw: ports do the same, with three times the processor time"),
    ("raw:doctor0", "pnet: ports need the same privilege"),
    ("pnet:doctor0", "raw: ports need the same privilege"),
    ("tap:doctor2", "needs /dev/net/tun and CAP_NET_ADMIN"),
];
/// Polling interval of the child, and number of polls before it is killed: 10 s.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOOKS_MAX: u32 = 2000;

/// The child's report.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Report {
    trials: Vec<Trial>,
    /// The user namespace that the ports were opened in.
    user_namespace: Option<PathBuf>,
}

/// The child's result of one trial: its name, and the error if it failed.
#[derive(Debug, Serialize, Deserialize)]
struct Trial {
    what: String,
    error: Option<String>,
}

/// The child's work: moves to a private network, tries every port kind, and returns a JSON object for the parent.
///
/// Call it only in a process that does nothing else.
pub fn try_ports() -> String {
    let mut trials = Vec::new();
    let mut note = |what: &str, result: Result<(), String>| {
        trials.push(Trial { what: what.to_owned(), error: result.err() });
    };
    let left = netns::leave_for_private_network().map_err(|error| error.to_string());
    let is_private = left.is_ok();
    note("namespace", left);
    if is_private {
        let cable = veth::create(CABLE, MTU_BYTES).map_err(|error| error.to_string());
        let has_cable = cable.is_ok();
        note("veth", cable);
        for (spec, _) in KINDS.iter().filter(|_| has_cable) {
            note(spec, try_port(spec));
        }
    }
    let user_namespace = netns::user_namespace();
    serde_json::to_string(&Report { trials, user_namespace }).unwrap_or_default()
}

fn try_port(spec: &str) -> Result<(), String> {
    let spec = PortSpec::parse(spec).map_err(|error| error.to_string())?;
    let config = MemoryConfig { chunks: 4096, ..MemoryConfig::default() };
    let memory = PacketMemory::new(config).map_err(|error| error.to_string())?;
    open(&spec, &memory).map(drop).map_err(|error| error.to_string())
}

/// Runs the child and reads its report.
pub(super) fn ports() -> Vec<Finding> {
    match child::<Report>("--try-ports") {
        Ok(report) => {
            let is_as_here = report.user_namespace == netns::user_namespace();
            findings(&report.trials, is_as_here, privileges().verdict == Verdict::Good)
        }
        Err(why) => vec![Finding::missing("ports", format!("could not be tried: {why}"))],
    }
}

/// Runs `doctor` with this argument as a child, and reads the JSON that it prints.
pub(super) fn child<T: serde::de::DeserializeOwned>(argument: &str) -> Result<T, String> {
    let text = |error: std::io::Error| error.to_string();
    let exe = std::env::current_exe().map_err(text)?;
    let mut command = Command::new(exe);
    command.args(["doctor", argument]).stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(text)?;
    let mut looks = 0;
    while child.try_wait().map_err(text)?.is_none() {
        if looks == LOOKS_MAX {
            child.kill().map_err(text)?;
            child.wait().map_err(text)?;
            return Err("no answer within 10 s".into());
        }
        looks += 1;
        std::thread::sleep(LOOK_EVERY);
    }
    let output = child.wait_with_output().map_err(text)?;
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// `is_as_here`: the trials had the privileges that `run` would have. A process without CAP_SYS_ADMIN has a private network
/// only in a user namespace of its own, where it is root, and where AF_XDP never works. `has_all`: it would have all that
/// ports need.
fn findings(trials: &[Trial], is_as_here: bool, has_all: bool) -> Vec<Finding> {
    let mut all = Vec::new();
    for trial in trials {
        let kind = KINDS.iter().find(|(spec, _)| *spec == trial.what);
        all.push(match (kind, &trial.error) {
            (Some((spec, _)), Some(_)) if prefix(spec) == "xdp:" && !is_as_here => {
                Finding::limited(
                    "xdp:",
                    "not tried: without root there is a network for trials in a user namespace only, where AF_XDP does not work",
                )
                .advise("with the privileges above `run` may open it; sudo wireyard doctor tries it")
            }
            (Some((spec, _)), None) if !is_as_here && !has_all => {
                Finding::limited(prefix(spec), "works in a network namespace of the user's own")
                    .advise("`run` on interfaces of this machine needs the privileges above")
            }
            (Some((spec, _)), None) => {
                Finding::good(prefix(spec), "a port of this kind was opened on a virtual cable")
            }
            (Some((spec, advice)), Some(why)) => {
                Finding::missing(prefix(spec), why.replace('\n', " ")).advise(*advice)
            }
            (None, None) if trial.what == "veth" => {
                Finding::good("virtual cables", "a veth pair was made")
            }
            (None, None) => Finding::good("private network", "demo and lab --live can have one"),
            (None, Some(why)) if trial.what == "veth" => Finding::missing("virtual cables", why),
            (None, Some(why)) => Finding::missing("private network", why).advise(
                "demo and lab --live need user namespaces (sysctl kernel.unprivileged_userns_clone, \
                 kernel.apparmor_restrict_unprivileged_userns) or root; port kinds were not tried",
            ),
        });
    }
    all
}

/// `xdp:` of `xdp:doctor0`.
fn prefix(spec: &str) -> &str {
    spec.split_inclusive(':').next().unwrap_or(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    /// In its own user namespace the child is root, and whoever runs the doctor is not.
    #[test]
    fn a_trial_as_another_root_does_not_show_that_run_works() {
        let trial = |what: &str| Trial { what: what.to_owned(), error: None };
        let trials = ["raw:doctor0", "pnet:doctor0", "tap:doctor2"].map(trial);
        let all = |found: &[Finding], verdict| found.iter().all(|one| one.verdict == verdict);
        assert!(all(&findings(&trials, false, false), Verdict::Limited));
        assert!(all(&findings(&trials, true, true), Verdict::Good), "root");
        assert!(all(&findings(&trials, false, true), Verdict::Good), "setcap");
        assert!(all(&findings(&trials, true, false), Verdict::Good), "root of a container");
    }
}
