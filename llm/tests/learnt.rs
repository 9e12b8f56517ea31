//! What is learnt of a limit, answer by answer. The laws over random courses, with a real limit
//! set, are the gateway's (`gateway/tests/learning.rs`).

use http::HeaderMap;
use tidegate_core::{Amount, MAX_AMOUNT, Span, Standing, Timestamp};
use tidegate_llm::learnt::{Came, Elsewhere, Granted, Learnt, News, Order, Seen};
use tidegate_llm::{Provider, Received, Signals, Unit};

const MINUTE: Span = Span::from_secs(60);

fn at(seconds: u64) -> Timestamp {
    Timestamp::default() + Span::from_secs(1_000_000 + seconds)
}

fn order(nth: u64) -> Order {
    Order { at: at(0), nth }
}

fn said(limit: Amount, remaining: Amount) -> Seen {
    Seen {
        limit: Some(limit),
        remaining: Some(remaining),
        reset_at: Some(at(60)),
    }
}

/// So much is used of a limit of `limit`, until a minute from the beginning.
fn used(limit: Amount, used: Amount) -> Standing {
    Standing {
        remaining: limit.saturating_sub(used),
        debt: used.saturating_sub(limit),
        full_at: Some(at(60)),
        ..Standing::full(limit)
    }
}

/// The `nth` of calls that take one each, when nobody else uses the account.
fn call(limit: &Learnt, nth: u64) -> Granted {
    limit.granted(order(nth), 1, &used(limit.capacity(), nth))
}

/// adaptive-rate-limiter: "pending subtracted twice: 19 slots of 59". Of 60 calls a minute 41 are
/// in flight, and the provider has counted them all: there is nothing to charge, and 19 are left.
#[test]
fn what_is_in_flight_is_not_subtracted_twice() {
    let mut limit = Learnt::new(60, MINUTE);
    let last = call(&limit, 41);
    assert_eq!(
        limit.answered(&last, said(60, 19), Came::Accepted, at(1)),
        None
    );
    assert_eq!(limit.capacity(), 60);
    // 59 are left of 100, of which 41 are in flight: 59 it is, and not 59 - 40 = 19.
    assert_eq!(
        limit.answered(&call(&limit, 42), said(100, 58), Came::Accepted, at(1)),
        None
    );
    assert_eq!(limit.capacity() - 42, 58);
}

/// "and the reverse: 60 becomes 99 with 39 in flight: 27 refusals in 20 s from a provider of
/// 100/min". The first answer says 99, and has counted none of those after it: they stay counted.
#[test]
fn a_header_that_has_not_counted_what_is_in_flight_frees_none_of_it() {
    let mut limit = Learnt::new(100, MINUTE);
    let first = call(&limit, 1);
    assert_eq!(
        limit.answered(&first, said(100, 99), Came::Accepted, at(1)),
        None
    );
    let in_flight = 39;
    assert_eq!(limit.capacity() - (1 + in_flight), 60);
}

/// "headers never reach the Redis state; only one provider's six names parsed, all six needed":
/// each header counts by itself, of every provider that has any.
#[test]
fn any_one_header_of_any_provider_is_enough() {
    for (provider, name, unit, period) in [
        (
            Provider::OpenAi,
            "x-ratelimit-limit-tokens",
            Unit::Tokens,
            60,
        ),
        (
            Provider::AzureOpenAi,
            "x-ratelimit-limit-requests",
            Unit::Requests,
            60,
        ),
        (
            Provider::Anthropic,
            "anthropic-ratelimit-input-tokens-limit",
            Unit::InputTokens,
            60,
        ),
        (
            Provider::Groq,
            "x-ratelimit-limit-requests",
            Unit::Requests,
            86_400,
        ),
        (
            Provider::Cerebras,
            "x-ratelimit-limit-tokens-hour",
            Unit::Tokens,
            3_600,
        ),
        (
            Provider::Mistral,
            "x-ratelimit-limit-req-minute",
            Unit::Requests,
            60,
        ),
        (Provider::Generic, "x-ratelimit-limit", Unit::Requests, 60),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(name, "70".parse().unwrap());
        let signals = Signals::read(provider, &headers, Received::new(at(0), &headers));
        let about = signals.observations.iter().filter(|seen| seen.unit == unit);
        let period = Span::from_secs(period);
        let mut limit = Learnt::new(100, period);
        let first = call(&limit, 1);
        assert_eq!(
            limit.answered(&first, Seen::of(about, period), Came::Accepted, at(1)),
            None
        );
        assert_eq!(limit.capacity(), 70, "{provider}");
    }
}

/// "cold start with no headers: concurrency 1 for ever": it begins with the stated start, goes up
/// while it is needed and nothing is refused, and down after a refusal.
#[test]
fn without_headers_it_starts_as_stated_and_searches() {
    let mut limit = Learnt::new(160, MINUTE);
    let full = |limit: &Learnt, minute: u64| {
        let order = Order {
            at: at(minute * 60),
            nth: 0,
        };
        limit.granted(order, 1, &used(limit.capacity(), limit.capacity()))
    };
    let nothing = Seen::default();
    for minute in 0..3 {
        let call = full(&limit, minute);
        limit.answered(&call, nothing, Came::Accepted, at(minute * 60));
    }
    assert_eq!(
        limit.capacity(),
        180,
        "a sixteenth of the start for each full minute"
    );
    let idle = Order {
        at: at(180),
        nth: 0,
    };
    let idle = limit.granted(idle, 1, &used(180, 1));
    limit.answered(&idle, nothing, Came::Accepted, at(180));
    limit.answered(&idle, nothing, Came::Accepted, at(240));
    assert_eq!(limit.capacity(), 180, "what nobody needs is not tried");
    let refused = [full(&limit, 5), full(&limit, 5)];
    for call in &refused {
        limit.answered(call, nothing, Came::Refused, at(301));
    }
    assert_eq!(
        limit.capacity(),
        135,
        "two that were in flight together are one refusal"
    );
    for minute in 6..400 {
        let call = full(&limit, minute);
        limit.answered(&call, nothing, Came::Refused, at(minute * 60));
    }
    assert_eq!(
        limit.capacity(),
        10,
        "no less than a sixteenth of the start"
    );
    for minute in 400..900 {
        let call = full(&limit, minute);
        limit.answered(&call, nothing, Came::Accepted, at(minute * 60));
    }
    assert_eq!(limit.capacity(), 8 * 160, "and no more than eight starts");
}

#[test]
fn a_search_ends_where_the_provider_says_its_limit() {
    let mut limit = Learnt::new(160, MINUTE);
    let first = call(&limit, 1);
    limit.answered(&first, said(40, 39), Came::Accepted, at(1));
    let refused = Order { at: at(2), nth: 2 };
    let refused = limit.granted(refused, 1, &used(40, 40));
    limit.answered(&refused, Seen::default(), Came::Refused, at(2));
    assert_eq!(limit.capacity(), 40);
}

/// Elsewhere metrics that were old by then let too much in (llm-d #2066).
#[test]
fn an_old_answer_never_overrides_a_newer_one() {
    let mut limit = Learnt::new(100, MINUTE);
    let (old, new) = (call(&limit, 1), call(&limit, 2));
    limit.answered(&new, said(50, 48), Came::Accepted, at(1));
    assert_eq!(
        limit.answered(&old, said(100, 3), Came::Accepted, at(2)),
        None
    );
    assert_eq!(limit.capacity(), 50);
    assert_eq!(limit.seen().remaining, Some(48));
    // Nor does what another gateway tells late.
    let news = |nth, capacity| News {
        capacity,
        order: order(nth),
        is_said: true,
        start: 100,
    };
    assert!(!limit.told(&news(1, 100)));
    assert!(limit.told(&news(3, 70)));
    assert_eq!(limit.capacity(), 70);
    assert_eq!(limit.news(), Some(news(3, 70)));
}

#[test]
fn what_somebody_else_has_used_is_charged_once() {
    let mut limit = Learnt::new(100, MINUTE);
    // Three in flight, and somebody else has used 20.
    let calls = [1, 2, 3].map(|nth| call(&limit, nth));
    let elsewhere = limit
        .answered(&calls[0], said(100, 79), Came::Accepted, at(1))
        .unwrap();
    assert_eq!(
        elsewhere,
        Elsewhere {
            amount: 20,
            total: 20
        }
    );
    limit.charged(&used(100, elsewhere.total));
    assert_eq!(
        limit.answered(&calls[1], said(100, 78), Came::Accepted, at(1)),
        None
    );
    // By now it is 25.
    let more = limit
        .answered(&calls[2], said(100, 72), Came::Accepted, at(1))
        .unwrap();
    assert_eq!(
        more,
        Elsewhere {
            amount: 5,
            total: 25
        }
    );
    limit.charged(&used(100, more.total));
    // The next finds them in what is used.
    let next = limit.granted(order(4), 1, &used(100, 4 + 25));
    assert_eq!(
        limit.answered(&next, said(100, 71), Came::Accepted, at(2)),
        None
    );
    let last = limit.granted(order(5), 1, &used(100, 5 + 25));
    let last = limit
        .answered(&last, said(100, 60), Came::Accepted, at(2))
        .unwrap();
    assert_eq!(
        last,
        Elsewhere {
            amount: 10,
            total: 35
        }
    );
}

#[test]
fn a_call_that_was_refused_is_none_that_the_provider_has_counted() {
    let mut limit = Learnt::new(100, MINUTE);
    let call = limit.granted(order(1), 30, &used(100, 30));
    let elsewhere = limit
        .answered(&call, said(100, 0), Came::Refused, at(1))
        .unwrap();
    assert_eq!(elsewhere.amount, 100, "others have used all of it");
}

#[test]
fn what_was_said_of_a_window_that_has_ended_charges_nothing() {
    let mut limit = Learnt::new(100, MINUTE);
    let first = call(&limit, 1);
    assert_eq!(
        limit.answered(&first, said(100, 10), Came::Accepted, at(60)),
        None,
        "by its reset"
    );
    let mut limit = Learnt::new(100, MINUTE);
    let standing = Standing {
        full_at: Some(at(10)),
        ..used(100, 1)
    };
    let first = limit.granted(order(1), 1, &standing);
    assert_eq!(
        limit.answered(&first, said(100, 10), Came::Accepted, at(10)),
        None,
        "by ours"
    );
}

#[test]
fn of_several_limits_over_the_same_time_the_least_counts() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-ratelimit-limit-tokens", "1000"),
        ("x-ratelimit-remaining-tokens", "900"),
        ("x-ratelimit-limit-project-tokens", "500"),
        ("x-ratelimit-remaining-project-tokens", "450"),
        ("x-ratelimit-limit-tokens_usage_based", "7"),
        ("x-ratelimit-remaining-tokens_usage_based", "300"),
    ] {
        headers.insert(name, value.parse().unwrap());
    }
    let signals = Signals::read(Provider::OpenAi, &headers, Received::new(at(0), &headers));
    let seen = Seen::of(signals.observations.iter(), MINUTE);
    assert_eq!((seen.limit, seen.remaining), (Some(500), Some(300)));
    let hourly = Seen::of(signals.observations.iter(), Span::from_secs(3_600));
    assert_eq!((hourly.limit, hourly.remaining), (Some(7), Some(300)));
}

/// What was charged left the window that the sum was counted by, and as much came in: the sum was the
/// same, and what came was taken for what had left. 14 were charged where 17 had been used.
#[test]
fn what_is_new_of_a_sum_that_only_grows_is_never_hidden_by_what_is_old() {
    let mut limit = Learnt::new(100, MINUTE);
    let charged = |total| Standing {
        full_at: Some(at(86_400)),
        ..used(MAX_AMOUNT, total)
    };
    limit.charged(&charged(7));
    let call = |limit: &Learnt, nth, used_then| {
        let standing = Standing {
            full_at: Some(at(200)),
            ..used(100, used_then)
        };
        limit.granted(order(nth), 1, &standing)
    };
    let said = |remaining| Seen {
        reset_at: Some(at(200)),
        ..said(100, remaining)
    };
    // Of those 7 nothing counts any more; others have used 3, and then 17.
    let first = call(&limit, 1, 1);
    let elsewhere = limit.answered(&first, said(96), Came::Accepted, at(100));
    let (amount, total) = (3, 10);
    assert_eq!(elsewhere, Some(Elsewhere { amount, total }));
    limit.charged(&charged(10));
    let second = call(&limit, 2, 2 + 3);
    let elsewhere = limit.answered(&second, said(81), Came::Accepted, at(130));
    let (amount, total) = (14, 24);
    assert_eq!(elsewhere, Some(Elsewhere { amount, total }));
}

/// The sum begins again: a call that was granted before that had none of it in what was used.
#[test]
fn a_sum_that_has_begun_again_charges_nothing_twice() {
    let mut limit = Learnt::new(100, MINUTE);
    let charged = |total, until| Standing {
        full_at: Some(at(until)),
        ..used(MAX_AMOUNT, total)
    };
    limit.charged(&charged(500, 30));
    let calls = [1, 2].map(|nth| call(&limit, nth));
    let elsewhere = limit.answered(&calls[0], said(100, 79), Came::Accepted, at(31));
    let (amount, total) = (20, 20);
    assert_eq!(elsewhere, Some(Elsewhere { amount, total }));
    limit.charged(&charged(20, 90));
    let elsewhere = limit.answered(&calls[1], said(100, 78), Came::Accepted, at(32));
    assert_eq!(elsewhere, None);
}

/// Each of two gateways took the limit down by a quarter for one and the same overshoot: 100, 75, 56.
#[test]
fn one_overshoot_takes_the_limit_down_once_at_all_gateways() {
    let mut gateways = [(); 2].map(|()| Learnt::new(100, MINUTE));
    let [one, other] = &mut gateways;
    let nothing = Seen::default();
    let full = |limit: &Learnt, nth| {
        let capacity = limit.capacity();
        limit.granted(order(nth), 1, &used(capacity, capacity))
    };
    // Both were granted what is too much.
    let (first, second) = (full(one, 1), full(other, 2));
    let third = full(other, 3);
    one.answered(&first, nothing, Came::Refused, at(1));
    assert!(other.told(&one.news().unwrap()));
    other.answered(&second, nothing, Came::Refused, at(2));
    other.answered(&third, nothing, Came::Refused, at(2));
    assert_eq!((one.capacity(), other.capacity()), (75, 75));
    // What is granted now is of another one.
    let fourth = full(other, 4);
    other.answered(&fourth, nothing, Came::Refused, at(3));
    assert_eq!(other.capacity(), 56);
    assert!(one.told(&other.news().unwrap()));
    assert_eq!(one.capacity(), 56);
}

/// What one gateway had tried meanwhile hid what the provider had said to another, for good.
#[test]
fn what_the_provider_says_holds_in_place_of_what_was_tried_since() {
    let [mut one, mut other] = [(); 2].map(|()| Learnt::new(100, MINUTE));
    let early = call(&one, 1);
    let late = other.granted(order(2), 1, &used(100, 100));
    other.answered(&late, Seen::default(), Came::Refused, at(1));
    let tried = other.news().unwrap();
    assert!(one.told(&tried));
    assert_eq!(one.capacity(), 75);
    one.answered(&early, said(500, 499), Came::Accepted, at(1));
    assert_eq!(one.capacity(), 500);
    assert!(!one.told(&tried), "what was tried is no news any more");
    assert!(other.told(&one.news().unwrap()));
    assert_eq!(other.capacity(), 500);
}

/// An operator who writes another number has another one tried.
#[test]
fn what_was_tried_from_another_start_is_no_news() {
    let [mut old, mut new] = [100, 400].map(|start| Learnt::new(start, MINUTE));
    let refused = call(&old, 1);
    old.answered(&refused, Seen::default(), Came::Refused, at(1));
    assert!(!new.told(&old.news().unwrap()));
    assert_eq!(new.capacity(), 400);
    let said = call(&old, 2);
    old.answered(&said, self::said(300, 290), Came::Accepted, at(1));
    assert!(new.told(&old.news().unwrap()), "the provider's own is");
    assert_eq!(new.capacity(), 300);
}

/// Cut down below what every call wants, it let none in, and so it never went up again.
#[test]
fn a_call_that_wants_more_than_is_tried_has_more_tried() {
    let mut limit = Learnt::new(160, MINUTE);
    let first = call(&limit, 1);
    limit.answered(&first, Seen::default(), Came::Refused, at(1));
    assert_eq!((limit.capacity(), limit.most()), (120, 8 * 160));
    assert_eq!(limit.wanted(at(2)), Some(at(61)), "a period after it");
    assert_eq!(limit.capacity(), 120);
    assert_eq!(limit.wanted(at(61)), Some(at(61)), "now");
    assert_eq!(limit.capacity(), 130);
    assert!(limit.news().unwrap().order > first.order);
    let said = call(&limit, 2);
    limit.answered(&said, self::said(50, 49), Came::Accepted, at(62));
    assert_eq!(limit.wanted(at(59)), None, "what the provider says is all");
    assert_eq!((limit.capacity(), limit.most()), (50, 160));
}

/// No call was sent any more, and so no answer told another limit.
#[test]
fn what_was_said_of_a_limit_gives_way_where_it_keeps_out_whatever_comes() {
    let mut limit = Learnt::new(160, MINUTE);
    let first = call(&limit, 1);
    limit.answered(&first, said(1, 0), Came::Accepted, at(1));
    let mut other = Learnt::new(160, MINUTE);
    assert!(other.told(&limit.news().unwrap()));
    assert_eq!((limit.wanted(at(59)), limit.capacity()), (None, 1));
    assert_eq!(limit.wanted(at(60)), Some(at(60)));
    assert_eq!(limit.capacity(), 160);
    assert!(
        other.told(&limit.news().unwrap()),
        "other gateways go by it"
    );
    assert_eq!(other.capacity(), 160);
    // Not by what is said late of the limit before, but by the next.
    limit.answered(&first, said(1, 0), Came::Accepted, at(61));
    assert_eq!(limit.capacity(), 160);
    let by = Order { at: at(61), nth: 2 };
    let next = limit.granted(by, 1, &used(160, 1));
    limit.answered(&next, said(2, 1), Came::Refused, at(62));
    assert_eq!((limit.capacity(), limit.wanted(at(63))), (2, None));
}

/// Calls that were failed and refused were taken for counted, until an answer told what is left.
#[test]
fn what_a_provider_has_not_counted_holds_nobody_up() {
    let mut limit = Learnt::new(100, MINUTE);
    let sent = |limit: &mut Learnt, nth| {
        let mut sent = call(limit, nth);
        limit.sends(&mut sent, at(0));
        sent
    };
    let first = sent(&mut limit, 1);
    limit.answered(&first, said(100, 99), Came::Accepted, at(0));
    let failed: Vec<_> = (2..=120).map(|nth| sent(&mut limit, nth)).collect();
    for call in &failed {
        limit.answered(call, Seen::default(), Came::Failed, at(0));
    }
    let refused = sent(&mut limit, 121);
    limit.answered(&refused, Seen::default(), Came::Refused, at(0));
    let next = call(&limit, 122);
    assert!(limit.waits(&next, at(0)).is_some(), "they may be counted");
    for call in failed.iter().chain([&refused]) {
        limit.cancelled(call);
    }
    assert_eq!(limit.waits(&next, at(0)), None);
}

/// Of calls that were sent at once, on connections of their own, one reached its provider after those that
/// were sent later. Its answer counts all of them, came last, and was passed over as an old one: the next
/// call was sent where there was no room, and refused.
#[test]
fn a_call_that_was_overtaken_on_its_way_tells_what_the_provider_counts() {
    let mut limit = Learnt::new(60, MINUTE);
    let call = |limit: &Learnt, nth: u64, amount: Amount| {
        limit.granted(order(nth), amount, &used(limit.capacity(), 0))
    };
    let mut calls = [(1, 10), (2, 20), (3, 10)].map(|(nth, amount)| call(&limit, nth, amount));
    for call in &mut calls {
        assert_eq!(limit.waits(call, at(0)), None);
        limit.sends(call, at(0));
    }
    let mut tells = |which: usize, remaining| {
        limit.answered(&calls[which], said(100, remaining), Came::Accepted, at(1))
    };
    // The provider had the first, the third, and then the second.
    tells(0, 90);
    tells(2, 80);
    tells(1, 60);
    // 40 of 100 are counted. A sixteenth more than 64 has room once 8 have drained, in 4.8 s.
    let next = call(&limit, 4, 64);
    let fits = call(&limit, 5, 32);
    assert_eq!(
        limit.waits(&next, at(0)),
        Some(at(0) + Span::from_micros(4_800_000))
    );
    assert_eq!(limit.waits(&fits, at(0)), None);
}
