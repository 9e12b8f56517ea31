//! Every operation of every protocol has a row of the table, or stands here with the reason
//! why it has none.

use std::collections::BTreeSet;

use tidegate_fleet::table;

/// What is asked of two servers about an operation.
enum Asked {
    /// The rows that begin so.
    Rows(&'static [&'static str]),
    /// It has no row, for this reason.
    Not(&'static str),
}

use Asked::{Not, Rows};

const OPENAPI: &str = include_str!("../../../protocols/http/openapi.json");
const PROTO: &str = include_str!("../../../protocols/grpc/proto/tidegate/v1/tidegate.proto");
const COMMANDS: &str = include_str!("../../../protocols/resp/src/command/table.rs");

const CONNECTION: Asked = Not("of its connection alone");

const HTTP: &[(&str, Asked)] = &[
    ("check", Rows(&["check"])),
    ("check_many", Rows(&["check-many"])),
    ("acquire", Rows(&["acquire"])),
    ("grant", Rows(&["grant"])),
    ("return", Rows(&["return"])),
    ("settle", Rows(&["settle"])),
    ("release", Rows(&["release"])),
    ("cancel", Rows(&["cancel"])),
    ("renew", Rows(&["renew"])),
    ("adjust", Rows(&["adjust"])),
    ("debit", Rows(&["debit"])),
    ("peek", Rows(&["peek"])),
    ("forecast", Rows(&["forecast"])),
    ("reset", Rows(&["reset"])),
    ("auth", Rows(&["auth"])),
    ("list_keys", Rows(&["keys"])),
    ("capacity", Rows(&["capacity"])),
    (
        "fleet",
        Not("of policies with a tier: tests/tiers.rs asks three servers on each store"),
    ),
    ("list_leases", Rows(&["leases"])),
    ("revoke_lease", Rows(&["revoke"])),
    ("usage", Rows(&["usage"])),
    ("list_denied", Rows(&["denied"])),
    ("list_overrides", Rows(&["overrides listed"])),
    ("set_override", Rows(&["override set"])),
    ("remove_override", Rows(&["override removed"])),
    ("list_entities", Rows(&["entities listed"])),
    ("create_entity", Rows(&["entity created"])),
    ("get_entity", Rows(&["entity shown"])),
    ("change_entity", Rows(&["entity changed"])),
    ("delete_entity", Rows(&["entity deleted"])),
    ("list_children", Rows(&["children listed"])),
    ("list_audit_events", Rows(&["audit"])),
    ("list_namespaces", Rows(&["namespaces listed"])),
    ("create_namespace", Rows(&["namespace created"])),
    ("get_namespace", Rows(&["namespace shown"])),
    ("delete_namespace", Rows(&["namespace deleted"])),
    ("restore_namespace", Rows(&["namespace restored"])),
    ("purge_namespace", Rows(&["namespace purged"])),
    ("list_policies", Rows(&["policies"])),
    ("apply_policies", Rows(&["policies applied"])),
    ("get_policy", Rows(&["policy"])),
    ("openapi", Not("the same text at every server")),
    ("health", Rows(&["health"])),
    ("ready", Rows(&["ready"])),
    ("metrics", Rows(&["metrics"])),
];

const GRPC: &[(&str, Asked)] = &[
    ("Check", Rows(&["check"])),
    ("CheckMany", Rows(&["check-many"])),
    ("CheckStream", Rows(&["check-stream"])),
    ("Acquire", Rows(&["acquire"])),
    ("Grant", Rows(&["grant"])),
    ("Return", Rows(&["return"])),
    ("Settle", Rows(&["settle"])),
    ("Release", Rows(&["release"])),
    ("Cancel", Rows(&["cancel"])),
    ("Renew", Rows(&["renew"])),
    ("Adjust", Rows(&["adjust"])),
    ("Debit", Rows(&["debit"])),
    ("Peek", Rows(&["peek"])),
    ("Forecast", Rows(&["forecast"])),
    ("Reset", Rows(&["reset"])),
    ("ListPolicies", Rows(&["policies"])),
    ("ListKeys", Rows(&["keys"])),
    ("ListLeases", Rows(&["leases"])),
    ("ListUsage", Rows(&["usage"])),
    ("ListAuditEvents", Rows(&["audit"])),
    ("RevokeLease", Rows(&["revoke"])),
    ("SetOverride", Rows(&["override set"])),
    ("RemoveOverride", Rows(&["override removed"])),
    ("ListOverrides", Rows(&["overrides listed"])),
    ("CreateEntity", Rows(&["entity created"])),
    ("GetEntity", Rows(&["entity shown"])),
    ("ChangeEntity", Rows(&["entity changed"])),
    ("DeleteEntity", Rows(&["entity deleted"])),
    ("ListEntities", Rows(&["entities listed"])),
    ("ListChildren", Rows(&["children listed"])),
    ("CreateNamespace", Rows(&["namespace created"])),
    ("GetNamespace", Rows(&["namespace shown"])),
    ("DeleteNamespace", Rows(&["namespace deleted"])),
    ("RestoreNamespace", Rows(&["namespace restored"])),
    ("PurgeNamespace", Rows(&["namespace purged"])),
    ("ListNamespaces", Rows(&["namespaces listed"])),
    (
        "WatchDenials",
        Not("tells of the refusals of its own server alone"),
    ),
];

const RESP: &[(&str, Asked)] = &[
    ("CL.THROTTLE", Rows(&["throttle"])),
    ("THROTTLE", Not("is CL.THROTTLE in other words")),
    ("TG.CHECK", Rows(&["check"])),
    ("TG.ACQUIRE", Rows(&["acquire"])),
    ("TG.RELEASE", Rows(&["release"])),
    ("TG.GRANT", Rows(&["grant"])),
    ("TG.RETURN", Rows(&["return"])),
    ("TG.SETTLE", Rows(&["settle"])),
    ("TG.CANCEL", Rows(&["cancel"])),
    ("TG.RENEW", Rows(&["renew"])),
    ("TG.ADJUST", Rows(&["adjust"])),
    ("TG.DEBIT", Rows(&["debit"])),
    ("TG.PEEK", Rows(&["peek"])),
    ("TG.FORECAST", Rows(&["forecast"])),
    ("TG.RESET", Rows(&["reset"])),
    ("TG.KEYS", Rows(&["keys"])),
    ("TG.LEASES", Rows(&["leases"])),
    ("TG.USAGE", Rows(&["usage"])),
    ("TG.AUDIT", Rows(&["audit"])),
    ("TG.REVOKE", Rows(&["revoke"])),
    (
        "TG.OVERRIDE",
        Rows(&[
            "override set",
            "override shown",
            "override removed",
            "overrides listed",
        ]),
    ),
    (
        "TG.ENTITY",
        Rows(&[
            "entity created",
            "entity shown",
            "entity changed",
            "entity deleted",
            "entities listed",
            "children listed",
        ]),
    ),
    (
        "TG.NAMESPACE",
        Rows(&[
            "namespace created",
            "namespace shown",
            "namespace deleted",
            "namespace restored",
            "namespace purged",
            "namespaces listed",
        ]),
    ),
    ("TG.USE", Rows(&["check, in a namespace"])),
    ("TG.POLICIES", Rows(&["policies"])),
    ("PING", Rows(&["health"])),
    ("ECHO", CONNECTION),
    ("HELLO", CONNECTION),
    ("AUTH", CONNECTION),
    ("CLIENT", CONNECTION),
    ("COMMAND", CONNECTION),
    ("SELECT", CONNECTION),
    ("INFO", Rows(&["info"])),
    ("QUIT", CONNECTION),
    ("RESET", CONNECTION),
];

/// The table said "every verb of every protocol", and had no row of some that were new.
fn hold(protocol: &str, operations: &BTreeSet<&str>, known: &[(&str, Asked)]) {
    let named: BTreeSet<_> = known.iter().map(|(operation, _)| *operation).collect();
    assert_eq!(
        operations, &named,
        "{protocol}: a row of the table for each, or the reason why it has none"
    );
    let cells = table::cells();
    for (operation, asked) in known {
        match asked {
            Rows(cases) => {
                for case in *cases {
                    let with_more = format!("{case}, ");
                    let is_it = |of: &str| of == *case || of.starts_with(&with_more);
                    let found = cells
                        .iter()
                        .any(|cell| cell.protocol == protocol && is_it(&cell.case));
                    assert!(found, "{protocol} {operation}: no row {case:?}");
                }
            }
            Not(why) => assert!(!why.is_empty(), "{protocol} {operation}"),
        }
    }
}

/// What stands between `before` and `end`, of each line that begins so.
fn behind<'t>(text: &'t str, before: &str, end: char) -> BTreeSet<&'t str> {
    let lines = text.lines().map(str::trim);
    let names = lines.filter_map(|line| line.strip_prefix(before)?.split(end).next());
    names.collect()
}

#[test]
fn every_operation_over_http_has_a_row_or_a_reason() {
    hold("http", &behind(OPENAPI, "\"operationId\": \"", '"'), HTTP);
}

#[test]
fn every_method_over_grpc_has_a_row_or_a_reason() {
    hold("grpc", &behind(PROTO, "rpc ", '('), GRPC);
}

#[test]
fn every_command_over_resp_has_a_row_or_a_reason() {
    let (_, commands) = COMMANDS
        .split_once("const COMMANDS")
        .expect("the table of commands");
    let (commands, _) = commands.split_once("\n};").expect("its end");
    hold("resp", &behind(commands, "\"", '"'), RESP);
}
