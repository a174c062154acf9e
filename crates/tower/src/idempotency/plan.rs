//! What is to be done with a request, before anybody is asked.

use http::request::Parts;

use super::claim::Claim;
use super::client_key::client_key;
use super::record_key::record_key;
use super::refusal::{Refusal, RefusalKind};
use super::settings::Settings;

pub(super) enum Plan {
    /// As if there were no layer.
    Pass,
    Refuse(Refusal),
    /// Under this record's key.
    Protect {
        key: String,
    },
}

pub(super) fn of(settings: &Settings, parts: &Parts) -> Plan {
    if !settings.methods.contains(&parts.method) {
        return Plan::Pass;
    }
    let client_key = match client_key(&parts.headers) {
        Ok(Some(key)) => key,
        Ok(None) if (settings.is_required)(parts) => {
            return Plan::Refuse(Refusal::new(RefusalKind::KeyMissing));
        }
        Ok(None) => return Plan::Pass,
        Err(_) => return Plan::Refuse(Refusal::new(RefusalKind::KeyMalformed)),
    };
    match settings.caller.find(parts) {
        Ok(caller) => {
            let key = record_key(&caller, parts, &(settings.target)(parts), &client_key);
            if is_claimed(settings, parts, &key) { Plan::Pass } else { Plan::Protect { key } }
        }
        Err(reason) => {
            settings.note_unknown_caller(&reason);
            let refusal = Refusal::new(RefusalKind::CallerUnknown);
            Plan::Refuse(refusal.with_status(settings.unknown_caller))
        }
    }
}

/// By a layer further out, with the same records.
fn is_claimed(settings: &Settings, parts: &Parts, key: &str) -> bool {
    parts.extensions.get::<Claim>().is_some_and(|claim| claim.is_of(settings.once.name(), key))
}
