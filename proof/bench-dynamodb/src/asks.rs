//! What a client asks: one unit of a key's, which nobody is refused.

use std::time::Duration;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use aws_sdk_dynamodb::{Client, Config};
use tidegate::{Limit, LimitSet};

/// More than anybody takes.
const MOST: u64 = 1_000_000_000_000;

/// A rate that nobody is refused by: so many a second.
const RATE: u64 = 1_000_000;

/// See the [module](self).
#[derive(Clone)]
pub enum Asks {
    Ours(LimitSet),
    /// A client, and its table.
    Bare(Client, String),
}

impl Asks {
    pub fn ours(table: &str, endpoint: &str) -> Result<Self, String> {
        let url = format!("dynamodb://{table}?region=local&endpoint={endpoint}&deadline=60s");
        let store = tidegate_url::open(&url).map_err(|error| error.to_string())?;
        let rate = Limit::rate("calls", RATE, Duration::from_secs(1));
        let set = LimitSet::builder().name("bench").limit(rate);
        let set = set.store(store.store).build();
        set.map(Self::Ours).map_err(|error| error.to_string())
    }

    pub async fn bare(table: &str, endpoint: &str) -> Result<Self, String> {
        let anybody = Credentials::new("tidegate", "tidegate", None, None, "bench");
        let config = Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .retry_config(RetryConfig::disabled())
            .region(Region::new("local"))
            .endpoint_url(endpoint)
            .credentials_provider(anybody);
        let client = Client::from_conf(config.build());
        make(&client, table).await?;
        Ok(Self::Bare(client, table.to_owned()))
    }

    /// One unit of this key's.
    pub async fn one(&self, key: u32) -> Result<(), String> {
        let key = format!("key-{key}");
        match self {
            Self::Ours(set) => {
                let decision = set.check(&*key, 1).await;
                let decision = decision.map_err(|error| error.to_string())?;
                match decision.admitted() {
                    true => Ok(()),
                    false => Err(format!("{key} is refused")),
                }
            }
            Self::Bare(client, table) => {
                let update = client.update_item().table_name(table);
                let update = update
                    .key("pk", AttributeValue::S(key))
                    .condition_expression("attribute_not_exists(v) OR v < :most")
                    .update_expression("ADD v :one")
                    .expression_attribute_values(":one", AttributeValue::N("1".into()))
                    .expression_attribute_values(":most", AttributeValue::N(MOST.to_string()));
                let updated = update.send().await.map(drop);
                updated.map_err(|error| DisplayErrorContext(error).to_string())
            }
        }
    }
}

/// A table of whole items by a name.
async fn make(client: &Client, table: &str) -> Result<(), String> {
    let name = AttributeDefinition::builder()
        .attribute_name("pk")
        .attribute_type(ScalarAttributeType::S)
        .build();
    let key = KeySchemaElement::builder()
        .attribute_name("pk")
        .key_type(KeyType::Hash)
        .build();
    let create = client
        .create_table()
        .table_name(table)
        .attribute_definitions(name.map_err(|error| error.to_string())?)
        .key_schema(key.map_err(|error| error.to_string())?)
        .billing_mode(BillingMode::PayPerRequest);
    let created = create.send().await.map(drop);
    created.map_err(|error| DisplayErrorContext(error).to_string())
}
