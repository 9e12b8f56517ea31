//! What stands before the provider, whoever made it.

use std::net::SocketAddr;

/// How many there are.
pub const FRONTS: usize = 4;

/// Several processes that hold one budget together.
pub trait Front: Send {
    /// Where its processes listen.
    fn at(&self) -> [SocketAddr; FRONTS];

    /// Kills one with SIGKILL.
    fn kill(&mut self, which: usize);

    /// Starts it again where it was.
    ///
    /// # Errors
    /// If it does not start.
    fn start(&mut self, which: usize) -> Result<(), String>;

    /// Kills what they share with SIGKILL, and starts it again.
    ///
    /// # Errors
    /// If it does not start.
    fn restart_store(&mut self) -> Result<(), String>;

    /// Header fields that name the key whose budget counts, and the call to the provider.
    fn fields(&self, key: &str, call: &str) -> Vec<(&'static str, String)>;

    /// What it says that a key has spent, in millionths of a dollar, once nothing is under way.
    ///
    /// # Errors
    /// If it does not say.
    fn spent(&self, key: &str) -> Result<u64, String>;
}
