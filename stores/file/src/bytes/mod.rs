//! Plans, rows, leases, tables, definitions and events as bytes: what is written by one
//! version is read by every later one, or refused; never misread.
//!
//! Each begins with a version of its own. All but tables and definitions are as
//! every store writes them ([`tidegate_store::bytes`]).

mod definition;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use definition::{
    decode_definition, decode_event, decode_owner, encode_definition, encode_event, encode_owner,
};
pub(crate) use table::{Known, decode_table, encode_table};
pub(crate) use tidegate_store::bytes::{
    decode_plan, decode_record, decode_row, encode_own, encode_plan, encode_record, encode_row,
    row_head,
};

use tidegate_store::bytes::{VERSION, versioned};
