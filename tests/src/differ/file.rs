//! A case as a file: JSON, which a person can read and YAML tools can too.

use std::path::Path;

use serde_json::{Value, json};

use super::{Case, Packet};

/// The text of a case, with a note about where it comes from.
pub fn write(case: &Case, note: &str) -> String {
    let packets: Vec<String> = case
        .packets
        .iter()
        .map(|p| format!("{} {} {}", p.port, if p.mark { "mark" } else { "-" }, hex(&p.bytes)))
        .collect();
    let file = json!({
        "note": note,
        "burst": case.burst,
        "traced": case.traced,
        "through": case.through,
        "packets": packets,
        "program": case.program,
        "entries": case.entries,
    });
    format!("{file:#}\n")
}

/// Reads what [`write()`] wrote.
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
    Ok(Case {
        packets: packets.ok_or_else(|| failed(&"a packet is not `port mark|- hex`"))?,
        burst: number("burst"),
        traced: number("traced"),
        through: file["through"].as_bool().unwrap_or(false),
        entries: Some(file["entries"].clone()).filter(|entries| !entries.is_null()),
        program: file["program"].clone(),
    })
}

fn packet(line: &str) -> Option<Packet> {
    let mut parts = line.split(' ');
    let port = parts.next()?.parse().ok()?;
    let mark = parts.next()? == "mark";
    let digits = parts.next().unwrap_or("");
    let byte = |n: usize| u8::from_str_radix(digits.get(n..n + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    Some(Packet { port, mark, bytes: bytes? })
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
        for seed in 0..20 {
            let case = generate::case(seed);
            std::fs::write(&path, write(&case, "a note")).expect("writes");
            assert_eq!(read(&path), Ok(case));
        }
    }
}
