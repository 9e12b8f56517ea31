//! How a store is opened.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

pub use tidegate_store::optimistic::Clock;

/// See [`DynamodbStore::open`](crate::DynamodbStore::open).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The region, as `eu-central-1`. `None`: what the environment or the profile says, as for
    /// every program of AWS.
    pub region: Option<String>,
    /// Where DynamoDB answers, as `http://127.0.0.1:8000`. `None`: AWS's own address of the
    /// region.
    pub endpoint: Option<String>,
    /// Who asks. `None`: whom the environment, the profile, the container or the machine says,
    /// as for every program of AWS; at an `endpoint` of this machine (`http://127.0.0.1`,
    /// `http://localhost` or `http://[::1]`) whom the environment says, or else `tidegate`, since
    /// an emulator takes anybody.
    pub credentials: Option<Credentials>,
    /// Whose clock decides. [`Clock::Server`] is this process's, corrected by the `Date` of
    /// DynamoDB's answers.
    pub clock: Clock,
    /// How long a command may take, with everything. One second unless said otherwise.
    pub deadline: Duration,
    /// How many requests are under way at most; others wait, in order. 64 unless said
    /// otherwise.
    pub connections: usize,
    /// Whether the DynamoDB table is made where there is none, and its time to live is
    /// switched on. `true` unless said otherwise.
    pub migrate: bool,
}

/// Fixed credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The access key's id.
    pub access_key_id: String,
    /// The secret access key, which is in no message.
    pub secret_access_key: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            region: None,
            endpoint: None,
            credentials: None,
            clock: Clock::Server,
            deadline: Duration::from_secs(1),
            connections: 64,
            migrate: true,
        }
    }
}

impl Options {
    /// Whether the endpoint is of this machine: an emulator's, or one's own way to AWS.
    pub(crate) fn is_on_this_machine(&self) -> bool {
        let place = self.endpoint.as_deref().unwrap_or_default();
        let place = place.strip_prefix("http://").unwrap_or_default();
        let host = match place.strip_prefix('[') {
            Some(address) => address.split(']').next(),
            None => place.split([':', '/']).next(),
        };
        let host = host.unwrap_or_default();
        host == "localhost"
            || host
                .parse()
                .is_ok_and(|address: IpAddr| address.is_loopback())
    }

    /// What makes no sense of it, if anything.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.deadline.is_zero() {
            return Err("the deadline of a DynamoDB store is zero; give it a second");
        }
        if self.connections == 0 {
            return Err("a DynamoDB store with no connection answers nothing; give it 64");
        }
        match &self.endpoint {
            Some(endpoint)
                if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") =>
            {
                Err("the endpoint of a DynamoDB store begins with http:// or https://")
            }
            _ => Ok(()),
        }
    }
}

/// Whether DynamoDB takes `name` for a table's.
pub(crate) fn is_table_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (3..=255).contains(&name.len()) && name.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_of_this_machine_is_told_from_others() {
        let is_here = |endpoint: &str| {
            let endpoint = Some(endpoint.to_owned());
            Options {
                endpoint,
                ..Options::default()
            }
            .is_on_this_machine()
        };
        for here in [
            "http://127.0.0.1:8000",
            "http://localhost",
            "http://[::1]:8000/",
            "http://127.1.2.3/x",
        ] {
            assert!(is_here(here), "{here}");
        }
        for away in [
            "http://10.0.0.1:8000",
            "https://127.0.0.1",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
            "http://",
        ] {
            assert!(!is_here(away), "{away}");
        }
        assert!(!Options::default().is_on_this_machine());
    }
}
