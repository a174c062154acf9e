//! Plain locks by plain commands, for servers that forbid scripts and where a caller chose it.
//!
//! One key; no fence, no "not after", no notes of who waits. What makes it safe at all is `SET … IFEQ` (Valkey 8.1, Redis
//! 8.4): renewing, swapping and releasing compare with the token and change in one step. Each exchange ends with `TIME`.

use std::time::Duration;

use lockkeeper_core::lock::{Holder, Lease, OwnerToken};
use lockkeeper_core::{Error, ErrorKind, Key, Keys, Timestamp, Uptime, WrongType};
use redis::{Cmd, Value, cmd};

use crate::error::CallError;
use crate::layout::side_key_of;
use crate::link::Up;
use crate::node::{Lane, Node};
use crate::port::Port;

/// So many times in a row it may change hands while we look, before it counts as busy.
const MAX_GONE: u32 = 4;
/// The rest of a lock that is released where nothing compares and deletes: the shortest expiry there is.
const AT_ONCE_MS: u64 = 1;
/// What stands there meanwhile: no renewal under way takes it for its own token.
const RELEASED: &[u8] = b"released by lockkeeper";
/// What the probe compares with, on a key that nobody uses.
const PROBE: &str = "probe";

/// A decision without scripts, and how what was done is read. Only for what this crate makes.
#[derive(Debug)]
pub struct Native<'a, R> {
    pub(crate) step: Step<'a>,
    pub(crate) read: fn(Done) -> Option<R>,
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    Take {
        token: &'a OwnerToken,
        lease: Lease,
    },
    Keep {
        token: &'a OwnerToken,
        lease: Lease,
    },
    Exchange {
        from: &'a OwnerToken,
        to: &'a OwnerToken,
        lease: Lease,
    },
    Free {
        token: &'a OwnerToken,
    },
    /// At any number of keys.
    Look,
    Nothing,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Done {
    /// It was taken, kept, exchanged or freed, as was asked.
    Yes,
    /// Nobody holds it.
    Gone,
    /// Somebody else does.
    Other(Seen),
    /// Who holds each key.
    Looked(Vec<Look>),
}

/// A holder, and how long they have left.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) holder: Holder,
    pub(crate) remaining: Option<Duration>,
}

/// What a key looks like.
#[derive(Debug)]
pub(crate) enum Look {
    Free,
    Held(Seen),
    WrongType,
}

/// How a lock is given back here, known once a connection was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `DELIFEQ` (Valkey 9).
    DelIfEq,
    /// `DELEX … IFEQ` (Redis 8.4).
    DelEx,
    /// `SET key released IFEQ token PX 1` (Valkey 8.1): it ends within a millisecond.
    Shorten,
}

/// Why it was not done.
pub(crate) enum NotDone {
    Call(CallError),
    Refused(Error),
}

impl From<CallError> for NotDone {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

type Replies = Vec<Result<Value, CallError>>;

/// One server without scripts.
pub(crate) struct Plain<'a> {
    pub(crate) node: &'a Node,
    pub(crate) lane: Lane,
    pub(crate) up: &'a mut Up,
    pub(crate) ends: Uptime,
    /// The server's time at the last exchange.
    pub(crate) at: Timestamp,
}

impl Plain<'_> {
    /// Does one step for a decision `D`.
    pub(crate) async fn run<D: Port>(&mut self, at: &Keys, step: Step<'_>) -> Result<Done, NotDone> {
        let several = at.as_slice().len() > 1 && !matches!(step, Step::Look);
        if several {
            return Err(NotDone::Refused(forbidden::<D>("a lock on several keys")));
        }
        let key = at.at(0);
        let way = self.way::<D>(key).await?;
        let done = match step {
            Step::Take { token, lease } => self.take(key, token, lease).await,
            Step::Keep { token, lease } => self.keep(key, token, lease).await,
            Step::Exchange { from, to, lease } => self.exchange(key, from, to, lease).await,
            Step::Free { token } => self.free(key, token, way).await,
            Step::Look => self.look(at).await,
            Step::Nothing => self.together(&[]).await.map(|_| Done::Yes),
        };
        done.map_err(|error| match error {
            CallError::Answered(words) if words.is_wrong_type() => {
                NotDone::Refused(WrongType { index: 0, side: false }.into_error::<D>(at))
            }
            error => NotDone::Call(error),
        })
    }

    /// How locks are given back here. Tried on a key that nobody uses, once per connection: permissions and proxies may
    /// stand against what a version promises.
    async fn way<D: Port>(&mut self, key: &Key) -> Result<Way, NotDone> {
        if let Some(way) = self.up.way() {
            return Ok(way);
        }
        let unused = side_key_of(key, PROBE);
        let swaps = compare_and_set(&unused, PROBE.as_bytes(), PROBE.as_bytes(), AT_ONCE_MS);
        let deletes = [del_if_eq(&unused, PROBE.as_bytes()), del_ex(&unused, PROBE.as_bytes())];
        let [one, other] = deletes;
        let replies = self.together(&[swaps, one, other]).await?;
        let says = |at: usize| replies.get(at).and_then(|reply| reply.as_ref().ok());
        if says(0) != Some(&Value::Nil) {
            let words = match replies.into_iter().next() {
                Some(Err(CallError::Answered(words))) => words.text().to_owned(),
                _ => "an unknown answer".to_owned(),
            };
            let detail = format!(
                "this server or user may not run scripts (EVAL, EVALSHA), and has no compare-and-set either (SET … \
                 IFEQ: {words}); nothing was taken"
            );
            return Err(NotDone::Refused(Error::new(ErrorKind::Unsupported, D::NAME, detail)));
        }
        let way = match (says(1), says(2)) {
            (Some(Value::Int(_)), _) => Way::DelIfEq,
            (_, Some(Value::Int(_))) => Way::DelEx,
            _ => Way::Shorten,
        };
        self.node.say_plain(way);
        self.up.set_way(way);
        Ok(way)
    }

    async fn take(&mut self, key: &Key, token: &OwnerToken, lease: Lease) -> Result<Done, CallError> {
        for _ in 0..MAX_GONE {
            let mut set = cmd("SET");
            set.arg(key.as_bytes()).arg(token.as_bytes()).arg("NX").arg("PX").arg(lease.as_millis());
            let mut replies = self.together(&[set, get(key), pttl(key)]).await?.into_iter();
            if next(&mut replies)? == Value::Okay {
                return Ok(Done::Yes);
            }
            match seen(&mut replies)? {
                // An earlier copy of ours, or somebody with the same token.
                Some(seen) if seen.is(token) => match self.keep(key, token, lease).await? {
                    Done::Gone => {}
                    done => return Ok(done),
                },
                Some(seen) => return Ok(Done::Other(seen)),
                // It ended just now, or was released and is about to.
                None => tokio::time::sleep(Duration::from_millis(AT_ONCE_MS)).await,
            }
        }
        // It changes hands faster than we can look.
        Ok(Done::Other(Seen { holder: Holder::new(b"", 0), remaining: Some(Duration::ZERO) }))
    }

    /// Two trips: a lease is never shortened, so what is left has to be known.
    async fn keep(&mut self, key: &Key, token: &OwnerToken, lease: Lease) -> Result<Done, CallError> {
        let mut replies = self.together(&[get(key), pttl(key)]).await?.into_iter();
        let seen = match seen(&mut replies)? {
            Some(seen) if seen.is(token) => seen,
            Some(other) => return Ok(Done::Other(other)),
            None => return Ok(Done::Gone),
        };
        let left = seen.remaining.map_or(0, |left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        self.exchange_for(key, token, token, lease.as_millis().max(left)).await
    }

    async fn exchange(
        &mut self,
        key: &Key,
        from: &OwnerToken,
        to: &OwnerToken,
        lease: Lease,
    ) -> Result<Done, CallError> {
        match self.exchange_for(key, from, to, lease.as_millis()).await? {
            // An earlier copy of ours.
            Done::Other(seen) if seen.is(to) => self.keep(key, to, lease).await,
            done => Ok(done),
        }
    }

    async fn exchange_for(
        &mut self,
        key: &Key,
        from: &OwnerToken,
        to: &OwnerToken,
        ms: u64,
    ) -> Result<Done, CallError> {
        let set = compare_and_set(key.as_bytes(), from.as_bytes(), to.as_bytes(), ms);
        let mut replies = self.together(&[set, get(key), pttl(key)]).await?.into_iter();
        if next(&mut replies)? == Value::Okay {
            return Ok(Done::Yes);
        }
        Ok(seen(&mut replies)?.map_or(Done::Gone, Done::Other))
    }

    async fn free(&mut self, key: &Key, token: &OwnerToken, way: Way) -> Result<Done, CallError> {
        let free = match way {
            Way::DelIfEq => del_if_eq(key.as_bytes(), token.as_bytes()),
            Way::DelEx => del_ex(key.as_bytes(), token.as_bytes()),
            Way::Shorten => compare_and_set(key.as_bytes(), token.as_bytes(), RELEASED, AT_ONCE_MS),
        };
        let mut replies = self.together(&[free, get(key), pttl(key)]).await?.into_iter();
        match next(&mut replies)? {
            Value::Okay | Value::Int(1) => Ok(Done::Yes),
            _ => Ok(seen(&mut replies)?.map_or(Done::Gone, Done::Other)),
        }
    }

    async fn look(&mut self, at: &Keys) -> Result<Done, CallError> {
        let commands: Vec<Cmd> = at.as_slice().iter().flat_map(|key| [get(key), pttl(key)]).collect();
        let mut replies = self.together(&commands).await?.into_iter();
        let look = |_| match seen(&mut replies) {
            Ok(found) => Ok(found.map_or(Look::Free, Look::Held)),
            Err(CallError::Answered(words)) if words.is_wrong_type() => Ok(Look::WrongType),
            Err(error) => Err(error),
        };
        at.as_slice().iter().map(look).collect::<Result<_, _>>().map(Done::Looked)
    }

    /// One round trip, after which the server's time is known.
    async fn together(&mut self, commands: &[Cmd]) -> Result<Replies, CallError> {
        let mut all = commands.to_vec();
        all.push(cmd("TIME"));
        let clock = self.node.clock();
        let sent = clock.uptime();
        let within = self.ends.since(sent);
        let mut replies = self.node.link(self.lane).send_together(self.up, &all, within).await?;
        let time = replies.pop().and_then(Result::ok);
        match time.and_then(|time| redis::from_redis_value::<(u64, u64)>(time).ok()) {
            Some((seconds, micros)) => {
                self.at = Timestamp::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros));
                clock.observe(sent, self.at);
            }
            None => self.at = clock.now(),
        }
        Ok(replies)
    }
}

impl Seen {
    fn is(&self, token: &OwnerToken) -> bool {
        self.holder == token.holder()
    }
}

fn get(key: &Key) -> Cmd {
    cmd("GET").arg(key.as_bytes()).to_owned()
}

fn pttl(key: &Key) -> Cmd {
    cmd("PTTL").arg(key.as_bytes()).to_owned()
}

fn compare_and_set(key: &[u8], from: &[u8], to: &[u8], ms: u64) -> Cmd {
    cmd("SET").arg(key).arg(to).arg("IFEQ").arg(from).arg("PX").arg(ms).to_owned()
}

fn del_if_eq(key: &[u8], token: &[u8]) -> Cmd {
    cmd("DELIFEQ").arg(key).arg(token).to_owned()
}

fn del_ex(key: &[u8], token: &[u8]) -> Cmd {
    cmd("DELEX").arg(key).arg("IFEQ").arg(token).to_owned()
}

fn next(replies: &mut impl Iterator<Item = Result<Value, CallError>>) -> Result<Value, CallError> {
    replies.next().unwrap_or_else(|| Err(CallError::Broken("an answer is missing".to_owned())))
}

/// The answers to `GET` and `PTTL`. `None`: nobody holds it.
fn seen(replies: &mut impl Iterator<Item = Result<Value, CallError>>) -> Result<Option<Seen>, CallError> {
    let (holder, left) = (next(replies), next(replies));
    let Value::BulkString(bytes) = holder? else { return Ok(None) };
    if bytes == RELEASED {
        return Ok(None);
    }
    let remaining = match left? {
        // It ended between the two.
        Value::Int(-2) => Some(Duration::ZERO),
        Value::Int(ms) => u64::try_from(ms).ok().map(Duration::from_millis),
        _ => None,
    };
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Ok(Some(Seen { holder: Holder::new(&bytes, length), remaining }))
}

/// It cannot be done without scripts.
pub(crate) fn forbidden<D: Port>(what: &str) -> Error {
    let detail = format!(
        "this server or user may not run scripts (EVAL, EVALSHA), which {what} needs; nothing was taken"
    );
    Error::new(ErrorKind::Unsupported, D::NAME, detail)
}
