//! A store with its servers.

use std::path::PathBuf;

use crate::program;
use crate::server::{Server, Start};
use crate::stores::{Opened, Store};
use crate::talk::{Client, Protocol};

/// A store that is open, and the programs whose servers ask it.
#[derive(Debug)]
pub struct House {
    /// Which store.
    pub store: Store,
    opened: Opened,
    programs: [PathBuf; 2],
}

/// Two servers on one store, or one where it is of one process.
#[derive(Debug)]
pub struct Pair {
    /// The first of them, and the other if there is one.
    pub servers: Vec<Server>,
}

/// Options of a store that on a machine however busy has answered in time.
pub const PATIENT: &str = "deadline=50s";

impl House {
    /// A store of its own; `None` where this machine has none.
    #[must_use]
    pub fn open(store: Store, program: PathBuf) -> Option<Self> {
        let opened = store.open()?;
        Some(Self {
            store,
            opened,
            programs: program::pair(program),
        })
    }

    /// How the first server of `pair` starts, with these options of the store.
    #[must_use]
    pub fn server(&self, pair: &str, policies: &str, options: &str) -> Start {
        self.server_at(0, pair, policies, options)
    }

    /// How the server of this turn starts: its program is another where one is named.
    #[must_use]
    pub fn server_at(&self, turn: usize, pair: &str, policies: &str, options: &str) -> Start {
        Start {
            program: self.programs[turn % self.programs.len()].clone(),
            store: self.opened.url(pair, options),
            policies: policies.to_owned(),
        }
    }

    /// The servers of a question, by the question's name.
    ///
    /// # Errors
    /// If they do not start.
    pub fn pair(&self, name: &str, policies: &str, options: &str) -> Result<Pair, String> {
        let start = |turn| self.server_at(turn, name, policies, options).start();
        let servers = (0..self.store.servers).map(start);
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
