//! The statistics of a running switch for a page that is served on a loopback address.
//!
//! The serving thread has no part of the device: it asks for a snapshot by a flag, the run loop looks at the flag once a turn
//! and sends the snapshot over. The loop waits for nobody; without a request a turn costs one load. What a client may do is
//! in `http`.

mod http;
#[cfg(test)]
mod tests;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::core::Statistics;
use crate::metrics;
use http::Limits;

/// A snapshot serves so long, that scraping without pause does not slow the switch.
const FRESH_FOR: Duration = Duration::from_millis(50);
/// The loop answers after its longest sleep at the latest, where it has a processor to run on.
const ANSWER_MOST: Duration = Duration::from_secs(5);

/// The loop's end.
#[derive(Debug)]
pub struct Metrics {
    address: SocketAddr,
    wanted: Arc<AtomicBool>,
    snapshots: Sender<Statistics>,
}

impl Metrics {
    /// Listens, and serves from a thread of its own until the process ends.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn bind(address: SocketAddr) -> Result<Metrics, String> {
        Metrics::bind_with(address, Limits::DEFAULT)
    }

    fn bind_with(address: SocketAddr, limits: Limits) -> Result<Metrics, String> {
        let refused = |error: std::io::Error| {
            format!("--metrics {address}: {error}: take another port, or 0 for any free one")
        };
        let listener = TcpListener::bind(address).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (snapshots, arriving) = channel(1);
        let wanted = Arc::<AtomicBool>::default();
        let source = Source { wanted: Arc::clone(&wanted), arriving, last: None };
        http::start(listener, limits, source).map_err(refused)?;
        Ok(Metrics { address, wanted, snapshots })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a snapshot over, if somebody asked for one.
    pub fn answer(&mut self, statistics: impl FnOnce() -> Statistics) {
        if self.wanted.load(Ordering::Relaxed) {
            self.wanted.store(false, Ordering::Relaxed);
            // One that nobody took in time is still there; the next request takes it away first.
            let _ = self.snapshots.try_send(statistics());
        }
    }
}

/// The serving end.
struct Source {
    wanted: Arc<AtomicBool>,
    arriving: Receiver<Statistics>,
    /// The last answer of the loop and when it came; `None` in it: there was none.
    last: Option<(Instant, Option<Bytes>)>,
}

impl Source {
    /// The page; `None` where the switch does not answer.
    async fn page(&mut self) -> Option<Bytes> {
        if let Some((made, page)) = &self.last
            && made.elapsed() < FRESH_FOR
        {
            return page.clone();
        }
        while self.arriving.try_recv().is_ok() {}
        self.wanted.store(true, Ordering::Relaxed);
        let arrived = tokio::time::timeout(ANSWER_MOST, self.arriving.recv()).await;
        let page = arrived.ok().flatten().map(|statistics| metrics::page(&statistics).into());
        self.last = Some((Instant::now(), page.clone()));
        page
    }
}
