//! The ports: for each decision its script, its keys and arguments, and how its reply is read.

mod permits;

use lockkeeper_core::lock::{
    Acquire, AcquireReply, FENCE_LEAD, FENCE_RETENTION, ForceRelease, ForceReleaseReply, Inspect, Inspection,
    KeeperName, Leave, MAX_PRESENT, MAX_TOKEN_BYTES, PRESENCE, Release, ReleaseReply, Renew, RenewReply,
    Swap, SwapReply, Waiter, Watch, WatchOutcome, WatchReply,
};
use lockkeeper_core::time::micros_of;
use lockkeeper_core::{Decision, Keys, Timestamp};
use redis::{Cmd, Value};

use crate::layout::{fence_key, permit_key, presence_key};
use crate::reply::{Fields, Malformed};
use crate::script::{self, Script};

/// A decision that has a script.
pub(crate) trait Port: Decision {
    /// Its script.
    const SCRIPT: &'static Script;
    /// Which of a lock's keys it touches, in order.
    const KEYS: &'static [Part] = &[Part::Main, Part::Fence];

    /// Adds the arguments, in the order of the script's header.
    fn arguments(&self, command: &mut Cmd);

    /// Reads the fields after time and status.
    fn read(status: &[u8], fields: Fields) -> Result<Self::Reply, Malformed>;

    /// Adds the number of keys and the keys.
    fn keys(at: &Keys, command: &mut Cmd) {
        let keys = at.as_slice();
        command.arg(keys.len() * Self::KEYS.len());
        for key in keys {
            for part in Self::KEYS {
                match part {
                    Part::Main => command.arg(key.as_bytes()),
                    Part::Fence => command.arg(fence_key(key)),
                    Part::Presence => command.arg(presence_key(key)),
                    Part::Permit => command.arg(permit_key(key)),
                };
            }
        }
    }
}

/// One of the keys of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Fence,
    Presence,
    Permit,
}

/// 2^53: what a script's numbers count to exactly.
const EXACT: u64 = 1 << 53;

/// Retention and lead, as the scripts take them.
fn fence_bounds(command: &mut Cmd) {
    command.arg(micros_of(FENCE_RETENTION) / 1000).arg(micros_of(FENCE_LEAD));
}

fn time(at: Timestamp) -> u64 {
    at.as_micros().min(EXACT)
}

const UNKNOWN_STATUS: Malformed = Malformed("an unknown status");

impl Port for Acquire {
    const SCRIPT: &'static Script = &script::ACQUIRE;

    fn arguments(&self, command: &mut Cmd) {
        command.arg(self.token.as_bytes()).arg(self.lease.as_millis()).arg(time(self.not_after));
        command.arg(self.fences.seen.min(EXACT)).arg(self.fences.size());
        fence_bounds(command);
    }

    fn read(status: &[u8], mut fields: Fields) -> Result<AcquireReply, Malformed> {
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

    fn read(status: &[u8], mut fields: Fields) -> Result<WatchReply, Malformed> {
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

    fn read(status: &[u8], _fields: Fields) -> Result<(), Malformed> {
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

    fn read(status: &[u8], mut fields: Fields) -> Result<RenewReply, Malformed> {
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

    fn read(status: &[u8], mut fields: Fields) -> Result<ReleaseReply, Malformed> {
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

    fn read(status: &[u8], mut fields: Fields) -> Result<SwapReply, Malformed> {
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

    fn read(status: &[u8], mut fields: Fields) -> Result<ForceReleaseReply, Malformed> {
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

impl Port for Inspect {
    const SCRIPT: &'static Script = &script::INSPECT;
    const KEYS: &'static [Part] = &[Part::Main, Part::Fence, Part::Presence];

    fn arguments(&self, command: &mut Cmd) {
        command.arg(micros_of(PRESENCE) / 1000).arg(MAX_PRESENT);
    }

    fn read(status: &[u8], fields: Fields) -> Result<Vec<Inspection>, Malformed> {
        match status {
            b"seen" => fields.rest().map(inspection).collect(),
            _ => Err(UNKNOWN_STATUS),
        }
    }
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
        fence: fence.map(lockkeeper_core::lock::Fence::new),
        waiters,
        wrong_type: kind == b"wrongtype",
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_core::lock::permit::{
        AcquirePermit, InspectPermits, PermitLimit, ReleasePermit, RenewPermit,
    };
    use lockkeeper_core::lock::{FenceRequest, Holder, Lease, OwnerToken};
    use lockkeeper_core::{Key, Prefix};

    use super::*;

    /// The names after `label` in a script's header.
    fn declared(script: &Script, label: &str) -> Vec<String> {
        let line = script.source.lines().find_map(|line| line.strip_prefix(&format!("-- {label}: ")));
        let line = line.unwrap_or_else(|| panic!("{}: no `{label}` in the header", script.name));
        line.split(", ")
            .map(str::to_owned)
            .filter(|name| name != "none" && !name.starts_with("and so on"))
            .collect()
    }

    fn check<D: Port>(decision: &D) {
        let script = D::SCRIPT;
        assert_eq!(script.name, D::NAME);
        assert!(script.source.starts_with(&format!("-- {}: ", D::NAME)), "{}: purpose", D::NAME);
        let mut command = Cmd::new();
        decision.arguments(&mut command);
        assert_eq!(command.args_iter().count(), declared(script, "ARGV").len(), "{}: arguments", D::NAME);
        let parts: Vec<String> = D::KEYS.iter().map(|part| format!("{part:?}").to_lowercase()).collect();
        assert_eq!(declared(script, "KEYS"), parts, "{}: keys", D::NAME);
        for status in ["-- Reply: ", "-- Invariants: "] {
            assert!(script.source.contains(status), "{}: {status}", D::NAME);
        }
        for number in 1..=declared(script, "ARGV").len() {
            assert!(
                script.source.contains(&format!("ARGV[{number}]")),
                "{}: ARGV[{number}] is not used",
                D::NAME
            );
        }
    }

    #[test]
    fn headers_say_what_the_scripts_and_ports_do() {
        let token = OwnerToken::given("t").unwrap();
        let lease = Lease::new(Duration::from_secs(1)).unwrap();
        let (fences, not_after) = (FenceRequest::default(), Timestamp::MAX);
        let acquire = Acquire { token: token.clone(), lease, fences, not_after };
        check(&acquire);
        let keeper = KeeperName::new("k");
        check(&Watch { acquire, waiter: Waiter { keeper: keeper.clone(), count: 1 } });
        check(&Leave { keeper });
        check(&Renew { token: token.clone(), lease, not_after });
        check(&Release { token: token.clone() });
        check(&Swap { from: token.clone(), to: token.clone(), lease, fences, not_after });
        check(&ForceRelease { shown: Holder::new(b"t", 1), seen: 0, not_after });
        check(&Inspect);
        let limit = PermitLimit::new(1).unwrap();
        check(&AcquirePermit { token: token.clone(), lease, limit, not_after });
        check(&RenewPermit { token: token.clone(), lease, not_after });
        check(&ReleasePermit { token });
        check(&InspectPermits);
    }

    #[test]
    fn l100_l101_scripts_touch_declared_keys_only_and_keys_are_only_keys() {
        for script in script::SCRIPTS {
            for call in script.source.split("call('").skip(1) {
                let call = &call[..call.find(')').unwrap()];
                let keyed = call.starts_with("TIME'") || call.contains("', KEYS[");
                assert!(keyed, "{}: `{call}` does not name KEYS[n]", script.name);
            }
        }
        let key = Key::new(&Prefix::new("lock:").unwrap(), "a").unwrap();
        let mut command = Cmd::new();
        Acquire::keys(&key.into(), &mut command);
        assert_eq!(
            command.get_packed_command(),
            redis::cmd("2").arg("lock:a").arg("lock:~fence:{lock:a}").get_packed_command()
        );
    }
}
