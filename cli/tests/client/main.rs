//! The command as a client, against a server that runs.

mod capacity;
mod desired;
mod entities;
mod library;
mod listing;
mod namespaces;
mod overrides;
mod pages;
mod proxy;
mod run;
mod server;
mod shell;
mod spender;
mod store;
mod top;
mod turnstile;
mod usage;
mod verbs;
