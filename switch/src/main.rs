//! The `wireyard` binary: arguments to the library, its status to the shell.

use std::process::ExitCode;

use clap::Parser;
use wireyard_switch::cli::{self, args::Cli};

fn main() -> ExitCode {
    cli::run(Cli::parse())
}
