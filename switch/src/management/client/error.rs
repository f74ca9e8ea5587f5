//! Errors between a client and a running switch.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tonic::Status;

use crate::folder::FileError;
use crate::p4runtime::server::cause;

/// Why a request to a running switch failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// None was selected, and none runs.
    #[error(
        "no switch runs here (no socket in {}): start one with `wireyard run PROGRAM --port 1=veth0 --port 2=veth1`, or name \
         the socket of one with --switch PATH",
        .0.display()
    )]
    NoneRuns(PathBuf),
    /// None was selected, and several run.
    #[error("several switches run: name one with --switch: {}", .0.join(", "))]
    SeveralRun(Vec<String>),
    /// None of this name runs, and it is neither a path nor an address.
    #[error("no switch {name} runs here ({}){}", all(.running), near(.similar))]
    Unknown {
        /// The name.
        name: String,
        /// Those that run.
        running: Vec<String>,
        /// One of them with a similar name.
        similar: Option<String>,
    },
    /// It is the name of a file in this folder.
    #[error("no switch {0} runs here: for the socket in this folder write --switch ./{0}")]
    InThisFolder(String),
    /// An invalid path.
    #[error(transparent)]
    Path(FileError),
    /// TLS on a unix socket.
    #[error(
        "--tls-ca: a socket of this machine has no TLS: name the switch by --switch ADDRESS:PORT"
    )]
    TlsOnSocket,
    /// The operating system cannot create a descriptor.
    #[error("{name}: {source}")]
    System {
        /// The address of the switch.
        name: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// An invalid address.
    #[error("{name}: {source}")]
    Address {
        /// The address.
        name: String,
        /// The reason.
        source: tonic::transport::Error,
    },
    /// Certificates and a key that are invalid, or do not match.
    #[error("{name}: {}", cause(.source))]
    Tls {
        /// The address of the switch.
        name: String,
        /// The reason.
        source: tonic::transport::Error,
    },
    /// There is no server at the address, or it uses another protocol.
    #[error("{name}: no switch can be reached there: {}{hint}", cause(.source))]
    Unreachable {
        /// The address of the switch.
        name: String,
        /// The reason.
        source: tonic::transport::Error,
        /// The option that may be missing; empty if unknown.
        hint: &'static str,
    },
    /// The socket belongs to another user.
    #[error(
        "{name}: only its owner may steer this switch: run the command as that user, or start the switch with --control-group"
    )]
    NotAllowed {
        /// The address of the switch.
        name: String,
        /// The operating system's error.
        source: tonic::transport::Error,
    },
    /// The operating system refuses a handler for Ctrl-C.
    #[error("SIGINT: {0}")]
    Interrupts(#[source] io::Error),
    /// The switch refused the request, with a code for the kind of error; or the connection failed, and the status has
    /// the error as its source.
    #[error("{}{hint}", reason(.status, .hint))]
    Refused {
        /// The status.
        #[source]
        status: Box<Status>,
        /// The option that may be missing if the connection failed; empty if unknown.
        hint: &'static str,
    },
    /// The switch accepted the request and answers no pings: its process is stopped, or its machine is gone.
    #[error(
        "{name}: the switch has not answered for {} s: its process is stopped, or its machine cannot be reached; whether the \
         request was done is not known",
        .after.as_secs()
    )]
    Silent {
        /// The address of the switch.
        name: String,
        /// Time without an answer.
        after: Duration,
    },
    /// The answer is not a document: the switch is of another version.
    #[error("{name}: {source}")]
    Answer {
        /// The address of the switch.
        name: String,
        /// The error in it.
        source: serde_json::Error,
    },
}

/// What the causes of a connection that a switch no longer serves have in their texts.
const OF_END: [&str; 5] = [
    "broken pipe",
    "connection reset",
    "connection refused",
    "no such file or directory",
    "connection closed",
];

/// The text of a status; for a connection that failed, with the cause.
fn reason(status: &Status, hint: &str) -> String {
    let why = std::error::Error::source(status).map(cause);
    let is_of_end = |why: &String| {
        let all = format!("{} {why}", status.message()).to_ascii_lowercase();
        OF_END.iter().any(|text| all.contains(text))
    };
    // One with TLS ends a connection without TLS in the same way.
    if hint.is_empty() && why.as_ref().is_some_and(is_of_end) {
        return "the switch has ended".to_owned();
    }
    match (status.message(), why) {
        ("", _) => format!("the switch answers {:?}", status.code()),
        (text, Some(why)) => format!("{text}: {why}"),
        (text, None) => text.to_owned(),
    }
}

fn all(running: &[String]) -> String {
    if running.is_empty() { "none runs".to_owned() } else { running.join(", ") }
}

fn near(similar: &Option<String>) -> String {
    similar.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_breaks_is_the_end_of_the_switch() {
        let broken = |hint| {
            let source = Box::new(io::Error::from(io::ErrorKind::BrokenPipe));
            let status = Box::new(Status::from_error(source));
            RemoteError::Refused { status, hint }.to_string()
        };
        assert_eq!(broken(""), "the switch has ended");
        // It may have TLS instead.
        assert!(broken("; give --tls-ca").ends_with("broken pipe; give --tls-ca"));
    }
}
