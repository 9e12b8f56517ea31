//! What is refused by what was refused a moment ago.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use support::{Central, Link, NodeClock, SECOND, Wire, bucket, command, plan, span, told, window};
use tidegate_memory::{Bounds, MemoryStore};
use tidegate_store::core::{Amount, Rule, Slots, Timestamp, Verdict};
use tidegate_store::{
    Answer, Decision, Detail, Ending, KeyPath, Op, Out, Plan, Reply, Store, StoreError, Table,
    Terms, Timer, Verb,
};
use tidegate_tier::{RefusalTable, Tier};

const HOUR: u64 = 3_600 * SECOND;

/// A node that remembers refusals for two seconds.
struct Node {
    link: Arc<Link>,
    clock: Arc<NodeClock>,
    plan: Arc<Plan>,
    table: RefusalTable,
}

impl Node {
    fn new(central: &Arc<Central>, plan: &Arc<Plan>) -> Self {
        let link = Link::new(central);
        let clock = NodeClock::at(central.clock.now().as_micros());
        let tier = Tier::refusals().idle(std::time::Duration::from_secs(2));
        tier.check_for(plan).expect("any limits will do");
        let (table, timer) = (Arc::clone(&link) as Arc<dyn Table>, Arc::clone(&clock));
        Self {
            table: RefusalTable::new(table, tier, timer),
            link,
            clock,
            plan: Arc::clone(plan),
        }
    }

    fn trips(&self) -> usize {
        self.link.trips.load(Ordering::SeqCst)
    }

    fn execute(&self, plan: &Arc<Plan>, op: Op<'_>) -> Answer {
        let mut answer = Ok(Reply::Done);
        let command = command(plan, self.clock.now(), op);
        match self
            .table
            .execute(&command, Out::new(&mut answer))
            .pending()
        {
            None => answer,
            Some(mut later) => told(&mut later).expect("it is answered"),
        }
    }

    fn ask(&self, verb: Verb<'_>) -> Answer {
        let path = KeyPath::new(b"k", 1).expect("a key");
        self.execute(&self.plan, Op::One(path, verb))
    }

    fn take(&self, amounts: &[Amount], detail: Detail) -> Answer {
        self.ask(Verb::Take {
            amounts,
            lease: None,
            detail,
        })
    }

    fn admits(&self, amounts: &[Amount]) -> bool {
        let answer = self.take(amounts, Detail::Verdict).expect("an answer");
        answer.verdict().expect("a verdict").admitted()
    }

    fn lease(&self, id: u128, amounts: &[Amount], idempotency: Option<&[u8]>) -> Decision {
        let terms = Terms {
            id,
            expires_at: self.clock.now() + span(HOUR),
            idempotency,
            least: None,
        };
        let taken = self.ask(Verb::Take {
            amounts,
            lease: Some(terms),
            detail: Detail::Always,
        });
        taken.and_then(Reply::decision).expect("an answer")
    }
}

fn node(rules: &[(usize, Rule)]) -> (Arc<Central>, Node) {
    let plan = plan(0, 1, rules);
    let central = Central::new(&plan);
    let node = Node::new(&central, &plan);
    (central, node)
}

#[test]
fn as_much_or_more_is_refused_without_a_trip_and_less_is_asked_for() {
    let (_, node) = node(&[(0, window(10, HOUR))]);
    assert!(node.admits(&[7]));
    assert!(!node.admits(&[5]));
    assert_eq!(node.trips(), 2);
    for amount in [5, 6, 10, 11] {
        assert!(!node.admits(&[amount]), "{amount}");
    }
    assert_eq!(node.trips(), 2);
    assert!(node.admits(&[3]));
    assert_eq!(node.trips(), 3);
    let counted = node.table.statistics();
    assert_eq!((counted.refused, counted.keys, counted.granted), (4, 1, 0));
}

#[test]
fn a_refusal_is_told_as_the_store_told_it_however_little_was_asked() {
    let (_, node) = node(&[(0, window(1, HOUR)), (0, window(100, HOUR))]);
    assert!(node.admits(&[1, 1]));
    let first = node.take(&[1, 1], Detail::Verdict).expect("an answer");
    assert!(
        matches!(first, Reply::Verdict(Verdict::NotUntil(_))),
        "{first:?}"
    );
    let told = node.take(&[1, 1], Detail::Always).and_then(Reply::decision);
    let told = told.expect("an answer");
    assert_eq!((node.trips(), told.binding), (2, Some(0)));
    assert_eq!(Some(told.verdict), first.verdict());
    // What the limit that refuses is not asked for is the store's.
    assert!(node.admits(&[0, 5]));
    assert_eq!(node.trips(), 3);
}

#[test]
fn a_refusal_is_forgotten_when_it_is_over_and_after_the_time_that_is_set() {
    let (_, node) = node(&[(0, bucket(10, 10))]);
    assert!(node.admits(&[10]));
    assert!(!node.admits(&[5]));
    let until = |answer: Answer| match answer.expect("an answer").verdict() {
        Some(Verdict::NotUntil(at)) => at,
        other => panic!("{other:?}"),
    };
    let at = until(node.take(&[5], Detail::Verdict));
    assert_eq!(at, node.clock.now() + span(SECOND / 2));
    node.clock.pass(SECOND / 2 - 1);
    node.link.central.clock.pass(SECOND / 2 - 1);
    assert!(!node.admits(&[5]));
    assert_eq!(node.trips(), 2);
    node.clock.pass(1);
    node.link.central.clock.pass(1);
    assert!(node.admits(&[5]));
    // One that lasts for longer is remembered for two seconds.
    assert!(!node.admits(&[10_000]));
    let trips = node.trips();
    node.clock.pass(2 * SECOND - 1);
    assert!(!node.admits(&[10_000]));
    assert_eq!((node.trips(), node.table.statistics().keys), (trips, 1));
    node.clock.pass(1);
    assert_eq!(node.table.statistics().keys, 0);
    assert!(!node.admits(&[10_000]));
    assert_eq!(node.trips(), trips + 1);
}

#[test]
fn what_gives_back_to_a_key_ends_what_is_remembered_of_it() {
    let (_, node) = node(&[(0, window(10, HOUR))]);
    let held = node.lease(1, &[10], None);
    assert!(held.verdict.admitted());
    assert!(!node.lease(2, &[4], None).verdict.admitted());
    assert!(!node.admits(&[4]));
    assert_eq!(node.trips(), 2);
    let end = Verb::End {
        id: 1,
        ending: Ending::Settle(&[Some(5)]),
        remember: false,
    };
    node.ask(end).expect("it is held");
    assert!(node.admits(&[4]));
    assert!(!node.admits(&[4]));
    node.ask(Verb::Reset).expect("an answer");
    assert!(node.admits(&[10]));
}

/// It was remembered though what ended it had been sent: the answer to the one came after that to
/// the other.
#[test]
fn a_refusal_that_is_told_after_something_was_given_back_is_not_remembered() {
    let (_, node) = node(&[(0, window(10, HOUR))]);
    assert!(node.lease(1, &[10], None).verdict.admitted());
    node.link.set(Wire::HoldsAnswers);
    let path = KeyPath::new(b"k", 1).expect("a key");
    let begin = |verb: Verb<'_>| {
        let mut answer = Ok(Reply::Done);
        let command = command(&node.plan, node.clock.now(), Op::One(path, verb));
        let execution = node.table.execute(&command, Out::new(&mut answer));
        execution.pending().expect("its answer is held")
    };
    let take = Verb::Take {
        amounts: &[4],
        lease: None,
        detail: Detail::Verdict,
    };
    let end = Verb::End {
        id: 1,
        ending: Ending::Settle(&[Some(0)]),
        remember: false,
    };
    let (mut refused, mut ended) = (begin(take), begin(end));
    assert_eq!(node.link.deliver(), 2);
    let verdict = |answer: Option<Answer>| answer.expect("told").expect("an answer").verdict();
    assert!(verdict(told(&mut ended)).is_none());
    assert!(!verdict(told(&mut refused)).expect("a verdict").admitted());
    node.link.set(Wire::Open);
    assert!(node.admits(&[4]), "all 10 are free");
}

/// One bucket in memory is told of in a reply of its own.
#[test]
fn what_one_bucket_refuses_is_remembered() {
    let store = MemoryStore::new(Bounds::default());
    let plan = plan(0, 1, &[(0, bucket(1, 1))]);
    let table = store.open("limits", &plan).expect("memory opens");
    let clock = NodeClock::at(support::START);
    let timer = Arc::clone(&clock) as Arc<dyn Timer>;
    let table = RefusalTable::new(table, Tier::refusals(), timer);
    let path = KeyPath::new(b"k", 1).expect("a key");
    let take = || {
        let verb = Verb::Take {
            amounts: &[1],
            lease: None,
            detail: Detail::Always,
        };
        let mut answer = Ok(Reply::Done);
        let command = command(&plan, clock.now(), Op::One(path, verb));
        assert!(table.execute(&command, Out::new(&mut answer)).is_ready());
        answer
            .expect("an answer")
            .verdict()
            .expect("a verdict")
            .admitted()
    };
    assert!(take());
    for _ in 0..10 {
        assert!(!take());
    }
    assert_eq!(table.statistics().refused, 9);
}

#[test]
fn what_slots_refuse_is_asked_for_each_time() {
    let slots = Rule::Slots(Slots::new(1, span(HOUR)).expect("slots"));
    let (_, node) = node(&[(0, window(10, HOUR)), (0, slots)]);
    assert!(node.lease(1, &[1, 1], None).verdict.admitted());
    for trips in 2..5 {
        assert!(!node.lease(trips, &[1, 1], None).verdict.admitted());
        assert_eq!(node.trips(), trips as usize);
    }
}

#[test]
fn a_retry_by_an_idempotency_key_finds_what_it_was_given() {
    let (_, node) = node(&[(0, window(10, HOUR))]);
    assert!(node.lease(1, &[10], Some(b"once")).verdict.admitted());
    assert!(!node.admits(&[1]));
    assert!(!node.admits(&[1]));
    let again = node.lease(2, &[10], Some(b"once")).lease;
    assert_eq!(
        again.map(|lease| (lease.id, lease.repeated)),
        Some((1, true))
    );
}

#[test]
fn other_limits_are_asked_anew() {
    let (_, node) = node(&[(0, window(10, HOUR))]);
    assert!(node.admits(&[10]));
    assert!(!node.admits(&[1]));
    let raised = plan(1, 1, &[(0, window(20, HOUR))]);
    let path = KeyPath::new(b"k", 1).expect("a key");
    let verb = Verb::Take {
        amounts: &[1],
        lease: None,
        detail: Detail::Verdict,
    };
    let answer = node.execute(&raised, Op::One(path, verb));
    assert_eq!(answer, Ok(Reply::Verdict(Verdict::Admit)));
}

#[test]
fn of_a_batch_only_what_is_not_remembered_is_asked_for() {
    let (_, node) = node(&[(0, window(10, HOUR))]);
    assert!(node.admits(&[9]));
    assert!(!node.admits(&[2]));
    let path = |key: &'static [u8]| KeyPath::new(key, 1).expect("a key");
    let take = |amounts: &'static [Amount]| Verb::Take {
        amounts,
        lease: None,
        detail: Detail::Verdict,
    };
    let items = [
        (path(b"k"), take(&[2])),
        (path(b"other"), take(&[2])),
        (path(b"k"), take(&[1])),
    ];
    let answer = node.execute(&node.plan, Op::Batch(&items));
    let Ok(Reply::Batch(answers)) = answer else {
        panic!("{answer:?}");
    };
    let verdicts = answers
        .into_iter()
        .map(|answer| answer.expect("an answer").verdict());
    let admitted: Vec<_> = verdicts
        .map(|verdict| verdict.expect("one").admitted())
        .collect();
    assert_eq!((admitted, node.trips()), (vec![false, true, true], 3));
    let refused = [(path(b"k"), take(&[2])), (path(b"k"), take(&[3]))];
    node.execute(&node.plan, Op::Batch(&refused))
        .expect("an answer");
    assert_eq!(node.trips(), 3);
}

#[test]
fn in_an_outage_what_is_remembered_is_refused_and_the_rest_is_an_outage() {
    let (_, node) = node(&[(0, window(10, HOUR))]);
    assert!(node.admits(&[10]));
    assert!(!node.admits(&[5]));
    node.link.set(Wire::Cut);
    assert!(!node.admits(&[5]));
    let lost = node.take(&[4], Detail::Verdict);
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
}

#[test]
fn no_more_is_remembered_than_there_is_room_for() {
    let (_, node) = node(&[(0, window(1, HOUR))]);
    let verb = Verb::Take {
        amounts: &[2],
        lease: None,
        detail: Detail::Verdict,
    };
    let ask = |number: u32| {
        let key = number.to_be_bytes();
        let path = KeyPath::new(&key, 1).expect("a key");
        node.execute(&node.plan, Op::One(path, verb))
            .expect("an answer")
    };
    for number in 0..100_000 {
        assert_eq!(ask(number).verdict(), Some(Verdict::Never));
    }
    let kept = node.table.statistics().keys;
    assert!((60_000..=65_536).contains(&kept), "{kept}");
    // What is over makes room.
    node.clock.pass(2 * SECOND);
    let trips = node.trips();
    ask(200_000);
    ask(200_000);
    assert_eq!((node.trips(), node.table.statistics().keys), (trips + 1, 1));
    assert!(node.clock.now() > Timestamp::from_micros(support::START));
}
