//! The ports of the decisions about permits.

use std::time::Duration;

use lockkeeper_core::Timestamp;
use lockkeeper_core::lock::Lease;
use lockkeeper_core::lock::permit::{
    AcquirePermit, AcquirePermitReply, InspectPermits, MAX_PERMIT_AHEAD, MAX_PERMITS, PermitHolder,
    ReleasePermit, ReleasePermitReply, RenewPermit, RenewPermitReply,
};
use lockkeeper_core::time::micros_of;
use redis::{Cmd, Value};

use super::UNKNOWN_STATUS;
use crate::port::{Part, Port, time};
use crate::reply::{Fields, Malformed};
use crate::script::{self, Script};

fn most_ahead() -> u64 {
    micros_of(MAX_PERMIT_AHEAD)
}

fn micros(lease: Lease) -> u64 {
    micros_of(lease.as_duration())
}

fn held(fields: &mut Fields) -> Result<u32, Malformed> {
    fields.unsigned().map(|held| u32::try_from(held).unwrap_or(u32::MAX))
}

impl Port for AcquirePermit {
    const SCRIPT: &'static Script = &script::ACQUIRE_PERMIT;
    const KEYS: &'static [Part] = &[Part::Permit];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes()).arg(micros(self.lease)).arg(time(self.not_after));
        command.arg(self.limit.get()).arg(most_ahead());
    }

    fn read(
        &self,
        _at: Timestamp,
        status: &[u8],
        mut fields: Fields,
    ) -> Result<AcquirePermitReply, Malformed> {
        let held = held(&mut fields)?;
        match status {
            b"granted" => Ok(AcquirePermitReply::Granted { held }),
            b"full" => {
                let first_end = Duration::from_micros(fields.unsigned()?);
                Ok(AcquirePermitReply::Full { held, first_end })
            }
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for RenewPermit {
    const SCRIPT: &'static Script = &script::RENEW_PERMIT;
    const KEYS: &'static [Part] = &[Part::Permit];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes()).arg(micros(self.lease)).arg(time(self.not_after));
        command.arg(most_ahead());
    }

    fn read(&self, _at: Timestamp, status: &[u8], _fields: Fields) -> Result<RenewPermitReply, Malformed> {
        match status {
            b"renewed" => Ok(RenewPermitReply::Renewed),
            b"expired" => Ok(RenewPermitReply::Expired),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for ReleasePermit {
    const SCRIPT: &'static Script = &script::RELEASE_PERMIT;
    const KEYS: &'static [Part] = &[Part::Permit];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes()).arg(most_ahead());
    }

    fn read(&self, _at: Timestamp, status: &[u8], _fields: Fields) -> Result<ReleasePermitReply, Malformed> {
        match status {
            b"released" => Ok(ReleasePermitReply::Released),
            b"expired" => Ok(ReleasePermitReply::Expired),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

impl Port for InspectPermits {
    const SCRIPT: &'static Script = &script::INSPECT_PERMITS;
    const KEYS: &'static [Part] = &[Part::Permit];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(most_ahead()).arg(MAX_PERMITS);
    }

    fn read(&self, _at: Timestamp, status: &[u8], fields: Fields) -> Result<Vec<PermitHolder>, Malformed> {
        match status {
            b"seen" => fields.rest().map(seen).collect(),
            _ => Err(UNKNOWN_STATUS),
        }
    }
}

fn seen(value: Value) -> Result<PermitHolder, Malformed> {
    let mut fields = Fields::of(value)?;
    Ok(PermitHolder { holder: fields.holder()?, remaining: Duration::from_micros(fields.unsigned()?) })
}
