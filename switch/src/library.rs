//! The files of `programs/` inside the binary: header libraries, programs with entries and tests, scenarios, rate
//! controls.
//!
//! Data only; `build.rs` lists them. A file on the disk of the same name comes first, so nothing here hides a user's
//! file.

use std::path::{Path, PathBuf};

use wireyard_pipeline::source::EMBEDDED;

/// Name and text of every file: a library by its name (`ethernet`), the rest by its path (`l2_switch/program.yaml`).
///
/// A static: a constant of this size would be in the binary once for each unit of code that refers to it.
pub static LIBRARIES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The path of the program `wanted`: itself if it is on the disk, otherwise the folder inside the binary of that name.
pub fn program_path(wanted: &Path) -> PathBuf {
    locate(wanted, Path::exists, |name| format!("{name}/program.yaml"), |name| name.to_owned())
}

/// The path of the scenario `wanted`: itself if it is a file on the disk, otherwise the scenario inside the binary of
/// that name. A folder is no scenario: it may be the output of an earlier run of that scenario.
pub fn scenario_path(wanted: &Path) -> PathBuf {
    let file = |name: &str| format!("lab/{name}.yaml");
    locate(wanted, Path::is_file, file, file)
}

fn locate(
    wanted: &Path,
    is_there: fn(&Path) -> bool,
    file: impl Fn(&str) -> String,
    place: impl Fn(&str) -> String,
) -> PathBuf {
    let is_inside = |name: &str| LIBRARIES.iter().any(|(known, _)| *known == file(name));
    match wanted.to_str() {
        Some(name) if !name.contains('/') && !is_there(wanted) && is_inside(name) => {
            Path::new(EMBEDDED).join(place(name))
        }
        _ => wanted.to_owned(),
    }
}

/// Names of the programs inside the binary.
pub fn programs() -> Vec<&'static str> {
    names("", "/program.yaml")
}

/// Name and text of the header libraries inside the binary.
pub fn header_libraries() -> impl Iterator<Item = (&'static str, &'static str)> {
    LIBRARIES.iter().copied().filter(|(name, _)| !name.contains('/'))
}

/// True if a library with this text declares the type of a header itself.
pub fn declares_header(text: &str, header: &str) -> bool {
    let lines = text.lines().skip_while(|line| *line != "headers:").skip(1);
    let of_headers = lines.take_while(|line| line.is_empty() || line.starts_with([' ', '#']));
    let mut names = of_headers.filter_map(|line| line.strip_prefix("  ")?.split(':').next());
    names.any(|name| name == header)
}

/// Names of the scenarios inside the binary.
pub fn scenarios() -> Vec<&'static str> {
    names("lab/", ".yaml")
}

/// Names of the rate controls inside the binary.
pub fn rate_controls() -> Vec<&'static str> {
    names("rate_control/", ".yaml")
}

/// The text of the rate control of this name.
pub fn rate_control(name: &str) -> Option<&'static str> {
    let file = format!("rate_control/{name}.yaml");
    LIBRARIES.iter().find(|(known, _)| *known == file).map(|(_, text)| *text)
}

/// The text of a file inside the binary, by the path that [`program_path`] returns.
pub fn text_at(path: &Path) -> Option<&'static str> {
    let name = path.strip_prefix(EMBEDDED).ok()?.to_str()?;
    LIBRARIES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

fn names(before: &str, behind: &str) -> Vec<&'static str> {
    let all =
        LIBRARIES.iter().filter_map(|(name, _)| name.strip_prefix(before)?.strip_suffix(behind));
    all.filter(|name| !name.contains('/')).collect()
}

/// Name and text of the files of a program inside the binary.
pub fn files_of(program: &str) -> Vec<(&'static str, &'static str)> {
    let folder = format!("{program}/");
    LIBRARIES
        .iter()
        .filter_map(|(name, text)| Some((name.strip_prefix(folder.as_str())?, *text)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roce::rp::program::Program;

    #[test]
    fn every_rate_control_is_right_and_has_the_name_of_its_file() {
        assert!(rate_controls().len() >= 5);
        for name in rate_controls() {
            let text = rate_control(name).unwrap_or_default();
            let program = Program::parse(name, text).unwrap_or_else(|found| panic!("{found}"));
            assert_eq!(program.name(), name);
        }
    }

    #[test]
    fn libraries_programs_and_scenarios_are_inside() {
        let names: Vec<&str> = LIBRARIES.iter().map(|(name, _)| *name).collect();
        assert!(names.contains(&"ethernet") && names.contains(&"l2_switch/forward.stf"));
        assert!(programs().contains(&"rocev2_lossless") && scenarios().contains(&"incast"));
        assert_eq!(program_path(Path::new("l2_switch")), Path::new("<embedded>/l2_switch"));
        assert_eq!(program_path(Path::new("./l2_switch")), Path::new("./l2_switch"));
        assert_eq!(scenario_path(Path::new("incast")), Path::new("<embedded>/lab/incast.yaml"));
        assert_eq!(scenario_path(Path::new("none")), Path::new("none"));
    }
}
