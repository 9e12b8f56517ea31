//! What the keys of a policy come to: the sums of what their peeks tell.

mod support;

use std::sync::Arc;

use support::{file, now};
use tidegate::{ManualClock, Select, Store};
use tidegate_memory::MemoryStore;
use tidegate_service::{Answer, Call, Caller, Capacity, Listing, Number, Question, Service, Whose};

const POLICY: &str = "[policy.chat]\nkey = 'org/user'\n[policy.chat.limits]\n\
     daily = { budget = 1_000_000, per = '24h', level = 'org' }\n\
     tpm = { rate = 600, per = '1m', level = 'user' }\n\
     rpm = { calls = 9, per = '1m', level = 'user' }\n";

const ROOTS: usize = 400;
const USERS: usize = 250;

struct House {
    service: Service,
    caller: Caller,
    /// It stands still.
    _time: ManualClock,
}

impl House {
    fn new() -> Self {
        let time = ManualClock::default();
        let service = Service::builder().clock(time.clock());
        let service = service.store(Arc::<MemoryStore>::default() as Arc<dyn Store>);
        let service = service.build(&file(POLICY)).unwrap();
        let caller = service.enter(None).unwrap();
        Self {
            service,
            caller,
            _time: time,
        }
    }

    fn call(&self, call: Call<'_>) -> Answer {
        now(self.service.call(&self.caller, call)).unwrap()
    }

    /// Each key has used something else; some owe.
    fn fill(&self) {
        for (nth, key) in keys().enumerate() {
            let tpm = Number::Units(nth as u64 % 599 + 1);
            let amounts = [("tpm", tpm), ("daily", Number::Units(1))];
            self.call(Call::Check(question(&key, &amounts)));
            if nth.is_multiple_of(1_000) {
                let amounts = [("tpm", Number::Units(2_000)), ("daily", Number::Units(7))];
                self.call(Call::Debit(question(&key, &amounts)));
            }
        }
    }

    /// All pages, of so many keys each: keys, and by limit its keys, capacity, what is available
    /// and what is owed.
    fn capacity(&self, level: Option<&str>, most: u64) -> (u64, Vec<(String, [u64; 4])>) {
        let (mut keys, mut limits) = (0, Vec::<(String, [u64; 4])>::new());
        let mut after: Option<Vec<u8>> = None;
        loop {
            let listing = Listing {
                select: Select::All,
                after: after.as_deref().map(Into::into),
                most: Some(most),
            };
            let Answer::Capacity(_, page) = self.call(Call::Capacity("chat", level, listing))
            else {
                panic!("it adds up");
            };
            let [
                Capacity {
                    keys: counted,
                    limits: sums,
                    ..
                },
            ] = &page.items[..]
            else {
                panic!("one sum");
            };
            assert!(*counted <= most, "a page is bounded");
            keys += counted;
            for sum in sums {
                let found = limits.iter().position(|(name, _)| *name == sum.limit);
                let at = found.unwrap_or_else(|| {
                    limits.push((sum.limit.clone(), [0; 4]));
                    limits.len() - 1
                });
                let more = [sum.keys, sum.capacity, sum.available, sum.debt];
                limits[at]
                    .1
                    .iter_mut()
                    .zip(more)
                    .for_each(|(sum, more)| *sum += more);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        limits.sort();
        (keys, limits)
    }

    /// The same by a peek of each key.
    fn peeked(&self) -> Vec<(String, [u64; 4])> {
        let names = ["daily", "rpm", "tpm"];
        let mut sums = names.map(|name| (name.to_owned(), [0; 4]));
        for (nth, key) in keys().enumerate() {
            let Answer::Foretold(decided, _) = self.call(Call::Peek(question(&key, &[]))) else {
                panic!("it peeks");
            };
            let told = decided.told();
            let decision = told.decision().expect("decided");
            for (name, sum) in &mut sums {
                // Each root once.
                if *name == "daily" && !nth.is_multiple_of(USERS) {
                    continue;
                }
                let standing = decision.standing(&**name).expect("it stands somewhere");
                let more = [1, standing.limit, standing.remaining, standing.debt];
                sum.iter_mut()
                    .zip(more)
                    .for_each(|(sum, more)| *sum += more);
            }
        }
        sums.into()
    }
}

fn keys() -> impl Iterator<Item = String> {
    let roots = 0..ROOTS;
    roots.flat_map(|root| (0..USERS).map(move |user| format!("org{root}/user{user}")))
}

fn question<'a>(key: &'a str, amounts: &[(&'a str, Number<'a>)]) -> Question<'a> {
    Question {
        policy: "chat",
        whose: Whose::Key(key.as_bytes()),
        member: None,
        cost: None,
        amounts: amounts.iter().copied().collect(),
    }
}

#[test]
fn what_100_000_keys_come_to_is_the_sum_of_their_peeks() {
    let house = House::new();
    house.fill();
    let peeked = house.peeked();
    let (keys, limits) = house.capacity(None, 1_000);
    assert_eq!(keys, (ROOTS * USERS + ROOTS) as u64);
    assert_eq!(limits, peeked);
    assert!(peeked[2].1[3] > 0, "some owe");
    let (_, roots) = house.capacity(Some("org"), 1_000);
    assert_eq!(roots, peeked[..1]);
    let (_, users) = house.capacity(Some("user"), 777);
    assert_eq!(users, peeked[1..]);
}

#[test]
fn a_level_that_is_not_there_is_an_error() {
    let house = House::new();
    let listing = Listing {
        select: Select::All,
        after: None,
        most: None,
    };
    let call = Call::Capacity("chat", Some("team"), listing);
    let error = now(house.service.call(&house.caller, call)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`level`: the policy's keys have no level `team`; there is `org`, `user`"
    );
}
