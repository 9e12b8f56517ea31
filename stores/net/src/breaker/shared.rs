//! When a store is asked, and when it is not.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_store::StoreError;
use tidegate_store::sync::Mutex;

use super::circuit::{Change, Circuit, Place, Position};
use super::settings::Settings;

/// Told when a store goes away and when it answers again, with the words of the last
/// failure.
pub type Watcher = dyn Fn(Change, &str) + Send + Sync;

/// One for all tables of a store: they share its fate.
pub struct CircuitBreaker {
    settings: Settings,
    began: Instant,
    circuit: Mutex<Circuit>,
    /// What the last failure said.
    words: Mutex<String>,
    watcher: Option<Arc<Watcher>>,
}

impl CircuitBreaker {
    /// A closed one, whose `watcher` is told of every [`Change`].
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "patience: no decision depends on it"
    )]
    pub fn new(settings: Settings, watcher: Option<Arc<Watcher>>) -> Self {
        Self {
            settings,
            began: Instant::now(),
            circuit: Mutex::new(Circuit::new()),
            words: Mutex::default(),
            watcher,
        }
    }

    /// Whether the store is asked now.
    #[must_use]
    pub fn position(&self) -> Position {
        self.circuit.lock().position()
    }

    /// A place for one request of the store. `waits`: it may wait for its turn, and however long that
    /// takes, its giving up says nothing about the store.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], at once: it is not asked now.
    pub(crate) fn enter(self: &Arc<Self>, waits: bool) -> Result<Entry, StoreError> {
        let now = self.now();
        let place = self.circuit.lock().enter(now, waits, &self.settings);
        match place {
            Ok(place) => Ok(Entry {
                breaker: Arc::clone(self),
                place: Some(place),
                since: if waits { Duration::MAX } else { now },
            }),
            Err(left) => Err(self.refusal(left)),
        }
    }

    fn refusal(&self, left: Duration) -> StoreError {
        let words = self.words.lock();
        let asked = match left.is_zero() {
            true => "another request tries whether it answers".to_owned(),
            false => format!(
                "the circuit breaker is open for another {} ms",
                left.as_millis().max(1)
            ),
        };
        StoreError::Unavailable(format!("{asked}; the last error: {words}"))
    }

    /// Does something with the circuit, and tells what that has changed.
    fn tell(&self, act: impl FnOnce(&mut Circuit, Duration) -> Option<Change>) {
        let now = self.now();
        let change = act(&mut self.circuit.lock(), now);
        if let Some(watcher) = &self.watcher
            && let Some(change) = change
        {
            let words = self.words.lock().clone();
            watcher(change, &words);
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "patience: no decision depends on it"
    )]
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn failed(&self, place: Place, words: &str) {
        words.clone_into(&mut self.words.lock());
        let jitter = fastrand::f64();
        self.tell(|circuit, now| circuit.failed(place, now, &self.settings, jitter));
    }
}

impl fmt::Debug for CircuitBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker")
            .field("settings", &self.settings)
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

/// A request that is under way.
pub(crate) struct Entry {
    breaker: Arc<CircuitBreaker>,
    /// Until it is known what became of it.
    place: Option<Place>,
    since: Duration,
}

impl Entry {
    /// What came of it: the words of a store that cannot tell, which has failed. Every
    /// other error is an answer.
    pub(crate) fn end(mut self, outage: Option<&str>) {
        let Some(place) = self.place.take() else {
            return;
        };
        match outage {
            Some(words) => self.breaker.failed(place, words),
            None => {
                let settings = &self.breaker.settings;
                self.breaker
                    .tell(|circuit, now| circuit.answered(place, now, settings));
            }
        }
    }

    /// What came of it says nothing of the store.
    pub(crate) fn ignore(mut self) {
        if let Some(place) = self.place.take() {
            self.breaker.circuit.lock().given_up(place);
        }
    }

    /// The answer, once it is known what came of it.
    pub(crate) fn around<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        self.end(answer.as_ref().err().and_then(StoreError::outage));
        answer
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else {
            return;
        };
        let waited = self.breaker.now().saturating_sub(self.since);
        match waited < self.breaker.settings.patience {
            true => self.breaker.circuit.lock().given_up(place),
            false => {
                let words = format!("no answer within {} ms", waited.as_millis());
                self.breaker.failed(place, &words);
            }
        }
    }
}
