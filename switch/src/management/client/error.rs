//! Why a switch that runs does not answer.

use std::io;
use std::path::PathBuf;

use tonic::Status;

use crate::folder::FileError;
use crate::p4runtime::server::cause;

/// What went wrong between a client and a switch that runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// None was named, and none runs.
    #[error(
        "no switch runs here (no socket in {}): start one with `wireyard run PROGRAM --port 1=veth0 --port 2=veth1`, or name \
         the socket of one with --switch PATH",
        .0.display()
    )]
    NoneRuns(PathBuf),
    /// None was named, and several run.
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
    /// A path that is none.
    #[error(transparent)]
    Path(FileError),
    /// TLS on a unix socket.
    #[error(
        "--tls-ca: a socket of this machine has no TLS: name the switch by --switch ADDRESS:PORT"
    )]
    TlsOnSocket,
    /// The system has no more descriptors.
    #[error("{name}: {source}")]
    System {
        /// Where the switch is.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// An address that cannot be.
    #[error("{name}: {source}")]
    Address {
        /// The address.
        name: String,
        /// Why.
        source: tonic::transport::Error,
    },
    /// Certificates and a key that are none, or do not fit.
    #[error("{name}: {}", cause(.source))]
    Tls {
        /// Where the switch is.
        name: String,
        /// Why.
        source: tonic::transport::Error,
    },
    /// Nobody answers there, or not in this protocol.
    #[error("{name}: no switch can be reached there: {}{hint}", cause(.source))]
    Unreachable {
        /// Where the switch is.
        name: String,
        /// Why.
        source: tonic::transport::Error,
        /// What may be missing; empty if nothing is known.
        hint: &'static str,
    },
    /// Somebody else's socket.
    #[error(
        "{name}: only its owner may steer this switch: run the command as that user, or start the switch with --control-group"
    )]
    NotAllowed {
        /// Where the switch is.
        name: String,
        /// What the system says.
        source: tonic::transport::Error,
    },
    /// The system takes no handler of Ctrl-C.
    #[error("SIGINT: {0}")]
    Interrupts(#[source] io::Error),
    /// The switch refuses: the code says what kind of refusal it is. Or the connection failed, which the status has as its source.
    #[error("{}{hint}", reason(.status))]
    Refused {
        /// What it says.
        #[source]
        status: Box<Status>,
        /// What may be missing where the connection failed; empty if nothing is known.
        hint: &'static str,
    },
    /// The answer is no document: the switch is of another version.
    #[error("{name}: {source}")]
    Answer {
        /// Where the switch is.
        name: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// What a status says, for people; of a connection that failed, why.
fn reason(status: &Status) -> String {
    let why = std::error::Error::source(status).map(cause);
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
