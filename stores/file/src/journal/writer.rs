//! The thread: collects, commits, opens the file again after an error.

use std::sync::Arc;

use redb::Database;

use super::group::{self, Gathered, Taken};
use super::progress::Turn;
use super::shared::Shared;
use crate::disk::Disk;
use crate::error::{Fault, FileError};
use crate::open::reopen;

/// Tells who waits that the thread has ended, also if it panicked: what it had
/// taken out of the tables then is lost, so it must not go on as if nothing
/// were.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.progress.end();
    }
}

/// Owns the database; nobody else writes.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// `None` after an error: redb goes on only once it is opened again.
    database: Option<Database>,
    disk: Disk,
    gathered: Gathered,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, database: Database, disk: Disk) -> Self {
        Self {
            shared,
            database: Some(database),
            disk,
            gathered: Gathered::default(),
        }
    }

    pub(super) fn run(mut self) {
        let _end = End(Arc::clone(&self.shared));
        loop {
            match self.shared.progress.next_turn() {
                Turn::Write => self.write(),
                Turn::Compact(answer) => {
                    let compacted = self
                        .compact()
                        .map_err(|f| FileError::Journal(f.to_string()));
                    // Who asked may have gone.
                    let _ = answer.send(compacted);
                }
                Turn::Close => return self.write(),
            }
        }
    }

    /// Writes a group, and tells who waits.
    fn write(&mut self) {
        let group = self.shared.progress.begin();
        let mut taken = Vec::new();
        match self.commit(&mut taken) {
            Ok(()) => {
                taken.into_iter().for_each(Taken::settle);
                self.shared.progress.succeed(group);
            }
            Err(fault) => {
                taken.into_iter().for_each(Taken::give_back);
                self.database = None;
                self.shared.progress.fail(group, fault.to_string());
            }
        }
    }

    fn commit(&mut self, taken: &mut Vec<Taken>) -> Result<(), Fault> {
        let reserve = self.shared.progress.fence_reserve();
        let tables = self.shared.tables.lock().clone();
        let touched: Vec<_> = tables.iter().filter(|t| t.take_touched()).collect();
        let definitions = self.shared.definitions.lock().clone();
        let mut forgotten = self.shared.forgotten.lock().clone();
        let is_idle = touched.is_empty() && definitions.is_empty() && forgotten.is_empty();
        if is_idle && self.database.is_some() {
            return Ok(());
        }
        let result = self
            .database()
            .and_then(|database| Ok(database.begin_write()?));
        let transaction = result.inspect_err(|_| touched.iter().for_each(|t| t.touch()))?;
        let mut wrote = !definitions.is_empty() || !forgotten.is_empty();
        let defined = group::define(&transaction, &definitions);
        defined.inspect_err(|_| touched.iter().for_each(|t| t.touch()))?;
        for (nth, tracked) in touched.iter().enumerate() {
            let written = group::write(&transaction, tracked, reserve, taken, &mut self.gathered);
            wrote |= written.inspect_err(|_| touched[nth..].iter().for_each(|t| t.touch()))?;
        }
        // After the rows of a group that began before the table was forgotten.
        let deleted = group::delete(&transaction, &mut forgotten);
        deleted.inspect_err(|_| touched.iter().for_each(|t| t.touch()))?;
        match wrote {
            true => transaction.commit()?,
            false => transaction.abort()?,
        }
        let mut waiting = self.shared.definitions.lock();
        waiting.retain(|change| !definitions.contains(change));
        let mut waiting = self.shared.forgotten.lock();
        waiting.retain(|id| !forgotten.contains(id));
        if !waiting.is_empty() {
            self.shared.progress.want();
        }
        Ok(())
    }

    fn compact(&mut self) -> Result<bool, Fault> {
        let before = self.disk.length()?;
        let compacted = self.database()?.compact();
        if compacted.is_err() {
            self.database = None;
        }
        compacted?;
        Ok(self.disk.length()? < before)
    }

    /// The database, opened again if it failed.
    fn database(&mut self) -> Result<&mut Database, Fault> {
        if self.database.is_none() {
            self.database = Some(reopen(&self.disk)?);
        }
        Ok(self.database.as_mut().expect("it was just opened"))
    }
}
