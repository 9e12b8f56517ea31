//! What the commands of one table share.

use std::sync::Arc;

use tidegate_net::{Changes, within};
use tidegate_store::bytes::reply::decode_answer;
use tidegate_store::core::{Bounds, Timestamp};
use tidegate_store::{Answer, Command, Hours, Item, OwnedListing, Plan, Reply, StoreError};

use crate::known::Known;
use crate::link::{Answered, Link, forgetful, whole};
use crate::wire::{self, Ask, Client, Digest, Request, Turn};

/// So often is a plan adopted anew for one command: the server was started again.
const MOST_ADOPTIONS: usize = 3;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) link: Arc<Link>,
    pub(crate) name: String,
    /// Tells this from others who use the table.
    pub(crate) user: u64,
    /// By which it was opened.
    pub(crate) opened: Arc<Plan>,
    pub(crate) changes: Changes<Known>,
}

/// A command, ready to be sent but for what its plan is known by.
pub(crate) struct Prepared {
    body: Vec<u8>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) now: Timestamp,
    pub(crate) calendars: Box<[Option<Bounds>]>,
    waits: bool,
}

/// What is asked about all of a table.
pub(crate) enum About {
    Keys(OwnedListing),
    Leases(OwnedListing),
    Usage(OwnedListing, Hours),
    Count(Timestamp),
}

impl About {
    fn request(&self, client: Client<'_>) -> Vec<u8> {
        let request = match self {
            Self::Keys(listing) => Request::Keys(client, listing.clone()),
            Self::Leases(listing) => Request::Leases(client, listing.clone()),
            Self::Usage(listing, hours) => Request::Usage(client, listing.clone(), *hours),
            Self::Count(now) => Request::Count(client, *now),
        };
        request.written()
    }
}

impl Inner {
    pub(crate) fn client<'c>(&'c self, plan: &Plan, digest: Digest) -> Client<'c> {
        Client {
            table: &self.name,
            user: self.user,
            version: plan.version(),
            digest,
        }
    }

    /// A command of these items, which with a turn the server may hold until then.
    pub(crate) fn prepared(
        &self,
        command: &Command<'_>,
        items: &[Item<'_>],
        (is_batch, turn): (bool, Option<Turn>),
    ) -> Prepared {
        let waits = turn.is_some();
        let body = wire::ask(&Ask {
            client: self.client(command.plan, Digest::default()),
            plan: command.plan,
            now: command.now,
            calendars: command.calendars,
            items,
            is_batch,
            turn,
        });
        Prepared {
            body,
            plan: Arc::clone(command.plan),
            now: command.now,
            calendars: command.calendars.into(),
            waits,
        }
    }

    /// What it comes to.
    pub(crate) async fn answer(self: &Arc<Self>, mut prepared: Prepared) -> Answer {
        let (changes, plan) = (&self.changes, &prepared.plan);
        changes.follow(plan, prepared.now, &prepared.calendars)?;
        let deadline = self.link.deadline();
        for _ in 0..MOST_ADOPTIONS {
            let known = within(deadline, self.known(plan)).await?;
            wire::put_digest(&mut prepared.body, &self.name, known.digest);
            let body = prepared.body.clone();
            let answered = match prepared.waits {
                true => self.link.wait(body).await?,
                false => self.link.ask(body).await?,
            };
            match answered {
                Answered::Done(body) => return whole(&body, decode_answer)?,
                Answered::UnknownPlan => {
                    within(deadline, self.adopt_anew(&prepared, &known)).await?;
                }
            }
        }
        Err(forgetful())
    }

    /// Asks for something about all of the table.
    pub(crate) async fn about(&self, about: &About) -> Result<Reply, StoreError> {
        for _ in 0..MOST_ADOPTIONS {
            let plan = self.changes.newest_plan();
            let plan = plan.unwrap_or_else(|| Arc::clone(&self.opened));
            let body = about.request(self.client(&plan, Digest::default()));
            match self.link.ask(body).await? {
                Answered::Done(body) => return whole(&body, decode_answer)?,
                Answered::UnknownPlan => self.reopen(&plan).await?,
            }
        }
        Err(forgetful())
    }
}
