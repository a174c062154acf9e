//! Which server keeps which slot, as far as is known.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::slots::{MAX_NODES, Range};
use crate::layout::SLOTS;
use crate::node::Node;
use crate::url::Address;

/// A server without slots that one is on its way to is kept for so long after it was asked last.
const GUEST: Duration = Duration::from_secs(30);
/// Nobody keeps the slot.
const NOBODY: u16 = u16::MAX;

/// The map of a cluster.
#[derive(Debug)]
pub(super) struct Map {
    /// Every server that was seen as a primary, in the order of being seen: a listing goes through them by number.
    roster: Vec<Entry>,
    /// A number of the roster for each slot.
    owners: Vec<u16>,
    /// For each slot, how often it went to another owner without the old one's saying so.
    terms: Vec<u32>,
    /// The primary of each replica, by the last look.
    replicas: HashMap<Address, Address>,
}

#[derive(Debug)]
struct Entry {
    address: Address,
    /// None while it keeps no slot and is no guest.
    node: Option<Arc<Node>>,
    guest_since: Option<Instant>,
}

/// What a change of the map brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Slots that have other owners, in their order.
    pub(super) owners: Vec<u16>,
    /// Terms began.
    pub(super) terms: bool,
}

/// An answer to `CLUSTER SLOTS` with its places as addresses.
pub(super) struct View {
    pub(super) ranges: Vec<(Range, Address)>,
    pub(super) replicas: HashMap<Address, Address>,
}

impl Default for Map {
    fn default() -> Self {
        Self {
            roster: Vec::new(),
            owners: vec![NOBODY; SLOTS],
            terms: vec![0; SLOTS],
            replicas: HashMap::new(),
        }
    }
}

impl Map {
    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        let number = *self.owners.get(usize::from(slot))?;
        self.roster.get(usize::from(number))?.node.as_ref()
    }

    /// The number of the server of `slot`.
    pub(super) fn number(&self, slot: u16) -> Option<u16> {
        self.owners.get(usize::from(slot)).copied().filter(|number| *number != NOBODY)
    }

    pub(super) fn term(&self, slot: u16) -> u64 {
        self.terms.get(usize::from(slot)).copied().map_or(0, u64::from)
    }

    /// All that keep slots, or are to, with their numbers; the numbers stay what they are.
    pub(super) fn primaries(&self) -> impl Iterator<Item = (u16, &Address, &Arc<Node>)> {
        let numbered = (0u16..).zip(&self.roster);
        numbered.filter_map(|(number, entry)| Some((number, &entry.address, entry.node.as_ref()?)))
    }

    /// The first one whose number is at least `number`.
    pub(super) fn primary_from(&self, number: u16) -> Option<(u16, Arc<Node>)> {
        self.primaries().find(|(at, ..)| *at >= number).map(|(at, _, node)| (at, node.clone()))
    }

    pub(super) fn at(&self, address: &Address) -> Option<&Arc<Node>> {
        self.roster.iter().find(|entry| entry.address == *address)?.node.as_ref()
    }

    /// One slot has another owner: `from` said so. Nothing where the servers are too many.
    ///
    /// What its owner gives away goes with all that is in it, unless it goes to the owner's own replica: then the one
    /// that says so was made a replica itself.
    pub(super) fn move_slot(
        &mut self,
        slot: u16,
        to: &Address,
        from: Option<&Arc<Node>>,
        make: impl Fn(&Address) -> Arc<Node>,
    ) -> News {
        let Some(number) = self.number_of(to, &make) else { return News::default() };
        let owner = self.owner(slot);
        let is_given = owner.zip(from).is_some_and(|(owner, from)| Arc::ptr_eq(owner, from));
        let terms = self.leaves(slot, number) && (!is_given || self.is_replica_of_owner(slot, to));
        if terms {
            self.begin_term(slot);
        }
        let owners = if self.set_owner(slot, number) { vec![slot] } else { Vec::new() };
        News { owners, terms }
    }

    /// A server that a slot is on its way to. It may keep none yet.
    pub(super) fn guest(
        &mut self,
        address: &Address,
        make: impl Fn(&Address) -> Arc<Node>,
        now: Instant,
    ) -> Option<Arc<Node>> {
        let number = self.number_of(address, make)?;
        let entry = self.roster.get_mut(usize::from(number))?;
        entry.guest_since = Some(now);
        entry.node.clone()
    }

    /// Takes a whole view over. It does not say how slots went from one owner to another.
    pub(super) fn take(&mut self, view: View, make: impl Fn(&Address) -> Arc<Node>, now: Instant) -> News {
        if self.roster.len() + view.ranges.len() > MAX_NODES {
            self.forget_the_idle();
        }
        let (mut owners, mut is_used) = (vec![NOBODY; SLOTS], vec![false; MAX_NODES]);
        for (range, address) in &view.ranges {
            let Some(number) = self.number_of(address, &make) else { continue };
            is_used[usize::from(number)] = true;
            if let Some(slots) = owners.get_mut(usize::from(range.first)..=usize::from(range.last)) {
                slots.fill(number);
            }
        }
        let mut news = News::default();
        for slot in 0..SLOTS as u16 {
            let new = owners[usize::from(slot)];
            if self.leaves(slot, new) {
                self.begin_term(slot);
                news.terms = true;
            }
            if self.set_owner(slot, new) {
                news.owners.push(slot);
            }
        }
        self.replicas = view.replicas;
        for (entry, is_used) in self.roster.iter_mut().zip(is_used) {
            let is_guest =
                entry.guest_since.is_some_and(|since| now.saturating_duration_since(since) < GUEST);
            if !is_used && !is_guest {
                entry.node = None;
            }
        }
        news
    }

    /// The slot has an owner, and gets another, or none.
    fn leaves(&self, slot: u16, new: u16) -> bool {
        let old = self.owners[usize::from(slot)];
        old != NOBODY && old != new
    }

    /// By the last look.
    fn is_replica_of_owner(&self, slot: u16, address: &Address) -> bool {
        let old = self.roster.get(usize::from(self.owners[usize::from(slot)]));
        old.is_some_and(|old| self.replicas.get(address) == Some(&old.address))
    }

    fn begin_term(&mut self, slot: u16) {
        let term = &mut self.terms[usize::from(slot)];
        *term = term.wrapping_add(1);
    }

    fn set_owner(&mut self, slot: u16, number: u16) -> bool {
        let owner = &mut self.owners[usize::from(slot)];
        let is_news = *owner != number;
        *owner = number;
        is_news
    }

    /// Its number, with a node; it is given one if it has none.
    fn number_of(&mut self, address: &Address, make: impl Fn(&Address) -> Arc<Node>) -> Option<u16> {
        let known = self.roster.iter().position(|entry| entry.address == *address);
        let at = known.unwrap_or(self.roster.len());
        if known.is_none() {
            if at >= MAX_NODES {
                return None;
            }
            self.roster.push(Entry { address: address.clone(), node: None, guest_since: None });
        }
        self.roster[at].node.get_or_insert_with(|| make(address));
        u16::try_from(at).ok()
    }

    /// Makes room. The numbers change, so that a listing under way may miss or repeat some.
    fn forget_the_idle(&mut self) {
        let old = std::mem::take(self);
        self.terms = old.terms;
        self.replicas = old.replicas;
        let mut numbers = HashMap::new();
        for (number, entry) in (0u16..).zip(old.roster) {
            if entry.node.is_some() {
                numbers.insert(number, self.roster.len() as u16);
                self.roster.push(entry);
            }
        }
        self.owners =
            old.owners.iter().map(|number| numbers.get(number).copied().unwrap_or(NOBODY)).collect();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_core::ManualClock;
    use lockkeeper_core::lock::Durability;
    use parking_lot::Mutex;

    use super::super::slots::Place;
    use super::*;
    use crate::clock::ServerClock;
    use crate::config::RedisConfig;
    use crate::connect::{Connector, LeadsTo};
    use crate::node::Lane;

    fn at(port: u16) -> Address {
        Address::Tcp { host: "h".into(), port, tls: false }
    }

    fn make(address: &Address) -> Arc<Node> {
        let config = RedisConfig::from_url("redis+cluster://h").unwrap();
        let clock = Arc::new(ServerClock::new(Arc::new(ManualClock::default())));
        let (watched, connected) = (Arc::default(), Mutex::default());
        let leads_to = LeadsTo::At(address.clone());
        Arc::new(Node::new(Arc::new(Connector {
            config,
            leads_to,
            clock,
            watched,
            connected,
            deaf: Arc::default(),
            replaced: None,
        })))
    }

    #[tokio::test]
    async fn a_server_that_is_used_for_steps_that_must_last_is_in_use() {
        let node = make(&at(1));
        assert!(!node.is_in_use());
        let pool = node.pools().unwrap().of(Lane::Renewal);
        assert!(pool.hold(Durability::fsync(), Duration::from_secs(1)).await.is_ok());
        assert!(node.is_in_use());
    }

    /// Ranges by their primaries, and replicas by theirs.
    fn view(ranges: &[(u16, u16, u16)], replicas: &[(u16, u16)]) -> View {
        let range = |&(first, last, port): &(u16, u16, u16)| {
            let primary = Place { host: "h".into(), port };
            (Range { first, last, primary, replicas: vec![] }, at(port))
        };
        let replicas = replicas.iter().map(|&(replica, primary)| (at(replica), at(primary))).collect();
        View { ranges: ranges.iter().map(range).collect(), replicas }
    }

    fn ports(map: &Map) -> Vec<(u16, u16)> {
        let port = |address: &Address| match address {
            Address::Tcp { port, .. } => *port,
            Address::Unix(_) => 0,
        };
        map.primaries().map(|(number, address, _)| (number, port(address))).collect()
    }

    #[test]
    fn a_replica_that_takes_over_begins_a_term_and_a_slot_that_moves_does_not() {
        let (mut map, now) = (Map::default(), Instant::now());
        let of = |slots: std::ops::Range<u16>| News { owners: slots.collect(), terms: false };
        let first = map.take(view(&[(0, 99, 1), (100, 199, 2)], &[(3, 1)]), make, now);
        assert_eq!(first, of(0..200), "the first");
        let known = map.take(view(&[(0, 99, 1), (100, 199, 2)], &[(3, 1)]), make, now);
        assert_eq!(known, News::default(), "no news");
        let first = map.at(&at(1)).cloned();
        assert_eq!(map.move_slot(5, &at(2), first.as_ref(), make), of(5..6));
        assert_eq!((map.term(5), map.term(6)), (0, 0), "given away");
        // The old primary is gone, or follows the new one.
        assert!(map.move_slot(6, &at(3), first.as_ref(), make).terms);
        assert_eq!((map.term(6), map.term(7)), (1, 0));
        let rest = map.take(view(&[(0, 5, 2), (6, 99, 3), (100, 199, 2)], &[(1, 3)]), make, now);
        assert_eq!(rest.owners, [0, 1, 2, 3, 4].into_iter().chain(7..100).collect::<Vec<_>>());
        assert_eq!((map.term(5), map.term(6), map.term(7), map.term(150)), (0, 1, 1, 0), "told once");
        assert!(map.take(view(&[(0, 99, 1), (100, 199, 2)], &[(3, 1)]), make, now).terms);
        assert_eq!((map.term(6), map.term(7)), (2, 2), "and back");
    }

    /// Also where it was not known whose replica the new one is.
    #[test]
    fn whatever_the_old_owner_did_not_say_itself_begins_a_term() {
        let (mut map, now) = (Map::default(), Instant::now());
        map.take(view(&[(0, 99, 1), (100, 199, 2)], &[]), make, now);
        let (first, second) = (map.at(&at(1)).cloned(), map.at(&at(2)).cloned());
        assert!(!map.move_slot(1, &at(2), first.as_ref(), make).terms);
        assert!(map.move_slot(2, &at(2), second.as_ref(), make).terms, "another said so");
        assert!(map.move_slot(3, &at(2), None, make).terms);
        assert!(map.take(view(&[(0, 3, 2), (4, 9, 4), (100, 199, 2)], &[]), make, now).terms);
        assert_eq!([1, 2, 3, 4, 10, 150].map(|slot| map.term(slot)), [0, 1, 1, 1, 1, 0], "of 10, nobody");
        assert!(!map.take(view(&[(0, 3, 2), (4, 10, 4), (100, 199, 2)], &[]), make, now).terms);
    }

    #[test]
    fn numbers_stay_whoever_comes_and_goes_and_what_nobody_serves_has_no_owner() {
        let mut map = Map::default();
        map.take(view(&[(0, 99, 1), (100, 199, 2)], &[]), make, Instant::now());
        map.take(view(&[(0, 99, 3), (100, 198, 2)], &[]), make, Instant::now());
        assert_eq!(ports(&map), [(1, 2), (2, 3)]);
        assert_eq!(map.primary_from(0).map(|(number, _)| number), Some(1));
        assert!(map.primary_from(3).is_none() && map.owner(199).is_none() && map.number(199).is_none());
        map.take(view(&[(0, 199, 1)], &[]), make, Instant::now());
        assert_eq!(ports(&map), [(0, 1)]);
    }

    #[test]
    fn servers_are_bounded() {
        let mut map = Map::default();
        for port in 1..=MAX_NODES as u16 + 10 {
            map.take(view(&[(0, 1, port)], &[]), make, Instant::now());
        }
        assert!(map.roster.len() <= MAX_NODES, "{}", map.roster.len());
        assert_eq!(ports(&map).len(), 1);
        assert!(map.owner(0).is_some());
    }

    #[test]
    fn a_server_that_a_slot_is_on_its_way_to_keeps_its_connections_for_a_while() {
        let (mut map, now) = (Map::default(), Instant::now());
        map.take(view(&[(0, 99, 1)], &[]), make, now);
        let guest = map.guest(&at(2), make, now).unwrap();
        map.take(view(&[(0, 99, 1)], &[]), make, now + GUEST / 2);
        assert!(Arc::ptr_eq(&guest, &map.guest(&at(2), make, now + GUEST / 2).unwrap()), "the same");
        map.take(view(&[(0, 99, 1)], &[]), make, now + GUEST);
        assert_eq!(ports(&map), [(0, 1), (1, 2)]);
        map.take(view(&[(0, 99, 1)], &[]), make, now + GUEST * 2);
        assert_eq!(ports(&map), [(0, 1)]);
    }
}
