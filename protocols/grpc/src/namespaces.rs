//! Namespaces: calls out of messages, and answers into messages.

use tidegate_service::{Answer, Call, Namespace, NamespaceState};

use crate::parse::{after, most, said};
use crate::proto;
use crate::render::micros;

/// A change of one, by the call that makes it.
pub fn changed<'a>(
    request: &'a proto::ChangeNamespaceRequest,
    call: fn(&'a str, Option<&'a str>) -> Call<'a>,
) -> Call<'a> {
    let reason = said(&request.reason);
    call(&request.name, reason)
}

pub fn all(request: &proto::ListNamespacesRequest) -> Call<'_> {
    let after = after(&request.cursor).map(Into::into);
    Call::Namespaces(after, most(request.limit))
}

pub fn shown(answer: Answer) -> Option<proto::Namespace> {
    match answer {
        Answer::Namespace(namespace) => Some(told(namespace)),
        _ => None,
    }
}

pub fn purged(answer: Answer) -> Option<proto::PurgeNamespaceResponse> {
    match answer {
        Answer::Purged(purge) => Some(proto::PurgeNamespaceResponse {
            removed: purge.removed,
            done: purge.is_done,
        }),
        _ => None,
    }
}

pub fn listed(answer: Answer) -> Option<proto::ListNamespacesResponse> {
    match answer {
        Answer::Namespaces(page) => Some(proto::ListNamespacesResponse {
            namespaces: page.items.into_iter().map(told).collect(),
            cursor: page.next.unwrap_or_default().into(),
        }),
        _ => None,
    }
}

fn told(namespace: Namespace) -> proto::Namespace {
    let state = match namespace.state {
        NamespaceState::Active => proto::NamespaceState::Active,
        NamespaceState::Deleted => proto::NamespaceState::Deleted,
        NamespaceState::Purging => proto::NamespaceState::Purging,
    };
    proto::Namespace {
        name: namespace.name,
        version: namespace.version,
        state: state.into(),
        by: namespace.by.unwrap_or_default(),
        created_at_us: namespace.created_at.map(micros),
        changed_at_us: namespace.changed_at.map(micros),
    }
}
