//! A web server of a running switch: a few pages, for untrusted clients.
//!
//! One thread serves all clients, so that they cost the switch only that. A connection has one request without a body
//! and ends with the answer; only GET and HEAD are served, so no request changes anything. Header bytes, the time for
//! the header, the time in all and the number of connections have limits. If all connections are in use, the oldest one
//! that does not wait for the switch is closed for a new one: idle and slow clients do not keep others out. Requests
//! that a foreign page makes a browser send are refused (`guard`). All others are answered by a [`Site`].

mod guard;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
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
use tokio::task::AbortHandle;

use crate::ports::sys::schedule::give_way;

/// Bytes of a request before its body; hyper's least.
const HEADER_BYTES_MAX: usize = 8192;
/// Header fields of a request.
const FIELDS_MAX: usize = 64;
/// Pause after a failure to accept, when no descriptors are left.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Limits of clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// From the connection to the end of the header.
    pub header: Duration,
    /// From the connection to the last byte of the answer.
    pub total: Duration,
}

impl Limits {
    /// For browsers, Prometheus and users of `curl`.
    pub const DEFAULT: Limits =
        Limits { connections: 64, header: Duration::from_secs(5), total: Duration::from_secs(15) };
}

/// A request of a client: it has no body.
pub type Asked<'a> = &'a Request<Incoming>;
/// The response to a client.
pub type Answer = Response<Full<Bytes>>;

/// The content of a server.
pub trait Site: Send + Sync + 'static {
    /// On an address that other machines reach, it may have any name in `Host`.
    const HAS_NAMES: bool = false;

    /// The answer to GET, or HEAD. While `waits` holds it, the connection is not closed for another one.
    fn answer(
        &self,
        request: Asked<'_>,
        waits: &WaitsForSwitch,
    ) -> impl Future<Output = Answer> + Send;
}

/// Whether a connection waits for the switch.
#[derive(Clone, Debug, Default)]
pub struct WaitsForSwitch(Arc<AtomicBool>);

impl WaitsForSwitch {
    /// The connection waits while this is held.
    pub fn hold(&self) -> Waiting {
        self.0.store(true, Ordering::Relaxed);
        Waiting(self.clone())
    }
}

/// Why an address is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It cannot be had.
    #[error("{option} {address}: {source}: take another port, or 0 for any free one")]
    Address {
        /// The option that names it.
        option: &'static str,
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// The system has no more threads or descriptors.
    #[error("{option} {address}: {source}")]
    Thread {
        /// The option that names the address.
        option: &'static str,
        /// The address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Binds the address of an option, for a non-blocking server; returns the bound address with the port that was free.
pub(crate) fn listen(
    option: &'static str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), ServeError> {
    let taken = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    taken.map_err(|source| ServeError::Address { option, address, source })
}

/// While this exists, a connection waits for the switch.
#[derive(Debug)]
pub struct Waiting(WaitsForSwitch);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}

/// An address that is bound, and not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    option: &'static str,
}

impl Bound {
    /// Binds the address of an option.
    ///
    /// # Errors
    /// It cannot be bound.
    pub fn to(option: &'static str, address: SocketAddr) -> Result<Bound, ServeError> {
        let (listener, address) = listen(option, address)?;
        Ok(Bound { listener, address, option })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves a site from a thread of this name until the process ends.
    ///
    /// # Errors
    /// No thread or descriptor is left.
    pub fn serve(self, thread: &str, limits: Limits, site: impl Site) -> Result<(), ServeError> {
        let (option, address) = (self.option, self.address);
        let served = self.start(thread, limits, site);
        served.map_err(|source| ServeError::Thread { option, address, source })
    }

    fn start(self, thread: &str, limits: Limits, site: impl Site) -> io::Result<()> {
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let any_name = has_names(&site) && !self.address.ip().is_loopback();
        let rules = Rules { limits, any_name };
        let run = move || {
            // If the system refuses, everything works as without it.
            let _ = give_way();
            runtime.block_on(serve(&listener, rules, Arc::new(site)));
        };
        thread::Builder::new().name(thread.into()).spawn(run)?;
        Ok(())
    }
}

fn has_names<S: Site>(_: &S) -> bool {
    S::HAS_NAMES
}

/// The rules of every connection.
#[derive(Clone, Copy, Debug)]
struct Rules {
    limits: Limits,
    any_name: bool,
}

/// A connection that is open, or was open a moment ago.
struct Open {
    task: AbortHandle,
    waits: WaitsForSwitch,
}

async fn serve(listener: &tokio::net::TcpListener, rules: Rules, site: Arc<impl Site>) {
    let limits = rules.limits;
    let mut all: VecDeque<Open> = VecDeque::with_capacity(limits.connections);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Aborted by the client, or no descriptors are left.
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        all.retain(|open| !open.task.is_finished());
        if all.len() >= limits.connections {
            let is_idle = |open: &Open| !open.waits.0.load(Ordering::Relaxed);
            match all.iter().position(is_idle).and_then(|oldest| all.remove(oldest)) {
                Some(oldest) => oldest.task.abort(),
                // The new one is closed.
                None => continue,
            }
        }
        let waits = WaitsForSwitch::default();
        let work = converse(stream, rules, Arc::clone(&site), waits.clone());
        let task = tokio::spawn(work).abort_handle();
        all.push_back(Open { task, waits });
    }
}

/// One connection. A client that breaks the rules, is late or disappears is simply disconnected.
async fn converse(stream: TcpStream, rules: Rules, site: Arc<impl Site>, waits: WaitsForSwitch) {
    let limits = rules.limits;
    let service = service_fn(|request: Request<Incoming>| {
        let (site, waits) = (Arc::clone(&site), waits.clone());
        async move {
            let refused = refusal(&request).or_else(|| guard::refusal(&request, rules.any_name));
            Ok::<_, Infallible>(guard::hardened(match refused {
                Some(refused) => refused,
                None => site.answer(&request, &waits).await,
            }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(FIELDS_MAX)
        .keep_alive(false)
        // `printf 'GET /metrics HTTP/1.0\r\n\r\n' | nc` closes its sending side, and still reads.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(limits.total, connection).await;
}

/// The refusal of requests that no site serves: methods other than GET and HEAD, and bodies.
fn refusal(request: Asked<'_>) -> Option<Answer> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        return Some(with(refused, ALLOW, "GET, HEAD"));
    }
    let has_body =
        !request.body().is_end_stream() || request.headers().contains_key(TRANSFER_ENCODING);
    has_body.then(|| text(StatusCode::PAYLOAD_TOO_LARGE, "a request has no body here\n"))
}

/// An answer of this type.
pub fn page(body: impl Into<Bytes>, content_type: &'static str) -> Answer {
    with(Response::new(Full::new(body.into())), CONTENT_TYPE, content_type)
}

/// An answer in plain text.
pub fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut response = page(text, "text/plain; charset=utf-8");
    *response.status_mut() = status;
    response
}

/// The answer with one more header field.
pub fn with(mut answer: Answer, name: HeaderName, value: &'static str) -> Answer {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
    answer
}
