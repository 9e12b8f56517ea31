//! What a server keeps of the slots, read in one step of its own: who holds by the
//! leases, and how many are free by the key's row. No command answers both, and between
//! two a lease may come and go, so this looks where the store keeps them.

use std::collections::HashMap;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::{Client, Config};
use redis::Connection;
use tidegate::{LONGEST_PAGE, LimitSet, PageOf, Select, Timestamp};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_core::{DecisionTime, DecodeError, Rule, Slots, Span};
use tidegate_store::bytes::{decode_record, decode_row, versioned};
use tidegate_store::ledger::LeaseStage;
use tokio::runtime::{Builder, Runtime};

use crate::SLOTS;

type Item = HashMap<String, AttributeValue>;

/// The slots of the hot key at one instant.
pub struct Snapshot {
    /// Of each lease that is held: its fence, and how many slots it has.
    pub held: Vec<(u64, u64)>,
    /// How many the row does not count as held.
    pub free: u64,
}

/// How many the row counts, and behind it fence and slots of each lease. (Stage 0 is of
/// leases that are held; a row without holders may be gone, a state without any be 0. A row
/// of so few limits that begins with 193 has its numbers in their places.)
const OF_REDIS: &str = "
local row, total = redis.call('GET', '{tidegate:slots:hot}:r'), 0
if row and string.byte(row) == 193 then
  total = struct.unpack('<d', row, 28)
elseif row then
  local state = select(3, cmsgpack.unpack(row))[1]
  total = type(state) == 'table' and state[2] or 0
end
local told = { total }
for _, field in ipairs(redis.call('HKEYS', '{tidegate:slots:hot}:b')) do
  if string.sub(field, 1, 1) == 'l' then
    local record = redis.call('HGET', '{tidegate:slots:hot}:b', field)
    local stage, _, fence, _, _, _, owner, key, shares, at =
      struct.unpack('<BdddddI4I4I4', record)
    if stage == 0 then
      table.insert(told, fence)
      table.insert(told, (select(2, struct.unpack('<I4d', record, at + owner))))
    end
  end
end
return told";

pub fn of_redis(connection: &mut Connection) -> Snapshot {
    let mut read = redis::cmd("EVAL");
    let told: Vec<u64> = read
        .arg(OF_REDIS)
        .arg(0)
        .query(connection)
        .expect("an answer");
    Snapshot::told(&told)
}

/// Of what one page lists.
pub fn of_a_list(slots: &LimitSet) -> Snapshot {
    let page = slots.list_leases(PageOf {
        select: Select::Key(b"hot"),
        after: None,
        most: LONGEST_PAGE,
    });
    let listed = page.wait().expect("a list").items;
    let held = listed.iter().map(|lease| {
        let taken = lease.taken.iter().map(|(_, amount)| *amount);
        (lease.fence.expect("of a slot"), taken.sum())
    });
    let held: Vec<(u64, u64)> = held.collect();
    let all: u64 = held.iter().map(|(_, slots)| *slots).sum();
    Snapshot {
        held,
        free: SLOTS.checked_sub(all).expect("no more than there are"),
    }
}

/// The same in one statement, which sees the tables at one instant.
const OF_POSTGRES: &str = "
WITH of AS (SELECT tab FROM tidegate.sets WHERE name = 'slots')
SELECT coalesce((SELECT (states[1]).n[1] FROM tidegate.rows JOIN of USING (tab)
    WHERE key = 'hot'), 0)
  || (SELECT coalesce(string_agg(' ' || fence || ' ' || shares[2], ''), '')
    FROM tidegate.leases JOIN of USING (tab) WHERE root = 'hot' AND stage = 0)";

pub fn of_postgres(server: &PostgresServer) -> Snapshot {
    let line = server.ask(OF_POSTGRES).concat();
    let told = line.split(' ').map(|word| word.parse().expect("a number"));
    Snapshot::told(&told.collect::<Vec<_>>())
}

/// The row and the leases as the contract writes them, in one statement.
const OF_MARIADB: &str = "
SELECT CONCAT('row ', HEX(body)) FROM tidegate_rows
  WHERE table_id = (SELECT id FROM tidegate_tables WHERE name = 'slots') AND name = 'hot'
UNION ALL SELECT CONCAT('lease ', HEX(body)) FROM tidegate_leases
  WHERE table_id = (SELECT id FROM tidegate_tables WHERE name = 'slots') AND root = 'hot'";

pub fn of_mariadb(server: &MariadbServer) -> Snapshot {
    let mut snapshot = Snapshot::told(&[0]);
    for line in server.ask(OF_MARIADB) {
        let (kind, digits) = line.split_once(' ').expect("two words");
        let body = bytes(digits);
        match kind {
            "row" => snapshot.free = free(&body),
            _ => snapshot.held.extend(held(&body)),
        }
    }
    snapshot
}

/// The items of the hot key, in a table of DynamoDB's.
pub struct Items {
    client: Client,
    runtime: Runtime,
}

impl Items {
    pub fn of(server: &DynamodbServer) -> Self {
        let http = aws_smithy_http_client::Builder::new().build_http();
        let anybody = Credentials::new("tidegate", "tidegate", None, None, "test");
        let config = Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .http_client(http)
            .region(Region::new("local"))
            .endpoint_url(server.endpoint())
            .credentials_provider(anybody);
        let runtime = Builder::new_current_thread().enable_all().build();
        Self {
            client: Client::from_conf(config.build()),
            runtime: runtime.expect("a runtime"),
        }
    }

    /// A query reads one item after the other, the root's row first; every change of any of
    /// them raises its version. So what was read is of one instant if the version still stands.
    pub fn snapshot(&mut self) -> Snapshot {
        let mut items = self.items();
        loop {
            let again = self.items();
            let version =
                |items: &[Item]| items.first().map(|row| bytes_of(row, "b")[..8].to_vec());
            if version(&items) == version(&again) {
                break;
            }
            items = again;
        }
        let mut snapshot = Snapshot::told(&[0]);
        for item in &items {
            match bytes_of(item, "sk") {
                // Behind the version and what else it says of the root.
                b"k" => snapshot.free = free(&bytes_of(item, "b")[33..]),
                sort if sort.first() == Some(&b'l') => {
                    snapshot.held.extend(held(bytes_of(item, "b")));
                }
                other => panic!("{other:?} is neither the row nor a lease"),
            }
        }
        snapshot
    }

    /// All of the root's partition, in order.
    fn items(&self) -> Vec<Item> {
        let query = self.client.query().table_name("tidegate");
        let query = query.consistent_read(true);
        let query = query.key_condition_expression("pk = :p");
        let root = AttributeValue::B(Blob::new(b"r\x00\x05slotshot"));
        let query = query.expression_attribute_values(":p", root);
        let found = self.runtime.block_on(query.send()).expect("an answer");
        assert!(found.last_evaluated_key.is_none(), "it is one page");
        found.items.unwrap_or_default()
    }
}

fn bytes_of<'i>(item: &'i Item, name: &str) -> &'i [u8] {
    let value = item.get(name).and_then(|value| value.as_b().ok());
    value.expect("bytes").as_ref()
}

/// By the core, before any has expired.
fn free(row: &[u8]) -> u64 {
    let slots = Slots::new(SLOTS, Span::SECOND).expect("sound slots");
    let row = decode_row(behind_its_head(row).expect("a head")).expect("a row");
    let standing = Rule::Slots(slots).standing(&row.states[0], &DecisionTime::at(Timestamp::MIN));
    standing.remaining
}

/// What a row of a root's has before its states: `store/src/optimistic/stored_row.rs`.
fn behind_its_head(row: &[u8]) -> Result<&[u8], DecodeError> {
    let mut row = versioned(row)?;
    row.instant()?;
    assert!(row.flag("root")?, "the key is its own root");
    row.u32()?;
    row.u64()?;
    row.instant()?;
    Ok(row.rest())
}

fn held(record: &[u8]) -> Option<(u64, u64)> {
    let record = decode_record(record).expect("a lease");
    let slots = record.shares.iter().map(|share| share.amount).sum();
    matches!(record.stage, LeaseStage::Live).then_some((record.granted.fence, slots))
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    let byte = |pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(|pair| byte(pair).expect("two digits")).collect()
}

impl Snapshot {
    fn told(numbers: &[u64]) -> Self {
        let (counted, leases) = numbers.split_first().expect("what the row counts");
        let leases = leases.chunks_exact(2).map(|lease| (lease[0], lease[1]));
        Self {
            held: leases.collect(),
            free: SLOTS.checked_sub(*counted).expect("no more than there are"),
        }
    }

    /// Held and free are all there are; answers how many are held.
    pub fn conserves(&self) -> u64 {
        let held = self.held.iter().map(|(_, slots)| slots).sum();
        let (free, all) = (self.free, SLOTS);
        assert_eq!(held + free, all, "{held} held by leases, {free} free");
        held
    }
}
