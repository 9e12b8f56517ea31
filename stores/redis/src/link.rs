//! One multiplexed connection to a server, and how a script is called on it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, ErrorKind, ServerErrorKind, Value};
use tidegate_contract::StoreError;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{RedisError, too_late, unavailable, words};
use crate::script::Script;

/// The longest pause between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How many attempts to connect are made for one command; the next begins anew.
const ATTEMPTS: usize = 6;

/// A connection, made when it is first used and again when it is lost, and the
/// thread that drives it.
pub(crate) struct Link {
    connection: ConnectionManager,
    deadline: Duration,
    /// Only `None` while it is dropped.
    runtime: Option<Runtime>,
}

impl Link {
    /// A link to the server at `address`, which is not asked for anything yet.
    pub(crate) fn new(address: &str, deadline: Duration) -> Result<Self, RedisError> {
        let client = Client::open(address).map_err(|error| RedisError::Address(reason(&error)))?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tidegate-redis")
            .enable_all()
            .build()
            .map_err(|error| RedisError::Server(format!("no thread for the store: {error}")))?;
        let config = ConnectionManagerConfig::new()
            .set_max_delay(LONGEST_PAUSE)
            .set_number_of_retries(ATTEMPTS)
            .set_connection_timeout(Some(deadline))
            .set_response_timeout(Some(deadline));
        let connection = {
            let _entered = runtime.enter();
            ConnectionManager::new_lazy_with_config(client, config)
        };
        let connection = connection.map_err(|error| RedisError::Address(reason(&error)))?;
        Ok(Self {
            connection,
            deadline,
            runtime: Some(runtime),
        })
    }

    /// Starts `work` on the store's own thread. What it comes to can be waited
    /// for anywhere, and it goes on if nobody does.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send + 'static {
        let deadline = self.deadline;
        let task = self.handle().map(|handle| {
            handle.spawn(async move {
                let timed = tokio::time::timeout(deadline, work).await;
                timed.unwrap_or_else(|_| Err(too_late(deadline)))
            })
        });
        async move {
            match task {
                Some(task) => task.await.unwrap_or_else(|_| Err(closed())),
                None => Err(closed()),
            }
        }
    }

    /// As [`start`](Self::start); the calling thread waits.
    pub(crate) fn block_on<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let started = self.start(work);
        if let Some(handle) = self.handle() {
            handle.spawn(async move { tell.send(started.await) });
        }
        told.recv().unwrap_or_else(|_| Err(closed()))
    }

    fn handle(&self) -> Option<Handle> {
        self.runtime
            .as_ref()
            .map(|runtime| runtime.handle().clone())
    }

    /// Sends one command.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, StoreError> {
        let mut connection = self.connection.clone();
        let answer = connection.send_packed_command(command).await;
        let answer = answer.and_then(Value::extract_error);
        answer.map_err(|error| unavailable(&error))
    }

    /// Calls `script`, and hands it over if the server has not seen it.
    pub(crate) async fn call(
        &self,
        script: &Script,
        keys: &[Vec<u8>],
        arguments: &[Arc<[u8]>],
    ) -> Result<Value, StoreError> {
        let mut connection = self.connection.clone();
        let by_hash = command("EVALSHA", &script.hash, keys, arguments);
        let answer = connection.send_packed_command(&by_hash).await;
        let answer = match answer.and_then(Value::extract_error) {
            Err(error) if is_unseen(&error) => {
                let by_text = command("EVAL", &script.source, keys, arguments);
                let answer = connection.send_packed_command(&by_text).await;
                answer.and_then(Value::extract_error)
            }
            answer => answer,
        };
        answer.map_err(|error| unavailable(&error))
    }
}

impl Drop for Link {
    /// In the background: the last table may be dropped where nothing may block.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for Link {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

fn command(verb: &str, script: &str, keys: &[Vec<u8>], arguments: &[Arc<[u8]>]) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(keys.len()).arg(keys);
    for argument in arguments {
        command.arg(&**argument);
    }
    command
}

fn is_unseen(error: &redis::RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

/// Why an address cannot be used, without a word of it.
fn reason(error: &redis::RedisError) -> String {
    match error.kind() {
        ErrorKind::InvalidClientConfig => error.category().to_owned(),
        _ => words(error),
    }
}
