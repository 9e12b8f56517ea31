//! Several versions of one limit at once: a state that is carried to and fro
//! between them, as by servers of which some know of a change already.
//!
//! What is admitted is counted here by hand, by all versions together.
//! `PROPTEST_CASES=100000 cargo test -p tidegate-core` looks harder.

mod common;

use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::*;

/// Two or three versions of one kind.
fn versions(laws: impl Strategy<Value = Law>) -> impl Strategy<Value = Vec<Law>> {
    vec(laws, 2..=3)
}

/// Whose turn it is, before each step.
fn scheduled_steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    takings().prop_flat_map(|steps| {
        let scheduled_steps = vec(0_usize..3, steps.len());
        (scheduled_steps, Just(steps))
            .prop_map(|(scheduled_steps, steps)| scheduled_steps.into_iter().zip(steps).collect())
    })
}

/// Carries `key` over to another version, as of now.
fn cross(key: &mut Key, law: Law) {
    let time = decision_time(&law.rule, key.now);
    if key.rule != law.rule {
        law.rule.adopt(&mut key.state, &key.rule, &time);
        (key.rule, key.refill) = (law.rule, law.refill);
    }
}

/// What all of them admit, asked in turn, by elapsed time.
fn admitted(
    versions: &[Law],
    origin: Timestamp,
    scheduled_steps: &[(usize, Step)],
) -> Vec<(i64, Amount)> {
    let mut key = Key::new(versions[0], origin);
    let mut admitted = Vec::new();
    for (version, step) in scheduled_steps {
        let law = versions[version % versions.len()];
        key.now = shift(key.now, step.span(law.refill));
        cross(&mut key, law);
        let still = Step {
            gap: 0,
            jitter: 0,
            ..*step
        };
        let taken = key.step(&still);
        admitted.extend(taken.map(|amount| (key.now.as_micros(), amount)));
    }
    admitted
}

/// Every run of neighbours: how long it took, and what it was granted.
fn runs(admitted: &[(i64, Amount)]) -> impl Iterator<Item = (u128, u128)> {
    (0..admitted.len()).flat_map(move |first| {
        let mut sum = 0;
        admitted[first..].iter().map(move |&(at, amount)| {
            sum += u128::from(amount);
            ((at - admitted[first].0) as u128, sum)
        })
    })
}

fn largest(versions: &[Law]) -> u128 {
    let capacities = versions.iter().map(|law| law.rule.capacity());
    capacities.max().unwrap().into()
}

fn shortest(versions: &[Law], window: fn(&Rule) -> Span) -> u128 {
    let windows = versions.iter().map(|law| window(&law.rule).as_micros());
    windows.min().unwrap().into()
}

fn fixed(periods: impl Strategy<Value = Span>, first_use: bool) -> impl Strategy<Value = Law> {
    (capacities(), periods).prop_map(move |(capacity, period)| {
        let align = if first_use {
            Align::FirstUse(period)
        } else {
            Align::Epoch(period)
        };
        let rule = Rule::Window(Window::new(capacity, align).unwrap());
        Law {
            rule,
            refill: period,
        }
    })
}

fn any_window() -> impl Strategy<Value = Law> {
    prop_oneof![fixed(periods(), false), fixed(periods(), true)]
}

fn is_by_first_use(rule: &Rule) -> bool {
    matches!(rule, Rule::Window(window) if matches!(window.align(), Align::FirstUse(_)))
}

fn period(rule: &Rule) -> Span {
    match rule {
        Rule::Window(window) => match window.align() {
            Align::Epoch(period) | Align::FirstUse(period) => period,
            Align::Calendar => unreachable!("none of these follows one"),
        },
        Rule::Ring(ring) => Span::from_micros(ring.step().as_micros() * u64::from(ring.steps())),
        Rule::Log(log) => log.window(),
        _ => unreachable!("it has no window"),
    }
}

/// The same limit with another capacity: what an operator changes most.
fn capacities_of_one() -> impl Strategy<Value = Vec<Law>> {
    let period = prop_oneof![Just(Span::from_secs(60)), periods()];
    (period, vec(capacities(), 2..=3), 0..5).prop_map(|(period, capacities, kind)| {
        let rule = |capacity| match kind {
            0 => Rule::Bucket(Bucket::new(capacity, period, capacity).unwrap()),
            1 => Rule::Window(Window::new(capacity, Align::Epoch(period)).unwrap()),
            2 => Rule::Window(Window::new(capacity, Align::FirstUse(period)).unwrap()),
            3 => Rule::Ring(Ring::new(capacity, period, 10).unwrap()),
            _ => Rule::Log(Log::new(capacity, period, 64).unwrap()),
        };
        let law = |capacity| match rule(capacity) {
            Rule::Ring(ring) => Law {
                rule: Rule::Ring(ring),
                refill: Span::from_micros(ring.step().as_micros() * 11),
            },
            rule => Law {
                rule,
                refill: period,
            },
        };
        capacities.into_iter().map(law).collect()
    })
}

proptest! {
    /// In any span no more than the largest burst, and what drains by the fastest.
    #[test]
    fn buckets_asked_in_turn_admit_no_more_than_the_larger_alone(
        rates in vec((capacities(), periods(), capacities()), 2..=3), origin in origins(), scheduled_steps in scheduled_steps(),
    ) {
        let law = |&(amount, period, burst): &(Amount, Span, Amount)| {
            let bucket = Bucket::new(amount, period, burst).unwrap();
            Law { rule: Rule::Bucket(bucket), refill: bucket.refill() }
        };
        let versions: Vec<Law> = rates.iter().map(law).collect();
        let burst = largest(&versions);
        for (elapsed, granted) in runs(&admitted(&versions, origin, &scheduled_steps)) {
            let fits = |&(amount, period, _): &(Amount, Span, Amount)| {
                let (amount, period) = (u128::from(amount), u128::from(period.as_micros()));
                granted * period <= burst * period + elapsed * amount
            };
            prop_assert!(rates.iter().any(fits), "{granted} in {elapsed} us");
        }
    }

    /// In any span as long as the shortest window no more than the largest capacity.
    #[test]
    fn sliding_windows_asked_in_turn_admit_no_more_than_the_larger_alone(
        versions in prop_oneof![versions(rings()), versions(logs(2_u32..=20))],
        origin in origins(), scheduled_steps in scheduled_steps(),
    ) {
        let (capacity, window) = (largest(&versions), shortest(&versions, period));
        for (_, granted) in runs(&admitted(&versions, origin, &scheduled_steps)).filter(|run| run.0 < window) {
            prop_assert!(granted <= capacity);
        }
    }

    /// A window may be used up on either side of its end, and each version may have
    /// ends of its own; one by first use also ends a period after an epoch window
    /// began. There are no others, however often it is carried over.
    #[test]
    fn windows_asked_in_turn_end_no_more_often_than_each_alone(
        versions in versions(any_window()), origin in origins(), scheduled_steps in scheduled_steps(),
    ) {
        let by_first_use = versions.iter().filter(|law| is_by_first_use(&law.rule)).count();
        let mixed = by_first_use * (versions.len() - by_first_use);
        let windows = (versions.len() + mixed + 1) as u128;
        let (capacity, window) = (windows * largest(&versions), shortest(&versions, period));
        for (_, granted) in runs(&admitted(&versions, origin, &scheduled_steps)).filter(|run| run.0 < window) {
            prop_assert!(granted <= capacity);
        }
    }

    /// Nor does one who used all of it wait longer than by the slower of them alone;
    /// of windows it may be one of each, whose ends are not the same.
    #[test]
    fn versions_asked_in_turn_delay_no_one_beyond_the_slower_alone(
        versions in prop_oneof![versions(any_window()), versions(buckets()), versions(logs(2_u32..=20)), capacities_of_one()],
        origin in origins(), waits in vec(0_i64..200, 1..60),
    ) {
        let mut key = Key::new(versions[0], origin);
        let smallest = versions.iter().map(|law| law.rule.capacity()).min().unwrap();
        key.charge(smallest);
        let used_at = key.now;
        let refills = versions.iter().map(|law| law.refill.as_micros() as i64);
        let (refill, all) = (refills.clone().max().unwrap(), refills.sum::<i64>());
        let slowest = versions.iter().map(|law| match law.rule {
            Rule::Bucket(bucket) => (smallest * bucket.weight()).div_ceil(bucket.drain()) as i64,
            Rule::Window(_) => all,
            _ => refill,
        });
        // Each crossing rounds up what is used, to a part of a unit that one of them
        // tells from the next.
        let part = |one: &Law, other: &Law| match (one.rule, other.rule) {
            (Rule::Bucket(one), Rule::Bucket(other)) => {
                one.weight().div_ceil(other.weight() * one.drain()) as i64
            }
            _ => 0,
        };
        let parts = versions.iter().flat_map(|one| versions.iter().map(move |other| part(one, other)));
        let rounded = parts.max().unwrap() * (waits.len() + versions.len()) as i64;
        let until = shift(used_at, slowest.max().unwrap() + rounded);
        for (version, wait) in waits.iter().enumerate() {
            let now = shift(key.now, refill / 1_000 * wait);
            if now >= until {
                break;
            }
            key.now = now;
            cross(&mut key, versions[version % versions.len()]);
        }
        key.now = until;
        for law in &versions {
            cross(&mut key, *law);
            prop_assert!(key.quote(smallest).admitted(), "{:?}", key.standing());
        }
    }

    /// However it was lowered before: what is forgiven delays no one by a raise.
    #[test]
    fn raising_a_limit_that_was_lowered_delays_no_one(
        larger in buckets(), smaller in buckets(), origin in origins(), past in pasts(), present in pasts(),
        more in 0_u64..50, faster in 1_u64..50, wait in 0_i64..1_500,
    ) {
        let mut old = Key::after(larger, origin, &past);
        cross(&mut old, smaller);
        present.iter().for_each(|step| { old.step(step); });
        let Rule::Bucket(bucket) = smaller.rule else { unreachable!() };
        // The smallest multiple that is long enough to be a period.
        let scale = 1_000_u64.div_ceil(bucket.weight());
        let (amount, period) = (bucket.drain() * scale * faster, Span::from_micros(bucket.weight() * scale));
        let raised = Bucket::new(amount, period, bucket.capacity() + more).unwrap();
        let mut new = old.clone();
        cross(&mut new, Law { rule: Rule::Bucket(raised), refill: raised.refill() });
        let later = shift(old.now, smaller.refill.as_micros() as i64 / 1_000 * wait);
        for now in [old.now, shift(old.now, 1), later] {
            let (old, new) = (old.at(now), new.at(now));
            for amount in [1, bucket.capacity() / 2, bucket.capacity()] {
                prop_assert!(!new.quote(amount).outlasts(old.quote(amount)));
            }
            prop_assert!(new.standing().remaining >= old.standing().remaining);
        }
    }

    /// A lease that is cancelled after its burst was lowered might never have been:
    /// what others use by then is theirs.
    #[test]
    fn refunds_are_exact_across_a_lowering(
        amount in capacities(), period in periods(), burst in 2_u64..50, lower in 1_u64..50, origin in origins(),
        before in vec((0_i64..300, 1_u64..20), 0..6), first in 1_u64..50, after in vec((0_i64..300, 1_u64..20), 0..6),
    ) {
        let law = |burst| {
            let bucket = Bucket::new(amount, period, burst).unwrap();
            Law { rule: Rule::Bucket(bucket), refill: bucket.refill() }
        };
        let (old, new) = (law(burst), law(lower.min(burst)));
        let mut refunded = Key::new(old, origin);
        let mut never = refunded.clone();
        let lease = refunded.charge(first.min(burst));
        let part = |key: &Key, n: i64| (i128::from(n) * i128::from(key.refill.as_micros()) / 1_000) as i64;
        let live = |keys: [&mut Key; 2], steps: &[(i64, u64)]| {
            let [refunded, never] = keys;
            for &(wait, amount) in steps {
                refunded.now = shift(refunded.now, part(refunded, wait));
                never.now = refunded.now;
                // Only what both admit, so that their pasts are alike.
                if refunded.quote(amount).admitted() && never.quote(amount).admitted() {
                    refunded.charge(amount);
                    never.charge(amount);
                }
            }
        };
        live([&mut refunded, &mut never], &before);
        cross(&mut refunded, new);
        cross(&mut never, new);
        live([&mut refunded, &mut never], &after);
        refunded.refund(&lease);
        let (mine, theirs) = (refunded.standing(), never.standing());
        prop_assert!(mine.remaining <= theirs.remaining, "{mine:?}, {theirs:?}");
        if refunded.now < shift(origin, old.refill.as_micros() as i64) {
            prop_assert_eq!(refunded.face(), never.face());
        }
    }
}

fn at(micros: i64) -> DecisionTime {
    DecisionTime::at(Timestamp::from_micros(micros))
}

/// Twenty a minute at one server, forty at the other: the roll-out of a change.
#[test]
fn a_roll_out_admits_no_more_than_the_larger_alone() {
    let rate = |n| Rule::Bucket(Bucket::new(n, Span::from_secs(60), n).unwrap());
    let (old, new) = (rate(20), rate(40));
    let (mut state, mut admitted, mut by) = (State::Fresh, [0, 0], 0);
    for request in 0..300_usize {
        let rules = [old, new];
        let version = request % 2;
        if version != by {
            rules[version].adopt(&mut state, &rules[by], &at(0));
            by = version;
        }
        if rules[version].quote(&state, 1, &at(0)).admitted() {
            rules[version].charge(&mut state, 1, &at(0), None);
            admitted[version] += 1;
        }
    }
    assert_eq!(admitted.iter().sum::<u64>(), 40, "{admitted:?}");
    // The change is taken back: the key is empty by the smaller, and not in debt.
    let standing = old.standing(&state, &at(0));
    assert_eq!((standing.remaining, standing.debt), (0, 0));
    assert!(old.quote(&state, 1, &at(3_000_000)).admitted());
    assert!(!old.quote(&state, 1, &at(2_999_999)).admitted());
}

/// What was forgiven is forgotten once the larger would have been full again.
#[test]
fn a_lowered_bucket_that_stays_in_use_can_be_packed_again_after_a_period() {
    let rate = |n| Rule::Bucket(Bucket::new(n, Span::from_secs(60), n).unwrap());
    let mut state = State::Fresh;
    rate(40).charge(&mut state, 40, &at(0), None);
    rate(20).adopt(&mut state, &rate(40), &at(0));
    let is_packable = |state: &State| matches!(state, State::Bucket(state) if state.is_packable());
    for second in (0..=60).step_by(3) {
        assert_eq!(is_packable(&state), second > 60);
        let now = at(second * 1_000_000);
        if rate(20).quote(&state, 1, &now).admitted() {
            rate(20).charge(&mut state, 1, &now, None);
        }
    }
    assert!(is_packable(&state), "{state:?}");
    assert_eq!(rate(20).standing(&state, &at(60_000_000)).remaining, 0);
}

/// A window of two seconds here, of three there: it ends by both.
#[test]
fn a_first_use_window_ends_however_often_it_is_carried_over() {
    let window = |s| Rule::Window(Window::new(5, Align::FirstUse(Span::from_secs(s))).unwrap());
    let (two, three) = (window(2), window(3));
    let mut state = State::Fresh;
    two.charge(&mut state, 5, &at(0), None);
    for tenth in 1..20 {
        let now = at(tenth * 100_000);
        three.adopt(&mut state, &two, &now);
        assert!(!three.quote(&state, 1, &now).admitted(), "{tenth}");
        two.adopt(&mut state, &three, &now);
        assert!(!two.quote(&state, 1, &now).admitted(), "{tenth}");
    }
    three.adopt(&mut state, &two, &at(1_990_000));
    assert!(three.quote(&state, 1, &at(3_000_000)).admitted());
    two.adopt(&mut state, &three, &at(1_995_000));
    assert!(two.quote(&state, 1, &at(2_000_000)).admitted());
}

/// A long window of the epoch here, a short one by first use there, which admits
/// nothing itself: the long one's count is there when it comes back.
#[test]
fn a_window_that_is_seen_by_first_use_between_two_takes_is_not_empty_again() {
    let seconds = Span::from_secs;
    let epoch = Rule::Window(Window::new(5, Align::Epoch(seconds(3_600))).unwrap());
    let first_use = Rule::Window(Window::new(5, Align::FirstUse(seconds(60))).unwrap());
    let (mut state, mut admitted) = (State::Fresh, 0);
    for second in 1_800..1_830 {
        let now = at(second * 1_000_000);
        while epoch.quote(&state, 1, &now).admitted() {
            epoch.charge(&mut state, 1, &now, None);
            admitted += 1;
        }
        first_use.adopt(&mut state, &epoch, &now);
        assert!(!first_use.quote(&state, 1, &now).admitted());
        epoch.adopt(&mut state, &first_use, &now);
    }
    assert_eq!(admitted, 5);
    first_use.adopt(&mut state, &epoch, &at(1_830_000_000));
    assert!(first_use.quote(&state, 5, &at(1_890_000_000)).admitted());
}

/// What a shorter window had let go of is nobody's to give back by a longer one.
#[test]
fn a_charge_that_left_a_log_gives_nothing_back_after_its_window_grew() {
    let log = |s| Rule::Log(Log::new(10, Span::from_secs(s), 64).unwrap());
    let mut state = State::Fresh;
    let early = log(10).charge(&mut state, 5, &at(0), None);
    log(10).charge(&mut state, 1, &at(11_000_000), None);
    log(60).adopt(&mut state, &log(10), &at(12_000_000));
    log(60).charge(&mut state, 9, &at(12_000_000), None);
    let before = state.clone();
    log(60).refund(&mut state, 5, early.reference, &at(13_000_000));
    assert_eq!(state, before, "another's entry paid for it");
}

/// Counts that a window had left stay gone when it grows by more steps.
#[test]
fn stale_counts_of_a_ring_decide_like_none_after_its_window_grew() {
    let ring = |s: u32| Rule::Ring(Ring::new(10, Span::from_secs(s.into()), s).unwrap());
    let mut state = State::Fresh;
    ring(10).charge(&mut state, 10, &at(0), None);
    ring(60).adopt(&mut state, &ring(10), &at(30_000_000));
    assert!(ring(60).quote(&state, 10, &at(30_000_000)).admitted());
}

/// What was used by one kind stays used by another, also where that holds less.
#[test]
fn a_change_of_kind_to_and_fro_admits_no_more_than_the_larger_alone() {
    let bucket = Rule::Bucket(Bucket::new(40, Span::from_secs(60), 40).unwrap());
    let window = Rule::Window(Window::new(20, Align::Epoch(Span::from_secs(60))).unwrap());
    let (mut state, mut admitted) = (State::Fresh, 0);
    for _ in 0..100 {
        while bucket.quote(&state, 1, &at(0)).admitted() {
            bucket.charge(&mut state, 1, &at(0), None);
            admitted += 1;
        }
        window.adopt(&mut state, &bucket, &at(0));
        assert!(!window.quote(&state, 1, &at(0)).admitted());
        bucket.adopt(&mut state, &window, &at(0));
    }
    assert_eq!(admitted, 40);
}
