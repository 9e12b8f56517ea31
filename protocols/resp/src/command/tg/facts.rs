//! Decisions, standings and instants into replies.
//!
//! Names end in their units: instants are microseconds since the Unix epoch
//! (`_us`), lengths of time milliseconds, rounded up (`_ms`). An amount of a
//! limit with a finer unit than one is a decimal text.

use tidegate::{Decision, Standing, Timestamp, Unit, Verdict};
use tidegate_service::{Served, Ticket};

use crate::reply::Replies;

/// How many facts [`decision`] and [`admitted`] write.
pub(super) const DECISION_FACTS: usize = 9;

/// Verdict, what binds, until when, and where every limit stands.
pub(super) fn decision(replies: &mut Replies, served: &Served, decision: &Decision) {
    let now = served.now();
    verdict(replies, decision.verdict(), now);
    replies.text("binding");
    optional_text(replies, decision.binding());
    degraded(replies, decision.degraded());
    replies.text("limits");
    standings(replies, served, decision, now);
    let (level, member) = (served.level(decision), decision.member());
    circumstances(replies, decision.shadowed(), level, member);
}

/// Where every limit stands, by its name, as of `now`.
pub(super) fn standings(
    replies: &mut Replies,
    served: &Served,
    decision: &Decision,
    now: Timestamp,
) {
    replies.map(decision.standings().count());
    for (name, standing) in decision.standings() {
        replies.text(name);
        replies.map(3);
        stands(replies, served.unit(name), &standing, now);
    }
}

/// Admitted with this lease, without standings.
pub(super) fn granted(replies: &mut Replies, served: &Served, ticket: &Ticket) {
    admitted(
        replies,
        served,
        ticket.degraded,
        ticket.shadowed,
        ticket.member(),
    );
}

/// Admitted though the store could not tell.
pub(super) fn blindly(replies: &mut Replies, served: &Served) {
    admitted(replies, served, true, false, None);
}

fn admitted(
    replies: &mut Replies,
    served: &Served,
    blindly: bool,
    shadowed: bool,
    member: Option<&str>,
) {
    verdict(replies, Verdict::Admit, served.now());
    replies.text("binding");
    replies.null();
    degraded(replies, blindly);
    replies.text("limits");
    replies.map(0);
    circumstances(replies, shadowed, None, member);
}

/// Three facts: the word, the instant, and how far away it is.
pub(super) fn verdict(replies: &mut Replies, verdict: Verdict, now: Timestamp) {
    replies.text("verdict");
    replies.text(match verdict {
        Verdict::Admit => "admitted",
        Verdict::NotUntil(_) => "refused",
        Verdict::Never => "never",
    });
    replies.text("not_until_us");
    match verdict {
        Verdict::NotUntil(at) => replies.integer(at.as_micros()),
        Verdict::Admit | Verdict::Never => replies.null(),
    }
    replies.text("retry_after_ms");
    match verdict {
        Verdict::Admit => replies.integer(0),
        refused => match refused.retry_after(now) {
            Some(wait) => replies.count(wait.millis_up()),
            None => replies.null(),
        },
    }
}

fn degraded(replies: &mut Replies, degraded: bool) {
    replies.text("degraded");
    replies.boolean(degraded);
}

/// Three facts: whether a shadow limit would have refused, the level that binds,
/// and the member of a pool whose answer it is.
fn circumstances(replies: &mut Replies, shadowed: bool, level: Option<&str>, member: Option<&str>) {
    replies.text("shadowed");
    replies.boolean(shadowed);
    replies.text("level");
    optional_text(replies, level);
    replies.text("member");
    optional_text(replies, member);
}

/// Three facts: the most, what is left, and when all of it is back.
pub(super) fn stands(replies: &mut Replies, unit: Unit, standing: &Standing, now: Timestamp) {
    replies.text("limit");
    amount(replies, unit, standing.limit);
    replies.text("remaining");
    amount(replies, unit, standing.remaining);
    replies.text("reset_ms");
    let reset = standing.full_at.map_or(0, |at| at.since(now).millis_up());
    replies.count(reset);
}

/// An amount in its limit's unit.
pub(super) fn amount(replies: &mut Replies, unit: Unit, amount: u64) {
    match unit == Unit::ONE {
        true => replies.count(amount),
        false => replies.text(&unit.show(amount).to_string()),
    }
}

pub(super) fn optional_text(replies: &mut Replies, text: Option<&str>) {
    match text {
        Some(text) => replies.text(text),
        None => replies.null(),
    }
}

pub(super) fn optional_instant(replies: &mut Replies, at: Option<Timestamp>) {
    match at {
        Some(at) => replies.integer(at.as_micros()),
        None => replies.null(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_told_in_its_limits_unit() {
        let told = |places, number| {
            let mut replies = Replies::default();
            amount(&mut replies, Unit::decimal(places), number);
            String::from_utf8(replies.bytes().to_vec()).unwrap()
        };
        assert_eq!(told(0, 1_205), ":1205\r\n");
        assert_eq!(told(2, 1_205), "$5\r\n12.05\r\n");
        assert_eq!(told(3, 5), "$5\r\n0.005\r\n");
        assert_eq!(told(1, 0), "$3\r\n0.0\r\n");
    }
}
