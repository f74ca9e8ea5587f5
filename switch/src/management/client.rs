//! A client of the device service, for commands that wait for each answer.

mod error;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Response, Status, Streaming};

use super::service::REQUEST_BYTES_MAX;
use super::socket;
use crate::folder::FileError;
use crate::p4runtime::proto::wireyard::v1 as wire;
pub use error::RemoteError;
use wireyard_pipeline::diag::suggest;

/// The calls.
pub type Calls = wire::device_client::DeviceClient<Channel>;

/// Time limit for a switch to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Time between two pings of HTTP/2 during a call, and the time limit for their answers: a switch that is stopped, or
/// a machine that is gone, ends the call, and a request that takes long does not.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const PING_PATIENCE: Duration = Duration::from_secs(15);

/// A connection to a running switch.
#[derive(Debug)]
pub struct Remote {
    runtime: Runtime,
    calls: Calls,
    name: String,
    /// The option that may be missing if the connection fails.
    hint: &'static str,
}

/// The socket or address of the selected switch, which is given by its name, its path or ADDRESS:PORT; by default the
/// only running one.
///
/// # Errors
/// There is none, or there are several; the text describes how to start or select one.
fn find(switch: Option<&str>) -> Result<String, RemoteError> {
    let unix = |path: &Path| format!("unix:{}", path.display());
    let running = socket::running();
    let Some(wanted) = switch else {
        return match running.as_slice() {
            [(_, path)] => Ok(unix(path)),
            [] => Err(RemoteError::NoneRuns(socket::folder())),
            several => Err(RemoteError::SeveralRun(names(several))),
        };
    };
    if let Some((_, path)) = running.iter().find(|(name, _)| name == wanted) {
        return Ok(unix(path));
    }
    if wanted.contains('/') {
        let path = std::path::absolute(wanted)
            .map_err(|source| RemoteError::Path(FileError { path: wanted.into(), source }))?;
        return Ok(unix(&path));
    }
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    if wanted.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port)) {
        return Ok(format!("http://{wanted}"));
    }
    if Path::new(wanted).exists() {
        return Err(RemoteError::InThisFolder(wanted.to_owned()));
    }
    let running = names(&running);
    let similar = suggest(wanted, running.iter().map(String::as_str)).map(str::to_owned);
    Err(RemoteError::Unknown { name: wanted.to_owned(), running, similar })
}

/// The causes of an error.
fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |error| error.source())
}

/// True if the operating system refused the connection.
fn is_denied(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut io = causes(error).filter_map(|error| error.downcast_ref::<std::io::Error>());
    io.any(|io| io.kind() == std::io::ErrorKind::PermissionDenied)
}

/// True if the switch left the pings of a call without an answer.
fn is_silent(status: &Status) -> bool {
    causes(status)
        .any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_timeout))
}

fn names(running: &[(String, PathBuf)]) -> Vec<String> {
    running.iter().map(|(name, _)| name.clone()).collect()
}

impl Remote {
    /// Connects to the selected switch, by TLS if its files are given.
    ///
    /// # Errors
    /// There is none, it cannot be reached, or it is not trusted.
    pub fn connect(
        switch: Option<&str>,
        tls: Option<ClientTlsConfig>,
    ) -> Result<Remote, RemoteError> {
        let found = find(switch)?;
        let is_address = found.starts_with("http://");
        if tls.is_some() && !is_address {
            return Err(RemoteError::TlsOnSocket);
        }
        let target = match &tls {
            Some(_) => found.replacen("http://", "https://", 1),
            None => found,
        };
        let name = target.strip_prefix("unix:").unwrap_or(&target).to_owned();
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|source| RemoteError::System { name: name.clone(), source })?;
        let endpoint = Endpoint::from_shared(target)
            .map_err(|source| RemoteError::Address { name: name.clone(), source })?;
        let mut endpoint = endpoint
            .connect_timeout(CONNECT_PATIENCE)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_PATIENCE);
        let hint = match tls.is_none() && is_address {
            true => "; a switch with --tls-cert needs --tls-ca",
            false => "",
        };
        if let Some(tls) = tls {
            endpoint = endpoint
                .tls_config(tls)
                .map_err(|source| RemoteError::Tls { name: name.clone(), source })?;
        }
        let channel = runtime.block_on(endpoint.connect()).map_err(|source| {
            match !is_address && is_denied(&source) {
                true => RemoteError::NotAllowed { name: name.clone(), source },
                false => RemoteError::Unreachable { name: name.clone(), source, hint },
            }
        })?;
        let calls = Calls::new(channel)
            .max_decoding_message_size(REQUEST_BYTES_MAX)
            .max_encoding_message_size(REQUEST_BYTES_MAX);
        Ok(Remote { runtime, calls, name, hint })
    }

    /// From now on Ctrl-C ends the wait of [`Interrupts::within`], and not the process.
    ///
    /// # Errors
    /// The operating system refuses the handler.
    pub fn interrupts(&self) -> Result<Interrupts<'_>, RemoteError> {
        let _inside = self.runtime.enter();
        let signal = signal(SignalKind::interrupt()).map_err(RemoteError::Interrupts)?;
        Ok(Interrupts { runtime: &self.runtime, signal })
    }

    /// The error for a status, with the option that may be missing if the connection failed. A switch with TLS accepts
    /// a connection without TLS and closes it at the first request.
    fn refused(&self, status: Status) -> RemoteError {
        if is_silent(&status) {
            let after = PING_INTERVAL + PING_PATIENCE;
            return RemoteError::Silent { name: self.name.clone(), after };
        }
        let hint = std::error::Error::source(&status).map_or("", |_| self.hint);
        RemoteError::Refused { status: Box::new(status), hint }
    }

    fn read(&self, json: &str) -> Result<Value, RemoteError> {
        let read = serde_json::from_str(json);
        read.map_err(|source| RemoteError::Answer { name: self.name.clone(), source })
    }

    /// The address of the switch.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a call that returns a document.
    ///
    /// # Errors
    /// The error of the switch.
    pub fn document<F>(&self, call: impl FnOnce(Calls) -> F) -> Result<Value, RemoteError>
    where
        F: Future<Output = Result<Response<wire::Document>, Status>>,
    {
        let answer = self.runtime.block_on(call(self.calls.clone()));
        let document = answer.map_err(|status| self.refused(status))?.into_inner();
        self.read(&document.json)
    }

    /// Makes a call that returns a list, and calls `each` with each document until that returns false.
    ///
    /// # Errors
    /// The error of the switch.
    pub fn list<F>(
        &self,
        call: impl FnOnce(Calls) -> F,
        each: &mut dyn FnMut(Value) -> bool,
    ) -> Result<(), RemoteError>
    where
        F: Future<Output = Result<Response<Streaming<wire::Documents>>, Status>>,
    {
        self.list_for(None, call, each)
    }

    /// Like [`Remote::list`], for a limited time.
    ///
    /// # Errors
    /// The error of the switch.
    pub fn list_for<F>(
        &self,
        most: Option<Duration>,
        call: impl FnOnce(Calls) -> F,
        each: &mut dyn FnMut(Value) -> bool,
    ) -> Result<(), RemoteError>
    where
        F: Future<Output = Result<Response<Streaming<wire::Documents>>, Status>>,
    {
        let listed = async {
            let answer = call(self.calls.clone()).await.map_err(|status| self.refused(status))?;
            let mut documents = answer.into_inner();
            while let Some(some) =
                documents.message().await.map_err(|status| self.refused(status))?
            {
                for json in some.json {
                    if !each(self.read(&json)?) {
                        return Ok(());
                    }
                }
            }
            Ok(())
        };
        self.runtime.block_on(async {
            match most {
                // The end of the time is the regular end, and so is Ctrl-C.
                Some(most) => {
                    tokio::time::timeout(most, or_interrupted(listed)).await.unwrap_or(Ok(()))
                }
                None => or_interrupted(listed).await,
            }
        })
    }
}

/// Detects Ctrl-C between two polls.
#[derive(Debug)]
pub struct Interrupts<'r> {
    runtime: &'r Runtime,
    signal: Signal,
}

impl Interrupts<'_> {
    /// Waits for this time; true if the user pressed Ctrl-C, before or meanwhile.
    pub fn within(&mut self, time: Duration) -> bool {
        let pressed = async { tokio::time::timeout(time, self.signal.recv()).await.is_ok() };
        self.runtime.block_on(pressed)
    }
}

/// Waits for the list, or ends it at SIGINT.
async fn or_interrupted(
    listed: impl Future<Output = Result<(), RemoteError>>,
) -> Result<(), RemoteError> {
    tokio::select! {
        done = listed => done,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}
