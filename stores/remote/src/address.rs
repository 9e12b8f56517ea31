//! Where a server is.

use crate::error::RemoteError;

/// Where a server offers its store unless the address says so.
const PORT: u16 = 7_401;

/// An address: `tidegate://[TOKEN@]HOST[:PORT]`, or `tidegates` for TLS.
pub(crate) struct Address {
    pub(crate) tls: bool,
    pub(crate) token: Option<String>,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    pub(crate) fn read(address: &str) -> Result<Self, RemoteError> {
        let wrong = |why: &str| RemoteError::Address(why.to_owned());
        let (scheme, rest) = address
            .split_once("://")
            .ok_or_else(|| wrong("it has no `://`"))?;
        let tls = match scheme {
            "tidegate" => false,
            "tidegates" => true,
            _ => return Err(wrong("it is no `tidegate://`")),
        };
        let (token, place) = match rest.rsplit_once('@') {
            Some(("", _)) => return Err(wrong("the token before the `@` is empty")),
            Some((token, place)) => (Some(token.to_owned()), place),
            None => (None, rest),
        };
        if let Some(token) = &token
            && !token.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(wrong("the token has other signs than visible ASCII"));
        }
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.contains(['/', '?', '#']) {
            return Err(wrong("nothing can stand behind the host and the port"));
        }
        let (host, port) = match place.rsplit_once(':') {
            // Of an address of version 6 without a port, which ends in a bracket.
            Some((_, port)) if port.ends_with(']') => (place, PORT),
            Some((host, port)) => {
                let number = port.parse().ok().filter(|port| *port > 0);
                (
                    host,
                    number.ok_or_else(|| wrong("the port is no number from 1 to 65535"))?,
                )
            }
            None => (place, PORT),
        };
        match host {
            "" => Err(wrong("it names no host")),
            host => Ok(Self {
                tls,
                token,
                host: host.to_owned(),
                port,
            }),
        }
    }

    /// As a client of HTTP has it.
    pub(crate) fn uri(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_perhaps_a_token_and_a_port() {
        let read = |address| {
            let read = Address::read(address).ok()?;
            Some((read.token.clone(), read.uri()))
        };
        let at = |uri: &str| Some((None, uri.to_owned()));
        assert_eq!(read("tidegate://central"), at("http://central:7401"));
        assert_eq!(read("tidegate://10.0.0.5:9/"), at("http://10.0.0.5:9"));
        assert_eq!(read("tidegates://[::1]"), at("https://[::1]:7401"));
        assert_eq!(read("tidegates://[::1]:8"), at("https://[::1]:8"));
        let token = Some("tg_x".to_owned());
        let uri = "http://h:1".to_owned();
        assert_eq!(read("tidegate://tg_x@h:1"), Some((token, uri)));
        for wrong in [
            "central:7401",
            "http://central",
            "tidegate://",
            "tidegate://@h",
            "tidegate://h:0",
            "tidegate://h:x",
            "tidegate://h/x",
            "tidegate://h?x=1",
            "tidegate://t t@h",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
