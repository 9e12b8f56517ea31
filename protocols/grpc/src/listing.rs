//! What a policy holds, in the protocol's words.

use tidegate::{ListedKey, PageOf};
use tidegate::{Page, Select};
use tidegate_service::{HeldTicket, LeaseHandle, Served, bounds};
use tonic::Status;

use crate::proto::list_keys_request::Select as OfKeys;
use crate::proto::list_leases_request::Select as OfLeases;
use crate::{error, proto, words};

/// How many items a page has; 0 is not said.
pub fn most(limit: u32) -> Result<usize, Status> {
    let said = Some(u64::from(limit)).filter(|limit| *limit > 0);
    bounds::page(said).map_err(|wrong| error::status(&wrong))
}

/// Where a page goes on, if it is not the first.
pub fn after(cursor: &[u8]) -> Option<&[u8]> {
    Some(cursor).filter(|cursor| !cursor.is_empty())
}

pub async fn keys(
    served: &Served,
    request: &proto::ListKeysRequest,
) -> Result<proto::ListKeysResponse, Status> {
    let page = PageOf {
        select: match &request.select {
            Some(OfKeys::Key(key)) => Select::Key(key),
            Some(OfKeys::Prefix(prefix)) => Select::Prefix(prefix),
            None => Select::All,
        },
        after: after(&request.cursor),
        most: most(request.limit)?,
    };
    let listed = served.list_keys(page).await;
    let Page { items, next } = listed.map_err(|wrong| error::status(&wrong))?;
    Ok(proto::ListKeysResponse {
        keys: items.into_iter().map(key).collect(),
        cursor: next.unwrap_or_default().into(),
    })
}

fn key(listed: ListedKey) -> proto::ListedKey {
    let standings = listed.decision.standings();
    let limits = standings.map(|(name, s)| (name.to_owned(), words::standing(&s)));
    proto::ListedKey {
        member: listed.decision.member().unwrap_or_default().to_owned(),
        limits: limits.collect(),
        key: listed.key.into(),
    }
}

pub async fn leases(
    served: &Served,
    request: &proto::ListLeasesRequest,
) -> Result<proto::ListLeasesResponse, Status> {
    let page = PageOf {
        select: match &request.select {
            Some(OfLeases::Key(key)) => Select::Key(key),
            Some(OfLeases::Prefix(prefix)) => Select::Prefix(prefix),
            None => Select::All,
        },
        after: after(&request.cursor),
        most: most(request.limit)?,
    };
    let listed = served.list_leases(page).await;
    let Page { items, next } = listed.map_err(|wrong| error::status(&wrong))?;
    Ok(proto::ListLeasesResponse {
        leases: items.into_iter().map(lease).collect(),
        cursor: next.unwrap_or_default().into(),
    })
}

fn lease(held: HeldTicket) -> proto::ListedLease {
    proto::ListedLease {
        key: held.key.into(),
        member: held.member.unwrap_or_default(),
        handle: held.handle.to_string(),
        fence: held.fence,
        expires_at_us: held.expires_at.as_micros(),
        taken: held.taken.into_iter().collect(),
        granted_at_us: held.granted_at.as_micros(),
    }
}

/// The handle of a lease that is to be revoked.
pub fn handle(text: &str) -> Result<LeaseHandle, Status> {
    let handle = LeaseHandle::read(text.as_bytes());
    handle.map_err(|wrong| error::status(&wrong))
}
