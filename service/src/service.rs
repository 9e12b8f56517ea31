//! The policies by name, on one store; exchanged while in use.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_store::definitions::at_once;
use tidegate_store::sync::Mutex;
use tidegate_store::{
    Alarm, Change as StoreChange, Defined, Definition, Definitions, Event, Follower,
    LocalDefinitions, Page, Store, StoreError, StoreFuture, Timer, TimerHandler,
};

use super::access::{Caller, Credentials, Entrance};
use super::active_policy::ActivePolicy;
use super::ad_hoc::AdHoc;
use super::audit::{self, Retention};
use super::bounds::MOST_EVENTS;
use super::change::{self, Change};
use super::denials::{Denials, Frequent, Watcher};
use super::entities::{self, Known};
use super::error::{ServiceError, cut};
use super::limiter::Limiter;
use super::meters;
use super::namespaces::{self, DEFAULT, Exchanged, NamespacePolicies, Registry, Serves};
use super::overrides::{self, OWNER, OverrideTarget, Stored};
use super::pooled::Pooled;
use super::rate::{self, Rate};
use super::retired::Retired;
use super::share::Share;
use super::spans;
use super::tables;
use tidegate::internal::{Differing, SetBuilderInternals, SetInternals, pending};
use tidegate::{BuildError, Clock, Error, Key, LimitSet, Pending, Timestamp};
use tidegate_policy::{Credential, FailureMode, Policy, PolicyFile, PolicyMember, Scope};
use tidegate_store::block_on;

/// How long a request may wait if nothing is said.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

type Policies = HashMap<String, Arc<ActivePolicy>, foldhash::fast::RandomState>;

/// What every protocol calls. Cloning shares it.
#[derive(Clone)]
pub struct Service(Arc<Shared>);

struct Shared {
    policies: ArcSwap<Policies>,
    ad_hoc: AdHoc,
    entrance: Arc<Entrance>,
    store: Option<Arc<dyn Store>>,
    /// What is defined where there is no store.
    local_definitions: LocalDefinitions,
    clock: Clock,
    denials: Arc<Denials>,
    longest_wait: Duration,
    /// One exchange at a time; what the last ones took away.
    exchange: Mutex<Retired>,
    /// What holds in place of what the policies say; changed by whoever exchanges.
    overrides: RwLock<Stored>,
    /// Their version.
    version: AtomicU64,
    /// When the next of them ends.
    alarm: Mutex<Option<Alarm>>,
    /// Whom that is told.
    this: Weak<Shared>,
    retention: Retention,
    /// The entities that were asked for lately.
    entities: Arc<Known>,
    /// The namespace that it is for, if it is for one.
    namespace: Option<Arc<str>>,
    /// The namespaces beside it, if it is for none.
    namespaces: Option<Arc<Registry<Tenant>>>,
}

/// What serves one namespace: a service of its own, and what it goes by.
pub(super) struct Tenant {
    service: Service,
    policies: Arc<dyn Exchanged>,
}

impl Tenant {
    pub(super) fn new(service: Service, policies: Arc<dyn Exchanged>) -> Self {
        Self { service, policies }
    }

    pub(super) const fn service(&self) -> &Service {
        &self.service
    }

    pub(super) fn policies(&self) -> &dyn Exchanged {
        &*self.policies
    }
}

impl Serves for Tenant {
    fn stop(&self) {
        self.service.close();
        let all = self.service.all_active();
        all.iter().for_each(|active| active.gone());
    }
}

/// Makes a [`Service`]; [`Service::builder`] begins one.
#[derive(Clone, Default)]
pub struct ServiceBuilder {
    store: Option<Arc<dyn Store>>,
    clock: Clock,
    credentials: Credentials,
    /// Of the server, where this is for a namespace of it: in place of the credentials.
    entrance: Option<Arc<Entrance>>,
    longest_wait: Option<Duration>,
    retention: Retention,
    namespace: Option<Arc<str>>,
    of_namespaces: Option<NamespacePolicies>,
}

impl ServiceBuilder {
    /// Keeps all state in `store`; in memory, each policy by itself, if not said.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Reads the time from `clock`.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Lets in who has one of these tokens; everyone if not said.
    #[must_use]
    pub fn credentials(mut self, tokens: impl IntoIterator<Item = Credential>) -> Self {
        self.credentials = Credentials::new(tokens);
        self
    }

    /// The longest that a request may wait, over every protocol: 300 s if not said. A
    /// longer one is an error, [`ServiceError::WaitTooLong`].
    #[must_use]
    pub fn longest_wait(mut self, longest_wait: Duration) -> Self {
        self.longest_wait = Some(longest_wait);
        self
    }

    /// For how long the store keeps audit events, and how many of each sort (of overrides, of
    /// policies, of keys) at most: 90 days and 10,000 if not said. More than [`MOST_EVENTS`] it never
    /// keeps. What is set holds for events from then on; the oldest go as new ones come.
    #[must_use]
    pub fn audit(mut self, lasts: Duration, most: u32) -> Self {
        let most = most.clamp(1, MOST_EVENTS);
        self.retention = Retention { lasts, most };
        self
    }

    /// The policies of namespaces; those that the service begins with if not said.
    #[must_use]
    pub fn namespaces(mut self, policies: NamespacePolicies) -> Self {
        self.of_namespaces = Some(policies);
        self
    }

    /// The namespaces that the store keeps, followed from now on. Where they cannot be read now
    /// they are as soon as they can be.
    fn registry(&self, file: &PolicyFile) -> Option<Arc<Registry<Tenant>>> {
        let store = self.store.as_ref().filter(|_| self.namespace.is_none())?;
        let usual = || NamespacePolicies {
            usual: file.clone(),
            own: Vec::new(),
        };
        let policies = self.of_namespaces.clone().unwrap_or_else(usual);
        let registry = Arc::new(Registry::new(
            Arc::clone(store),
            policies,
            self.clock.clone(),
        ));
        let follower: Weak<dyn Follower> = Arc::downgrade(&registry) as _;
        store.follow(namespaces::OWNER, follower);
        Some(registry)
    }

    /// The service, with these policies.
    ///
    /// # Errors
    /// A store that cannot do what a policy needs.
    pub fn build(self, file: &PolicyFile) -> Result<Service, Error> {
        meters::describe();
        let denials = Arc::<Denials>::default();
        let (overrides, version) = self.overrides()?;
        let namespaces = self.registry(file);
        let own = || Arc::new(Entrance::new(self.credentials));
        let entrance = self.entrance.unwrap_or_else(own);
        let service = Service(Arc::new_cyclic(|this| Shared {
            policies: ArcSwap::default(),
            ad_hoc: AdHoc::new(self.store.clone(), self.clock.clone(), Arc::clone(&denials))
                .of_namespace(self.namespace.clone()),
            entrance,
            store: self.store,
            local_definitions: LocalDefinitions::default(),
            clock: self.clock,
            denials,
            longest_wait: self.longest_wait.unwrap_or(LONGEST_WAIT),
            exchange: Mutex::default(),
            overrides: RwLock::new(overrides),
            version: AtomicU64::new(version),
            alarm: Mutex::default(),
            this: Weak::clone(this),
            retention: self.retention,
            entities: Arc::default(),
            namespace: self.namespace,
            namespaces,
        }));
        // What ended while nobody was there never holds.
        service.0.let_go_of_what_is_over();
        service.go_over(file, &mut Retired::default())?;
        let names = file.policies.iter().map(|policy| policy.name.as_str());
        let space = service.0.namespace.as_deref();
        audit::begin(space, &names.collect::<Vec<_>>().join(", "));
        let shared: Weak<dyn Follower> = Weak::clone(&service.0.this) as _;
        let known: Weak<dyn Follower> = Arc::downgrade(&service.0.entities) as _;
        for (owner, follower) in [(OWNER, shared), (entities::OWNER, known)] {
            match &service.0.store {
                Some(store) => store.follow(owner, follower),
                None => service.0.local_definitions.follow(owner, follower),
            }
        }
        Ok(service)
    }

    /// What is stored, and its version. What cannot be read keeps a service from its start.
    fn overrides(&self) -> Result<(Stored, u64), Error> {
        let mut stored = Stored::default();
        let Some(store) = &self.store else {
            return Ok((stored, 0));
        };
        let definitions = block_on(store.definitions(OWNER, 0))?;
        let mut fault = None;
        let now = self.clock.now();
        stored.follow(&definitions, now, |_, error| fault = Some(error));
        match fault {
            Some(error) => Err(error.into()),
            None => Ok((stored, definitions.version)),
        }
    }
}

impl Shared {
    fn stored(&self) -> RwLockReadGuard<'_, Stored> {
        let stored = self.overrides.read();
        stored.unwrap_or_else(PoisonError::into_inner)
    }

    fn stored_to_change(&self) -> RwLockWriteGuard<'_, Stored> {
        let stored = self.overrides.write();
        stored.unwrap_or_else(PoisonError::into_inner)
    }

    fn all_active(&self) -> Vec<Arc<ActivePolicy>> {
        self.policies.load().values().cloned().collect()
    }

    /// Tells all servers of the store, this one first.
    fn tell(&self, owner: &str, change: StoreChange) -> StoreFuture<Defined> {
        match &self.store {
            Some(store) => store.change(owner, change),
            None => at_once(self.local_definitions.change(owner, &change)),
        }
    }

    /// Whether other processes see what its store keeps, which then forgets by itself what
    /// lasts for a while.
    fn is_shared(&self) -> bool {
        let store = self.store.as_ref();
        store.is_some_and(|store| store.abilities().shared)
    }

    /// Has the alarm ring when the next override ends.
    fn wind(&self) {
        let next = self.stored().next_end();
        let mut alarm = self.alarm.lock();
        if alarm.map(|alarm| alarm.at) == next {
            return;
        }
        if let Some(old) = alarm.take() {
            self.clock.unset(old);
        }
        let this = Weak::clone(&self.this);
        *alarm = next.map(|at| Timer::set(&self.clock, at, this));
    }

    /// What has ended holds no more; a store that does not forget it by itself is told.
    fn let_go_of_what_is_over(&self) {
        let now = self.clock.now();
        *self.alarm.lock() = None;
        if !self.is_shared() {
            let over = self.stored().over(now);
            for (target, version) in over {
                let gone = StoreChange::from(Definition::none(target.encode()));
                if let Err(error) = block_on(self.tell(OWNER, gone.expecting(version))) {
                    overrides::tell_of_end(&target, &error);
                }
            }
        }
        let _one_at_a_time = self.exchange.lock();
        let touched = self.stored_to_change().drop_over(now);
        overrides::go_over(&self.all_active(), &self.stored(), &touched);
        self.wind();
    }
}

impl TimerHandler for Shared {
    fn fire(self: Arc<Self>, _: Timestamp) {
        // A store may hold this up, and others wait for the clock's next alarm.
        let thread = thread::Builder::new().name("tidegate-overrides".to_owned());
        let shared = Arc::clone(&self);
        if thread
            .spawn(move || shared.let_go_of_what_is_over())
            .is_err()
        {
            self.let_go_of_what_is_over();
        }
    }
}

impl Follower for Shared {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn follow(&self, definitions: &Definitions) {
        // Policies are not exchanged meanwhile.
        let _one_at_a_time = self.exchange.lock();
        if definitions.newer_than != self.version() {
            return;
        }
        let unread =
            |target: &OverrideTarget, error: StoreError| overrides::tell_of(target, &error);
        let mut stored = self.stored_to_change();
        let had_any = !stored.is_empty();
        let touched = stored.follow(definitions, self.clock.now(), unread);
        let is_lost = had_any && stored.is_empty() && definitions.version < definitions.newer_than;
        drop(stored);
        if is_lost {
            overrides::tell_of_loss();
        }
        // A store may hold this up, and with it nobody who looks at what is stored.
        overrides::go_over(&self.all_active(), &self.stored(), &touched);
        self.version.store(definitions.version, Ordering::Release);
        self.wind();
    }
}

impl Service {
    /// Begins a service.
    #[must_use]
    pub fn builder() -> ServiceBuilder {
        ServiceBuilder::default()
    }

    /// The longest that a request may wait.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        self.0.longest_wait
    }

    /// Lets in whoever has this token, or everyone while there is none.
    ///
    /// # Errors
    /// [`ServiceError::Unauthenticated`], [`ServiceError::UnknownToken`].
    pub fn enter(&self, token: Option<&str>) -> Result<Caller, ServiceError> {
        self.enter_by(token.map(str::as_bytes))
    }

    /// As [`enter`](Self::enter), by the bytes that a client has sent: whoever has sent
    /// other bytes than visible ASCII has no token.
    ///
    /// # Errors
    /// [`ServiceError::Unauthenticated`], [`ServiceError::UnknownToken`].
    pub fn enter_by(&self, token: Option<&[u8]>) -> Result<Caller, ServiceError> {
        let caller = self.0.entrance.now().identify(token);
        if let Err(error) = &caller {
            meters::count_unauthenticated();
            tracing::debug!("a client was not let in: {error}");
        }
        spans::record_error(caller)
    }

    /// Whether everyone is let in.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.entrance.now().is_open()
    }

    /// Lets in again whoever came in before the tokens were replaced, for
    /// protocols whose callers stay.
    ///
    /// # Errors
    /// [`ServiceError::UnknownToken`]: their token is no longer one;
    /// [`ServiceError::Unauthenticated`]: one is needed by now.
    pub fn readmit(&self, caller: &Caller) -> Result<Caller, ServiceError> {
        self.0.entrance.now().readmit(caller)
    }

    /// A number that grows whenever the tokens are replaced: whoever came in
    /// before is to be [readmitted](Self::readmit).
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.entrance.generation()
    }

    /// A limit whose numbers come with the call, for `caller` to decide by. It
    /// is the policy [`AD_HOC_POLICY`](super::AD_HOC_POLICY) to tokens and meters.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`]; numbers that make no rate;
    /// [`ServiceError::TooManyRates`]; [`ServiceError::Busy`], where a store is asked for too many
    /// new ones at once.
    pub fn ad_hoc<'a>(
        &'a self,
        caller: &'a Caller,
        rate: Rate,
    ) -> Pending<impl Future<Output = Result<Arc<ActivePolicy>, ServiceError>> + Send + 'a> {
        pending(async move {
            spans::policy(rate::POLICY);
            let found = match caller.check(Scope::Decide, Some(rate::POLICY)) {
                Ok(()) => self.0.ad_hoc.get(caller, rate).await,
                Err(error) => Err(error),
            };
            spans::record_error(found)
        })
    }

    /// Whether `caller` acts in the namespace that this is the service of.
    #[inline]
    pub(super) fn is_home_of(&self, caller: &Caller) -> bool {
        caller.namespace() == self.0.namespace.as_deref()
    }

    /// The namespaces of its store.
    pub(super) fn namespaces(&self) -> Option<&Arc<Registry<Tenant>>> {
        self.0.namespaces.as_ref()
    }

    /// What begins the service of a namespace, on its part of the store. It lets in whom this
    /// one does.
    pub(super) fn builder_for(
        &self,
        namespace: &Arc<str>,
        store: Arc<dyn Store>,
    ) -> ServiceBuilder {
        ServiceBuilder {
            store: Some(store),
            clock: self.0.clock.clone(),
            entrance: Some(Arc::clone(&self.0.entrance)),
            longest_wait: Some(self.0.longest_wait),
            retention: self.0.retention,
            namespace: Some(Arc::clone(namespace)),
            ..ServiceBuilder::default()
        }
    }

    /// The policy `name`, for `caller` to use in this way.
    ///
    /// # Errors
    /// [`ServiceError::Forbidden`], also for a name that does not exist unless
    /// the caller may see all; [`ServiceError::UnknownPolicy`]; a caller in a namespace, whom
    /// [`call`](Self::call) answers.
    pub fn policy(
        &self,
        caller: &Caller,
        scope: Scope,
        name: &str,
    ) -> Result<Arc<ActivePolicy>, ServiceError> {
        let may = match self.is_home_of(caller) {
            true => caller.check(scope, Some(name)),
            // It is to be asked by `call`, which goes there.
            false => Err(caller.other_namespace(self.0.namespace.as_deref().unwrap_or(DEFAULT))),
        };
        let found = may.and_then(|()| {
            let policies = self.0.policies.load();
            let active = policies.get(name).cloned();
            active.ok_or_else(|| unknown(&policies, name, (caller, scope)))
        });
        if found.is_ok() {
            spans::policy(name);
        }
        spans::record_error(found)
    }

    /// As [`policy`](Self::policy), for a request about `key`: what can be no key is told
    /// first, whatever the policy.
    ///
    /// # Errors
    /// As there; a key of no bytes, or of more than 4,096.
    pub fn policy_for(
        &self,
        caller: &Caller,
        scope: Scope,
        name: &str,
        key: Key<'_>,
    ) -> Result<Arc<ActivePolicy>, ServiceError> {
        let checked = key.check().map_err(|wrong| Error::from(wrong).into());
        spans::record_error(checked)?;
        self.policy(caller, scope, name)
    }

    /// Where all state is, unless each policy keeps it by itself in memory.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.0.store.as_ref()
    }

    /// What it reads the time from.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Every policy that `caller` may observe, by name: none of a caller in a namespace, whom
    /// [`call`](Self::call) answers.
    #[must_use]
    pub fn policies(&self, caller: &Caller) -> Vec<Arc<ActivePolicy>> {
        let is_home = self.is_home_of(caller);
        let may = |active: &&Arc<ActivePolicy>| {
            let name = &active.policy().name;
            is_home && caller.check(Scope::Observe, Some(name)).is_ok()
        };
        let policies = self.0.policies.load();
        let mut seen: Vec<_> = policies.values().filter(may).cloned().collect();
        seen.sort_by(|a, b| a.policy().name.cmp(&b.policy().name));
        seen
    }

    /// What an exchange for `file` would change.
    #[must_use]
    pub fn compare(&self, file: &PolicyFile) -> Vec<Change> {
        let policies = self.0.policies.load();
        change::between(policies.values().map(|active| active.policy()), file)
    }

    /// Goes over to the policies of `file`, from the next decision on. What
    /// was used stays used; a policy that is gone, or has other levels, is
    /// forgotten; but on a store that others share, if it comes back as it was, leases that a tier of
    /// it gave are known. Answers what has changed; `by` is noted with it. The calling thread
    /// waits for the store, to open what is new there: in a runtime, call it where that
    /// may be (`spawn_blocking`).
    ///
    /// # Errors
    /// A store that cannot do it; then the old policies go on.
    pub fn exchange(&self, by: &str, file: &PolicyFile) -> Result<Vec<Change>, Error> {
        let mut retired = self.0.exchange.lock();
        let changes = self.go_over(file, &mut retired)?;
        for change in &changes {
            let space = self.0.namespace.as_deref();
            audit::note(space, by, "policies", &change.to_string());
        }
        Ok(changes)
    }

    /// One at a time does it.
    fn go_over(&self, file: &PolicyFile, retired: &mut Retired) -> Result<Vec<Change>, Error> {
        let changes = self.compare(file);
        let old = self.0.policies.load_full();
        let mut new = Policies::default();
        for policy in &file.policies {
            let known = old.get(&policy.name);
            let active = match known {
                Some(active) if active.policy() == policy => Arc::clone(active),
                Some(known) => self.active(policy, Some(known))?,
                None => self.active(policy, retired.back(policy))?,
            };
            new.insert(policy.name.clone(), active);
        }
        for active in new.values() {
            let fits = active.check_governed(&self.0.stored());
            fits.inspect_err(|error| tell_of_tier(active, error))?;
        }
        // Nothing has changed so far; from here on nothing fails.
        for active in new.values() {
            active.govern(&self.0.stored())?;
        }
        for (name, active) in old.iter() {
            stop_who_is_gone(active, new.get(name).map(|active| &**active));
        }
        let kept: HashSet<String> = new.values().flat_map(|s| table_names(s)).collect();
        let new = Arc::new(new);
        self.0.policies.store(Arc::clone(&new));
        // Nobody looks at those again.
        old.values().for_each(|active| active.observe_tier());
        let gone = old.iter().filter(|(name, _)| !new.contains_key(*name));
        for (_, active) in gone {
            active.gone();
            if self.is_shared() {
                retired.keep(active);
            }
        }
        retired.forget_back(|name| new.contains_key(name));
        if let Some(store) = &self.0.store {
            let gone = old.values().flat_map(|active| table_names(active));
            let gone = gone.filter(|name| !kept.contains(name));
            gone.for_each(|name| store.forget(&name));
        }
        Ok(changes)
    }

    /// Lets in who has one of these tokens, from now on; whether they are others.
    pub fn replace_credentials(&self, tokens: impl IntoIterator<Item = Credential>) -> bool {
        self.0.entrance.replace(Credentials::new(tokens))
    }

    /// Tells `watcher` of every refusal, for as long as it is kept somewhere.
    pub(super) fn watch_denials(&self, watcher: &Arc<Watcher>) {
        self.0.denials.watch(watcher);
    }

    /// The keys refused most often, the most frequent first; counted in a
    /// sketch of a few hundred keys.
    #[must_use]
    pub fn most_denied(&self, most: usize) -> Vec<Frequent> {
        self.0.denials.most_frequent(most)
    }

    /// The services of namespaces that were asked, and answer.
    fn tenants(&self) -> Vec<Service> {
        let spaces = self.0.namespaces.iter().flat_map(|registry| registry.all());
        let answer = spaces.filter(|space| space.check().is_ok());
        let tenants = answer.filter_map(|space| space.serves());
        tenants.map(|tenant| tenant.service().clone()).collect()
    }

    /// Brings what is measured up to date, before it is read.
    pub fn observe(&self) {
        let policies = self.0.policies.load();
        policies.values().for_each(|active| active.observe());
        // Whoever exchanges the policies may wait for the store meanwhile: at the next look, then.
        if let Some(mut retired) = self.0.exchange.try_lock() {
            retired.forget_idle();
        }
        self.tenants().iter().for_each(Self::observe);
    }

    /// Answers everyone who waits that the service closes.
    pub fn close(&self) {
        self.tenants().iter().for_each(Self::close);
        let policies = self.0.policies.load();
        policies
            .values()
            .flat_map(|active| active.every_set())
            .for_each(LimitSet::stop_waiting);
    }

    /// Gives back to the store what tiers hold, and ends when that has answered: when nobody asks
    /// any more.
    pub async fn return_grants(&self) {
        let services = self.tenants().into_iter().chain([self.clone()]);
        let active: Vec<_> = services.flat_map(|service| service.all_tiers()).collect();
        let sets = active.iter().flat_map(|active| active.every_set());
        // All are given back before the first answer is waited for.
        let returned: Vec<_> = sets.map(LimitSet::return_grants).collect();
        for answered in returned {
            answered.await;
        }
    }

    pub(super) fn all_active(&self) -> Vec<Arc<ActivePolicy>> {
        self.0.all_active()
    }

    /// Every policy that may hold something of its store: those in use, and those that are gone.
    fn all_tiers(&self) -> Vec<Arc<ActivePolicy>> {
        let mut all = self.all_active();
        // An exchange may wait for the store: a server that stops does not wait for that.
        if let Some(retired) = self.0.exchange.try_lock() {
            all.extend(retired.all().cloned());
        }
        all
    }

    /// What is stored, to look at.
    pub(super) fn seen(&self) -> RwLockReadGuard<'_, Stored> {
        self.0.stored()
    }

    /// Tells all servers of the store, this one first.
    pub(super) fn tell(&self, owner: &str, change: StoreChange) -> StoreFuture<Defined> {
        self.0.tell(owner, change)
    }

    /// What the store keeps for `owner` under `key`, whatever this server knows of it.
    pub(super) fn stored_at(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        match &self.0.store {
            Some(store) => store.definition(owner, key),
            None => at_once(Ok(self.0.local_definitions.definition(owner, key))),
        }
    }

    /// What the store keeps for `owner` under `key`, with as many ancestors as it reads in one trip.
    pub(super) fn stored_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        match &self.0.store {
            Some(store) => store.definition_with_ancestors(owner, key, parent_offset),
            None => {
                let local = &self.0.local_definitions;
                at_once(Ok(local.definition_with_ancestors(
                    owner,
                    key,
                    parent_offset,
                )))
            }
        }
    }

    /// What the store keeps for `owner` under each of these keys, asked for at once.
    pub(super) fn stored_definitions_at(
        &self,
        owner: &str,
        keys: &[&[u8]],
    ) -> StoreFuture<Vec<Option<Definition>>> {
        match &self.0.store {
            Some(store) => store.definitions_at(owner, keys),
            None => {
                let local = &self.0.local_definitions;
                at_once(Ok(keys
                    .iter()
                    .map(|key| local.definition(owner, key))
                    .collect()))
            }
        }
    }

    /// A page of what the store keeps for `owner` under keys that begin with `prefix`.
    pub(super) fn stored_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        match &self.0.store {
            Some(store) => store.definitions_page(owner, prefix, after, most),
            None => {
                let local = &self.0.local_definitions;
                at_once(Ok(local.page(owner, prefix, after, most)))
            }
        }
    }

    /// The entities that were asked for lately.
    pub(super) fn known_entities(&self) -> &Known {
        &self.0.entities
    }

    /// A page of the events that the store keeps for `owner`.
    pub(super) fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Event>> {
        let now = self.0.clock.now();
        match &self.0.store {
            Some(store) => store.events(owner, subject, after, most, now),
            None => {
                let local = &self.0.local_definitions;
                at_once(local.events(owner, subject, after, most, now))
            }
        }
    }

    /// Whether the store forgets by itself what lasts for a while.
    pub(super) fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    /// For how long audit events are kept, and how many.
    pub(super) fn retention(&self) -> Retention {
        self.0.retention
    }

    /// A policy in use, which goes on where `before` stands.
    fn active(
        &self,
        policy: &Policy,
        before: Option<&ActivePolicy>,
    ) -> Result<Arc<ActivePolicy>, Error> {
        let before = before.filter(|active| active.policy().levels == policy.levels);
        let limiter = self.limiter(
            policy,
            before.map(ActivePolicy::limiter),
            self.0.store.as_ref(),
        )?;
        let share = match policy.failure_mode {
            FailureMode::Share(percent) => {
                let before = before.and_then(ActivePolicy::share).map(Share::limiter);
                // What is decided without the store is not counted: nobody could read it. And
                // nothing of it is out at other servers.
                let mut alone = policy.clone();
                (alone.usage, alone.tier) = (None, None);
                Some(Share::new(percent, self.limiter(&alone, before, None)?))
            }
            _ => None,
        };
        let denials = Arc::clone(&self.0.denials);
        Ok(Arc::new(ActivePolicy::new(
            policy.clone(),
            limiter,
            share,
            denials,
            (self.0.longest_wait, self.0.namespace.as_deref()),
            before,
        )))
    }

    /// What decides, in `store` or in this process; what was there before goes on.
    fn limiter(
        &self,
        policy: &Policy,
        before: Option<&Limiter>,
        store: Option<&Arc<dyn Store>>,
    ) -> Result<Limiter, Error> {
        if !policy.is_pool() {
            let known = before.and_then(Limiter::plain).cloned();
            let set = known.map_or_else(|| self.set(policy, None, store), Ok)?;
            return Ok(Limiter::Set(set));
        }
        let before = before.and_then(Limiter::pool);
        let set = |member: &PolicyMember| {
            let known = before.and_then(|pooled| pooled.pool().member(&member.name));
            match known {
                Some(known) => Ok(known.set().clone()),
                None => self.set(policy, Some(member), store),
            }
        };
        let sets = policy.members.iter().map(set).collect::<Result<_, _>>()?;
        Ok(Limiter::Pool(Pooled::new(policy, sets, before)?))
    }

    /// The limits of a plain policy, or of one member.
    fn set(
        &self,
        policy: &Policy,
        member: Option<&PolicyMember>,
        store: Option<&Arc<dyn Store>>,
    ) -> Result<LimitSet, Error> {
        let limits = member.map_or(&policy.limits, |member| &member.limits);
        let mut builder = LimitSet::builder()
            .name(tables::of_policy(policy, member))
            .limits(limits.iter().cloned())
            .levels(policy.levels.iter().cloned())
            .governed(overrides::all_given(&self.0.stored(), &policy.name))
            .clock(self.0.clock.clone());
        if let Some(max_keys) = policy.max_keys {
            builder = builder.max_keys(max_keys);
        }
        if let Some(max_keys_per_root) = policy.max_keys_per_root {
            builder = builder.max_keys_per_root(max_keys_per_root);
        }
        if let Some(max_leases) = policy.max_leases {
            builder = builder.max_leases(max_leases);
        }
        if let Some(max_leases_per_root) = policy.max_leases_per_root {
            builder = builder.max_leases_per_root(max_leases_per_root);
        }
        if let Some(max_remembered_leases) = policy.max_remembered_leases {
            builder = builder.max_remembered_leases(max_remembered_leases);
        }
        if let Some(remember) = policy.remember {
            builder = builder.remember(remember);
        }
        if let Some(usage) = policy.usage {
            builder = builder.keep_usage(usage);
        }
        if let Some(max_waiting) = policy.max_waiting {
            builder = builder.max_waiting(max_waiting);
        }
        if let Some(tier) = policy.tier.as_ref().filter(|_| member.is_none()) {
            builder = builder.tier(tier.clone());
        }
        if let Some(max_waiting_per_root) = policy.max_waiting_per_root {
            builder = builder.max_waiting_per_root(max_waiting_per_root);
        }
        if let Some(store) = store {
            builder = builder.store(Arc::clone(store));
        }
        let set = builder.build()?;
        set.differing()
            .iter()
            .for_each(|limit| warn_of(policy, member, limit));
        Ok(set)
    }
}

/// Another server, or an earlier start of this one, had another limit by this name.
fn warn_of(policy: &Policy, member: Option<&PolicyMember>, differing: &Differing) {
    let none = "no such limit";
    tracing::warn!(
        policy = policy.name,
        member = member.map(|member| &*member.name),
        limit = differing.limit,
        here = differing.here.as_deref().unwrap_or(none),
        in_the_store = differing.there.as_deref().unwrap_or(none),
        "a limit of this server's file differs from the one in the store (set by another server, or \
         before the file was changed); give all servers of a store the same policies"
    );
}

/// Logs why limits do not hold that fit the tier of their file, with what to do.
fn tell_of_tier(active: &ActivePolicy, error: &BuildError) {
    tracing::error!(
        policy = active.policy().name,
        error = %error,
        "the policies stay as they were: these limits do not fit the `tier` by which this server was \
         started, and a change of that binds from the next start on; start it anew, or give the \
         policy limits that fit both"
    );
}

/// What the store calls the tables of a policy in use.
fn table_names(active: &ActivePolicy) -> Vec<String> {
    let policy = active.policy();
    match policy.is_pool() {
        true => {
            let members = policy.members.iter();
            members
                .map(|member| tables::of_policy(policy, Some(member)))
                .collect()
        }
        false => vec![tables::of_policy(policy, None)],
    }
}

/// Whoever waits at a set that nobody asks any more is told so.
fn stop_who_is_gone(old: &ActivePolicy, new: Option<&ActivePolicy>) {
    let goes_on =
        |set: &LimitSet| new.is_some_and(|new| new.every_set().any(|other| other.is_same(set)));
    let gone = old.every_set().filter(|set| !goes_on(set));
    gone.for_each(LimitSet::stop_waiting);
}

/// No such policy; those that the caller may use are named.
fn unknown(policies: &Policies, name: &str, (caller, scope): (&Caller, Scope)) -> ServiceError {
    let theirs = policies
        .keys()
        .filter(|name| caller.check(scope, Some(name)).is_ok());
    let mut known: Vec<_> = theirs.map(|name| format!("`{name}`")).collect();
    known.sort_unstable();
    if known.is_empty() {
        known.push("none that this token may use".to_owned());
    }
    ServiceError::UnknownPolicy {
        name: cut(name).into(),
        known: known.join(", "),
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies = self.0.policies.load();
        let mut names: Vec<_> = policies.keys().collect();
        names.sort_unstable();
        f.debug_struct("Service")
            .field("policies", &names)
            .finish_non_exhaustive()
    }
}
