//! What workers may be given.

use crate::error::BuildError;
use crate::limit::Limit;
use crate::pool::LimitPool;
use crate::set::LimitSet;

/// What workers may be given, as the pool that they work within: nothing
/// (`()`), one limit or several, a set, several sets, or a pool.
///
/// Sets become members called `0`, `1` and so on; one that is alone, and the
/// set of limits, is `0`.
pub trait IntoPool {
    /// The pool.
    ///
    /// # Errors
    /// [`BuildError`]: limits that make no sense, or no set at all.
    fn into_pool(self) -> Result<LimitPool, BuildError>;
}

/// Everything is admitted.
impl IntoPool for () {
    fn into_pool(self) -> Result<LimitPool, BuildError> {
        LimitSet::builder().unlimited().build()?.into_pool()
    }
}

impl IntoPool for Limit {
    fn into_pool(self) -> Result<LimitPool, BuildError> {
        [self].into_pool()
    }
}

impl<const N: usize> IntoPool for [Limit; N] {
    fn into_pool(self) -> Result<LimitPool, BuildError> {
        Vec::from(self).into_pool()
    }
}

impl IntoPool for Vec<Limit> {
    fn into_pool(self) -> Result<LimitPool, BuildError> {
        LimitSet::builder().limits(self).build()?.into_pool()
    }
}

impl IntoPool for LimitSet {
    fn into_pool(self) -> Result<LimitPool, BuildError> {
        [self].into_pool()
    }
}

impl IntoPool for &LimitSet {
    fn into_pool(self) -> Result<LimitPool, BuildError> {
        self.clone().into_pool()
    }
}

impl<const N: usize> IntoPool for [LimitSet; N] {
    fn into_pool(self) -> Result<LimitPool, BuildError> {
        Vec::from(self).into_pool()
    }
}

impl IntoPool for Vec<LimitSet> {
    fn into_pool(self) -> Result<LimitPool, BuildError> {
        let mut builder = LimitPool::builder();
        for (number, set) in self.into_iter().enumerate() {
            builder = builder.member(number.to_string(), set);
        }
        builder.build()
    }
}

impl IntoPool for LimitPool {
    fn into_pool(self) -> Result<LimitPool, BuildError> {
        Ok(self)
    }
}

impl IntoPool for &LimitPool {
    fn into_pool(self) -> Result<LimitPool, BuildError> {
        Ok(self.clone())
    }
}
