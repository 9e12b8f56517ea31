//! What handshakes go by, exchanged while in use.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::rustls::ServerConfig;

/// Which protocols a server offers at the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// HTTP/2 and HTTP/1.1.
    Http,
    /// HTTP/2 alone.
    Grpc,
    /// Nothing: Redis clients ask for nothing.
    Resp,
}

/// What the protocols' handshakes go by.
#[derive(Debug)]
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
    /// By this certificate and what else `base` says; each protocol offers its own names.
    #[must_use]
    pub fn new(base: &ServerConfig) -> Self {
        Self {
            http: ArcSwap::new(Offer::Http.of(base)),
            grpc: ArcSwap::new(Offer::Grpc.of(base)),
            resp: ArcSwap::new(Offer::Resp.of(base)),
        }
    }

    /// What a protocol's next handshake goes by.
    #[must_use]
    pub fn config(&self, offer: Offer) -> Arc<ServerConfig> {
        match offer {
            Offer::Http => self.http.load_full(),
            Offer::Grpc => self.grpc.load_full(),
            Offer::Resp => self.resp.load_full(),
        }
    }

    /// Goes over to `other`; connections that are open stay.
    pub fn exchange(&self, other: Self) {
        self.http.store(other.http.into_inner());
        self.grpc.store(other.grpc.into_inner());
        self.resp.store(other.resp.into_inner());
    }
}
