//! Where asks that wait hear that their turn may have come.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_contract::StoreError;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// Whom the store tells that their turn may have come: one channel, listened to from
/// the first that waits on.
#[derive(Debug)]
pub struct Ears {
    /// With what the channel's name begins.
    prefix: &'static str,
    /// The channel, once somebody has waited.
    channel: OnceLock<Arc<str>>,
    ears: Mutex<HashMap<u128, Arc<Notify>>>,
    listens: watch::Sender<bool>,
}

/// Where one who waits is told. It is forgotten with this.
#[derive(Debug)]
pub struct Ear {
    ears: Arc<Ears>,
    turn: u128,
    notify: Arc<Notify>,
    channel: Arc<str>,
}

impl Ear {
    /// Where it is to be told, by whoever gives something back.
    #[must_use]
    pub const fn channel(&self) -> &Arc<str> {
        &self.channel
    }

    /// Waits until its turn may have come.
    pub async fn hears(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Ear {
    /// Who asks again with the same turn may have another by now.
    fn drop(&mut self) {
        let mut ears = self.ears.ears.lock();
        if let Entry::Occupied(ear) = ears.entry(self.turn)
            && Arc::ptr_eq(ear.get(), &self.notify)
        {
            ear.remove();
        }
    }
}

impl Ears {
    /// Nobody yet; the channel's name will begin so.
    #[must_use]
    pub fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            channel: OnceLock::new(),
            ears: Mutex::default(),
            listens: watch::Sender::new(false),
        }
    }

    /// An ear for `turn`, if the channel is listened to.
    #[must_use]
    pub fn at_once(self: &Arc<Self>, turn: u128) -> Option<Ear> {
        let channel = self.channel.get()?;
        self.listens.borrow().then(|| self.ear(turn, channel))
    }

    /// An ear for `turn`, once the channel is listened to. The first begins to: what
    /// `listen` answers is run in the background, for as long as the store is there,
    /// and [hears](Self::hear) what is said on the channel that it is given.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if it is not listened to in time.
    pub async fn listen<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        turn: u128,
        deadline: Duration,
        listen: impl FnOnce(Arc<Self>, Arc<str>) -> F,
    ) -> Result<Ear, StoreError> {
        // The first turn's number is random, and no other store's.
        let channel = self.channel.get_or_init(|| {
            let channel: Arc<str> = format!("{}{turn:032x}", self.prefix).into();
            tokio::spawn(listen(Arc::clone(self), Arc::clone(&channel)));
            channel
        });
        let mut listens = self.listens.subscribe();
        let listening = timeout(deadline, listens.wait_for(|listens| *listens)).await;
        match listening {
            Ok(_) => Ok(self.ear(turn, channel)),
            Err(_) => Err(StoreError::Unavailable(
                "the store's channel is not listened to; nobody could be woken".to_owned(),
            )),
        }
    }

    /// The channel is listened to until `connection` ends. What was said before was
    /// not heard: everyone asks again.
    pub async fn hear(&self, connection: impl Future<Output = ()>) {
        self.listens.send_replace(true);
        self.ears.lock().values().for_each(|ear| ear.notify_one());
        connection.await;
        self.listens.send_replace(false);
    }

    /// The turn of one of them may have come.
    pub fn tell(&self, turn: u128) {
        let ear = self.ears.lock().get(&turn).cloned();
        if let Some(ear) = ear {
            ear.notify_one();
        }
    }

    fn ear(self: &Arc<Self>, turn: u128, channel: &Arc<str>) -> Ear {
        let notify = Arc::<Notify>::default();
        self.ears.lock().insert(turn, Arc::clone(&notify));
        Ear {
            ears: Arc::clone(self),
            turn,
            notify,
            channel: Arc::clone(channel),
        }
    }
}
