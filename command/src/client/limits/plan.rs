//! What has to change on a server, in an order that is always valid. Data in, data out.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use tidegate_policy::{DesiredEntity, DesiredKey, DesiredOverride, DesiredState};

use super::settings::{Change, changes};
use super::there::There;
use crate::client::overrides::no_policy;
use crate::client::typed_limits;
use crate::shape::json_of;

/// The most levels that entities have.
const MOST_LEVELS: usize = tidegate_store::key::MAX_LEVELS;

/// What is to be done.
#[derive(Debug)]
pub struct Plan<'d> {
    /// In this order.
    pub steps: Vec<Step<'d>>,
    /// What of the file means nothing any more.
    pub notes: Vec<Note>,
}

/// Something about a line of the file.
#[derive(PartialEq, Eq, Debug)]
pub struct Note {
    /// The line, counted from 1.
    pub line: usize,
    /// What is to be said.
    pub message: String,
}

/// One change.
#[derive(Debug)]
pub struct Step<'d> {
    /// Of what.
    pub of: Of<'d>,
    /// Which sort of change.
    pub sort: Sort,
    /// The version that was read; nothing of what is not there.
    pub version: Option<u64>,
    /// What becomes something else.
    pub changes: Vec<Change>,
}

/// What is changed.
#[derive(Clone, Copy, Debug)]
pub enum Of<'d> {
    /// An entity.
    Entity(&'d DesiredEntity),
    /// An override.
    Override(&'d DesiredOverride),
}

/// Sorts of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// It was not there.
    Added,
    /// It was there, and said something else.
    Changed,
    /// It is to be there no more.
    Removed,
}

impl Of<'_> {
    /// The line of the file where it stands.
    pub const fn line(self) -> usize {
        match self {
            Self::Entity(entity) => entity.line,
            Self::Override(said) => said.line,
        }
    }
}

/// What has to change at `now`, or everything of the file that cannot be on this server.
pub fn plan<'d>(
    desired: &'d DesiredState,
    there: &There,
    now: Timestamp,
) -> Result<Plan<'d>, Vec<Note>> {
    let mut planning = Planning {
        there,
        by_id: desired.entities.iter().map(|one| (&*one.id, one)).collect(),
        faults: Vec::new(),
        notes: Vec::new(),
    };
    let mut steps = planning.entities(&desired.entities);
    let (set, removed) = planning.overrides(&desired.overrides, now);
    steps.extend(set);
    steps.extend(removed);
    steps.extend(planning.gone(&desired.entities));
    match planning.faults.is_empty() {
        true => Ok(Plan {
            steps,
            notes: planning.notes,
        }),
        false => Err(planning.faults),
    }
}

struct Planning<'d, 't> {
    there: &'t There,
    by_id: HashMap<&'d str, &'d DesiredEntity>,
    faults: Vec<Note>,
    notes: Vec<Note>,
}

impl<'d> Planning<'d, '_> {
    fn fault(&mut self, line: usize, message: String) {
        self.faults.push(Note { line, message });
    }

    /// Entities that are to be there: parents before their children.
    fn entities(&mut self, entities: &'d [DesiredEntity]) -> Vec<Step<'d>> {
        let mut steps = Vec::new();
        for entity in entities.iter().filter(|entity| !entity.absent) {
            self.check_parent(entity);
            let there = self.there.entities.get(&entity.id);
            let changes = of_entity(entity, there);
            let sort = match there {
                None => Sort::Added,
                Some(_) if changes.is_empty() => continue,
                Some(_) => Sort::Changed,
            };
            let step = Step {
                of: Of::Entity(entity),
                sort,
                version: there.and_then(|there| there["version"].as_u64()),
                changes,
            };
            steps.push((self.level(&entity.id), step));
        }
        steps.sort_by_key(|(level, _)| *level);
        steps.into_iter().map(|(_, step)| step).collect()
    }

    fn check_parent(&mut self, entity: &DesiredEntity) {
        let Some(parent) = &entity.parent else { return };
        let is_said = self.by_id.contains_key(&**parent);
        if !is_said && !self.there.entities.contains_key(parent) {
            let id = &entity.id;
            let message = format!(
                "`{id}` is to belong to `{parent}`, which is not there; write `[entity.{parent}]`"
            );
            self.fault(entity.line, message);
        } else if self.level(&entity.id) > MOST_LEVELS {
            let message = format!("`{}` would be at a ninth level", entity.id);
            self.fault(entity.line, message);
        }
    }

    /// The level of an entity: 1 of a root.
    fn level(&self, id: &str) -> usize {
        let (mut level, mut next) = (0, Some(id));
        while let Some(id) = next.filter(|_| level <= MOST_LEVELS) {
            if let Some(there) = self.there.entities.get(id) {
                return level + 1 + there["ancestors"].as_array().map_or(0, Vec::len);
            }
            level += 1;
            next = self.by_id.get(id).and_then(|one| one.parent.as_deref());
        }
        level
    }

    /// Overrides that are to be set, and those that are to be removed.
    fn overrides(
        &mut self,
        overrides: &'d [DesiredOverride],
        now: Timestamp,
    ) -> (Vec<Step<'d>>, Vec<Step<'d>>) {
        let (mut set, mut removed, mut places) = (Vec::new(), Vec::new(), HashMap::new());
        for (said, there) in overrides.iter().zip(&self.there.overrides) {
            if let Some(there) = there {
                let place = ["policy", "key", "key_base64"].map(|name| there[name].to_string());
                if let Some(first) = places.insert(place, said.line) {
                    let message = format!("this override is for the same as that of line {first}");
                    self.fault(said.line, message);
                }
            }
            let ended = said.expires_at.filter(|at| *at <= now);
            if let Some(at) = ended {
                let message = format!("this override has ended at {at}; take it out of the file");
                let line = said.line;
                self.notes.push(Note { line, message });
                continue;
            }
            let step = |sort, changes| Step {
                of: Of::Override(said),
                sort,
                version: there.as_ref().and_then(|there| there["version"].as_u64()),
                changes,
            };
            let changes = changes(said, there.as_ref());
            match (said.absent, there) {
                (true, None) => {}
                (true, Some(_)) => removed.push(step(Sort::Removed, changes)),
                (false, Some(_)) if changes.is_empty() => {}
                (false, there) => {
                    self.check_override(said);
                    let sort = there.as_ref().map_or(Sort::Added, |_| Sort::Changed);
                    set.push(step(sort, changes));
                }
            }
        }
        (set, removed)
    }

    /// That there is what it is for.
    fn check_override(&mut self, said: &DesiredOverride) {
        if let Some(DesiredKey::Entity(id)) = &said.key
            && !self.by_id.contains_key(&**id)
            && !self.there.entities.contains_key(id)
        {
            let message = format!("there is no entity `{id}`; write `[entity.{id}]`");
            self.fault(said.line, message);
        }
        let of_policy = |shown: &&Value| {
            let name = said.policy.as_deref();
            name.is_none_or(|name| shown["name"] == name)
        };
        let policies: Vec<_> = self.there.policies.iter().filter(of_policy).collect();
        if let (Some(policy), true) = (&said.policy, policies.is_empty()) {
            let message = no_policy(policy, &self.there.policies);
            return self.fault(said.line, message);
        }
        if let Some(DesiredKey::Entity(id)) = &said.key
            && let Some(wrong) = too_deep(id, self.level(id), said.policy.as_deref(), &policies)
        {
            return self.fault(said.line, wrong);
        }
        for name in said.limits.names() {
            let has = |policy: &&Value| typed_limits::written(policy, name).next().is_some();
            let is_there = policies.iter().copied().any(|policy| has(&policy));
            let message = match (is_there, is_added(said, name)) {
                (true, true) => format!("the policy has a limit `{name}`; leave `added` out"),
                (false, false) => {
                    format!("no policy that this override is for has a limit `{name}`")
                }
                _ => continue,
            };
            self.fault(said.line, message);
        }
    }

    /// Entities that are to be there no more: children before their parents.
    fn gone(&self, entities: &'d [DesiredEntity]) -> Vec<Step<'d>> {
        let absent = entities.iter().filter(|entity| entity.absent);
        let mut steps: Vec<_> = absent
            .filter_map(|entity| {
                let there = self.there.entities.get(&entity.id)?;
                let step = Step {
                    of: Of::Entity(entity),
                    sort: Sort::Removed,
                    version: there["version"].as_u64(),
                    changes: removed(there),
                };
                Some((self.level(&entity.id), step))
            })
            .collect();
        steps.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
        steps.into_iter().map(|(_, step)| step).collect()
    }
}

/// Why an entity of this level has no limits in the policy that is said.
fn too_deep(id: &str, level: usize, policy: Option<&str>, policies: &[&Value]) -> Option<String> {
    let Some(name) = policy else {
        let why =
            "has a parent, so its limits are those of one policy with levels: name that `policy`";
        return (level > 1).then(|| format!("`{id}` {why}"));
    };
    let levels = policies.first()?["levels"].as_array().map_or(0, Vec::len);
    let levels = levels.max(1);
    (level > levels).then(|| {
        format!(
            "`{id}` is at level {level}, and the keys of the policy `{name}` have {levels}: it has \
             no limits there"
        )
    })
}

/// Whether only the key of the override is to have the limit `name`.
fn is_added(said: &DesiredOverride, name: &str) -> bool {
    json_of(&said.limits)[name]["added"] == true
}

/// What of an entity becomes something else. What the file does not say stays as it is.
fn of_entity(entity: &DesiredEntity, there: Option<&Value>) -> Vec<Change> {
    let said = [
        ("parent", entity.parent.as_ref().map(|parent| json!(parent))),
        ("name", entity.name.as_ref().map(|name| json!(name))),
        (
            "metadata",
            entity.metadata.as_ref().map(|words| json!(words)),
        ),
        (
            "charge_parents",
            entity.charge_parents.map(|flag| json!(flag)),
        ),
    ];
    let nothing = Value::Null;
    let there = there.unwrap_or(&nothing);
    let said = said
        .iter()
        .filter_map(|(name, becomes)| Some((*name, becomes.as_ref()?)));
    let differ = said.filter(|(name, becomes)| there[*name] != **becomes);
    differ
        .map(|(name, becomes)| Change::of(name, &there[name], becomes))
        .collect()
}

/// What was said of an entity that is to be there no more.
fn removed(there: &Value) -> Vec<Change> {
    let settings = ["parent", "name", "metadata", "charge_parents"];
    let said = settings.iter().filter(|name| !there[**name].is_null());
    said.map(|name| Change::of(name, &there[*name], &Value::Null))
        .collect()
}
