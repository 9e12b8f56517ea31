//! Requests that nobody would make: each is an error, or an answer; nothing panics, and what
//! cannot be read changes nothing.

use std::sync::{Arc, Weak};

use tidegate_memory::MemoryStore;
use tidegate_store::core::{Bucket, Payment, Rule, Span, Timestamp};
use tidegate_store::{
    Alarm, Change, Definition, Detail, Event, Hours, KeyPath, Listing, OwnedListing, Plan,
    PlanLimit, Select, Terms, Timer, TimerHandler, Verb,
};

use super::Offered;
use crate::wire::{self, Adoption, Ask, Client, Request, Response, SentPlan, Turn};

pub(super) const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// A clock that stands still.
#[derive(Debug)]
pub(super) struct Still;

impl Timer for Still {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn set(&self, at: Timestamp, _: Weak<dyn TimerHandler>) -> Alarm {
        Alarm { at, number: 0 }
    }

    fn unset(&self, _: Alarm) {}
}

fn offered() -> Offered {
    Offered::new(Arc::new(MemoryStore::default()), Arc::new(Still))
}

fn plan() -> Plan {
    let limit = |uid: u32, level| PlanLimit {
        name: format!("limit {uid}").into(),
        uid,
        rule: Rule::Bucket(Bucket::new(5, Span::SECOND, 100).expect("a bucket")),
        level,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    };
    Plan::new(3, 2, vec![limit(0, 0), limit(1, 1)], Span::SECOND)
}

fn client(sent: &SentPlan) -> Client<'static> {
    Client {
        table: "set",
        user: 7,
        version: 3,
        digest: sent.digest,
    }
}

fn take(waits: bool) -> Vec<u8> {
    let (plan, key) = (plan(), KeyPath::new(b"a/b", 2).expect("a key"));
    let verb = Verb::Take {
        amounts: &[1, 1],
        lease: Some(Terms {
            id: 9,
            expires_at: NOW + Span::SECOND,
            idempotency: None,
            least: None,
        }),
        detail: Detail::Always,
    };
    let turn = Turn {
        id: 1,
        ahead: Span::ZERO,
        longest: Some(std::time::Duration::ZERO),
        since: NOW,
        for_refunds: false,
        retried: false,
    };
    wire::ask(&Ask {
        client: client(&SentPlan::of(&plan)),
        plan: &plan,
        now: NOW,
        calendars: &[None, None],
        items: &[(key, verb), (key, Verb::Peek { amounts: &[] })],
        is_batch: !waits,
        turn: waits.then_some(turn),
    })
}

fn adopt() -> Vec<u8> {
    let (plan, sent) = (plan(), SentPlan::of(&plan()));
    let adoption = Adoption {
        client: client(&sent),
        plan: Some(&sent.bytes),
        at: NOW,
        calendars: Vec::new(),
        touched: Vec::new(),
    };
    let own = &plan.limits()[1..];
    wire::adopt(&adoption, [(&b"a/b"[..], Some(own))].into_iter())
}

/// One of each kind.
fn requests() -> Vec<Vec<u8>> {
    let sent = SentPlan::of(&plan());
    let listing = OwnedListing::of(&Listing {
        select: Select::Prefix(b"a"),
        after: Some(b"x"),
        most: 3,
        now: NOW,
        levels: 2,
    });
    let event = Event {
        subject: b"s".to_vec(),
        body: b"b".to_vec(),
        at: NOW,
        lasts: std::time::Duration::from_secs(1),
        most: 1,
        version: 0,
    };
    let change = Change::from(Definition::new("k", "v")).telling(event);
    let client = || client(&sent);
    let written = [
        Request::Abilities,
        Request::LastPlan("set"),
        Request::Open("set", 3, &sent.bytes),
        Request::Keys(client(), listing.clone()),
        Request::Leases(client(), listing.clone()),
        Request::Usage(client(), listing, Hours::ALL),
        Request::Count(client(), NOW),
        Request::Changes("own", 0, true),
        Request::One("own", b"k"),
        Request::WithAncestors("own", b"k", 255),
        Request::Page("own", b"", None, 2),
        Request::Change("own", change),
        Request::Events("own", Some(b"s"), None, 2),
        Request::Versions(vec!["own", "other"]),
        Request::Clear("none", None),
    ];
    let mut requests = vec![adopt(), take(true), take(false)];
    requests.extend(written.iter().map(Request::written));
    requests
}

/// Numbers that are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[tokio::test]
async fn every_request_is_answered_by_what_was_asked_for() {
    let offered = offered();
    for request in requests() {
        let answered = offered.answer(&request).await.expect("it can be read");
        let response = Response::read(&answered.body).expect("it is a response");
        // A cursor that no page gave is the only fault.
        let is_cursor = matches!(
            response,
            Response::Error(tidegate_store::StoreError::UnknownPage)
        );
        assert!(
            is_cursor || matches!(response, Response::Done(_)),
            "{response:?}"
        );
    }
}

#[tokio::test]
async fn what_is_cut_short_is_no_request() {
    let offered = offered();
    for request in requests() {
        for end in 0..request.len() {
            let answered = offered.answer(&request[..end]).await;
            assert!(answered.is_err(), "{end} bytes of {request:?}");
        }
    }
}

#[tokio::test]
async fn whatever_bits_are_turned_over_nothing_panics_and_each_has_an_answer() {
    let (offered, mut numbers) = (offered(), Numbers(0x9E37_79B9_7F4A_7C15));
    for request in requests() {
        for _ in 0..2_000 {
            let mut turned = request.clone();
            for _ in 0..=numbers.below(3) {
                let bit = numbers.below(turned.len() * 8);
                turned[bit / 8] ^= 1 << (bit % 8);
            }
            if let Ok(answered) = offered.answer(&turned).await {
                assert!(Response::read(&answered.body).is_ok(), "{turned:?}");
            }
        }
    }
    // It works as before.
    let adopted = offered.answer(&adopt()).await.expect("it can be read");
    let adopted = Response::read(&adopted.body);
    assert!(matches!(
        adopted,
        Ok(Response::Done(_) | Response::Error(_))
    ));
}

/// Nothing of a response was taken to be written: its lease is given back.
#[tokio::test]
async fn a_lease_that_is_not_delivered_is_given_back() {
    let offered = offered();
    offered.answer(&adopt()).await.expect("it can be read");
    for is_delivered in [false, false, true] {
        let answered = offered.answer(&take(true)).await.expect("it can be read");
        assert!(matches!(
            Response::read(&answered.body),
            Ok(Response::Done(_))
        ));
        let undelivered = answered.undelivered.expect("it was granted");
        if is_delivered {
            undelivered.deliver();
        }
    }
    let again = offered.answer(&take(true)).await.expect("it can be read");
    let duplicate = Response::read(&again.body);
    assert!(
        matches!(
            duplicate,
            Ok(Response::Error(tidegate_store::StoreError::DuplicateLease))
        ),
        "{duplicate:?}"
    );
}
