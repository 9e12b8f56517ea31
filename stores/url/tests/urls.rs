//! What a URL opens, and what is said of one that opens nothing.
#![cfg(all(
    feature = "file",
    feature = "redis",
    feature = "postgres",
    feature = "mysql",
    feature = "shm",
    target_os = "linux"
))]

use tidegate_url::{UrlError, check, open, shown};

#[test]
fn a_store_is_named_by_its_url() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    assert!(open("memory:").is_ok());
    for mode in ["", "?sync=always", "?sync=never", "?sync=interval=100ms"] {
        let url = format!("file:{}{mode}", path.display());
        let opened = open(&url).expect(&url);
        assert!(!opened.store.abilities().shared);
        opened.flush().unwrap();
    }
    let dir = folder.path().display();
    for options in ["", "&size=8", "&leases=ttl", "&leases=process&deadline=2s"] {
        let opened = open(&format!("shm:name?dir={dir}{options}")).expect(options);
        assert!(opened.store.abilities().shared);
        assert!(opened.store.abilities().own_clock);
    }
    let wrong = open(&format!("shm:a/b?dir={dir}"));
    assert!(matches!(wrong, Err(UrlError::Store(_))), "{wrong:?}");
    for url in ["memory", "memory:x", "file:", "disk:/x", ""] {
        assert!(matches!(open(url), Err(UrlError::Unknown(_))), "{url}");
    }
    // `policy check`, which opens nothing, called these sound.
    for url in [
        "redis:/x",
        "redis://",
        "redis://u:p@/1",
        "mysql://h",
        "mysql://h/",
        "tidegate:x",
    ] {
        assert!(matches!(check(url), Err(UrlError::Unknown(_))), "{url}");
    }
    for url in [
        "redis://h",
        "redis://u:p/@h:1/2",
        "mysql://u:p?@h/d?x=1",
        "mysql://h/d?socket=/a@b",
        "postgres:///d",
    ] {
        assert!(!matches!(check(url), Err(UrlError::Unknown(_))), "{url}");
    }
}

#[test]
fn a_url_of_shared_memory_that_makes_no_sense_says_what_to_write() {
    let size = "write how many MiB, 4 to 1048576, as size=64 or size=64MiB";
    for (url, told) in [
        ("shm://limits", "write shm:limits"),
        ("shm:///limits?size=8", "write shm:limits?size=8"),
        ("shm:", "write shm:NAME"),
        ("shm:?size=8", "write shm:NAME?size=8"),
        ("shm:x?size=64MB", size),
        ("shm:x?size=3", size),
        ("shm:x?size=", size),
        // Bytes are too many MiB: what they are in MiB is what to write.
        ("shm:x?size=33554432", "size=32 or size=32MiB"),
        ("shm:x?dir=", "write a whole path, as dir=/dev/shm"),
        ("shm:x?dir=/nowhere/at/all", "mkdir -p /nowhere/at/all"),
    ] {
        let error = open(url).map(|_| ()).expect_err(url).to_string();
        assert!(error.contains(told), "{url}: {error}");
    }
    for size in ["8", "8MiB", "1GiB"] {
        assert_eq!(check(&format!("shm:x?size={size}")), Ok(()), "{size}");
    }
}

#[test]
fn an_option_that_makes_no_sense_is_named() {
    for (url, name) in [
        ("file:/x?sync=perhaps", "sync"),
        ("file:/x?prefix=a", "prefix"),
        ("file:/x?mode=always", "mode"),
        ("memory:?deadline=1s", "deadline"),
        ("memory:?size=3", "size"),
        ("shm:x?connections=3", "connections"),
        ("shm:x?leases=session", "leases"),
        ("shm:x?size=large", "size"),
        ("shm:x?size=99999999999999999", "size"),
        ("shm:x?mode=0600", "mode"),
        ("shm:x?dir=", "dir"),
        ("shm:x?dir=here", "dir"),
        // These were passed over, so that a slip of the pen did nothing.
        ("redis://127.0.0.1:1?dedline=1s", "dedline"),
        ("redis+cluster://u:p@127.0.0.1:1?sync=always&x", "x"),
        (
            "redis+sentinel://127.0.0.1:1/main?name=1&deadline=1s",
            "name",
        ),
        ("redis://127.0.0.1:1?connections=4", "connections"),
        ("redis://127.0.0.1:1?deadline=soon", "deadline"),
        ("redis://127.0.0.1:1?deadline=-1s", "deadline"),
        ("redis://127.0.0.1:1?deadline=1s&deadline=2s", "deadline"),
        ("postgres://127.0.0.1:1/d?connections=many", "connections"),
        ("postgres://127.0.0.1:1/d?tables=wooden", "tables"),
        ("postgres://127.0.0.1:1/d?sync=always", "sync"),
        ("mysql://127.0.0.1:1/d?tables=logged", "tables"),
        // The engine said that it cannot use the address, and not why.
        ("postgres://127.0.0.1:1/d?conections=4", "conections"),
        (
            "postgres://u:p@127.0.0.1:1/d?deadline=1s&sslmod=require",
            "sslmod",
        ),
        ("mysql://127.0.0.1:1/d?deadlin=1s&prefix=a", "deadlin"),
        ("mariadb://u:p@127.0.0.1:1/d?requiressl=true", "requiressl"),
    ] {
        match open(url) {
            Err(UrlError::Option { name: told, .. }) => assert_eq!(told, name, "{url}"),
            other => panic!("{url}: {other:?}"),
        }
    }
}

#[test]
fn an_option_that_is_not_known_is_told_with_those_that_are() {
    let said = |url| check(url).expect_err(url).to_string();
    let postgres = said("postgres://127.0.0.1/d?conections=4");
    let begins = "the option `conections` of the store: a PostgreSQL store knows `connections`, ";
    assert!(postgres.starts_with(begins), "{postgres}");
    assert!(postgres.contains("`sslmode`"), "{postgres}");
    let mariadb = said("mysql://127.0.0.1/d?perfix=4");
    assert!(mariadb.contains("a MariaDB store knows"), "{mariadb}");
    assert!(mariadb.contains("`prefix`") && mariadb.contains("`require_ssl`"));
    for url in [
        "postgres://127.0.0.1/d?sslmode=require&application_name=x&connections=4",
        "mysql://127.0.0.1/d?require_ssl=true&connections=4",
    ] {
        assert_eq!(check(url), Ok(()), "{url}");
    }
}

#[test]
fn a_url_is_checked_without_its_store() {
    for url in [
        "redis://127.0.0.1:1",
        "postgres://127.0.0.1:1/d",
        "memory:",
        "file:/no/x",
    ] {
        assert_eq!(check(url), Ok(()), "{url}");
    }
    for url in ["redsi://127.0.0.1:1", "redish://127.0.0.1:1", "file:"] {
        assert!(matches!(check(url), Err(UrlError::Unknown(_))), "{url}");
    }
    assert!(matches!(
        check("file:/x?sync=perhaps"),
        Err(UrlError::Option { .. })
    ));
}

/// It said `interval 100ms`, which is none either.
#[test]
fn the_ways_to_sync_are_said_as_a_url_has_them() {
    let said = check("file:/x?sync=perhaps").expect_err("none").to_string();
    assert!(said.contains("`interval=100ms`"), "{said}");
    assert_eq!(check("file:/x?sync=interval=100ms"), Ok(()));
}

#[test]
fn what_was_probably_meant_is_said() {
    let said = |url: &str| open(url).expect_err("no store").to_string();
    for (url, meant) in [
        ("./foo.redb", "file:./foo.redb"),
        ("foo.redb", "file:foo.redb"),
        ("/var/lib/state", "file:/var/lib/state"),
        ("memory", "memory:"),
        ("file:/nonexistent/folder/x", "mkdir -p /nonexistent/folder"),
    ] {
        assert!(said(url).contains(meant), "{}", said(url));
    }
}

#[test]
fn nobody_listens_there_and_it_says_so() {
    for url in [
        "redis://127.0.0.1:1?deadline=200ms",
        "postgres://127.0.0.1:1/d?deadline=200ms&connections=2&tables=unlogged",
        "mariadb://127.0.0.1:1/d?deadline=200ms",
    ] {
        assert!(matches!(open(url), Err(UrlError::Store(_))), "{url}");
    }
}

#[test]
fn a_password_is_in_no_error_and_on_no_screen() {
    for url in [
        "reddis://u:secret@127.0.0.1",
        "redis://u:secret@127.0.0.1:1",
        "redis://u:sec@ret:secret@127.0.0.1:port",
        "redis://u:sec?deadline=secret@127.0.0.1:1",
        "redis+ring://u:secret@127.0.0.1",
        "redis+cluster://u:secret@127.0.0.1:1",
        "redis+sentinel://u:secret@127.0.0.1:1/main",
        "postgres://u:secret@127.0.0.1:1/d",
        "postgres://u:secret@127.0.0.1:port/d",
        "postgres://u:sec@ret:secret@127.0.0.1:1/d?tables=secret",
        "mysql://u:secret@127.0.0.1:1/d",
        "mysql://u:sec@ret:secret@127.0.0.1:port/d",
        "redis//u:secret@127.0.0.1:1",
        "postgres://127.0.0.1:1/d?user=u&password=secret",
    ] {
        let said = open(url).err().map(|trouble| trouble.to_string());
        let said = said.expect("nothing listens there");
        assert!(!said.contains("secret"), "{said}");
        assert!(!shown(url).contains("secret"), "{}", shown(url));
        assert_eq!(shown(url).contains("***@"), url.contains('@'));
    }
    assert_eq!(shown("file:a@b"), "file:a@b");
    assert_eq!(shown("redis://h:1/2"), "redis://h:1/2");
}
