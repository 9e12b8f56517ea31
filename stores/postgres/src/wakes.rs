//! Where asks that wait hear that their turn may have come: one channel and one
//! connection for each store, from the first that waits on.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_contract::StoreError;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_postgres::AsyncMessage;

use crate::link::{Heard, Link};

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
#[derive(Debug)]
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
    /// An ear for `turn`, if the channel is listened to.
    pub(crate) fn at_once(self: &Arc<Self>, turn: u128) -> Option<Ear> {
        let channel = self.channel.get()?;
        self.listens.borrow().then(|| self.ear(turn, channel))
    }

    /// An ear for `turn`, once the channel is listened to.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        link: &Arc<Link>,
        turn: u128,
        deadline: Duration,
    ) -> Result<Ear, StoreError> {
        // The first turn's number is random, and no other store's.
        let channel = self.channel.get_or_init(|| {
            let channel: Arc<str> = format!("tidegate_wake_{turn:032x}").into();
            let (wakes, link) = (Arc::clone(self), Arc::clone(link));
            tokio::spawn(wakes.keep_listening(link, Arc::clone(&channel), deadline));
            channel
        });
        let mut listens = self.listens.subscribe();
        let listening = timeout(deadline, listens.wait_for(|listens| *listens)).await;
        match listening {
            Ok(_) => Ok(self.ear(turn, channel)),
            Err(_) => Err(StoreError::Unavailable(
                "the PostgreSQL server is not listened to; nobody could be woken".to_owned(),
            )),
        }
    }

    fn ear(self: &Arc<Self>, turn: u128, channel: &Arc<str>) -> Ear {
        let notify = Arc::<Notify>::default();
        self.ears.lock().insert(turn, Arc::clone(&notify));
        Ear {
            wakes: Arc::clone(self),
            turn,
            notify,
            channel: Arc::clone(channel),
        }
    }

    async fn keep_listening(
        self: Arc<Self>,
        link: Arc<Link>,
        channel: Arc<str>,
        deadline: Duration,
    ) {
        loop {
            self.listen_to(&link, &channel, deadline).await;
            self.listens.send_replace(false);
            sleep(PAUSE).await;
        }
    }

    /// Until the connection is lost.
    async fn listen_to(self: &Arc<Self>, link: &Link, channel: &str, deadline: Duration) {
        let Ok(Ok((client, connection))) = timeout(deadline, link.connect()).await else {
            return;
        };
        let mut hearing = tokio::spawn(hear(Arc::clone(self), connection));
        // The channel is of our own making: it needs no quotes.
        let listen = format!("LISTEN {channel}");
        let listening = timeout(deadline, client.batch_execute(&listen)).await;
        if !matches!(listening, Ok(Ok(()))) {
            hearing.abort();
            return;
        }
        self.listens.send_replace(true);
        // What was said before was not heard: everyone asks again.
        self.ears.lock().values().for_each(|ear| ear.notify_one());
        // It ends with the connection, which lasts while the client is there.
        let _ = (&mut hearing).await;
        drop(client);
    }

    fn tell(&self, turn: &str) {
        let ear = turn.parse().ok();
        let ear = ear.and_then(|turn: u128| self.ears.lock().get(&turn).cloned());
        if let Some(ear) = ear {
            ear.notify_one();
        }
    }
}

/// Drives a connection, and passes on what is said on it.
async fn hear(wakes: Arc<Wakes>, mut connection: Heard) {
    while let Some(Ok(said)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(said) = said {
            wakes.tell(said.payload());
        }
    }
}
