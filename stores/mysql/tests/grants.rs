//! What docs/stores/mariadb.md grants is what a user needs.

mod support;

use support::{Fixture, hourly, machine_time, plan};
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_mysql::{Clock, MysqlStore};

/// The statements of the page.
fn grants() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stores/mariadb.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, rest) = page.split_once("```sql\n").expect("the grants");
    let (grants, _) = rest.split_once("```").expect("their end");
    grants.to_owned()
}

#[test]
fn the_users_of_the_page_make_the_tables_and_decide() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    server.ask(&grants());
    let open = |user: &str| {
        let port = server.port();
        let address = format!("mysql://{user}:SECRET@127.0.0.1:{port}/limits");
        MysqlStore::open(&address, support::options(Clock::Server))
    };
    assert!(
        open("tidegate").is_err(),
        "there are no tables, and it may make none"
    );
    drop(open("tidegate_admin").expect("it makes them"));
    let store = open("tidegate").expect("they are there");
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[9]) && !fixture.admits(b"k", &[1]));
}
