//! The way to a server, and back.
//!
//! Requests that wait have connections of their own: a server has a bounded number of calls
//! open on each, and a release must find its way though thousands wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_net::Driver;
use tidegate_store::StoreError;
use tidegate_store::bytes::Reader;
use tidegate_store::core::DecodeError;
use tokio::sync::Semaphore;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

use crate::address::Address;
use crate::error::{RemoteError, garbled, told};
use crate::options::Options;
use crate::proto::Payload;
use crate::proto::store_client::StoreClient;
use crate::wire::{self, Response};

/// A listing of definitions may be large.
const LARGEST_ANSWER: usize = 256 << 20;

/// So many connections are there for requests that wait, each for so many: less than a
/// server has calls open on one.
const WAITING: usize = 16;
const WAITING_ON_EACH: usize = 512;

/// A server that is gone without a word is found after twice this.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// What was answered, but for errors.
#[derive(Debug)]
pub(crate) enum Answered {
    /// What was asked for.
    Done(Vec<u8>),
    /// The plan is to be adopted first.
    UnknownPlan,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Link {
    driver: Driver,
    calls: StoreClient<Channel>,
    waiting: Vec<StoreClient<Channel>>,
    /// Who waits has one of these first.
    places: Semaphore,
    turn: AtomicUsize,
    token: Option<MetadataValue<Ascii>>,
}

impl Link {
    pub(crate) fn new(address: &Address, options: &Options) -> Result<Self, RemoteError> {
        let no_thread = |error| RemoteError::Server(format!("no thread for the store: {error}"));
        let driver = Driver::new("tidegate-remote", options.deadline).map_err(no_thread)?;
        let endpoint = endpoint(address, options)?;
        // Connections are made on the store's thread, when they are used.
        let client = || {
            let _there = driver.handle().enter();
            let client = StoreClient::new(endpoint.connect_lazy());
            client.max_decoding_message_size(LARGEST_ANSWER)
        };
        let token = address.token.as_ref().or(options.token.as_ref());
        let token = token.map(|token| format!("Bearer {token}").parse());
        let token = token.transpose();
        let token = token.map_err(|_| RemoteError::Address("the token is none".to_owned()))?;
        Ok(Self {
            calls: client(),
            waiting: (0..WAITING).map(|_| client()).collect(),
            places: Semaphore::new(WAITING * WAITING_ON_EACH),
            turn: AtomicUsize::new(0),
            token,
            driver,
        })
    }

    pub(crate) const fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(crate) const fn deadline(&self) -> Duration {
        self.driver.deadline()
    }

    fn request(&self, body: Vec<u8>) -> Request<Payload> {
        let mut request = Request::new(Payload { body: body.into() });
        if let Some(token) = &self.token {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
        }
        request
    }

    /// Asks once, without a deadline.
    pub(crate) async fn ask(&self, body: Vec<u8>) -> Result<Answered, StoreError> {
        answered(self.calls.clone(), self.request(body)).await
    }

    /// What a request that is about no table comes to.
    pub(crate) async fn told<T>(
        &self,
        request: &wire::Request<'_>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, StoreError> {
        self.told_of(request.written(), read).await
    }

    /// As [`told`](Self::told), of a request that was written.
    pub(crate) async fn told_of<T>(
        &self,
        body: Vec<u8>,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, StoreError> {
        match self.ask(body).await? {
            Answered::Done(body) => whole(&body, read),
            Answered::UnknownPlan => Err(forgetful()),
        }
    }

    /// As [`ask`](Self::ask), for what is answered when it has its turn.
    pub(crate) async fn wait(&self, body: Vec<u8>) -> Result<Answered, StoreError> {
        // It is never closed.
        let _place = self.places.acquire().await;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.waiting.len();
        answered(self.waiting[turn].clone(), self.request(body)).await
    }

    /// Hears when something was defined.
    pub(crate) async fn follow(self: &Arc<Self>) -> Result<Streaming<Payload>, StoreError> {
        let followed = self.calls.clone().follow(self.request(Vec::new())).await;
        let followed = followed.map_err(|status| told(&status))?;
        Ok(followed.into_inner())
    }
}

async fn answered(
    mut client: StoreClient<Channel>,
    request: Request<Payload>,
) -> Result<Answered, StoreError> {
    let answered = client.call(request).await.map_err(|status| told(&status))?;
    let body = answered.into_inner().body;
    match Response::read(&body).map_err(garbled)? {
        Response::Error(error) => Err(error),
        Response::UnknownPlan => Ok(Answered::UnknownPlan),
        Response::Done(rest) => Ok(Answered::Done(rest.rest().to_vec())),
    }
}

fn endpoint(address: &Address, options: &Options) -> Result<Endpoint, RemoteError> {
    let endpoint = Endpoint::from_shared(address.uri());
    let endpoint = endpoint.map_err(|error| RemoteError::Address(error.to_string()))?;
    let endpoint = endpoint
        .connect_timeout(options.deadline)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true);
    if !address.tls {
        return Ok(endpoint);
    }
    encrypted(endpoint)
}

#[cfg(feature = "tls")]
fn encrypted(endpoint: Endpoint) -> Result<Endpoint, RemoteError> {
    let tls = tonic::transport::ClientTlsConfig::new().with_native_roots();
    let endpoint = endpoint.tls_config(tls);
    endpoint.map_err(|error| RemoteError::Server(format!("TLS cannot be used: {error}")))
}

#[cfg(not(feature = "tls"))]
fn encrypted(_: Endpoint) -> Result<Endpoint, RemoteError> {
    let why = "this build has no TLS: it was made without the feature `tls`";
    Err(RemoteError::Address(why.to_owned()))
}

/// All of an answer.
pub(crate) fn whole<T>(
    body: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<T, StoreError> {
    let mut reader = Reader::new(body);
    let it = read(&mut reader).map_err(garbled)?;
    reader.end().map_err(garbled)?;
    Ok(it)
}

pub(crate) fn forgetful() -> StoreError {
    StoreError::Unavailable(
        "the server does not know the limits that it was just sent; is it started again and \
         again, or are there several behind one address?"
            .to_owned(),
    )
}
