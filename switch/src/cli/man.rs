//! `man`: the manual pages, generated from the command line's definition.

use std::path::Path;

use clap_mangen::{Man, generate_to};

use super::args::{ManArgs, command_line};
use super::output::is_standard;
use super::{Status, complain, note_written, say};
use crate::folder::{FileError, make_folder};
use crate::terminal;
use wireyard_pipeline::diag::safe::shown;

pub(super) fn run(args: &ManArgs) -> Status {
    let command = command_line();
    let Some(folder) = args.output.as_deref().filter(|folder| !is_standard(folder)) else {
        let mut page = Vec::new();
        let rendered = Man::new(command).render(&mut page);
        note_written(rendered.and_then(|()| terminal::out(&String::from_utf8_lossy(&page))));
        return Status::Success;
    };
    match write(folder, command) {
        Ok(()) => {
            say(&format!("the manual pages are in {}", shown(folder)));
            Status::Success
        }
        Err(error) => {
            complain(&error.to_string());
            Status::Wrong
        }
    }
}

fn write(folder: &Path, command: clap::Command) -> Result<(), FileError> {
    make_folder(folder)?;
    generate_to(command, folder).map_err(|source| FileError { path: folder.to_owned(), source })
}
