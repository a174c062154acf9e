//! Several locks one after another, for keys that no single step can take: those of several cluster slots.

use std::fmt;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use lockkeeper_core::lock::Fence;
use lockkeeper_core::{Error, ErrorKind, Key, Keys, Uptime};

use super::builder::Lock;
use super::guard::LockGuard;
use super::outcome::{Acquired, Busy, Extended, LossReason, Released};
use super::queue::may_be_repeated;
use crate::clock::sleep_until;

/// A later key is waited for so long while earlier ones are held; then all are given back, and it begins anew.
const HOLD: Duration = Duration::from_millis(100);
/// The pause before it begins anew, and the longest; it doubles, with jitter.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Several keys, each taken by a step of its own. See [`Lock::across_slots`].
#[derive(Clone)]
pub struct OrderedLock {
    /// One for each key, in byte order.
    locks: Vec<Lock>,
    keys: Keys,
}

/// The answer to an acquisition of several keys one after another.
#[derive(Debug)]
#[must_use = "locks that are not looked at are released at once"]
pub enum OrderedAcquired {
    /// All are yours until the first of the leases ends.
    Held(OrderedGuard),
    /// Somebody else has this one; none is held.
    Busy(Busy),
}

/// Several held locks. Clones share them; the last one to be dropped releases them in the background.
///
/// There is no fence of all: give each resource the fence of its own key.
#[derive(Clone)]
#[must_use = "dropping the guard releases the locks"]
pub struct OrderedGuard {
    /// In byte order of the keys.
    guards: Vec<(Key, LockGuard)>,
}

impl Lock {
    /// The same keys taken one after another, each by a step of its own, for keys that lie in several slots of a
    /// cluster; it works on every store. Ask for it only where no common hash tag is possible: it is **not atomic**.
    ///
    /// ```
    /// # async fn example() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::connect("memory://").await?;
    /// let both = keeper.lock_all(["account:1", "account:2"])?.across_slots();
    /// let guard = both.acquire().await?.or_busy()?;
    /// let (one, other) = (guard.fence_of("account:1")?, guard.fence_of("account:2")?);
    /// // … write to each account with its own fence …
    /// for (key, answer) in guard.release().await {
    ///     println!("{key}: {:?}", answer?);
    /// }
    /// # assert!(one != other);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// * The order is that of the keys' bytes, for everybody, unless a key was found busy. Whoever takes the same keys in one step, or in another
    ///   order, is excluded all the same.
    /// * Leases that were taken early are renewed while later keys are waited for; where they are not to be renewed,
    ///   they are extended at the end. If one ended meanwhile, nothing is held.
    /// * A later key that stays busy for 100 ms: all are given back, and it begins anew after a pause of 10 ms, growing
    ///   to 500 ms, with jitter. Then the key that was busy comes first: it is waited for while nothing is held, so that
    ///   steady use of it by others does not keep anybody out. Nobody holds and waits for long, and nobody waits for each
    ///   other for ever.
    /// * Users of the same keys who begin with different ones may collide, and lose a round each: with eight of them, about
    ///   a quarter fewer get through than in one order (in a model). No turn is kept among them.
    /// * Others see some of the keys held while the rest are not, and may see a key taken and given back by an attempt
    ///   that then failed.
    pub fn across_slots(self) -> OrderedLock {
        let one = |key: &Key| Self { keys: key.clone().into(), ..self.clone() };
        let mut locks: Vec<Self> = self.keys.as_slice().iter().map(one).collect();
        locks.sort_by(|one, other| one.keys.at(0).cmp(other.keys.at(0)));
        OrderedLock { locks, keys: self.keys }
    }
}

/// What one round of taking all came to.
enum Round {
    Held(OrderedGuard),
    /// That of this number is.
    Busy(usize, Busy),
    /// One ended before all were held.
    Lost(Key, LossReason),
}

impl OrderedLock {
    /// Takes all, beginning anew until all are held or the lock's wait limit has passed; then the answer is busy, or
    /// the last error. A limit of zero is exactly one try for each.
    ///
    /// # Redis
    /// As [`Lock::acquire`] for each key, one after another; for each round that fails, a release of each that was
    /// taken; without renewal, an extension of each, side by side.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; a token of one's own, which serves one acquisition only; a lease that ended before all
    /// were held.
    ///
    /// # Cancel safety
    /// All that may have been taken is given back in the background, and no longer renewed.
    pub async fn acquire(&self) -> Result<OrderedAcquired, Error> {
        let first = self.first();
        if first.token.is_some() {
            let detail = "a token of one's own serves one acquisition, not several one after another";
            return Err(Error::bad_argument("acquire", detail).with_key(&self.keys));
        }
        let clock = &*first.inner.clock;
        let ends = first.wait.map(|limit| clock.uptime().after(limit));
        let (mut pause, mut first_of_all) = (PAUSE.0, 0);
        loop {
            let round = self.round(first_of_all, ends).await;
            let length = pause.mul_f64(rand::random_range(0.5..1.0));
            let is_over = ends.is_some_and(|ends| clock.uptime().after(length) >= ends);
            match round {
                Ok(Round::Held(guard)) => return Ok(OrderedAcquired::Held(guard)),
                Ok(Round::Busy(_, busy)) if is_over => return Ok(OrderedAcquired::Busy(busy)),
                Ok(Round::Busy(number, _)) => first_of_all = number,
                Ok(Round::Lost(key, reason)) if is_over => {
                    let detail = format!("it ended before all were held: {reason}");
                    return Err(Error::new(ErrorKind::Lost, "acquire", detail).with_key(key));
                }
                Err(error) if is_over || !may_be_repeated(first, &error) => return Err(error),
                Ok(Round::Lost(..)) | Err(_) => {}
            }
            sleep_until(clock, clock.uptime().after(length)).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Takes each in turn, `first_of_all` before the others: it is waited for while none is held. What was taken is given
    /// back where one could not be.
    async fn round(&self, first_of_all: usize, ends: Option<Uptime>) -> Result<Round, Error> {
        let mut taken = OrderedGuard { guards: Vec::with_capacity(self.locks.len()) };
        let others = (0..self.locks.len()).filter(|number| *number != first_of_all);
        for number in std::iter::once(first_of_all).chain(others) {
            let mut lock = self.locks[number].clone();
            lock.wait = self.patience(ends, taken.guards.is_empty());
            match lock.acquire().await {
                Ok(Acquired::Held(guard)) => taken.guards.push((lock.keys.at(0).clone(), guard)),
                Ok(Acquired::Busy(busy)) => {
                    taken.release().await;
                    return Ok(Round::Busy(number, busy));
                }
                Err(error) => {
                    taken.release().await;
                    return Err(error);
                }
            }
        }
        if let Err((key, reason)) = self.refresh(&taken).await {
            taken.release().await;
            return Ok(Round::Lost(key, reason));
        }
        taken.guards.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Round::Held(taken))
    }

    /// The first is waited for without holding anything.
    fn patience(&self, ends: Option<Uptime>, is_first: bool) -> Option<Duration> {
        let left = ends.map(|ends| ends.since(self.first().inner.clock.uptime()));
        if is_first { left } else { Some(left.map_or(HOLD, |left| left.min(HOLD))) }
    }

    /// Those that nothing renews get their full lease again. All are valid after it.
    async fn refresh(&self, taken: &OrderedGuard) -> Result<(), (Key, LossReason)> {
        let lock = self.first();
        if !lock.terms.renew && taken.guards.len() > 1 {
            for (key, answer) in taken.extend(lock.lease).await {
                match answer {
                    Ok(Extended::Extended) => {}
                    Ok(Extended::Expired) => return Err((key, LossReason::Expired)),
                    Ok(Extended::HeldByAnother(holder)) => {
                        return Err((key, LossReason::HeldByAnother(holder)));
                    }
                    Err(error) => return Err((key, LossReason::NotRenewed(error.to_string()))),
                }
            }
        }
        taken.loss().map_or(Ok(()), Err)
    }

    fn first(&self) -> &Lock {
        &self.locks[0]
    }

    /// The keys, as displayed.
    pub fn key(&self) -> String {
        self.keys.to_string()
    }
}

impl OrderedAcquired {
    /// For those who want busy as an error.
    ///
    /// # Errors
    /// Of kind `Busy`, naming the holder.
    pub fn or_busy(self) -> Result<OrderedGuard, Error> {
        match self {
            Self::Held(guard) => Ok(guard),
            Self::Busy(busy) => Err(busy.into_error()),
        }
    }
}

impl OrderedGuard {
    /// The fence of the key with this name (without the prefix), greater than that of every earlier holder of it.
    ///
    /// # Errors
    /// It is not among the keys; else as [`LockGuard::fence`].
    pub fn fence_of(&self, name: impl AsRef<[u8]>) -> Result<Fence, Error> {
        let name = name.as_ref();
        match self.guards.iter().find(|(key, _)| key.name() == name) {
            Some((_, guard)) => guard.fence(),
            None => {
                let name = lockkeeper_core::key::Escaped(name);
                Err(Error::bad_argument("fence", format!("`{name}` is none of the keys that are held")))
            }
        }
    }

    /// The guard of each key, in byte order of the keys.
    pub fn guards(&self) -> impl Iterator<Item = (&Key, &LockGuard)> {
        self.guards.iter().map(|(key, guard)| (key, guard))
    }

    /// Every one is valid; see [`LockGuard::is_valid`].
    pub fn is_valid(&self) -> bool {
        self.guards.iter().all(|(_, guard)| guard.is_valid())
    }

    /// How long all are valid without another renewal; zero when one is not.
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(|(_, guard)| guard.remaining()).min().unwrap_or_default()
    }

    /// Waits until the first one is no longer valid, and says which and why. Costs no round trip.
    ///
    /// # Cancel safety
    /// Yes.
    pub async fn lost(&self) -> (Key, LossReason) {
        let each =
            self.guards.iter().map(|(key, guard)| Box::pin(async move { (key.clone(), guard.lost().await) }));
        select_all(each).await.0
    }

    /// Which one is no longer valid, if one is, and why.
    pub fn loss(&self) -> Option<(Key, LossReason)> {
        let lost = |(key, guard): &(Key, LockGuard)| {
            let reason = guard.loss().or_else(|| (!guard.is_valid()).then_some(LossReason::Expired))?;
            Some((key.clone(), reason))
        };
        self.guards.iter().find_map(lost)
    }

    /// Lengthens each lease to `length` from now, side by side. One answer for each key.
    ///
    /// # Redis
    /// One `EVALSHA` for each key, side by side.
    ///
    /// # Errors
    /// For each key, as [`LockGuard::extend`].
    ///
    /// # Cancel safety
    /// As [`LockGuard::extend`].
    pub async fn extend(&self, length: Duration) -> Vec<(Key, Result<Extended, Error>)> {
        let each = self.guards.iter().map(|(key, guard)| async { (key.clone(), guard.extend(length).await) });
        join_all(each).await
    }

    /// Gives all back, side by side. One answer for each key.
    ///
    /// # Redis
    /// One `EVALSHA` for each key, side by side.
    ///
    /// # Errors
    /// For each key, as [`LockGuard::release`].
    ///
    /// # Cancel safety
    /// What was not released yet is released in the background.
    pub async fn release(self) -> Vec<(Key, Result<Released, Error>)> {
        let each = self.guards.into_iter().map(|(key, guard)| async { (key, guard.release().await) });
        join_all(each).await
    }
}

impl fmt::Debug for OrderedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedLock").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl fmt::Debug for OrderedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.guards.iter().map(|(_, guard)| guard)).finish()
    }
}
