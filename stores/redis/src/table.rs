//! One set's table: a command's way to the server and back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use redis::Value;
use tidegate_contract::{
    Command, Execution, HeldLease, KeyCommand, KeyPath, Later, Out, OwnedKey, OwnedListing, Page,
    Reply, StoreError, Table,
};
use tidegate_remote::waiting::{Line, Waiting};
use tidegate_remote::{Changes, Commands, Driver, Ears, Finish, begin, closed};

use crate::edition::{Editions, Known};
use crate::error::garbled;
use crate::keys::Names;
use crate::link::Link;
use crate::options::Clock;
use crate::plain::{Plain, Take};
use crate::registry::Registry;
use crate::request::Request;
use crate::script::{Needs, Scripts};
use crate::waiting::InLine;
use crate::wire::reply::{self, Answer};

/// So many commands.
const LIKELY: u32 = 64;

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) scripts: Scripts,
    pub(crate) clock: Clock,
    pub(crate) ears: Arc<Ears>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct RedisTable {
    // Declared first, dropped first: what drives the work is there until it is done.
    _finish: Finish,
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) names: Names,
    pub(crate) registry: Registry,
    pub(crate) changes: Changes<Arc<Known>>,
    /// So many more commands are asked by a script that knows of those who wait.
    lines: Likely,
    /// So many more are asked by the whole script.
    not_plain: Likely,
}

/// A command on its way.
enum Asked {
    /// By the short script.
    Plain(Arc<Plain>, Take),
    /// By the whole one.
    Whole(Request),
}

/// What was met once is likely to be met by the next commands, too.
#[derive(Debug, Default)]
struct Likely(AtomicU32);

impl Likely {
    fn fill(&self) {
        self.0.store(LIKELY, Ordering::Relaxed);
    }

    /// Whether it is likely to be met by this one.
    fn spend(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.0.fetch_update(set, fetch, less).is_ok()
    }
}

impl RedisTable {
    pub(crate) fn new(shared: Arc<Shared>, finish: Finish, names: Names) -> Self {
        let registry = Registry::new(names.plans(), shared.clock);
        let inner = Arc::new(Inner {
            shared,
            names,
            registry,
            changes: Changes::default(),
            lines: Likely::default(),
            not_plain: Likely::default(),
        });
        Self {
            inner,
            _finish: finish,
        }
    }
}

impl Table for RedisTable {
    fn execute(&self, command: &Command<'_>, _: Out<'_>) -> Execution {
        begin(&self.inner, command).into()
    }
}

impl Commands for Inner {
    fn driver(&self) -> &Driver {
        self.shared.link.driver()
    }

    fn send(self: &Arc<Self>, command: &KeyCommand<'_>) -> Later {
        let settled = self.changes.settled_on(command.plan);
        let link = &self.shared.link;
        let keeps_nobody = link.connection().is_shared() && settled.is_some();
        let (inner, asked) = (Arc::clone(self), self.asked(command, settled));
        let work = async move { inner.execute(asked).await };
        if !keeps_nobody {
            return link.driver().later(work);
        }
        match link.drive(work) {
            Some(driven) => Later::new(driven),
            None => Later::new(std::future::ready(Err(closed()))),
        }
    }

    fn line(self: &Arc<Self>, _: &Waiting) -> impl Line {
        InLine::new(self)
    }

    fn follow(&self, command: &Command<'_>) {
        let changes = &self.changes;
        let _ = changes.follow(command.plan, command.now, command.calendars);
        self.shared.ears.tell_all();
    }

    async fn catch_up(self: Arc<Self>) -> Result<(), StoreError> {
        self.edition().await.map(drop)
    }

    async fn page_of_keys(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> Result<Page<OwnedKey>, StoreError> {
        self.keys(&listing.lend()).await
    }

    async fn page_of_leases(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> Result<Page<HeldLease>, StoreError> {
        self.leases(&listing.lend()).await
    }

    async fn count(self: Arc<Self>) -> Result<usize, StoreError> {
        self.count_keys().await
    }
}

impl Inner {
    /// A command on its shortest way, by the edition of its plan, if that is settled.
    fn asked(self: &Arc<Self>, command: &KeyCommand<'_>, settled: Option<Arc<Known>>) -> Asked {
        if let Some(known) = settled.as_ref().filter(|_| self.registry.is_time_to_look()) {
            self.look_after(known);
        }
        let plain = settled.and_then(|known| known.plain.clone());
        let plain = plain.filter(|_| !self.not_plain.spend());
        let take = plain.and_then(|plain| Some((plain, Take::of(command, &self.names)?)));
        match take {
            Some((plain, take)) => Asked::Plain(plain, take),
            None => Asked::Whole(Request::of(command, self)),
        }
    }

    /// Beside whatever is asked: nobody waits for it.
    fn look_after(self: &Arc<Self>, known: &Arc<Known>) {
        let (inner, known) = (Arc::clone(self), Arc::clone(known));
        if let Some(tasks) = self.shared.link.driver().tasks() {
            tasks.spawn(async move {
                let Shared { link, scripts, .. } = &*inner.shared;
                let own = &known.registered;
                inner.registry.look_after(link, scripts, own).await;
            });
        }
    }

    async fn execute(self: Arc<Self>, asked: Asked) -> Result<Reply, StoreError> {
        let mut request = match asked {
            Asked::Plain(plain, take) => match self.ask_plain(&plain, &take).await? {
                Some(reply) => return Ok(reply),
                None => Request::of(&take.command()?, &self),
            },
            Asked::Whole(request) => request,
        };
        // The shortest way is not moved with all that this needs.
        match Box::pin(self.answer(&mut request)).await? {
            Answer::Reply(reply) | Answer::Kept(reply) => Ok(reply),
            _ => Err(garbled("no reply")),
        }
    }

    /// The answer to a plain take, if all about it is plain.
    async fn ask_plain(&self, plain: &Plain, take: &Take) -> Result<Option<Reply>, StoreError> {
        let shared = &self.shared;
        if self.changes.settled_on(take.plan()).is_none() {
            return Ok(None);
        }
        let (script, argument) = plain.call(take, shared.clock, &shared.scripts);
        let answer = shared.link.call(script, &take.keys, &[argument]).await?;
        let reply = take.read(answer)?;
        if reply.is_none() {
            self.not_plain.fill();
        }
        Ok(reply)
    }

    /// The answer to a command by the plan that it was made for.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        request: &mut Request,
    ) -> Result<Answer, StoreError> {
        let calendars = &request.calendars;
        let changes = &self.changes;
        changes.follow(&request.plan, request.now, calendars)?;
        let known = changes
            .edition_of(&request.plan, &Editions(Arc::clone(self)))
            .await?;
        self.ask(&known, request).await
    }

    /// Calls the script until nothing is missing to it.
    pub(crate) async fn ask(
        &self,
        known: &Known,
        request: &mut Request,
    ) -> Result<Answer, StoreError> {
        let (mut editions, mut found) = (Vec::new(), BTreeSet::new());
        if self.lines.spend() {
            request.needs = request.needs.and(Needs::LINE);
        }
        loop {
            let value = self.call(known, request, &editions).await?;
            match reply::read(value, &request.deciding, request.now)? {
                Answer::Editions(more, now) => {
                    // Whoever else writes there meanwhile adds to them.
                    found.extend(more);
                    let (link, own) = (&self.shared.link, &known.registered);
                    editions = self.registry.leading_to(link, &found, now, own).await?;
                }
                Answer::More(owners) => {
                    for owner in owners {
                        let path = KeyPath::new(&owner, request.plan.levels());
                        let path = path.map_err(|_| garbled("a lease of no key"))?;
                        request.add_rows(&path, &self.names);
                    }
                }
                Answer::Queued => {
                    self.lines.fill();
                    request.needs = request.needs.and(Needs::LINE);
                }
                answer => return Ok(answer),
            }
        }
    }

    async fn call(
        &self,
        known: &Known,
        request: &Request,
        editions: &[Arc<[u8]>],
    ) -> Result<Value, StoreError> {
        let needs = match editions {
            [] => known.needs.and(request.needs),
            _ => Needs::ALL.and(request.needs),
        };
        let script = self.shared.scripts.get(needs);
        let own = [
            Arc::clone(&known.bytes),
            Arc::clone(&request.command),
            request.rows(),
        ];
        let arguments = [&own, editions].concat();
        let link = &self.shared.link;
        link.call(&script, &request.keys, &arguments).await
    }
}
