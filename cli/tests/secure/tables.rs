//! Every policy has a table of its own at the store, whatever it is called.

use tidegate_conformance::redis_server::RedisServer;

use crate::support::{Server, folder, serve, text};

/// Each of these had a table that another one of them had, too.
const POLICIES: &str = "\
[policy.search]
key = 'org'
limits.a = { calls = 2, per = '1h', level = 'org' }
[policy.'search/org']
limits.a = { calls = 3, per = '1h' }
[policy.'search%2Forg']
limits.a = { calls = 4, per = '1h' }
[policy.cl]
key = '5/10/60'
partial_keys = true
limits.a = { calls = 6, per = '1h', level = '5' }
";

fn admitted(server: &Server, policy: &str) -> usize {
    let url = format!("http://{}/v1/check", server.http);
    let request = format!("{{\"policy\":\"{policy}\",\"key\":\"k\"}}");
    let check = || {
        let json = "content-type: application/json";
        let status = server.curl(&[
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-H",
            json,
            "-d",
            &request,
            &url,
        ]);
        text(&status.stdout)
    };
    (0..8).filter(|_| check() == "200").count()
}

fn has_a_table_for_each(store: &str) {
    let folder = folder(POLICIES);
    let mut command = serve(folder.path());
    command.args(["--config", "tidegate.toml", "--store", store]);
    let server = Server::spawn(folder.path(), &mut command);
    let throttled = text(
        &server
            .redis(&["CL.THROTTLE", "k", "4", "10", "60", "5"])
            .stdout,
    );
    assert!(throttled.starts_with('0'), "{throttled}");
    let policies = ["search", "search/org", "search%2Forg", "cl"];
    let counts = policies.map(|policy| admitted(&server, policy));
    assert_eq!(counts, [2, 3, 4, 6]);
}

#[test]
fn policies_that_are_called_alike_do_not_share_a_limit_in_memory() {
    has_a_table_for_each("memory:");
}

#[test]
fn policies_that_are_called_alike_do_not_share_a_limit_in_a_file() {
    has_a_table_for_each("file:state.redb?sync=never");
}

#[test]
fn policies_that_are_called_alike_do_not_share_a_limit_in_a_redis() {
    if let Some(redis) = RedisServer::start() {
        has_a_table_for_each(&redis.url());
    }
}
