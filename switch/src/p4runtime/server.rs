//! The server for controllers: addresses and unix sockets, a thread, and the services.
//!
//! The thread is not part of the forwarding path; it uses the device only by the control handle. It listens before the
//! switch reports that it runs, and ends with the process.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Server, ServerTlsConfig};

use super::device::Device;
use super::proto::p4::v1::p4_runtime_server::P4RuntimeServer;
use super::room::{Bounded, Room};
use super::service::Service;
use super::tls::Options;
use crate::live::http::{ServeError, listen};
use crate::ports::sys::schedule::give_way;

/// Maximum length of a request: for large tables P4Runtime clients send up to 128 MB.
const REQUEST_BYTES_MAX: usize = 128 << 20;
/// Maximum number of concurrent calls on one connection.
const CALLS_MAX: u32 = 256;
/// Bytes that a client may send before they are read: a batch of thousands of entries arrives in one piece. The default
/// of HTTP/2 is 64 KiB.
const WINDOW_BYTES: u32 = 1 << 20;
/// Time without traffic after which a connection is probed.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be bound.
    #[error(transparent)]
    Address(#[from] ServeError),
    /// Certificates and a key that are invalid, or do not match.
    #[error("{}, {}, {}: {}", .options.cert, .options.key, .options.client_ca, cause(.source))]
    Tls {
        /// The options that name them.
        options: Options,
        /// What is wrong with them.
        source: tonic::transport::Error,
    },
    /// The operating system cannot create a thread or descriptor.
    #[error("the server for controllers: {0}")]
    Thread(#[source] std::io::Error),
}

/// An address that is bound, and not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    server: Server,
}

impl Bound {
    /// Binds the address, for TLS or for clients in the clear.
    ///
    /// # Errors
    /// It cannot be bound, or the certificates and the key are invalid or do not match.
    pub fn to(
        options: Options,
        address: SocketAddr,
        tls: Option<ServerTlsConfig>,
    ) -> Result<Bound, ServerError> {
        let server = match tls {
            Some(tls) => {
                server().tls_config(tls).map_err(|source| ServerError::Tls { options, source })?
            }
            None => server(),
        };
        let (listener, address) = listen(options.address, address)?;
        Ok(Bound { listener, address, server })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The endpoints of a server.
#[derive(Debug, Default)]
pub struct Listeners {
    /// A TCP address.
    pub address: Option<Bound>,
    /// A unix socket in non-blocking mode.
    pub socket: Option<UnixListener>,
}

/// Serves a device with P4Runtime, whose requests take this room, and the services in `more`, from a thread of its own until the process ends.
///
/// # Errors
/// The thread or its runtime cannot be created.
pub fn serve(
    listeners: Listeners,
    device: Arc<Device>,
    more: Routes,
    room: Arc<Room>,
) -> Result<(), ServerError> {
    let failed = ServerError::Thread;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let service = Service::new(device);
    let calls = P4RuntimeServer::new(service.clone());
    let streams = Some(("/StreamChannel", calls.clone()));
    let calls = calls.max_decoding_message_size(REQUEST_BYTES_MAX);
    let routes = more.add_service(Bounded { calls, streams, room });
    let served = async move {
        super::events::follow_links(service);
        let socket = listeners.socket.map(tokio::net::UnixListener::from_std).transpose()?;
        if let Some(listener) = socket {
            let listener = UnixListenerStream::new(listener);
            let served = server().add_routes(routes.clone()).serve_with_incoming(listener);
            tokio::spawn(async { report_end("the unix socket", served.await) });
        }
        let Some(mut bound) = listeners.address else {
            return std::future::pending::<io::Result<()>>().await;
        };
        // Otherwise an answer behind an update of the window would wait 40 ms for the client's acknowledgement.
        let listener = TcpIncoming::from(tokio::net::TcpListener::from_std(bound.listener)?)
            .with_nodelay(Some(true));
        let served = bound.server.add_routes(routes).serve_with_incoming(listener).await;
        served.map_err(std::io::Error::other)
    };
    let thread = std::thread::Builder::new().name("controllers".into());
    let run = move || {
        // A controller that writes at full speed must not delay a worker. If the operating system refuses, the thread
        // runs with its default share.
        let _ = give_way();
        report_end("--p4runtime", runtime.block_on(served));
    };
    thread.spawn(run).map_err(failed)?;
    Ok(())
}

/// Reports a server that ends before its process: no controller can reach the switch any more.
fn report_end<E: std::error::Error + 'static>(what: &str, ended: Result<(), E>) {
    let why = ended.map_or_else(|error| cause(&error), |()| "it ended".into());
    tracing::error!(
        event = "controllers",
        "{what} serves no controller any more: {why}; restart the switch"
    );
}

fn server() -> Server {
    Server::builder()
        .max_concurrent_streams(CALLS_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE))
}

/// The innermost error, which has the actual cause.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(inner) = error.source() {
        error = inner;
    }
    error.to_string()
}
