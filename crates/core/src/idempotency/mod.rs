//! Idempotency: one record per key says whether an operation is running, what it answered, or that nobody knows.
//!
//! While the record lives, at most one *attempt* at a time has the right to run. That is not "exactly once": an attempt
//! that died may have had its effect, and a record that was evicted or flushed is no record. The last line is the
//! resource: a unique index, or an update that refuses an older [`Fence`](crate::lock::Fence).
//!
//! A record is in one of these phases at a moment. What each decision makes of it, and what it answers:
//!
//! | phase | [`Begin`] | [`KeepAlive`] | [`Complete`] | [`Abandon`] | [`Resolve`] |
//! |---|---|---|---|---|---|
//! | absent | → running: *claimed* | *gone* | *gone* | *gone* | *gone* |
//! | running, by this token | *claimed* again | lease restarted: *kept* | → completed: *completed* | → open, lapsed or unknown: *abandoned* | *running* |
//! | running, by another | *running* | *taken over* | *taken over* | *taken over* | *running* |
//! | lapsed ([`OnCrash::Rerun`]) | → running: *claimed*, a takeover | *lapsed* | → completed: *completed* | → open: *abandoned* | → open or completed: *resolved* |
//! | unknown ([`OnCrash::Hold`]) | *unknown* | *lapsed* | → completed: *completed* | → open: *abandoned* | → open or completed: *resolved* |
//! | completed | *completed*, with the result | *settled* | *completed*, if by this token | *settled* | *settled*, unless by this token |
//! | open | → running: *claimed* | *settled* | *settled* | *abandoned*, if by this token | *settled*, unless by this token |
//!
//! *Undone* opens a key, unless the attempt was a takeover: then the one before it crashed, and may have had its effect. So the
//! key is lapsed again (no longer unknown: that time is over), for its own request, and the next attempt is a takeover too.
//! Only [`Complete`] and [`Resolve`] settle what a crash left.
//!
//! In the rows lapsed to open, [`KeepAlive`], [`Complete`] and [`Abandon`] answer *taken over* where the record is another
//! token's. Wherever there is a request (all phases but absent and open), a [`Begin`] with another [`Fingerprint`] answers
//! *different request* and changes nothing. A lapsed claim that nobody took over can still be completed by its own token:
//! nothing else has begun since.

mod abandon;
mod begin;
mod cell;
mod complete;
mod fingerprint;
mod inspect;
mod keep_alive;
mod policy;
mod record;
mod resolve;
mod stored;
mod text;

#[cfg(test)]
mod tests;

pub use abandon::{Abandon, AbandonReply, HowAbandoned};
pub use begin::{Begin, BeginReply};
pub use cell::{OnceCell, Strayed};
pub use complete::{Complete, CompleteReply};
pub use fingerprint::Fingerprint;
pub use inspect::{InspectOnce, OnceInspection};
pub use keep_alive::{KeepAlive, KeepAliveReply};
pub use policy::{MAX_HELD_UNKNOWN, MAX_RETENTION, MIN_RETENTION, OnCrash, Retention};
pub use record::{MAX_ATTEMPTS, MAX_ENDS, Phase, Record, RecordState};
pub use resolve::{Resolution, Resolve, ResolveReply};
pub use stored::{MAX_STORED_BYTES, Stored};
