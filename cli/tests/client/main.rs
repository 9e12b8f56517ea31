//! The command as a client, against a server that runs.

mod listing;
mod run;
mod server;
mod shell;
mod top;
mod verbs;
