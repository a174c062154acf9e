//! Checks of the same keys that come while one is under way go together in the next call.
//!
//! Nothing waits in order to be batched: a lone check is sent at once. Verdicts are those of one by one, in the order in
//! which the checks came.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::limit::{Ask, Asks, Check, CheckReply, Checked, Quota};
use lockkeeper_core::{Error, ErrorKind, Keys, Timestamp};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::away::is_silent;
use super::calls::Calls;

/// So many checks go together.
const MAX_BATCH: usize = 512;
/// So many wait for one key. One that finds no place is sent by itself.
const MAX_WAITING: usize = 16 * MAX_BATCH;

/// The checks of one limiter.
pub(super) struct Batches {
    shared: Arc<Shared>,
}

struct Shared {
    calls: Calls,
    quotas: Arc<[Quota]>,
    within: Duration,
    /// There is a line for each set of keys that has a call under way.
    lines: Mutex<HashMap<Keys, Line>>,
}

type Line = VecDeque<Member>;

/// A check that waits for the call under way.
struct Member {
    ask: Ask,
    to: oneshot::Sender<Result<Checked, Error>>,
}

impl Batches {
    /// Each call is answered `within` that time, or fails.
    pub(super) fn new(calls: Calls, quotas: Arc<[Quota]>, within: Duration) -> Self {
        Self { shared: Arc::new(Shared { calls, quotas, within, lines: Mutex::default() }) }
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.shared.calls
    }

    /// Checks by itself, or with others.
    ///
    /// # Cancel safety
    /// Not sent yet: it takes nothing. Sent: it is charged.
    pub(super) async fn check(&self, keys: &Keys, ask: Ask) -> Result<Checked, Error> {
        let shared = &self.shared;
        match shared.join(keys, ask) {
            Joined::First => {
                // Those who come meanwhile are sent for when this ends, however it ends.
                let _flight = Flight { shared, keys };
                shared.send_one(keys, ask).await
            }
            Joined::Waits(answer) => answer.await.unwrap_or_else(|_| Err(nobody_left(keys))),
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
        let Some(batch) = self.shared.next_batch(self.keys) else { return };
        let (shared, keys) = (self.shared.clone(), self.keys.clone());
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(shared.drive(keys, batch))),
            Err(_) => shared.dissolve(&keys, &nobody_left(&keys)),
        }
    }
}

impl Shared {
    fn join(&self, keys: &Keys, ask: Ask) -> Joined {
        let mut lines = self.lines.lock();
        let Some(line) = lines.get_mut(keys) else {
            lines.insert(keys.clone(), Line::new());
            return Joined::First;
        };
        if line.len() >= MAX_WAITING {
            return Joined::Full;
        }
        let (to, answer) = oneshot::channel();
        line.push_back(Member { ask, to });
        Joined::Waits(answer)
    }

    /// The next ones to go. `None`: nobody waits, and the line is gone.
    fn next_batch(&self, keys: &Keys) -> Option<Vec<Member>> {
        let mut lines = self.lines.lock();
        let line = lines.get_mut(keys)?;
        let mut batch = Vec::with_capacity(line.len().min(MAX_BATCH));
        while batch.len() < MAX_BATCH {
            match line.pop_front() {
                // Those who went away are not sent.
                Some(member) if member.to.is_closed() => {}
                Some(member) => batch.push(member),
                None => break,
            }
        }
        if batch.is_empty() {
            lines.remove(keys);
            return None;
        }
        Some(batch)
    }

    /// Sends batch after batch until nobody waits.
    async fn drive(self: Arc<Self>, keys: Keys, mut batch: Vec<Member>) {
        let mut line = Dissolving { shared: &self, keys: &keys, armed: true };
        loop {
            let asks: Asks = batch.iter().map(|member| member.ask).collect();
            match self.send(&keys, asks).await {
                Ok(reply) => {
                    let answered = batch.into_iter().zip(reply.checked);
                    answered.for_each(|(member, checked)| _ = member.to.send(Ok(checked)));
                }
                Err(error) => {
                    fail(batch, &error);
                    if is_silent(&error) {
                        // Those behind would wait for one silent call after another.
                        self.dissolve(&keys, &not_sent(&keys));
                        break;
                    }
                }
            }
            match self.next_batch(&keys) {
                Some(next) => batch = next,
                None => break,
            }
        }
        line.armed = false;
    }

    async fn send_one(&self, keys: &Keys, ask: Ask) -> Result<Checked, Error> {
        let mut reply = self.send(keys, Asks::from_buf([ask])).await?;
        reply
            .checked
            .pop()
            .ok_or_else(|| Error::new(ErrorKind::Protocol, "check", "no verdict").with_key(keys))
    }

    async fn send(&self, keys: &Keys, asks: Asks) -> Result<CheckReply, Error> {
        let check = Check { quotas: self.quotas.clone(), asks, not_after: Timestamp::MAX };
        let answer = self.calls.inner.backend.apply_limit(keys, check, self.within).await;
        let result = answer.map(|answer| answer.reply);
        self.calls.note(&result);
        result
    }

    /// Nobody drives the line any more: all who wait there were not sent.
    fn dissolve(&self, keys: &Keys, why: &Error) {
        let line = self.lines.lock().remove(keys);
        fail(line.unwrap_or_default(), why);
    }
}

/// Dissolves the line when its driver is dropped, with the runtime that it ran on.
struct Dissolving<'a> {
    shared: &'a Shared,
    keys: &'a Keys,
    armed: bool,
}

impl Drop for Dissolving<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.shared.dissolve(self.keys, &nobody_left(self.keys));
        }
    }
}

fn fail(members: impl IntoIterator<Item = Member>, error: &Error) {
    members.into_iter().for_each(|member| _ = member.to.send(Err(error.clone())));
}

fn not_sent(keys: &Keys) -> Error {
    let detail = "the call before it had no answer, so it was not sent";
    Error::new(ErrorKind::Unreachable, "check", detail).with_key(keys)
}

fn nobody_left(keys: &Keys) -> Error {
    Error::new(ErrorKind::Unreachable, "check", "the runtime that was to send it has ended").with_key(keys)
}
