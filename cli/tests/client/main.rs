//! The command as a client, against a server that runs.

mod run;
mod server;
mod verbs;
