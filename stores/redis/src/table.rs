//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use tidegate_net::waiting::{Line, Waiting};
use tidegate_net::{Changes, Commands, Driver, Finish, begin, closed};
use tidegate_store::{
    Command, Execution, HeldLease, KeyCommand, Out, OwnedKey, OwnedListing, Page, Reply,
    StoreError, StoreFuture, Table,
};

use crate::error::garbled;
use crate::inner::{Inner, Likely};
use crate::keys::Names;
use crate::known::Known;
use crate::plain::{Plain, Take};
use crate::registry::Registry;
use crate::request::Request;
use crate::shared::Shared;
use crate::waiting::InLine;
use crate::wire::reply::Answer;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct RedisTable {
    // Declared first, dropped first: what drives the work is there until it is done.
    _finish: Finish,
    inner: Arc<Inner>,
}

/// A command on its way.
enum Asked {
    /// By the short script.
    Plain(Arc<Plain>, Take),
    /// By the whole one.
    Whole(Request),
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

    fn send(self: &Arc<Self>, command: &KeyCommand<'_>) -> StoreFuture {
        let settled = self.changes.settled_on(command.plan);
        let link = &self.shared.link;
        let keeps_nobody = link.connection().is_shared() && settled.is_some();
        let (inner, asked) = (Arc::clone(self), self.asked(command, settled));
        let work = async move { inner.execute(asked).await };
        if !keeps_nobody {
            return link.driver().later(work);
        }
        match link.drive(work) {
            Some(driven) => StoreFuture::new(driven),
            None => StoreFuture::new(std::future::ready(Err(closed()))),
        }
    }

    fn line(self: &Arc<Self>, _: &Waiting) -> impl Line {
        InLine::new(self)
    }

    fn follow(&self, command: &Command<'_>) {
        let changes = &self.changes;
        let _ = changes.follow(command.plan, command.now, command.calendars);
        self.shared.notifier.notify_all();
    }

    async fn catch_up(self: Arc<Self>) -> Result<(), StoreError> {
        self.revision().await.map(drop)
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
    /// A command on its shortest way, by the revision of its plan, if that is settled.
    fn asked(self: &Arc<Self>, command: &KeyCommand<'_>, settled: Option<Arc<Known>>) -> Asked {
        if let Some(known) = settled.as_ref().filter(|_| self.registry.is_time_to_look()) {
            self.look_after(known);
        }
        let plain = settled.and_then(|known| known.plain.clone());
        let plain = plain.filter(|_| !self.not_plain.spend());
        let take = plain.and_then(|plain| Some((plain, Take::of(command, &self.names)?)));
        match take {
            Some((plain, take)) => Asked::Plain(plain, take),
            None => Asked::Whole(Request::of(command, self.shared.clock, &self.names)),
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
                None => Request::of(&take.command()?, self.shared.clock, &self.names),
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
}
