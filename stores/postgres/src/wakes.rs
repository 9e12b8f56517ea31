//! The connection on which requests that wait are told that their turn may have come.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tidegate_net::{Notifier, Wakeup};
use tokio::time::{sleep, timeout};
use tokio_postgres::AsyncMessage;

use crate::connection::{Hearing, Link};

/// With what the channel's name begins.
pub(crate) const PREFIX: &str = "tidegate_wake_";

/// The pause after a connection was lost, before the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens to `channel`, on one connection after another.
pub(crate) async fn listen(
    link: Arc<Link>,
    deadline: Duration,
    notifier: Arc<Notifier>,
    channel: Arc<str>,
) {
    loop {
        listen_to(&link, deadline, &notifier, &channel).await;
        sleep(PAUSE).await;
    }
}

/// Until the connection is lost.
async fn listen_to(link: &Link, deadline: Duration, notifier: &Arc<Notifier>, channel: &str) {
    let Ok(Ok((client, connection))) = timeout(deadline, link.connect()).await else {
        return;
    };
    let mut hearing = tokio::spawn(hear(Arc::clone(notifier), connection));
    // The channel is of our own making: it needs no quotes.
    let listen = format!("LISTEN {channel}");
    let listening = timeout(deadline, client.batch_execute(&listen)).await;
    if !matches!(listening, Ok(Ok(()))) {
        hearing.abort();
        return;
    }
    // It ends with the connection, which lasts while the client is there.
    notifier
        .connected(async { drop((&mut hearing).await) })
        .await;
    drop(client);
}

/// Drives a connection, and passes on what comes on it.
async fn hear(notifier: Arc<Notifier>, mut connection: Hearing) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(one) = message
            && let Some((turn, wakeup)) = read(one.payload())
        {
            notifier.notify(turn, wakeup);
        }
    }
}

/// A turn's number, and behind a space after how many microseconds, if not now.
fn read(payload: &str) -> Option<(u128, Wakeup)> {
    let (turn, wakeup) = match payload.split_once(' ') {
        None => (payload, Wakeup::Turn),
        Some((turn, micros)) => {
            let micros = micros.parse().ok()?;
            (turn, Wakeup::Later(Duration::from_micros(micros)))
        }
    };
    Some((turn.parse().ok()?, wakeup))
}
