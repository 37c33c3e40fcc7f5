//! Addresses to listen on, in the form that people know from other controllers: `:8081`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    /// `None` is every interface.
    pub host: Option<IpAddr>,
    /// 0 lets the system choose one.
    pub port: u16,
}

/// A text that is no address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    /// There is no colon before a port.
    #[error("{text:?} names no port: write :8081, 127.0.0.1:8081 or [::1]:8081")]
    NoPort {
        /// The text as given.
        text: String,
    },
    /// What follows the last colon is no port.
    #[error("{port:?} in {text:?} is no port: write a number from 0 to 65535")]
    Port {
        /// The text as given.
        text: String,
        /// The part of it.
        port: String,
    },
    /// What is before the port is no IP address.
    #[error(
        "{host:?} in {text:?} is no IP address: write 127.0.0.1 or [::1], or nothing for every \
         interface; names are not looked up"
    )]
    Host {
        /// The text as given.
        text: String,
        /// The part of it.
        host: String,
    },
}

impl FromStr for ListenAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(InvalidAddress::NoPort { text: text.to_owned() });
        };
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let Some(port) = port.parse().ok().filter(|_| is_number) else {
            return Err(InvalidAddress::Port { text: text.to_owned(), port: port.to_owned() });
        };
        if host.is_empty() {
            return Ok(Self { host: None, port });
        }
        // SocketAddr knows the brackets of IPv6, without which the last colon is ambiguous.
        let address: SocketAddr = format!("{host}:{port}")
            .parse()
            .map_err(|_| InvalidAddress::Host { text: text.to_owned(), host: host.to_owned() })?;
        Ok(Self { host: Some(address.ip()), port })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = *self;
        match host {
            Some(host) => SocketAddr::new(host, port).fmt(f),
            None => write!(f, ":{port}"),
        }
    }
}
