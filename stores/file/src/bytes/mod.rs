//! Plans, rows, leases and tables as bytes: what is written by one version is read
//! by every later one, or refused; never misread.
//!
//! Each begins with a version of its own. All but the tables are as every store
//! writes them ([`tidegate_contract::bytes`]).

mod table;
#[cfg(test)]
mod tests;

pub(crate) use table::{Known, decode_table, encode_table};
pub(crate) use tidegate_contract::bytes::{
    decode_plan, decode_record, decode_row, encode_plan, encode_record, encode_row, row_head,
};

use tidegate_contract::bytes::{VERSION, versioned};
