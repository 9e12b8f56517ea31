//! What may be said in a body. A member that is unknown, or null, is an error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;
use tidegate_policy::LONGEST_NAMESPACE;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use tidegate::{LeaseId, MAX_IDEMPOTENCY_KEY};
use tidegate_service::bounds::{
    HOLDS, LONGEST_COOL_DOWN, LONGEST_ENTITY_ID, LONGEST_NAME, LONGEST_OVERRIDE, LONGEST_REASON,
    MOST_CHECKS, MOST_METADATA,
};
use tidegate_service::{
    Call, EntityChange, EntityTerms, GrantTerms, LeaseHandle, NewEntity, OfLease, OnlyIf,
    OverrideOf, OverrideTerms, Question, Report, Terms, Until, Uses, Whose,
};

use crate::error::Problem;
use crate::openapi::schema::schema;
use crate::parse::amount::{Amount, Amounts};
use crate::parse::instant::Instant;
use crate::parse::key::{self, Base64};
use crate::parse::object::Object;
use crate::parse::override_limits::OverrideLimits;

/// The longest a lease lasts, in milliseconds: 400 days.
const LONGEST_TTL: u64 = LONGEST_COOL_DOWN;

/// Requests about one key of one policy: what they have in common stands here once.
macro_rules! keyed {
    ($($(#[$about:meta])* $name:ident {$($fields:tt)*})*) => {$(
        #[derive(Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(extend("oneOf" = key::one_of()))]
        $(#[$about])*
        pub(crate) struct $name {
            /// The policy's name.
            #[schemars(example = &"chat")]
            policy: String,
            /// Who or what is limited: at most 4,096 bytes. Where the policy has levels, `/`
            /// separates them; a `/` of a segment's own is written `%2F`.
            #[serde(default, deserialize_with = "present")]
            #[schemars(with = "key::Text")]
            key: Option<String>,
            /// The key's bytes in padded Base64, where they are no text. Instead of `key`.
            #[serde(default, deserialize_with = "present")]
            key_base64: Option<Base64>,
            /// The id of the entity that is limited, with its ancestors as the store has them.
            /// Instead of `key`.
            #[serde(default, deserialize_with = "present")]
            #[schemars(length(min = 1, max = LONGEST_ENTITY_ID), example = &"alice")]
            entity: Option<String>,
            $($fields)*
        }

        impl Keyed for $name {
            fn policy(&self) -> &str {
                &self.policy
            }

            fn whose(&self) -> Result<Whose<'_>, Problem> {
                let (text, bytes) = (self.key.as_ref(), self.key_base64.as_ref());
                key::whose(text, bytes, self.entity.as_ref())
            }
        }
    )*};
}

keyed! {
    /// What is requested.
    #[schemars(example = json!({"policy": "chat", "key": "acme/alice", "amounts": {"tpm": 4000}}))]
    CheckRequest {
        /// So many units of every rate and budget that `amounts` does not name. Limits of calls
        /// and concurrency are taken at 1 unless named. A rate or budget that is not named is
        /// not charged once `amounts` names any limit; give `cost` to charge every one.
        #[serde(default, deserialize_with = "present")]
        cost: Option<Amount>,
        /// Units by limit name. 0 leaves a limit out. A rate or budget that is not named is not
        /// charged, unless `cost` is given, which charges every one of them.
        #[serde(default)]
        #[schemars(example = json!({"tpm": 4000}))]
        amounts: Amounts,
    }

    /// What is requested, of a pool or of one of its members.
    #[schemars(example = json!({"policy": "chat", "key": "acme/alice", "amounts": {"tpm": 4000}}))]
    MemberRequest {
        /// Of a pool: the member that is meant. A debit needs it; a peek or a forecast is about
        /// all members without it.
        #[serde(default, deserialize_with = "present")]
        member: Option<String>,
        /// So many units of every rate and budget that `amounts` does not name. Limits of calls
        /// and concurrency are taken at 1 unless named. A rate or budget that is not named is
        /// not charged once `amounts` names any limit; give `cost` to charge every one.
        #[serde(default, deserialize_with = "present")]
        cost: Option<Amount>,
        /// Units by limit name. 0 leaves a limit out. A rate or budget that is not named is not
        /// charged, unless `cost` is given, which charges every one of them.
        #[serde(default)]
        #[schemars(example = json!({"tpm": 4000}))]
        amounts: Amounts,
    }

    /// What is requested, to be held until it is settled, released or expired.
    #[schemars(example = json!({
        "policy": "jobs", "key": "acme/alice", "wait_ms": 100, "ttl_ms": 60_000
    }))]
    AcquireRequest {
        /// So many units of every rate and budget that `amounts` does not name. Limits of calls
        /// and concurrency are taken at 1 unless named. A rate or budget that is not named is
        /// not charged once `amounts` names any limit; give `cost` to charge every one.
        #[serde(default, deserialize_with = "present")]
        cost: Option<Amount>,
        /// Units by limit name. 0 leaves a limit out. A rate or budget that is not named is not
        /// charged, unless `cost` is given, which charges every one of them.
        #[serde(default)]
        #[schemars(example = json!({"tpm": 4000}))]
        amounts: Amounts,
        /// How long to wait for it, in milliseconds: first come, first served, where one of a
        /// higher `priority` counts as having come earlier. At most the server's `longest_wait`:
        /// 300 s unless it says otherwise. What the rates cannot admit in that time is refused at
        /// once.
        #[serde(default)]
        wait_ms: u64,
        /// Wait for `wait_ms` also where the rates cannot admit it in that time: a lease that is
        /// settled for less than it took, or cancelled, may give back enough.
        #[serde(default)]
        wait_for_refunds: bool,
        /// How long the lease lasts unless renewed, in milliseconds: 1 ms to 400 days.
        #[serde(default, deserialize_with = "present")]
        #[schemars(range(min = 1, max = LONGEST_TTL))]
        ttl_ms: Option<u64>,
        /// How urgent it is: each step counts as having come a second earlier.
        #[serde(default)]
        #[schemars(range(max = u8::MAX))]
        priority: u64,
        /// The same text (at most 255 bytes) for the same key again gives the same lease. Send
        /// one to be able to repeat the request after a broken connection.
        #[serde(default, deserialize_with = "present")]
        #[schemars(length(min = 1, max = MAX_IDEMPOTENCY_KEY))]
        idempotency_key: Option<String>,
    }

    /// Units that are wished, to be spent without asking.
    #[schemars(example = json!({
        "policy": "chat", "key": "acme/alice", "amounts": {"tpm": 4000}, "hold_ms": 2000
    }))]
    GrantRequest {
        /// So many units of every rate and budget that `amounts` does not name. Limits of calls
        /// are taken at 1 unless named.
        #[serde(default, deserialize_with = "present")]
        cost: Option<Amount>,
        /// Units by limit name, of each as much as is there. 0 leaves a limit out. A rate or
        /// budget that is not named is not granted, unless `cost` is given.
        #[serde(default)]
        #[schemars(example = json!({"rpm": 20, "tpm": 40000}))]
        amounts: Amounts,
        /// Units by limit name, less than which make no sense: then nothing is granted, and the
        /// refusal is of these. Of what is not named here, one unit.
        #[serde(default)]
        #[schemars(example = json!({"tpm": 4000}))]
        least: Amounts,
        /// For how many milliseconds it is held at most: as long as the policy's tier holds a
        /// grant, or 1,000, unless it is said.
        #[serde(default, deserialize_with = "present")]
        #[schemars(range(min = HOLDS.0, max = HOLDS.1))]
        hold_ms: Option<u64>,
        /// The id of the lease that it is to be: 32 hexadecimal digits, drawn at random. A client
        /// that loses the answer returns the grant by it. The server draws one if none is given.
        #[serde(default, deserialize_with = "present")]
        lease: Option<Lease>,
    }

    /// What was spent of a grant.
    #[schemars(example = json!({
        "policy": "chat", "key": "acme/alice", "lease": Lease::EXAMPLE,
        "used": {"tpm": 3120}
    }))]
    ReturnRequest {
        /// The grant's id.
        lease: Lease,
        /// Units of every rate and budget that `used` does not name.
        #[serde(default, deserialize_with = "present")]
        #[schemars(example = 31200)]
        cost: Option<Amount>,
        /// Units by limit name; nothing of what is not named. The rest goes back where it was
        /// charged; more than was granted becomes debt.
        #[serde(default)]
        #[schemars(example = json!({"rpm": 12, "tpm": 31200}))]
        used: Amounts,
    }

    /// Which lease is meant.
    #[schemars(example = json!({
        "policy": "jobs", "key": "acme/alice", "lease": Lease::EXAMPLE
    }))]
    EndRequest {
        /// The lease's id, which only its holder knows.
        lease: Lease,
        /// How the work went. After `dropped` (the provider has refused), the member of a pool
        /// that gave the lease is passed over for as long as its policy says, if it says so.
        #[serde(default)]
        outcome: Outcome,
        /// The provider has refused: pass over the member of the pool that gave the lease for
        /// so many milliseconds. Only for a pool.
        #[serde(default, deserialize_with = "present")]
        #[schemars(range(min = 1, max = LONGEST_COOL_DOWN))]
        cool_down_ms: Option<u64>,
    }

    /// What was really used.
    #[schemars(example = json!({
        "policy": "chat", "key": "acme/alice", "lease": Lease::EXAMPLE, "used": {"tpm": 3120}
    }))]
    SettleRequest {
        /// The lease's id, which only its holder knows.
        lease: Lease,
        /// Units of every rate and budget that `used` does not name.
        #[serde(default, deserialize_with = "present")]
        #[schemars(example = 3120)]
        cost: Option<Amount>,
        /// Units by limit name. Less than was taken is refunded, more becomes debt; what is not
        /// named was used as `cost` says (rates and budgets), or as taken.
        #[serde(default)]
        #[schemars(example = json!({"tpm": 3120}))]
        used: Amounts,
        /// How the work went. After `dropped` (the provider has refused), the member of a pool
        /// that gave the lease is passed over for as long as its policy says, if it says so.
        #[serde(default)]
        outcome: Outcome,
        /// The provider has refused: pass over the member of the pool that gave the lease for
        /// so many milliseconds. Only for a pool.
        #[serde(default, deserialize_with = "present")]
        #[schemars(range(min = 1, max = LONGEST_COOL_DOWN))]
        cool_down_ms: Option<u64>,
    }

    /// Until when the lease is to last: `ttl_ms` from now.
    #[schemars(example = json!({
        "policy": "jobs", "key": "acme/alice", "lease": Lease::EXAMPLE, "ttl_ms": 60_000
    }))]
    RenewRequest {
        /// The lease's id, which only its holder knows.
        lease: Lease,
        /// Milliseconds from now: 1 ms to 400 days; without, as long as a lease lasts that is
        /// acquired without `ttl_ms`.
        #[serde(default, deserialize_with = "present")]
        #[schemars(range(min = 1, max = LONGEST_TTL))]
        ttl_ms: Option<u64>,
    }

    /// How much a lease is to have taken.
    #[schemars(
        extend("anyOf" = [{"required": ["amounts"]}, {"required": ["cost"]}]),
        example = json!({
            "policy": "chat", "key": "acme/alice", "lease": Lease::EXAMPLE, "amounts": {"tpm": 6000}
        })
    )]
    AdjustRequest {
        /// The lease's id, which only its holder knows.
        lease: Lease,
        /// Units, in all, of every rate and budget that `amounts` does not name.
        #[serde(default, deserialize_with = "present")]
        #[schemars(example = 6000)]
        cost: Option<Amount>,
        /// Units by limit name, in all. What is not named becomes what `cost` says (rates and
        /// budgets), or stays as it is; 0 gives all of it back.
        #[serde(default)]
        #[schemars(extend("minProperties" = 1), example = json!({"tpm": 6000}))]
        amounts: Amounts,
        /// It was used already: charge more even where it does not fit.
        #[serde(default)]
        overdraw: bool,
    }

    /// Which key to forget.
    #[schemars(example = json!({"policy": "chat", "key": "acme/alice"}))]
    ResetRequest {}

    /// Which lease to end.
    #[schemars(example = json!({
        "policy": "chat", "key": "acme/alice", "handle": "0123456789abcdef"
    }))]
    RevokeRequest {
        /// What a listing calls the lease.
        #[schemars(regex(pattern = "^[0-9a-fA-F]{16}$"))]
        handle: String,
    }
}

/// Several checks, each decided by itself, in order; those of one policy at one instant (of a
/// pool one after the other).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({"checks": [
    {"policy": "chat", "key": "acme/alice", "cost": 100},
    {"policy": "chat", "key": "acme/bob", "cost": 100}
]}))]
pub(crate) struct ManyRequest {
    /// The checks (at most 1,000, unless the server was set up otherwise).
    #[schemars(with = "Vec<CheckRequest>", length(min = 1, max = MOST_CHECKS))]
    pub(crate) checks: Vec<Object<CheckRequest>>,
}

/// For whom, and what.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    extend("not" = {"anyOf": [
        {"required": ["key", "key_base64"]}, {"required": ["key", "entity"]},
        {"required": ["key_base64", "entity"]}
    ]}),
    example = json!({
        "policy": "chat", "key": "acme/alice",
        "limits": {"tpm": {"rate": 12000, "per": "1m", "burst": 18000}}
    })
)]
pub(crate) struct OverrideRequest {
    /// The policy; every policy if it is missing.
    #[serde(default, deserialize_with = "present")]
    #[schemars(length(min = 1), example = &"chat")]
    policy: Option<String>,
    /// The key; every key if it, `key_base64` and `entity` are missing. Where policies have levels, `acme`
    /// is the ancestor of `acme/alice`: limits of the first level are overridden by it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "key::Text")]
    key: Option<String>,
    /// The key's bytes in padded Base64, where they are no text. Instead of `key`.
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    /// The id of an entity whose key is meant. Instead of `key`.
    #[serde(default, deserialize_with = "present")]
    #[schemars(length(min = 1, max = LONGEST_ENTITY_ID), example = &"alice")]
    entity: Option<String>,
    /// Limits by their names in the policies. Those that are not named stay as they are.
    limits: OverrideLimits,
    /// Why: it is shown with the override, and in the audit events.
    #[serde(default, deserialize_with = "present")]
    #[schemars(length(max = LONGEST_REASON), example = &"bought more")]
    reason: Option<String>,
    /// When it ends, at most ten years from now; for good if it and `expires_in_ms` are missing.
    #[serde(default, deserialize_with = "present")]
    expires_at: Option<Instant>,
    /// In how many milliseconds it ends. Instead of `expires_at`.
    #[serde(default, deserialize_with = "present")]
    #[schemars(range(min = 1, max = LONGEST_OVERRIDE.as_millis() as u64))]
    expires_in_ms: Option<u64>,
}

/// An entity to be.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({"id": "alice", "parent": "search", "name": "Alice"}))]
pub(crate) struct CreateEntityRequest {
    /// Its id. It is neither `.` nor `..`.
    #[schemars(length(min = 1, max = LONGEST_ENTITY_ID))]
    id: String,
    /// The id of the entity that it belongs to; without, it is a root.
    #[serde(default, deserialize_with = "present")]
    #[schemars(length(min = 1, max = LONGEST_ENTITY_ID), example = &"search")]
    parent: Option<String>,
    /// What people call it.
    #[serde(default)]
    #[schemars(length(max = LONGEST_NAME))]
    name: String,
    /// Words of yours, by name: at most 16, of 1,024 bytes in all.
    #[serde(default)]
    #[schemars(extend("maxProperties" = MOST_METADATA))]
    metadata: BTreeMap<String, String>,
    /// Whether its ancestors' limits count, too: they can refuse, and they are charged.
    #[serde(default = "yes")]
    charge_parents: bool,
    /// Why: the audit event has it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(length(max = LONGEST_REASON))]
    reason: Option<String>,
}

/// What an entity is to become. What is missing stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({"parent": "ads", "reason": "she changed teams"}))]
pub(crate) struct ChangeEntityRequest {
    /// The id of the entity that it is to belong to: of the same root, and as deep as its parent
    /// now.
    #[serde(default, deserialize_with = "present")]
    #[schemars(length(min = 1, max = LONGEST_ENTITY_ID))]
    parent: Option<String>,
    /// What people call it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(length(max = LONGEST_NAME))]
    name: Option<String>,
    /// All of its words, by name: at most 16, of 1,024 bytes in all.
    #[serde(default, deserialize_with = "present")]
    #[schemars(extend("maxProperties" = MOST_METADATA))]
    metadata: Option<BTreeMap<String, String>>,
    /// Whether its ancestors' limits count, too: they can refuse, and they are charged.
    #[serde(default, deserialize_with = "present")]
    charge_parents: Option<bool>,
    /// Why: the audit event has it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(length(max = LONGEST_REASON))]
    reason: Option<String>,
}

impl CreateEntityRequest {
    pub(crate) fn call(&self) -> Call<'_> {
        let new = NewEntity {
            id: &self.id,
            parent: self.parent.as_deref(),
            name: &self.name,
            metadata: self.metadata.clone(),
            charge_parents: self.charge_parents,
        };
        Call::CreateEntity(new, self.reason.as_deref())
    }
}

impl ChangeEntityRequest {
    pub(crate) fn call<'a>(&'a self, id: &'a str, only_if: Option<OnlyIf>) -> Call<'a> {
        let change = EntityChange {
            parent: self.parent.as_deref(),
            name: self.name.as_deref(),
            metadata: self.metadata.clone(),
            charge_parents: self.charge_parents,
        };
        let reason = self.reason.as_deref();
        Call::ChangeEntity(id, change, EntityTerms { only_if, reason })
    }
}

/// A namespace to be.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({"name": "acme"}))]
pub(crate) struct CreateNamespaceRequest {
    /// Its name: letters, digits, `.`, `_` and `-`, a letter or a digit first; not `default`.
    #[schemars(length(min = 1, max = LONGEST_NAMESPACE))]
    name: String,
    /// Why: the audit event has it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(length(max = LONGEST_REASON))]
    reason: Option<String>,
}

impl CreateNamespaceRequest {
    pub(crate) fn call(&self) -> Call<'_> {
        Call::CreateNamespace(&self.name, self.reason.as_deref())
    }
}

/// The id of a lease.
#[derive(Clone, Copy)]
pub(crate) struct Lease(LeaseId);

impl Lease {
    /// What the document's examples name.
    pub(crate) const EXAMPLE: &str = "3f2a8c1d5e6b47098a1b2c3d4e5f6071";
}

impl<'de> Deserialize<'de> for Lease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

schema!(Lease = {
    "type": "string", "pattern": "^[0-9a-fA-F]{32}$", "examples": [Lease::EXAMPLE]
});

/// How the work went.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Outcome {
    #[default]
    Succeeded,
    Ignored,
    Dropped,
}

impl OverrideRequest {
    /// The key that it is for; `None`: every key.
    fn key(&self) -> Result<Option<&[u8]>, Problem> {
        if self.key.is_none() && self.key_base64.is_none() {
            return Ok(None);
        }
        key::chosen(self.key.as_ref(), self.key_base64.as_ref()).map(Some)
    }

    fn until(&self) -> Result<Option<Until>, Problem> {
        match (self.expires_at, self.expires_in_ms) {
            (Some(_), Some(_)) => Err(Problem::invalid(
                "give `expires_at` or `expires_in_ms`, not both",
            )),
            (at, millis) => {
                let length = millis.map(|millis| Until::For(Duration::from_millis(millis)));
                Ok(at.map(|at| Until::At(at.0)).or(length))
            }
        }
    }

    pub(crate) fn call(&self, only_if: Option<OnlyIf>) -> Result<Call<'_>, Problem> {
        let of = OverrideOf {
            policy: self.policy.as_deref(),
            key: self.key()?,
            entity: self.entity.as_deref(),
        };
        let terms = OverrideTerms {
            only_if,
            reason: self.reason.as_deref(),
            until: self.until()?,
        };
        Ok(Call::SetOverride(of, Cow::Borrowed(&self.limits.0), terms))
    }
}

/// A request about one key of one policy.
pub(crate) trait Keyed {
    fn policy(&self) -> &str;

    /// Whose limits are meant.
    fn whose(&self) -> Result<Whose<'_>, Problem>;
}

impl CheckRequest {
    pub(crate) fn question(&self) -> Result<Question<'_>, Problem> {
        question(self, None, self.cost.as_ref(), &self.amounts)
    }
}

impl MemberRequest {
    pub(crate) fn question(&self) -> Result<Question<'_>, Problem> {
        question(
            self,
            self.member.as_deref(),
            self.cost.as_ref(),
            &self.amounts,
        )
    }
}

impl AcquireRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        let question = question(self, None, self.cost.as_ref(), &self.amounts)?;
        let terms = Terms {
            wait_ms: self.wait_ms,
            wait_for_refunds: self.wait_for_refunds,
            ttl_ms: self.ttl_ms,
            priority: self.priority,
            idempotency: self.idempotency_key.as_deref().map(str::as_bytes),
            standings: true,
            passed_over: &[],
        };
        Ok(Call::Acquire(question, terms))
    }
}

impl GrantRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        let question = question(self, None, self.cost.as_ref(), &self.amounts)?;
        let terms = GrantTerms {
            least: self.least.said(),
            hold_ms: self.hold_ms,
            lease: self.lease.map(|Lease(id)| id),
        };
        Ok(Call::Grant(question, Box::new(terms)))
    }
}

impl ReturnRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        let used = uses(self.cost.as_ref(), &self.used);
        Ok(Call::Return(of_lease(self, self.lease)?, used))
    }
}

fn question<'a>(
    request: &'a impl Keyed,
    member: Option<&'a str>,
    cost: Option<&'a Amount>,
    amounts: &'a Amounts,
) -> Result<Question<'a>, Problem> {
    Ok(Question {
        policy: request.policy(),
        whose: request.whose()?,
        member,
        cost: cost.map(Amount::number),
        amounts: amounts.said(),
    })
}

impl SettleRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        let report = report(self.outcome, self.cool_down_ms);
        let used = uses(self.cost.as_ref(), &self.used);
        Ok(Call::Settle(of_lease(self, self.lease)?, report, used))
    }
}

impl EndRequest {
    pub(crate) fn of(&self) -> Result<(OfLease<'_>, Report), Problem> {
        let report = report(self.outcome, self.cool_down_ms);
        Ok((of_lease(self, self.lease)?, report))
    }
}

impl RenewRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        Ok(Call::Renew(of_lease(self, self.lease)?, self.ttl_ms))
    }
}

impl AdjustRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        let of = of_lease(self, self.lease)?;
        let to = uses(self.cost.as_ref(), &self.amounts);
        Ok(Call::Adjust(of, to, self.overdraw))
    }
}

impl ResetRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        Ok(Call::Reset(&self.policy, self.whose()?))
    }
}

impl RevokeRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        let whose = self.whose()?;
        let handle = LeaseHandle::read(self.handle.as_bytes())?;
        Ok(Call::Revoke(&self.policy, whose, handle))
    }
}

fn uses<'a>(cost: Option<&'a Amount>, amounts: &'a Amounts) -> Uses<'a> {
    Uses {
        cost: cost.map(Amount::number),
        amounts: amounts.said(),
    }
}

fn of_lease(request: &impl Keyed, Lease(lease): Lease) -> Result<OfLease<'_>, Problem> {
    let (policy, whose) = (request.policy(), request.whose()?);
    Ok(OfLease {
        policy,
        whose,
        lease,
    })
}

/// What is said of the work when a lease ends.
fn report(outcome: Outcome, cool_down_ms: Option<u64>) -> Report {
    Report {
        outcome: match outcome {
            Outcome::Succeeded => tidegate::Outcome::Succeeded,
            Outcome::Ignored => tidegate::Outcome::Ignored,
            Outcome::Dropped => tidegate::Outcome::Dropped,
        },
        cool_down: cool_down_ms.map(Duration::from_millis),
    }
}

const fn yes() -> bool {
    true
}

/// A member that is there has a value: null is not the same as nothing.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}
