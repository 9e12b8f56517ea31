//! The way to a server: encrypted where the address says `sslmode=require`, and
//! otherwise in the clear.

use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Config, Socket};

use crate::error::PostgresError;

/// What makes a connection.
#[cfg(feature = "tls")]
pub(crate) type Tls = tokio_postgres_rustls::MakeRustlsConnect;
#[cfg(not(feature = "tls"))]
pub(crate) type Tls = tokio_postgres::NoTls;

/// What is written to and read from.
pub(crate) type Stream = <Tls as MakeTlsConnect<Socket>>::Stream;

/// What `config` asks for.
pub(crate) fn tls(config: &mut Config) -> Result<Tls, PostgresError> {
    let is_required = config.get_ssl_mode() == SslMode::Require;
    if !is_required {
        config.ssl_mode(SslMode::Disable);
    }
    connector(is_required)
}

/// A certificate is believed for which one of the system's authorities vouches.
#[cfg(feature = "tls")]
fn connector(is_required: bool) -> Result<Tls, PostgresError> {
    let mut roots = rustls::RootCertStore::empty();
    if is_required {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(PostgresError::Option(
                "the system knows no authority for certificates; name a file of them in SSL_CERT_FILE",
            ));
        }
    }
    let provider = rustls::crypto::ring::default_provider();
    let config = rustls::ClientConfig::builder_with_provider(provider.into());
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(|error| PostgresError::Server(error.to_string()))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(Tls::new(config))
}

#[cfg(not(feature = "tls"))]
const fn connector(is_required: bool) -> Result<Tls, PostgresError> {
    if is_required {
        return Err(PostgresError::Option(
            "this build has no TLS; build it with the feature `tls`",
        ));
    }
    Ok(tokio_postgres::NoTls)
}
