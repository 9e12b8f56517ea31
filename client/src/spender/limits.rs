//! The limits of a key, as its grants tell them: their names in an order, their units, which of
//! them count calls, and the most that they grant.

use tidegate::{Amount, Unit};
use tidegate_tier::Wish;

use super::amounts::Amounts;
use crate::grant::Grant;
use crate::named::Named;
use crate::quantity::Quantity;
use crate::report::Report;
use crate::request::Request;
use crate::settlement::Settlement;

/// The limits, in the order in which they were told first. One that is told no more keeps its
/// place.
#[derive(Debug, Default)]
pub(super) struct Limits(Vec<Known>);

#[derive(Debug)]
struct Known {
    name: String,
    unit: Unit,
    is_call: bool,
    is_told: bool,
    batch: Amount,
    most: Amount,
}

impl Limits {
    /// Whether `grant` has a limit in another unit than before: then nothing that was granted
    /// before can be compared.
    pub(super) fn has_other_units(&self, grant: &Grant) -> bool {
        let is_other = |one: &Known| {
            let amount = grant.amounts().get(&one.name);
            amount.is_some_and(|amount| unit_of(amount) != one.unit)
        };
        self.0.iter().any(is_other)
    }

    /// Goes by what `grant` tells, where `batch` is asked for at a time.
    pub(super) fn follow(&mut self, grant: &Grant, batch: &Named<Quantity>) {
        for one in &mut self.0 {
            one.is_told = false;
        }
        for (name, amount) in grant.amounts().iter() {
            let unit = unit_of(amount);
            let standing = grant.answer().limits.get(name);
            let most = standing.and_then(|standing| in_unit(unit, &standing.limit));
            let most = most.unwrap_or(tidegate::MAX_AMOUNT);
            let asked = batch.get(name).and_then(|amount| in_unit(unit, amount));
            let known = Known {
                name: name.to_owned(),
                unit,
                is_call: grant.calls().iter().any(|call| call == name),
                is_told: true,
                batch: asked.unwrap_or(1).min(most),
                most,
            };
            match self.0.iter_mut().find(|one| one.name == name) {
                Some(one) => *one = known,
                None => self.0.push(known),
            }
        }
    }

    /// What `amounts` comes to of each, with `calls` of each limit of calls that is not named;
    /// `None` where the server is to say what is wrong.
    pub(super) fn amounts(&self, amounts: &Amounts, calls: Amount) -> Option<Vec<Amount>> {
        let is_known = |name: &str| self.0.iter().any(|one| one.is_told && one.name == name);
        if !amounts.named.iter().all(|(name, _)| is_known(name)) {
            return None;
        }
        if amounts.cost.is_some() && self.has_several_units() {
            return None;
        }
        let says_nothing = amounts.named.is_empty() && amounts.cost.is_none();
        let each = self
            .0
            .iter()
            .map(|one| match (amounts.named.get(&one.name), &amounts.cost) {
                _ if !one.is_told => Some(0),
                (Some(amount), _) => in_unit(one.unit, amount),
                (None, _) if one.is_call => Some(calls),
                (None, Some(cost)) => in_unit(one.unit, cost),
                (None, None) => (!says_nothing).then_some(0),
            });
        each.collect()
    }

    /// Whether a cost may not be of all rates and budgets: the server knows of which.
    fn has_several_units(&self) -> bool {
        let mut costed = self.0.iter().filter(|one| one.is_told && !one.is_call);
        let first = costed.next();
        first.is_some_and(|first| costed.any(|one| one.unit != first.unit))
    }

    /// Whether a grant can cover so much: something, and no more than a batch.
    pub(super) fn fits(&self, amounts: &[Amount]) -> bool {
        let limits = amounts.iter().zip(&self.0);
        let fits = limits.clone().all(|(amount, one)| *amount <= one.batch);
        fits && amounts.iter().any(|&amount| amount > 0)
    }

    pub(super) fn batch(&self) -> Vec<Amount> {
        let batch = |one: &Known| if one.is_told { one.batch } else { 0 };
        self.0.iter().map(batch).collect()
    }

    pub(super) fn most(&self) -> Vec<Amount> {
        self.0.iter().map(|one| one.most).collect()
    }

    /// What `grant` has of each.
    pub(super) fn granted(&self, grant: &Grant) -> Vec<Amount> {
        let granted = |one: &Known| {
            let amount = grant.amounts().get(&one.name)?;
            in_unit(one.unit, amount)
        };
        self.0.iter().map(|one| granted(one).unwrap_or(0)).collect()
    }

    /// A request for what is wished.
    pub(super) fn request(&self, mut request: Request, wish: &Wish) -> Request {
        let told = self.0.iter().enumerate().filter(|(_, one)| one.is_told);
        for (position, one) in told {
            let wished = wish.amounts.get(position).copied().unwrap_or(0);
            let least = wish.least.get(position).copied().unwrap_or(0);
            request = request
                .amount(&one.name, one.quantity(wished))
                .least(&one.name, one.quantity(least));
        }
        request
    }

    /// That so much of each was used.
    pub(super) fn report(&self, used: &[Amount]) -> Report {
        let used = self.0.iter().zip(used).filter(|(_, used)| **used > 0);
        used.fold(Report::new(), |report, (one, &used)| {
            report.used(&one.name, one.quantity(used))
        })
    }
}

impl Known {
    fn quantity(&self, amount: Amount) -> Quantity {
        quantity(self.unit, amount)
    }
}

fn quantity(unit: Unit, amount: Amount) -> Quantity {
    match unit == Unit::ONE {
        true => Quantity::Whole(amount),
        false => Quantity::Decimal(unit.show(amount).to_string()),
    }
}

/// What `report` says was used, and the lease came to less: it was ended before, by somebody else.
pub(super) fn missing(report: &Report, settlement: &Settlement) -> Option<Amounts> {
    let mut is_missing = false;
    let each = settlement.limits.iter().map(|(name, usage)| {
        let unit = unit_of(&usage.used);
        let of = |amount: &Quantity| in_unit(unit, amount).unwrap_or(0);
        let used = report.of(name).map_or(0, of);
        let more = used.saturating_sub(of(&usage.used));
        is_missing |= more > 0;
        (name.to_owned(), quantity(unit, more))
    });
    let named = each.collect();
    let missing = Amounts { named, cost: None };
    is_missing.then_some(missing)
}

/// A server writes every digit of a limit's unit.
fn unit_of(amount: &Quantity) -> Unit {
    match amount {
        Quantity::Whole(_) => Unit::ONE,
        Quantity::Decimal(text) => {
            let digits = text
                .split_once('.')
                .map_or(0, |(_, fraction)| fraction.len());
            Unit::decimal(u8::try_from(digits).unwrap_or(u8::MAX))
        }
    }
}

fn in_unit(unit: Unit, amount: &Quantity) -> Option<Amount> {
    match amount {
        Quantity::Whole(number) => unit.ones(*number).ok(),
        Quantity::Decimal(text) => unit.parse(text).ok(),
    }
}
