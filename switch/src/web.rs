//! The page of a running switch (`run --http`): ports, queues, the program's graphs and tables in a browser.
//!
//! A page, its style and scripts, all inside the binary, and JSON below `/api/` that the scripts poll;
//! `programs/web.md` lists it. It only reads, through the control handle: data of the workers is requested between two
//! bursts, once in a while for all clients; the rest is read by this server's own threads, in bounded parts. Limits on
//! connections, and the refusal of requests, are those of [`crate::live::http`].

mod api;
mod files;
mod graphs;
mod live;
mod parameters;
mod tables;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::control::{Control, ControlError};
use crate::live::http::{Answer, Asked, Bound, Limits, ServeError, Site, WaitsForSwitch, page};
use crate::sync;
use parameters::Parameters;

type Result<T> = std::result::Result<T, ControlError>;

/// Age up to which an answer of the workers is reused for all clients.
const FRESH_FOR: Duration = Duration::from_millis(100);

/// The page of one switch.
struct Web {
    control: Control,
    /// Name of the switch.
    name: String,
    /// The last document of counters, and its time of expiry.
    live: tokio::sync::Mutex<Option<(Instant, Bytes)>>,
    graphs: Mutex<graphs::Graphs>,
    /// One reader of tables at a time.
    readers: Arc<Semaphore>,
}

/// Serves the page of a switch of this name from a thread of its own, until the process ends.
///
/// # Errors
/// The thread cannot be created.
pub fn serve(bound: Bound, control: Control, name: &str) -> std::result::Result<(), ServeError> {
    let site = Web {
        control,
        name: name.to_owned(),
        live: tokio::sync::Mutex::default(),
        graphs: Mutex::default(),
        readers: Arc::new(Semaphore::new(1)),
    };
    bound.serve("page", Limits::DEFAULT, Shared(Arc::new(site)))
}

#[derive(Clone)]
struct Shared(Arc<Web>);

impl Web {
    fn graphs(&self) -> MutexGuard<'_, graphs::Graphs> {
        sync::lock(&self.graphs)
    }
}

impl Shared {
    /// A document that another thread makes, as it may wait for a worker.
    async fn made(
        &self,
        make: impl FnOnce(&Web) -> Result<Value> + Send + 'static,
    ) -> Result<Bytes> {
        let web = Arc::clone(&self.0);
        let made = tokio::task::spawn_blocking(move || make(&web)).await;
        let value = made.map_err(|error| ControlError::Internal(error.to_string()))??;
        Ok(value.to_string().into())
    }

    /// The counters, made anew if the last ones are too old. That takes at most half of a processor's time.
    async fn live(&self) -> Result<Bytes> {
        let mut last = self.0.live.lock().await;
        if let Some((until, document)) = &*last
            && Instant::now() < *until
        {
            return Ok(document.clone());
        }
        let began = Instant::now();
        let document = self.made(|web| live::document(&web.control)).await?;
        let until = Instant::now() + began.elapsed().max(FRESH_FOR);
        *last = Some((until, document.clone()));
        Ok(document)
    }

    /// The same for reads of the program, tables and arrays: one client after the other, with at most half of a
    /// processor's time.
    async fn read(
        &self,
        make: impl FnOnce(&Web) -> Result<Value> + Send + 'static,
    ) -> Result<Bytes> {
        let permit = Arc::clone(&self.0.readers).acquire_owned().await;
        let permit = permit.map_err(|error| ControlError::Internal(error.to_string()))?;
        // The work continues when a connection ends, and keeps its permit.
        let make = move |web: &Web| {
            let began = Instant::now();
            let document = make(web);
            let rest = began.elapsed();
            tokio::spawn(async move {
                tokio::time::sleep(rest).await;
                drop(permit);
            });
            document
        };
        self.made(make).await
    }

    async fn document(&self, path: &str, parameters: Parameters) -> Option<Result<Bytes>> {
        Some(match path {
            "switch" => self.read(|web| api::switch(&web.control, &web.name)).await,
            "live" => self.live().await,
            "graph" => self.read(|web| web.graphs().drawn(&web.control)).await,
            "hits" => self.read(|web| web.graphs().hits(&web.control)).await,
            "entries" => match tables::Asked::read(&parameters) {
                Ok(asked) => self.read(move |web| tables::entries(&web.control, &asked)).await,
                Err(why) => Err(why),
            },
            "objects" => match api::Kind::read(&parameters) {
                Ok(kind) => self.read(move |web| api::objects(&web.control, kind)).await,
                Err(why) => Err(why),
            },
            _ => return None,
        })
    }
}

impl Site for Shared {
    async fn answer(&self, request: Asked<'_>, waits: &WaitsForSwitch) -> Answer {
        let path = request.uri().path();
        let Some(of_api) = path.strip_prefix("/api/") else {
            return files::answer(path);
        };
        let parameters = match Parameters::read(request.uri().query().unwrap_or_default()) {
            Ok(parameters) => parameters,
            Err(why) => return failed(&why),
        };
        let waiting = waits.hold();
        let document = self.document(of_api, parameters).await;
        drop(waiting);
        match document {
            Some(Ok(document)) => page(document, "application/json"),
            Some(Err(why)) => failed(&why),
            None => failed(&ControlError::NotFound(
                "there is no such document: programs/web.md lists what is below /api/".to_owned(),
            )),
        }
    }
}

fn failed(why: &ControlError) -> Answer {
    let mut answer = page(json!({ "error": why.to_string() }).to_string(), "application/json");
    *answer.status_mut() = match why {
        ControlError::NotFound(_) | ControlError::NoEntry(_) => StatusCode::NOT_FOUND,
        ControlError::InvalidArgument(_) | ControlError::OutOfRange(_) => StatusCode::BAD_REQUEST,
        ControlError::FailedPrecondition(_) => StatusCode::CONFLICT,
        ControlError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    answer
}
