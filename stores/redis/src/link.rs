//! The way to the server, what drives it, and how a script is called on it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};
use tidegate_net::{Driver, within};
use tidegate_store::StoreError;

use crate::address::Address;
use crate::connection::Connection;
use crate::driven::Driven;
use crate::error::{RedisError, garbled, not_greeted, reason, unavailable};
use crate::functions::{self, Library};
use crate::script::Script;

/// A connection, made when it is first used and again when it is lost, and the
/// thread that drives it.
pub(crate) struct Link {
    connection: Arc<Connection>,
    driver: Driver,
    /// Who is asked, as messages name it.
    place: String,
}

impl Link {
    /// A link to the server at `address`; nothing is sent yet.
    pub(crate) fn new(address: &str, deadline: Duration) -> Result<Self, RedisError> {
        let no_thread = |error| RedisError::Server(format!("no thread for the store: {error}"));
        let driver = Driver::new("tidegate-redis", deadline).map_err(no_thread)?;
        let connection = {
            let _entered = driver.handle().enter();
            Connection::new(Address::parse(address, deadline)?, deadline)
        };
        let connection = connection.map_err(|error| RedisError::Address(reason(&error)))?;
        Ok(Self {
            connection: Arc::new(connection),
            driver,
            place: Address::place(address),
        })
    }

    /// What drives it.
    pub(crate) const fn driver(&self) -> &Driver {
        &self.driver
    }

    /// As [`Driver::start`], driven by whoever waits for it: for work that
    /// keeps nobody else from anything while it is left alone.
    pub(crate) fn drive<T: Send + Unpin + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Driven<T> {
        let timed = within(self.deadline(), work);
        // The timer is made when it is polled, within the runtime.
        Driven::start(timed, self.driver.tasks())
    }

    /// How long a command may take.
    pub(crate) const fn deadline(&self) -> Duration {
        self.driver.deadline()
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Whether what is called one after the other goes out in that order, before any is answered:
    /// to one server it does, once that has the functions, unless the connection is lost between.
    pub(crate) fn is_in_order(&self, script: &Script) -> bool {
        self.connection.is_one_server() && script.library.is_tried()
    }

    fn unavailable(&self, error: &redis::RedisError) -> StoreError {
        unavailable(error, &self.place)
    }

    /// Greets whoever is there.
    pub(crate) async fn greet(&self) -> Result<(), StoreError> {
        let greeted = self.connection.greet().await;
        greeted.map_err(|error| not_greeted(&error, &self.place))
    }

    /// Sends one command.
    pub(crate) async fn query(&self, command: &Cmd) -> Result<Value, StoreError> {
        let answer = self.connection.send(command).await;
        answer.map_err(|error| self.unavailable(&error))
    }

    /// A step of a scan through all keys: those found, and where it goes on. A
    /// cluster's masters are walked one after the other, in order: `host:port
    /// cursor`.
    pub(crate) async fn scan(
        &self,
        from: &[u8],
        pattern: &[u8],
        count: usize,
    ) -> Result<(Option<Vec<u8>>, Vec<Vec<u8>>), StoreError> {
        let masters = self.connection.masters().await;
        let masters = masters.map_err(|error| self.unavailable(&error))?;
        let named = |(host, port): &(String, u16)| format!("{host}:{port}");
        let from = str::from_utf8(from).map_err(|_| StoreError::UnknownPage)?;
        let (name, cursor) = from.split_once(' ').unwrap_or(("", from));
        let at = match name {
            "" => 0,
            name => {
                let known = masters.iter().position(|master| named(master) == name);
                known.ok_or(StoreError::UnknownPage)?
            }
        };
        if !cursor.bytes().all(|byte| byte.is_ascii_digit()) || cursor.parse::<u64>().is_err() {
            return Err(StoreError::UnknownPage);
        }
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern);
        scan.arg("COUNT").arg(count);
        let answer = match masters.get(at) {
            Some(master) => self.connection.send_to(master, &scan).await,
            None => self.connection.send(&scan).await,
        };
        let (next, found) = scanned(answer.map_err(|error| self.unavailable(&error))?)?;
        let next = match (next == b"0", masters.get(at), masters.get(at + 1)) {
            (true, _, None) => None,
            (true, _, Some(after)) => Some(format!("{} 0", named(after)).into_bytes()),
            (false, None, _) => Some(next),
            (false, Some(here), _) => {
                let name = format!("{} ", named(here)).into_bytes();
                Some([name, next].concat())
            }
        };
        Ok((next, found))
    }

    /// Calls `script`: as a function where the server has them.
    pub(crate) async fn call(
        &self,
        script: &Script,
        keys: &[impl AsRef<[u8]>],
        arguments: &[Arc<[u8]>],
    ) -> Result<Value, StoreError> {
        if script.library.is_allowed() {
            let by_name = command("FCALL", &script.function, keys, arguments);
            let key = keys.first().map_or(&[][..], AsRef::as_ref);
            let called = self.call_function(&script.library, key, &by_name).await;
            if let Some(answer) = called {
                return answer.map_err(|error| self.unavailable(&error));
            }
        }
        Box::pin(self.call_script(script, keys, arguments)).await
    }

    /// Calls a function, and loads its library where `key` is if it is not there.
    /// `None`: nothing was done, and a script is to do it.
    async fn call_function(
        &self,
        library: &Library,
        key: &[u8],
        call: &Cmd,
    ) -> Option<RedisResult<Value>> {
        // What is rare is kept elsewhere: every call is moved with all it may need.
        if !library.is_tried() && !Box::pin(self.try_library(library, key)).await {
            return None;
        }
        let mut answer = self.connection.send(call).await;
        if answer.as_ref().is_err_and(functions::is_unknown) {
            if !Box::pin(self.load(library, key)).await {
                return None;
            }
            answer = self.connection.send(call).await;
        }
        match answer {
            Err(error) if functions::is_unknown(&error) => None,
            Err(error) if functions::refuses_calls(&error) => {
                library.give_up();
                None
            }
            answer => Some(answer),
        }
    }

    /// Whether the server allows the library, where `key` is.
    async fn try_library(&self, library: &Library, key: &[u8]) -> bool {
        let ping = library.ping();
        let mut answer = self.connection.send_to_owner(key, &ping).await;
        if answer.as_ref().is_err_and(functions::is_unknown) {
            if !self.load(library, key).await {
                return false;
            }
            answer = self.connection.send_to_owner(key, &ping).await;
        }
        match answer {
            Ok(_) => library.use_on(),
            Err(error) if functions::refuses_calls(&error) => library.give_up(),
            // What is wrong is told of the script.
            Err(_) => {}
        }
        library.is_tried()
    }

    /// Loads the library where `key` is; whether it is there.
    async fn load(&self, library: &Library, key: &[u8]) -> bool {
        let load = library.load();
        match self.connection.send_to_owner(key, &load).await {
            Err(error) if functions::refuses_libraries(&error) => {
                library.give_up();
                false
            }
            Err(error) => functions::is_loaded(&error),
            Ok(_) => true,
        }
    }

    /// Calls `script`, and hands it over if the server has not seen it.
    async fn call_script(
        &self,
        script: &Script,
        keys: &[impl AsRef<[u8]>],
        arguments: &[Arc<[u8]>],
    ) -> Result<Value, StoreError> {
        let by_hash = command("EVALSHA", &script.hash, keys, arguments);
        let answer = match self.connection.send(&by_hash).await {
            Err(error) if is_unseen(&error) => {
                let by_text = command("EVAL", &script.source, keys, arguments);
                self.connection.send(&by_text).await
            }
            answer => answer,
        };
        answer.map_err(|error| self.unavailable(&error))
    }
}

impl std::fmt::Debug for Link {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}

fn command(verb: &str, script: &str, keys: &[impl AsRef<[u8]>], arguments: &[Arc<[u8]>]) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(keys.len());
    for key in keys {
        command.arg(key.as_ref());
    }
    for argument in arguments {
        command.arg(&**argument);
    }
    command
}

fn is_unseen(error: &redis::RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// What a step of a scan found, and where it goes on.
pub(crate) fn scanned(answer: Value) -> Result<(Vec<u8>, Vec<Vec<u8>>), StoreError> {
    let wrong = || garbled("no scan");
    let Value::Array(parts) = answer else {
        return Err(wrong());
    };
    let mut parts = parts.into_iter();
    let (Some(Value::BulkString(next)), Some(Value::Array(found))) = (parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let bytes = found.into_iter().map(|value| text(value).ok_or_else(wrong));
    Ok((next, bytes.collect::<Result<_, _>>()?))
}

pub(crate) fn text(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}
