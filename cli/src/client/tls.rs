//! How a server is believed, and how it is to believe us.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use reqwest::{ClientBuilder, Url};
use tokio_rustls::rustls::client::ClientConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ConfigBuilder, RootCertStore, WantsVerifier};

use crate::trouble::{Outcome, Trouble};

/// The certificates of an `https` server and of its client.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// Trust servers with a certificate of these authorities (PEM), and not
    /// those that the system trusts
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CA")]
    pub ca: Option<PathBuf>,

    /// The certificate that we show a server that asks for one (PEM)
    #[arg(
        long,
        value_name = "FILE",
        env = "TIDEGATE_CERT",
        requires = "client_key"
    )]
    pub cert: Option<PathBuf>,

    /// Its key (PEM)
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CLIENT_KEY")]
    pub client_key: Option<PathBuf>,
}

impl ClientTls {
    /// A client of the server at `base` that goes by these files.
    pub fn apply(&self, client: ClientBuilder, base: &Url) -> Outcome<ClientBuilder> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(Trouble::failure)?;
        let config = match base.scheme() {
            "https" => self.config(builder)?,
            // Nobody is to be believed; the system's authorities take time to read.
            _ => builder
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth(),
        };
        Ok(client.tls_backend_preconfigured(config))
    }

    fn config(&self, builder: ConfigBuilder<ClientConfig, WantsVerifier>) -> Outcome<ClientConfig> {
        let builder = builder.with_root_certificates(self.roots()?);
        let (Some(cert), Some(key)) = (&self.cert, &self.client_key) else {
            return Ok(builder.with_no_client_auth());
        };
        let unfit = |error| Trouble::file("use", cert, error);
        let secret = PrivateKeyDer::from_pem_file(key);
        let secret = secret.map_err(|error| Trouble::file("use", key, error))?;
        let config = builder.with_client_auth_cert(certificates(cert)?, secret);
        config.map_err(unfit)
    }

    fn roots(&self) -> Outcome<RootCertStore> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(path) => {
                for authority in certificates(path)? {
                    let added = roots.add(authority);
                    added.map_err(|error| Trouble::file("use", path, error))?;
                }
            }
            None => {
                // Some of them are too old or odd to be read.
                let found = rustls_native_certs::load_native_certs().certs;
                roots.add_parsable_certificates(found);
            }
        }
        Ok(roots)
    }
}

/// All certificates of a file, at least one.
fn certificates(path: &Path) -> Outcome<Vec<CertificateDer<'static>>> {
    let bad = |error| Trouble::file("use", path, error);
    let found = CertificateDer::pem_file_iter(path).map_err(bad)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(bad)?;
    match found.is_empty() {
        true => Err(Trouble::file("use", path, "there is no certificate in it")),
        false => Ok(found),
    }
}
