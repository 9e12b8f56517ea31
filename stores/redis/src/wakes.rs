//! The connection on which requests that wait are told that their turn may have come.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::PubSub;
use redis::{Client, Msg};
use tidegate_net::{Notifier, Wakeup};
use tokio::time::{sleep, timeout};

use crate::connection::Connection;

/// With what the channel's name begins.
pub(crate) const PREFIX: &str = "tidegate:wake:";

/// The pause after a connection was lost, before the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens to `channel`, on one connection after another.
pub(crate) async fn listen(
    connection: Arc<Connection>,
    deadline: Duration,
    notifier: Arc<Notifier>,
    channel: Arc<str>,
) {
    loop {
        for client in connection.listeners().await.unwrap_or_default() {
            listen_to(&client, deadline, &notifier, &channel).await;
        }
        sleep(PAUSE).await;
    }
}

/// Until the connection is lost.
async fn listen_to(client: &Client, deadline: Duration, notifier: &Notifier, channel: &str) {
    let Some(mut listener) = subscribed(client, deadline, channel).await else {
        return;
    };
    let mut messages = listener.on_message();
    let connection = async {
        while let Some(message) = messages.next().await {
            wake(notifier, &message);
        }
    };
    notifier.connected(connection).await;
}

/// A connection that is subscribed to `channel`.
pub(crate) async fn subscribed(
    client: &Client,
    deadline: Duration,
    channel: &str,
) -> Option<PubSub> {
    let connected = timeout(deadline, client.get_async_pubsub()).await;
    let mut listener = connected.ok()?.ok()?;
    let subscribed = timeout(deadline, listener.subscribe(channel)).await;
    matches!(subscribed, Ok(Ok(()))).then_some(listener)
}

/// A message is the turn's sixteen bytes.
fn wake(notifier: &Notifier, message: &Msg) {
    if let Ok(turn) = message.get_payload_bytes().try_into() {
        notifier.notify(u128::from_be_bytes(turn), Wakeup::Turn);
    }
}
