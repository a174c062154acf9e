//! Looking: who holds, by the word of a majority; and listing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lockkeeper_core::lock::{Fence, Holder, Inspect, Inspection, KeeperName, Leave, Waiter};
use lockkeeper_core::{Answer, Apply, Error, ErrorKind, Key, Keys, Prefix};

use super::ledger::Nodes;
use super::votes::most_telling;
use super::{QuorumStore, Shared};
use crate::scan::Cursor;

/// Where a listing of several servers goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumCursor {
    node: usize,
    at: Option<Cursor>,
}

impl Shared {
    /// What each server that votes says of `at`.
    async fn look_at_each(
        self: &Arc<Self>,
        store: &QuorumStore,
        at: &Keys,
        within: Duration,
        is_enough: impl Fn(&[(usize, Vec<Inspection>)]) -> bool,
    ) -> Result<Vec<(usize, Vec<Inspection>)>, Error> {
        let roll = self.voters("inspect", within).await?;
        let mut flight = self.send_all(store.lane, at, &Inspect, within, &roll);
        let (mut seen, mut errors) = (Vec::new(), Vec::new());
        while !is_enough(&seen) {
            match flight.next().await {
                Some((node, Ok(answer))) => seen.push((node, answer.reply)),
                Some((node, Err(error))) => errors.push((node, error)),
                None => break,
            }
        }
        if self.majority.is_reached(seen.len()) {
            return Ok(seen);
        }
        let (answered, nodes, needed) = (seen.len(), self.majority.nodes(), self.majority.needed());
        let words = format!("{answered} of {nodes} servers answered, and {needed} are needed");
        Err(most_telling("inspect", &errors, |node| self.name(node), &words))
    }

    /// The key is known to be held, or known not to be: by a majority of all servers.
    fn is_known(&self, seen: &[(usize, Vec<Inspection>)], index: usize) -> bool {
        let open = self.nodes.len() - seen.len();
        let most = self.most(seen, index).map_or(0, |(_, left)| left.len());
        self.majority.is_reached(seen.len())
            && (self.majority.is_reached(most) || !self.majority.is_reached(most + open))
    }

    /// What is known of each key, and whom it was heard from.
    async fn look_at_all(
        self: &Arc<Self>,
        store: &QuorumStore,
        at: &Keys,
        within: Duration,
    ) -> Result<(Vec<Option<Inspection>>, Nodes), Error> {
        let indices = || 0..at.as_slice().len();
        let is_enough = |seen: &[(usize, Vec<Inspection>)]| indices().all(|index| self.is_known(seen, index));
        let seen = self.look_at_each(store, at, within, is_enough).await;
        let seen = seen.map_err(|error| error.with_key(at))?;
        let each = indices().map(|index| self.is_known(&seen, index).then(|| self.together(&seen, index)));
        Ok((each.collect(), seen.iter().fold(Nodes::default(), |nodes, (node, _)| nodes.with(*node))))
    }

    /// Some servers keep it, and whether a majority does is for those to say that do not answer: that is not *free*.
    fn undecided(&self, heard: Nodes) -> Error {
        let silent = Nodes::all(self.nodes.len()).minus(heard);
        let silent: Vec<String> = silent.iter().map(|node| self.name(node)).collect();
        let detail =
            format!("whether a majority keeps it depends on {}, and they do not say", silent.join(", "));
        Error::new(ErrorKind::Unreachable, "inspect", detail)
    }

    /// Who holds a key at most servers, and what each of these says is left.
    fn most(
        &self,
        seen: &[(usize, Vec<Inspection>)],
        index: usize,
    ) -> Option<(Holder, Vec<Option<Duration>>)> {
        let mut holders: Vec<(Holder, Vec<Option<Duration>>)> = Vec::new();
        for (_, all) in seen {
            let Some(one) = all.get(index) else { continue };
            let Some(holder) = &one.holder else { continue };
            match holders.iter_mut().find(|(known, _)| known == holder) {
                Some((_, left)) => left.push(one.remaining),
                None => holders.push((holder.clone(), vec![one.remaining])),
            }
        }
        holders.into_iter().max_by_key(|(_, left)| left.len())
    }

    /// The number that a majority has: of the holder's servers, or of all where nobody has a majority.
    fn last_fence<'a>(
        &self,
        each: impl Iterator<Item = &'a Inspection>,
        holder: Option<&Holder>,
    ) -> Option<Fence> {
        let of_holder = each.filter(|one| holder.is_none() || one.holder.as_ref() == holder);
        self.majority.fence(of_holder.filter_map(|one| one.fence).collect()).map(|(fence, _)| fence)
    }

    fn together(&self, seen: &[(usize, Vec<Inspection>)], index: usize) -> Inspection {
        let most = self.most(seen, index).filter(|(_, left)| self.majority.is_reached(left.len()));
        let each = || seen.iter().filter_map(|(_, all)| all.get(index));
        let mut waiters = BTreeMap::<KeeperName, u32>::new();
        for waiter in each().flat_map(|one| &one.waiters) {
            let count = waiters.entry(waiter.keeper.clone()).or_default();
            *count = waiter.count.max(*count);
        }
        let (holder, left) = match most {
            Some((holder, left)) => (Some(holder), left),
            None => (None, Vec::new()),
        };
        Inspection {
            remaining: if holder.is_some() { self.majority.lasts(left) } else { None },
            fence: self.last_fence(each(), holder.as_ref()).filter(|_| self.fences),
            waiters: waiters.into_iter().map(|(keeper, count)| Waiter { keeper, count }).collect(),
            holder,
            wrong_type: self.majority.is_reached(each().filter(|one| one.wrong_type).count()),
        }
    }
}

impl QuorumStore {
    /// What each server says of a key, also where no majority agrees.
    ///
    /// # Errors
    /// Fewer than a majority answered.
    pub async fn inspect_each(
        &self,
        key: &Key,
        within: Duration,
    ) -> Result<Vec<(String, Inspection)>, Error> {
        let keys = Keys::from(key.clone());
        let mut seen = self.shared.look_at_each(self, &keys, within, |_| false).await?;
        seen.sort_by_key(|(node, _)| *node);
        let named = |(node, mut all): (usize, Vec<Inspection>)| Some((self.shared.name(node), all.pop()?));
        Ok(seen.into_iter().filter_map(named).collect())
    }

    /// What a majority says of each key; `None` where some servers keep it, and whether a majority does is for those to say
    /// that do not answer.
    ///
    /// # Redis
    /// One read-only script at each server that votes, together.
    ///
    /// # Errors
    /// Fewer than a majority answered.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn inspect_known(&self, at: &Keys, within: Duration) -> Result<Vec<Option<Inspection>>, Error> {
        self.shared.look_at_all(self, at, within).await.map(|(each, _)| each)
    }

    /// One page of the main keys with this prefix, over the servers one after another; a lock comes up at each server
    /// that keeps it. Else as [`RedisStore::scan`](crate::RedisStore::scan).
    ///
    /// # Errors
    /// Fewer than a majority vote; as for any command.
    pub async fn scan(
        &self,
        prefix: &Prefix,
        from: Option<QuorumCursor>,
        count: u32,
        within: Duration,
    ) -> Result<(Vec<Key>, Option<QuorumCursor>), Error> {
        let roll = self.shared.voters("list", within).await?;
        let voters: Vec<usize> =
            roll.runs.iter().enumerate().filter_map(|(node, run)| run.as_ref().map(|_| node)).collect();
        let from = from.unwrap_or(QuorumCursor { node: 0, at: None });
        // A lock that a majority keeps is missing at fewer servers than are outside of a majority.
        let enough = voters.len().min(self.shared.nodes.len() - self.shared.majority.needed() + 1);
        let Some(node) = voters.iter().take(enough).find(|node| **node >= from.node) else {
            return Ok((Vec::new(), None));
        };
        let at = from.at.filter(|_| *node == from.node);
        let Some(store) = self.shared.node(*node) else { return Ok((Vec::new(), None)) };
        let (keys, next) = store.on(self.lane).scan(prefix, at, count, within).await?;
        let is_last = voters.iter().take(enough).all(|other| other <= node);
        let next = match next {
            Some(at) => Some(QuorumCursor { node: *node, at: Some(at) }),
            None if is_last => None,
            None => Some(QuorumCursor { node: node + 1, at: None }),
        };
        Ok((keys, next))
    }
}

impl Apply<Inspect> for QuorumStore {
    async fn apply(&self, at: &Keys, _: Inspect, within: Duration) -> Result<Answer<Vec<Inspection>>, Error> {
        let shared = &self.shared;
        let (each, heard) = shared.look_at_all(self, at, within).await?;
        let both = at.as_slice().iter().zip(&each);
        match both.into_iter().find(|(_, seen)| seen.is_none()) {
            Some((key, _)) => Err(shared.undecided(heard).with_key(key)),
            None => Ok(shared.answer(each.into_iter().flatten().collect())),
        }
    }
}

impl Apply<Leave> for QuorumStore {
    async fn apply(&self, at: &Keys, decision: Leave, within: Duration) -> Result<Answer<()>, Error> {
        let shared = &self.shared;
        let roll = shared.voters("leave", within).await.map_err(|error| error.with_key(at))?;
        let mut flight = shared.send_all(self.lane, at, &decision, within, &roll);
        let (mut left, mut last) = (0, None);
        while let Some((_, result)) = flight.next().await {
            match result {
                Ok(_) => left += 1,
                Err(error) => last = Some(error),
            }
        }
        match last.filter(|_| !shared.majority.is_reached(left)) {
            Some(error) => Err(error),
            None => Ok(shared.answer(())),
        }
    }
}
