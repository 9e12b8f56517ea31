//! An ask that waits for its turn.
//!
//! It tries once. Refused, it takes a place in the root's line on the server
//! (`lua/line.lua`), and asks again when it is told that its turn may have come,
//! when its limits said it might (a release, or the exact instant of a refusal
//! that no one ahead keeps it from), and in any case so often that the server
//! takes it for alive. Nobody asks the server whether it is his turn yet.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::core::{Amount, Bounds, Span, Timestamp, Verdict};
use tidegate_contract::{
    Command, Detail, Ending, KeyPath, OwnedKey, Patience, Plan, Reply, StoreError, Terms, Verb,
};
use tokio::time::{Instant, timeout};

use crate::error::{garbled, too_late};
use crate::link::Tell;
use crate::request::Request;
use crate::table::Inner;
use crate::wakes::Ear;
use crate::wire::command::{self, Turn};
use crate::wire::reply::Answer;

/// For how long one who waits is taken for alive without being heard of.
const ALIVE: Span = Span::from_secs(3);

/// How often it is heard of.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// An ask, whole. See the [module](self).
pub(crate) struct Stay {
    table: Arc<Inner>,
    plan: Arc<Plan>,
    key: OwnedKey,
    calendars: Box<[Option<Bounds>]>,
    amounts: Box<[Amount]>,
    detail: Detail,
    lease: u128,
    ttl: Span,
    idempotency: Option<Box<[u8]>>,
    patience: Patience,
    /// When it came here, by the caller's clock and by this machine's.
    came: (Timestamp, Instant),
}

/// What a try came to.
enum Try {
    Told(Reply),
    /// Refused: the caller's instant at which it may try again by itself.
    Refused(Reply, Option<Timestamp>),
}

impl Stay {
    /// `None` for a command that is no take with a lease.
    pub(crate) fn of(
        table: &Arc<Inner>,
        command: &Command<'_>,
        patience: &Patience,
    ) -> Option<Self> {
        let Verb::Take {
            amounts,
            lease: Some(terms),
            detail,
        } = command.verb
        else {
            return None;
        };
        Some(Self {
            table: Arc::clone(table),
            plan: Arc::clone(command.plan),
            key: OwnedKey::new(command.key.bytes()),
            calendars: command.calendars.into(),
            amounts: amounts.into(),
            detail,
            lease: terms.id,
            ttl: terms.expires_at.since(command.now),
            idempotency: terms.idempotency.map(Into::into),
            patience: *patience,
            came: (command.now, Instant::now()),
        })
    }

    /// Waits, and tells the answer; gives back what nobody is there to be told.
    pub(crate) async fn run(self, mut tell: Tell) {
        let Some(answer) = self.wait(&mut tell).await else {
            return;
        };
        let granted = answer.as_ref().is_ok_and(is_new_lease);
        if tell.send(answer).is_err() && granted {
            self.cancel().await;
        }
    }

    /// `None` if nobody is there any more.
    async fn wait(&self, tell: &mut Tell) -> Option<Result<Reply, StoreError>> {
        let mut ear = None;
        loop {
            let (reply, again) = match self.ask(ear.as_ref()).await {
                Ok(Try::Told(reply)) => return Some(Ok(reply)),
                Ok(Try::Refused(reply, again)) => (reply, again),
                // It keeps its place, for who asks again.
                Err(StoreError::StalePlan) => return Some(Err(StoreError::StalePlan)),
                Err(error) => {
                    self.give_up(ear.as_ref()).await;
                    return Some(Err(error));
                }
            };
            let left = self.left();
            if left.is_zero() {
                self.leave(ear.as_ref()).await;
                return Some(Ok(reply));
            }
            let Some(ear) = &ear else {
                match self.listen().await {
                    Ok(heard) => ear = Some(heard),
                    Err(error) => return Some(Err(error)),
                }
                continue;
            };
            let again = again.map_or(HEARTBEAT, |at| at.since(self.now()).as_duration());
            let pause = again.min(left).min(HEARTBEAT);
            tokio::select! {
                () = tell.closed() => {
                    self.leave(Some(ear)).await;
                    return None;
                }
                () = ear.hears() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Asks once, in line if it has an ear.
    async fn ask(&self, ear: Option<&Ear>) -> Result<Try, StoreError> {
        let mut request = self.request(ear)?;
        let deadline = self.table.shared.link.deadline();
        let answer = timeout(deadline, self.table.answer(&mut request)).await;
        let (reply, is_kept) = match answer.unwrap_or_else(|_| Err(too_late(deadline)))? {
            Answer::Reply(reply) => (reply, false),
            Answer::Kept(reply) => (reply, true),
            _ => return Err(garbled("no reply")),
        };
        let Reply::Decision(decision) = &reply else {
            return Err(garbled("no decision"));
        };
        Ok(match decision.verdict {
            Verdict::NotUntil(_) if is_kept => Try::Refused(reply, None),
            Verdict::NotUntil(at) => {
                let at = decision.refund_at.map_or(at, |refund| refund.min(at));
                Try::Refused(reply, Some(at))
            }
            _ => Try::Told(reply),
        })
    }

    fn request(&self, ear: Option<&Ear>) -> Result<Request, StoreError> {
        let now = self.now();
        let terms = Terms {
            id: self.lease,
            expires_at: now + self.ttl,
            idempotency: self.idempotency.as_deref(),
        };
        let command = Command {
            plan: &self.plan,
            key: self.path()?,
            now,
            calendars: &self.calendars,
            verb: Verb::Take {
                amounts: &self.amounts,
                lease: Some(terms),
                detail: self.detail,
            },
        };
        Ok(match ear {
            None => Request::of(&command, &self.table),
            Some(ear) => Request::in_line(&command, &self.turn(ear), &self.table),
        })
    }

    async fn listen(&self) -> Result<Ear, StoreError> {
        let (wakes, link) = (&self.table.shared.wakes, &self.table.shared.link);
        let turn = self.patience.turn;
        wakes.listen(link.connection(), turn, link.deadline()).await
    }

    /// Gives back its place, if it has one.
    async fn leave(&self, ear: Option<&Ear>) {
        let (Some(ear), Ok(path)) = (ear, self.path()) else {
            return;
        };
        let (now, clock) = (self.now(), self.table.shared.clock);
        let leave = command::leave(&path, now, clock, &self.turn(ear));
        let names = &self.table.names;
        self.try_to(Request::new(&self.plan, &path, now, leave, names))
            .await;
    }

    /// The last answer did not come: what it granted, if it did, is given back.
    async fn give_up(&self, ear: Option<&Ear>) {
        self.cancel().await;
        self.leave(ear).await;
    }

    async fn cancel(&self) {
        let Ok(key) = self.path() else { return };
        let command = Command {
            plan: &self.plan,
            key,
            now: self.now(),
            calendars: &self.calendars,
            verb: Verb::End {
                id: self.lease,
                ending: Ending::Cancel,
                remember: false,
            },
        };
        self.try_to(Request::of(&command, &self.table)).await;
    }

    /// What fails here, the server forgets by itself.
    async fn try_to(&self, mut request: Request) {
        let deadline = self.table.shared.link.deadline();
        let _ = timeout(deadline, self.table.answer(&mut request)).await;
    }

    fn turn(&self, ear: &Ear) -> Turn {
        Turn {
            id: self.patience.turn,
            channel: Arc::clone(&ear.channel),
            ahead: self.patience.ahead,
            alive: ALIVE,
        }
    }

    fn path(&self) -> Result<KeyPath<'_>, StoreError> {
        let path = KeyPath::new(self.key.bytes(), self.plan.levels());
        path.map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    /// The caller's clock, as far as it can be told here.
    fn now(&self) -> Timestamp {
        self.came.0 + Span::from(self.came.1.elapsed())
    }

    /// How long it still waits.
    fn left(&self) -> Duration {
        match self.patience.longest {
            None => Duration::MAX,
            Some(longest) => {
                let until = self.patience.since + Span::from(longest);
                until.since(self.now()).as_duration()
            }
        }
    }
}

fn is_new_lease(reply: &Reply) -> bool {
    match reply {
        Reply::Decision(decision) => decision.lease.is_some_and(|lease| !lease.repeated),
        _ => false,
    }
}
