//! The DynamoDB table, and the version of what is in it.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, LocalSecondaryIndex, Projection,
    ProjectionType, ScalarAttributeType, TableDescription, TableStatus, TimeToLiveSpecification,
    TimeToLiveStatus,
};
use tidegate_store::StoreError;

use crate::connection::{Connection, code, unbuilt};
use crate::error::Trouble;
use crate::item::{INDEX, item, number, read_number};
use crate::keys;

/// The version of the layout that this version of the program reads and writes.
pub(crate) const VERSION: u32 = 2;

/// The attribute that says from when on an item may be deleted.
pub(crate) const TTL: &str = "ttl";

/// The attributes of the table's key.
pub(crate) const KEY: [&str; 2] = ["pk", "sk"];

/// How often it is looked whether a table that is made, changed or deleted is so.
pub(crate) const GLANCE: Duration = Duration::from_millis(250);

/// What is needed of the table, which is made if `makes` says so.
pub(crate) async fn provide(connection: &Connection, makes: bool) -> Result<(), Trouble> {
    let is_there = awaited(connection, |status| status.is_none() || is_usable(status)).await?;
    if !is_there && !makes {
        return Err(unusable(&format!(
            "the DynamoDB table `{}` is not there; create it, or open the store without \
             migrate=off",
            connection.table
        )));
    }
    if !is_there {
        make(connection, false).await?;
        awaited(connection, is_usable).await?;
    }
    if makes {
        // Whether it is swept decides nothing: `tidegate dynamodb status` tells.
        sweep(connection).await?;
    }
    agree(connection, false).await.map(drop)
}

/// Waits while the table is made or changed, until how it is (nothing: it is not there) is enough; and
/// whether it is there then.
pub(crate) async fn awaited(
    connection: &Connection,
    is_enough: impl Fn(Option<&TableStatus>) -> bool,
) -> Result<bool, Trouble> {
    loop {
        let table = describe(connection).await?;
        let status = table.and_then(|table| table.table_status);
        if is_enough(status.as_ref()) {
            return Ok(status.is_some());
        }
        match status {
            None | Some(TableStatus::Active | TableStatus::Creating | TableStatus::Updating) => {
                tokio::time::sleep(GLANCE).await;
            }
            Some(other) => {
                return Err(unusable(&format!(
                    "the DynamoDB table `{}` is {other}; wait, or name another",
                    connection.table
                )));
            }
        }
    }
}

/// Whether items can be read and written.
pub(crate) const fn is_usable(status: Option<&TableStatus>) -> bool {
    matches!(status, Some(TableStatus::Active | TableStatus::Updating))
}

/// The table as DynamoDB describes it, if there is one.
pub(crate) async fn describe(connection: &Connection) -> Result<Option<TableDescription>, Trouble> {
    let describe = connection.client.describe_table();
    let describe = describe.table_name(&connection.table);
    let table = match connection.ask(describe.send()).await {
        Ok(described) => described.table,
        Err(asked) if code(&asked) == Some("ResourceNotFoundException") => None,
        Err(asked) => return Err(asked.into()),
    };
    let mut indexes = table
        .iter()
        .flat_map(|table| table.local_secondary_indexes());
    let has_index = indexes.any(|index| index.index_name() == Some(INDEX));
    match table.is_none() || has_index {
        true => Ok(table),
        false => Err(unusable(&format!(
            "the DynamoDB table `{}` was not made for Tidegate: it has no index `{INDEX}`; \
             name another",
            connection.table
        ))),
    }
}

/// Makes the table, if another is not faster; whether DynamoDB refuses to delete it.
pub(crate) async fn make(connection: &Connection, is_protected: bool) -> Result<(), Trouble> {
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
    let [partition, sort] = KEY;
    let all = Projection::builder().projection_type(ProjectionType::All);
    let index = LocalSecondaryIndex::builder()
        .index_name(INDEX)
        .key_schema(key(partition, KeyType::Hash)?)
        .key_schema(key(INDEX, KeyType::Range)?)
        .projection(all.build());
    let create = connection.client.create_table();
    let create = create
        .table_name(&connection.table)
        .attribute_definitions(attribute(partition)?)
        .attribute_definitions(attribute(sort)?)
        .attribute_definitions(attribute(INDEX)?)
        .key_schema(key(partition, KeyType::Hash)?)
        .key_schema(key(sort, KeyType::Range)?)
        .local_secondary_indexes(index.build().map_err(unbuilt)?)
        .billing_mode(BillingMode::PayPerRequest)
        .set_deletion_protection_enabled(is_protected.then_some(true));
    match connection.ask(create.send()).await {
        Ok(_) => Ok(()),
        Err(asked) if code(&asked) == Some("ResourceInUseException") => Ok(()),
        Err(asked) => Err(asked.into()),
    }
}

/// Whether DynamoDB deletes what is spent.
pub(crate) enum Sweep {
    /// It does, and did.
    Is,
    /// It does from now on.
    Begins,
    /// It does not, and will not: why.
    Refused(String),
}

/// Whether DynamoDB deletes what is spent.
pub(crate) async fn sweeps(connection: &Connection) -> Result<bool, Trouble> {
    let describe = connection.client.describe_time_to_live();
    let described = connection.ask(describe.table_name(&connection.table).send());
    let described = described.await?.time_to_live_description;
    Ok(described.is_some_and(|described| {
        let is_on = matches!(
            described.time_to_live_status,
            Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
        );
        is_on && described.attribute_name.as_deref() == Some(TTL)
    }))
}

/// Has DynamoDB delete what is spent.
pub(crate) async fn sweep(connection: &Connection) -> Result<Sweep, Trouble> {
    if sweeps(connection).await? {
        return Ok(Sweep::Is);
    }
    let ttl = TimeToLiveSpecification::builder()
        .attribute_name(TTL)
        .enabled(true);
    let update = connection.client.update_time_to_live();
    let update = update
        .table_name(&connection.table)
        .time_to_live_specification(ttl.build().map_err(unbuilt)?);
    let asked = match connection.ask(update.send()).await {
        Ok(_) => return Ok(Sweep::Begins),
        Err(asked) => asked,
    };
    match code(&asked) {
        // Another was faster.
        Some("ValidationException") if sweeps(connection).await? => Ok(Sweep::Is),
        Some("ValidationException") => Ok(Sweep::Refused(Trouble::from(asked).told().to_string())),
        _ => Err(asked.into()),
    }
}

/// The version of what is in the table, if anything is.
pub(crate) async fn version(connection: &Connection) -> Result<Option<u32>, Trouble> {
    let found = connection.get(&keys::schema()).await?;
    found.map(|item| read_number(&item, "v")).transpose()
}

/// The version of what is in the table, if anything is: this one, or an older one that is to be upgraded.
pub(crate) async fn acceptable(
    connection: &Connection,
    upgrades: bool,
) -> Result<Option<u32>, Trouble> {
    let table = &connection.table;
    match version(connection).await? {
        Some(newer) if newer > VERSION => Err(unusable(&format!(
            "the DynamoDB table `{table}` is of version {newer}, made by a newer Tidegate; \
             upgrade this one, or name another table"
        ))),
        Some(older) if older < VERSION && !upgrades => Err(unusable(&format!(
            "the DynamoDB table `{table}` is of version {older}, made by an older Tidegate; stop \
             whatever still runs of that, then run `tidegate dynamodb upgrade`"
        ))),
        there => Ok(there),
    }
}

/// That what is in the table is of this version; one without any gets it, and one of an older layout if
/// `upgrades` says so. Whether it did.
///
/// What an older layout wrote can be read: only programs of that time cannot read what this one writes.
pub(crate) async fn agree(connection: &Connection, upgrades: bool) -> Result<bool, Trouble> {
    loop {
        let there = acceptable(connection, upgrades).await?;
        if there == Some(VERSION) {
            return Ok(false);
        }
        let put = connection.client.put_item().table_name(&connection.table);
        let new = item(&keys::schema(), [("v", Some(number(VERSION)))]);
        let put = put.set_item(Some(new));
        let put = match there {
            Some(older) => put
                .condition_expression("v = :v")
                .expression_attribute_values(":v", number(older)),
            None => put.condition_expression("attribute_not_exists(pk)"),
        };
        match connection.ask(put.send()).await {
            Ok(_) => return Ok(true),
            // Another was faster, and may be of another version.
            Err(asked) if code(&asked) == Some("ConditionalCheckFailedException") => {}
            Err(asked) => return Err(asked.into()),
        }
    }
}

pub(crate) fn unusable(words: &str) -> Trouble {
    Trouble::Failed(StoreError::Unavailable(words.to_owned()))
}
