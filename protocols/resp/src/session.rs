//! Who is there, and what they have said about themselves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tidegate_protocol::Share;
use tidegate_service::{Caller, Origin, Service, ServiceError, Undelivered};

use crate::error::Fault;
use crate::render::reply::{Protocol, Replies};

/// What the connections of one server share.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// How many are open.
    pub(crate) open: AtomicUsize,
    /// How many there have been.
    pub(crate) seen: AtomicU64,
}

/// One connection's side of the conversation.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) service: Service,
    pub(crate) counts: Arc<Counts>,
    pub(crate) id: u64,
    /// What the client calls itself (CLIENT SETNAME).
    pub(crate) name: Vec<u8>,
    /// Its library and the library's version (CLIENT SETINFO).
    pub(crate) library: [Vec<u8>; 2],
    pub(crate) replies: Replies,
    /// Leases whose answers are yet to go out.
    pub(crate) undelivered: Vec<Arc<Undelivered>>,
    caller: Option<Caller>,
    /// Who is at the other end.
    peer: Option<SocketAddr>,
    /// Its share of the connections, if it has one.
    share: Option<Share>,
    /// As of which of the service's tokens the caller was let in.
    generation: u64,
}

impl Session {
    pub(crate) fn new(
        service: Service,
        (peer, share): (Option<SocketAddr>, Option<Share>),
        counts: Arc<Counts>,
    ) -> Self {
        counts.open.fetch_add(1, Ordering::Relaxed);
        Self {
            id: counts.seen.fetch_add(1, Ordering::Relaxed) + 1,
            generation: service.generation(),
            caller: entered(&service, None, peer).ok(),
            peer,
            share,
            name: Vec::new(),
            library: Default::default(),
            replies: Replies::default(),
            undelivered: Vec::new(),
            service,
            counts,
        }
    }

    /// The service, and whoever is there to ask it.
    #[inline]
    pub(crate) fn at_the_service(&mut self) -> Result<(&Service, &Caller), Fault> {
        self.caller()?;
        match &self.caller {
            Some(caller) => Ok((&self.service, caller)),
            None => Err(Fault::NoAuthentication),
        }
    }

    /// Whoever is there, if the tokens still say so.
    #[inline]
    pub(crate) fn caller(&mut self) -> Result<&Caller, Fault> {
        if self.generation != self.service.generation() {
            self.look_again();
        }
        match &self.caller {
            Some(caller) => Ok(caller),
            None => Err(Fault::NoAuthentication),
        }
    }

    /// The tokens were replaced since the caller was let in.
    #[cold]
    fn look_again(&mut self) {
        self.generation = self.service.generation();
        self.caller = match self.caller.take() {
            Some(caller) => self.service.readmit(&caller).ok(),
            None => entered(&self.service, None, self.peer).ok(),
        };
        if self.caller.is_none() {
            // Its token is one no more. Nobody's it may always be.
            let _ = self.belong_to(None);
        }
    }

    /// Lets in whoever has this token; `user` is its name, or `default`.
    pub(crate) fn authenticate(&mut self, user: &[u8], token: &[u8]) -> Result<(), Fault> {
        let generation = self.service.generation();
        let entered = entered(&self.service, Some(token), self.peer);
        let caller = entered.map_err(|_| Fault::WrongToken)?;
        let known = [b"default", caller.name().as_bytes()];
        if !self.service.is_open() && !known.contains(&user) {
            return Err(Fault::WrongToken);
        }
        if !self.belong_to(caller.token()) {
            return Err(Fault::TooManyOfToken);
        }
        (self.caller, self.generation) = (Some(caller), generation);
        Ok(())
    }

    /// What follows is answered in the namespace called `name`, until other words or another
    /// token say otherwise.
    pub(crate) fn enter_namespace(&mut self, name: &str) -> Result<(), Fault> {
        let caller = self.caller()?.clone();
        self.caller = Some(caller.at(Some(name))?);
        Ok(())
    }

    /// Counts among the connections of this token; whether it may.
    fn belong_to(&mut self, token: Option<&str>) -> bool {
        let share = self.share.as_mut();
        share.is_none_or(|share| share.belong_to(token))
    }

    /// As it was when the client had just connected.
    pub(crate) fn reset(&mut self) {
        // Nobody's it may always be.
        let _ = self.belong_to(None);
        self.generation = self.service.generation();
        self.caller = entered(&self.service, None, self.peer).ok();
        self.name.clear();
        self.replies.protocol = Protocol::default();
    }
}

/// Somebody whom the service lets in, and where they come from.
fn entered(
    service: &Service,
    token: Option<&[u8]>,
    peer: Option<SocketAddr>,
) -> Result<Caller, ServiceError> {
    let protocol = "resp";
    let caller = service.enter_by(token)?;
    Ok(caller.coming_from(Origin { protocol, peer }))
}

impl Drop for Session {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::Relaxed);
    }
}
