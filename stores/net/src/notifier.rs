//! How requests that wait are told that their turn may have come.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::StoreError;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// Wakes the requests of this process that wait at a store: one channel, subscribed to
/// from the first of them on.
#[derive(Debug)]
pub struct Notifier {
    /// With what the channel's name begins.
    prefix: &'static str,
    /// The channel, once a request has waited.
    channel: OnceLock<Arc<str>>,
    mailboxes: Mutex<HashMap<u128, Arc<Mailbox>>>,
    is_connected: watch::Sender<bool>,
}

/// What a request that waits is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wakeup {
    /// Its turn may have come.
    Turn,
    /// There is nothing for it before so long from now, unless another wakeup comes.
    Later(Duration),
}

/// What has come for one subscription and was not taken yet.
#[derive(Debug, Default)]
struct Mailbox {
    wakeup: Mutex<Option<Wakeup>>,
    notify: Notify,
}

impl Mailbox {
    /// That its turn may have come is not replaced by what comes after it.
    fn put(&self, wakeup: Wakeup) {
        let mut kept = self.wakeup.lock();
        if *kept != Some(Wakeup::Turn) {
            *kept = Some(wakeup);
        }
        self.notify.notify_one();
    }
}

/// The wakeups of one request that waits. Dropped, it gets none.
#[derive(Debug)]
pub struct Subscription {
    notifier: Arc<Notifier>,
    turn: u128,
    mailbox: Arc<Mailbox>,
    channel: Arc<str>,
}

impl Subscription {
    /// The channel on which it is woken, by a server that gives something back.
    #[must_use]
    pub const fn channel(&self) -> &Arc<str> {
        &self.channel
    }

    /// Waits until it is told something.
    pub async fn wakeup(&self) -> Wakeup {
        loop {
            self.mailbox.notify.notified().await;
            if let Some(wakeup) = self.mailbox.wakeup.lock().take() {
                return wakeup;
            }
        }
    }
}

impl Drop for Subscription {
    /// A request that tries again with the same turn may have another by now.
    fn drop(&mut self) {
        let mut mailboxes = self.notifier.mailboxes.lock();
        if let Entry::Occupied(mailbox) = mailboxes.entry(self.turn)
            && Arc::ptr_eq(mailbox.get(), &self.mailbox)
        {
            mailbox.remove();
        }
    }
}

impl Notifier {
    /// Without subscriptions; the channel's name will begin so.
    #[must_use]
    pub fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            channel: OnceLock::new(),
            mailboxes: Mutex::default(),
            is_connected: watch::Sender::new(false),
        }
    }

    /// A subscription for `turn`, if there is a connection to the channel.
    #[must_use]
    pub fn at_once(self: &Arc<Self>, turn: u128) -> Option<Subscription> {
        let channel = self.channel.get()?;
        self.is_connected
            .borrow()
            .then(|| self.subscription(turn, channel))
    }

    /// A subscription for `turn`, once there is a connection to the channel. The first
    /// makes it: what `listen` answers is run in the background, for as long as the store
    /// is there, and calls [`connected`](Self::connected) for each connection.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if there is no connection in time.
    pub async fn subscribe<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        turn: u128,
        deadline: Duration,
        listen: impl FnOnce(Arc<Self>, Arc<str>) -> F,
    ) -> Result<Subscription, StoreError> {
        // The first turn's number is random, and no other store's.
        let channel = self.channel.get_or_init(|| {
            let channel: Arc<str> = format!("{}{turn:032x}", self.prefix).into();
            tokio::spawn(listen(Arc::clone(self), Arc::clone(&channel)));
            channel
        });
        let mut connected = self.is_connected.subscribe();
        let listening = timeout(deadline, connected.wait_for(|connected| *connected)).await;
        match listening {
            Ok(_) => Ok(self.subscription(turn, channel)),
            Err(_) => Err(StoreError::Unavailable(
                "cannot subscribe to the store's channel; a request that waits would not be woken"
                    .to_owned(),
            )),
        }
    }

    /// There is a connection to the channel until `connection` ends. What came before was
    /// missed: every request tries again.
    pub async fn connected(&self, connection: impl Future<Output = ()>) {
        self.is_connected.send_replace(true);
        self.notify_all();
        connection.await;
        self.is_connected.send_replace(false);
    }

    /// Every request that waits tries again.
    pub fn notify_all(&self) {
        let mailboxes = self.mailboxes.lock();
        mailboxes
            .values()
            .for_each(|mailbox| mailbox.put(Wakeup::Turn));
    }

    /// Wakes one of them.
    pub fn notify(&self, turn: u128, wakeup: Wakeup) {
        let mailbox = self.mailboxes.lock().get(&turn).cloned();
        if let Some(mailbox) = mailbox {
            mailbox.put(wakeup);
        }
    }

    fn subscription(self: &Arc<Self>, turn: u128, channel: &Arc<str>) -> Subscription {
        let mailbox = Arc::<Mailbox>::default();
        self.mailboxes.lock().insert(turn, Arc::clone(&mailbox));
        Subscription {
            notifier: Arc::clone(self),
            turn,
            mailbox,
            channel: Arc::clone(channel),
        }
    }
}
