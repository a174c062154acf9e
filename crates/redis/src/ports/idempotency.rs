//! The ports of the decisions about idempotency. A result is sent once, where it is stored, and once to everybody who
//! is answered it.

use std::time::Duration;

use lockkeeper_core::Timestamp;
use lockkeeper_core::idempotency::{
    Abandon, AbandonReply, Begin, BeginReply, Complete, CompleteReply, HowAbandoned, InspectOnce, KeepAlive,
    KeepAliveReply, OnceInspection, Phase, Resolution, Resolve, ResolveReply, Stored, Strayed,
};
use lockkeeper_core::lock::{FENCE_LEAD, Lease};
use lockkeeper_core::time::micros_of;
use redis::Cmd;

use super::UNKNOWN_STATUS;
use crate::port::{EXACT, Part, Port, time};
use crate::reply::{Fields, Malformed};
use crate::script::{self, Script};

fn micros(lease: Lease) -> u64 {
    micros_of(lease.as_duration())
}

fn left(fields: &mut Fields) -> Result<Duration, Malformed> {
    fields.unsigned().map(Duration::from_micros)
}

/// As the record has it: whether it is whole, then its bytes.
fn stored_arguments(stored: &Stored, command: &mut Cmd) {
    command.arg(u8::from(stored.is_whole())).arg(stored.bytes());
}

fn stored(bytes: Vec<u8>, whole: bool) -> Result<Stored, Malformed> {
    let stored = if whole { Stored::whole(bytes) } else { Stored::not_kept(bytes) };
    stored.map_err(|_| Malformed("a result that is too large"))
}

fn strayed(status: &[u8], mut fields: Fields) -> Result<Strayed, Malformed> {
    match status {
        b"gone" => Ok(Strayed::Gone),
        b"lapsed" => Ok(Strayed::Lapsed),
        b"settled" => Ok(Strayed::Settled),
        b"taken" => fields.holder().map(Strayed::TakenOver),
        _ => Err(UNKNOWN_STATUS),
    }
}

impl Port for Begin {
    const SCRIPT: &'static Script = &script::BEGIN;
    const KEYS: &'static [Part] = &[Part::Main];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes()).arg(micros(self.lease)).arg(time(self.not_after));
        command.arg(self.on_crash.hold_micros()).arg(self.retain.as_micros());
        command.arg(&self.fingerprint.to_hex()[..]);
        command.arg(self.seen.min(EXACT)).arg(micros_of(FENCE_LEAD));
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<BeginReply, Malformed> {
        match status {
            b"claimed" => {
                let (fence, attempt) = (fields.fence()?, fields.unsigned()?);
                Ok(BeginReply::Claimed { fence, attempt, takeover: fields.unsigned()? != 0 })
            }
            b"running" => {
                let (holder, attempt) = (fields.holder()?, fields.unsigned()?);
                Ok(BeginReply::Running { holder, attempt, remaining: left(&mut fields)? })
            }
            b"completed" => {
                let stored = stored(fields.bytes()?, fields.unsigned()? != 0)?;
                Ok(BeginReply::Completed { stored, fence: fields.fence()?, remaining: left(&mut fields)? })
            }
            b"different" => Ok(BeginReply::DifferentRequest),
            b"unknown" => {
                let (holder, fence) = (fields.holder()?, fields.fence()?);
                Ok(BeginReply::Unknown { holder, fence, remaining: left(&mut fields)? })
            }
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for KeepAlive {
    const SCRIPT: &'static Script = &script::KEEP_ALIVE;
    const KEYS: &'static [Part] = &[Part::Main];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes()).arg(micros(self.lease)).arg(time(self.not_after));
    }

    fn read(&self, _at: Timestamp, status: &[u8], fields: Fields) -> Result<KeepAliveReply, Malformed> {
        match status {
            b"kept" => Ok(KeepAliveReply::Kept),
            _ => strayed(status, fields).map(KeepAliveReply::Strayed),
        }
    }
}

impl Port for Complete {
    const SCRIPT: &'static Script = &script::COMPLETE;
    const KEYS: &'static [Part] = &[Part::Main];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes()).arg(self.retain.as_micros());
        stored_arguments(&self.stored, command);
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<CompleteReply, Malformed> {
        match status {
            b"completed" => Ok(CompleteReply::Completed { remaining: left(&mut fields)? }),
            _ => strayed(status, fields).map(CompleteReply::Strayed),
        }
    }
}

impl Port for Abandon {
    const SCRIPT: &'static Script = &script::ABANDON;
    const KEYS: &'static [Part] = &[Part::Main];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes()).arg(match self.how {
            HowAbandoned::Undone => "undone",
            HowAbandoned::Crashed => "crashed",
        });
    }

    fn read(&self, _at: Timestamp, status: &[u8], fields: Fields) -> Result<AbandonReply, Malformed> {
        match status {
            b"abandoned" => Ok(AbandonReply::Abandoned),
            _ => strayed(status, fields).map(AbandonReply::Strayed),
        }
    }
}

impl Port for Resolve {
    const SCRIPT: &'static Script = &script::RESOLVE;
    const KEYS: &'static [Part] = &[Part::Main];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.fence.get().min(EXACT)).arg(self.token.as_bytes());
        command.arg(time(self.not_after)).arg(self.retain.as_micros());
        match &self.resolution {
            Resolution::Undone => _ = command.arg("o").arg(0).arg(""),
            Resolution::Completed(stored) => stored_arguments(stored, command.arg("c")),
        }
    }

    fn read(&self, _at: Timestamp, status: &[u8], mut fields: Fields) -> Result<ResolveReply, Malformed> {
        match status {
            b"resolved" => Ok(ResolveReply::Resolved),
            b"gone" => Ok(ResolveReply::Gone),
            b"running" => {
                Ok(ResolveReply::Running { holder: fields.holder()?, remaining: left(&mut fields)? })
            }
            b"changed" => fields.fence().map(ResolveReply::Changed),
            b"settled" => Ok(ResolveReply::Settled),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for InspectOnce {
    const SCRIPT: &'static Script = &script::INSPECT_ONCE;
    const KEYS: &'static [Part] = &[Part::Main];

    fn arguments(&self, _command: &mut Cmd) {}

    fn read(
        &self,
        _at: Timestamp,
        status: &[u8],
        fields: Fields,
    ) -> Result<Option<OnceInspection>, Malformed> {
        match status {
            b"none" => Ok(None),
            b"seen" => inspection(fields).map(Some),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

fn inspection(mut fields: Fields) -> Result<OnceInspection, Malformed> {
    let phase = match &fields.bytes()?[..] {
        b"running" => Phase::Running,
        b"lapsed" => Phase::Lapsed,
        b"unknown" => Phase::Unknown,
        b"completed" => Phase::Completed,
        b"open" => Phase::Open,
        _ => return Err(Malformed("an unknown phase")),
    };
    let (holder, fence, attempt) = (fields.holder()?, fields.fence()?, fields.unsigned()?);
    let (remaining, bytes) = (left(&mut fields)?, u64::try_from(fields.int()?).ok());
    let whole = fields.unsigned()? != 0;
    let result = bytes.map(|bytes| (bytes, whole));
    Ok(OnceInspection { phase, holder, fence, attempt, remaining, result })
}
