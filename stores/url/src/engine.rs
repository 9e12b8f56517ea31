//! The engines, each opened by its own crate.

#[cfg(feature = "file")]
use std::path::Path;
#[cfg(any(feature = "file", all(feature = "shm", target_os = "linux")))]
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_memory::MemoryStore;

use crate::error::UrlError;
use crate::opened::Opened;
use crate::options::Options;

/// What opens a store whose URL makes sense.
pub type Opener = Box<dyn FnOnce() -> Result<Opened, UrlError>>;

pub fn memory(address: &str, said: &Options) -> Result<Opener, UrlError> {
    no_others(address, "a memory store has no options")?;
    said.done("memory")?;
    Ok(Box::new(|| {
        Ok(Opened::without_file(Arc::new(MemoryStore::default())))
    }))
}

/// That nothing stands behind the `?` that the engine would pass over.
fn no_others(address: &str, known: &str) -> Result<(), UrlError> {
    match behind_mark(address) {
        Some(rest) => {
            let name = rest.split(['=', '&']).next().unwrap_or_default();
            Err(UrlError::option(name, known))
        }
        None => Ok(()),
    }
}

/// What is left behind the `?` when our options are taken from there.
fn behind_mark(address: &str) -> Option<&str> {
    let after_password = address.rfind('@').map_or(0, |at| at + 1);
    let (_, rest) = address[after_password..].split_once('?')?;
    Some(rest)
}

/// That what stands behind the `?` is one of `theirs`, the engine's own options: the engine
/// says only that it takes the address not.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn theirs_alone(
    address: &str,
    theirs: &[&str],
    (engine, ours): (&str, &str),
) -> Result<(), UrlError> {
    let pairs = behind_mark(address).unwrap_or_default().split('&');
    // What follows a password may be a part of it, and is not repeated.
    let mut pairs = pairs.take_while(|pair| !pair.starts_with("password="));
    let unknown = pairs.find_map(|pair| {
        let (name, _) = pair.split_once('=')?;
        (!theirs.contains(&name)).then_some(name)
    });
    let Some(name) = unknown else {
        return Ok(());
    };
    let theirs: Vec<_> = theirs.iter().map(|name| format!("`{name}`")).collect();
    let theirs = theirs.join(", ");
    let why = format!("a {engine} store knows {ours}; and of the server's own {theirs}");
    Err(UrlError::option(name, why))
}

#[cfg(feature = "file")]
pub fn file(address: &str, said: &mut Options) -> Result<Opener, UrlError> {
    use tidegate_file::{FileStore, Options as FileOptions, SyncMode};

    no_others(address, "a file store knows `sync` alone")?;
    let path = address.trim_start_matches("file:");
    let options = FileOptions {
        sync: said.parse::<SyncMode>("sync")?.unwrap_or_default(),
        ..FileOptions::default()
    };
    said.done("file")?;
    let path = PathBuf::from(path);
    Ok(Box::new(move || {
        has_folder(&path)?;
        let file = Arc::new(FileStore::open(&path, options).map_err(UrlError::store)?);
        Ok(Opened {
            file: Some(Arc::clone(&file)),
            ..Opened::without_file(file)
        })
    }))
}

/// That the file could be made: its folder is there.
#[cfg(feature = "file")]
fn has_folder(path: &Path) -> Result<(), UrlError> {
    match path.parent() {
        Some(folder) if folder != Path::new("") && !folder.is_dir() => {
            let (path, folder) = (path.display(), folder.display());
            Err(UrlError::Store(format!(
                "{path}: the folder {folder} is not there; make it (mkdir -p {folder}), or name another file"
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(all(feature = "shm", target_os = "linux"))]
pub fn shm(address: &str, said: &mut Options) -> Result<Opener, UrlError> {
    use tidegate_shm::{Options as ShmOptions, ShmStore};

    no_others(
        address,
        "a store in shared memory knows `deadline`, `dir`, `leases` and `size` alone",
    )?;
    let name = address.trim_start_matches("shm:").to_owned();
    let usual = ShmOptions::default();
    let mebibytes = said.mebibytes("size", 4..=1 << 20)?;
    let options = ShmOptions {
        dir: said.take("dir").map_or(Ok(usual.dir), directory)?,
        size: mebibytes.map_or(usual.size, |said| said << 20),
        deadline: said.span("deadline")?.unwrap_or(usual.deadline),
        leases_end_with_process: said
            .word("leases", &[("ttl", false), ("process", true)])?
            .unwrap_or(usual.leases_end_with_process),
        clock: usual.clock,
    };
    said.done("shared-memory")?;
    Ok(Box::new(move || {
        if !options.dir.is_dir() {
            let dir = options.dir.display();
            return Err(UrlError::Store(format!(
                "the directory {dir} of the store in shared memory is not there; make it (mkdir -p {dir}), or leave `dir` out for /dev/shm"
            )));
        }
        let store = ShmStore::open(&name, options).map_err(UrlError::store)?;
        Ok(Opened::without_file(Arc::new(store)))
    }))
}

/// A directory that is the same to every process, wherever it was started.
#[cfg(all(feature = "shm", target_os = "linux"))]
fn directory(said: String) -> Result<PathBuf, UrlError> {
    match PathBuf::from(said) {
        path if path.is_absolute() => Ok(path),
        path => {
            let why = format!(
                "write a whole path, as dir=/dev/shm, or leave it out for that; `{}` is none",
                path.display()
            );
            Err(UrlError::option("dir", why))
        }
    }
}

#[cfg(feature = "redis")]
pub fn redis(address: &str, said: &mut Options) -> Result<Opener, UrlError> {
    use tidegate_redis::{Options as RedisOptions, RedisStore};

    no_others(address, "a Redis store knows `deadline` and `prefix` alone")?;
    let usual = RedisOptions::default();
    let options = RedisOptions {
        prefix: said.take("prefix").unwrap_or(usual.prefix),
        deadline: said.span("deadline")?.unwrap_or(usual.deadline),
        ..RedisOptions::default()
    };
    said.done("Redis")?;
    let address = address.to_owned();
    Ok(Box::new(move || {
        let store = RedisStore::open(&address, options).map_err(UrlError::store)?;
        Ok(Opened::without_file(Arc::new(store)))
    }))
}

/// What a connection string of PostgreSQL's may say.
#[cfg(feature = "postgres")]
const OF_POSTGRES: [&str; 19] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "password",
    "port",
    "sslmode",
    "sslnegotiation",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

#[cfg(feature = "postgres")]
pub fn postgres(address: &str, said: &mut Options) -> Result<Opener, UrlError> {
    use tidegate_postgres::{Options as PostgresOptions, PostgresStore, Tables};

    const OURS: &str =
        "`connections`, `deadline`, `leases`, `migrate`, `synchronous_commit`, `tables`";
    theirs_alone(address, &OF_POSTGRES, ("PostgreSQL", OURS))?;
    let usual = PostgresOptions::default();
    let switch = [("on", true), ("off", false)];
    let tables = [("logged", Tables::Logged), ("unlogged", Tables::Unlogged)];
    let options = PostgresOptions {
        deadline: said.span("deadline")?.unwrap_or(usual.deadline),
        connections: said.parse("connections")?.unwrap_or(usual.connections),
        tables: said.word("tables", &tables)?.unwrap_or(usual.tables),
        waits_for_disk: said
            .word("synchronous_commit", &switch)?
            .unwrap_or(usual.waits_for_disk),
        leases_end_with_session: said
            .word("leases", &[("ttl", false), ("session", true)])?
            .unwrap_or(usual.leases_end_with_session),
        migrate: said.word("migrate", &switch)?.unwrap_or(usual.migrate),
        ..usual
    };
    said.done("PostgreSQL")?;
    let address = address.to_owned();
    Ok(Box::new(move || {
        let store = PostgresStore::open(&address, options).map_err(UrlError::store)?;
        Ok(Opened::without_file(Arc::new(store)))
    }))
}

/// What an address of a MariaDB server may say.
#[cfg(feature = "mysql")]
const OF_MYSQL: [&str; 23] = [
    "abs_conn_ttl",
    "abs_conn_ttl_jitter",
    "built_in_roots",
    "client_found_rows",
    "compression",
    "conn_ttl",
    "enable_cleartext_plugin",
    "inactive_connection_ttl",
    "max_allowed_packet",
    "pool_max",
    "pool_min",
    "prefer_socket",
    "require_ssl",
    "reset_connection",
    "secure_auth",
    "socket",
    "stmt_cache_size",
    "tcp_keepalive",
    "tcp_nodelay",
    "ttl_check_interval",
    "verify_ca",
    "verify_identity",
    "wait_timeout",
];

#[cfg(feature = "mysql")]
pub fn mysql(address: &str, said: &mut Options) -> Result<Opener, UrlError> {
    use tidegate_mysql::{MysqlStore, Options as MysqlOptions};

    const OURS: &str = "`connections`, `deadline`, `prefix`";
    theirs_alone(address, &OF_MYSQL, ("MariaDB", OURS))?;
    let usual = MysqlOptions::default();
    let options = MysqlOptions {
        prefix: said.take("prefix").unwrap_or(usual.prefix),
        deadline: said.span("deadline")?.unwrap_or(usual.deadline),
        connections: said.parse("connections")?.unwrap_or(usual.connections),
        clock: usual.clock,
    };
    said.done("MariaDB")?;
    let address = address.to_owned();
    Ok(Box::new(move || {
        let store = MysqlStore::open(&address, options).map_err(UrlError::store)?;
        Ok(Opened::without_file(Arc::new(store)))
    }))
}

#[cfg(feature = "dynamodb")]
pub fn dynamodb(address: &str, said: &mut Options) -> Result<Opener, UrlError> {
    let (table, options) = dynamodb_table(address, said)?;
    Ok(Box::new(move || {
        let store = tidegate_dynamodb::DynamodbStore::open(&table, options);
        Ok(Opened::without_file(Arc::new(
            store.map_err(UrlError::store)?,
        )))
    }))
}

/// The table's name, and how it is opened.
#[cfg(feature = "dynamodb")]
pub fn dynamodb_table(
    address: &str,
    said: &mut Options,
) -> Result<(String, tidegate_dynamodb::Options), UrlError> {
    no_others(
        address,
        "a DynamoDB store knows `connections`, `deadline`, `endpoint`, `migrate` and `region` alone",
    )?;
    let usual = tidegate_dynamodb::Options::default();
    let options = tidegate_dynamodb::Options {
        region: said.take("region"),
        endpoint: said.take("endpoint"),
        deadline: said.span("deadline")?.unwrap_or(usual.deadline),
        connections: said.parse("connections")?.unwrap_or(usual.connections),
        migrate: said
            .word("migrate", &[("on", true), ("off", false)])?
            .unwrap_or(usual.migrate),
        ..usual
    };
    said.done("DynamoDB")?;
    Ok((
        address.trim_start_matches("dynamodb://").to_owned(),
        options,
    ))
}

/// Where a token is looked for that the address does not have.
#[cfg(feature = "remote")]
const TOKEN: &str = "TIDEGATE_STORE_TOKEN";

#[cfg(feature = "remote")]
pub fn remote(address: &str, said: &mut Options) -> Result<Opener, UrlError> {
    use tidegate_remote::{Options as RemoteOptions, RemoteStore};

    no_others(
        address,
        "the store of a server knows `deadline` and `prefix` alone",
    )?;
    let usual = RemoteOptions::default();
    let options = RemoteOptions {
        token: std::env::var(TOKEN).ok().filter(|token| !token.is_empty()),
        prefix: said.take("prefix"),
        deadline: said.span("deadline")?.unwrap_or(usual.deadline),
    };
    said.done("tidegate")?;
    RemoteStore::check(address).map_err(UrlError::store)?;
    let address = address.to_owned();
    Ok(Box::new(move || {
        let store = RemoteStore::open(&address, options).map_err(UrlError::store)?;
        Ok(Opened::without_file(store))
    }))
}

/// What this build was made without.
macro_rules! not_built {
    ($opened:ident, $feature:literal, $engine:literal) => {
        not_built!($opened, $feature, $engine, feature = $feature);
    };
    ($opened:ident, $feature:literal, $engine:literal, $($built:tt)*) => {
        #[cfg(not($($built)*))]
        pub fn $opened(_: &str, _: &mut Options) -> Result<Opener, UrlError> {
            Err(UrlError::NotBuilt {
                engine: $engine,
                feature: $feature,
            })
        }
    };
}

not_built!(file, "file", "store in a file");
not_built!(
    shm,
    "shm",
    "store in shared memory",
    all(feature = "shm", target_os = "linux")
);
not_built!(redis, "redis", "Redis");
not_built!(postgres, "postgres", "PostgreSQL");
not_built!(mysql, "mysql", "MariaDB");
not_built!(dynamodb, "dynamodb", "DynamoDB");
not_built!(remote, "remote", "store of another server");
