//! Locks of a class: what telemetry counts them as.

use lockkeeper_core::Error;

use super::builder::Lock;
use super::permits::Concurrency;
use crate::keeper::Keeper;
use crate::telemetry::Class;

/// Makes locks that are counted together. See [`Keeper::lock_class`].
#[derive(Clone, Debug)]
pub struct LockClass {
    pub(super) keeper: Keeper,
    pub(super) class: Class,
}

impl Keeper {
    /// A class of locks, by which [metrics](crate::guide::telemetry) are labelled: a kind of lock, such as `order`. The
    /// same name is the same class, everywhere in the process. Make it once and keep it.
    ///
    /// ```
    /// # async fn example() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::connect("memory://").await?;
    /// let orders = keeper.lock_class("order")?;
    /// let guard = orders.lock("order:20241")?.acquire().await?.or_busy()?;
    /// # guard.release().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// Not 1 to 64 of `a-z`, `0-9` and `_`; or it would be more than [`MAX_CLASSES`](crate::telemetry::MAX_CLASSES) in
    /// this process.
    pub fn lock_class(&self, name: &str) -> Result<LockClass, Error> {
        Ok(LockClass { keeper: self.clone(), class: Class::named(name)? })
    }
}

impl LockClass {
    /// As [`Keeper::lock`], in this class.
    ///
    /// # Errors
    /// As there.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Result<Lock, Error> {
        Ok(self.keeper.lock(name)?.in_class(self.class))
    }

    /// As [`Keeper::lock_exact`], in this class.
    ///
    /// # Errors
    /// As there.
    pub fn lock_exact(&self, key: impl AsRef<[u8]>) -> Result<Lock, Error> {
        Ok(self.keeper.lock_exact(key)?.in_class(self.class))
    }

    /// As [`Keeper::lock_all`], in this class.
    ///
    /// # Errors
    /// As there.
    pub fn lock_all<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) -> Result<Lock, Error> {
        Ok(self.keeper.lock_all(names)?.in_class(self.class))
    }

    /// As [`Keeper::concurrency`], in this class.
    ///
    /// # Errors
    /// As there.
    pub fn concurrency(&self, name: impl AsRef<[u8]>, limit: u32) -> Result<Concurrency, Error> {
        Ok(self.keeper.concurrency(name, limit)?.in_class(self.class))
    }

    /// What it is.
    pub fn class(&self) -> Class {
        self.class
    }
}

impl Lock {
    pub(super) fn in_class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// What it is counted as; `default` unless a [`LockClass`] made it.
    pub fn class(&self) -> Class {
        self.class
    }
}
