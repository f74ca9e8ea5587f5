//! `doctor`: the capabilities of this machine for a switch.

use super::args::DoctorArgs;
use super::{Status, complain, print, print_json};
use crate::doctor::{self, Finding, Verdict};

pub(super) fn run(args: &DoctorArgs) -> Status {
    if args.try_ports {
        print(&doctor::try_ports());
        return Status::Success;
    }
    if args.try_sandbox {
        print(&doctor::try_sandbox());
        return Status::Success;
    }
    let findings = match doctor::examine(&args.interfaces) {
        Ok(findings) => findings,
        Err(message) => {
            complain(&message.to_string());
            return Status::Wrong;
        }
    };
    if args.json {
        print_json(&findings);
    } else {
        print(&text(&findings));
    }
    let is_missing = findings.iter().any(|finding| finding.verdict == Verdict::Missing);
    if is_missing { Status::Failed } else { Status::Success }
}

fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.subject.len()).max().unwrap_or(0);
    let mut lines = String::new();
    for finding in findings {
        let word = match finding.verdict {
            Verdict::Good => "ok",
            Verdict::Limited => "limited",
            Verdict::Missing => "missing",
        };
        lines += &format!("{word:<8} {:<width$}  {}\n", finding.subject, finding.found);
        if let Some(advice) = &finding.advice {
            lines += &format!("{:<8} {:<width$}  -> {advice}\n", "", "");
        }
    }
    lines
}
