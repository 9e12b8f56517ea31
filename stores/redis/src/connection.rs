//! Connections by kind of address, each made when it is first needed, and anew when
//! the one that is there says nothing any more: a server that hangs, or a way that
//! loses every packet, closes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use redis::aio::{
    ConnectionLike as _, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection,
};
use redis::cluster::{ClusterClient, ClusterConfig};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};
use tokio::time::{Instant, timeout};

use crate::address::Address;
use crate::error::is_moving;

/// A command that was not answered for this part of its deadline, and was given up, was
/// said to nobody.
const SILENCE: u32 = 4;

/// A connection is given so many deadlines before it is given up.
const CHANCE: u32 = 2;

/// For this part of the deadline a command is sent again while its slot is being moved,
/// after such pauses.
const MOVING: (u32, u32) = (1, 2);
const PAUSES: u32 = 32;

/// A server that is no master is left once in so long: who leads where is not asked by
/// each of those who were refused.
const TURN: Duration = Duration::from_millis(100);

/// A way to the server, or to all of a cluster's. (What it is made of may hold a
/// password: it is never shown.)
pub(crate) struct Connection {
    way: Way,
    deadline: Duration,
    /// A command was not answered.
    is_silent: AtomicBool,
    /// When a server that was no master was left last.
    turned: Mutex<Option<Instant>>,
}

enum Way {
    Server(Box<Server>),
    Cluster(Renewed<ClusterConnection>, Vec<Client>),
    Master(Arc<Master>),
}

/// One server, and how it is reached anew.
struct Server {
    connection: Renewed<ConnectionManager>,
    client: Client,
}

/// A connection, and how to make another.
struct Renewed<C> {
    current: RwLock<(C, Instant)>,
    make: Box<dyn Fn() -> RedisResult<C> + Send + Sync>,
}

/// The master that sentinels know.
struct Master {
    sentinels: tokio::sync::Mutex<redis::sentinel::SentinelClient>,
    /// The connection to it, until it is lost.
    known: RwLock<Option<MultiplexedConnection>>,
}

/// One of a cluster's nodes: host and port.
pub(crate) type Node = (String, u16);

impl Connection {
    /// To be called within the runtime that is to drive it.
    pub(crate) fn new(address: Address, deadline: Duration) -> RedisResult<Self> {
        let way = match address {
            Address::Server(client) => {
                let there = client.clone();
                let make = move || {
                    let config = ConnectionManagerConfig::new()
                        // Each command tries once, and is told at once if that fails.
                        .set_number_of_retries(0)
                        .set_connection_timeout(Some(deadline))
                        // Whoever asks has a deadline, and one timer is enough.
                        .set_response_timeout(None);
                    ConnectionManager::new_lazy_with_config(there.clone(), config)
                };
                Way::Server(Box::new(Server {
                    connection: Renewed::new(make)?,
                    client,
                }))
            }
            Address::Cluster(client, nodes) => {
                let make = move || Ok(pending(&client, deadline));
                Way::Cluster(Renewed::new(make)?, nodes)
            }
            Address::Sentinels(sentinels) => Way::Master(Arc::new(Master {
                sentinels,
                known: RwLock::default(),
            })),
        };
        Ok(Self {
            way,
            deadline,
            is_silent: AtomicBool::new(false),
            turned: Mutex::default(),
        })
    }

    /// Whether who waits for the answer to a command keeps nobody else waiting,
    /// whatever he does.
    pub(crate) const fn is_shared(&self) -> bool {
        !matches!(self.way, Way::Master(_))
    }

    /// Whether there is one server, and one connection to it.
    pub(crate) const fn is_one_server(&self) -> bool {
        matches!(self.way, Way::Server(_))
    }

    /// Greets whoever is there; says why if that fails at the first attempt.
    pub(crate) async fn greet(&self) -> RedisResult<()> {
        if let Way::Server(server) = &self.way {
            let config = AsyncConnectionConfig::new().set_connection_timeout(Some(self.deadline));
            let made = server
                .client
                .get_multiplexed_async_connection_with_config(&config);
            made.await?;
        }
        self.send(&redis::cmd("PING")).await.map(drop)
    }

    /// Sends one command to whom it belongs. Where a name leads to another server after a
    /// failover, the old one keeps its connections and takes no writes: nothing was done
    /// there, and the command goes to whoever the name leads to now.
    ///
    /// A node of a cluster that does not have the keys says who does. While a cluster moves
    /// the slot of the command's keys, none of which may be there, neither of its two nodes
    /// does anything: it goes to either until it is moved, or the deadline is near. So it
    /// does while the client does not know yet who leads a slot. Nothing else is sent twice:
    /// what was sent on a connection that was lost may have been done.
    pub(crate) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        match self.send_once(command).await {
            Err(error) if is_no_master(&error) && self.turn_away() => {
                Box::pin(self.send_once(command)).await
            }
            Err(error) if is_elsewhere(&error) && matches!(self.way, Way::Cluster(..)) => {
                Box::pin(self.send_when_moved(command, error)).await
            }
            // That may have been refused to an earlier command, which had the connection made
            // anew: nothing was sent, and this one is told what came of that.
            Err(error) if error.is_connection_refusal() && matches!(self.way, Way::Server(_)) => {
                Box::pin(self.send_once(command)).await
            }
            answer => answer,
        }
    }

    async fn send_when_moved(
        &self,
        command: &Cmd,
        mut error: redis::RedisError,
    ) -> RedisResult<Value> {
        let last = Instant::now() + self.deadline * MOVING.0 / MOVING.1;
        while Instant::now() < last {
            tokio::time::sleep(self.deadline / PAUSES).await;
            match self.send_once(command).await {
                Err(again) if is_elsewhere(&again) => error = again,
                answer => return answer,
            }
        }
        Err(error)
    }

    /// Leaves a server that is no master; whether another may be there.
    fn turn_away(&self) -> bool {
        let mut turned = self.turned.lock();
        if turned.is_some_and(|at| at.elapsed() < TURN) {
            return true;
        }
        match &self.way {
            Way::Server(server) => server.connection.renew(Duration::ZERO),
            // The slots say who is.
            Way::Cluster(..) => return false,
            Way::Master(master) => *master.known.write() = None,
        }
        *turned = Some(Instant::now());
        true
    }

    async fn send_once(&self, command: &Cmd) -> RedisResult<Value> {
        let outstanding = self.query();
        let answer = match &self.way {
            Way::Server(server) => server.connection.get().send_packed_command(command).await,
            Way::Cluster(cluster, _) => {
                let answer = cluster.get().req_packed_command(command).await;
                match answer.and_then(Value::extract_error) {
                    Err(error) => Box::pin(redirected(cluster.get(), command, error)).await,
                    answer => answer,
                }
            }
            Way::Master(master) => {
                let sent = Box::pin(master.send(command, self.deadline));
                sent.await
            }
        };
        outstanding.told(answer).and_then(Value::extract_error)
    }

    /// A command is about to be sent: by another connection, if this one was silent.
    fn query(&self) -> Outstanding<'_> {
        if self.is_silent.load(Ordering::Relaxed) && self.is_silent.swap(false, Ordering::Relaxed) {
            let chance = self.deadline * CHANCE;
            match &self.way {
                Way::Server(server) => server.connection.renew(chance),
                Way::Cluster(cluster, _) => cluster.renew(chance),
                Way::Master(master) => *master.known.write() = None,
            }
        }
        Outstanding {
            connection: self,
            since: Instant::now(),
            is_answered: false,
        }
    }

    /// Sends one command to this node of a cluster.
    pub(crate) async fn send_to(&self, node: &Node, command: &Cmd) -> RedisResult<Value> {
        let (host, port) = node.clone();
        let there = SingleNodeRoutingInfo::ByAddress { host, port };
        self.send_there(there, command).await
    }

    /// Sends one command without keys to the master that has `key`.
    pub(crate) async fn send_to_owner(&self, key: &[u8], command: &Cmd) -> RedisResult<Value> {
        let owner = Route::with_key(key, SlotAddr::Master);
        let there = SingleNodeRoutingInfo::SpecificNode(owner);
        self.send_there(there, command).await
    }

    async fn send_there(&self, there: SingleNodeRoutingInfo, command: &Cmd) -> RedisResult<Value> {
        let Way::Cluster(cluster, _) = &self.way else {
            return self.send(command).await;
        };
        let outstanding = self.query();
        let mut connection = cluster.get();
        let routing = RoutingInfo::SingleNode(there);
        let answer = connection.route_command(command.clone(), routing).await;
        outstanding.told(answer).and_then(Value::extract_error)
    }

    /// The masters of a cluster, in order; none where there is one server.
    pub(crate) async fn masters(&self) -> RedisResult<Vec<Node>> {
        if !matches!(self.way, Way::Cluster(..)) {
            return Ok(Vec::new());
        }
        let mut slots = redis::cmd("CLUSTER");
        let slots = self.send(slots.arg("SLOTS")).await?;
        let mut masters: Vec<Node> = Vec::new();
        if let Value::Array(ranges) = slots {
            masters.extend(ranges.iter().filter_map(master_of));
        }
        masters.sort_unstable();
        masters.dedup();
        Ok(masters)
    }

    /// Clients for a connection of its own to someone who hears what is published.
    pub(crate) async fn listeners(&self) -> RedisResult<Vec<Client>> {
        Ok(match &self.way {
            Way::Server(server) => vec![server.client.clone()],
            Way::Cluster(_, nodes) => nodes.clone(),
            Way::Master(master) => {
                vec![master.sentinels.lock().await.async_get_client().await?]
            }
        })
    }
}

/// A command on its way, until it is answered or given up.
struct Outstanding<'c> {
    connection: &'c Connection,
    since: Instant,
    is_answered: bool,
}

impl Outstanding<'_> {
    fn told(mut self, answer: RedisResult<Value>) -> RedisResult<Value> {
        self.is_answered = !answer.as_ref().is_err_and(redis::RedisError::is_timeout);
        answer
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        if !self.is_answered && self.since.elapsed() >= self.connection.deadline / SILENCE {
            self.connection.is_silent.store(true, Ordering::Relaxed);
        }
    }
}

impl<C: Clone> Renewed<C> {
    fn new(make: impl Fn() -> RedisResult<C> + Send + Sync + 'static) -> RedisResult<Self> {
        Ok(Self {
            current: RwLock::new((make()?, Instant::now())),
            make: Box::new(make),
        })
    }

    fn get(&self) -> C {
        self.current.read().0.clone()
    }

    /// Makes another, unless this one is younger than its `chance`.
    fn renew(&self, chance: Duration) {
        let mut current = self.current.write();
        if current.1.elapsed() >= chance
            && let Ok(another) = (self.make)()
        {
            *current = (another, Instant::now());
        }
    }
}

/// A cluster's connection is there when it has the slots from one of the nodes: those
/// that hang must not take all the time of the first who asks.
fn pending(client: &ClusterClient, deadline: Duration) -> ClusterConnection {
    let config = ClusterConfig::new()
        .set_connection_timeout(deadline / SILENCE)
        .set_response_timeout(deadline);
    client.get_pending_async_connection_with_config(config)
}

impl Master {
    async fn send(self: &Arc<Self>, command: &Cmd, deadline: Duration) -> RedisResult<Value> {
        let known = self.known.read().clone();
        let mut connection = match known {
            Some(connection) => connection,
            None => {
                // It goes on when the first who asked has given up: a sentinel that
                // hangs takes longer than one deadline, and is not asked first again.
                let master = Arc::clone(self);
                let found = tokio::spawn(async move { master.find(deadline).await });
                let gone = |_| Err(lost(std::io::ErrorKind::ConnectionAborted));
                found.await.unwrap_or_else(gone)?
            }
        };
        let answer = connection.send_packed_command(command).await;
        let answer = answer.and_then(Value::extract_error);
        if answer.as_ref().is_err_and(redis::RedisError::is_io_error) {
            *self.known.write() = None;
        }
        answer
    }

    /// One asks the sentinels; others wait, and have what it has found.
    async fn find(&self, deadline: Duration) -> RedisResult<MultiplexedConnection> {
        // Nobody waits there for longer than his caller does.
        let sentinels = timeout(deadline, self.sentinels.lock()).await;
        let mut sentinels = sentinels.map_err(|_| lost(std::io::ErrorKind::TimedOut))?;
        if let Some(known) = &*self.known.read() {
            return Ok(known.clone());
        }
        let client = sentinels.async_get_client().await?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(deadline))
            .set_response_timeout(Some(deadline));
        let made = client.get_multiplexed_async_connection_with_config(&config);
        let made = made.await?;
        *self.known.write() = Some(made.clone());
        Ok(made)
    }
}

fn lost(kind: std::io::ErrorKind) -> redis::RedisError {
    std::io::Error::from(kind).into()
}

/// `[first slot, last slot, [host, port, ...], replicas...]`
fn master_of(range: &Value) -> Option<Node> {
    let Value::Array(range) = range else {
        return None;
    };
    let Value::Array(master) = range.get(2)? else {
        return None;
    };
    match (master.first()?, master.get(1)?) {
        (Value::BulkString(host), Value::Int(port)) => {
            let host = String::from_utf8(host.clone()).ok()?;
            Some((host, u16::try_from(*port).ok()?))
        }
        _ => None,
    }
}

/// Sends a command to the node of a cluster that an `error` names, if it names one.
async fn redirected(
    mut cluster: ClusterConnection,
    command: &Cmd,
    error: redis::RedisError,
) -> RedisResult<Value> {
    let node = error.redirect_node().and_then(|(node, _)| node_of(node));
    let Some((host, port)) = node else {
        return Err(error);
    };
    let mut both = redis::pipe();
    if error.kind() == ErrorKind::Server(ServerErrorKind::Ask) {
        both.cmd("ASKING");
    }
    both.add_command(command.clone());
    let there = SingleNodeRoutingInfo::ByAddress { host, port };
    let asking = both.len() - 1;
    let answers = cluster.route_pipeline(both, asking, 1, there).await?;
    answers.into_iter().next().ok_or(error)?.extract_error()
}

/// `host:port`
fn node_of(node: &str) -> Option<Node> {
    let (host, port) = node.rsplit_once(':')?;
    let port = port.parse().ok()?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Whether a cluster has done nothing: the keys are at another node than the client knows, or
/// on their way there, or nobody leads their slot for the moment.
fn is_elsewhere(error: &redis::RedisError) -> bool {
    let elsewhere = [
        ErrorKind::Server(ServerErrorKind::Moved),
        ErrorKind::Server(ServerErrorKind::ReadOnly),
        ErrorKind::Server(ServerErrorKind::MasterDown),
        ErrorKind::Server(ServerErrorKind::ClusterDown),
        ErrorKind::Server(ServerErrorKind::BusyLoading),
        ErrorKind::ClusterConnectionNotFound,
    ];
    is_moving(error) || elsewhere.contains(&error.kind())
}

/// A replica refused: nothing was done. (A script's error is told in its words.)
fn is_no_master(error: &redis::RedisError) -> bool {
    let no_master = [
        ErrorKind::Server(ServerErrorKind::ReadOnly),
        ErrorKind::Server(ServerErrorKind::MasterDown),
    ];
    let words = error.detail().unwrap_or_default();
    no_master.contains(&error.kind()) || words.contains("-READONLY ")
}
