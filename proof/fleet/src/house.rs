//! A store with its servers.

use std::path::PathBuf;

use crate::server::{Server, Start};
use crate::stores::{Opened, Store};
use crate::talk::{Client, Protocol};

/// A store that is open, and the program whose servers ask it.
#[derive(Debug)]
pub struct House {
    /// Which store.
    pub store: Store,
    opened: Opened,
    program: PathBuf,
}

/// Two servers on one store, or one where it is of one process.
#[derive(Debug)]
pub struct Pair {
    /// The first of them, and the other if there is one.
    pub servers: Vec<Server>,
}

/// Options of a store that on a machine however busy has answered in time.
pub const PATIENT: &str = "deadline=10s";

impl House {
    /// A store of its own; `None` where this machine has none.
    #[must_use]
    pub fn open(store: Store, program: PathBuf) -> Option<Self> {
        let opened = store.open()?;
        Some(Self {
            store,
            opened,
            program,
        })
    }

    /// How a server of `pair` starts, with these options of the store.
    #[must_use]
    pub fn server(&self, pair: &str, policies: &str, options: &str) -> Start {
        Start {
            program: self.program.clone(),
            store: self.opened.url(pair, options),
            policies: policies.to_owned(),
        }
    }

    /// The servers of a question, by the question's name.
    ///
    /// # Errors
    /// If they do not start.
    pub fn pair(&self, name: &str, policies: &str, options: &str) -> Result<Pair, String> {
        let start = self.server(name, policies, options);
        let servers = (0..self.store.servers).map(|_| start.start());
        Ok(Pair {
            servers: servers.collect::<Result<_, _>>()?,
        })
    }

    /// The store's address, where it is a server of its own.
    #[must_use]
    pub fn url(&self) -> String {
        self.opened.url("", "")
    }

    /// The store's own process.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.opened.process()
    }
}

impl Pair {
    /// The server that is asked in this turn.
    #[must_use]
    pub fn at(&self, turn: usize) -> &Server {
        &self.servers[turn % self.servers.len()]
    }

    /// A client at the server of this turn.
    ///
    /// # Errors
    /// If it does not listen.
    pub fn enter(&self, protocol: &Protocol, turn: usize) -> Result<Box<dyn Client>, String> {
        protocol.enter(self.at(turn))
    }
}
