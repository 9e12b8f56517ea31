//! What an address names: one server, a cluster, or a master that sentinels know.
//!
//! ```text
//! redis://[user:password@]host[:port][/database]
//! redis+cluster://[user:password@]host[:port][,host[:port]...]
//! redis+sentinel://[user:password@]host[:port][,...]/service[/database]
//! ```
//! With `rediss` for `redis` the way there is encrypted (feature `tls`). User and
//! password are the servers'; sentinels are asked without.

use redis::cluster::ClusterClient;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{Client, IntoConnectionInfo, TlsMode};

use crate::error::{RedisError, reason};

/// The port of a server that does not say its own.
const PORT: u16 = 6_379;

/// The port of a sentinel that does not say its own.
const SENTINEL_PORT: u16 = 26_379;

/// Who is asked.
pub(crate) enum Address {
    Server(Client),
    Cluster(ClusterClient, Vec<Client>),
    /// Asked anew for the master whenever the connection was lost.
    Sentinels(tokio::sync::Mutex<SentinelClient>),
}

impl Address {
    /// Who is asked, as messages name it: the hosts, without user and password.
    pub(crate) fn place(address: &str) -> String {
        let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
        let (_, hosts) = split_login(rest);
        let hosts = hosts.split(['/', '?']).next().unwrap_or_default();
        match address.contains('+') || hosts.contains(':') {
            true => hosts.to_owned(),
            false => format!("{hosts}:{PORT}"),
        }
    }

    pub(crate) fn parse(address: &str, deadline: std::time::Duration) -> Result<Self, RedisError> {
        let wrong = |error: redis::RedisError| RedisError::Address(reason(&error));
        let Some((scheme, rest)) = address.split_once("://") else {
            let text = "it does not begin with a scheme and `://`";
            return Err(RedisError::Address(text.to_owned()));
        };
        let (scheme, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        if !matches!(scheme, "redis" | "rediss") {
            return Err(RedisError::Address("the scheme is none of them".to_owned()));
        }
        if scheme == "rediss" && !cfg!(feature = "tls") {
            let text = "this build has no TLS; build it with the feature `tls`";
            return Err(RedisError::Address(text.to_owned()));
        }
        match kind {
            "" => Client::open(address).map(Self::Server).map_err(wrong),
            "cluster" => cluster(scheme, rest, deadline).map_err(wrong),
            "sentinel" => sentinels(scheme, rest),
            _ => Err(RedisError::Address(
                "after the + stands cluster or sentinel".to_owned(),
            )),
        }
    }
}

fn cluster(
    scheme: &str,
    rest: &str,
    deadline: std::time::Duration,
) -> Result<Address, redis::RedisError> {
    let (login, hosts) = split_login(rest);
    let nodes: Vec<_> = hosts
        .trim_end_matches('/')
        .split(',')
        .map(|host| format!("{scheme}://{login}{host}"))
        .collect();
    let clients: Result<_, _> = nodes.iter().map(|node| Client::open(&**node)).collect();
    let client = ClusterClient::builder(nodes)
        .connection_timeout(deadline)
        .response_timeout(deadline)
        // It would send again what was done already, and whose answer was lost.
        .retries(0)
        .build()?;
    Ok(Address::Cluster(client, clients?))
}

fn sentinels(scheme: &str, rest: &str) -> Result<Address, RedisError> {
    let wrong = |error: redis::RedisError| RedisError::Address(reason(&error));
    let (login, rest) = split_login(rest);
    let (hosts, service) = rest.split_once('/').unwrap_or((rest, ""));
    let (service, database) = service.split_once('/').unwrap_or((service, "0"));
    if service.is_empty() {
        let text = "it does not name the service that the sentinels know";
        return Err(RedisError::Address(text.to_owned()));
    }
    let node = format!("{scheme}://{login}node/{database}");
    let node = node.as_str().into_connection_info().map_err(wrong)?;
    let mut to_node = SentinelNodeConnectionInfo::default()
        .set_redis_connection_info(node.redis_settings().clone());
    if scheme == "rediss" {
        to_node = to_node.set_tls_mode(TlsMode::Secure);
    }
    let with_port = |host: &str| match host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => format!("redis://{host}"),
        _ => format!("redis://{host}:{SENTINEL_PORT}"),
    };
    let hosts = hosts.split(',').map(with_port).collect();
    let master = SentinelServerType::Master;
    // With TLS it would take a part of a string as well.
    let service = String::from(service);
    let client = SentinelClient::build(hosts, service, Some(to_node), master);
    let client = client.map_err(wrong)?;
    Ok(Address::Sentinels(client.into()))
}

/// `user:password@`, if it is there, and the rest.
fn split_login(rest: &str) -> (&str, &str) {
    rest.rfind('@')
        .map_or(("", rest), |at| rest.split_at(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

    #[tokio::test]
    async fn an_address_names_a_server_a_cluster_or_a_service() {
        for good in [
            "redis://h",
            "redis://u:p%40@h:1/2",
            "redis+cluster://h:1,i:2",
            "redis+cluster://:p@h:1,i:2/",
            "redis+sentinel://h,i:2/main",
            "redis+sentinel://u:p@h/main/3",
        ] {
            assert!(Address::parse(good, SECOND).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_place_has_no_password() {
        let places = [
            ("redis://u:p%40@h/2", "h:6379"),
            ("redis://u:secret@[::1]:7", "[::1]:7"),
            ("redis+cluster://:secret@h:1,i:2/", "h:1,i:2"),
            ("redis+sentinel://u:secret@h,i:2/main/3", "h,i:2"),
        ];
        for (address, place) in places {
            assert_eq!(Address::place(address), place);
        }
    }

    #[tokio::test]
    async fn what_is_wrong_with_an_address_is_said_without_its_password() {
        for bad in [
            "",
            "h:1",
            "reddis://u:secret@h",
            "redis://u:secret@h:port",
            "redis+ring://u:secret@h",
            "redis+cluster://u:secret@h:port",
            "redis+sentinel://u:secret@h",
            "redis+sentinel://u:secret@h/main/x",
        ] {
            let Err(error) = Address::parse(bad, SECOND) else {
                panic!("{bad} is an address");
            };
            let said = format!("{error} {error:?}");
            assert!(!said.contains("secret"), "{said}");
        }
    }
}
