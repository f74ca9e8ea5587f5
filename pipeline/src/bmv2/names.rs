//! Names of the JSON as names of P4: dots and other characters that P4 names do not have become `_`, and no name occurs
//! twice.

use std::collections::HashSet;

use crate::p4::KEYWORDS;

/// Reserved names beside P4's keywords: those of the architecture and of the generated program.
const TAKEN: &[&str] = &[
    "accept",
    "action_profile",
    "action_selector",
    "actions",
    "apply",
    "assert",
    "assume",
    "clone",
    "clone3",
    "clone_preserving_field_list",
    "counter",
    "default_action",
    "digest",
    "direct_counter",
    "direct_meter",
    "entries",
    "exact",
    "hash",
    "hdr",
    "key",
    "log_msg",
    "lpm",
    "mark_to_drop",
    "meta",
    "meter",
    "optional",
    "packet",
    "packet_in",
    "packet_out",
    "priority",
    "random",
    "range",
    "recirculate",
    "recirculate_preserving_field_list",
    "register",
    "reject",
    "resubmit",
    "resubmit_preserving_field_list",
    "selector",
    "size",
    "standard_metadata",
    "standard_metadata_t",
    "state",
    "static_assert",
    "ternary",
    "truncate",
    "type",
    "update_checksum",
    "update_checksum_with_payload",
    "verify",
    "verify_checksum",
    "verify_checksum_with_payload",
    "Checksum16",
    "CloneType",
    "CounterType",
    "HashAlgorithm",
    "MeterType",
    "NoAction",
    "V1Switch",
    "Headers",
    "Metadata",
    "ParserImpl",
    "VerifyImpl",
    "IngressImpl",
    "EgressImpl",
    "ComputeImpl",
    "Ingress",
    "Egress",
    "Compute",
    "DeparserImpl",
    "Parser",
    "VerifyChecksum",
    "ComputeChecksum",
    "Deparser",
    "main",
    "start",
    "PortId_t",
    "core",
    "list",
    "pragma",
    "abs",
];

/// Names in use in one scope.
#[derive(Debug, Default)]
pub(super) struct Names {
    given: HashSet<String>,
}

impl Names {
    /// A unique name: the last part of `full`, or more of it where that is taken.
    pub(super) fn fresh(&mut self, full: &str) -> String {
        self.unique(full, &[KEYWORDS, TAKEN])
    }

    /// The same for a field, which may have the name of anything but a keyword.
    pub(super) fn field(&mut self, full: &str) -> String {
        self.unique(full, &[KEYWORDS])
    }

    fn unique(&mut self, full: &str, reserved: &[&[&str]]) -> String {
        let last = full.rsplit('.').find(|part| !part.is_empty()).unwrap_or("unnamed");
        let choices = [plain(last), plain(full)];
        for choice in &choices {
            let taken = reserved.iter().any(|words| words.contains(&choice.as_str()));
            if !taken && self.given.insert(choice.clone()) {
                return choice.clone();
            }
        }
        for number in 2_usize.. {
            let choice = format!("{}_{number}", choices[0]);
            if self.given.insert(choice.clone()) {
                return choice;
            }
        }
        choices[0].clone()
    }
}

/// The name with other characters than P4's replaced.
fn plain(name: &str) -> String {
    let of = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut text: String = name.chars().map(of).take(200).collect();
    let trimmed = text.trim_matches('_');
    if !trimmed.is_empty() && trimmed.len() < text.len() && name.contains('[') {
        text = trimmed.to_owned();
    }
    match text.as_bytes().first() {
        None => "unnamed".to_owned(),
        Some(b'0'..=b'9') => format!("n{text}"),
        _ if text.chars().all(|c| c == '_') => format!("n{text}"),
        _ => text,
    }
}

/// A name for the control plane, as a P4 string literal.
pub(super) fn quoted(name: &str) -> String {
    let mut text = String::from("\"");
    for c in name.chars().filter(|c| !c.is_control()) {
        if matches!(c, '"' | '\\') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
    text
}

/// A word of the JSON that must be a P4 name as it is: characters that P4 names do not have are left out, so that it
/// refers to nothing.
pub(super) fn word(name: &str) -> String {
    let text: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(200).collect();
    match text.as_bytes().first() {
        None | Some(b'0'..=b'9') => format!("n{text}"),
        _ => text,
    }
}
