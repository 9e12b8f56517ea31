//! A load and a swap, as the loop wants them, on one connection.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Row, Statement, Value};
use tidegate_store::core::Timestamp;
use tidegate_store::optimistic::{
    LeaseWrite, LoadReply, LoadRequest, RowWrite, StoredLease, UsageWrite, WriteSet,
};
use tidegate_store::usage::MOST_USED;

use crate::error::{Trouble, garbled, made_anew};
use crate::names;
use crate::sql::{LoadShape, Place, SwapShape};
use crate::turns::Ahead;

/// Rows and leases are dealt with so many at a time, where there are many.
const CHUNK: usize = 32;

/// So many records of usage are written with the root's row; more of them go before it.
const MOST_USED_AT_ONCE: usize = 8;

/// Instants until which a row is kept are rounded up to this grid (67 seconds), so
/// that the index of a busy row is written once a minute and not at every turn.
const GRID: i64 = 1 << 26;

/// The first load of an attempt.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) found: LoadReply,
    /// The names of rows for which others wait, who came before.
    pub(crate) kept_at: Vec<Vec<u8>>,
    /// Since when the request stands in line itself.
    pub(crate) stands_since: Option<i64>,
}

/// Loads what is wanted of `root`. The first load of an attempt begins its
/// transaction and locks the root's row, if it is there; it looks for those who are
/// `ahead`, if that is asked for, and waits for a lock no longer than for `patience`.
pub(crate) async fn load(
    conn: &mut Conn,
    place: Place<'_>,
    root: &[u8],
    wanted: &LoadRequest,
    ((first, ahead), patience): ((bool, Option<Ahead>), Duration),
) -> Result<Loaded, Trouble> {
    let shape = LoadShape::of(wanted, first, ahead.is_some());
    let statement = conn.prep(shape.text(place.prefix, patience)).await?;
    let parameters = load_parameters(place, root, wanted, (first, ahead));
    let parameters = Params::Positional(parameters);
    let sets = query(conn, statement, parameters).await;
    read(sets.map_err(Trouble::of_a_lock)?, shape, wanted)
}

async fn query(
    conn: &mut Conn,
    statement: Statement,
    parameters: Params,
) -> Result<Vec<Vec<Row>>, mysql_async::Error> {
    let mut sets = Vec::new();
    let mut result = conn.exec_iter(statement, parameters).await?;
    while !result.is_empty() {
        sets.push(result.collect::<Row>().await?);
    }
    result.drop_result().await?;
    Ok(sets)
}

fn load_parameters(
    place: Place<'_>,
    root: &[u8],
    wanted: &LoadRequest,
    (first, ahead): (bool, Option<Ahead>),
) -> Vec<Value> {
    let (table, name) = (Value::from(place.table), Value::from(names::name(root)));
    let mut all = Vec::new();
    let others = usize::from(first);
    if first {
        all.extend([table.clone(), name.clone()]);
    }
    if wanted.rows.len() > others {
        all.push(table.clone());
        let names = wanted.rows[others..].iter();
        all.extend(names.map(|key| Value::from(names::name(key))));
    }
    let lease = [table, name];
    if !wanted.ids.is_empty() {
        all.extend(lease.clone());
        let ids = wanted.ids.iter();
        all.extend(ids.map(|id| Value::from(id.to_be_bytes().to_vec())));
    }
    if let Some(key) = &wanted.idempotency_key {
        all.extend(lease.clone());
        all.push(Value::from(names::idempotency(key)));
    }
    if wanted.all_leases {
        all.extend(lease.clone());
    }
    if let Some(due) = wanted.due {
        all.extend(lease.clone());
        if let Some((at, turn)) = due.after {
            all.extend([at.as_micros().into(), at.as_micros().into(), turn.into()]);
        }
        all.push(Value::from(due.most as u64));
    }
    if let Some(ahead) = ahead {
        all.extend([place.table.into(), ahead.turn(), place.table.into()]);
        let names = wanted.rows.iter();
        all.extend(names.map(|key| Value::from(names::name(key))));
        all.extend([ahead.less(), ahead.turn()]);
    }
    if first {
        all.extend(lease);
        all.push(place.table.into());
    }
    all
}

fn read(
    mut sets: Vec<Vec<Row>>,
    shape: LoadShape,
    wanted: &LoadRequest,
) -> Result<Loaded, Trouble> {
    let mut found = LoadReply::default();
    let mut kept_at = Vec::new();
    let mut stands_since = None;
    let mut may_have_leases = true;
    if shape.first {
        let last = sets.pop().and_then(|mut set| set.pop());
        let root = last.ok_or_else(|| garbled("no root"))?;
        found.rows.push(value(&root, 0)?);
        may_have_leases = value(&root, 1)?;
        found.now = Timestamp::from_micros(value(&root, 2)?);
        stands_since = value(&root, 4)?;
        if !value(&root, 5)? {
            return Err(made_anew());
        }
        if value(&root, 3)? {
            // It was made while the rest was read.
            return Err(Trouble::Lost("another made the root's row".to_owned()));
        }
    }
    if shape.line {
        for row in sets.pop().ok_or_else(|| garbled("no line"))? {
            kept_at.push(value(&row, 0)?);
        }
    }
    let mut sets = sets.into_iter();
    let mut next = || sets.next().ok_or_else(|| garbled("too few results"));
    let others = &wanted.rows[usize::from(shape.first)..];
    let mut rows: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    if !others.is_empty() {
        for row in next()? {
            rows.push((value(&row, 0)?, value(&row, 1)?));
        }
    }
    for key in others {
        let name = names::name(key);
        let row = rows.iter().find(|(known, _)| *known == name);
        found.rows.push(row.map(|(_, body)| body.clone()));
    }
    if !may_have_leases {
        return Ok(Loaded {
            found,
            kept_at,
            stands_since,
        });
    }
    for wanted in [shape.ids > 0, shape.idempotency, shape.all] {
        if wanted {
            leases(next()?, &mut found.leases)?;
        }
    }
    if shape.due.is_some() {
        leases(next()?, &mut found.due)?;
    }
    Ok(Loaded {
        found,
        kept_at,
        stands_since,
    })
}

fn leases(rows: Vec<Row>, into: &mut Vec<StoredLease>) -> Result<(), Trouble> {
    for row in rows {
        into.push(StoredLease {
            sequence: value(&row, 0)?,
            bytes: value(&row, 1)?,
        });
    }
    Ok(())
}

fn value<T: mysql_async::prelude::FromValue>(row: &Row, column: usize) -> Result<T, Trouble> {
    let value = row.get_opt(column).and_then(Result::ok);
    value.ok_or_else(|| garbled("a value"))
}

/// Writes all of `swap` and commits.
pub(crate) async fn swap(
    conn: &mut Conn,
    place: Place<'_>,
    write_set: WriteSet,
) -> Result<(), Trouble> {
    let WriteSet {
        root,
        root_was_there,
        rows,
        leases,
        usage,
        may_have_leases,
        ..
    } = write_set;
    let mut batch = Batch::new(place, names::name(&root));
    let mut rows = rows.into_iter();
    let first = rows
        .next()
        .ok_or_else(|| garbled("a write without its root"))?;
    for row in rows {
        batch.row(row);
    }
    for lease in leases {
        batch.lease(lease);
    }
    for used in usage {
        batch.used(used);
    }
    batch.write_most(conn).await?;
    let root = batch.row_values(first, may_have_leases);
    batch.finish(conn, (root, root_was_there)).await
}

/// What is to be written, by kind: each with its parameters.
struct Batch<'a> {
    place: Place<'a>,
    root: Vec<u8>,
    rows_put: Vec<Vec<Value>>,
    rows_deleted: Vec<Vec<Value>>,
    leases_put: Vec<Vec<Value>>,
    leases_deleted: Vec<Vec<Value>>,
    usage: Vec<Vec<Value>>,
}

impl<'a> Batch<'a> {
    const fn new(place: Place<'a>, root: Vec<u8>) -> Self {
        Self {
            place,
            root,
            rows_put: Vec::new(),
            rows_deleted: Vec::new(),
            leases_put: Vec::new(),
            leases_deleted: Vec::new(),
            usage: Vec::new(),
        }
    }

    fn row(&mut self, row: RowWrite) {
        match row.bytes {
            Some(_) => self.rows_put.push(self.row_values(row, false)),
            None => self.rows_deleted.push(vec![names::name(&row.key).into()]),
        }
    }

    fn row_values(&self, row: RowWrite, may_have_leases: bool) -> Vec<Value> {
        vec![
            self.place.table.into(),
            names::name(&row.key).into(),
            names::whole(&row.key).into(),
            row.forget_at.as_micros().into(),
            rounded_up(row.keep_until).into(),
            may_have_leases.into(),
            row.bytes.unwrap_or_default().into(),
        ]
    }

    fn lease(&mut self, lease: LeaseWrite) {
        let id = Value::from(lease.id.to_be_bytes().to_vec());
        let Some(kept) = lease.kept else {
            self.leases_deleted.push(vec![id]);
            return;
        };
        self.leases_put.push(vec![
            self.place.table.into(),
            self.root.clone().into(),
            id,
            kept.owner.into_vec().into(),
            kept.due.as_micros().into(),
            kept.sequence.into(),
            kept.idempotency_key
                .map(|key| names::idempotency(&key))
                .into(),
            kept.bytes.into(),
        ]);
    }

    fn used(&mut self, used: UsageWrite) {
        let [less, more] = [used.sum.less, used.sum.more].map(|part| part.min(MOST_USED));
        self.usage.push(vec![
            self.place.table.into(),
            names::name(&used.key).into(),
            used.hour.number().into(),
            names::name(used.limit.as_bytes()).into(),
            names::whole(&used.key).into(),
            names::whole(used.limit.as_bytes()).into(),
            more.into(),
            used.over_at.as_micros().into(),
            less.into(),
            more.into(),
        ]);
    }

    /// Where there are many leases or rows to delete, all but the last of each, so
    /// that what is left has one of few shapes.
    async fn write_most(&mut self, conn: &mut Conn) -> Result<(), Trouble> {
        while self.leases_put.len() > 1 {
            let some = chunk(&mut self.leases_put);
            let shape = SwapShape {
                leases_put: some.len(),
                ..SwapShape::default()
            };
            self.execute(conn, shape, some.concat()).await?;
        }
        while self.leases_deleted.len() > 1 {
            let some = chunk(&mut self.leases_deleted);
            let shape = SwapShape {
                leases_deleted: some.len(),
                ..SwapShape::default()
            };
            let mut parameters = self.lease_place();
            parameters.extend(some.concat());
            self.execute(conn, shape, parameters).await?;
        }
        while self.rows_put.len() > 7 {
            let some = chunk(&mut self.rows_put);
            let shape = SwapShape {
                rows_put: some.len(),
                ..SwapShape::default()
            };
            self.execute(conn, shape, some.concat()).await?;
        }
        while self.usage.len() > MOST_USED_AT_ONCE {
            let some = chunk(&mut self.usage);
            let shape = SwapShape {
                usage: some.len(),
                ..SwapShape::default()
            };
            self.execute(conn, shape, some.concat()).await?;
        }
        Ok(())
    }

    /// The root's row and what is left, and the commit.
    async fn finish(
        self,
        conn: &mut Conn,
        (root, was_there): (Vec<Value>, bool),
    ) -> Result<(), Trouble> {
        let shape = SwapShape {
            root: Some(!was_there),
            rows_put: self.rows_put.len(),
            rows_deleted: self.rows_deleted.len(),
            leases_put: self.leases_put.len(),
            leases_deleted: self.leases_deleted.len(),
            usage: self.usage.len(),
            commits: true,
        };
        let mut parameters = root;
        if was_there {
            // Table, name and whole key are what is looked for.
            parameters.remove(2);
            parameters.rotate_left(2);
        }
        parameters.extend(self.rows_put.concat());
        if !self.rows_deleted.is_empty() {
            parameters.push(self.place.table.into());
            parameters.extend(self.rows_deleted.concat());
        }
        parameters.extend(self.leases_put.concat());
        if !self.leases_deleted.is_empty() {
            parameters.extend(self.lease_place());
            parameters.extend(self.leases_deleted.concat());
        }
        parameters.extend(self.usage.concat());
        self.execute(conn, shape, parameters).await
    }

    fn lease_place(&self) -> Vec<Value> {
        vec![self.place.table.into(), self.root.clone().into()]
    }

    async fn execute(
        &self,
        conn: &mut Conn,
        shape: SwapShape,
        parameters: Vec<Value>,
    ) -> Result<(), Trouble> {
        let statement = conn.prep(shape.text(self.place.prefix)).await?;
        let parameters = Params::Positional(parameters);
        Ok(conn.exec_drop(statement, parameters).await?)
    }
}

/// The first of them, in a number that is a power of two, so that there are few
/// shapes; at least one stays.
fn chunk(all: &mut Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let most = (all.len() - 1).min(CHUNK);
    all.drain(..1 << most.ilog2()).collect()
}

fn rounded_up(until: Timestamp) -> i64 {
    let until = until.as_micros();
    match until.checked_add(GRID - 1) {
        Some(beyond) => beyond - beyond.rem_euclid(GRID),
        None => until,
    }
}
