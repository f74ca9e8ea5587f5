//! The command line: each command reads its input, calls the library and prints the result.
//!
//! It has no logic of its own. Exit status 0 is success, 1 a failed check or expectation, 2 wrong usage or input, or
//! results that could not be written; messages go to standard error, results to standard output.

pub mod args;
mod check;
mod complete;
mod counters;
mod decode;
#[cfg(feature = "lab")]
mod demo;
mod doctor;
mod dump;
mod explain;
mod graph;
mod host;
#[cfg(feature = "lab")]
mod lab;
mod load;
mod log;
mod man;
mod new;
mod output;
mod p4info;
mod remote;
mod replay;
mod run;
mod simple_switch;
mod test;
mod trace;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use args::{Cli, Command};
use wireyard_pipeline::diag::safe::escape;

use crate::terminal;
pub use simple_switch::arguments;

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// As it should.
    Success,
    /// A check or an expectation failed.
    Failed,
    /// Wrong usage or input.
    Wrong,
}

/// The reason why a command failed, for the user: an error of the library, or a sentence.
type Failure = Box<dyn std::error::Error>;

/// The status of a command; the reason of a failure is shown.
fn ended(done: Result<Status, Failure>) -> Status {
    done.unwrap_or_else(|failure| {
        complain(&failure.to_string());
        Status::Wrong
    })
}

/// A part of a result did not reach standard output: no success.
static OUTPUT_IS_LOST: AtomicBool = AtomicBool::new(false);
/// The reader of standard output went away.
static READER_IS_GONE: AtomicBool = AtomicBool::new(false);

/// Runs a command line.
pub fn run(cli: Cli) -> ExitCode {
    exit(match cli.command {
        #[cfg(feature = "lab")]
        Command::Demo(args) => demo::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::New(args) => new::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Schema(args) => explain::schema(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Convert(args) => p4info::convert(&args),
        Command::P4Info(args) => p4info::run(&args),
        Command::Pack(args) => p4info::pack(&args),
        Command::Graph(args) => graph::run(&args),
        Command::Run(args) => run::run(&args),
        Command::SimpleSwitchGrpc(args) => simple_switch::run(&args),
        Command::Host(args) => host::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Decode(args) => decode::run(&args),
        #[cfg(feature = "lab")]
        Command::Lab(args) => lab::run(&args),
        remote => remote::run(&remote),
    })
}

/// Prints clap's output for a line without a command to run: help and version on standard output, an error on standard
/// error.
pub fn answer(error: &clap::Error) -> ExitCode {
    let printed = error.print().and_then(|()| io::stdout().flush());
    if error.use_stderr() {
        if let Some(hint) = hint(error) {
            say(hint);
        }
        return exit(Status::Wrong);
    }
    note_written(printed);
    exit(Status::Success)
}

/// What clap does not know about a value that an option took, or did not take.
fn hint(error: &clap::Error) -> Option<&'static str> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let words: Vec<_> = std::env::args_os().collect();
    let of_watch =
        |refused: &str| words.windows(2).any(|two| two[0] == "--watch" && two[1] == refused);
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, _) if words.iter().any(|word| word == "--linux") => {
            Some(
                "--linux takes the word behind it for a namespace: name the program in front of it",
            )
        }
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) if of_watch(word) => {
            Some("--watch has its seconds behind a `=`: --watch=2")
        }
        _ => None,
    }
}

fn exit(status: Status) -> ExitCode {
    let is_lost = OUTPUT_IS_LOST.load(Ordering::Relaxed);
    match status {
        Status::Success if !is_lost => ExitCode::SUCCESS,
        Status::Failed => ExitCode::from(1),
        Status::Success | Status::Wrong => ExitCode::from(2),
    }
}

/// Prints a result.
fn print(text: &str) {
    note_written(terminal::out(text));
}

/// Marks output that was lost, and reports it once; a reader that went away (`| head`) is no loss.
fn note_written(written: io::Result<()>) {
    let Err(error) = written else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        READER_IS_GONE.store(true, Ordering::Relaxed);
    } else if !OUTPUT_IS_LOST.swap(true, Ordering::Relaxed) {
        complain(&format!("standard output: {error}"));
    }
}

/// True when standard output has no reader any more: repeated output must end.
fn reader_is_gone() -> bool {
    READER_IS_GONE.load(Ordering::Relaxed)
}

/// Prints JSON.
fn print_json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => note_written(terminal::out_json(&(text + "\n"))),
        Err(error) => note_written(Err(error.into())),
    }
}

/// A message for the user.
fn say(text: &str) {
    terminal::err(&format!("wireyard: {text}\n"));
}

/// An error for the user.
fn complain(text: &str) {
    // Diagnostics of a file already begin with "error".
    if text.starts_with("error[") {
        return terminal::styled(&format!("{}\n", escape(text)));
    }
    let (on, off) = if colours() { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    terminal::styled(&format!("{on}error{off}: {}\n", escape(text)));
}

/// True when colours are enabled on standard error (https://no-color.org).
fn colours() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    io::stderr().is_terminal() && !is_dumb && std::env::var_os("NO_COLOR").is_none()
}
