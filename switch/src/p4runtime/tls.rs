//! TLS of the server for controllers, and of this program's commands as its clients: certificates and keys from PEM
//! files (RFC 7468).
//!
//! The protocol itself is in rustls (TLS 1.2, RFC 5246, and 1.3, RFC 8446). The files are read once, before the switch
//! drops its privileges, so a new certificate needs a restart.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::folder::FileError;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

/// Maximum length of a file; a chain of certificates has a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Time limit for a client's handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A file of a certificate or a key that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PemError {
    /// The operating system refuses to open or read it.
    #[error("{option} {source}")]
    Refused {
        /// The option that names it.
        option: &'static str,
        /// The file, and the operating system's error.
        source: FileError,
    },
    /// It is a FIFO, a device or a folder.
    #[error("{option} {}: this is no file", .file.display())]
    NoFile {
        /// The option that names it.
        option: &'static str,
        /// The file.
        file: PathBuf,
    },
    /// It is longer than any certificate.
    #[error("{option} {}: a PEM file of at most 1 MiB is expected", .file.display())]
    TooLong {
        /// The option that names it.
        option: &'static str,
        /// The file.
        file: PathBuf,
    },
}

/// The files of a server.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// The certificate of the switch, with those up to its authority.
    pub cert: &'a Path,
    /// Its private key.
    pub key: &'a Path,
    /// The authorities of accepted clients; `None` accepts every client.
    pub client_ca: Option<&'a Path>,
}

/// The names of the options for the address of a server and its files, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub(super) address: &'static str,
    pub(super) cert: &'static str,
    pub(super) key: &'static str,
    pub(super) client_ca: &'static str,
}

impl Options {
    /// Those of `run`.
    pub const RUN: Options = Options {
        address: "--p4runtime",
        cert: "--tls-cert",
        key: "--tls-key",
        client_ca: "--tls-client-ca",
    };
    /// Those of bmv2's switch.
    pub const BMV2: Options = Options {
        address: "--grpc-server-addr",
        cert: "--grpc-server-cert",
        key: "--grpc-server-key",
        client_ca: "--grpc-server-cacert",
    };
}

impl Files<'_> {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be read; the text names its option. The server checks their contents.
    pub fn read(self, options: Options) -> Result<ServerTlsConfig, PemError> {
        let identity =
            Identity::from_pem(pem(options.cert, self.cert)?, pem(options.key, self.key)?);
        let config = ServerTlsConfig::new().identity(identity).timeout(HANDSHAKE);
        let Some(authorities) = self.client_ca else { return Ok(config) };
        Ok(config.client_ca_root(Certificate::from_pem(pem(options.client_ca, authorities)?)))
    }
}

/// The files of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientFiles<'a> {
    /// The authorities whose switches are trusted.
    pub ca: &'a Path,
    /// The client's certificate and private key, for a switch that requires them.
    pub identity: Option<(&'a Path, &'a Path)>,
}

impl ClientFiles<'_> {
    /// Reads the files.
    ///
    /// # Errors
    /// As [`Files::read`].
    pub fn read(self) -> Result<ClientTlsConfig, PemError> {
        let authorities = Certificate::from_pem(pem("--tls-ca", self.ca)?);
        let config = ClientTlsConfig::new().ca_certificate(authorities);
        let Some((cert, key)) = self.identity else { return Ok(config) };
        Ok(config.identity(Identity::from_pem(pem("--tls-cert", cert)?, pem("--tls-key", key)?)))
    }
}

fn pem(option: &'static str, path: &Path) -> Result<Vec<u8>, PemError> {
    let file = path.to_owned();
    let failed =
        |source| PemError::Refused { option, source: FileError { path: path.to_owned(), source } };
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(PemError::NoFile { option, file });
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(PemError::TooLong { option, file });
    }
    fs::read(path).map_err(failed)
}
