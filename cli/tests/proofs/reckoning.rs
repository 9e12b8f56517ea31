//! What of all that was acknowledged is there after a restart.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, Request, Said, Standing};
use crate::ledger::{Change, Ledger, TAKES, Taken, scarce, spend, work};

/// What a scarce budget grants, in all.
pub const FEW: u64 = 40;

/// What is known of a file over all its restarts.
#[derive(Default, Debug)]
pub struct Books {
    spent: u64,
    tokens: u64,
    fence: u64,
    /// Whose each id of a lease is.
    ids: HashMap<String, String>,
    pub acknowledged: usize,
    pub leases: usize,
    /// Acknowledged, and gone by the kill.
    pub lost: u64,
    /// How long before the last change of its round the oldest of the lost was
    /// acknowledged.
    pub oldest: Duration,
}

/// One restart.
pub struct Reckoning<'a> {
    pub client: Box<dyn Client>,
    pub books: &'a mut Books,
    pub ledgers: Vec<Ledger>,
    pub round: usize,
    /// What a kill may lose, before the last change that was acknowledged; no
    /// change is later than when it was answered, nor earlier than when it was
    /// asked for, so that it does not matter when anybody was let run.
    pub loss: Option<Duration>,
}

impl Reckoning<'_> {
    pub fn run(mut self) {
        let ledgers = std::mem::take(&mut self.ledgers);
        let changes = ledgers.iter().flat_map(Ledger::changes);
        let heard: Vec<_> = changes.filter(|c| c.acknowledged.is_some()).collect();
        let latest = heard.iter().map(|change| change.begun).max();
        self.books.acknowledged += heard.len();
        let Some(latest) = latest else { return };
        let judge = Judge {
            latest,
            loss: self.loss,
        };
        self.spent(&judge, &ledgers);
        self.scarce(&judge, &ledgers);
        let leases: Vec<_> = ledgers.iter().flat_map(|ledger| &ledger.leases).collect();
        self.held(&judge, &leases);
        let fences = leases
            .iter()
            .filter_map(|taken| Some(taken.lease.as_ref()?.fence));
        self.books.fence = fences.fold(self.books.fence, u64::max);
        for taken in &leases {
            self.resolve(&judge, taken);
        }
        self.all_is_settled();
        self.make_it_last();
    }

    fn spent(&mut self, judge: &Judge, ledgers: &[Ledger]) {
        let changes: Vec<_> = ledgers.iter().flat_map(|l| l.spent.clone()).collect();
        let used = self.stands(spend(&[("units", 1)]), "units").used();
        let new = used
            .checked_sub(self.books.spent)
            .expect("no budget is reset");
        judge.counted("units", &changes, new, self.books);
        self.books.spent = used;
    }

    /// Whatever was lost is granted again, and nothing else beyond the budget.
    fn scarce(&mut self, judge: &Judge, ledgers: &[Ledger]) {
        let changes: Vec<_> = ledgers.iter().flat_map(|l| l.scarce.clone()).collect();
        let key = self.round.to_string();
        let used = self.stands(scarce(&key), "few").used();
        let before = self.books.lost;
        judge.counted("few", &changes, used, self.books);
        let lost = self.books.lost - before;
        let again = (0..=FEW).take_while(|_| self.is_admitted(&key)).count() as u64;
        assert_eq!(used + again, FEW);
        let heard = changes
            .iter()
            .filter(|(_, change)| change.acknowledged.is_some());
        let admitted = heard.count() as u64 + again;
        assert!(admitted <= FEW + lost, "{admitted} of {FEW}, {lost} lost");
    }

    fn is_admitted(&mut self, key: &str) -> bool {
        let said = self.client.check(scarce(key)).expect("it is up again");
        said == Said::Yes
    }

    /// Leases that were acknowledged are held, or properly settled.
    fn held(&mut self, judge: &Judge, leases: &[&Taken]) {
        let held = self.stands(work(TAKES), "slots").used();
        let sure = |change: &Change| judge.is_sure(change);
        let must = leases
            .iter()
            .filter(|l| sure(&l.grant) && l.settle.is_none());
        let most = leases
            .iter()
            .filter(|l| !l.settle.as_ref().is_some_and(sure));
        let range = must.count() as u64..=most.count() as u64;
        assert!(range.contains(&held), "{held} slots are held of {range:?}");
    }

    /// Settles a lease as its holder would have: by its id if that may have been done
    /// already, else found by asking for it again, in the same name.
    fn resolve(&mut self, judge: &Judge, taken: &Taken) {
        let name = taken.name.as_str();
        let used = [("tokens", taken.used)];
        if let (Some(lease), Some(settle)) = (&taken.lease, &taken.settle) {
            self.books.leases += 1;
            let whose = self.books.ids.insert(lease.id.clone(), name.to_owned());
            assert_eq!(whose, None, "an id given twice");
            match self.client.settle(work(&used), &lease.id) {
                Ok(repeated) => {
                    if !repeated && settle.acknowledged.is_some() {
                        judge.lost("settlement", 1, settle, self.books);
                    }
                    self.books.tokens += taken.used;
                }
                Err(error) => {
                    assert!(is_unknown(&error), "{error}");
                    judge.lost("grant", 1, &taken.grant, self.books);
                }
            }
            return;
        }
        let granted = self.client.acquire(work(TAKES), Some(name));
        let found = granted.expect("it is up again").expect("there is room");
        if let Some(lease) = &taken.lease {
            self.books.leases += 1;
            let whose = self.books.ids.insert(lease.id.clone(), name.to_owned());
            assert_eq!(whose, None, "an id given twice");
            if found.repeated {
                assert_eq!((&found.id, found.fence), (&lease.id, lease.fence), "{name}");
            } else {
                judge.lost("grant", 1, &taken.grant, self.books);
            }
        }
        if !found.repeated {
            assert!(found.fence > self.books.fence, "a fence that does not grow");
        }
        let whose = self.books.ids.entry(found.id.clone());
        assert_eq!(whose.or_insert(name.to_owned()), name, "an id given twice");
        let settled = self.client.settle(work(&used), &found.id);
        assert!(!settled.expect("a live lease"), "{name} was never settled");
        self.books.tokens += taken.used;
    }

    /// All slots are back, and each use counts once.
    fn all_is_settled(&mut self) {
        assert_eq!(
            self.stands(work(TAKES), "slots").used(),
            0,
            "a slot is lost"
        );
        let used = self.stands(work(TAKES), "tokens").used();
        assert_eq!(used, self.books.tokens, "what was used");
    }

    /// What was done here is not to be lost by the next kill: an interval later
    /// another change is acknowledged.
    fn make_it_last(&mut self) {
        thread::sleep(self.loss.unwrap_or_default());
        let (policy, key, amounts) = ("spent", "nobody", &[("units", 1)]);
        let another = self.client.debit(Request {
            policy,
            key,
            amounts,
        });
        another.expect("it is up again");
    }

    fn stands(&mut self, request: Request<'_>, limit: &str) -> Standing {
        self.client.peek(request).expect("it is up again")[limit]
    }
}

/// Says what may be lost.
struct Judge {
    latest: Instant,
    loss: Option<Duration>,
}

impl Judge {
    /// Whether it must be there.
    fn is_sure(&self, change: &Change) -> bool {
        let Some(at) = change.acknowledged else {
            return false;
        };
        match self.loss {
            Some(loss) => at + loss < self.latest,
            None => true,
        }
    }

    fn lost(&self, what: &str, amount: u64, change: &Change, books: &mut Books) {
        assert!(!self.is_sure(change), "a {what} is lost: {change:?}");
        books.lost += amount;
        if let Some(at) = change.acknowledged {
            books.oldest = books.oldest.max(self.latest.saturating_duration_since(at));
        }
    }

    /// That `found` of these changes are there.
    fn counted(&self, what: &str, changes: &[(u64, Change)], found: u64, books: &mut Books) {
        let sum = |which: &dyn Fn(&Change) -> bool| -> u64 {
            let chosen = changes.iter().filter(|(_, change)| which(change));
            chosen.map(|(amount, _)| amount).sum()
        };
        let heard = sum(&|change| change.acknowledged.is_some());
        let range: RangeInclusive<u64> = sum(&|change| self.is_sure(change))..=sum(&|_| true);
        assert!(
            range.contains(&found),
            "{found} {what} of {range:?}, {heard} acknowledged"
        );
        books.lost += heard.saturating_sub(found);
    }
}

/// That the server said that it knows no such lease.
fn is_unknown(error: &std::io::Error) -> bool {
    let text = error.to_string();
    ["not_found", "NotFound", "NOTFOUND", "no such lease"]
        .iter()
        .any(|word| text.contains(word))
}
