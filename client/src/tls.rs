//! How a server is believed, and how it is to believe us.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::client::ClientConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ConfigBuilder, RootCertStore, WantsVerifier};

use crate::error::BuildError;

/// The certificates of an `https` server and of its client, as PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Servers with a certificate of these authorities are trusted; `None`: of those that the
    /// system trusts.
    pub authorities: Option<PathBuf>,
    /// The certificate that a server is shown which asks for one, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl Tls {
    /// What TLS goes by. Where nothing is encrypted nobody is to be believed, and the system's
    /// authorities, which take time to read, are not read.
    ///
    /// # Errors
    /// [`BuildError::File`]: a file that is not there, or holds something else.
    pub fn config(&self, is_encrypted: bool) -> Result<ClientConfig, BuildError> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| BuildError::System(error.to_string()))?;
        match is_encrypted {
            true => self.of_files(builder),
            false => Ok(builder
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth()),
        }
    }

    fn of_files(
        &self,
        builder: ConfigBuilder<ClientConfig, WantsVerifier>,
    ) -> Result<ClientConfig, BuildError> {
        let builder = builder.with_root_certificates(self.roots()?);
        let Some((certificate, key)) = &self.certificate else {
            return Ok(builder.with_no_client_auth());
        };
        let secret = PrivateKeyDer::from_pem_file(key).map_err(unfit(key))?;
        let config = builder.with_client_auth_cert(certificates(certificate)?, secret);
        config.map_err(unfit(certificate))
    }

    fn roots(&self) -> Result<RootCertStore, BuildError> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(path) => {
                for authority in certificates(path)? {
                    roots.add(authority).map_err(unfit(path))?;
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
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BuildError> {
    let found = CertificateDer::pem_file_iter(path).map_err(unfit(path))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(unfit(path))?;
    match found.is_empty() {
        true => Err(unfit(path)("there is no certificate in it")),
        false => Ok(found),
    }
}

fn unfit<E: ToString>(path: &Path) -> impl Fn(E) -> BuildError {
    move |error| BuildError::File {
        path: path.to_owned(),
        why: error.to_string(),
    }
}
