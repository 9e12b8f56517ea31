//! The statements. Each load and each swap is one of them, so that it is one round
//! trip: MariaDB prepares compound statements.

use std::time::Duration;

use tidegate_store::optimistic::LoadRequest;
use tidegate_store::usage::MOST_USED;

/// A table of limits, as SQL knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// What the names of all SQL tables begin with.
    pub(crate) prefix: &'a str,
    /// The table's number.
    pub(crate) table: u32,
}

/// The server's clock now (not when the statement began), in microseconds since
/// 1970; the session's time zone is UTC.
pub(crate) const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))";

/// The server's clock when the statement began: one instant for all rows that are
/// compared with it, and so a range of an index. ([`NOW`] is looked at anew for
/// each, and an index is no help.)
pub(crate) const AT_START: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// In seconds: no longer than the server takes it.
const LONGEST_WAIT: f64 = 31_536_000.0;

/// What a load is made of; loads of one shape are one prepared statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoadShape {
    /// It begins the transaction, and locks the root's row, the first.
    pub(crate) first: bool,
    pub(crate) rows: usize,
    pub(crate) ids: usize,
    pub(crate) idempotency: bool,
    /// Those due first; whether from the beginning.
    pub(crate) due: Option<bool>,
    pub(crate) all: bool,
    /// Those are looked for who stand in line before it.
    pub(crate) line: bool,
}

impl LoadShape {
    pub(crate) fn of(wanted: &LoadRequest, first: bool, line: bool) -> Self {
        Self {
            first,
            rows: wanted.rows.len(),
            ids: wanted.ids.len(),
            idempotency: wanted.idempotency_key.is_some(),
            due: wanted.due.map(|due| due.after.is_none()),
            all: wanted.all_leases,
            line,
        }
    }

    /// The statement. Its parameters, in order: for the root table and name; for
    /// other rows the table and their names; for leases table and root, then ids,
    /// the idempotency key, the place to go on from (due, due, turn) and how many;
    /// for those in line the table, the request's own place, the table, the names of all
    /// rows, how much earlier the request counts, and its own place; last, in a first load,
    /// the root's table and name again, and the table once more.
    ///
    /// Result sets: names and bodies of other rows, if any; turns and bodies of
    /// leases for each kind of question, unless the root's row says that it has
    /// none; names of rows for which others wait; and in a first load the root's body,
    /// whether it may have leases, the clock, whether a row that was not there is by now,
    /// since when the request stands in line itself, and whether the table is there (looked for
    /// where the row is not).
    ///
    /// (A variable hides a column of its name: none of these is one.)
    ///
    /// The first load alone waits for a lock, and no longer than for `patience`: the server
    /// ends it then, where its own wait for a lock counts in whole seconds.
    pub(crate) fn text(self, p: &str, patience: Duration) -> String {
        let mut text = String::new();
        if self.first {
            let seconds = patience.as_secs_f64().clamp(0.001, LONGEST_WAIT);
            text += &format!("SET STATEMENT max_statement_time = {seconds:.3} FOR ");
        }
        text += "BEGIN NOT ATOMIC ";
        if self.first {
            text += "DECLARE its_body MEDIUMBLOB; DECLARE may_have BOOL DEFAULT TRUE; \
                     DECLARE its_coming BIGINT; START TRANSACTION; ";
            text += &format!(
                "SELECT body, leases INTO its_body, may_have FROM {p}_rows \
                 WHERE table_id = ? AND name = ? FOR UPDATE; "
            );
        }
        let others = self.rows - usize::from(self.first);
        if others > 0 {
            let names = marks(others);
            text += &format!(
                "SELECT name, body FROM {p}_rows WHERE table_id = ? AND name IN ({names}); "
            );
        }
        text += &match self.first {
            true => format!("IF may_have THEN {}END IF; ", self.leases(p)),
            false => self.leases(p),
        };
        if self.line {
            let names = marks(self.rows);
            text += &format!(
                "SELECT MIN(came) INTO its_coming FROM {p}_turns \
                 WHERE table_id = ? AND turn = ?; \
                 SELECT DISTINCT name FROM {p}_turns \
                 WHERE table_id = ? AND name IN ({names}) AND until > {AT_START} \
                 AND (came < COALESCE(its_coming, {NOW} - ?) \
                 OR (came = its_coming AND turn < ?)); "
            );
        }
        if self.first {
            let clock = |is_there: &str, has_table: &str| {
                format!("SELECT its_body, may_have, {NOW}, {is_there}, its_coming, {has_table}; ")
            };
            let row = format!("EXISTS (SELECT * FROM {p}_rows WHERE table_id = ? AND name = ?)");
            let table = format!("EXISTS (SELECT * FROM {p}_tables WHERE id = ?)");
            text += &format!(
                "IF its_body IS NULL THEN {}ELSE {}END IF; ",
                clock(&row, &table),
                clock("0", "1")
            );
        }
        text + "END"
    }

    fn leases(self, p: &str) -> String {
        let lease = format!("SELECT turn, body FROM {p}_leases WHERE table_id = ? AND root = ?");
        let mut text = String::new();
        if self.ids > 0 {
            text += &format!("{lease} AND id IN ({}); ", marks(self.ids));
        }
        if self.idempotency {
            text += &format!("{lease} AND ask = ?; ");
        }
        if self.all {
            text += &format!("{lease}; ");
        }
        match self.due {
            Some(true) => text += &format!("{lease} ORDER BY due, turn LIMIT ?; "),
            Some(false) => {
                text += &format!(
                    "{lease} AND due >= ? AND (due > ? OR turn > ?) ORDER BY due, turn LIMIT ?; "
                );
            }
            None => {}
        }
        text
    }
}

/// What a swap is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SwapShape {
    /// What becomes of the root's row: made, or written again.
    pub(crate) root: Option<bool>,
    pub(crate) rows_put: usize,
    pub(crate) rows_deleted: usize,
    pub(crate) leases_put: usize,
    pub(crate) leases_deleted: usize,
    pub(crate) usage: usize,
    pub(crate) commits: bool,
}

impl SwapShape {
    /// The statement. Its parameters, in order: of each row that is put table,
    /// name, whole key, forget_at, keep_until, leases, body (the root's, if it is
    /// written again: forget_at, keep_until, leases, body, table, name); table and names of those
    /// deleted; of each lease table, root, id, owner, due, turn, ask, body; table,
    /// root and ids of those deleted; of each record of usage table, name, hour, name of the
    /// limit, both wholes, how much more was used, over_at, how much less, and how much more once again.
    pub(crate) fn text(self, p: &str) -> String {
        let mut text = "BEGIN NOT ATOMIC ".to_owned();
        let put = format!(
            "INSERT INTO {p}_rows (table_id, name, whole, forget_at, keep_until, leases, body) VALUES "
        );
        match self.root {
            // Made by another meanwhile: the error says that the swap is lost.
            Some(true) => text += &format!("{put} (?, ?, ?, ?, ?, ?, ?); "),
            Some(false) => {
                text += &format!(
                    "UPDATE {p}_rows SET forget_at = ?, keep_until = ?, leases = ?, body = ? \
                     WHERE table_id = ? AND name = ?; "
                );
            }
            None => {}
        }
        if self.rows_put > 0 {
            let values = vec!["(?, ?, ?, ?, ?, ?, ?)"; self.rows_put].join(", ");
            text += &format!(
                "{put} {values} ON DUPLICATE KEY UPDATE forget_at = VALUES(forget_at), \
                 keep_until = VALUES(keep_until), body = VALUES(body); "
            );
        }
        if self.rows_deleted > 0 {
            let names = marks(self.rows_deleted);
            text += &format!("DELETE FROM {p}_rows WHERE table_id = ? AND name IN ({names}); ");
        }
        if self.leases_put > 0 {
            let values = vec!["(?, ?, ?, ?, ?, ?, ?, ?)"; self.leases_put].join(", ");
            text += &format!(
                "INSERT INTO {p}_leases (table_id, root, id, owner, due, turn, ask, body) \
                 VALUES {values} ON DUPLICATE KEY UPDATE due = VALUES(due), \
                 turn = VALUES(turn), ask = VALUES(ask), body = VALUES(body); "
            );
        }
        if self.leases_deleted > 0 {
            let ids = marks(self.leases_deleted);
            text += &format!(
                "DELETE FROM {p}_leases WHERE table_id = ? AND root = ? AND id IN ({ids}); "
            );
        }
        for _ in 0..self.usage {
            text += &format!(
                "INSERT INTO {p}_usage (table_id, name, hour, limit_name, whole, whole_limit, \
                 amount, over_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) \
                 ON DUPLICATE KEY UPDATE over_at = VALUES(over_at), \
                 amount = LEAST(GREATEST(CAST(amount AS DECIMAL(20)) - ?, 0) + ?, {MOST_USED}); "
            );
        }
        if self.commits {
            text += "COMMIT; ";
        }
        text + "END"
    }
}

/// So many parameters.
pub(crate) fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}
