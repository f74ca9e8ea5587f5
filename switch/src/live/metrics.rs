//! The statistics of a running switch for a page that is served on a loopback address.
//!
//! The serving thread has no access to the device: it requests a snapshot by a flag, and the run loop reads the flag
//! once per poll and sends the snapshot. The loop never waits; without a request a poll costs one load. The limits of
//! clients are in `live::http`.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::body::Bytes;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::http::{Answer, Asked, Bound, Limits, ServeError, Site, WaitsForSwitch, page, text};
use crate::core::Statistics;
use crate::metrics;

/// Age up to which a snapshot is reused, so that continuous scraping does not slow the switch.
const FRESH_FOR: Duration = Duration::from_millis(50);
/// Longest wait for the loop, which answers after its longest sleep at the latest, given a processor.
const ANSWER_MOST: Duration = Duration::from_secs(5);

/// Additions of the serving thread to a snapshot.
struct More(Box<dyn Fn(&mut Statistics) + Send + Sync>);

impl std::fmt::Debug for More {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("More")
    }
}

/// The loop's end.
#[derive(Debug)]
pub struct Metrics {
    address: SocketAddr,
    wanted: Arc<AtomicBool>,
    snapshots: Sender<Statistics>,
    more: Arc<OnceLock<More>>,
}

impl Metrics {
    /// Serves a bound address, from a thread of its own until the process ends.
    ///
    /// # Errors
    /// No thread is left.
    pub fn serve(bound: Bound) -> Result<Metrics, ServeError> {
        Metrics::serve_with(bound, Limits::DEFAULT)
    }

    fn serve_with(bound: Bound, limits: Limits) -> Result<Metrics, ServeError> {
        let address = bound.address();
        let (snapshots, arriving) = channel(1);
        let wanted = Arc::<AtomicBool>::default();
        let more = Arc::<OnceLock<More>>::default();
        let known = Arc::clone(&more);
        let source = Source { wanted: Arc::clone(&wanted), arriving, last: None, more: known };
        bound.serve("metrics", limits, Mutex::new(source))?;
        Ok(Metrics { address, wanted, snapshots, more })
    }

    /// From now on the serving thread adds data that the loop does not send: tables and counters may be large.
    pub fn add_by(&self, more: impl Fn(&mut Statistics) + Send + Sync + 'static) {
        let _ = self.more.set(More(Box::new(more)));
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a snapshot, if one was requested.
    pub fn answer(&mut self, statistics: impl FnOnce() -> Statistics) {
        if self.wanted.load(Ordering::Relaxed) {
            self.wanted.store(false, Ordering::Relaxed);
            // A snapshot that was not read in time is still there; the next request removes it first.
            let _ = self.snapshots.try_send(statistics());
        }
    }
}

/// The serving end.
struct Source {
    wanted: Arc<AtomicBool>,
    arriving: Receiver<Statistics>,
    more: Arc<OnceLock<More>>,
    /// The time and page of the loop's last answer; an inner `None`: it did not answer.
    last: Option<(Instant, Option<Bytes>)>,
}

impl Source {
    /// The page; `None` if the switch does not answer.
    async fn page(&mut self) -> Option<Bytes> {
        if let Some((made, page)) = &self.last
            && made.elapsed() < FRESH_FOR
        {
            return page.clone();
        }
        while self.arriving.try_recv().is_ok() {}
        self.wanted.store(true, Ordering::Relaxed);
        let arrived = tokio::time::timeout(ANSWER_MOST, self.arriving.recv()).await;
        let page = arrived.ok().flatten().map(|mut statistics| {
            if let Some(More(add)) = self.more.get() {
                add(&mut statistics);
            }
            metrics::page(&statistics).into()
        });
        self.last = Some((Instant::now(), page.clone()));
        page
    }
}

impl Site for Mutex<Source> {
    /// Prometheus uses other machines' names.
    const HAS_NAMES: bool = true;

    async fn answer(&self, request: Asked<'_>, waits: &WaitsForSwitch) -> Answer {
        if request.uri().path() != "/metrics" {
            return text(StatusCode::NOT_FOUND, "the metrics are at /metrics\n");
        }
        let waiting = waits.hold();
        let found = self.lock().await.page().await;
        drop(waiting);
        match found {
            Some(found) => page(found, metrics::CONTENT_TYPE),
            None => text(StatusCode::SERVICE_UNAVAILABLE, "the switch does not answer\n"),
        }
    }
}
