//! Which files a server is known by, and what may be wrong with them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_policy::ServerSettings;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{Error, RootCertStore, ServerConfig};

use crate::args::Serve;
use crate::trouble::{Outcome, Trouble};

/// The files that TLS needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate first, then those that vouch for it (PEM).
    pub certificate: PathBuf,
    /// Its key (PEM).
    pub key: PathBuf,
    /// Whose clients are let in (PEM); everyone, if not said.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// What the command line says, or else the file; nothing, if neither does.
    pub fn choose(args: &Serve, file: &ServerSettings) -> Outcome<Option<Self>> {
        let choose = |said: &Option<PathBuf>, file: &Option<String>| {
            said.clone().or_else(|| file.as_ref().map(PathBuf::from))
        };
        let certificate = choose(&args.tls_certificate, &file.tls_certificate);
        let key = choose(&args.tls_key, &file.tls_key);
        let client_ca = choose(&args.tls_client_ca, &file.tls_client_ca);
        match (certificate, key) {
            (Some(certificate), Some(key)) => Ok(Some(Self {
                certificate,
                key,
                client_ca,
            })),
            (None, None) if client_ca.is_none() => Ok(None),
            _ => Err(Trouble::usage(
                "TLS needs both a certificate and its key: --tls-certificate FILE --tls-key FILE",
            )),
        }
    }

    /// Reads them all.
    pub fn read(&self) -> Outcome<ServerConfig> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key);
        let key = key.map_err(|error| bad_pem(&self.key, "private key", &error))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(Trouble::failure)?;
        let builder = match &self.client_ca {
            Some(path) => builder.with_client_cert_verifier(verifier(path)?),
            None => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key);
        config.map_err(|error| self.unfit(&error))
    }

    fn unfit(&self, error: &Error) -> Trouble {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        match error {
            Error::InconsistentKeys(_) => Trouble::failure(format!(
                "the key in {key} is not that of the certificate in {certificate}; the \
                 server's own certificate must come first there"
            )),
            error => Trouble::failure(format!("cannot use {certificate} with {key}: {error}")),
        }
    }
}

fn verifier(path: &Path) -> Outcome<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        let added = roots.add(authority);
        added.map_err(|error| Trouble::file("use", path, error))?;
    }
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.build();
    verifier.map_err(|error| Trouble::file("use", path, error))
}

/// All certificates of a file, at least one.
fn certificates(path: &Path) -> Outcome<Vec<CertificateDer<'static>>> {
    let bad = |error| bad_pem(path, "certificate", &error);
    let found = CertificateDer::pem_file_iter(path).map_err(bad)?;
    let found: Result<Vec<_>, _> = found.collect();
    match found.map_err(bad)? {
        none if none.is_empty() => Err(bad(PemError::NoItemsFound)),
        found => Ok(found),
    }
}

fn bad_pem(path: &Path, wanted: &str, error: &PemError) -> Trouble {
    match error {
        PemError::NoItemsFound => {
            let begins = wanted.to_uppercase();
            let message = format!("there is no {wanted} (PEM: -----BEGIN {begins}-----) in it");
            Trouble::file("use", path, message)
        }
        PemError::Io(error) => Trouble::file("read", path, error),
        error => Trouble::file("use", path, error),
    }
}
