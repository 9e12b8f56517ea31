//! Connections by kind of address, each made when it is first needed.

use std::time::Duration;

use redis::aio::{
    ConnectionLike as _, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection,
};
use redis::cluster::ClusterConfig;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};

use crate::address::Address;

/// The longest pause between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How many attempts to connect are made for one command; the next begins anew.
const ATTEMPTS: usize = 6;

/// A way to the server, or to all of a cluster's. (What it is made of may hold a
/// password: it is never shown.)
pub(crate) struct Connection {
    way: Way,
    deadline: Duration,
}

enum Way {
    Server(Box<Server>),
    Cluster(ClusterConnection, Vec<Client>),
    Master(Box<Master>),
}

/// One server, and how to reach it anew.
struct Server {
    connection: ConnectionManager,
    client: Client,
}

/// The master that sentinels know.
struct Master {
    sentinels: tokio::sync::Mutex<redis::sentinel::SentinelClient>,
    /// The connection to it, until it is lost.
    known: tokio::sync::Mutex<Option<MultiplexedConnection>>,
}

/// One of a cluster's nodes: host and port.
pub(crate) type Node = (String, u16);

impl Connection {
    /// To be called within the runtime that is to drive it.
    pub(crate) fn new(address: Address, deadline: Duration) -> RedisResult<Self> {
        let way = match address {
            Address::Server(client) => {
                let config = ConnectionManagerConfig::new()
                    .set_max_delay(LONGEST_PAUSE)
                    .set_number_of_retries(ATTEMPTS)
                    .set_connection_timeout(Some(deadline))
                    // Whoever asks has a deadline, and one timer is enough.
                    .set_response_timeout(None);
                let lazy = ConnectionManager::new_lazy_with_config(client.clone(), config)?;
                Way::Server(Box::new(Server {
                    connection: lazy,
                    client,
                }))
            }
            Address::Cluster(client, nodes) => {
                let config = ClusterConfig::new()
                    .set_connection_timeout(deadline)
                    .set_response_timeout(deadline);
                let pending = client.get_pending_async_connection_with_config(config);
                Way::Cluster(pending, nodes)
            }
            Address::Sentinels(sentinels) => Way::Master(Box::new(Master {
                sentinels,
                known: tokio::sync::Mutex::default(),
            })),
        };
        Ok(Self { way, deadline })
    }

    /// Whether who waits for the answer to a command keeps nobody else waiting,
    /// whatever he does.
    pub(crate) const fn is_shared(&self) -> bool {
        !matches!(self.way, Way::Master(_))
    }

    /// Greets whoever is there; says why if that fails at the first attempt.
    pub(crate) async fn greet(&self) -> RedisResult<()> {
        if let Way::Server(server) = &self.way {
            let config = AsyncConnectionConfig::new().set_connection_timeout(Some(self.deadline));
            let client = &server.client;
            let made = client.get_multiplexed_async_connection_with_config(&config);
            made.await?;
        }
        self.send(&redis::cmd("PING")).await.map(drop)
    }

    /// Sends one command to whom it belongs.
    pub(crate) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        let answer = match &self.way {
            Way::Server(server) => {
                let mut connection = server.connection.clone();
                connection.send_packed_command(command).await
            }
            Way::Cluster(connection, _) => connection.clone().req_packed_command(command).await,
            Way::Master(master) => {
                return Box::pin(master.send(command, self.deadline)).await;
            }
        };
        answer.and_then(Value::extract_error)
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
        let Way::Cluster(connection, _) = &self.way else {
            return self.send(command).await;
        };
        let mut connection = connection.clone();
        let routing = RoutingInfo::SingleNode(there);
        let answer = connection.route_command(command.clone(), routing).await;
        answer.and_then(Value::extract_error)
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

impl Master {
    async fn send(&self, command: &Cmd, deadline: Duration) -> RedisResult<Value> {
        let known = self.known.lock().await.clone();
        let mut connection = match known {
            Some(connection) => connection,
            None => {
                let client = self.sentinels.lock().await.async_get_client().await?;
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(deadline))
                    .set_response_timeout(Some(deadline));
                let made = client.get_multiplexed_async_connection_with_config(&config);
                self.known.lock().await.insert(made.await?).clone()
            }
        };
        let answer = connection.send_packed_command(command).await;
        let answer = answer.and_then(Value::extract_error);
        if answer.as_ref().is_err_and(is_no_master) {
            *self.known.lock().await = None;
        }
        answer
    }
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

/// Whether the sentinels are to be asked again.
fn is_no_master(error: &redis::RedisError) -> bool {
    let no_master = [
        ErrorKind::Server(ServerErrorKind::ReadOnly),
        ErrorKind::Server(ServerErrorKind::MasterDown),
    ];
    error.is_io_error() || no_master.contains(&error.kind())
}
