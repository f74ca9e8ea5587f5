//! The web server of the metrics: one page, for clients of which none is trusted.
//!
//! One thread serves all clients, so that they cost the switch no more than that. A connection has one request without a
//! body and ends with the answer. Header bytes, the time for the header, the time in all and the number of connections have
//! limits. Where all connections are taken, the oldest one that does not wait for the switch is closed for a new one: idle
//! and slow clients keep nobody out.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::Source;
use crate::metrics;

/// Bytes of a request before its body; hyper's least.
const HEADER_BYTES_MAX: usize = 8192;
/// Header fields of a request.
const FIELDS_MAX: usize = 64;
/// How long to leave a system alone that has no more descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What clients may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections at a time.
    pub(super) connections: usize,
    /// From the connection to the end of the header.
    pub(super) header: Duration,
    /// From the connection to the last byte of the answer.
    pub(super) total: Duration,
}

impl Limits {
    pub(super) const DEFAULT: Limits =
        Limits { connections: 64, header: Duration::from_secs(5), total: Duration::from_secs(15) };
}

/// Serves from a thread of its own.
pub(super) fn start(listener: TcpListener, limits: Limits, source: Source) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let listener = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    thread::Builder::new()
        .name("metrics".into())
        .spawn(move || runtime.block_on(serve(&listener, limits, source)))?;
    Ok(())
}

/// A connection that is open, or was a moment ago.
struct Open {
    task: AbortHandle,
    waits_for_switch: Arc<AtomicBool>,
}

async fn serve(listener: &tokio::net::TcpListener, limits: Limits, source: Source) {
    let source = Arc::new(Mutex::new(source));
    let mut all: VecDeque<Open> = VecDeque::with_capacity(limits.connections);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Aborted by the client, or no descriptors are left.
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        all.retain(|open| !open.task.is_finished());
        if all.len() >= limits.connections {
            let is_idle = |open: &Open| !open.waits_for_switch.load(Ordering::Relaxed);
            match all.iter().position(is_idle).and_then(|oldest| all.remove(oldest)) {
                Some(oldest) => oldest.task.abort(),
                // The new one is closed.
                None => continue,
            }
        }
        let waits_for_switch = Arc::<AtomicBool>::default();
        let work = converse(stream, limits, Arc::clone(&source), Arc::clone(&waits_for_switch));
        let task = tokio::spawn(work).abort_handle();
        all.push_back(Open { task, waits_for_switch });
    }
}

/// One connection. A client that breaks the rules, is late or goes away needs no more than an end.
async fn converse(
    stream: TcpStream,
    limits: Limits,
    source: Arc<Mutex<Source>>,
    waits: Arc<AtomicBool>,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let (source, waits) = (Arc::clone(&source), Arc::clone(&waits));
        async move { Ok::<_, Infallible>(answer(&request, &source, &waits).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(FIELDS_MAX)
        .keep_alive(false)
        // `printf 'GET /metrics HTTP/1.0\r\n\r\n' | nc` has nothing more to say, and listens.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(limits.total, connection).await;
}

async fn answer(
    request: &Request<Incoming>,
    source: &Mutex<Source>,
    waits: &AtomicBool,
) -> Response<Full<Bytes>> {
    let has_body =
        !request.body().is_end_stream() || request.headers().contains_key(TRANSFER_ENCODING);
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        return with(refused, ALLOW, "GET, HEAD");
    }
    if has_body {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "a request has no body here\n");
    }
    if request.uri().path() != "/metrics" {
        return text(StatusCode::NOT_FOUND, "the metrics are at /metrics\n");
    }
    waits.store(true, Ordering::Relaxed);
    let page = source.lock().await.page().await;
    waits.store(false, Ordering::Relaxed);
    match page {
        Some(page) => with(Response::new(Full::new(page)), CONTENT_TYPE, metrics::CONTENT_TYPE),
        None => text(StatusCode::SERVICE_UNAVAILABLE, "the switch does not answer\n"),
    }
}

fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    with(response, CONTENT_TYPE, "text/plain; charset=utf-8")
}

fn with(
    mut response: Response<Full<Bytes>>,
    name: HeaderName,
    value: &'static str,
) -> Response<Full<Bytes>> {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}
