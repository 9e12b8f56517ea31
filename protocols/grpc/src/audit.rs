//! Audit events: the call out of a message, and the answer into one.

use tidegate_service::{Answer, AuditEvent, AuditListing, AuditValue, Call};

use crate::entities;
use crate::parse::{after, most, of_place, said};
use crate::proto;
use crate::proto::audit_value::Value;
use crate::render::{micros, override_of, place};

pub fn all(request: &proto::ListAuditEventsRequest) -> Call<'_> {
    Call::Audit(AuditListing {
        of: request.of.as_ref().map(of_place).unwrap_or_default(),
        entity: said(&request.entity),
        since: request.since_us.map(tidegate::Timestamp::from_micros),
        until: request.until_us.map(tidegate::Timestamp::from_micros),
        after: after(&request.cursor).map(Into::into),
        most: most(request.limit),
    })
}

pub fn listed(answer: Answer) -> Option<proto::ListAuditEventsResponse> {
    match answer {
        Answer::Audit(page) => Some(proto::ListAuditEventsResponse {
            events: page.items.into_iter().map(told).collect(),
            cursor: page.next.unwrap_or_default().into(),
        }),
        _ => None,
    }
}

fn told(event: AuditEvent) -> proto::AuditEvent {
    let id = event.entity.clone().unwrap_or_default();
    let value = |value: Option<AuditValue>| {
        let value = match value? {
            AuditValue::Override(value) => {
                Value::Override(override_of(&value.limits, &value.record))
            }
            AuditValue::Entity(value) => Value::Entity(entities::told(id.clone(), value)),
            _ => return None,
        };
        Some(proto::AuditValue { value: Some(value) })
    };
    proto::AuditEvent {
        version: event.version,
        at_us: micros(event.at),
        action: event.action.name().to_owned(),
        before: value(event.before),
        after: value(event.after),
        target: Some(place(event.target)),
        entity: event.entity.unwrap_or_default(),
        by: event.by.unwrap_or_default(),
        protocol: event.protocol.unwrap_or_default(),
        peer: event.peer.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        details: event.details,
    }
}
