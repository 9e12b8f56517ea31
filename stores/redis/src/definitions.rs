//! What is defined for an owner: one hash, never dropped with any state.

use std::collections::HashMap;

use redis::{Cmd, Value};
use tidegate_contract::{Definition, StoreError};

use crate::error::garbled;
use crate::link::Link;

/// So many are read at a time, about.
const AT_ONCE: usize = 1_000;

/// The command that keeps `value` under `key`, or nothing any more.
pub(crate) fn change(name: &[u8], key: &[u8], value: Option<&[u8]>) -> Cmd {
    let mut command = redis::cmd(if value.is_some() { "HSET" } else { "HDEL" });
    command.arg(name).arg(key);
    if let Some(value) = value {
        command.arg(value);
    }
    command
}

/// All of them: in pieces, so that the server does something else between two.
pub(crate) async fn read(link: &Link, name: &[u8]) -> Result<Vec<Definition>, StoreError> {
    // One may come twice where the hash shrinks meanwhile.
    let mut found = HashMap::new();
    let mut cursor = b"0".to_vec();
    loop {
        let mut scan = redis::cmd("HSCAN");
        scan.arg(name).arg(&cursor).arg("COUNT").arg(AT_ONCE);
        let (next, values) = scanned(link.ask(&scan).await?)?;
        let mut values = values.into_iter();
        while let (Some(key), Some(value)) = (values.next(), values.next()) {
            found.insert(key, value);
        }
        cursor = next;
        if cursor == b"0" {
            return Ok(found.into_iter().collect());
        }
    }
}

/// What a step of a scan found, and where it goes on.
pub(crate) fn scanned(answer: Value) -> Result<(Vec<u8>, Vec<Vec<u8>>), StoreError> {
    let wrong = || garbled("no scan");
    let Value::Array(parts) = answer else {
        return Err(wrong());
    };
    let mut parts = parts.into_iter();
    let (Some(Value::BulkString(next)), Some(Value::Array(found))) = (parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let bytes = found.into_iter().map(|value| match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(wrong()),
    });
    Ok((next, bytes.collect::<Result<_, _>>()?))
}
