//! Locks, limits and idempotency on Redis and Valkey: leases with fencing, a watchdog, exact rate limits and honest answers.
//!
//! A distributed lock is a **lease**, and a lease is *probabilistic* mutual exclusion: expiry, failover, clock jumps
//! and paused processes can all put two holders into the critical section. So this crate gives you a lease *and* what
//! makes it safe to use: a fencing token that the resource can check, a guard that knows when it is no longer valid,
//! and honest answers.
//!
//! ```
//! # async fn update_stock(_fence: lockkeeper::Fence) -> Result<(), lockkeeper::Error> { Ok(()) }
//! # async fn example() -> Result<(), lockkeeper::Error> {
//! use std::time::Duration;
//! use lockkeeper::{Acquired, Keeper};
//!
//! let keeper = Keeper::connect("memory://").await?; // or redis://127.0.0.1:6379
//! let lock = keeper.lock("order:20241")?.lease(Duration::from_secs(30)).wait(Duration::from_secs(5));
//! match lock.acquire().await? {
//!     Acquired::Held(guard) => {
//!         update_stock(guard.fence()?).await?; // the resource refuses an older fence
//!         guard.release().await?;
//!     }
//!     Acquired::Busy(busy) => println!("held by {}", busy.holder),
//! }
//! keeper.close(Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```

//! And **limits**: how fast something may happen ([`Keeper::limiter`]), or how many at once ([`Keeper::concurrency`]).
//!
//! ```
//! # async fn example() -> Result<(), lockkeeper::Error> {
//! use lockkeeper::{Keeper, Subject, Verdict};
//!
//! let keeper = Keeper::connect("memory://").await?;
//! let api = keeper.limiter("api", "10/s; 1000/h")?; // make it once, and keep it
//! match api.check(Subject::user("42")).await? {
//!     Verdict::Allowed { remaining, .. } => println!("{remaining} left"),
//!     Verdict::Denied { retry_after, .. } => println!("come back in {retry_after:?}"),
//!     _ => println!("never"),
//! }
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! And **idempotency**: what happens when something is done twice ([`Keeper::once`]).
//!
//! ```
//! # async fn charge(_fence: lockkeeper::Fence) -> Result<String, std::io::Error> { Ok("receipt 7".to_owned()) }
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use lockkeeper::Keeper;
//!
//! let keeper = Keeper::connect("memory://").await?;
//! let payments = keeper.once("payment")?; // make it once, and keep it
//! let receipt = payments.run("user-42:order-7", &1999, async |attempt| charge(attempt.fence()).await).await?;
//! println!("{receipt}"); // of this run, or of the one that was before
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! Where to go on: the [`guide`] (what a lock promises, fencing, [limits](guide::limits), [idempotency](guide::idempotency), failures,
//! operations); [`Lock`], [`Limiter`] and [`Once`] for everything that can be set, and [`Lock::run`] for work that is cancelled when the lease is lost; [`LockGuard::lost`];
//! [`Keeper::lock_all`] for several names, all of them or nothing.

mod backend;
mod background;
mod builder;
mod chore;
mod clock;
pub mod guide;
mod health;
mod keeper;
mod limit;
mod list;
mod lock;
mod once;
mod operate;
mod striped;
pub mod telemetry;

pub use builder::KeeperBuilder;
pub use clock::SystemClock;
pub use health::{Closed, Health};
pub use keeper::Keeper;
pub use limit::{
    DEFAULT_DECIDE_WITHIN, DEFAULT_LEASE_AGE, Detail, Joint, LeasedLimiter, LimitState, Limiter, Source,
    Verdict, WhenAway,
};
pub use list::{ListCursor, LockView, Page};
pub use lock::{
    Acquired, AcquiredPermit, Busy, Concurrency, DEFAULT_LEASE, DEFAULT_MAX_HOLD, DEFAULT_WAIT, Degradable,
    DegradableGuard, DegradableLock, Extended, ForceReleased, Full, LocalGuard, Lock, LockClass, LockGuard,
    LossReason, MAX_SHARDS, OrderedAcquired, OrderedGuard, OrderedLock, Permit, Released, Segmented,
    TakenOver, shard_name,
};
pub use lockkeeper_core as core;
pub use lockkeeper_core::idempotency::{
    Fingerprint, OnCrash, OnceInspection, Phase as OncePhase, Resolution, ResolveReply, Stored,
};
pub use lockkeeper_core::key::join_parts;
pub use lockkeeper_core::limit::{Algorithm, IntoLimits, IntoSubject, Limit, Subject, WindowStart};
pub use lockkeeper_core::lock::permit::{MAX_PERMITS, PermitHolder};
pub use lockkeeper_core::lock::{Durability, Fence, Holder, Inspection, KeeperName, OwnerToken, Waiter};
pub use lockkeeper_core::{Clock, Error, ErrorKind, Key, ManualClock, MemoryStore, Prefix, Refusal};
pub use lockkeeper_redis as redis;
pub use lockkeeper_redis::{Credentials, QuorumConfig, RedisConfig};
pub use once::{
    Attempt, Begun, Completed, DEFAULT_MAX_RESULT, DEFAULT_ONCE_LEASE, DEFAULT_RETENTION, Once, OnceCursor,
    OncePage, OnceView, Replay, RunError, fingerprint,
};
