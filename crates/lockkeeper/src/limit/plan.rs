//! What a limiter counts, and under which keys.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::limit::{Algorithm, Limit, Quota, Standing, Subject};
use lockkeeper_core::{Error, Key, Keys, Prefix, Uptime};
use smallvec::SmallVec;

/// The limits of a limiter, or of several together.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) prefix: Prefix,
    pub(super) parts: Vec<Part>,
    /// Of those parts that count something, in their order.
    pub(super) quotas: Arc<[Quota]>,
    /// One of the limits lets nothing pass.
    pub(super) passes_nothing: bool,
}

/// One limit.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) limiter: Arc<str>,
    pub(super) limit: Limit,
    /// Which of the subjects it counts.
    subject: usize,
    /// `name:tag:`
    base: Box<[u8]>,
    /// The subject is the key's hash tag: the limiter has several limits, and they go into one cluster slot.
    is_tagged: bool,
}

impl Plan {
    /// One limiter's.
    ///
    /// # Errors
    /// The digests of two limits happen to be the same.
    pub(super) fn new(prefix: &Prefix, name: &Arc<str>, limits: &[Limit]) -> Result<Self, Error> {
        let counting = || limits.iter().filter_map(|limit| limit.quota().map(|quota| (*limit, quota)));
        let is_tagged = counting().count() > 1 && !has_tag(prefix.as_bytes());
        let parts = counting().map(|(limit, quota)| Part {
            limiter: name.clone(),
            limit,
            subject: 0,
            base: [name.as_bytes(), b":", &quota.tag(), b":"].concat().into(),
            is_tagged,
        });
        let parts: Vec<Part> = parts.collect();
        let twice = parts.iter().enumerate().find_map(|(at, part)| {
            parts[..at].iter().find(|other| other.base == part.base).map(|other| (other, part))
        });
        if let Some((one, other)) = twice {
            let detail = format!(
                "`{}` and `{}` would share a key by chance; change one of the numbers a little",
                one.limit, other.limit
            );
            return Err(Error::bad_argument("limiter", detail).with_key(name));
        }
        Ok(Self {
            prefix: prefix.clone(),
            parts,
            quotas: counting().map(|(_, quota)| quota).collect(),
            passes_nothing: limits.contains(&Limit::Nothing),
        })
    }

    /// Several limiters' as one; the i-th counts the i-th subject.
    pub(super) fn joined<'a>(plans: impl Iterator<Item = &'a Arc<Self>>) -> Self {
        let plans: Vec<_> = plans.collect();
        let of_plan = |(subject, plan): (usize, &&Arc<Self>)| {
            plan.parts.iter().map(move |part| Part { subject, ..part.clone() }).collect::<Vec<_>>()
        };
        Self {
            prefix: plans[0].prefix.clone(),
            parts: plans.iter().enumerate().flat_map(of_plan).collect(),
            quotas: plans.iter().flat_map(|plan| plan.quotas.iter().copied()).collect(),
            passes_nothing: plans.iter().any(|plan| plan.passes_nothing),
        }
    }

    /// The keys of `subjects`, one for each quota.
    ///
    /// # Errors
    /// Two limits would share a key.
    pub(super) fn keys(&self, subjects: &[Subject]) -> Result<Keys, Error> {
        match &self.parts[..] {
            [part] => Ok(part.key(&self.prefix, subjects)?.into()),
            parts => {
                let keys: Result<_, Error> =
                    parts.iter().map(|part| part.key(&self.prefix, subjects)).collect();
                Keys::in_order(keys?)
            }
        }
    }

    /// Until when what a call at `sent` was charged may be given back: later, the quota has come back by itself, and a
    /// second time would be a gift. `standings` are those of the charge.
    pub(super) fn returnable_until(&self, standings: &[Standing], sent: Uptime) -> Uptime {
        let until = self.quotas.iter().zip(standings).map(|(quota, standing)| {
            // A sliding counter gives back to the running window only.
            let passed = match quota.algorithm() {
                Algorithm::SlidingCounter { .. } => quota.window(),
                _ => Duration::ZERO,
            };
            sent.after(standing.reset.saturating_sub(passed))
        });
        until.min().unwrap_or(sent)
    }

    /// The bytes of `subject`'s key, on the stack unless they are many, where there is one limit.
    pub(super) fn one_key(&self, subject: &Subject) -> Option<SmallVec<[u8; 128]>> {
        let [part] = &self.parts[..] else { return None };
        let mut key = SmallVec::from_slice(self.prefix.as_bytes());
        key.extend_from_slice(&part.base);
        key.extend_from_slice(subject.as_bytes());
        Some(key)
    }

    /// All keys of any call lie in one cluster slot.
    pub(super) fn is_in_one_slot(&self) -> bool {
        let is_of_one = self.parts.iter().all(|part| part.subject == 0) && self.parts.len() <= 1;
        is_of_one || has_tag(self.prefix.as_bytes())
    }
}

impl Part {
    fn key(&self, prefix: &Prefix, subjects: &[Subject]) -> Result<Key, Error> {
        let subject = subjects[self.subject].as_bytes();
        // On the stack, unless it is long: every check makes a key.
        let mut name = SmallVec::<[u8; 128]>::from_slice(&self.base);
        if self.is_tagged {
            name.push(b'{');
        }
        name.extend_from_slice(subject);
        if self.is_tagged {
            name.push(b'}');
        }
        Key::new(prefix, name)
    }
}

/// A prefix has a hash tag, or no braces at all.
fn has_tag(prefix: &[u8]) -> bool {
    prefix.contains(&b'{')
}
