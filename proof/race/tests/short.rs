//! The rounds, on each store: what is used is charged, and nothing else.

use tidegate_fleet::program;
use tidegate_race::gateway::Gateways;
use tidegate_race::provider::Provider;
use tidegate_race::round::{self, ROUNDS};
use tidegate_race::store::Store;
use tidegate_race::table;

/// More than it takes to spend the budget.
const CALLS: u64 = 1_400;

/// Four proxies on one Redis spent 217 dollars of a key that had 10 (LiteLLM #26672); others charged
/// what nobody had used (#28247, #28283, #30460, #36926).
fn rounds(store: &str) {
    let program = program::program().expect("a program");
    for round in ROUNDS {
        let Some(opened) = Store::open(store).expect("a store that there is") else {
            return;
        };
        let provider = Provider::start().expect("a provider");
        let mut gateways = Gateways::open(&program, opened, provider.at).expect("they start");
        let books = round::run(round, CALLS, &mut gateways, &provider).expect("it ends");
        let row = table::row(round.name, &books);
        assert!(books.hold(round.may_owe()), "{}\n{row}", table::HEAD);
    }
}

#[test]
fn four_gateways_on_redis_spend_a_budget_once_whatever_is_killed() {
    rounds("redis");
}

#[test]
fn four_gateways_on_postgresql_spend_a_budget_once_whatever_is_killed() {
    rounds("postgres");
}
