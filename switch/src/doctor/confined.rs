//! Tries the sandbox of `run` in a child process: enters it, and tries operations that a switch never does.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::process::Command;

use rustix::net::AddressFamily;
use serde::{Deserialize, Serialize};

use super::Finding;
use super::probe::child;
use crate::confine::Confinement;
use crate::ports::sys::{netns, refused};

const SUBJECT: &str = "sandbox of run";
/// Sockets of the kernel's cryptography (AF_ALG): any user may create them, and no switch does.
const OTHER_FAMILY: AddressFamily = AddressFamily::from_raw(libc::AF_ALG as u16);

/// The child's report.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Report {
    /// Why it could not be entered.
    error: Option<String>,
    /// Deviations, as warnings.
    warnings: Vec<String>,
    /// Attempts by name, with the system's error; `None` if it permitted them.
    attempts: Vec<(String, Option<String>)>,
    /// Numbers of the system calls that the filter reported.
    calls: Vec<u32>,
}

/// The child's work: enters the sandbox with no folder of its own, and returns a JSON object for the parent.
///
/// Call it only in a process that does nothing else.
pub fn try_sandbox() -> String {
    let mut report = Report::default();
    match Confinement::new().enter() {
        Err(why) => report.error = Some(why.to_string()),
        Ok(mut entered) => {
            let mut note = |what: &str, result: io::Result<()>| {
                report.attempts.push((what.to_owned(), result.err().map(|e| e.to_string())));
            };
            note("list the root folder", File::open("/").map(drop));
            note(
                "start a program",
                Command::new("/proc/self/exe").arg("--version").status().map(drop),
            );
            note("leave its network namespace", netns::enter_private_network().map(drop));
            note("open a socket of another family", refused::try_socket(OTHER_FAMILY));
            refused::try_foreign().for_each(|(what, result)| note(what, result));
            // Nothing listens there: without the sandbox the peer refuses the connection.
            let connected = TcpStream::connect("127.0.0.1:1").map(drop);
            let reached = |e: &io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
            let connected = if connected.as_ref().is_err_and(reached) { Ok(()) } else { connected };
            note("connect by TCP", connected);
            report.warnings = entered.warnings;
            report.calls = entered.refusals.news();
        }
    }
    serde_json::to_string(&report).unwrap_or_default()
}

/// Runs the child and reads its report.
pub(super) fn sandbox() -> Finding {
    match child::<Report>("--try-sandbox") {
        Ok(report) => finding(&report),
        Err(why) => Finding::missing(SUBJECT, format!("could not be tried: {why}")),
    }
}

fn finding(report: &Report) -> Finding {
    if let Some(why) = &report.error {
        return Finding::missing(SUBJECT, why.clone()).advise("`run --no-sandbox` runs without it");
    }
    let through = report.attempts.iter().filter(|(_, error)| error.is_none());
    let through: Vec<&str> = through.map(|(what, _)| what.as_str()).collect();
    if through.is_empty() {
        let refused = report.attempts.iter().map(|(what, _)| what.as_str());
        let found = format!("refuses to {}", refused.collect::<Vec<_>>().join(", "));
        return Finding::good(SUBJECT, found);
    }
    let mut found = format!("does not keep a switch from this: {}", through.join(", "));
    report.warnings.iter().for_each(|warning| found += &format!("; {warning}"));
    Finding::limited(SUBJECT, found)
        .advise("a kernel with seccomp, and with Landlock (Linux 6.7 or newer, `landlock` in lsm=)")
}
