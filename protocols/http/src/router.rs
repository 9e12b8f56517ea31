//! Which path is which verb, and what the document says of it.

use axum::Router;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::error::Problem;
use crate::openapi::operation::{Operation, delete, get, patch, post, put};
use crate::render::answer::{Admission, Answer, Many, Peeked};
use crate::render::audit::Audit;
use crate::render::capacity::Capacity;
use crate::render::ended::{Ended, Renewed};
use crate::render::entities::{Entities, Shown as Entity};
use crate::render::fleet::Fleet;
use crate::render::forecast::ForecastBody;
use crate::render::grant::Grant;
use crate::render::listing::{Denied, Keys, Leases, Used};
use crate::render::namespaces::{Namespaces, Purged, Shown as Namespace};
use crate::render::overrides::{Overrides, Shown as Override};
use crate::render::policies::{Applied, Policies, Shown as Policy};
use crate::verbs::{
    audit, decide, entities, forward, listing, namespaces, operate, overrides, policies,
};

/// See [`crate::openapi`].
const DOCUMENT: &str = include_str!("../openapi.json");

/// What every listing says of its pages.
const PAGES: &str = "\
A listing takes no lock for long: it comes in pages, and between two of them everything may \
change. What is there from its first page to its last is in exactly one of them (a lease that \
is renewed meanwhile: in at least one). A page may have fewer items than `limit`, or none, and \
not be the last: go on until `cursor` is null.";

/// Everything that the server answers.
///
/// Whatever is wrong with a request is said as `application/problem+json`, the
/// wrong path and the wrong method included.
pub(crate) fn router(app: App) -> Router {
    let router = operations().fold(Router::new(), |router, operation| {
        router.route(operation.path, operation.handler)
    });
    router
        .fallback(async || Problem::no_such_path())
        .method_not_allowed_fallback(async |method: Method| Problem::no_such_method(&method))
        .with_state(app)
}

async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}

pub(crate) fn operations() -> impl Iterator<Item = Operation> {
    let requests = decisions().into_iter().chain(leases()).chain(keys());
    let proxies = std::iter::once(for_proxies());
    let listed = listings().into_iter().chain(of_overrides());
    let listed = listed.chain(of_entities());
    let listed = listed.chain(of_namespaces());
    let listed = listed.chain(std::iter::once(of_audit()));
    let listed = listed.chain(of_policies());
    requests.chain(proxies).chain(listed).chain(operation())
}

fn decisions() -> [Operation; 2] {
    [
        post("/v1/check", decide::check)
            .named("check", "decide")
            .summary("Take what is requested, if it fits")
            .about(
                "Takes amounts that are not held: all limits admit and are charged, or nothing \
                 changes. Concurrency needs a lease: `/v1/acquire`.",
            )
            .scope("`decide`")
            .answers::<Answer<'_>>("Admitted.")
            .or(&[403, 404, 422, 429]),
        post("/v1/check-many", decide::check_many)
            .named("check_many", "decide")
            .summary("Several checks at once")
            .about(
                "Each check is decided by itself, in order; each has its answer or its problem. \
                 The response is 200 whatever they are.",
            )
            .scope("`decide`")
            .answers::<Many<'_>>("The answers, in order.")
            .or(&[403, 404]),
    ]
}

fn leases() -> [Operation; 8] {
    [
        post("/v1/acquire", decide::acquire)
            .named("acquire", "lease")
            .summary("Take a lease")
            .about(
                "As a check, but what was taken is held by a lease until it is settled, released \
                 or expired. With `wait_ms` it waits for its turn. If the client disconnects \
                 meanwhile, its place is given back; a lease that could not be delivered is \
                 cancelled, unless the request had an idempotency key.",
            )
            .scope("`decide`")
            .answers::<Admission<'_>>("Granted.")
            .or(&[403, 404, 422, 429]),
        post("/v1/grant", decide::grant)
            .named("grant", "lease")
            .summary("Units to spend without asking")
            .about(
                "Takes units of the key's limits in advance, of each as much of what is wished as \
                 is there, for the client to spend by itself: a lease that is over with the first \
                 of the windows that it was charged in, or after `hold_ms`. Nothing is granted of \
                 a policy with a concurrency limit, of a pool, or while the store cannot tell. If \
                 the client disconnects before it is answered, it is given back.",
            )
            .scope("`decide`")
            .answers::<Grant<'_>>("Granted.")
            .or(&[403, 404, 422, 429]),
        post("/v1/return", decide::return_grant)
            .named("return", "lease")
            .summary("Give back what is left of a grant")
            .about(
                "Ends the grant: what was not used goes back where it was charged. A retry gets \
                 the first answer.",
            )
            .scope("`decide`")
            .answers::<Ended<'_>>("Returned.")
            .or(&[403, 404]),
        post("/v1/settle", decide::settle)
            .named("settle", "lease")
            .summary("Report what was really used")
            .about(
                "Ends the lease: slots come back, the rest is refunded, an excess becomes debt. \
                 A retry gets the first answer.",
            )
            .scope("`decide`")
            .answers::<Ended<'_>>("Settled.")
            .or(&[403, 404]),
        post("/v1/release", decide::release)
            .named("release", "lease")
            .summary("Give back what is held")
            .about(
                "Ends the lease: slots come back; rate amounts were used as taken. A retry gets \
                 the first answer.",
            )
            .scope("`decide`")
            .answers::<Ended<'_>>("Released.")
            .or(&[403, 404]),
        post("/v1/cancel", decide::cancel)
            .named("cancel", "lease")
            .summary("Give everything back")
            .about(
                "Ends the lease as if the work had never started. A retry gets the first answer.",
            )
            .scope("`decide`")
            .answers::<Ended<'_>>("Cancelled.")
            .or(&[403, 404]),
        post("/v1/renew", decide::renew)
            .named("renew", "lease")
            .summary("Let a lease last longer")
            .about("Moves the lease's expiry.")
            .scope("`decide`")
            .answers::<Renewed>("Renewed.")
            .or(&[403, 404, 409]),
        post("/v1/adjust", decide::adjust)
            .named("adjust", "lease")
            .summary("Change how much a lease has taken")
            .about(
                "`amounts` says how much the lease is to have taken in all: more is charged now, \
                 if all of it fits; less is given back where it was charged, the latest first. \
                 What is not named stays as it is. A refusal changes nothing, and the request \
                 does not wait. The same again changes nothing more, so a request whose answer \
                 was lost is sent again.",
            )
            .about(
                "With `overdraw`, more is charged even where it does not fit, and becomes debt: \
                 it was used already. Concurrency has no debt: its slots must fit.",
            )
            .scope("`decide`")
            .answers::<Answer<'_>>("Adjusted; where every limit stands now.")
            .or(&[403, 404, 409, 422, 429]),
    ]
}

fn keys() -> [Operation; 4] {
    [
        post("/v1/debit", decide::debit)
            .named("debit", "decide")
            .summary("Charge what was used already")
            .about(
                "Charges whether it fits or not; what does not fit becomes debt. Calls are \
                 charged only if `amounts` names them, and concurrency cannot be. The answer \
                 says whether any more may start.",
            )
            .scope("`decide`")
            .answers::<Answer<'_>>("Charged.")
            .or(&[403, 404, 422]),
        post("/v1/peek", decide::peek)
            .named("peek", "observe")
            .summary("What a check would answer now")
            .about(
                "Changes nothing. A check that would be refused is an answer here, with status \
                 200. One that says no amount takes nothing of rates and budgets, and tells where \
                 they stand, where the policy counts calls or concurrency, too.",
            )
            .scope("`observe`")
            .answers::<Peeked<'_>>("What would be answered.")
            .or(&[403, 404, 422]),
        post("/v1/forecast", decide::forecast)
            .named("forecast", "observe")
            .summary("How many such requests fit, and when")
            .about(
                "Changes nothing. One that names neither amounts nor a cost is of the calls and \
                 the concurrency that the policy counts; a rate or budget of which it asks nothing \
                 is not in the answer.",
            )
            .scope("`observe`")
            .answers::<ForecastBody<'_>>("The forecast.")
            .or(&[403, 404, 422]),
        post("/v1/reset", decide::reset)
            .named("reset", "administer")
            .summary("Forget a key")
            .about("As if the key had never been seen. Leases stay, and so do its ancestors.")
            .scope("`administer`")
            .done(204, "Forgotten.")
            .or(&[403, 404]),
    ]
}

fn for_proxies() -> Operation {
    get("/v1/auth", forward::auth)
        .named("auth", "decide")
        .summary("Decide for a proxy")
        .about(
            "For nginx's `auth_request`, and the forward auth of Caddy and Traefik. The request \
             stands in the query, or else in the headers `X-Tidegate-Policy`, `X-Tidegate-Key` \
             and `X-Tidegate-Cost`; never partly in both, so that a client cannot complete what \
             the proxy says.",
        )
        .scope("`decide`")
        .done(200, "Pass it on.")
        .with_limits()
        .or_else("403", "The token may not; or refused, with `denied=403`.")
        .or_else("4XX", "Refused, with the status that `denied` says.")
        .or(&[404, 422, 429])
}

fn listings() -> [Operation; 7] {
    [
        get("/v1/keys", listing::keys)
            .named("list_keys", "observe")
            .summary("The keys that are in use")
            .about("Keys (and their ancestors) that have used something, with where each stands.")
            .about(PAGES)
            .scope("`observe`")
            .answers::<Keys<'_>>("A page of keys.")
            .or(&[403, 404]),
        get("/v1/capacity", listing::capacity)
            .named("capacity", "observe")
            .summary("What the keys that are in use may take, and have left")
            .about(
                "The sums over a page of keys: of each key those limits that are about it, and \
                 not about an ancestor. Add the pages up.",
            )
            .about(PAGES)
            .scope("`observe`")
            .answers::<Capacity<'_>>("The sums of a page of keys.")
            .or(&[403, 404]),
        get("/v1/fleet", listing::fleet)
            .named("fleet", "observe")
            .summary("What servers took in advance, and by how much they may exceed the limits")
            .about(
                "Of a policy with a tier that takes units in advance. Each grant that the store keeps for a \
                 node: a server, or a process that uses the store itself.",
            )
            .about(PAGES)
            .scope("`observe`")
            .answers::<Fleet<'_>>("A page of grants.")
            .or(&[403, 404]),
        get("/v1/leases", listing::leases)
            .named("list_leases", "observe")
            .summary("The leases that are held")
            .about(
                "A lease's id is a secret of its holder; what is shown is a handle, by which it \
                 can be revoked.",
            )
            .about(PAGES)
            .scope("`observe`")
            .answers::<Leases<'_>>("A page of leases.")
            .or(&[403, 404]),
        post("/v1/leases/revoke", decide::revoke)
            .named("revoke_lease", "administer")
            .summary("End the lease of a handle")
            .about(
                "As its holder's release would: what it held comes back, what it took was used. \
                 Its holder's next renewal is refused (409).",
            )
            .scope("`administer`")
            .answers::<Ended<'_>>("It has ended.")
            .or(&[403, 404]),
        get("/v1/usage", listing::usage)
            .named("usage", "observe")
            .summary("What was used, by hour, day or month")
            .about(
                "Where the policy says `usage`: of each key, ancestor and limit what was used in \
                 an hour of UTC. What a lease uses belongs to the hour in which it was granted, \
                 however late it is adjusted or settled. Days and months are sums of hours.",
            )
            .about(PAGES)
            .scope("`observe`")
            .answers::<Used<'_>>("A page of what was used.")
            .or(&[403, 404]),
        get("/v1/denied", listing::denied)
            .named("list_denied", "observe")
            .summary("The keys refused most often")
            .about(
                "Counted since the start in a sketch of 256 keys: a key that is refused more \
                 often than every 256th time is in it. Without `policy`, of all that the token \
                 may observe.",
            )
            .scope("`observe`")
            .answers::<Denied<'_>>("The keys refused most often, the most frequent first.")
            .or(&[403, 404]),
    ]
}

fn of_overrides() -> [Operation; 3] {
    [
        get("/v1/overrides", overrides::all)
            .named("list_overrides", "observe")
            .summary("The overrides that are set")
            .about(
                "Those that the caller may observe: a token for some policies sees those of \
                 these policies alone.",
            )
            .scope("`observe`")
            .answers::<Overrides<'_>>("A page of overrides.")
            .with_version()
            .or(&[403, 404]),
        put("/v1/overrides", overrides::set)
            .named("set_override", "administer")
            .summary("Set an override")
            .about(
                "The limits hold in place of the policies' own of the same names, and of an \
                 override set for the same policy and key before; from the next decision on. \
                 Kept by the store: a restart does not lose it. The most specific one holds: for \
                 a key in a policy, for a key, for a policy, for all.",
            )
            .about(
                "A limit keeps how it counts (its kind, calendar, level); an override says how \
                 much. No key is reset: what was used stays used.",
            )
            .scope("`administer` for the policy; for all policies if none is named")
            .about(
                "With `If-Match` or `If-None-Match`, only if that version is there, or none; else \
                 412, and nothing is changed. An audit event is kept in the same step.",
            )
            .answers::<Override<'_>>("It is set.")
            .with_version()
            .or(&[403, 404]),
        delete("/v1/overrides", overrides::remove)
            .named("remove_override", "administer")
            .summary("Remove an override")
            .about(
                "The one of exactly this policy and key: without `policy`, the one for every \
                 policy; without a key, the one for every key. What is less specific holds \
                 again, from the next decision on. The policy may be gone.",
            )
            .scope("`administer` for the policy; for all policies if none is named")
            .done(204, "It is removed.")
            .or(&[403, 404]),
    ]
}

fn of_entities() -> [Operation; 6] {
    [
        get("/v1/entities", entities::all)
            .named("list_entities", "observe")
            .summary("The entities")
            .about("In the order of their ids' bytes.")
            .about(PAGES)
            .scope("`observe`, for all policies")
            .answers::<Entities<'_>>("A page of entities.")
            .or(&[403]),
        post("/v1/entities", entities::create)
            .named("create_entity", "administer")
            .summary("Create an entity")
            .about(
                "Requests may name it by its id from then on, at every server of the store. It \
                 belongs to `parent`, or is a root. There are eight levels at most. One that is \
                 there already is left as it is (412). An audit event is kept in the same step.",
            )
            .scope("`administer`, for all policies")
            .answers::<Entity<'_>>("It is created.")
            .with_version()
            .or(&[403, 404, 412]),
        get("/v1/entities/{id}", entities::one)
            .named("get_entity", "observe")
            .summary("One entity, and its ancestors")
            .scope("`observe`, for all policies")
            .answers::<Entity<'_>>("The entity.")
            .with_version()
            .or(&[403, 404]),
        patch("/v1/entities/{id}", entities::change)
            .named("change_entity", "administer")
            .summary("Change or move an entity")
            .about(
                "What is missing in the request stays as it is. It holds for the next request that \
                 names the entity, or one below it. An audit event is kept in the same step.",
            )
            .about(
                "An entity that is given another `parent` keeps what it has used, with all that \
                 belong to it. It stays within its root and at its level (400), and moves only \
                 while neither it nor one below it holds a lease (409).",
            )
            .about("With `If-Match`, only if that version is there; else 412.")
            .scope("`administer`, for all policies")
            .answers::<Entity<'_>>("It is changed.")
            .with_version()
            .or(&[403, 404, 409]),
        delete("/v1/entities/{id}", entities::delete)
            .named("delete_entity", "administer")
            .summary("Delete an entity")
            .about(
                "One that has children or holds leases stays (409). What it has used is \
                 forgotten only with time: created anew at the same level below the same root, it \
                 goes on from there. An audit event is kept in the same step.",
            )
            .scope("`administer`, for all policies")
            .done(204, "It is deleted.")
            .or(&[403, 404, 409]),
        get("/v1/entities/{id}/children", entities::children)
            .named("list_children", "observe")
            .summary("The children of an entity")
            .about("In the order of their ids' bytes.")
            .about(PAGES)
            .scope("`observe`, for all policies")
            .answers::<Entities<'_>>("A page of entities.")
            .or(&[403, 404]),
    ]
}

fn of_namespaces() -> [Operation; 6] {
    const SCOPE: &str = "`administer`, for all policies, of a token for every namespace";
    [
        get("/v1/namespaces", namespaces::all)
            .named("list_namespaces", "observe")
            .summary("The namespaces")
            .about("In the order of their names, those that are deleted among them.")
            .about(PAGES)
            .scope("`observe`, for all policies, of a token for every namespace")
            .answers::<Namespaces<'_>>("A page of namespaces."),
        post("/v1/namespaces", namespaces::create)
            .named("create_namespace", "administer")
            .summary("Create a namespace")
            .about(
                "A part of the store that shares nothing with the rest: no key, lease, limit, \
                 override, entity, usage or event. Every server of the store serves it from then \
                 on, with the policies that its file has for it, or else with those that it has \
                 for all. One that is there already is left as it is (412). An audit event is \
                 kept in the same step.",
            )
            .scope(SCOPE)
            .answers::<Namespace<'_>>("It is created.")
            .or(&[412]),
        get("/v1/namespaces/{name}", namespaces::one)
            .named("get_namespace", "observe")
            .summary("One namespace")
            .scope("`observe`, for all policies, of a token for every namespace")
            .answers::<Namespace<'_>>("The namespace."),
        delete("/v1/namespaces/{name}", namespaces::delete)
            .named("delete_namespace", "administer")
            .summary("Delete a namespace")
            .about(
                "All requests in it are refused from then on (410), on every server within the \
                 time that the store takes to notify them; waiting requests get the same error. \
                 It keeps all that it has until it is purged. One that is deleted already stays so. An audit event \
                 is kept in the same step.",
            )
            .scope(SCOPE)
            .answers::<Namespace<'_>>("It is deleted."),
        post("/v1/namespaces/{name}/restore", namespaces::restore)
            .named("restore_namespace", "administer")
            .summary("Restore a deleted namespace")
            .about(
                "It answers again, with all that it had: a lease that has not expired meanwhile is \
                 held. One that is in use stays so. An audit event is kept in the same step.",
            )
            .scope(SCOPE)
            .answers::<Namespace<'_>>("It is in use."),
        post("/v1/namespaces/{name}/purge", namespaces::purge)
            .named("purge_namespace", "administer")
            .summary("Purge a deleted namespace")
            .about(
                "Removes all that it has, and then itself: some of it at a time, until `done` is \
                 true. Whoever was not answered purges it again, which goes on. From the first \
                 time on it cannot be restored. One that is in use, or was deleted less than \
                 ten seconds ago, is not purged (409). An audit event is kept before anything is \
                 removed.",
            )
            .scope(SCOPE)
            .answers::<Purged>("What was removed.")
            .or(&[409]),
    ]
}

fn of_audit() -> Operation {
    get("/v1/audit", audit::events)
        .named("list_audit_events", "observe")
        .summary("What was changed, and by whom")
        .about(
            "Each administrative change that a client made: overrides set and removed, keys that \
             were reset, leases that were revoked, policies that were applied, entities created, \
             changed and deleted, namespaces created, deleted, restored and purged. In the order in \
             which they happened, the oldest first; the store keeps them for as long, and as many, \
             as the servers are set to. A token for some policies sees those of these policies \
             alone.",
        )
        .about(
            "A page may have fewer items than `limit`, or none, and not be the last: go on until \
             `cursor` is null.",
        )
        .scope("`observe`")
        .answers::<Audit<'_>>("A page of events.")
        .or(&[403])
}

fn of_policies() -> [Operation; 3] {
    [
        get("/v1/policies", policies::all)
            .named("list_policies", "observe")
            .summary("The policies")
            .about("Those that the caller may observe.")
            .scope("`observe`")
            .answers::<Policies<'_>>("The policies."),
        put("/v1/policies", policies::apply)
            .named("apply_policies", "administer")
            .summary("Switch to other policies")
            .about(
                "Wholly or not at all, from the next decision on; no key is reset. They stay \
                 over restarts until the policies of the server's own file change. Only where \
                 the server was started with `--applied FILE` or `--applied store`.",
            )
            .scope("`administer`, for all policies")
            .answers::<Applied<'_>>("What was changed.")
            .or(&[403, 404]),
        get("/v1/policies/{name}", policies::one)
            .named("get_policy", "observe")
            .summary("One policy")
            .scope("`observe`")
            .answers::<Policy<'_>>("The policy.")
            .or(&[403, 404]),
    ]
}

fn operation() -> [Operation; 4] {
    [
        get("/openapi.json", openapi)
            .named("openapi", "operate")
            .summary("This document")
            .for_everyone()
            .answers::<serde_json::Map<String, serde_json::Value>>("The document."),
        get("/healthz", operate::health)
            .named("health", "operate")
            .summary("Whether it runs")
            .about("Also while the server is full.")
            .for_everyone()
            .answers::<operate::Status>("It runs."),
        get("/readyz", operate::ready)
            .named("ready", "operate")
            .summary("Whether to send requests here")
            .for_everyone()
            .answers::<operate::Status>("Yes.")
            .or(&[503]),
        get("/metrics", operate::metrics)
            .named("metrics", "operate")
            .summary("What was measured")
            .about("As Prometheus reads it.")
            .scope("`observe`, for all policies")
            .answers_text("The metrics.")
            .or(&[403, 404]),
    ]
}
