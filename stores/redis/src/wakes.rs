//! Where asks that wait hear that their turn may have come: one channel for each
//! store, listened to from the first that waits on.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use parking_lot::Mutex;
use redis::{Client, Msg};
use tidegate_contract::StoreError;
use tidegate_remote::too_late;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::connection::Connection;

/// The pause after a connection was lost, before the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Who is told. See the [module](self).
#[derive(Debug)]
pub(crate) struct Wakes {
    /// The channel, once somebody has waited.
    channel: OnceLock<Arc<str>>,
    ears: Mutex<HashMap<u128, Arc<Notify>>>,
    listens: watch::Sender<bool>,
}

impl Default for Wakes {
    fn default() -> Self {
        Self {
            channel: OnceLock::new(),
            ears: Mutex::default(),
            listens: watch::Sender::new(false),
        }
    }
}

/// Where one who waits is told. It is forgotten with this.
pub(crate) struct Ear {
    wakes: Arc<Wakes>,
    turn: u128,
    notify: Arc<Notify>,
    pub(crate) channel: Arc<str>,
}

impl Ear {
    /// Waits until its turn may have come.
    pub(crate) async fn hears(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Ear {
    /// Who asks again with the same turn may have another by now.
    fn drop(&mut self) {
        let mut ears = self.wakes.ears.lock();
        if let Entry::Occupied(ear) = ears.entry(self.turn)
            && Arc::ptr_eq(ear.get(), &self.notify)
        {
            ear.remove();
        }
    }
}

impl Wakes {
    /// An ear for `turn`, once the channel is listened to.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        turn: u128,
        deadline: Duration,
    ) -> Result<Ear, StoreError> {
        // The first turn's number is random, and no other store's.
        let channel = self.channel.get_or_init(|| {
            let channel: Arc<str> = format!("tidegate:wake:{turn:032x}").into();
            let (wakes, connection) = (Arc::clone(self), Arc::clone(connection));
            tokio::spawn(wakes.keep_listening(connection, Arc::clone(&channel), deadline));
            channel
        });
        let mut listens = self.listens.subscribe();
        let listening = timeout(deadline, listens.wait_for(|listens| *listens)).await;
        listening.map(drop).map_err(|_| too_late(deadline))?;
        let notify = Arc::<Notify>::default();
        self.ears.lock().insert(turn, Arc::clone(&notify));
        Ok(Ear {
            wakes: Arc::clone(self),
            turn,
            notify,
            channel: Arc::clone(channel),
        })
    }

    async fn keep_listening(
        self: Arc<Self>,
        connection: Arc<Connection>,
        channel: Arc<str>,
        deadline: Duration,
    ) {
        loop {
            for client in connection.listeners().await.unwrap_or_default() {
                self.listen_to(&client, &channel, deadline).await;
                self.listens.send_replace(false);
                // What was said meanwhile was not heard: everyone asks again.
                self.ears.lock().values().for_each(|ear| ear.notify_one());
            }
            sleep(PAUSE).await;
        }
    }

    /// Until the connection is lost.
    async fn listen_to(&self, client: &Client, channel: &str, deadline: Duration) {
        let Ok(Ok(mut listener)) = timeout(deadline, client.get_async_pubsub()).await else {
            return;
        };
        if !matches!(
            timeout(deadline, listener.subscribe(channel)).await,
            Ok(Ok(()))
        ) {
            return;
        }
        self.listens.send_replace(true);
        let mut said = listener.on_message();
        while let Some(message) = said.next().await {
            self.tell(&message);
        }
    }

    fn tell(&self, message: &Msg) {
        let turn = message
            .get_payload_bytes()
            .try_into()
            .map(u128::from_be_bytes);
        let ear = turn
            .ok()
            .and_then(|turn| self.ears.lock().get(&turn).cloned());
        if let Some(ear) = ear {
            ear.notify_one();
        }
    }
}
