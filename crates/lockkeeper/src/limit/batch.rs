//! Checks of the same keys that come while one is under way go together in the next call.
//!
//! Nothing waits in order to be batched: a lone check is sent at once. Verdicts are those of one by one, in the order in
//! which the checks came.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::limit::{Ask, Asks, Check, CheckReply, Checked, Quota};
use lockkeeper_core::{Error, ErrorKind, Keys, Timestamp, Uptime};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::away::is_silent;
use super::calls::Calls;

/// So many checks go together.
const MAX_BATCH: usize = 512;
/// So many wait for one key. One that finds no place is sent by itself.
const MAX_WAITING: usize = 16 * MAX_BATCH;
/// Who has less left than this part of a call's time is not sent any more.
const SHORTEST_PART: u32 = 4;

/// The checks of one limiter.
pub(super) struct Batches {
    shared: Arc<Shared>,
}

struct Shared {
    calls: Calls,
    quotas: Arc<[Quota]>,
    /// For one call.
    within: Duration,
    /// There is a line for each set of keys that has a call under way.
    lines: Mutex<HashMap<Keys, Line>>,
}

type Line = VecDeque<Member>;

/// A check that waits for the call under way.
struct Member {
    ask: Ask,
    /// When its caller came.
    came: Uptime,
    to: oneshot::Sender<Result<Checked, Error>>,
}

/// Those who go together, and how long their call may take.
struct Batch {
    members: Vec<Member>,
    within: Duration,
}

impl Batches {
    /// Each call is answered `within` that time, or fails; who waits for one and goes with the next, within twice that
    /// time.
    pub(super) fn new(calls: Calls, quotas: Arc<[Quota]>, within: Duration) -> Self {
        Self { shared: Arc::new(Shared { calls, quotas, within, lines: Mutex::default() }) }
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.shared.calls
    }

    /// Checks by itself, or with others, for one who `came` then.
    ///
    /// # Cancel safety
    /// Not sent yet: it takes nothing. Sent: it is charged.
    pub(super) async fn check(&self, keys: &Keys, ask: Ask, came: Uptime) -> Result<Checked, Error> {
        let shared = &self.shared;
        match shared.join(keys, ask, came) {
            Joined::First => {
                // Those who come meanwhile are sent for when this ends, however it ends.
                let _flight = Flight { shared, keys };
                shared.send_one(keys, ask).await
            }
            // Who drops it without a word had sent it: those who were not sent are told.
            Joined::Waits(answer) => answer.await.unwrap_or_else(|_| Err(driver_gone(keys))),
            Joined::Full => shared.send_one(keys, ask).await,
        }
    }
}

enum Joined {
    First,
    Waits(oneshot::Receiver<Result<Checked, Error>>),
    Full,
}

/// The call under way for a line.
struct Flight<'a> {
    shared: &'a Arc<Shared>,
    keys: &'a Keys,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.shared.ends(self.keys) {
            return;
        }
        let driver = Driver { shared: self.shared.clone(), keys: self.keys.clone(), is_done: false };
        // Where nothing runs it, now or ever, it is dropped.
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(driver.run()));
        }
    }
}

/// Sends batch after batch until nobody waits. Dropped before that, also before it ever ran, it dissolves the line: its
/// runtime has ended, and those who wait may be on another one.
struct Driver {
    shared: Arc<Shared>,
    keys: Keys,
    is_done: bool,
}

impl Driver {
    async fn run(mut self) {
        let (shared, keys) = (&self.shared, &self.keys);
        while let Some(Batch { members, within }) = shared.next_batch(keys) {
            let asks: Asks = members.iter().map(|member| member.ask).collect();
            match shared.send(keys, asks, within).await {
                Ok(reply) => {
                    let answered = members.into_iter().zip(reply.checked);
                    answered.for_each(|(member, checked)| _ = member.to.send(Ok(checked)));
                }
                Err(error) => {
                    fail(members, &error);
                    if is_silent(&error) {
                        // Those behind would wait for one silent call after another.
                        shared.dissolve(keys, &not_sent(keys));
                        break;
                    }
                }
            }
        }
        self.is_done = true;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.dissolve(&self.keys, &nobody_left(&self.keys));
        }
    }
}

impl Shared {
    fn join(&self, keys: &Keys, ask: Ask, came: Uptime) -> Joined {
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(keys) else {
            lines.insert(keys.clone(), Line::new());
            return Joined::First;
        };
        if line.len() >= MAX_WAITING {
            return Joined::Full;
        }
        let (to, answer) = oneshot::channel();
        line.push_back(Member { ask, came, to });
        Joined::Waits(answer)
    }

    /// Nobody waits, and the line is gone.
    fn ends(&self, keys: &Keys) -> bool {
        let mut lines = self.lines.lock();
        let is_empty = lines.get(keys).is_none_or(VecDeque::is_empty);
        if is_empty {
            lines.remove(keys);
        }
        is_empty
    }

    /// The next ones to go. `None`: nobody waits, and the line is gone.
    fn next_batch(&self, keys: &Keys) -> Option<Batch> {
        let now = self.calls.inner.clock.uptime();
        let (mut members, mut within, mut late) = (Vec::new(), self.within, Vec::new());
        let mut lines = self.lines.lock();
        let line = lines.get_mut(keys)?;
        members.reserve(line.len().min(MAX_BATCH));
        while members.len() < MAX_BATCH {
            match line.pop_front() {
                None => break,
                // Those who went away are not sent,
                Some(member) if member.to.is_closed() => {}
                // nor are those who could hardly be answered in time.
                Some(member) if self.left(&member, now) < self.within / SHORTEST_PART => late.push(member),
                Some(member) => {
                    within = within.min(self.left(&member, now));
                    members.push(member);
                }
            }
        }
        if members.is_empty() {
            lines.remove(keys);
        }
        drop(lines);
        fail(late, &no_time(keys));
        (!members.is_empty()).then_some(Batch { members, within })
    }

    /// How long it may wait yet: for one call that was under way, and for its own.
    fn left(&self, member: &Member, now: Uptime) -> Duration {
        member.came.after(self.within).after(self.within).since(now)
    }

    async fn send_one(&self, keys: &Keys, ask: Ask) -> Result<Checked, Error> {
        let mut reply = self.send(keys, Asks::from_buf([ask]), self.within).await?;
        reply
            .checked
            .pop()
            .ok_or_else(|| Error::new(ErrorKind::Protocol, "check", "no verdict").with_key(keys))
    }

    async fn send(&self, keys: &Keys, asks: Asks, within: Duration) -> Result<CheckReply, Error> {
        let check = Check { quotas: self.quotas.clone(), asks, not_after: Timestamp::MAX };
        let answer = self.calls.inner.backend.apply_limit(keys, check, within).await;
        let result = answer.map(|answer| answer.reply);
        self.calls.note(keys, &result);
        result
    }

    /// Nobody drives the line any more: all who wait there were not sent.
    fn dissolve(&self, keys: &Keys, why: &Error) {
        let line = self.lines.lock().remove(keys);
        fail(line.unwrap_or_default(), why);
    }
}

fn fail(members: impl IntoIterator<Item = Member>, error: &Error) {
    members.into_iter().for_each(|member| _ = member.to.send(Err(error.clone())));
}

fn not_sent(keys: &Keys) -> Error {
    let detail = "the call before it had no answer, so it was not sent";
    Error::new(ErrorKind::Unreachable, "check", detail).with_key(keys)
}

fn no_time(keys: &Keys) -> Error {
    let detail = "the calls before it took so long that there was no time left to send it";
    Error::new(ErrorKind::Unreachable, "check", detail).with_key(keys)
}

fn nobody_left(keys: &Keys) -> Error {
    Error::new(ErrorKind::Unreachable, "check", "the runtime that was to send it has ended").with_key(keys)
}

fn driver_gone(keys: &Keys) -> Error {
    let (kind, detail) =
        (ErrorKind::OutcomeUnknown { not_after: None }, "the runtime that sent it has ended");
    Error::new(kind, "check", detail).with_key(keys)
}
