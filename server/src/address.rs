//! Where a listener listens: an address, or `off`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// Where a listener listens, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    Off,
    At(SocketAddr),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let help = || format!("`{text}` is no address; write 127.0.0.1:7400, [::1]:7400 or off");
        let mut found = text.to_socket_addrs().map_err(|_| help())?;
        found.next().map(Self::At).ok_or_else(help)
    }
}

/// What the command line (or the environment) says, else the file, else the
/// default.
pub fn choose(said: Option<Address>, file: Option<&str>, usual: &str) -> Result<Address, String> {
    match (said, file) {
        (Some(address), _) => Ok(address),
        (None, Some(text)) => text.parse(),
        (None, None) => usual.parse(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, choose};

    #[test]
    fn the_command_line_goes_before_the_file_and_the_file_before_the_default() {
        let at = |text: &str| Ok(Address::At(text.parse().unwrap()));
        let usual = "127.0.0.1:7400";
        assert_eq!(choose(None, None, usual), at(usual));
        assert_eq!(choose(None, Some("127.0.0.1:1"), usual), at("127.0.0.1:1"));
        assert_eq!(
            choose(Some(Address::Off), Some("127.0.0.1:1"), usual),
            Ok(Address::Off)
        );
        assert!(choose(None, Some("nowhere"), usual).is_err());
    }
}
