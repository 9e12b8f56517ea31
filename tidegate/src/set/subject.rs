//! Who a command is about.

use std::sync::Arc;

use super::view::View;

/// Who is asked about, and the limits that its caller has kept of an earlier answer.
pub(crate) struct Subject<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) view: Option<Arc<View>>,
}

impl<'a> From<&'a [u8]> for Subject<'a> {
    #[inline]
    fn from(key: &'a [u8]) -> Self {
        Self { key, view: None }
    }
}
