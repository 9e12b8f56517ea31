//! Entities: calls out of messages, and answers into messages.

use std::collections::BTreeMap;

use tidegate_service::{
    Answer, Call, Entity, EntityChange, EntityListing, EntityTerms, EntityValue, NewEntity, OnlyIf,
};

use crate::parse::{after, most, said};
use crate::proto;
use crate::render::micros;

pub fn create(request: &proto::CreateEntityRequest) -> Call<'_> {
    let new = NewEntity {
        id: &request.id,
        parent: request.parent.as_deref(),
        name: &request.name,
        metadata: BTreeMap::from_iter(request.metadata.clone()),
        charge_parents: request.charge_parents.unwrap_or(true),
    };
    Call::CreateEntity(new, said(&request.reason))
}

pub fn change(request: &proto::ChangeEntityRequest) -> Call<'_> {
    let metadata = request.metadata.as_ref();
    let change = EntityChange {
        parent: request.parent.as_deref(),
        name: request.name.as_deref(),
        metadata: metadata.map(|metadata| BTreeMap::from_iter(metadata.words.clone())),
        charge_parents: request.charge_parents,
    };
    let terms = terms(request.if_version, &request.reason);
    Call::ChangeEntity(&request.id, change, terms)
}

pub fn delete(request: &proto::DeleteEntityRequest) -> Call<'_> {
    Call::DeleteEntity(&request.id, terms(request.if_version, &request.reason))
}

pub fn all(request: &proto::ListEntitiesRequest) -> Call<'_> {
    page(None, &request.cursor, request.limit)
}

pub fn children(request: &proto::ListChildrenRequest) -> Call<'_> {
    page(Some(&request.id), &request.cursor, request.limit)
}

fn page<'a>(of: Option<&'a str>, cursor: &'a [u8], limit: u32) -> Call<'a> {
    Call::Entities(EntityListing {
        of,
        after: after(cursor).map(Into::into),
        most: most(limit),
    })
}

fn terms(if_version: Option<u64>, reason: &str) -> EntityTerms<'_> {
    EntityTerms {
        only_if: if_version.map(OnlyIf::number),
        reason: said(reason),
    }
}

/// One entity, with its ancestors where they were asked for.
pub fn shown(answer: Answer) -> Option<proto::Entity> {
    match answer {
        Answer::EntityKept(entity) => Some(kept(entity)),
        Answer::Entity(entity, ancestors) => Some(proto::Entity {
            ancestors,
            ..kept(entity)
        }),
        _ => None,
    }
}

pub fn listed(answer: Answer) -> Option<proto::ListEntitiesResponse> {
    match answer {
        Answer::Entities(page) => Some(proto::ListEntitiesResponse {
            entities: page.items.into_iter().map(kept).collect(),
            cursor: page.next.unwrap_or_default().into(),
        }),
        _ => None,
    }
}

fn kept(entity: Entity) -> proto::Entity {
    proto::Entity {
        version: entity.version,
        ..told(entity.id, entity.value)
    }
}

/// What is said of an entity: not its version and ancestors.
pub fn told(id: String, value: EntityValue) -> proto::Entity {
    proto::Entity {
        id,
        version: 0,
        parent: value.parent.unwrap_or_default(),
        name: value.name,
        metadata: value.metadata.into_iter().collect(),
        charge_parents: value.charge_parents,
        by: value.by.unwrap_or_default(),
        created_at_us: value.created_at.map(micros),
        changed_at_us: value.changed_at.map(micros),
        ancestors: Vec::new(),
    }
}
