//! One key, and what is asked of it.

use std::time::Duration;

use lockkeeper::core::idempotency::{
    Abandon, Begin, BeginReply, Complete, Fingerprint, HowAbandoned, InspectOnce, KeepAlive, OnCrash,
    OnceInspection, Phase, Resolution, Resolve, Retention, Stored,
};
use lockkeeper::core::lock::{Fence, Lease, OwnerToken};
use lockkeeper::core::{Answer, Apply, Decision, Error, Keys, Timestamp};

use crate::arm::{OnceArm, OnceKept, OncePlant, once_key};

/// The usual lease.
pub const LEASE: Duration = Duration::from_secs(10);
/// How long an unknown outcome is held.
pub const HOLD: Duration = Duration::from_secs(60);
/// The usual retention.
pub const RETAIN: Duration = Duration::from_secs(3600);
const WITHIN: Duration = Duration::from_secs(5);

/// The token of somebody.
pub fn token(name: &str) -> OwnerToken {
    OwnerToken::given(name).expect("a token")
}

/// Somebody's whole result.
pub fn result(text: &str) -> Stored {
    Stored::whole(text.as_bytes()).expect("a result")
}

/// A lease of this length.
pub fn lease(length: Duration) -> Lease {
    Lease::new(length).expect("a lease")
}

/// A retention of this length.
pub fn retention(length: Duration) -> Retention {
    Retention::new(length).expect("a retention")
}

/// The usual claim.
pub fn begin(who: &str, on_crash: OnCrash) -> Begin {
    Begin {
        token: token(who),
        lease: lease(LEASE),
        on_crash,
        retain: retention(RETAIN),
        fingerprint: Fingerprint::new([1; 32]),
        seen: 0,
        not_after: Timestamp::MAX,
    }
}

/// A different request.
pub fn other_request(who: &str) -> Begin {
    Begin { fingerprint: Fingerprint::new([2; 32]), ..begin(who, OnCrash::Rerun) }
}

/// A sign of life.
pub fn keep_alive(who: &str) -> KeepAlive {
    KeepAlive { token: token(who), lease: lease(LEASE), not_after: Timestamp::MAX }
}

/// The end with somebody's name as the result.
pub fn complete(who: &str) -> Complete {
    Complete { token: token(who), stored: result(who), retain: retention(RETAIN) }
}

/// The end without a result.
pub fn abandon(who: &str, how: HowAbandoned) -> Abandon {
    Abandon { token: token(who), how }
}

/// An operator's word.
pub fn resolve(fence: Fence, resolution: Resolution) -> Resolve {
    let (token, retain) = (token("operator"), retention(RETAIN));
    Resolve { fence, token, resolution, retain, not_after: Timestamp::MAX }
}

/// One key on an arm.
#[derive(Clone, Copy, Debug)]
pub struct Bench<'a, A> {
    /// The arm.
    pub arm: &'a A,
    name: &'a str,
}

impl<'a, A: OnceArm> Bench<'a, A> {
    /// The key of this name.
    pub fn new(arm: &'a A, name: &'a str) -> Self {
        Self { arm, name }
    }

    /// Applies a decision.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn try_ask<D: Decision>(&self, decision: D) -> Result<Answer<D::Reply>, Error>
    where
        A::Store: Apply<D>,
    {
        self.arm.once().apply(&Keys::from(once_key(self.name)), decision, WITHIN).await
    }

    /// Applies a decision that has to be answered.
    pub async fn ask<D: Decision>(&self, decision: D) -> D::Reply
    where
        A::Store: Apply<D>,
    {
        self.try_ask(decision).await.unwrap_or_else(|error| panic!("{}: {error}", self.arm.name())).reply
    }

    /// Claims it; its fence.
    pub async fn claim(&self, decision: Begin) -> Fence {
        match self.ask(decision).await {
            BeginReply::Claimed { fence, .. } => fence,
            other => panic!("{}: {}: not claimed but {other:?}", self.arm.name(), self.name),
        }
    }

    /// What is seen.
    pub async fn seen(&self) -> Option<OnceInspection> {
        self.ask(InspectOnce).await
    }

    /// What it means now.
    pub async fn phase(&self) -> Phase {
        self.seen().await.map_or(Phase::Absent, |seen| seen.phase)
    }

    /// What is kept.
    pub fn kept(&self) -> OnceKept {
        self.arm.kept_once(&once_key(self.name))
    }

    /// Does what a foreign client might.
    pub fn plant(&self, plant: &OncePlant) {
        self.arm.plant_once(&once_key(self.name), plant);
    }

    /// Lets `a` bring the key into `phase`; its fence, if there is one.
    pub async fn bring_into(&self, phase: Phase, on_crash: OnCrash) -> Option<Fence> {
        if phase == Phase::Absent {
            return None;
        }
        let fence = self.claim(begin("a", on_crash)).await;
        match phase {
            Phase::Completed => drop(self.ask(complete("a")).await),
            Phase::Open => drop(self.ask(abandon("a", HowAbandoned::Undone)).await),
            Phase::Lapsed | Phase::Unknown => self.arm.advance(LEASE),
            _ => {}
        }
        if phase == Phase::Lapsed && on_crash != OnCrash::Rerun {
            self.arm.advance(HOLD);
        }
        assert_eq!(self.phase().await, phase, "{}: {}", self.arm.name(), self.name);
        Some(fence)
    }
}
