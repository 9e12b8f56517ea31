//! What an exchange of policies changes, setting by setting.

use std::borrow::Cow;
use std::fmt;

use super::effect;
use super::sort::Sort;
use tidegate::Limit;
use tidegate_policy::{Policy, PolicyFile, PolicyMember, Shape, parse_duration};

/// One thing that an exchange of policies changes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Change {
    /// The policy.
    pub policy: String,
    /// The member of a pool, if it is about one.
    pub member: Option<String>,
    /// The limit, if it is about one.
    pub limit: Option<String>,
    /// Which setting, as files call it; nothing if it is about the whole.
    pub setting: Option<String>,
    /// What happens to it.
    pub sort: Sort,
    /// What it was, as its file says it.
    pub was: Option<String>,
    /// What it becomes.
    pub becomes: Option<String>,
    /// What that means for keys that are in use.
    pub effect: Cow<'static, str>,
}

impl Change {
    /// What it is about, such as `limit chat/eu.rpm`.
    #[must_use]
    pub fn subject(&self) -> String {
        let mut name = self.policy.clone();
        if let Some(member) = &self.member {
            name = format!("{name}/{member}");
        }
        match (&self.limit, &self.member) {
            (Some(limit), _) => format!("limit {name}.{limit}"),
            (None, Some(_)) => format!("member {name}"),
            (None, None) => format!("policy {name}"),
        }
    }
}

/// Whether a line that tells a [`Change`] is about this policy. (Where names have dots, perhaps about
/// another one that begins so.)
pub(crate) fn is_about(line: &str, policy: &str) -> bool {
    let subject = line.get(2..).unwrap_or_default();
    let kinds = ["policy ", "member ", "limit "].into_iter();
    let mut named = kinds.filter_map(|kind| subject.strip_prefix(kind)?.strip_prefix(policy));
    named.any(|rest| rest.starts_with([' ', ':', '/', '.']))
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.sort.sign(), self.subject())?;
        if let Some(setting) = &self.setting {
            write!(f, ": {setting}")?;
            let none = || "nothing".to_owned();
            let (was, becomes) = (self.was.clone(), self.becomes.clone());
            let (was, becomes) = (was.unwrap_or_else(none), becomes.unwrap_or_else(none));
            write!(f, " {was} -> {becomes}")?;
        }
        write!(f, " ({})", self.effect)
    }
}

/// What leads from one file to another.
#[must_use]
pub fn compare(old: &PolicyFile, new: &PolicyFile) -> Vec<Change> {
    between(old.policies.iter(), new)
}

/// What leads from `old` to `new`: what goes first, then in the new order.
pub(super) fn between<'p>(
    old: impl Iterator<Item = &'p Policy> + Clone,
    new: &PolicyFile,
) -> Vec<Change> {
    let mut changes = Changes::default();
    let mut gone: Vec<_> = old
        .clone()
        .filter(|policy| new.get(&policy.name).is_none())
        .collect();
    gone.sort_by(|a, b| a.name.cmp(&b.name));
    for policy in gone {
        changes.whole(&Place::of(policy), Sort::Removed);
    }
    for policy in &new.policies {
        match old.clone().find(|known| known.name == policy.name) {
            None => changes.whole(&Place::of(policy), Sort::Added),
            Some(known) => changes.policy(known, policy),
        }
    }
    changes.0
}

/// Where a change is.
#[derive(Clone, Copy)]
struct Place<'p> {
    policy: &'p str,
    member: Option<&'p str>,
    limit: Option<&'p str>,
}

impl<'p> Place<'p> {
    fn of(policy: &'p Policy) -> Self {
        Self {
            policy: &policy.name,
            member: None,
            limit: None,
        }
    }

    fn member(self, member: &'p PolicyMember) -> Self {
        Self {
            member: Some(&member.name),
            ..self
        }
    }

    fn limit(self, limit: &'p Limit) -> Self {
        Self {
            limit: Some(limit.name()),
            ..self
        }
    }
}

#[derive(Default)]
struct Changes(Vec<Change>);

impl Changes {
    fn whole(&mut self, place: &Place<'_>, sort: Sort) {
        let effect = effect::of_whole(sort, place.member.is_some(), place.limit.is_some());
        self.add(place, (None, None, None), sort, effect.into());
    }

    fn add(
        &mut self,
        place: &Place<'_>,
        (setting, was, becomes): (Option<&str>, Option<&Shape>, Option<&Shape>),
        sort: Sort,
        effect: Cow<'static, str>,
    ) {
        self.0.push(Change {
            policy: place.policy.to_owned(),
            member: place.member.map(str::to_owned),
            limit: place.limit.map(str::to_owned),
            setting: setting.map(str::to_owned),
            sort,
            was: was.map(ToString::to_string),
            becomes: becomes.map(ToString::to_string),
            effect,
        });
    }

    fn policy(&mut self, old: &Policy, new: &Policy) {
        let place = Place::of(new);
        let settings = |setting: &str| !matches!(setting, "limits" | "member" | "key");
        let effect = |setting: &str, sort| match setting {
            "tier" => effect::of_tier(old, new).into(),
            _ => effect::of_policy(setting, sort).into(),
        };
        self.settings(&place, &old.shape, &new.shape, settings, effect);
        if old.levels != new.levels {
            let named = |policy: &Policy| Shape::Text(policy.levels.join("/"));
            let (was, becomes) = (named(old), named(new));
            let both = (Some("key"), Some(&was), Some(&becomes));
            self.add(&place, both, Sort::Changed, effect::OTHER_KEYS.into());
        }
        if old.is_pool() != new.is_pool() {
            let (was, becomes) = (sort_of(old), sort_of(new));
            let both = (Some("kind"), Some(&was), Some(&becomes));
            self.add(&place, both, Sort::Changed, effect::OTHER_SETS.into());
            return;
        }
        let (of_old, of_new) = (old.shape.get("limits"), new.shape.get("limits"));
        self.limits(&place, (&old.limits, of_old), (&new.limits, of_new));
        self.members(&place, old, new);
    }

    fn members(&mut self, place: &Place<'_>, old: &Policy, new: &Policy) {
        for known in old.members.iter().filter(|m| new.member(&m.name).is_none()) {
            self.whole(&place.member(known), Sort::Removed);
        }
        let shape = |policy: &Policy, name: &str| policy.shape.get("member")?.get(name).cloned();
        for wanted in &new.members {
            let place = place.member(wanted);
            let Some(known) = old.member(&wanted.name) else {
                self.whole(&place, Sort::Added);
                continue;
            };
            let (Some(was), Some(becomes)) = (shape(old, &known.name), shape(new, &wanted.name))
            else {
                continue;
            };
            let effect = |setting: &str, sort| effect::of_policy(setting, sort).into();
            self.settings(&place, &was, &becomes, |s| s != "limits", effect);
            let (of_old, of_new) = (was.get("limits"), becomes.get("limits"));
            self.limits(&place, (&known.limits, of_old), (&wanted.limits, of_new));
        }
    }

    fn limits(
        &mut self,
        place: &Place<'_>,
        (old, of_old): (&[Limit], Option<&Shape>),
        (new, of_new): (&[Limit], Option<&Shape>),
    ) {
        let named = |limits: &[Limit], name: &str| limits.iter().position(|l| l.name() == name);
        for known in old
            .iter()
            .filter(|limit| named(new, limit.name()).is_none())
        {
            self.whole(&place.limit(known), Sort::Removed);
        }
        for wanted in new {
            let place = place.limit(wanted);
            match named(old, wanted.name()).map(|at| &old[at]) {
                None => self.whole(&place, Sort::Added),
                Some(known) if known == wanted => {}
                Some(known) => {
                    let shape = |of: Option<&Shape>| of?.get(wanted.name()).cloned();
                    if let (Some(was), Some(becomes)) = (shape(of_old), shape(of_new)) {
                        let of = |setting: &str, sort| {
                            effect::of_limit(setting, sort, known, wanted).into()
                        };
                        self.settings(&place, &was, &becomes, |_| true, of);
                    }
                }
            }
        }
    }

    /// Every setting that two tables say differently, as far as `wanted`.
    fn settings(
        &mut self,
        place: &Place<'_>,
        old: &Shape,
        new: &Shape,
        wanted: impl Fn(&str) -> bool,
        effect: impl Fn(&str, Sort) -> Cow<'static, str>,
    ) {
        let mut names: Vec<&str> = old.names().collect();
        let others = new.names().filter(|name| old.get(name).is_none());
        names.extend(others);
        for name in names.into_iter().filter(|name| wanted(name)) {
            let (was, becomes) = (old.get(name), new.get(name));
            if !alike(was, becomes) {
                let sort = sort(name, was, becomes);
                let effect = effect(name, sort);
                self.add(place, (Some(name), was, becomes), sort, effect);
            }
        }
    }
}

fn sort_of(policy: &Policy) -> Shape {
    Shape::Text(if policy.is_pool() { "pool" } else { "limits" }.to_owned())
}

/// Whether both say the same: `60s` is `1m`.
fn alike(a: Option<&Shape>, b: Option<&Shape>) -> bool {
    match (a, b) {
        (Some(Shape::Text(a)), Some(Shape::Text(b))) => {
            a == b || matches!((parse_duration(a), parse_duration(b)), (Ok(a), Ok(b)) if a == b)
        }
        (a, b) => a == b,
    }
}

/// More of an amount is more granted; of everything else there is no more.
fn sort(setting: &str, was: Option<&Shape>, becomes: Option<&Shape>) -> Sort {
    let amount = matches!(
        setting,
        "calls" | "rate" | "budget" | "concurrency" | "burst"
    );
    let scaled = |shape: Option<&Shape>| shape.filter(|_| amount).and_then(scaled);
    match (scaled(was), scaled(becomes)) {
        (Some(was), Some(becomes)) if was < becomes => Sort::Raised,
        (Some(was), Some(becomes)) if was > becomes => Sort::Lowered,
        _ => Sort::Changed,
    }
}

/// An amount, be it a whole number or a decimal, in the finest unit.
fn scaled(shape: &Shape) -> Option<i128> {
    const PLACES: usize = 9;
    match shape {
        Shape::Integer(number) => number.checked_mul(10_i128.pow(PLACES as u32)),
        Shape::Text(text) => {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            let digits = fraction.get(..PLACES).unwrap_or(fraction);
            format!("{whole}{digits:0<PLACES$}").parse().ok()
        }
        _ => None,
    }
}
