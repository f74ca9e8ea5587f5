//! The server: addresses and unix sockets, a thread, and services on them.
//!
//! The thread has no part of the forwarding path; it reaches the device by the control handle only. It listens before the
//! switch says that it runs, and ends with the process.

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
use super::service::Service;
use crate::live::http::{ServeError, listen};
use crate::ports::sys::schedule::give_way;

/// The longest message that is read: requests for large tables (P4Runtime clients send up to 128 MB).
const REQUEST_BYTES_MAX: usize = 128 << 20;
/// Calls of one connection that are served at once.
const CALLS_MAX: u32 = 256;
/// Bytes that a client may send before they are read: a batch of thousands of entries comes in one piece. The default of HTTP/2 is 64 KiB.
const WINDOW_BYTES: u32 = 1 << 20;
/// A connection that says nothing for so long is asked whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Why controllers are not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be had.
    #[error(transparent)]
    Address(#[from] ServeError),
    /// Certificates and a key that are none, or do not fit.
    #[error("--tls-cert, --tls-key, --tls-client-ca: {}", cause(.0))]
    Tls(#[source] tonic::transport::Error),
    /// The system has no more threads or descriptors.
    #[error("the server for controllers: {0}")]
    Thread(#[source] std::io::Error),
}

/// An address that is taken, and not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    server: Server,
}

impl Bound {
    /// Takes the address, for TLS or for clients in the clear.
    ///
    /// # Errors
    /// It cannot be had, or the certificates and the key are none that fit.
    pub fn to(address: SocketAddr, tls: Option<ServerTlsConfig>) -> Result<Bound, ServerError> {
        let server = match tls {
            Some(tls) => server().tls_config(tls).map_err(ServerError::Tls)?,
            None => server(),
        };
        let (listener, address) = listen("--p4runtime", address)?;
        Ok(Bound { listener, address, server })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Where a server listens.
#[derive(Debug, Default)]
pub struct Listeners {
    /// An address.
    pub address: Option<Bound>,
    /// A unix socket, which does not block.
    pub socket: Option<UnixListener>,
}

/// Serves a device, with P4Runtime and `more` services beside it, from a thread of its own, until the process ends.
///
/// # Errors
/// The thread or its runtime cannot be made.
pub fn serve(listeners: Listeners, device: Arc<Device>, more: Routes) -> Result<(), ServerError> {
    let failed = ServerError::Thread;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let service = P4RuntimeServer::new(Service::new(device));
    let routes = more.add_service(service.max_decoding_message_size(REQUEST_BYTES_MAX));
    let served = async move {
        let socket = listeners.socket.map(tokio::net::UnixListener::from_std).transpose()?;
        if let Some(listener) = socket {
            let listener = UnixListenerStream::new(listener);
            let served = server().add_routes(routes.clone()).serve_with_incoming(listener);
            tokio::spawn(async { report_end("the unix socket", served.await) });
        }
        let Some(mut bound) = listeners.address else {
            return std::future::pending::<io::Result<()>>().await;
        };
        // An answer behind an update of the window would wait for the client's acknowledgement, 40 ms long.
        let listener = TcpIncoming::from(tokio::net::TcpListener::from_std(bound.listener)?)
            .with_nodelay(Some(true));
        let served = bound.server.add_routes(routes).serve_with_incoming(listener).await;
        served.map_err(std::io::Error::other)
    };
    let thread = std::thread::Builder::new().name("controllers".into());
    let run = move || {
        // A controller that writes as fast as it can takes the processor from no worker. Where the system refuses, all is as it is without.
        let _ = give_way();
        report_end("--p4runtime", runtime.block_on(served));
    };
    thread.spawn(run).map_err(failed)?;
    Ok(())
}

/// A server ends with its process: one that ends before leaves a switch that nobody steers.
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

/// The innermost reason, which is the one that names what is wrong.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(inner) = error.source() {
        error = inner;
    }
    error.to_string()
}
