//! For the project's own crates: nothing is promised of it.

use crate::client::Client;
pub use crate::heartbeat::{Lost, Renewal, keep_renewing};
pub use crate::quantity::{millis, whole};

/// Ends when all has been given back that was granted to requests without an answer.
pub async fn settled(client: &Client) {
    client.settled().await;
}
