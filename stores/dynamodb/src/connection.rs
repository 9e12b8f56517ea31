//! Requests to DynamoDB, a bounded number of them at once: each by one attempt of the SDK, within
//! a part of the deadline, so that one that is lost leaves time for another.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::meta::credentials::CredentialsProviderChain;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Credentials as SdkCredentials;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::scan::builders::ScanFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, Get, TransactGetItem, TransactWriteItem};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use tidegate_store::StoreError;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::backoff::Backoff;
use crate::clock::{CorrectedClock, SdkClock};
use crate::error::Trouble;
use crate::item::{Item, at, bytes};
use crate::keys::Key;
use crate::options::Options;

/// A request may take this part of the deadline.
const PART: u32 = 3;

/// The way to one table of DynamoDB's.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) table: String,
    room: Semaphore,
    deadline: Duration,
    patience: Duration,
}

/// A page of what a query found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) items: Vec<Item>,
    /// Where it goes on; none if that was all.
    pub(crate) next: Option<Item>,
}

/// What became of a transaction that was not refused as a whole.
#[derive(Debug)]
pub(crate) enum Transacted {
    Done,
    /// Conditions failed: what each of the items is told.
    Unmet(Vec<CancellationReason>),
}

impl Connection {
    /// Asks nobody but for whom to be.
    pub(crate) async fn new(table: &str, options: &Options, clock: &Arc<CorrectedClock>) -> Self {
        let clock = SdkClock(Arc::clone(clock));
        let http = Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .build_https();
        let mut config = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .http_client(http)
            .retry_config(RetryConfig::disabled())
            // Each request has its time: nobody needs to look how fast its bytes come.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .time_source(clock.clone());
        if let Some(region) = &options.region {
            config = config.region(Region::new(region.clone()));
        }
        if let Some(endpoint) = &options.endpoint {
            config = config.endpoint_url(endpoint);
        }
        if let Some(own) = &options.credentials {
            let (id, secret) = (&own.access_key_id, &own.secret_access_key);
            config =
                config.credentials_provider(SdkCredentials::new(id, secret, None, None, "options"));
        } else if options.is_on_this_machine() {
            config = config.credentials_provider(
                CredentialsProviderChain::first_try(
                    "the environment",
                    EnvironmentVariableCredentialsProvider::new(),
                )
                .or_else(
                    "anybody",
                    SdkCredentials::new("tidegate", "tidegate", None, None, "anybody"),
                ),
            );
        }
        let config = config.load().await;
        let config = aws_sdk_dynamodb::config::Builder::from(&config)
            .interceptor(clock)
            .build();
        Self {
            client: Client::from_conf(config),
            table: table.to_owned(),
            room: Semaphore::new(options.connections),
            deadline: options.deadline,
            patience: options.deadline / PART,
        }
    }

    /// How long a command may take.
    pub(crate) const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The tries of a command, or of a request.
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::within(self.deadline)
    }

    /// One request. What fails is told apart by whether it may have been done.
    pub(crate) fn ask<'a, T, E, R>(
        &'a self,
        request: impl Future<Output = Result<T, SdkError<E, R>>> + Send + 'a,
    ) -> impl Future<Output = Result<T, Asked<E, R>>> + Send + 'a
    where
        T: Send + 'a,
        E: Send + 'a,
        R: Send + 'a,
    {
        // The SDK's futures are deep: in a box they are nobody else's matter.
        let request: Pin<Box<dyn Future<Output = _> + Send + 'a>> = Box::pin(request);
        async move {
            let Ok(room) = timeout(self.patience, self.room.acquire()).await else {
                return Err(Asked::Trouble(Trouble::Failed(StoreError::Busy(
                    "as many requests as may be are under way, and are not answered in time".into(),
                ))));
            };
            let _room = room;
            match timeout(self.patience, request).await {
                Ok(answer) => answer.map_err(|error| Asked::Error(Box::new(error))),
                Err(_) => Err(Asked::Trouble(Trouble::Broken(format!(
                    "DynamoDB does not answer within {} ms",
                    self.patience.as_millis()
                )))),
            }
        }
    }

    /// The item at `key`, as it is now.
    pub(crate) async fn get(&self, key: &Key) -> Result<Option<Item>, Trouble> {
        let mut backoff = self.backoff();
        loop {
            let get = self.client.get_item().table_name(&self.table);
            let get = get.set_key(Some(at(key))).consistent_read(true);
            match self.ask(get.send()).await {
                Ok(found) => return Ok(found.item),
                Err(asked) => backoff.after(asked.into()).await?,
            }
        }
    }

    /// The items at `keys`, all as of one instant.
    pub(crate) async fn get_all(&self, keys: &[Key]) -> Result<Vec<Option<Item>>, Trouble> {
        if let [key] = keys {
            return Ok(vec![self.get(key).await?]);
        }
        let mut backoff = self.backoff();
        loop {
            let get = |key| {
                let get = Get::builder()
                    .table_name(&self.table)
                    .set_key(Some(at(key)));
                Ok(TransactGetItem::builder()
                    .get(get.build().map_err(unbuilt)?)
                    .build())
            };
            let items: Result<Vec<_>, Trouble> = keys.iter().map(get).collect();
            let get = self
                .client
                .transact_get_items()
                .set_transact_items(Some(items?));
            match self.ask(get.send()).await {
                Ok(found) => {
                    let found = found.responses.unwrap_or_default().into_iter();
                    return Ok(found.map(|response| response.item).collect());
                }
                Err(asked) => backoff.after(of_cancelled_get(asked)).await?,
            }
        }
    }

    /// A page of what `query` finds in `partition`.
    pub(crate) async fn query(
        &self,
        partition: &[u8],
        query: impl Fn(QueryFluentBuilder) -> QueryFluentBuilder,
    ) -> Result<Found, Trouble> {
        let mut backoff = self.backoff();
        loop {
            let begun = self.client.query().table_name(&self.table);
            let begun = begun.expression_attribute_values(":p", bytes(partition));
            let begun = query(begun.consistent_read(true));
            match self.ask(begun.send()).await {
                Ok(found) => {
                    return Ok(Found {
                        items: found.items.unwrap_or_default(),
                        next: found.last_evaluated_key.filter(|key| !key.is_empty()),
                    });
                }
                Err(asked) => backoff.after(asked.into()).await?,
            }
        }
    }

    /// All that `query` finds in `partition`, at most `most` items.
    pub(crate) async fn query_all(
        &self,
        partition: &[u8],
        most: usize,
        query: impl Fn(QueryFluentBuilder) -> QueryFluentBuilder,
    ) -> Result<Vec<Item>, Trouble> {
        let mut all = Vec::new();
        let mut next = None;
        loop {
            let from = next.take();
            let page = |begun| query(begun).set_exclusive_start_key(from.clone());
            let found = self.query(partition, page).await?;
            all.extend(found.items);
            next = found.next;
            if next.is_none() || all.len() >= most {
                return Ok(all);
            }
        }
    }

    /// A page of what `scan` finds in the whole table, and how many items that are.
    pub(crate) async fn scan(
        &self,
        scan: impl Fn(ScanFluentBuilder) -> ScanFluentBuilder,
    ) -> Result<(Found, usize), Trouble> {
        let mut backoff = self.backoff();
        loop {
            let begun = self.client.scan().table_name(&self.table);
            match self.ask(scan(begun.consistent_read(true)).send()).await {
                Ok(found) => {
                    let count = usize::try_from(found.count).unwrap_or(0);
                    let page = Found {
                        items: found.items.unwrap_or_default(),
                        next: found.last_evaluated_key.filter(|key| !key.is_empty()),
                    };
                    return Ok((page, count));
                }
                Err(asked) => backoff.after(asked.into()).await?,
            }
        }
    }

    /// All of these writes or none; by the same `token` they are done once, however often
    /// they are asked for.
    pub(crate) async fn transact(
        &self,
        writes: &[TransactWriteItem],
        token: u128,
    ) -> Result<Transacted, Trouble> {
        let write = self.client.transact_write_items();
        let write = write.set_transact_items(Some(writes.to_vec()));
        let write = write.client_request_token(format!("{token:032x}"));
        match self.ask(write.send()).await {
            Ok(_) => Ok(Transacted::Done),
            Err(Asked::Trouble(trouble)) => Err(trouble),
            Err(Asked::Error(error)) => match *error {
                SdkError::ServiceError(service) => match service.into_err() {
                    TransactWriteItemsError::TransactionCanceledException(cancelled) => {
                        cancelled_write(cancelled.cancellation_reasons.unwrap_or_default())
                    }
                    other => Err(Trouble::of_code(
                        other.code().unwrap_or_default(),
                        other.message().unwrap_or_default(),
                    )),
                },
                error => Err(Trouble::of(&error)),
            },
        }
    }

    /// Deletes the item at `key`, if it is there.
    pub(crate) async fn delete(&self, key: &Key) -> Result<(), Trouble> {
        let mut backoff = self.backoff();
        loop {
            let delete = self.client.delete_item().table_name(&self.table);
            match self.ask(delete.set_key(Some(at(key))).send()).await {
                Ok(_) => return Ok(()),
                Err(asked) => backoff.after(asked.into()).await?,
            }
        }
    }
}

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Asked<E, R> {
    Error(Box<SdkError<E, R>>),
    Trouble(Trouble),
}

impl<E, R> From<Asked<E, R>> for Trouble
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug,
{
    fn from(asked: Asked<E, R>) -> Self {
        match asked {
            Asked::Error(error) => Self::of(&error),
            Asked::Trouble(trouble) => trouble,
        }
    }
}

/// DynamoDB's word for why a request was refused, if that is what happened.
pub(crate) fn code<E: ProvideErrorMetadata, R>(asked: &Asked<E, R>) -> Option<&str> {
    match asked {
        Asked::Error(error) => error.as_service_error()?.code(),
        Asked::Trouble(_) => None,
    }
}

/// A request that cannot be put together.
pub(crate) fn unbuilt(error: aws_sdk_dynamodb::error::BuildError) -> Trouble {
    Trouble::Failed(StoreError::Unavailable(format!(
        "a request to DynamoDB cannot be made: {error}"
    )))
}

/// A read of several items that others were writing.
fn of_cancelled_get<E, R>(asked: Asked<E, R>) -> Trouble
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug,
{
    match asked.into() {
        Trouble::Failed(StoreError::Unavailable(words))
            if words.contains("TransactionCanceled") =>
        {
            Trouble::Lost("others write the same key's root".into())
        }
        trouble => trouble,
    }
}

/// Whether an item's condition was not met.
pub(crate) fn is_unmet(reason: &CancellationReason) -> bool {
    reason.code() == Some("ConditionalCheckFailed")
}

/// A condition that is not met is told before all else: it will not be by the next try.
fn cancelled_write(reasons: Vec<CancellationReason>) -> Result<Transacted, Trouble> {
    if reasons.iter().any(is_unmet) {
        return Ok(Transacted::Unmet(reasons));
    }
    let others = reasons.iter().filter(|reason| {
        let code = reason.code().unwrap_or("None");
        code != "None"
    });
    let first = others.into_iter().next();
    let first = first.map(|reason| {
        Trouble::of_code(
            reason.code().unwrap_or_default(),
            reason.message().unwrap_or_default(),
        )
    });
    Err(first.unwrap_or_else(|| Trouble::Lost("a transaction was cancelled".into())))
}
