//! The other end: a client of the device service, for commands that wait for each answer.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Response, Status, Streaming};

use super::service::REQUEST_BYTES_MAX;
use super::socket;
use crate::p4runtime::proto::wireyard::v1 as wire;
use wireyard_pipeline::diag::suggest;

/// The calls.
pub type Calls = wire::device_client::DeviceClient<Channel>;

/// How long a switch may take to accept a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// A switch that runs.
#[derive(Debug)]
pub struct Remote {
    runtime: Runtime,
    calls: Calls,
    name: String,
    /// What may be missing where the connection fails.
    hint: &'static str,
}

/// The socket, or the address, of the switch that is meant: its name, its path or ADDRESS:PORT; without one, the only one that runs.
///
/// # Errors
/// There is none, or there are several; the text says how to start or name one.
fn find(switch: Option<&str>) -> Result<String, String> {
    let unix = |path: &Path| format!("unix:{}", path.display());
    let running = socket::running();
    let Some(wanted) = switch else {
        return match running.as_slice() {
            [(_, path)] => Ok(unix(path)),
            [] => Err(format!(
                "no switch runs here (no socket in {}): start one with `wireyard run PROGRAM --port 1=veth0 --port 2=veth1`, or name \
                 the socket of one with --switch PATH",
                socket::folder().display()
            )),
            several => {
                let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
                Err(format!("several switches run: name one with --switch: {}", names.join(", ")))
            }
        };
    };
    if let Some((_, path)) = running.iter().find(|(name, _)| name == wanted) {
        return Ok(unix(path));
    }
    if wanted.contains('/') {
        let path = std::path::absolute(wanted).map_err(|error| format!("{wanted}: {error}"))?;
        return Ok(unix(&path));
    }
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    if wanted.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port)) {
        return Ok(format!("http://{wanted}"));
    }
    if Path::new(wanted).exists() {
        return Err(format!(
            "no switch {wanted} runs here: for the socket in this folder write --switch ./{wanted}"
        ));
    }
    let names: Vec<&str> = running.iter().map(|(name, _)| name.as_str()).collect();
    let near = suggest(wanted, names.iter().copied());
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let all = if names.is_empty() { "none runs".to_owned() } else { names.join(", ") };
    Err(format!("no switch {wanted} runs here ({all}){near}"))
}

/// What a status says, for people; of a connection that failed, why.
fn reason(status: &Status) -> String {
    let why = std::error::Error::source(status).map(innermost);
    match (status.message(), why) {
        ("", _) => format!("the switch answers {:?}", status.code()),
        (text, Some(why)) => format!("{text}: {why}"),
        (text, None) => text.to_owned(),
    }
}

/// The innermost reason, which is the one that names what is wrong.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(inner) = error.source() {
        error = inner;
    }
    error.to_string()
}

impl Remote {
    /// Connects with the switch that is meant, by TLS where its files are given.
    ///
    /// # Errors
    /// There is none, it cannot be reached, or it is not trusted.
    pub fn connect(switch: Option<&str>, tls: Option<ClientTlsConfig>) -> Result<Remote, String> {
        let found = find(switch)?;
        let is_address = found.starts_with("http://");
        if tls.is_some() && !is_address {
            return Err("--tls-ca: a socket of this machine has no TLS: name the switch by --switch ADDRESS:PORT".into());
        }
        let target = match &tls {
            Some(_) => found.replacen("http://", "https://", 1),
            None => found,
        };
        let name = target.strip_prefix("unix:").unwrap_or(&target).to_owned();
        let failed = |error: &dyn std::fmt::Display| format!("{name}: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| failed(&e))?;
        let endpoint = Endpoint::from_shared(target).map_err(|error| failed(&error))?;
        let mut endpoint = endpoint.connect_timeout(CONNECT_PATIENCE);
        let hint = match tls.is_none() && is_address {
            true => "; a switch with --tls-cert needs --tls-ca",
            false => "",
        };
        if let Some(tls) = tls {
            endpoint = endpoint.tls_config(tls).map_err(|error| failed(&innermost(&error)))?;
        }
        let channel = runtime.block_on(endpoint.connect()).map_err(|error| {
            let why = innermost(&error);
            failed(&match !is_address && why.contains("Permission denied") {
                true => "only its owner may steer this switch: run the command as that user, or start the switch with --control-group"
                    .to_owned(),
                false => format!("no switch can be reached there: {why}{hint}"),
            })
        })?;
        let calls = Calls::new(channel)
            .max_decoding_message_size(REQUEST_BYTES_MAX)
            .max_encoding_message_size(REQUEST_BYTES_MAX);
        Ok(Remote { runtime, calls, name, hint })
    }

    /// Ctrl-C from now on ends what [`Interrupts::within`] waits for, and not the process.
    ///
    /// # Errors
    /// The system takes no handler.
    pub fn interrupts(&self) -> Result<Interrupts<'_>, String> {
        let _inside = self.runtime.enter();
        let signal = signal(SignalKind::interrupt()).map_err(|error| format!("SIGINT: {error}"))?;
        Ok(Interrupts { runtime: &self.runtime, signal })
    }

    /// What a status says; where the connection failed, with the option that may be missing. A switch with TLS takes the connection
    /// and ends it with the first request.
    fn reason(&self, status: &Status) -> String {
        let hint = std::error::Error::source(status).map_or("", |_| self.hint);
        format!("{}{hint}", reason(status))
    }

    /// Where the switch was found.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a call whose answer is a document.
    ///
    /// # Errors
    /// What the switch says.
    pub fn document<F>(&self, call: impl FnOnce(Calls) -> F) -> Result<Value, String>
    where
        F: Future<Output = Result<Response<wire::Document>, Status>>,
    {
        let answer = self.runtime.block_on(call(self.calls.clone()));
        let document = answer.map_err(|status| self.reason(&status))?.into_inner();
        serde_json::from_str(&document.json).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Makes a call whose answer is a list, and gives each document to `each` until that says false.
    ///
    /// # Errors
    /// What the switch says.
    pub fn list<F>(
        &self,
        call: impl FnOnce(Calls) -> F,
        each: &mut dyn FnMut(Value) -> bool,
    ) -> Result<(), String>
    where
        F: Future<Output = Result<Response<Streaming<wire::Documents>>, Status>>,
    {
        self.list_for(None, call, each)
    }

    /// The same for so long at most.
    ///
    /// # Errors
    /// What the switch says.
    pub fn list_for<F>(
        &self,
        most: Option<Duration>,
        call: impl FnOnce(Calls) -> F,
        each: &mut dyn FnMut(Value) -> bool,
    ) -> Result<(), String>
    where
        F: Future<Output = Result<Response<Streaming<wire::Documents>>, Status>>,
    {
        let listed = async {
            let answer = call(self.calls.clone()).await.map_err(|status| self.reason(&status))?;
            let mut documents = answer.into_inner();
            while let Some(some) =
                documents.message().await.map_err(|status| self.reason(&status))?
            {
                for json in some.json {
                    let value = serde_json::from_str(&json);
                    if !each(value.map_err(|error| format!("{}: {error}", self.name))?) {
                        return Ok(());
                    }
                }
            }
            Ok(())
        };
        self.runtime.block_on(async {
            match most {
                // The end of the time is the end that was asked for, and so is Ctrl-C.
                Some(most) => {
                    tokio::time::timeout(most, or_interrupted(listed)).await.unwrap_or(Ok(()))
                }
                None => or_interrupted(listed).await,
            }
        })
    }
}

/// Ctrl-C between two looks.
#[derive(Debug)]
pub struct Interrupts<'r> {
    runtime: &'r Runtime,
    signal: Signal,
}

impl Interrupts<'_> {
    /// Waits so long; true where the user pressed Ctrl-C, before or meanwhile.
    pub fn within(&mut self, time: Duration) -> bool {
        let pressed = async { tokio::time::timeout(time, self.signal.recv()).await.is_ok() };
        self.runtime.block_on(pressed)
    }
}

/// The same, or its end by SIGINT.
async fn or_interrupted(listed: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    tokio::select! {
        done = listed => done,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}
