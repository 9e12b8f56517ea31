//! Certificates: read as a whole, and again while the doors are open.
//!
//! | room | holds |
//! |---|---|
//! | `files` | which files, and what may be wrong with them |
//! | [`Tls`] | what the doors shake hands by, exchanged while in use |

mod files;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::rustls::ServerConfig;

use crate::trouble::Outcome;

pub use files::TlsFiles;

/// Which protocols a door offers at the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// HTTP/2 and HTTP/1.1.
    Http,
    /// HTTP/2 alone.
    Grpc,
    /// Nothing: Redis clients ask for nothing.
    Resp,
}

/// What the doors shake hands by.
pub struct Tls {
    http: ArcSwap<ServerConfig>,
    grpc: ArcSwap<ServerConfig>,
    resp: ArcSwap<ServerConfig>,
}

impl Offer {
    fn of(self, base: &ServerConfig) -> Arc<ServerConfig> {
        let names: &[&[u8]] = match self {
            Self::Http => &[b"h2", b"http/1.1"],
            Self::Grpc => &[b"h2"],
            Self::Resp => &[],
        };
        let mut config = base.clone();
        config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}

impl Tls {
    /// By these files.
    pub fn read(files: &TlsFiles) -> Outcome<Self> {
        let base = files.read()?;
        Ok(Self {
            http: ArcSwap::new(Offer::Http.of(&base)),
            grpc: ArcSwap::new(Offer::Grpc.of(&base)),
            resp: ArcSwap::new(Offer::Resp.of(&base)),
        })
    }

    /// What a door's next handshake goes by.
    pub fn config(&self, offer: Offer) -> Arc<ServerConfig> {
        match offer {
            Offer::Http => self.http.load_full(),
            Offer::Grpc => self.grpc.load_full(),
            Offer::Resp => self.resp.load_full(),
        }
    }

    /// Goes over to what `read` came to; connections that are open stay.
    pub fn exchange(&self, read: Self) {
        self.http.store(read.http.into_inner());
        self.grpc.store(read.grpc.into_inner());
        self.resp.store(read.resp.into_inner());
    }
}
