//! Connections: a bounded number of them, each lent to one command at a time.
//!
//! A connection that was given up in mid-command is never lent again: the server
//! ends its transaction when it is closed. One is lent as it was put back, without
//! asking the server whether it is still there: who finds out that it is not takes
//! another ([`Pool::forget_if_gone`]).

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, SslOpts};
use parking_lot::Mutex;
use tidegate_net::{Share, Shares};
use tidegate_store::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::{MysqlError, Trouble, url_words};

/// Statements that a connection keeps prepared: one for each shape of a load and
/// of a swap that it has met.
const STATEMENTS: usize = 128;

/// No packet of ours is larger; the server may allow less, and then says so.
const LARGEST_PACKET: usize = 64 << 20;

/// How long a connection may be idle, in seconds, as far as we are concerned: the
/// server says when it has closed one.
const YEAR: usize = 365 * 86_400;

/// A command waits for a quarter of the deadline for its share of the connections, for as
/// long for one of them, and for as long each time for the lock on its root's row.
const PART: u32 = 4;

/// When a silent network is noticed to be gone.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// The system's authorities are believed, and nobody else.
#[cfg(feature = "tls")]
fn trusting(ssl: SslOpts) -> Result<SslOpts, MysqlError> {
    let mut system = rustls_native_certs::load_native_certs().certs;
    // The client library takes all or none.
    system.retain(|root| rustls::RootCertStore::empty().add(root.clone()).is_ok());
    let roots = system.into_iter().map(|root| root.to_vec().into());
    let ssl = ssl.with_root_certs(roots.collect());
    Ok(ssl.with_disable_built_in_roots(true))
}

#[cfg(not(feature = "tls"))]
fn trusting(_: SslOpts) -> Result<SslOpts, MysqlError> {
    Err(MysqlError::Address(
        "it asks for TLS, which this build has not; build it with the feature `tls`",
    ))
}

/// See the [module](self).
pub(crate) struct Pool {
    opts: Opts,
    room: Arc<Semaphore>,
    shares: Arc<Shares>,
    patience: Duration,
    idle: Arc<Mutex<Vec<Conn>>>,
}

/// A connection that is lent. Dropped, it is closed.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(crate) conn: Conn,
    idle: Arc<Mutex<Vec<Conn>>>,
    room: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(
        address: &str,
        connections: usize,
        deadline: Duration,
    ) -> Result<Self, MysqlError> {
        // The client library knows one name of the two.
        let address = match address.strip_prefix("mariadb://") {
            Some(rest) => format!("mysql://{rest}"),
            None => address.to_owned(),
        };
        let opts =
            Opts::from_url(&address).map_err(|error| MysqlError::Address(url_words(&error)))?;
        if opts.db_name().is_none() {
            return Err(MysqlError::Address("it names no database"));
        }
        let ssl = opts.ssl_opts().cloned().map(trusting).transpose()?;
        let opts = OptsBuilder::from_opts(opts)
            .ssl_opts(ssl)
            .prefer_socket(false)
            .stmt_cache_size(STATEMENTS)
            .max_allowed_packet(Some(LARGEST_PACKET))
            .wait_timeout(Some(YEAR))
            .tcp_keepalive(Some(KEEPALIVE))
            .init(vec![session(deadline)]);
        Ok(Self {
            opts: opts.into(),
            room: Arc::new(Semaphore::new(connections)),
            shares: Shares::of(connections),
            patience: deadline / PART,
            idle: Arc::default(),
        })
    }

    /// How long a command waits for each thing that others have.
    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    /// Waits until a command about this root of a table may use a connection.
    ///
    /// # Errors
    /// [`StoreError::Busy`].
    pub(crate) async fn share(&self, table: u32, root: &[u8]) -> Result<Share, StoreError> {
        self.shares.take((table, root), self.patience).await
    }

    /// A connection: one that is idle, or a new one; when all are lent, the next
    /// that comes back.
    pub(crate) async fn lend(&self) -> Result<Lent, Trouble> {
        let room = Arc::clone(&self.room).acquire_owned();
        let room = timeout(self.patience, room).await.map_err(|_| {
            let words = "all connections to the MariaDB server are busy; raise `connections`";
            StoreError::Busy(words.to_owned())
        })?;
        let room = room.map_err(|_| Trouble::Broken("the store is closed".to_owned()))?;
        let idle = self.idle.lock().pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.beside().await?,
        };
        Ok(Lent {
            conn,
            idle: Arc::clone(&self.idle),
            room,
        })
    }

    /// A connection beside those that are lent, for whoever needs it for long: it keeps no
    /// command from its own. Dropped, it is closed.
    pub(crate) async fn beside(&self) -> Result<Conn, Trouble> {
        Ok(Conn::new(self.opts.clone()).await?)
    }

    /// Closes what is idle, if this says that the server has gone meanwhile, or is no
    /// primary any more: then that is so of others that are idle, too.
    pub(crate) fn forget_if_gone(&self, trouble: &Trouble) {
        if trouble.ends_connections() {
            let idle = std::mem::take(&mut *self.idle.lock());
            drop(idle);
        }
    }
}

impl Lent {
    /// Puts it back; nothing is under way on it, and no transaction is open.
    pub(crate) fn put_back(self) {
        self.idle.lock().push(self.conn);
        drop(self.room);
    }

    /// Ends the transaction, and puts it back if that could be done.
    pub(crate) async fn roll_back(mut self) {
        if self.conn.query_drop("ROLLBACK").await.is_ok() {
            self.put_back();
        }
    }
}

impl std::fmt::Debug for Pool {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

/// What each connection begins with. A statement sees what was committed when it
/// began, and locks no gaps; who stands still with a lock in hand is cut off. The server
/// waits for no lock for longer than half the deadline, and so for nobody who has gone; it
/// counts in whole seconds. (A load waits for less: `sql.rs`.)
fn session(deadline: Duration) -> String {
    let cut_off = deadline.as_secs().saturating_add(1).min(86_400);
    let lock_wait = (deadline.as_secs() / 2).clamp(1, 86_400);
    format!(
        "SET SESSION tx_isolation = 'READ-COMMITTED', time_zone = '+00:00', autocommit = 1, \
         sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = {lock_wait}, \
         idle_transaction_timeout = {cut_off}"
    )
}
