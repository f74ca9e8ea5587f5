//! The `wireyard` binary: arguments to the library, its status to the shell.

use std::process::ExitCode;

use clap::Parser;
use wireyard_switch::cli::{self, args::Cli};

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => cli::run(cli),
        Err(error) => cli::answer(&error),
    }
}
