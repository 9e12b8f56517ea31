//! Decisions, standings and instants into replies.
//!
//! Names end in their units: instants are microseconds since the Unix epoch
//! (`_us`), lengths of time milliseconds, rounded up (`_ms`). An amount of a
//! limit with a finer unit than one is a decimal text.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate::{Span, Standing, Timestamp, Unit, Verdict};
use tidegate_service::Told;

use super::reply::Replies;

/// How many facts [`told`] writes.
pub(crate) const DECISION_FACTS: usize = 10;

/// Verdict, what binds, until when, and where every limit stands.
pub(crate) fn told(replies: &mut Replies, told: &Told<'_>) {
    verdict(replies, told.verdict(), || told.retry_after());
    replies.text("binding");
    optional_text(replies, told.binding());
    replies.text("degraded");
    replies.boolean(told.degraded());
    replies.text("limits");
    standings(replies, told);
    replies.text("shadowed");
    replies.boolean(told.shadowed());
    replies.text("level");
    optional_text(replies, told.level());
    replies.text("member");
    optional_text(replies, told.member());
    replies.text("entity");
    optional_text(replies, told.entity());
}

/// Where every limit stands, by its name.
pub(crate) fn standings(replies: &mut Replies, told: &Told<'_>) {
    replies.map(told.limits().count());
    for stand in told.limits() {
        replies.text(stand.name);
        replies.map(3);
        stands(replies, stand.unit, &stand.standing, || told.at());
    }
}

/// Three facts: the word, the instant, and how long to wait.
pub(crate) fn verdict(
    replies: &mut Replies,
    verdict: Verdict,
    wait: impl FnOnce() -> Option<Span>,
) {
    replies.text("verdict");
    replies.text(match verdict.admitted() {
        true => "admitted",
        false => "refused",
    });
    replies.text("not_until_us");
    match verdict {
        Verdict::NotUntil(at) => replies.integer(at.as_micros()),
        Verdict::Admit | Verdict::Never => replies.null(),
    }
    replies.text("retry_after_ms");
    match verdict {
        Verdict::Admit => replies.integer(0),
        Verdict::NotUntil(_) | Verdict::Never => match wait() {
            Some(wait) => replies.count(wait.millis_up()),
            None => replies.null(),
        },
    }
}

/// Three facts: the most, what is left, and when all of it is back.
pub(crate) fn stands(
    replies: &mut Replies,
    unit: Unit,
    standing: &Standing,
    now: impl FnOnce() -> Timestamp,
) {
    replies.text("limit");
    amount(replies, unit, standing.limit);
    replies.text("remaining");
    amount(replies, unit, standing.remaining);
    replies.text("reset_ms");
    let reset = standing.full_at.map_or(0, |at| at.since(now()).millis_up());
    replies.count(reset);
}

/// An amount in its limit's unit.
pub(crate) fn amount(replies: &mut Replies, unit: Unit, amount: u64) {
    match unit == Unit::ONE {
        true => replies.count(amount),
        false => replies.text(&unit.show(amount).to_string()),
    }
}

pub(crate) fn optional_text(replies: &mut Replies, text: Option<&str>) {
    match text {
        Some(text) => replies.text(text),
        None => replies.null(),
    }
}

pub(crate) fn optional_instant(replies: &mut Replies, at: Option<Timestamp>) {
    match at {
        Some(at) => replies.integer(at.as_micros()),
        None => replies.null(),
    }
}

/// Where a page has ended, as people can type it.
pub(crate) fn cursor(replies: &mut Replies, end: Option<&[u8]>) {
    let end = end.map(|end| URL_SAFE_NO_PAD.encode(end));
    replies.text("cursor");
    optional_text(replies, end.as_deref());
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
