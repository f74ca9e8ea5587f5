//! A case as a file: JSON, which a person can read and YAML tools can too.

use std::path::Path;

use serde_json::{Value, json};

use super::{At, Case, Change, How, Origin, Packet};

const HOWS: [(&str, How); 3] =
    [("insert", How::Insert), ("modify", How::Modify), ("delete", How::Delete)];

/// The text of a case, with a note about where it comes from.
pub fn write(case: &Case, note: &str) -> String {
    let packets: Vec<String> = case.packets.iter().map(line).collect();
    let how = |how: How| HOWS.iter().find(|(_, known)| *known == how).map(|(name, _)| *name);
    let change =
        |c: &Change| json!({ "before": c.before, "how": how(c.how), "entries": c.entries });
    let changes: Vec<Value> = case.changes.iter().map(change).collect();
    let file = json!({
        "note": note,
        "burst": case.burst,
        "traced": case.traced,
        "through": case.through,
        "workers": case.workers,
        "step_ns": case.step_ns,
        "changes": changes,
        "packets": packets,
        "program": case.program,
        "entries": case.entries,
    });
    format!("{file:#}\n")
}

fn line(packet: &Packet) -> String {
    let place = match packet.at {
        At::Headroom => None,
        At::Start => Some("start"),
        At::End => Some("end"),
    };
    let from = match packet.from {
        Origin::Link => None,
        Origin::Cpu => Some("cpu"),
        Origin::Generator => Some("generator"),
    };
    let words = [packet.mark.then_some("mark"), place, packet.held.then_some("held"), from];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    let words = if words.is_empty() { "-".into() } else { words.join(",") };
    format!("{} {words} {}", packet.port, hex(&packet.bytes))
}

/// Reads what [`write()`] wrote. What is not there is as simple as can be.
///
/// # Errors
/// What is wrong with the file.
pub fn read(path: &Path) -> Result<Case, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| failed(&e))?;
    let file: Value = serde_json::from_str(&text).map_err(|e| failed(&e))?;
    let number = |key: &str| file[key].as_u64().unwrap_or(0) as usize;
    let lines = file["packets"].as_array().ok_or_else(|| failed(&"no packets"))?;
    let packets = lines.iter().map(|line| line.as_str().and_then(packet));
    let packets: Option<Vec<Packet>> = packets.collect();
    let changes = file["changes"].as_array().into_iter().flatten();
    let changes: Option<Vec<Change>> = changes.map(change).collect();
    Ok(Case {
        packets: packets.ok_or_else(|| failed(&"a packet is not `port words|- hex`"))?,
        changes: changes.ok_or_else(|| failed(&"a change is not `before`, `how`, `entries`"))?,
        workers: number("workers").max(1),
        step_ns: file["step_ns"].as_u64().unwrap_or(1),
        burst: number("burst"),
        traced: number("traced"),
        through: file["through"].as_bool().unwrap_or(false),
        entries: Some(file["entries"].clone()).filter(|entries| !entries.is_null()),
        program: file["program"].clone(),
    })
}

fn change(value: &Value) -> Option<Change> {
    let how = value["how"].as_str()?;
    let how = HOWS.iter().find(|(name, _)| *name == how).map(|(_, how)| *how)?;
    let before = value["before"].as_u64()? as usize;
    Some(Change { before, how, entries: value["entries"].clone() })
}

fn packet(line: &str) -> Option<Packet> {
    let mut parts = line.split(' ');
    let port = parts.next()?.parse().ok()?;
    let (mut mark, mut at, mut held, mut from) = (false, At::Headroom, false, Origin::Link);
    for word in parts.next()?.split(',') {
        match word {
            "mark" => mark = true,
            "start" => at = At::Start,
            "end" => at = At::End,
            "held" => held = true,
            "cpu" => from = Origin::Cpu,
            "generator" => from = Origin::Generator,
            "-" => {}
            _ => return None,
        }
    }
    let digits = parts.next().unwrap_or("");
    let byte = |n: usize| u8::from_str_radix(digits.get(n..n + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    Some(Packet { port, mark, at, held, from, bytes: bytes? })
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differ::generate;

    #[test]
    fn a_case_is_what_its_file_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("case.json");
        for seed in 0..40 {
            let case = generate::case(seed);
            std::fs::write(&path, write(&case, "a note")).expect("writes");
            assert_eq!(read(&path), Ok(case));
        }
    }
}
