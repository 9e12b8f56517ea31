//! The store on an emulator, as a test opens it.
#![allow(dead_code, reason = "each test uses a part")]

pub mod counting;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials as SdkCredentials, Region};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType, TimeToLiveSpecification,
};
use aws_sdk_dynamodb::{Client, Config};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_dynamodb::{Clock, Credentials, DynamodbStore, Options};

/// How long a command may take in a test: no test depends on speed.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The table of most tests.
pub const TABLE: &str = "tidegate";

/// An item as it is there.
pub type Item = HashMap<String, AttributeValue>;

/// The options of a test that has the emulator at `endpoint`.
pub fn options(endpoint: &str, clock: Clock) -> Options {
    Options {
        region: Some("eu-central-1".into()),
        endpoint: Some(endpoint.into()),
        credentials: Some(Credentials {
            access_key_id: "tidegate".into(),
            secret_access_key: "tidegate".into(),
        }),
        clock,
        deadline: DEADLINE,
        ..Options::default()
    }
}

/// The store in the table called `name`.
pub fn opened(name: &str, endpoint: &str, clock: Clock) -> DynamodbStore {
    DynamodbStore::open(name, options(endpoint, clock)).expect("an emulator")
}

/// The same, to be shared.
pub fn table(name: &str, endpoint: &str, clock: Clock) -> Arc<DynamodbStore> {
    Arc::new(opened(name, endpoint, clock))
}

/// Asks the emulator itself, by the SDK.
fn ask<T>(server: &DynamodbServer, act: impl AsyncFnOnce(Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let http = aws_smithy_http_client::Builder::new().build_http();
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .http_client(http)
        .region(Region::new("eu-central-1"))
        .endpoint_url(server.endpoint())
        .credentials_provider(SdkCredentials::new(
            "tidegate", "tidegate", None, None, "test",
        ));
    let client = Client::from_conf(config.build());
    runtime.block_on(act(client))
}

/// All items of the table.
pub fn items(server: &DynamodbServer) -> Vec<Item> {
    items_of(server, TABLE)
}

/// Those of the table called so.
pub fn items_of(server: &DynamodbServer, table: &str) -> Vec<Item> {
    ask(server, async |client| {
        let mut all = Vec::new();
        let mut next = None;
        loop {
            let scan = client.scan().table_name(table).consistent_read(true);
            let scan = scan.set_exclusive_start_key(next.take());
            let page = scan.send().await.expect("a page");
            all.extend(page.items.unwrap_or_default());
            next = page.last_evaluated_key.filter(|key| !key.is_empty());
            if next.is_none() {
                return all;
            }
        }
    })
}

/// The bytes of an attribute.
pub fn bytes<'i>(item: &'i Item, name: &str) -> &'i [u8] {
    let value = item.get(name).expect("it has it");
    value.as_b().expect("bytes").as_ref()
}

fn ends(item: &Item) -> Option<i64> {
    item.get("ttl")?.as_n().ok()?.parse().ok()
}

/// Has all that may be deleted some day be spent by now, as if it had been written a year ago.
pub fn age(server: &DynamodbServer, table: &str) {
    age_where(server, table, |_| true);
}

/// Those of them of which this holds.
pub fn age_where(server: &DynamodbServer, table: &str, concerns: impl Fn(&Item) -> bool) {
    for mut item in items_of(server, table) {
        if ends(&item).is_none() || !concerns(&item) {
            continue;
        }
        item.insert("ttl".into(), AttributeValue::N("1000".into()));
        put(server, table, item);
    }
}

/// Deletes what DynamoDB's sweep would delete at this moment; answers how many.
pub fn sweep(server: &DynamodbServer, table: &str) -> usize {
    let now = tidegate_conformance::fixture::machine_time().as_micros() / 1_000_000;
    let spent = items_of(server, table).into_iter();
    let spent: Vec<Item> = spent
        .filter(|item| ends(item).is_some_and(|ends| ends < now))
        .collect();
    for item in &spent {
        let key = ["pk", "sk"].map(|name| (name.to_owned(), item[name].clone()));
        ask(server, async |client| {
            let delete = client.delete_item().table_name(table);
            let delete = delete.set_key(Some(key.into_iter().collect()));
            delete.send().await.expect("it is deleted");
        });
    }
    spent.len()
}

/// A table that was made for something else.
pub fn make_foreign(server: &DynamodbServer, table: &str) {
    ask(server, async |client| {
        let attribute = AttributeDefinition::builder().attribute_name("id");
        let attribute = attribute.attribute_type(ScalarAttributeType::S).build();
        let key = KeySchemaElement::builder().attribute_name("id");
        let key = key.key_type(KeyType::Hash).build();
        let create = client.create_table().table_name(table);
        let create = create
            .attribute_definitions(attribute.expect("an attribute"))
            .key_schema(key.expect("a key"))
            .billing_mode(BillingMode::PayPerRequest);
        create.send().await.expect("it is made");
    });
}

/// Whether there is such a table.
pub fn is_there(server: &DynamodbServer, table: &str) -> bool {
    ask(server, async |client| {
        client
            .describe_table()
            .table_name(table)
            .send()
            .await
            .is_ok()
    })
}

/// Has the table be one of another layout.
pub fn of_layout(server: &DynamodbServer, table: &str, version: u32) {
    let layout = items_of(server, table).into_iter();
    let mut layout = { layout }
        .find(|item| bytes(item, "pk") == b"s")
        .expect("a layout");
    layout.insert("v".into(), AttributeValue::N(version.to_string()));
    put(server, table, layout);
}

/// Has the table be as a program of layout 1 would have written it, with requests that may wait at
/// each root.
pub fn of_layout_1(server: &DynamodbServer, table: &str) {
    let number = |bytes: &[u8]| {
        let number = i64::from_be_bytes(bytes.try_into().expect("eight bytes"));
        AttributeValue::N(number.to_string())
    };
    for mut item in items_of(server, table) {
        if bytes(&item, "pk")[0] != b'r' || bytes(&item, "sk") != b"k" {
            continue;
        }
        let all = bytes(&item, "b").to_vec();
        item.insert("v".into(), number(&all[..8]));
        item.insert("w".into(), AttributeValue::B(Blob::new(&all[8..24])));
        item.insert("t".into(), number(&all[24..32]));
        item.insert("q".into(), AttributeValue::Bool(true));
        match item.contains_key("f") {
            true => item.insert("b".into(), AttributeValue::B(Blob::new(&all[33..]))),
            false => item.remove("b"),
        };
        item.entry("f".into())
            .or_insert(AttributeValue::N(i64::MIN.to_string()));
        put(server, table, item);
    }
    of_layout(server, table, 1);
}

/// Has the item be there.
pub fn put(server: &DynamodbServer, table: &str, item: Item) {
    ask(server, async |client| {
        let put = client.put_item().table_name(table).set_item(Some(item));
        put.send().await.expect("it is put");
    });
}

/// Has the table be one in which nothing says of which layout it is.
pub fn without_layout(server: &DynamodbServer, table: &str) {
    let key = ["pk", "sk"];
    let layout = items_of(server, table).into_iter();
    let layout = { layout }
        .find(|item| bytes(item, "pk") == b"s")
        .expect("a layout");
    let key = key.map(|name| (name.to_owned(), layout[name].clone()));
    ask(server, async |client| {
        let delete = client.delete_item().table_name(table);
        let delete = delete.set_key(Some(key.into_iter().collect()));
        delete.send().await.expect("it is deleted");
    });
}

/// Has items expire by this attribute, or no longer by it.
pub fn expire_by(server: &DynamodbServer, table: &str, attribute: &str, is_on: bool) {
    ask(server, async |client| {
        let ttl = TimeToLiveSpecification::builder()
            .attribute_name(attribute)
            .enabled(is_on);
        let update = client.update_time_to_live().table_name(table);
        let update = update.time_to_live_specification(ttl.build().expect("a switch"));
        update.send().await.expect("it is switched");
    });
}
