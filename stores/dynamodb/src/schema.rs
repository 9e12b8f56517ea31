//! The DynamoDB table, and the version of what is in it.

use std::time::Duration;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, LocalSecondaryIndex, Projection,
    ProjectionType, ScalarAttributeType, TableStatus, TimeToLiveSpecification, TimeToLiveStatus,
};
use tidegate_store::StoreError;

use crate::connection::{Asked, Connection, unbuilt};
use crate::error::Trouble;
use crate::item::{INDEX, item, number, read_number};
use crate::keys;

/// The version of the layout that this version of the program reads and writes.
const VERSION: u32 = 1;

/// The attribute that says from when on an item may be deleted.
const TTL: &str = "ttl";

/// How often it is looked whether a table that is made is there.
const GLANCE: Duration = Duration::from_millis(250);

/// What is needed of the table, which is made if `makes` says so.
pub(crate) async fn provide(connection: &Connection, makes: bool) -> Result<(), Trouble> {
    let mut is_made = false;
    loop {
        match status(connection).await? {
            Some(TableStatus::Active | TableStatus::Updating) => break,
            Some(TableStatus::Creating) => tokio::time::sleep(GLANCE).await,
            Some(other) => {
                return Err(unusable(&format!(
                    "the DynamoDB table `{}` is {other}; wait, or name another",
                    connection.table
                )));
            }
            None if makes && !is_made => {
                make(connection).await?;
                is_made = true;
            }
            None if makes => tokio::time::sleep(GLANCE).await,
            None => {
                return Err(unusable(&format!(
                    "the DynamoDB table `{}` is not there; create it, or open the store without \
                     migrate=off",
                    connection.table
                )));
            }
        }
    }
    if makes {
        sweep(connection).await?;
    }
    agree(connection, makes).await
}

/// Whether there is such a table, and how it is.
async fn status(connection: &Connection) -> Result<Option<TableStatus>, Trouble> {
    let describe = connection.client.describe_table();
    let describe = describe.table_name(&connection.table);
    match connection.ask(describe.send()).await {
        Ok(described) => {
            let Some(table) = described.table else {
                return Ok(None);
            };
            let has_index = table
                .local_secondary_indexes
                .unwrap_or_default()
                .iter()
                .any(|index| index.index_name() == Some(INDEX));
            match has_index {
                true => Ok(table.table_status),
                false => Err(unusable(&format!(
                    "the DynamoDB table `{}` was not made for Tidegate: it has no index `{INDEX}`; \
                     name another",
                    connection.table
                ))),
            }
        }
        Err(asked) if code(&asked) == Some("ResourceNotFoundException") => Ok(None),
        Err(asked) => Err(asked.into()),
    }
}

/// Makes the table; another may be faster.
async fn make(connection: &Connection) -> Result<(), Trouble> {
    let attribute = |name: &str| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::B)
            .build()
            .map_err(unbuilt)
    };
    let key = |name: &str, kind: KeyType| {
        KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(kind)
            .build()
            .map_err(unbuilt)
    };
    let all = Projection::builder().projection_type(ProjectionType::All);
    let index = LocalSecondaryIndex::builder()
        .index_name(INDEX)
        .key_schema(key("pk", KeyType::Hash)?)
        .key_schema(key("due", KeyType::Range)?)
        .projection(all.build());
    let create = connection.client.create_table();
    let create = create
        .table_name(&connection.table)
        .attribute_definitions(attribute("pk")?)
        .attribute_definitions(attribute("sk")?)
        .attribute_definitions(attribute("due")?)
        .key_schema(key("pk", KeyType::Hash)?)
        .key_schema(key("sk", KeyType::Range)?)
        .local_secondary_indexes(index.build().map_err(unbuilt)?)
        .billing_mode(BillingMode::PayPerRequest);
    match connection.ask(create.send()).await {
        Ok(_) => Ok(()),
        Err(asked) if code(&asked) == Some("ResourceInUseException") => Ok(()),
        Err(asked) => Err(asked.into()),
    }
}

/// Switches on that what is spent is deleted.
async fn sweep(connection: &Connection) -> Result<(), Trouble> {
    let describe = connection.client.describe_time_to_live();
    let described = connection.ask(describe.table_name(&connection.table).send());
    let described = described.await?.time_to_live_description;
    let status = described.and_then(|described| described.time_to_live_status);
    if matches!(
        status,
        Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
    ) {
        return Ok(());
    }
    let ttl = TimeToLiveSpecification::builder()
        .attribute_name(TTL)
        .enabled(true);
    let update = connection.client.update_time_to_live();
    let update = update
        .table_name(&connection.table)
        .time_to_live_specification(ttl.build().map_err(unbuilt)?);
    match connection.ask(update.send()).await {
        Ok(_) => Ok(()),
        // Another was faster.
        Err(asked) if code(&asked) == Some("ValidationException") => Ok(()),
        Err(asked) => Err(asked.into()),
    }
}

/// That what is in the table is of this version.
async fn agree(connection: &Connection, makes: bool) -> Result<(), Trouble> {
    let key = keys::schema();
    match connection.get(&key).await? {
        Some(found) => match read_number::<u32>(&found, "v")? {
            VERSION => Ok(()),
            newer => Err(unusable(&format!(
                "the DynamoDB table `{}` is of version {newer}, made by a newer Tidegate; upgrade \
                 this one, or name another table",
                connection.table
            ))),
        },
        None if makes => {
            let put = connection.client.put_item().table_name(&connection.table);
            let put = put.set_item(Some(item(&key, [("v", Some(number(VERSION)))])));
            connection.ask(put.send()).await?;
            Ok(())
        }
        // Nobody has written anything yet.
        None => Ok(()),
    }
}

fn code<E: ProvideErrorMetadata, R>(asked: &Asked<E, R>) -> Option<&str> {
    match asked {
        Asked::Error(error) => error.as_service_error()?.code(),
        Asked::Trouble(_) => None,
    }
}

fn unusable(words: &str) -> Trouble {
    Trouble::Failed(StoreError::Unavailable(words.to_owned()))
}
