//! The `wireyard` binary: arguments to the library, its status to the shell.

use std::process::ExitCode;

use clap::FromArgMatches;
use clap_complete::CompleteEnv;
use wireyard_switch::cli::{self, args};

fn main() -> ExitCode {
    // The shell requests completions: `source <(COMPLETE=bash wireyard)`.
    CompleteEnv::with_factory(args::command_line).complete();
    let words = cli::arguments(std::env::args_os());
    let parsed = args::command_line().try_get_matches_from(words);
    match parsed.and_then(|parsed| args::Cli::from_arg_matches(&parsed)) {
        Ok(cli) => cli::run(cli),
        Err(error) => cli::answer(&error),
    }
}
