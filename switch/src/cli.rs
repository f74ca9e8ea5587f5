//! The command line: each command reads its input, calls the library and prints what came of it.
//!
//! No logic lives here. Exit status 0 is success, 1 a failed check or expectation, 2 wrong usage or
//! input; messages go to standard error, results to standard output.

pub mod args;
mod check;
mod counters;
mod decode;
mod demo;
mod dump;
mod explain;
mod graph;
mod host;
mod lab;
mod load;
mod replay;
mod run;
mod test;
mod trace;

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use args::{Cli, Command};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// As it should.
    Success,
    /// A check or an expectation failed.
    Failed,
    /// Wrong usage or input.
    Wrong,
}

/// Runs a command line.
pub fn run(cli: Cli) -> ExitCode {
    let status = match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Schema(args) => explain::schema(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Graph(args) => graph::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Host(args) => host::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Decode(args) => decode::run(&args),
        Command::Lab(args) => lab::run(&args),
    };
    match status {
        Status::Success => ExitCode::SUCCESS,
        Status::Failed => ExitCode::from(1),
        Status::Wrong => ExitCode::from(2),
    }
}

/// Prints a result; a reader that went away (`| head`) is not an error.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        complain(&format!("standard output: {error}"));
    }
}

/// Prints JSON.
fn print_json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&(text + "\n")),
        Err(error) => complain(&error.to_string()),
    }
}

/// Writes to standard error. Who closed it wants to hear nothing: that ends no run.
fn tell(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// A message for the user.
fn say(text: &str) {
    tell(&format!("wireyard: {text}\n"));
}

/// An error for the user.
fn complain(text: &str) {
    let (on, off) = if colours() { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    tell(&format!("{on}error{off}: {text}\n"));
}

/// True when standard error wants colours (https://no-color.org).
fn colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
