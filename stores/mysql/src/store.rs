//! The store: connections to one server, tables by name.

use std::sync::Arc;

use tidegate_contract::{Abilities, Definition, Plan, Store, StoreError, Table};
use tidegate_swap::Clock;

use crate::error::{MysqlError, Trouble};
use crate::link::Link;
use crate::options::Options;
use crate::pool::Pool;
use crate::table::{MysqlTable, Shared};
use crate::trips::Place;
use crate::{definitions, registry, schema};

/// The longest name of a table, in bytes.
const LONGEST_NAME: usize = 512;

/// State in a MariaDB server, shared by all who use the same database and prefix.
/// See the [crate].
#[derive(Debug)]
pub struct MysqlStore {
    shared: Arc<Shared>,
}

impl MysqlStore {
    /// The store at `address`: `mysql://[user[:password]@]host[:port]/database` (or
    /// `mariadb://`). The server is asked once, and SQL tables are made where there
    /// are none, so that what is wrong is told at once.
    ///
    /// # Errors
    /// [`MysqlError`]; a password is in none of its messages.
    pub fn open(address: &str, options: Options) -> Result<Self, MysqlError> {
        options.check().map_err(MysqlError::Option)?;
        let shared = Arc::new(Shared {
            link: Link::new(options.deadline)?,
            pool: Pool::new(address, options.connections, options.deadline)?,
            clock: options.clock,
            prefix: options.prefix,
        });
        let asked = Arc::clone(&shared);
        let provide = async move {
            let mut lent = asked.pool.lend().await.map_err(Trouble::told)?;
            let provided = schema::provide(&mut lent.conn, &asked.prefix).await;
            provided.map_err(Trouble::told)?;
            lent.put_back();
            Ok(())
        };
        let provided = shared.link.block_on(provide);
        provided.map_err(|error| MysqlError::Server(error.to_string()))?;
        Ok(Self { shared })
    }

    /// The number of the table called `name`, and the plan that was adopted last
    /// by anyone, if there is any; the table is made if `makes` says so.
    fn find(&self, name: &str, makes: bool) -> Result<Option<(u32, Option<Plan>)>, StoreError> {
        if name.len() > LONGEST_NAME {
            return Err(StoreError::Unavailable(format!(
                "the name of the set has {} bytes; MariaDB takes {LONGEST_NAME}",
                name.len()
            )));
        }
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        self.shared.link.block_on(async move {
            let mut pace = crate::pace::Pace::default();
            loop {
                match find(&shared, &name, makes).await {
                    Ok(found) => return Ok(found),
                    Err(trouble) => pace.after(trouble).await?,
                }
            }
        })
    }
}

async fn find(
    shared: &Shared,
    name: &str,
    makes: bool,
) -> Result<Option<(u32, Option<Plan>)>, Trouble> {
    let mut lent = shared.pool.lend().await?;
    let prefix = shared.prefix.as_str();
    let table = match makes {
        true => registry::number(&mut lent.conn, prefix, name)
            .await
            .map(Some),
        false => registry::find(&mut lent.conn, prefix, name).await,
    };
    let table = table.inspect_err(|trouble| shared.pool.forget_if_gone(trouble))?;
    let found = match table {
        None => None,
        Some(table) => {
            let place = Place { prefix, table };
            Some((table, registry::newest(&mut lent.conn, place).await?))
        }
    };
    lent.put_back();
    Ok(found)
}

impl Store for MysqlStore {
    /// What survives is up to the server; see the [crate].
    fn abilities(&self) -> Abilities {
        Abilities {
            durable: true,
            shared: true,
            own_clock: self.shared.clock == Clock::Server,
        }
    }

    fn last_plan(&self, name: &str) -> Option<Arc<Plan>> {
        let (_, plan) = self.find(name, false).ok().flatten()?;
        plan.map(Arc::new)
    }

    fn definitions(&self, owner: &str) -> Result<Vec<Definition>, StoreError> {
        let (shared, owner) = (Arc::clone(&self.shared), owner.to_owned());
        let read = async move {
            definitions::read(&shared, &owner)
                .await
                .map_err(Trouble::told)
        };
        self.shared.link.block_on(read)
    }

    fn define(&self, owner: &str, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        let (shared, owner) = (Arc::clone(&self.shared), owner.to_owned());
        let (key, value) = (key.to_vec(), value.map(<[u8]>::to_vec));
        self.shared.link.block_on(async move {
            let changed = definitions::change(&shared, &owner, &key, value.as_deref()).await;
            changed.map_err(Trouble::told)
        })
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let found = self.find(name, true)?;
        let (number, kept) = found.unwrap_or_default();
        match kept.map(|kept| kept.levels()) {
            Some(kept) if kept != plan.levels() => Err(StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                asked: plan.levels(),
            }),
            _ => Ok(Arc::new(MysqlTable::new(Arc::clone(&self.shared), number))),
        }
    }
}
