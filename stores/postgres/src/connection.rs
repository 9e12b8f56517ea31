//! Connections to a server, and how a function is called on one.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use tidegate_net::{Driver, Share, Shares};
use tidegate_store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row, SimpleQueryMessage};

use crate::error::{PostgresError, no_connection, unavailable};
use crate::options::Options;
use crate::tls::{Stream, Tls, tls};

/// What a statement is given.
pub(crate) type Argument<'a> = &'a (dyn ToSql + Sync);

/// A connection on which the server may say something by itself.
pub(crate) type Hearing = tokio_postgres::Connection<tokio_postgres::Socket, Stream>;

/// A command waits for a quarter of the deadline for its share of the connections, for
/// as long for one of them, and then for a lock for so much of it. Together that is less
/// than the deadline: of what is left the server has too little only if it is slow itself.
const PATIENCE: u32 = 4;
const LOCK: (u32, u32) = (3, 8);

/// Connections, made when they are needed and again when they are lost.
pub(crate) struct Link {
    pool: Pool,
    config: Config,
    tls: Tls,
    /// What a session begins with.
    session: Arc<str>,
    shares: Arc<Shares>,
    deadline: Duration,
}

impl Link {
    /// A link to the server at `address`; nothing is sent yet.
    pub(crate) fn new(address: &str, options: &Options) -> Result<Self, PostgresError> {
        let mut config: Config = address.parse().map_err(|_| PostgresError::Address)?;
        if config.get_hosts().is_empty() {
            return Err(PostgresError::Address);
        }
        let tls = tls(&mut config)?;
        config.connect_timeout(options.deadline);
        if config.get_application_name().is_none() {
            config.application_name("tidegate");
        }
        let how = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let session: Arc<str> = session(options).into();
        let begin = Arc::clone(&session);
        let begin = Hook::async_fn(move |client: &mut ClientWrapper, _| {
            let session = Arc::clone(&begin);
            Box::pin(async move {
                let begun = client.batch_execute(&session).await;
                begun.map_err(HookError::Backend)
            })
        });
        let deadline = Some(options.deadline);
        let pool = Pool::builder(Manager::from_config(
            config.clone(),
            Clone::clone(&tls),
            how,
        ))
        .max_size(options.connections)
        .runtime(Runtime::Tokio1)
        .post_create(begin)
        .wait_timeout(Some(options.deadline / PATIENCE))
        .create_timeout(deadline)
        .recycle_timeout(deadline)
        .build();
        let pool = pool.map_err(|error| PostgresError::Server(error.to_string()))?;
        Ok(Self {
            pool,
            config,
            tls,
            session,
            shares: Shares::of(options.connections),
            deadline: options.deadline,
        })
    }

    /// How long a command may take.
    pub(crate) const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Waits until a command about this root of a table may use a connection.
    pub(crate) async fn share(&self, table: i32, root: &[u8]) -> Result<Share, StoreError> {
        let table = table.unsigned_abs();
        let patience = self.deadline / PATIENCE;
        self.shares.take((table, root), patience).await
    }

    /// A connection beside the pool, driven until it ends.
    pub(crate) async fn beside(&self) -> Result<Client, StoreError> {
        let (client, connection) = self.connect().await?;
        tokio::spawn(connection);
        let begun = client.batch_execute(&self.session).await;
        begun.map_err(|error| unavailable(&error))?;
        Ok(client)
    }

    /// Whether a connection is seen to be with another session of the server than before:
    /// a pooler that lends sessions for single transactions. While another connection is
    /// in a transaction, in the session that was used last, this one gets a different one.
    pub(crate) async fn is_lent_by_transaction(&self) -> Result<bool, StoreError> {
        let connection = self.connection().await?;
        let other = self.beside().await?;
        let failed = |error| unavailable(&error);
        let before = process(connection.client()?).await.map_err(failed)?;
        other.batch_execute("BEGIN").await.map_err(failed)?;
        let after = process(connection.client()?).await.map_err(failed)?;
        connection.give_back();
        Ok(before != after)
    }

    /// A connection beside the pool, to be driven by whoever asks for it.
    pub(crate) async fn connect(&self) -> Result<(Client, Hearing), StoreError> {
        let connected = self.config.connect(Clone::clone(&self.tls)).await;
        connected.map_err(|error| unavailable(&error))
    }

    /// A connection of one's own.
    pub(crate) async fn connection(&self) -> Result<Borrowed, StoreError> {
        let connection = self.pool.get().await;
        let connection = connection.map_err(|error| no_connection(&error))?;
        Ok(Borrowed(Some(connection)))
    }

    /// Asks one statement, which is prepared once for each connection. Where a name leads
    /// to another server after a failover, a standby did nothing: whoever the name leads
    /// to now is asked.
    pub(crate) async fn query(
        &self,
        statement: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        match self.ask_once(statement, arguments).await? {
            Err(error) if is_standby(&error) => {
                let again = Box::pin(self.ask_once(statement, arguments)).await?;
                again.map_err(|error| unavailable(&error))
            }
            rows => rows.map_err(|error| unavailable(&error)),
        }
    }

    async fn ask_once(
        &self,
        statement: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Result<Vec<Row>, tokio_postgres::Error>, StoreError> {
        let connection = self.connection().await?;
        let client = connection.client()?;
        let prepared = client.prepare_cached(statement).await;
        let prepared = prepared.map_err(|error| unavailable(&error))?;
        let rows = client.query(&prepared, arguments).await;
        match &rows {
            // It is closed, and so are those that are idle.
            Err(error) if is_standby(error) => drop(self.pool.retain(|_, _| false)),
            _ => connection.give_back(),
        }
        Ok(rows)
    }
}

impl std::fmt::Debug for Link {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

/// A connection that is closed unless it is given back: what is given up in the
/// middle of a command would make the next one wait for its answer.
pub(crate) struct Borrowed(Option<Object>);

impl Borrowed {
    pub(crate) fn client(&self) -> Result<&Object, StoreError> {
        let gone = || StoreError::Unavailable("the store is closed".to_owned());
        self.0.as_ref().ok_or_else(gone)
    }

    pub(crate) fn client_mut(&mut self) -> Result<&mut Object, StoreError> {
        let gone = || StoreError::Unavailable("the store is closed".to_owned());
        self.0.as_mut().ok_or_else(gone)
    }

    pub(crate) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

/// The server's process that answers.
async fn process(client: &Client) -> Result<Option<String>, tokio_postgres::Error> {
    let said = client.simple_query("SELECT pg_backend_pid()").await?;
    let row = said.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(row.map(str::to_owned))
}

/// The server takes no writes: nothing was done.
fn is_standby(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// What every session begins with. (It is said to the server and not to whoever takes
/// the connection: a pooler takes no `options`.) The server gives a statement up a little
/// before nobody waits for it any more, and before that one that waits for a lock: then
/// others keep it, and the server answers. A plan that was made while a table was empty
/// serves it also when it is full: an index is used in any case, and by itself: a row is found
/// by its whole key, for which a bitmap of what else is on the page is work for nothing.
fn session(options: &Options) -> String {
    let millis = |time: Duration| time.max(Duration::from_millis(1)).as_millis();
    let whole = millis(options.deadline * 9 / 10);
    let lock = millis(options.deadline * LOCK.0 / LOCK.1);
    let mut words = format!(
        "SET statement_timeout = {whole}; SET lock_timeout = {lock};
         SET idle_in_transaction_session_timeout = {whole};
         SET default_transaction_isolation = 'read committed';
         SET default_transaction_read_only = off; SET search_path = pg_catalog; SET jit = off;
         SET plan_cache_mode = force_generic_plan; SET client_min_messages = warning;
         SET enable_seqscan = off; SET enable_bitmapscan = off"
    );
    if !options.waits_for_disk {
        words.push_str("; SET synchronous_commit = off");
    }
    words
}

/// The thread that drives a store's connections.
pub(crate) fn driver(options: &Options) -> Result<Driver, PostgresError> {
    let driver = Driver::new("tidegate-postgres", options.deadline);
    driver.map_err(|error| PostgresError::Server(format!("no thread for the store: {error}")))
}
