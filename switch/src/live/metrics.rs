//! Serves the statistics of a running switch over HTTP, on a loopback address.
//!
//! The serving thread has no part of the device: it asks for a snapshot by a flag, the run loop looks at the flag once a turn
//! and sends the snapshot over. The loop waits for nobody; without a request a turn costs one load.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tiny_http::{Header, Method, Request, Response, Server};

use crate::core::Statistics;
use crate::metrics;

/// A snapshot serves so long, that scraping without pause does not slow the switch.
const FRESH_FOR: Duration = Duration::from_millis(50);
/// The loop answers after its longest sleep at the latest, where it has a processor to run on.
const ANSWER_MOST: Duration = Duration::from_secs(5);

/// The loop's end.
#[derive(Debug)]
pub struct Metrics {
    address: SocketAddr,
    wanted: Arc<AtomicBool>,
    snapshots: SyncSender<Statistics>,
}

impl Metrics {
    /// Listens, and serves from a thread of its own until the process ends.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn bind(address: SocketAddr) -> Result<Metrics, String> {
        let refused = |error: &dyn std::fmt::Display| {
            format!("--metrics {address}: {error}: take another port, or 0 for any free one")
        };
        let listener = TcpListener::bind(address).map_err(|error| refused(&error))?;
        let address = listener.local_addr().map_err(|error| refused(&error))?;
        let server = Server::from_listener(listener, None).map_err(|error| refused(&error))?;
        let (snapshots, arriving) = sync_channel(1);
        let wanted = Arc::<AtomicBool>::default();
        let source = Source { wanted: Arc::clone(&wanted), arriving, last: None };
        thread::Builder::new()
            .name("metrics".into())
            .spawn(move || serve(&server, source))
            .map_err(|error| refused(&error))?;
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
    /// The last page and when it was made.
    last: Option<(Instant, String)>,
}

impl Source {
    /// The page; `None` where the switch does not answer.
    fn page(&mut self) -> Option<&str> {
        let is_fresh = self.last.as_ref().is_some_and(|(made, _)| made.elapsed() < FRESH_FOR);
        if !is_fresh {
            while self.arriving.try_recv().is_ok() {}
            self.wanted.store(true, Ordering::Relaxed);
            let statistics = self.arriving.recv_timeout(ANSWER_MOST).ok()?;
            self.last = Some((Instant::now(), metrics::page(&statistics)));
        }
        self.last.as_ref().map(|(_, page)| page.as_str())
    }
}

fn serve(server: &Server, mut source: Source) {
    for request in server.incoming_requests() {
        let response = answer(&request, &mut source);
        // A client that went away needs no answer.
        let _ = request.respond(response);
    }
}

fn answer(request: &Request, source: &mut Source) -> Response<std::io::Cursor<Vec<u8>>> {
    let text = |status: u16, text: &str| Response::from_string(text).with_status_code(status);
    if !matches!(request.method(), Method::Get | Method::Head) {
        return text(405, "only GET\n");
    }
    if request.url().split('?').next() != Some("/metrics") {
        return text(404, "the metrics are at /metrics\n");
    }
    let Some(page) = source.page() else {
        return text(503, "the switch does not answer\n");
    };
    let header = Header::from_bytes("Content-Type", metrics::CONTENT_TYPE);
    let mut response = text(200, page);
    if let Ok(header) = header {
        response.add_header(header);
    }
    response
}
