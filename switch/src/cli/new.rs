//! `new`: a new program, copied from one inside the binary.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::args::{NewArgs, Template};
use super::{Status, complain, print, print_json};
use crate::folder::FileError;
use crate::library;
use serde_json::json;
use wireyard_pipeline::diag::safe::shown;

pub(super) fn run(args: &NewArgs) -> Status {
    match write(&args.name, args.template) {
        Ok(files) if args.json => {
            print_json(&json!({ "folder": shown(&args.name).to_string(), "files": files }));
            Status::Success
        }
        Ok(files) => {
            // Without a slash at its end.
            let folder: PathBuf = args.name.components().collect();
            let name = shown(&folder);
            print(&format!(
                "{name}/: {}\n\nNext:\n  wireyard check {name}\n  wireyard test {name}\n  wireyard run {name} --port 1=INTERFACE --port 2=INTERFACE\n",
                files.join(", ")
            ));
            Status::Success
        }
        Err(message) => {
            complain(&message);
            Status::Wrong
        }
    }
}

/// Writes the files of the template into a new folder; an error, and nothing written, if the folder exists.
fn write(folder: &Path, template: Template) -> Result<Vec<String>, String> {
    let name = folder.file_name().ok_or_else(|| {
        let folder = shown(folder);
        format!("{folder}: the name of the new folder is missing, as in `wireyard new my_switch`")
    })?;
    let name = name.to_str().filter(|name| is_name(name)).ok_or_else(|| {
        let name = shown(name.as_ref());
        format!("`{name}` is no name for a program: letters, digits and _, no digit first, and no value of YAML such as `true`")
    })?;
    let failed = |path: &Path, source| FileError { path: path.to_owned(), source }.to_string();
    fs::create_dir(folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            format!("{} is already there: choose another name", shown(folder))
        }
        std::io::ErrorKind::NotFound => {
            let above = shown(folder.parent().unwrap_or(folder));
            format!("{}: there is no folder {above}: make it first", shown(folder))
        }
        _ => failed(folder, error),
    })?;
    let files = library::files_of(template.program());
    let written = files.iter().try_for_each(|(file, text)| {
        let path = folder.join(file);
        let text = text
            .replace(&format!("pipeline: {}", template.program()), &format!("pipeline: {name}"));
        let mut new = fs::File::create_new(&path).map_err(|error| failed(&path, error))?;
        new.write_all(text.as_bytes()).map_err(|error| failed(&path, error))
    });
    if written.is_err() {
        // Half a program would be in the way of the next try. Files of others that came meanwhile stay.
        for (file, _) in &files {
            let _ = fs::remove_file(folder.join(file));
        }
        let _ = fs::remove_dir(folder);
    }
    written.map(|()| files.into_iter().map(|(file, _)| file.to_owned()).collect())
}

fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    // In YAML these are no text.
    let is_value = ["true", "false", "null"].contains(&name.to_ascii_lowercase().as_str());
    !is_value
        && letters.next().is_some_and(is_first)
        && letters.all(|letter| is_first(letter) || letter.is_ascii_digit())
}

impl Template {
    /// Path of the template's program inside the binary.
    fn program(self) -> &'static str {
        match self {
            Template::L2 => "l2_switch",
            Template::Router => "ipv4_router",
            Template::Roce => "rocev2_lossless",
        }
    }
}
