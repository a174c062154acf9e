//! The ports of locks.

use lockkeeper_core::Timestamp;
use lockkeeper_core::lock::{
    Acquire, AcquireReply, Busy, FENCE_LEAD, FENCE_RETENTION, Fence, ForceRelease, ForceReleaseReply,
    Inspect, Inspection, KeeperName, Leave, MAX_PRESENT, MAX_TOKEN_BYTES, PRESENCE, RaiseFence,
    RaiseFenceReply, Release, ReleaseReply, Renew, RenewReply, Swap, SwapReply, Waiter, Watch, WatchOutcome,
    WatchReply,
};
use lockkeeper_core::time::micros_of;
use redis::{Cmd, Value};

use super::UNKNOWN_STATUS;
use crate::native::{Done, Look, Native, Step};
use crate::port::{EXACT, Part, Port, time};
use crate::reply::{Fields, Malformed};
use crate::script::{self, Script};

/// Retention and lead, as the scripts take them.
fn fence_bounds(command: &mut Cmd) {
    command.arg(micros_of(FENCE_RETENTION) / 1000).arg(micros_of(FENCE_LEAD));
}

impl Port for Acquire {
    const SCRIPT: &'static Script = &script::ACQUIRE;

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes()).arg(self.lease.as_millis()).arg(time(self.not_after));
        command.arg(self.fences.seen.min(EXACT)).arg(self.fences.size());
        fence_bounds(command);
    }

    fn native(&self) -> Option<Native<'_, AcquireReply>> {
        Some(Native { step: take(self), read: taken })
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<AcquireReply, Malformed> {
        match status {
            b"granted" => fields.fence().map(AcquireReply::Granted),
            b"busy" => fields.busy().map(AcquireReply::Busy),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Watch {
    const SCRIPT: &'static Script = &script::WATCH;
    const KEYS: &'static [Part] = &[Part::Main, Part::Fence, Part::Presence];

    fn arguments(&self, command: &mut Cmd) {
        self.acquire.arguments(command);
        command.arg(self.waiter.keeper.as_bytes()).arg(self.waiter.count);
        command.arg(micros_of(PRESENCE) / 1000).arg(MAX_PRESENT);
    }

    /// It tries, and tells nobody who waits. Others may wait, for all that is known.
    fn native(&self) -> Option<Native<'_, WatchReply>> {
        let read = |done| {
            let outcome = match taken(done)? {
                AcquireReply::Granted(fence) => WatchOutcome::Granted(fence),
                AcquireReply::Busy(busy) => WatchOutcome::Busy(busy),
            };
            Some(WatchReply { outcome, others_wait: true })
        };
        Some(Native { step: take(&self.acquire), read })
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<WatchReply, Malformed> {
        let others_wait = fields.int()? != 0;
        let outcome = match status {
            b"granted" => WatchOutcome::Granted(fields.fence()?),
            b"busy" => WatchOutcome::Busy(fields.busy()?),
            _ => return Err(UNKNOWN_STATUS),
        };
        Ok(WatchReply { outcome, others_wait })
    }
}

impl Port for Leave {
    const SCRIPT: &'static Script = &script::LEAVE;
    const KEYS: &'static [Part] = &[Part::Presence];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.keeper.as_bytes());
    }

    fn native(&self) -> Option<Native<'_, ()>> {
        Some(Native { step: Step::Nothing, read: |_| Some(()) })
    }

    fn read(&self, _at: Timestamp, status: &[u8], _fields: Fields) -> Result<(), Malformed> {
        match status {
            b"left" => Ok(()),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Renew {
    const SCRIPT: &'static Script = &script::RENEW;

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes()).arg(self.lease.as_millis()).arg(time(self.not_after));
        command.arg(micros_of(FENCE_RETENTION) / 1000);
    }

    fn native(&self) -> Option<Native<'_, RenewReply>> {
        let read = |done| match done {
            Done::Yes => Some(RenewReply::Renewed),
            Done::Gone => Some(RenewReply::Expired(0)),
            Done::Other(seen) => Some(RenewReply::HeldByAnother(0, seen.holder)),
            Done::Looked(_) => None,
        };
        Some(Native { step: Step::Keep { token: &self.token, lease: self.lease }, read })
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<RenewReply, Malformed> {
        match status {
            b"renewed" => Ok(RenewReply::Renewed),
            b"expired" => fields.index().map(RenewReply::Expired),
            b"other" => Ok(RenewReply::HeldByAnother(fields.index()?, fields.holder()?)),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Release {
    const SCRIPT: &'static Script = &script::RELEASE;
    const KEYS: &'static [Part] = &[Part::Main];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes());
    }

    fn native(&self) -> Option<Native<'_, ReleaseReply>> {
        let read = |done| match done {
            Done::Yes => Some(ReleaseReply::Released),
            Done::Gone => Some(ReleaseReply::Expired(0)),
            Done::Other(seen) => Some(ReleaseReply::HeldByAnother(0, seen.holder)),
            Done::Looked(_) => None,
        };
        Some(Native { step: Step::Free { token: &self.token }, read })
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<ReleaseReply, Malformed> {
        match status {
            b"released" => Ok(ReleaseReply::Released),
            b"expired" => fields.index().map(ReleaseReply::Expired),
            b"other" => Ok(ReleaseReply::HeldByAnother(fields.index()?, fields.holder()?)),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Swap {
    const SCRIPT: &'static Script = &script::SWAP;

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.from.as_bytes()).arg(self.to.as_bytes()).arg(self.lease.as_millis());
        command.arg(time(self.not_after)).arg(self.fences.seen.min(EXACT)).arg(self.fences.size());
        fence_bounds(command);
    }

    fn native(&self) -> Option<Native<'_, SwapReply>> {
        let read = |done| match done {
            Done::Yes => Some(SwapReply::Swapped(Fence::NONE)),
            Done::Gone => Some(SwapReply::Expired(0)),
            Done::Other(seen) => Some(SwapReply::HeldByAnother(0, seen.holder)),
            Done::Looked(_) => None,
        };
        Some(Native { step: Step::Exchange { from: &self.from, to: &self.to, lease: self.lease }, read })
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<SwapReply, Malformed> {
        match status {
            b"swapped" => fields.fence().map(SwapReply::Swapped),
            b"expired" => fields.index().map(SwapReply::Expired),
            b"other" => Ok(SwapReply::HeldByAnother(fields.index()?, fields.holder()?)),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for ForceRelease {
    const SCRIPT: &'static Script = &script::FORCE_RELEASE;

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.shown.token_bytes()).arg(self.shown.token_length()).arg(time(self.not_after));
        command.arg(self.seen.min(EXACT));
        fence_bounds(command);
    }

    fn read(
        &self,
        _at: Timestamp,
        status: &[u8],
        mut fields: Fields,
    ) -> Result<ForceReleaseReply, Malformed> {
        match status {
            b"released" => fields.fence().map(ForceReleaseReply::Released),
            b"free" => Ok(ForceReleaseReply::Free),
            b"other" => {
                fields.index()?;
                fields.holder().map(ForceReleaseReply::HeldByAnother)
            }
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for RaiseFence {
    const SCRIPT: &'static Script = &script::RAISE_FENCE;

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes()).arg(self.number()).arg(time(self.not_after));
        command.arg(micros_of(FENCE_RETENTION) / 1000);
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<RaiseFenceReply, Malformed> {
        match status {
            b"raised" => Ok(RaiseFenceReply::Raised),
            b"expired" => fields.index().map(RaiseFenceReply::Expired),
            b"other" => Ok(RaiseFenceReply::HeldByAnother(fields.index()?, fields.holder()?)),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for Inspect {
    const SCRIPT: &'static Script = &script::INSPECT;
    const KEYS: &'static [Part] = &[Part::Main, Part::Fence, Part::Presence];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(micros_of(PRESENCE) / 1000).arg(MAX_PRESENT);
    }

    fn native(&self) -> Option<Native<'_, Vec<Inspection>>> {
        let read = |done| match done {
            Done::Looked(looks) => Some(looks.into_iter().map(plain_inspection).collect()),
            _ => None,
        };
        Some(Native { step: Step::Look, read })
    }

    fn read(&self, _at: Timestamp, status: &[u8], fields: Fields) -> Result<Vec<Inspection>, Malformed> {
        match status {
            b"seen" => fields.rest().map(inspection).collect(),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

fn take(acquire: &Acquire) -> Step<'_> {
    Step::Take { token: &acquire.token, lease: acquire.lease }
}

fn taken(done: Done) -> Option<AcquireReply> {
    match done {
        Done::Yes => Some(AcquireReply::Granted(Fence::NONE)),
        Done::Other(seen) => {
            Some(AcquireReply::Busy(Busy { index: 0, holder: seen.holder, remaining: seen.remaining }))
        }
        Done::Gone | Done::Looked(_) => None,
    }
}

/// Neither fence nor waiters are known.
fn plain_inspection(look: Look) -> Inspection {
    let wrong_type = matches!(look, Look::WrongType);
    let (holder, remaining) = match look {
        Look::Held(seen) => (Some(seen.holder), seen.remaining),
        Look::Free | Look::WrongType => (None, None),
    };
    Inspection { holder, remaining, fence: None, waiters: vec![], wrong_type }
}

fn inspection(value: Value) -> Result<Inspection, Malformed> {
    let mut fields = Fields::of(value)?;
    let kind = fields.bytes()?;
    let holder = fields.holder()?;
    let (remaining, fence) = (fields.remaining()?, u64::try_from(fields.int()?).ok());
    let mut waiters = fields.pairs(|keeper, count| Waiter {
        keeper: KeeperName::new(keeper),
        count: u32::try_from(count).unwrap_or(u32::MAX),
    })?;
    waiters.sort_by(|one, other| one.keeper.cmp(&other.keeper));
    let held = kind == b"held";
    debug_assert!(holder.token_bytes().len() <= MAX_TOKEN_BYTES);
    Ok(Inspection {
        holder: held.then_some(holder),
        remaining: if held { remaining } else { None },
        fence: fence.map(Fence::new),
        waiters,
        wrong_type: kind == b"wrongtype",
    })
}
