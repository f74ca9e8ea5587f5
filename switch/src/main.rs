//! The `wireyard` binary: arguments to the library, its status to the shell.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;
use wireyard_switch::cli::{self, args::Cli};

fn main() -> ExitCode {
    // The shell requests completions: `source <(COMPLETE=bash wireyard)`.
    CompleteEnv::with_factory(Cli::command).complete();
    match Cli::try_parse_from(cli::arguments(std::env::args_os())) {
        Ok(cli) => cli::run(cli),
        Err(error) => cli::answer(&error),
    }
}
