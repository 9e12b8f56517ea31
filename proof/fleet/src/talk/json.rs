//! What HTTP says in JSON, and RESP in the maps of its third version: nearly the same
//! names, read into an [`Answer`] here.

use serde_json::{Map, Value};

use super::call::{Answer, Verb, Word, event_line, from_base64};

/// Reads what was answered to `verb`, of which `word` is known already.
pub(super) fn read(verb: Verb, word: Word, said: &Value) -> Answer {
    let mut answer = Answer::new(word);
    answer.detail = said.to_string();
    // An override has a level of its own.
    let is_override = matches!(verb, Verb::SetOverride | Verb::GetOverride);
    for name in ["binding", "level", "member", "entity"]
        .into_iter()
        .filter(|_| !is_override)
    {
        if let Some(text) = said[name].as_str() {
            answer.fact(name, text);
        }
    }
    for name in ["degraded", "shadowed"] {
        if said[name] == true {
            answer.fact(name, true);
        }
    }
    match verb {
        Verb::Acquire => acquired(&mut answer, said),
        Verb::Grant => granted(&mut answer, said),
        Verb::Return | Verb::Settle | Verb::Release | Verb::Cancel | Verb::Revoke => {
            ended(&mut answer, said)
        }
        Verb::Forecast => forecasts(&mut answer, said),
        Verb::Keys => listed(&mut answer, &said["keys"]),
        Verb::Capacity => sums(&mut answer, said),
        Verb::Leases => held(&mut answer, said),
        Verb::CheckMany => many(&mut answer, said),
        Verb::SetOverride | Verb::GetOverride => over(&mut answer, said, ""),
        Verb::ListOverrides => overs(&mut answer, &said["overrides"]),
        Verb::CreateEntity | Verb::ShowEntity | Verb::ChangeEntity => entity(&mut answer, said),
        Verb::ListEntities | Verb::ListChildren => {
            array(&said["entities"]).for_each(|one| entity(&mut answer, one));
        }
        Verb::Usage => used(&mut answer, &said["usage"]),
        Verb::Audit => events(&mut answer, &said["events"]),
        Verb::PurgeNamespace => _ = said["done"].as_bool().map(|done| answer.fact("done", done)),
        Verb::CreateNamespace
        | Verb::ShowNamespace
        | Verb::DeleteNamespace
        | Verb::RestoreNamespace => namespace(&mut answer, said),
        Verb::ListNamespaces => {
            array(&said["namespaces"]).for_each(|one| namespace(&mut answer, one));
        }
        Verb::Policies => names(&mut answer, said),
        Verb::RemoveOverride => _ = removed(&mut answer, said),
        _ => standings(&mut answer, &said["limits"], ""),
    }
    let next = said["cursor"].as_str().filter(|_| is_paged(verb));
    answer.next = next.and_then(from_base64);
    answer
}

/// Listings that are read from page to page.
pub(super) const fn is_paged(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Usage | Verb::Audit | Verb::ListEntities | Verb::ListChildren | Verb::ListNamespaces
    )
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Most, and what is left, of each limit.
fn standings(answer: &mut Answer, limits: &Value, before: &str) {
    for (name, stands) in object(limits) {
        for what in ["limit", "remaining"] {
            answer.fact(format!("{before}{name}.{what}"), &stands[what]);
        }
    }
}

/// HTTP peeks behind a grant, and others do not: what the limits say then is left out.
fn acquired(answer: &mut Answer, said: &Value) {
    if !answer.admitted() {
        return standings(answer, &said["limits"], "");
    }
    let lease = match said["lease"].is_object() {
        true => &said["lease"],
        false => said,
    };
    let id = said["lease"].as_str().or(said["lease"]["id"].as_str());
    answer.lease = id.map(str::to_owned);
    answer.fact("repeated", lease["repeated"] == true);
    answer.fact(
        "has a fence",
        lease["fence"].as_u64().is_some_and(|fence| fence > 0),
    );
    answer.granted_at = granted_at(lease);
}

/// How much was granted of each limit.
fn granted(answer: &mut Answer, said: &Value) {
    if !answer.admitted() {
        return standings(answer, &said["limits"], "");
    }
    let grant = match said["grant"].is_object() {
        true => &said["grant"],
        false => said,
    };
    let id = grant["id"].as_str().or(grant["lease"].as_str());
    answer.lease = id.map(str::to_owned);
    for (name, amount) in object(&grant["amounts"]) {
        answer.fact(format!("{name}.granted"), amount);
    }
    for name in array(&grant["calls"]).filter_map(Value::as_str) {
        answer.fact(format!("{name} counts calls"), true);
    }
}

/// As HTTP says it, or RESP.
fn granted_at(lease: &Value) -> Option<String> {
    let said = lease.get("granted_at").or(lease.get("granted_at_us"));
    said.filter(|said| !said.is_null()).map(Value::to_string)
}

fn ended(answer: &mut Answer, said: &Value) {
    if answer.word != Word::Done {
        return;
    }
    for name in ["expired", "repeated"] {
        answer.fact(name, said[name] == true);
    }
    let cools = ["cooling_until", "cooling_until_us"];
    if cools.iter().any(|name| !said[*name].is_null()) {
        answer.fact("cools down", true);
    }
    for limits in ["limits", "used"] {
        for (name, usage) in object(&said[limits]) {
            for what in ["taken", "used"] {
                answer.fact(format!("{name}.{what}"), &usage[what]);
            }
        }
    }
}

fn forecasts(answer: &mut Answer, said: &Value) {
    let limits = match said["limits"].is_object() {
        true => &said["limits"],
        false => said,
    };
    for (name, foreseen) in object(limits) {
        for what in ["limit", "remaining", "spendable"] {
            if !foreseen[what].is_null() {
                answer.fact(format!("{name}.{what}"), &foreseen[what]);
            }
        }
    }
}

fn listed(answer: &mut Answer, keys: &Value) {
    for key in array(keys) {
        let name = key["key"].as_str().unwrap_or_default();
        let member = key["member"].as_str().unwrap_or_default();
        standings(answer, &key["limits"], &format!("{name} {member} "));
    }
}

fn sums(answer: &mut Answer, said: &Value) {
    for (name, sum) in object(&said["limits"]) {
        for what in ["keys", "capacity", "available"] {
            answer.fact(format!("{name}.{what}"), &sum[what]);
        }
    }
}

fn held(answer: &mut Answer, said: &Value) {
    let mut count = 0;
    for lease in array(&said["leases"]) {
        count += 1;
        let name = lease["key"].as_str().unwrap_or_default();
        let member = lease["member"].as_str().unwrap_or_default();
        for limits in ["amounts", "taken"] {
            for (limit, taken) in object(&lease[limits]) {
                answer.fact(format!("{count} {name} {member} {limit}"), taken);
            }
        }
        let handle = lease["handle"].as_str().map(str::to_owned);
        answer.lease = answer.lease.take().or(handle);
        answer.granted_at = answer.granted_at.take().or_else(|| granted_at(lease));
    }
}

fn many(answer: &mut Answer, said: &Value) {
    for (place, each) in array(&said["answers"]).enumerate() {
        let admitted = &each["admitted"];
        answer.fact(
            format!("{place}"),
            Answer::decided(*admitted == true).word_text(),
        );
        standings(answer, &each["limits"], &format!("{place} "));
    }
}

fn over(answer: &mut Answer, said: &Value, before: &str) {
    for (name, limit) in object(&said["limits"]) {
        for (field, value) in object(limit) {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            if ["calls", "rate", "budget", "concurrency"].contains(&field.as_str()) {
                answer.fact(format!("{before}{name}.{field}"), value);
            }
        }
    }
}

fn overs(answer: &mut Answer, overrides: &Value) {
    for each in array(overrides) {
        let text = |name: &str| each[name].as_str().unwrap_or("*").to_owned();
        let before = format!("{} {} ", text("policy"), text("key"));
        over(answer, each, &before);
    }
}

fn entity(answer: &mut Answer, said: &Value) {
    if let Some(id) = said["id"].as_str() {
        entity_called(answer, id, said);
    }
}

fn entity_called(answer: &mut Answer, id: &str, said: &Value) {
    let words = object(&said["metadata"]);
    let words = words.map(|(word, says)| (word.as_str(), says.as_str().unwrap_or_default()));
    let charges = said["charge_parents"] == true;
    answer.entity(id, said["parent"].as_str(), words, charges);
    let ancestors: Vec<_> = array(&said["ancestors"])
        .filter_map(Value::as_str)
        .collect();
    if !said["ancestors"].is_null() {
        answer.fact("ancestors", ancestors.join(" > "));
    }
}

fn namespace(answer: &mut Answer, said: &Value) {
    if let (Some(name), Some(state)) = (said["name"].as_str(), said["state"].as_str()) {
        answer.fact(format!("namespace {name}"), state);
    }
}

fn used(answer: &mut Answer, records: &Value) {
    for record in array(records) {
        let text = |name: &str| record[name].as_str().unwrap_or_default();
        let amount = record["amount"].as_u64().unwrap_or(0);
        answer.used(text("key"), text("limit"), amount);
    }
}

fn events(answer: &mut Answer, events: &Value) {
    for event in array(events) {
        let text = |name: &str| event[name].as_str();
        let kept = |name: &str| kept(&event[name], text("entity").unwrap_or_default());
        answer.items.push(event_line(
            text("action").unwrap_or_default(),
            [text("policy"), text("key"), text("entity"), text("by")],
            [kept("before"), kept("after")],
        ));
    }
}

/// What an event says of an override, or of the entity of this id.
fn kept(said: &Value, id: &str) -> Option<Answer> {
    let mut answer = Answer::default();
    match said["limits"].is_object() {
        _ if said.is_null() => return None,
        true => over(&mut answer, said, ""),
        false => entity_called(&mut answer, id, said),
    }
    Some(answer)
}

/// HTTP answers nothing, or 404; RESP 1 or 0.
fn removed(answer: &mut Answer, said: &Value) -> bool {
    let none = *said == 0;
    if none {
        answer.word = Word::Gone;
    }
    none
}

fn names(answer: &mut Answer, said: &Value) {
    let list = match said.as_array() {
        Some(list) => list.as_slice(),
        None => said["policies"].as_array().map_or(&[][..], Vec::as_slice),
    };
    for policy in list {
        if let Some(name) = policy["name"].as_str() {
            answer.fact(format!("policy {name}"), "served");
        }
    }
}

impl Answer {
    /// The word, for a fact.
    pub(super) fn word_text(&self) -> String {
        format!("{:?}", self.word)
    }
}
