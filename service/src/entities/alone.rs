//! Amounts of an entity whose ancestors are not charged: those of the limits of its own level.

use smallvec::SmallVec;

use super::path::EntityPath;
use crate::active_policy::ActivePolicy;
use crate::amounts::{Amounts, Number};
use crate::overrides::AddedLimit;
use tidegate::internal::LimitInternals;

/// What is asked of the limits of an entity's own level: `cost` of each rate that is not named,
/// and what is. Of what is taken, every limit of another level is left out by its name; of what
/// was taken, such limits stay as they are.
pub(crate) fn of_own_level<'a>(
    active: &'a ActivePolicy,
    (path, added): (&EntityPath, &'a [AddedLimit]),
    (cost, named): (Option<Number<'a>>, &[(&'a str, Number<'a>)]),
    is_taken_now: bool,
) -> Amounts<'a> {
    let levels = &active.policy().levels;
    let own = path.level() - 1;
    let of_policy = active.policy().limit_lists().flatten().map(|limit| {
        let is_own = limit.level_in(levels) == Ok(own);
        (limit.name(), is_own, limit.is_counted())
    });
    let mut limits: SmallVec<[(&str, bool, bool); 8]> = of_policy.collect();
    let mut own_limits = limits.iter().filter(|&&(_, is_own, _)| is_own);
    let wants_amount = own_limits.any(|&(_, _, is_counted)| !is_counted);
    let added = added.iter();
    // A cost in the policy's units is not charged to an added rate, here as elsewhere.
    let takes_no_cost = active.has_units();
    let added = added.map(|limit| {
        let takes_none = limit.is_counted || takes_no_cost;
        (&*limit.name, limit.is_own, takes_none)
    });
    limits.extend(added);
    let is_other = |name: &str| limits.iter().any(|&(of, is_own, _)| of == name && !is_own);
    let own_named = named.iter().copied();
    let mut amounts: Amounts<'a> = own_named.filter(|(name, _)| !is_other(name)).collect();
    // Who names nothing is told so, as anybody is, if the policy wants an amount.
    let says_nothing = named.is_empty() && cost.is_none();
    let is_short = says_nothing && wants_amount;
    for &(name, is_own, is_counted) in &limits {
        let amount = match cost {
            Some(cost) if is_own && !is_counted => cost,
            _ if !is_own && is_taken_now && !is_short => Number::Units(0),
            _ => continue,
        };
        if amounts.iter().all(|(known, _)| *known != name) {
            amounts.push((name, amount));
        }
    }
    amounts
}
