//! Where asks that wait hear that their turn may have come.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::StoreError;
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
    ears: Mutex<HashMap<u128, Arc<Voice>>>,
    listens: watch::Sender<bool>,
}

/// What one who waits is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Its turn may have come.
    Turn,
    /// There is nothing for it before so long from now, unless it is told otherwise.
    Later(Duration),
}

/// What was said to an ear and not heard yet.
#[derive(Debug, Default)]
struct Voice {
    said: Mutex<Option<Heard>>,
    notify: Notify,
}

impl Voice {
    /// That its turn may have come is not unsaid by what comes after it.
    fn say(&self, heard: Heard) {
        let mut said = self.said.lock();
        if *said != Some(Heard::Turn) {
            *said = Some(heard);
        }
        self.notify.notify_one();
    }
}

/// Where one who waits is told. It is forgotten with this.
#[derive(Debug)]
pub struct Ear {
    ears: Arc<Ears>,
    turn: u128,
    voice: Arc<Voice>,
    channel: Arc<str>,
}

impl Ear {
    /// Where it is to be told, by whoever gives something back.
    #[must_use]
    pub const fn channel(&self) -> &Arc<str> {
        &self.channel
    }

    /// Waits until it is told something.
    pub async fn hears(&self) -> Heard {
        loop {
            self.voice.notify.notified().await;
            if let Some(heard) = self.voice.said.lock().take() {
                return heard;
            }
        }
    }
}

impl Drop for Ear {
    /// Who asks again with the same turn may have another by now.
    fn drop(&mut self) {
        let mut ears = self.ears.ears.lock();
        if let Entry::Occupied(ear) = ears.entry(self.turn)
            && Arc::ptr_eq(ear.get(), &self.voice)
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
                "cannot subscribe to the store's channel; a request that waits would not be woken"
                    .to_owned(),
            )),
        }
    }

    /// The channel is listened to until `connection` ends. What was said before was
    /// not heard: everyone asks again.
    pub async fn hear(&self, connection: impl Future<Output = ()>) {
        self.listens.send_replace(true);
        self.tell_all();
        connection.await;
        self.listens.send_replace(false);
    }

    /// Everyone that waits asks again.
    pub fn tell_all(&self) {
        let ears = self.ears.lock();
        ears.values().for_each(|voice| voice.say(Heard::Turn));
    }

    /// Tells one of them.
    pub fn tell(&self, turn: u128, what: Heard) {
        let voice = self.ears.lock().get(&turn).cloned();
        if let Some(voice) = voice {
            voice.say(what);
        }
    }

    fn ear(self: &Arc<Self>, turn: u128, channel: &Arc<str>) -> Ear {
        let voice = Arc::<Voice>::default();
        self.ears.lock().insert(turn, Arc::clone(&voice));
        Ear {
            ears: Arc::clone(self),
            turn,
            voice,
            channel: Arc::clone(channel),
        }
    }
}
