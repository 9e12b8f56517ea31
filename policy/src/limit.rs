//! One limit of a policy, from its inline table.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use tidegate_core::kernel::{log, ring};
use tidegate_core::{MAX_AMOUNT, Span};

use super::fault::Faults;
use super::fields::{Field, Fields};
use super::suggest::{one_of, write_instead};
use tidegate::internal::LimitInternals;
use tidegate::{Algorithm, Limit, OnFailure, Period, Unit};

/// What a limit may say, in the order in which it is usually said.
const SETTINGS: [&str; 17] = [
    "calls",
    "rate",
    "budget",
    "concurrency",
    "per",
    "zone",
    "unit",
    "burst",
    "ttl",
    "algorithm",
    "sub_windows",
    "max_entries",
    "postpaid",
    "shadow",
    "level",
    "on_failure",
    "learnt",
];

const ALGORITHMS: [(&str, Algorithm); 7] = [
    ("token_bucket", Algorithm::TokenBucket),
    ("gcra", Algorithm::Gcra),
    ("leaky_bucket", Algorithm::LeakyBucket),
    ("fixed_window", Algorithm::FixedWindow),
    ("first_use_window", Algorithm::FirstUseWindow),
    ("sliding_window", Algorithm::SlidingWindow),
    ("sliding_log", Algorithm::SlidingLog),
];

const CALENDAR: [&str; 3] = ["day", "week", "month"];

/// The four words that a limit can begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `calls`: so many in a time, 1 each.
    Calls,
    /// `rate`: so much in a time; the ask says how much.
    Rate,
    /// `budget`: so much in each window.
    Budget,
    /// `concurrency`: so many at once.
    Concurrency,
}

const KINDS: [(&str, Kind); 4] = [
    ("calls", Kind::Calls),
    ("rate", Kind::Rate),
    ("budget", Kind::Budget),
    ("concurrency", Kind::Concurrency),
];

/// The time over which an amount is counted.
enum Per<'a> {
    Length(Duration),
    Calendar(&'a str, &'a str),
}

/// A limit while it is read: its fields, and where to complain.
struct Reader<'a, 'f, 't> {
    name: &'a str,
    name_span: Range<usize>,
    fields: Fields<'a>,
    /// What its amounts are multiples of.
    unit: Unit,
    faults: &'f mut Faults<'t>,
}

/// What a file calls a limit; a [`Limit`] itself knows only what it does.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitSyntax {
    /// Which of the four words it uses.
    pub kind: Kind,
    /// How it counts; `None` for concurrency.
    pub algorithm: Option<Algorithm>,
    /// The level it is about, if it says so.
    pub level: Option<String>,
    /// Whether it is only recorded.
    pub shadow: bool,
}

impl LimitSyntax {
    /// The same, only recorded.
    pub(super) fn shadowed(self) -> Self {
        Self {
            shadow: true,
            ..self
        }
    }
}

/// Reads a limit; `None` if anything in it is at fault.
pub(super) fn read(
    entry: &Field<'_>,
    levels: &[String],
    faults: &mut Faults<'_>,
) -> Option<(Limit, LimitSyntax)> {
    let fields = fields_of(entry, faults)?;
    read_fields(entry, fields, levels, faults)
}

/// Reads a limit as an override says it, and whether only its key is to have it.
pub(super) fn read_override(entry: &Field<'_>, faults: &mut Faults<'_>) -> Option<bool> {
    let mut fields = fields_of(entry, faults)?;
    let added = fields.take("added");
    let added = added.is_some_and(|field| field.flag(faults) == Some(true));
    read_fields(entry, fields, &[], faults)?;
    Some(added)
}

fn fields_of<'a>(entry: &Field<'a>, faults: &mut Faults<'_>) -> Option<Fields<'a>> {
    let example = format!("`{} = {{ calls = 300, per = \"1m\" }}`", entry.name);
    entry.table(&example, faults)
}

fn read_fields(
    entry: &Field<'_>,
    fields: Fields<'_>,
    levels: &[String],
    faults: &mut Faults<'_>,
) -> Option<(Limit, LimitSyntax)> {
    let name_span = entry.key_span.clone();
    let (limit, written) = Reader {
        name: entry.name,
        name_span,
        fields,
        unit: Unit::ONE,
        faults,
    }
    .read(levels)?;
    // What the engine would refuse is said here, where it can be pointed at.
    if let (true, Err(error)) = (faults.is_empty(), limit.check(levels)) {
        faults.add(
            &entry.key_span,
            format!("`{}`: {error}", entry.name),
            "correct this limit",
        );
    }
    Some((limit, written))
}

impl<'a> Reader<'a, '_, '_> {
    fn read(mut self, levels: &[String]) -> Option<(Limit, LimitSyntax)> {
        self.unit = self.unit();
        let Some((kind, amount)) = self.kind() else {
            self.ignore_the_rest();
            return None;
        };
        let limit = match kind {
            Kind::Concurrency => self.concurrency(amount).map(|limit| (limit, None)),
            _ => self
                .rated(kind, amount)
                .map(|(limit, algorithm)| (limit, Some(algorithm))),
        };
        let shadow = self.flag("shadow");
        let level = self.level(levels).map(str::to_owned);
        self.fields.finish("a limit", &SETTINGS, self.faults);
        let (limit, algorithm) = limit?;
        let limit = level.iter().fold(limit, Limit::at_level).unit(self.unit);
        let limit = if shadow { limit.shadow() } else { limit };
        Some((
            limit,
            LimitSyntax {
                kind,
                algorithm,
                level,
                shadow,
            },
        ))
    }

    /// Which of the four a limit is, and its amount (if that is one).
    fn kind(&mut self) -> Option<(Kind, Option<u64>)> {
        let found: Vec<(Field<'a>, Kind)> = KINDS
            .iter()
            .filter_map(|(word, kind)| Some((self.fields.take(word)?, *kind)))
            .collect();
        for (field, _) in found.iter().skip(1) {
            let message = format!(
                "`{}` is both `{}` and `{}`",
                self.name, found[0].0.name, field.name
            );
            self.faults.add(
                &field.key_span,
                message,
                "make it two limits, each with its own name",
            );
        }
        let Some((field, kind)) = found.first() else {
            self.no_kind();
            return None;
        };
        let (field, kind) = (field.clone(), *kind);
        if matches!(kind, Kind::Calls | Kind::Concurrency) && self.unit != Unit::ONE {
            let message = format!(
                "`unit` does not fit here: `{}` counts whole ones",
                field.name
            );
            let help = "remove it; only a `rate` or a `budget` has parts";
            self.faults.add(&field.key_span, message, help);
            return Some((kind, None));
        }
        Some((kind, self.amount(&field)))
    }

    fn unit(&mut self) -> Unit {
        let Some(field) = self.fields.take("unit") else {
            return Unit::ONE;
        };
        let Some(text) = field.text("0.01", self.faults) else {
            return Unit::ONE;
        };
        Unit::named(text).unwrap_or_else(|| {
            let message = format!("`{text}` is no unit");
            let help = "write a power of ten from \"1\" to \"0.000000001\", such as \"0.01\"";
            self.faults.add(&field.span, message, help);
            Unit::ONE
        })
    }

    /// An amount in the limit's unit: a whole number, or a decimal in quotes.
    fn amount(&mut self, field: &Field<'a>) -> Option<u64> {
        let unit = self.unit;
        // What has no unit yet may be meant to have one.
        let may_have_parts = matches!(field.name, "rate" | "budget");
        if unit == Unit::ONE && !(may_have_parts && field.is_fraction()) {
            return field.integer(1..=MAX_AMOUNT, self.faults);
        }
        field.decimal(unit, 1, self.faults)
    }

    fn no_kind(&mut self) {
        let words = KINDS.map(|(word, _)| word);
        let message = format!("`{}` does not say what it limits", self.name);
        let help = format!("write one of {} with a number", one_of(&words));
        self.faults.add(&self.name_span.clone(), message, help);
    }

    /// Without its kind only misspelt settings of a limit can be told.
    fn ignore_the_rest(mut self) {
        for setting in SETTINGS {
            self.fields.take(setting);
        }
        self.fields.finish("a limit", &SETTINGS, self.faults);
    }

    fn concurrency(&mut self, amount: Option<u64>) -> Option<Limit> {
        let help = "remove it; to count starts, make another limit with `calls` and `per`";
        self.refuse(
            &["per", "zone"],
            "a concurrency limit counts what is held, at any time",
            help,
        );
        let help = "remove it; a concurrency limit has no algorithm to choose";
        let buckets = ["burst", "algorithm", "sub_windows", "max_entries"];
        self.refuse(
            &buckets,
            "a concurrency limit grants at most its number",
            help,
        );
        let help = "remove it; slots come back by themselves";
        self.refuse(
            &["postpaid", "on_failure"],
            "a concurrency limit is never charged",
            help,
        );
        let is_learnt = self.learnt().is_some();
        let ttl = self.duration("ttl");
        let mut limit = Limit::concurrency(self.name, amount?);
        if is_learnt {
            limit = limit.adaptive();
        }
        Some(match ttl {
            Some(ttl) => limit.ttl(ttl),
            None => limit,
        })
    }

    fn rated(&mut self, kind: Kind, amount: Option<u64>) -> Option<(Limit, Algorithm)> {
        let help = "remove it; only a `concurrency` limit holds anything";
        self.refuse(&["ttl"], "what is charged here is not held", help);
        let per = self.per();
        let learnt = self.learnt();
        let is_learnt = learnt.is_some();
        let algorithm = self.algorithm(kind, per.as_ref(), is_learnt);
        self.counts_by_a_window(learnt, algorithm);
        let burst = self.burst(algorithm);
        let sub_windows = self.of(
            "sub_windows",
            algorithm,
            Algorithm::SlidingWindow,
            1..=ring::MAX_SUB_WINDOWS,
        );
        let max_entries = self.of(
            "max_entries",
            algorithm,
            Algorithm::SlidingLog,
            2..=log::MAX_ENTRIES,
        );
        let postpaid = self.postpaid(kind);
        let on_failure = self.on_failure();
        let mut limit = build(kind, self.name, amount?, period(per?));
        let algorithm = algorithm?;
        limit = limit.algorithm(algorithm);
        if is_learnt {
            limit = limit.adaptive();
        }
        limit = burst.into_iter().fold(limit, Limit::burst);
        limit = sub_windows.into_iter().fold(limit, Limit::sub_windows);
        limit = max_entries.into_iter().fold(limit, Limit::max_entries);
        limit = on_failure.into_iter().fold(limit, Limit::on_failure);
        Some((if postpaid { limit.postpaid() } else { limit }, algorithm))
    }

    fn per(&mut self) -> Option<Per<'a>> {
        let Some(field) = self.fields.take("per") else {
            let message = format!("`{}` does not say in how much time", self.name);
            let help = "write `per = \"1m\"`, or `per = \"day\"` with a `zone`";
            self.faults.add(&self.name_span.clone(), message, help);
            self.fields.take("zone");
            return None;
        };
        let text = field.text("1m", self.faults)?;
        if let Some(unit) = CALENDAR.into_iter().find(|unit| *unit == text) {
            return Some(Per::Calendar(unit, self.zone(&field, unit)?));
        }
        let help = "remove it, or write `per` as \"day\", \"week\" or \"month\"";
        self.refuse(
            &["zone"],
            "a time zone matters only to calendar days, weeks and months",
            help,
        );
        self.length(&field, text).map(Per::Length)
    }

    /// A `per` that is no calendar unit: a length, or a word meant to be one.
    fn length(&mut self, field: &Field<'_>, text: &str) -> Option<Duration> {
        let unit = [
            "second", "minute", "hour", "year", "daily", "weekly", "monthly",
        ];
        let instead = ["1s", "1m", "1h", "365d", "day", "week", "month"];
        if let Some(at) = unit.iter().position(|unit| *unit == text) {
            let help = format!("write `per = \"{}\"`", instead[at]);
            self.faults.add(
                &field.span,
                format!("`{text}` is not a length of time"),
                help,
            );
            return None;
        }
        field.duration(shortest()..=longest(), self.faults)
    }

    fn zone(&mut self, per: &Field<'_>, unit: &str) -> Option<&'a str> {
        let Some(field) = self.fields.take("zone") else {
            let message = format!("`per = \"{unit}\"` needs a `zone`");
            let help = "add `zone = \"UTC\"`, or a place such as \"Europe/Berlin\"";
            self.faults.add(&per.span, message, help);
            return None;
        };
        let name = field.text("Europe/Berlin", self.faults)?;
        if jiff::tz::TimeZone::get(name).is_ok() {
            return Some(name);
        }
        let known: Vec<String> = jiff::tz::db()
            .available()
            .map(|zone| zone.to_string())
            .collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let help = super::suggest::nearest(name, &known).map_or_else(
            || "write a name such as \"UTC\" or \"Europe/Berlin\"".to_owned(),
            |near| format!("did you mean \"{near}\"?"),
        );
        self.faults
            .add(&field.span, format!("there is no time zone `{name}`"), help);
        None
    }

    /// The field that says that a limit is learnt, if one does.
    fn learnt(&mut self) -> Option<Field<'a>> {
        let field = self.fields.take("learnt")?;
        field.clone().flag(self.faults)?.then_some(field)
    }

    /// A bucket refills as fast whatever its capacity is: what is learnt is counted by a window.
    fn counts_by_a_window(&mut self, learnt: Option<Field<'a>>, algorithm: Option<Algorithm>) {
        let buckets = [
            Algorithm::TokenBucket,
            Algorithm::Gcra,
            Algorithm::LeakyBucket,
        ];
        let bucket = algorithm.filter(|algorithm| buckets.contains(algorithm));
        if let (Some(field), Some(bucket)) = (learnt, bucket) {
            let message = format!("{} is not learnt: its rate stays", name_of(bucket));
            let help = "remove `algorithm`, or write `algorithm = \"sliding_window\"`";
            self.faults.add(&field.key_span, message, help);
        }
    }

    fn algorithm(
        &mut self,
        kind: Kind,
        per: Option<&Per<'_>>,
        is_learnt: bool,
    ) -> Option<Algorithm> {
        let calendar = matches!(per, Some(Per::Calendar(..)));
        let Some(field) = self.fields.take("algorithm") else {
            let windowed = calendar || kind == Kind::Budget;
            return Some(match (windowed, is_learnt) {
                (true, _) => Algorithm::FixedWindow,
                (false, true) => Algorithm::SlidingWindow,
                (false, false) => Algorithm::TokenBucket,
            });
        };
        let algorithm = field.word(&ALGORITHMS, self.faults)?;
        if calendar && algorithm != Algorithm::FixedWindow {
            let message = format!(
                "a calendar period is a fixed window, not {}",
                name_of(algorithm)
            );
            let help = "remove `algorithm`, or write `per` as a length such as \"24h\"";
            self.faults.add(&field.span, message, help);
            return None;
        }
        Some(algorithm)
    }

    fn burst(&mut self, algorithm: Option<Algorithm>) -> Option<u64> {
        let bucket = matches!(
            algorithm,
            None | Some(Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket)
        );
        let field = self.fields.take("burst")?;
        if bucket {
            return self.amount(&field);
        }
        let message = format!("{} has no burst", algorithm.map_or("it", name_of));
        let help = "remove `burst`, or write `algorithm = \"token_bucket\"`";
        self.faults.add(&field.key_span, message, help);
        None
    }

    /// A count that belongs to one algorithm.
    fn of(
        &mut self,
        setting: &str,
        given: Option<Algorithm>,
        owner: Algorithm,
        range: RangeInclusive<u32>,
    ) -> Option<u32> {
        let field = self.fields.take(setting)?;
        if given.is_none_or(|given| given == owner) {
            let range = u64::from(*range.start())..=u64::from(*range.end());
            let number = field.integer(range, self.faults)?;
            return u32::try_from(number).ok();
        }
        let message = format!("`{setting}` belongs to {}", name_of(owner));
        let help = format!(
            "remove `{setting}`, or write `algorithm = \"{}\"`",
            name_of(owner)
        );
        self.faults.add(&field.key_span, message, help);
        None
    }

    fn postpaid(&mut self, kind: Kind) -> bool {
        if kind == Kind::Calls {
            let help = "remove it; a call costs 1, known beforehand";
            self.refuse(
                &["postpaid"],
                "only a `rate` or a `budget` can be postpaid",
                help,
            );
        }
        self.flag("postpaid")
    }

    fn on_failure(&mut self) -> Option<OnFailure> {
        let field = self.fields.take("on_failure")?;
        field.word(
            &[("charge", OnFailure::Charge), ("refund", OnFailure::Refund)],
            self.faults,
        )
    }

    fn level(&mut self, levels: &[String]) -> Option<&'a str> {
        let field = self.fields.take("level")?;
        let level = field.text("org", self.faults)?;
        if levels.iter().any(|known| known == level) {
            return Some(level);
        }
        let known: Vec<&str> = levels.iter().map(String::as_str).collect();
        let help = if known.is_empty() {
            format!("add `key = \"{level}/user\"` to the policy, outermost first")
        } else {
            write_instead(level, &known)
        };
        self.faults.add(
            &field.span,
            format!("the policy has no level `{level}`"),
            help,
        );
        None
    }

    fn duration(&mut self, setting: &str) -> Option<Duration> {
        let field = self.fields.take(setting)?;
        field.duration(shortest()..=longest(), self.faults)
    }

    fn flag(&mut self, setting: &str) -> bool {
        let field = self.fields.take(setting);
        field
            .and_then(|field| field.flag(self.faults))
            .unwrap_or(false)
    }

    /// Reports settings that make no sense here.
    fn refuse(&mut self, settings: &[&str], reason: &str, help: &str) {
        for setting in settings {
            if let Some(field) = self.fields.take(setting) {
                let message = format!("`{setting}` does not fit here: {reason}");
                self.faults.add(&field.key_span, message, help);
            }
        }
    }
}

fn build(kind: Kind, name: &str, amount: u64, per: Period) -> Limit {
    match kind {
        Kind::Calls => Limit::calls(name, amount, per),
        Kind::Rate => Limit::rate(name, amount, per),
        Kind::Budget => Limit::budget(name, amount, per),
        Kind::Concurrency => Limit::concurrency(name, amount),
    }
}

fn period(per: Per<'_>) -> Period {
    match per {
        Per::Length(length) => Period::from(length),
        Per::Calendar("week", zone) => Period::week(zone),
        Per::Calendar("month", zone) => Period::month(zone),
        Per::Calendar(_, zone) => Period::day(zone),
    }
}

fn name_of(algorithm: Algorithm) -> &'static str {
    let found = ALGORITHMS.iter().find(|(_, known)| *known == algorithm);
    found.map_or("this algorithm", |(name, _)| name)
}

pub(super) const fn shortest() -> Duration {
    Duration::from_micros(Span::MILLISECOND.as_micros())
}

pub(super) const fn longest() -> Duration {
    Duration::from_micros(Span::LONGEST_PERIOD.as_micros())
}
