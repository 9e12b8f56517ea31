//! How a server is believed, and how it is to believe us.

use std::path::PathBuf;

use clap::Args;
use tidegate_client::Tls;

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
    /// The files that a client goes by.
    pub fn files(&self) -> Tls {
        Tls {
            authorities: self.ca.clone(),
            certificate: self.cert.clone().zip(self.client_key.clone()),
        }
    }
}
