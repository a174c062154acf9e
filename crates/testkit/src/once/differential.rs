//! Generated histories of idempotency, run on two arms that must answer and keep the same.

use std::time::Duration;

use lockkeeper::core::idempotency::{
    Abandon, Begin, BeginReply, Complete, Fingerprint, HowAbandoned, InspectOnce, KeepAlive, MAX_ATTEMPTS,
    MAX_ENDS, MAX_RETENTION, OnCrash, OnceInspection, Record, RecordState, Resolution, Resolve, Stored,
};
use lockkeeper::core::lock::{Fence, OwnerToken};
use lockkeeper::core::time::micros_of;
use lockkeeper::core::{Answer, Apply, Error, Keys, Timestamp};
use proptest::prelude::*;

use super::ask::retention;
use crate::arm::{OnceArm, OncePlant, once_key};
use crate::differential::{lease, shown};

/// Few, so that they collide; with every shape of braces.
const NAMES: [&str; 3] = ["o", "{t}o", "o{"];
const TOKENS: u8 = 4;
const WITHIN: Duration = Duration::from_secs(5);
const DAY_US: u64 = 86_400_000_000;

/// One step of a history. `name` is a number of a name; tokens and requests are numbers.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of the decisions")]
pub enum Step {
    /// Claims. `seen_us` is from now.
    Begin { name: u8, token: u8, lease_ms: u64, hold_us: u64, retain_us: u64, request: u8, seen_us: i64 },
    /// A sign of life.
    KeepAlive { name: u8, token: u8, lease_ms: u64 },
    /// The end.
    Complete { name: u8, token: u8, stored: Stored, retain_us: u64 },
    /// The end without a result.
    Abandon { name: u8, token: u8, how: HowAbandoned },
    /// An operator's word about the fence that is shown, or one beside it.
    Resolve { name: u8, beside: i64, token: u8, resolution: Resolution, retain_us: u64 },
    /// Lets time pass.
    Advance { us: u64 },
    /// Lets time pass to the end of a phase, or a microsecond beside it.
    AdvanceToEnd { name: u8, beside: i64 },
    /// The server's clock is set back.
    StepBack { us: u64 },
    /// A foreign client acts.
    Plant { name: u8, plant: OncePlant },
    /// A foreign client writes a record; its times are from now.
    Record { name: u8, shape: Shape, ttl_ms: Option<u64> },
    /// A foreign client changes one byte of what is kept.
    Spoil { name: u8, at: usize, byte: u8 },
}

/// A record whose times are from now.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are those of a record")]
pub struct Shape {
    pub state: RecordState,
    pub fence_us: i64,
    pub attempt: u64,
    pub ends_us: i64,
    pub hold_us: u64,
    pub retain_us: u64,
    pub request: u8,
    pub token: u8,
}

/// Histories of up to `most` steps.
pub fn histories(most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(steps(), 1..most)
}

fn steps() -> impl Strategy<Value = Step> {
    // Mostly the same, so that an attempt lives through several steps.
    let name = || prop_oneof![2 => Just(0u8), 3 => 0..NAMES.len() as u8];
    let token = || prop_oneof![2 => Just(1u8), 3 => 0..TOKENS];
    let beside = || prop_oneof![8 => Just(0i64), 1 => Just(-1i64), 1 => Just(1i64)];
    let how = prop_oneof![Just(HowAbandoned::Undone), Just(HowAbandoned::Crashed)];
    let resolution = prop_oneof![Just(Resolution::Undone), results().prop_map(Resolution::Completed)];
    prop_oneof![
        10 => (name(), token(), leases(), holds(), retentions(), 0..2u8, seen()).prop_map(
            |(name, token, lease_ms, hold_us, retain_us, request, seen_us)| Step::Begin {
                name, token, lease_ms, hold_us, retain_us, request, seen_us
            }
        ),
        3 => (name(), token(), leases()).prop_map(|(name, token, lease_ms)| Step::KeepAlive { name, token, lease_ms }),
        4 => (name(), token(), results(), retentions())
            .prop_map(|(name, token, stored, retain_us)| Step::Complete { name, token, stored, retain_us }),
        3 => (name(), token(), how).prop_map(|(name, token, how)| Step::Abandon { name, token, how }),
        2 => (name(), beside(), token(), resolution, retentions()).prop_map(
            |(name, beside, token, resolution, retain_us)| Step::Resolve { name, beside, token, resolution, retain_us }
        ),
        3 => advances().prop_map(|us| Step::Advance { us }),
        3 => (name(), -1i64..2).prop_map(|(name, beside)| Step::AdvanceToEnd { name, beside }),
        1 => prop_oneof![1u64..2_000_000, Just(3_600_000_000)].prop_map(|us| Step::StepBack { us }),
        2 => (name(), plants()).prop_map(|(name, plant)| Step::Plant { name, plant }),
        1 => (name(), shapes(), prop::option::of(1u64..20_000))
            .prop_map(|(name, shape, ttl_ms)| Step::Record { name, shape, ttl_ms }),
        1 => (name(), 0..200usize, byte()).prop_map(|(name, at, byte)| Step::Spoil { name, at, byte }),
    ]
}

fn leases() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(10u64), 6 => 10u64..5000, 1 => Just(31_536_000_000)]
}

fn holds() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(0u64), 1 => Just(1u64), 4 => 1u64..5_000_000, 1 => Just(micros_of(MAX_RETENTION))]
}

fn retentions() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(1_000_000u64), 6 => 1_000_000u64..9_000_000, 1 => Just(micros_of(MAX_RETENTION))]
}

fn seen() -> impl Strategy<Value = i64> {
    prop_oneof![6 => Just(i64::MIN), 2 => -5_000_000i64..90_000_000, 1 => Just(i64::MAX)]
}

fn advances() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..3, 0u64..2000, 0u64..3_000_000, 0u64..12_000_000, Just(180_000_000_000)]
}

fn results() -> impl Strategy<Value = Stored> {
    // Up to where a record is longer than what the scripts read of it.
    let bytes = prop_oneof![4 => 0..40usize, 2 => 0..600usize, 1 => Just(3000usize)];
    (bytes, any::<u8>(), prop::bool::weighted(0.8)).prop_map(|(many, first, whole)| {
        let bytes: Vec<u8> = (0..many).map(|at| first.wrapping_add((at % 256) as u8)).collect();
        let stored = if whole { Stored::whole(bytes) } else { Stored::not_kept(bytes) };
        stored.expect("a result")
    })
}

fn plants() -> impl Strategy<Value = OncePlant> {
    let text = prop::sample::select(vec![
        "",
        "once1",
        "once1 r 1 1",
        "once1 t 1 1",
        "{\"status\":201}",
        "once2 r 1 1 1 0 0 x 0 1 x",
    ]);
    prop_oneof![
        2 => text.prop_map(|text| OncePlant::Bytes(text.as_bytes().to_vec(), None)),
        1 => prop::collection::vec(any::<u8>(), 0..600).prop_map(|bytes| OncePlant::Bytes(bytes, None)),
        1 => Just(OncePlant::List),
        4 => Just(OncePlant::Persist),
        2 => Just(OncePlant::Gone),
    ]
}

fn shapes() -> impl Strategy<Value = Shape> {
    let state = prop_oneof![
        2 => any::<bool>().prop_map(|takeover| RecordState::Running { takeover }),
        1 => Just(RecordState::Open),
        1 => results().prop_map(RecordState::Completed)
    ];
    let near = || -3_000_000i64..9_000_000;
    let attempt = prop_oneof![1u64..9, Just(MAX_ATTEMPTS - 1), Just(MAX_ATTEMPTS), Just(MAX_ATTEMPTS + 1)];
    let ends = prop_oneof![8 => near(), 1 => Just(i64::MAX), 1 => Just(i64::MAX - 1)];
    // Retained for no time at all, a record would end where it begins, which a server does not keep for a moment.
    let retain = prop_oneof![4 => 1u64..9_000_000, 1 => Just(micros_of(MAX_RETENTION) + 1)];
    (state, near(), attempt, ends, holds(), retain, 0..2u8, 0..TOKENS).prop_map(
        |(state, fence_us, attempt, ends_us, hold_us, retain_us, request, token)| Shape {
            state,
            fence_us,
            attempt,
            ends_us,
            hold_us,
            retain_us,
            request,
            token,
        },
    )
}

/// What a number, a letter or a separator may become.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![4 => b'0'..=b'9', 2 => prop::sample::select(b" rtcoxAf-.+e\0\n".to_vec()), 1 => any::<u8>()]
}

/// Runs a history on both arms, comparing every answer and, after every step, what is kept and what is seen.
///
/// # Errors
/// The first step that was answered differently.
pub async fn compare(left: &impl OnceArm, right: &impl OnceArm, history: &[Step]) -> Result<(), String> {
    for (at, step) in history.iter().enumerate() {
        let (one, other) = (run(left, step).await, run(right, step).await);
        if one != other {
            return Err(format!("step {at}, {step:?}:\n {}: {one}\n {}: {other}", left.name(), right.name()));
        }
        let (one, other) = (look(left).await, look(right).await);
        if one != other {
            let (left, right) = (left.name(), right.name());
            return Err(format!("after step {at}, {step:?}:\n {left}: {one}\n {right}: {other}"));
        }
    }
    Ok(())
}

/// Removes what a history left, so that the next one starts from nothing.
pub fn clean(arm: &impl OnceArm) {
    NAMES.iter().for_each(|name| arm.plant_once(&once_key(name), &OncePlant::Gone));
}

async fn look(arm: &impl OnceArm) -> String {
    let mut seen = String::new();
    for (number, name) in (0..).zip(NAMES) {
        seen += &shown(inspect(arm, number).await);
        seen += &format!(" {:?}\n", arm.kept_once(&once_key(name)));
    }
    seen
}

async fn inspect(arm: &impl OnceArm, name: u8) -> Result<Answer<Option<OnceInspection>>, Error> {
    arm.once().apply(&at(name), InspectOnce, WITHIN).await
}

async fn run(arm: &impl OnceArm, step: &Step) -> String {
    let not_after = Timestamp::MAX;
    match step.clone() {
        Step::Begin { name, token, lease_ms, hold_us, retain_us, request, seen_us } => {
            let seen = now(arm).await.as_micros().saturating_add_signed(seen_us);
            let (token, lease, retain) = (token_of(token), lease(lease_ms), retention(us(retain_us)));
            let (on_crash, fingerprint) = (on_crash(hold_us), Fingerprint::new([request; 32]));
            let decision = Begin { token, lease, on_crash, retain, fingerprint, seen, not_after };
            let answer = arm.once().apply(&at(name), decision, WITHIN).await;
            // How it is shown says how long a result is.
            let result = match &answer {
                Ok(Answer { reply: BeginReply::Completed { stored, .. }, .. }) => stored.bytes().to_vec(),
                _ => Vec::new(),
            };
            format!("{} {}", shown(answer), result.escape_ascii())
        }
        Step::KeepAlive { name, token, lease_ms } => {
            let (token, lease) = (token_of(token), lease(lease_ms));
            ask(arm, name, KeepAlive { token, lease, not_after }).await
        }
        Step::Complete { name, token, stored, retain_us } => {
            let (token, retain) = (token_of(token), retention(us(retain_us)));
            ask(arm, name, Complete { token, stored, retain }).await
        }
        Step::Abandon { name, token, how } => ask(arm, name, Abandon { token: token_of(token), how }).await,
        Step::Resolve { name, beside, token, resolution, retain_us } => {
            let seen = inspect(arm, name).await.ok().and_then(|answer| answer.reply);
            let fence = seen.map_or(7, |seen| seen.fence.get()).saturating_add_signed(beside);
            let (fence, token, retain) = (Fence::new(fence), token_of(token), retention(us(retain_us)));
            ask(arm, name, Resolve { fence, token, resolution, retain, not_after }).await
        }
        other => {
            disturb(arm, other).await;
            String::new()
        }
    }
}

async fn ask<A: OnceArm, D>(arm: &A, name: u8, decision: D) -> String
where
    A::Store: Apply<D>,
    D: lockkeeper::core::Decision<Reply: std::fmt::Debug>,
{
    shown(arm.once().apply(&at(name), decision, WITHIN).await)
}

/// What nobody answers.
async fn disturb(arm: &impl OnceArm, step: Step) {
    let key = |name: u8| once_key(NAMES[usize::from(name)]);
    match step {
        Step::AdvanceToEnd { name, beside } => {
            let seen = inspect(arm, name).await.ok().and_then(|answer| answer.reply);
            let left = seen.map_or(0, |seen| micros_of(seen.remaining));
            arm.advance(us(left.saturating_add_signed(beside).min(DAY_US)));
        }
        Step::StepBack { us: back } => {
            // What has expired is removed first: a store may do so at any moment, or leave it to the next decision.
            for name in 0..NAMES.len() as u8 {
                let how = HowAbandoned::Crashed;
                ask(arm, name, Abandon { token: OwnerToken::given("stranger").expect("a token"), how }).await;
            }
            arm.step_back(us(back));
        }
        Step::Plant { name, plant } => arm.plant_once(&key(name), &plant),
        Step::Record { name, shape, ttl_ms } => {
            let record = shape.record(now(arm).await).to_bytes();
            arm.plant_once(&key(name), &OncePlant::Bytes(record, ttl_ms));
        }
        Step::Spoil { name, at, byte } => spoil(arm, &key(name), at, byte),
        Step::Advance { us: length } => arm.advance(us(length)),
        asked => panic!("{asked:?} is answered"),
    }
}

fn spoil(arm: &impl OnceArm, key: &lockkeeper::core::Key, at: usize, byte: u8) {
    let crate::arm::OnceKept::Record(mut bytes, ttl) = arm.kept_once(key) else { return };
    let at = at % bytes.len();
    bytes[at] = byte;
    // A number that begins with a zero is written anew without it by one who writes, which only a server's text shows.
    let is_ours = |record: &Record| record.to_bytes() == bytes && record.retain > 0;
    if Record::from_bytes(&bytes).is_none_or(|record| is_ours(&record)) {
        arm.plant_once(key, &OncePlant::Bytes(bytes, ttl.filter(|ttl| *ttl > 0)));
    }
}

impl Shape {
    fn record(self, now: Timestamp) -> Record {
        let ends = match self.ends_us {
            i64::MAX => MAX_ENDS + 1,
            last if last == i64::MAX - 1 => MAX_ENDS,
            near => now.as_micros().saturating_add_signed(near),
        };
        Record {
            state: self.state,
            fence: now.as_micros().saturating_add_signed(self.fence_us),
            attempt: self.attempt,
            ends,
            hold: self.hold_us,
            retain: self.retain_us,
            fingerprint: Fingerprint::new([self.request; 32]),
            token: token_of(self.token),
        }
    }
}

async fn now(arm: &impl OnceArm) -> Timestamp {
    let unused = Keys::from(once_key("clock"));
    arm.once().apply(&unused, InspectOnce, WITHIN).await.expect("an answer").at
}

/// Binary ones, one of them as long as they get.
fn token_of(number: u8) -> OwnerToken {
    let long = [b" \0%s".as_slice(), &[0xff; 252]].concat();
    let token = if number == 0 { long } else { vec![b't', number, 0, b' ', 0xfe] };
    OwnerToken::given(token).expect("a token")
}

fn on_crash(hold_us: u64) -> OnCrash {
    if hold_us == 0 { OnCrash::Rerun } else { OnCrash::Hold(us(hold_us)) }
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn at(name: u8) -> Keys {
    Keys::from(once_key(NAMES[usize::from(name)]))
}
