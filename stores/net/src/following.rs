//! How a process follows what is defined at its store: told where the server can tell,
//! and by one look-up every now and then.
//!
//! All of it is done on the store's own thread, with its deadline; those who follow go
//! over to a change on threads where they may wait. A server that is away is asked
//! again the next time.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Once, Weak};
use std::time::Duration;

use tidegate_store::definitions::{event_of_cursor, page_size};
use tidegate_store::{
    Change, Defined, Definition, Definitions, Event, Follower, Followers, Page, StoreError,
    StoreFuture,
};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::driver::{Driver, within};

/// Where definitions are read, and kept.
pub trait Source: Send + Sync + 'static {
    /// How often those who follow look whether there is news, if they are not told.
    const LOOK: Duration;

    /// Makes a change.
    ///
    /// # Errors
    /// [`StoreError`].
    fn change(
        &self,
        owner: &str,
        change: &Change,
    ) -> impl Future<Output = Result<Defined, StoreError>> + Send {
        let _ = (owner, change);
        ready(Err(StoreError::CannotDefine(
            "changes no definition on a version".to_owned(),
        )))
    }

    /// Keeps a definition, whatever is there; whether that is a change.
    ///
    /// # Errors
    /// [`StoreError`].
    fn write(
        &self,
        owner: &str,
        definition: &Definition,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let change = Change::from(definition.clone());
        async move { Ok(self.change(owner, &change).await?.is_changed()) }
    }

    /// What is defined under a key.
    ///
    /// # Errors
    /// [`StoreError`].
    fn one(
        &self,
        owner: &str,
        key: &[u8],
    ) -> impl Future<Output = Result<Option<Definition>, StoreError>> + Send {
        let _ = (owner, key);
        ready(Err(StoreError::CannotDefine(
            "reads no definition by itself".to_owned(),
        )))
    }

    /// Definitions whose keys begin with `prefix`, in the order of their keys, behind `after`;
    /// `most` is in range.
    ///
    /// # Errors
    /// [`StoreError`].
    fn page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> impl Future<Output = Result<Page<Definition>, StoreError>> + Send {
        let _ = (owner, prefix, after, most);
        ready(Err(StoreError::CannotDefine(
            "lists no definitions".to_owned(),
        )))
    }

    /// Events about `subject`, or about anything, behind the version `after`; `most` is in
    /// range.
    ///
    /// # Errors
    /// [`StoreError`].
    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: u64,
        most: usize,
    ) -> impl Future<Output = Result<Page<Event>, StoreError>> + Send {
        let _ = (owner, subject, after, most);
        ready(Err(StoreError::CannotDefine("keeps no events".to_owned())))
    }

    /// The version of each of these owners' definitions, in their order; 0 for one that
    /// has none. It costs the server little.
    ///
    /// # Errors
    /// [`StoreError`].
    fn versions(
        &self,
        owners: &[String],
    ) -> impl Future<Output = Result<Vec<u64>, StoreError>> + Send;

    /// What has changed of an owner's since `newer_than`.
    ///
    /// # Errors
    /// [`StoreError`].
    fn changes(
        &self,
        owner: &str,
        newer_than: u64,
    ) -> impl Future<Output = Result<Definitions, StoreError>> + Send;

    /// Which keys of an owner's have changed since `newer_than`, as
    /// [`keys_alone`](Definitions::keys_alone) has it.
    ///
    /// # Errors
    /// [`StoreError`].
    fn changed_keys(
        &self,
        owner: &str,
        newer_than: u64,
    ) -> impl Future<Output = Result<Definitions, StoreError>> + Send {
        async move { Ok(self.changes(owner, newer_than).await?.keys_alone()) }
    }

    /// How long one question may take.
    fn deadline(&self) -> Duration;

    /// Hears when the server tells that something was defined, until the connection is
    /// lost, and rings each time; also when it begins to hear. `None` where the server
    /// cannot tell.
    fn hear(&self, bell: Arc<Notify>) -> Option<Hearing>;

    /// Who follows.
    fn following(&self) -> &Following;
}

/// Ends when nothing is received any more. It does not keep the store.
pub type Hearing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The pause after a connection was lost, before the next.
const PAUSE: Duration = Duration::from_millis(100);

/// Who follows what is defined at one store. See the [module](self).
#[derive(Debug)]
pub struct Following {
    followers: Followers,
    /// Somebody follows, or something was defined.
    bell: Arc<Notify>,
    /// One at a time leads those who follow; at which owner a look was broken off last.
    turn: tokio::sync::Mutex<Option<String>>,
    /// Whether somebody looks after it.
    begun: Once,
}

impl Default for Following {
    fn default() -> Self {
        Self {
            followers: Followers::default(),
            bell: Arc::default(),
            turn: tokio::sync::Mutex::new(None),
            begun: Once::new(),
        }
    }
}

/// What has changed of an owner's since `newer_than`, read on the store's thread.
pub fn definitions<S: Source>(
    driver: &Driver,
    source: &Arc<S>,
    owner: &str,
    newer_than: u64,
) -> StoreFuture<Definitions> {
    let (source, owner) = (Arc::clone(source), owner.to_owned());
    driver.later(async move { source.changes(&owner, newer_than).await })
}

/// Makes a change, and has those who follow here go over to it; what became of it. They
/// have as long again as the server.
pub fn change<S: Source>(
    driver: &Driver,
    source: &Arc<S>,
    owner: &str,
    change: Change,
) -> StoreFuture<Defined> {
    let (source, owner) = (Arc::clone(source), owner.to_owned());
    let make = async move {
        let made = source.change(&owner, &change);
        let made = within(source.deadline(), made).await?;
        source.following().catch_up(&owner, &*source).await;
        Ok(made)
    };
    StoreFuture::new(driver.start_within(driver.deadline(), make))
}

/// Keeps a definition, whatever is there, as [`change`] does.
pub fn define<S: Source>(
    driver: &Driver,
    source: &Arc<S>,
    owner: &str,
    definition: Definition,
) -> StoreFuture<bool> {
    let (source, owner) = (Arc::clone(source), owner.to_owned());
    let define = async move {
        let written = source.write(&owner, &definition);
        let is_changed = within(source.deadline(), written).await?;
        source.following().catch_up(&owner, &*source).await;
        Ok(is_changed)
    };
    StoreFuture::new(driver.start_within(driver.deadline(), define))
}

/// What is defined under a key, read on the store's thread.
pub fn definition<S: Source>(
    driver: &Driver,
    source: &Arc<S>,
    owner: &str,
    key: &[u8],
) -> StoreFuture<Option<Definition>> {
    let (source, owner, key) = (Arc::clone(source), owner.to_owned(), key.to_vec());
    driver.later(async move { source.one(&owner, &key).await })
}

/// A page of definitions, read on the store's thread.
pub fn page<S: Source>(
    driver: &Driver,
    source: &Arc<S>,
    owner: &str,
    (prefix, after): (&[u8], Option<&[u8]>),
    most: usize,
) -> StoreFuture<Page<Definition>> {
    let (source, owner) = (Arc::clone(source), owner.to_owned());
    let (prefix, after) = (prefix.to_vec(), after.map(<[u8]>::to_vec));
    driver.later(async move {
        let page = source.page(&owner, &prefix, after.as_deref(), page_size(most));
        page.await
    })
}

/// A page of events, read on the store's thread.
pub fn events<S: Source>(
    driver: &Driver,
    source: &Arc<S>,
    owner: &str,
    (subject, after): (Option<&[u8]>, Option<&[u8]>),
    most: usize,
) -> StoreFuture<Page<Event>> {
    let (source, owner) = (Arc::clone(source), owner.to_owned());
    let (subject, after) = (subject.map(<[u8]>::to_vec), event_of_cursor(after));
    driver.later(async move {
        let page = source.events(&owner, subject.as_deref(), after?, page_size(most));
        page.await
    })
}

/// From here on `follower` goes over to whatever is defined for `owner`, for as long as it
/// is there. The store begins to look for news with the first.
pub fn follow<S: Source>(
    driver: &Driver,
    source: &Arc<S>,
    owner: &str,
    follower: Weak<dyn Follower>,
) {
    let begin = || drop(driver.handle().spawn(keep_up(Arc::downgrade(source))));
    source.following().add(owner, follower, begin);
}

impl Following {
    /// Adds one. At the first `begin` is to spawn [`keep_up`].
    fn add(&self, owner: &str, follower: Weak<dyn Follower>, begin: impl FnOnce()) {
        self.followers.add(owner, follower);
        self.begun.call_once(begin);
        self.bell.notify_one();
    }

    /// Has those who follow `owner` go over to what was defined by now, if that can be done
    /// in time; if not, they do so later.
    async fn catch_up(&self, owner: &str, source: &impl Source) {
        let led = async {
            let _one_at_a_time = self.turn.lock().await;
            self.lead(owner, source).await
        };
        if within(source.deadline(), led).await.is_err() {
            self.bell.notify_one();
        }
    }

    /// One look-up, and all who are behind go over to what has changed.
    async fn look(&self, source: &impl Source) -> Result<(), StoreError> {
        let mut broken_off = self.turn.lock().await;
        let mut owners = self.followers.owners();
        if owners.is_empty() {
            return Ok(());
        }
        // Behind that one.
        let last = broken_off.as_ref();
        if let Some(last) = last.and_then(|last| owners.iter().position(|one| one == last)) {
            owners.rotate_left(last + 1);
        }
        let versions = within(source.deadline(), source.versions(&owners)).await?;
        let (begun, mut looked) = (Instant::now(), Ok(()));
        for (owner, version) in owners.iter().zip(versions) {
            let theirs = self.followers.of(owner);
            if theirs.iter().any(|one| one.version() != version) {
                // What is wrong with one owner's keeps no other's from those who follow it.
                looked = looked.and(self.lead(owner, source).await);
            }
            if looked.is_err() && begun.elapsed() >= source.deadline() {
                *broken_off = Some(owner.clone());
                break;
            }
        }
        looked
    }

    /// Those who know the same, and are told alike, are told at once.
    async fn lead(&self, owner: &str, source: &impl Source) -> Result<(), StoreError> {
        let mut behind = self.followers.of(owner);
        let state = |one: &Arc<dyn Follower>| (one.version(), one.is_partial());
        while let Some((known, is_partial)) = behind.first().map(state) {
            let is_alike = |one: &Arc<dyn Follower>| state(one) == (known, is_partial);
            let (alike, others) = behind.into_iter().partition(is_alike);
            behind = others;
            let definitions = async {
                match is_partial {
                    true => source.changed_keys(owner, known).await,
                    false => source.changes(owner, known).await,
                }
            };
            let definitions = within(source.deadline(), definitions).await?;
            let told = move |alike: Vec<Arc<dyn Follower>>| {
                alike.iter().for_each(|one| one.follow(&definitions));
            };
            // A change of limits may wait for this very thread.
            let told = tokio::task::spawn_blocking(move || told(alike)).await;
            told.map_err(|_| {
                StoreError::Unavailable("a follower of its definitions panicked".to_owned())
            })?;
        }
        Ok(())
    }
}

/// Follows what is defined, for as long as the store is there: told by the server, and by
/// one look-up every [`Source::LOOK`].
async fn keep_up<S: Source>(store: Weak<S>) {
    let listening = tokio::spawn(listen(Weak::clone(&store)));
    while let Some(source) = store.upgrade() {
        // What cannot be told now is asked for again.
        let _ = source.following().look(&*source).await;
        let bell = Arc::clone(&source.following().bell);
        // The store may go meanwhile.
        drop(source);
        let _ = timeout(S::LOOK, bell.notified()).await;
    }
    listening.abort();
}

/// On one connection after another.
async fn listen<S: Source>(store: Weak<S>) {
    while let Some(source) = store.upgrade() {
        let hearing = source.hear(Arc::clone(&source.following().bell));
        drop(source);
        let Some(hearing) = hearing else { return };
        hearing.await;
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

    use super::*;

    /// Something new is defined for everybody, and the first question about it fails; or all
    /// about that owner are never answered.
    #[derive(Default)]
    struct New {
        hangs: bool,
        is_away: AtomicBool,
        asked: AtomicUsize,
        first: OnceLock<String>,
        following: Following,
    }

    impl Source for New {
        const LOOK: Duration = Duration::from_secs(600);

        async fn versions(&self, owners: &[String]) -> Result<Vec<u64>, StoreError> {
            match self.is_away.load(Ordering::Relaxed) {
                true => Err(StoreError::Unavailable("it is away".to_owned())),
                false => Ok(vec![1; owners.len()]),
            }
        }

        async fn changes(&self, owner: &str, newer_than: u64) -> Result<Definitions, StoreError> {
            let is_first = self.first.get_or_init(|| owner.to_owned()) == owner;
            if self.hangs && is_first {
                return pending().await;
            }
            if !self.hangs && self.asked.fetch_add(1, Ordering::Relaxed) == 0 {
                return Err(StoreError::Unavailable("it cannot be read".to_owned()));
            }
            Ok(Definitions {
                newer_than,
                version: 1,
                whole: true,
                changed: Vec::new(),
            })
        }

        fn deadline(&self) -> Duration {
            match self.hangs {
                true => Duration::ZERO,
                false => Duration::from_secs(600),
            }
        }

        fn hear(&self, _: Arc<Notify>) -> Option<Hearing> {
            None
        }

        fn following(&self) -> &Following {
            &self.following
        }
    }

    #[derive(Default)]
    struct Known(AtomicU64);

    impl Follower for Known {
        fn version(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn follow(&self, news: &Definitions) {
            self.0.store(news.version, Ordering::Relaxed);
        }
    }

    fn followed(source: &New) -> [Arc<Known>; 3] {
        let known = [(); 3].map(|()| Arc::<Known>::default());
        for (owner, one) in ["a", "b", "c"].into_iter().zip(&known) {
            let follower = Arc::downgrade(one) as Weak<dyn Follower>;
            source.following.add(owner, follower, || ());
        }
        known
    }

    /// All whose owners came behind one that could not be read waited for it, for as long as
    /// that was so.
    #[tokio::test]
    async fn an_owner_that_cannot_be_read_keeps_no_other_from_those_who_follow_it() {
        let source = New::default();
        let known = followed(&source);
        assert!(source.following.look(&source).await.is_err(), "it is told");
        let told = known.iter().filter(|one| one.version() == 1);
        assert_eq!(told.count(), 2);
        assert_eq!(source.following.look(&source).await, Ok(()));
        assert!(known.iter().all(|one| one.version() == 1));
    }

    /// Each look came as far as to it.
    #[tokio::test(start_paused = true)]
    async fn an_owner_that_takes_too_long_keeps_no_other_from_those_who_follow_it() {
        let source = New {
            hangs: true,
            ..New::default()
        };
        let known = followed(&source);
        for _ in 0..4 {
            assert!(source.following.look(&source).await.is_err(), "it is told");
        }
        let told = known.iter().filter(|one| one.version() == 1);
        assert_eq!(told.count(), 2);
    }

    /// Where it had been broken off was forgotten by a look that found nobody: with every
    /// other one such, all began with that owner.
    #[tokio::test(start_paused = true)]
    async fn a_look_that_finds_nobody_forgets_no_place() {
        let source = New {
            hangs: true,
            ..New::default()
        };
        let known = followed(&source);
        for look in 0..8 {
            source.is_away.store(look % 2 == 1, Ordering::Relaxed);
            assert!(source.following.look(&source).await.is_err(), "it is told");
        }
        let told = known.iter().filter(|one| one.version() == 1);
        assert_eq!(told.count(), 2);
    }
}
