//! The arithmetic of a majority of independent servers. No clock, no IO: time and votes are arguments.

use std::fmt;
use std::time::Duration;

use super::fence::Fence;
use crate::error::Error;

/// The fewest servers that a majority is asked of.
pub const MIN_QUORUM_NODES: usize = 2;
/// The most servers.
pub const MAX_QUORUM_NODES: usize = 15;
/// The longest lease of a quorum whose configuration names none.
pub const DEFAULT_QUORUM_MAX_LEASE: Duration = Duration::from_secs(60);

/// So many servers, and how many of them are a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Majority {
    nodes: usize,
}

/// What is known of a count that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// A majority has said yes.
    Reached,
    /// With those who have not answered it still can.
    Open,
    /// It cannot any more.
    OutOfReach,
}

impl Majority {
    /// Of `nodes` servers.
    ///
    /// # Errors
    /// Fewer than [`MIN_QUORUM_NODES`], or more than [`MAX_QUORUM_NODES`].
    pub fn of(nodes: usize) -> Result<Self, Error> {
        match nodes {
            MIN_QUORUM_NODES..=MAX_QUORUM_NODES => Ok(Self { nodes }),
            _ => {
                let bounds = format!("{MIN_QUORUM_NODES} to {MAX_QUORUM_NODES}");
                Err(Error::bad_argument(
                    "quorum",
                    format!("a quorum has {bounds} servers, and this one {nodes}"),
                ))
            }
        }
    }

    /// How many servers there are.
    pub const fn nodes(self) -> usize {
        self.nodes
    }

    /// How many are a majority. Any two majorities have a server in common.
    pub const fn needed(self) -> usize {
        self.nodes / 2 + 1
    }

    /// So many are a majority.
    pub const fn is_reached(self, votes: usize) -> bool {
        votes >= self.needed()
    }

    /// `yes` have agreed, and `open` have not answered yet.
    pub const fn count(self, yes: usize, open: usize) -> Count {
        if self.is_reached(yes) {
            Count::Reached
        } else if self.is_reached(yes.saturating_add(open)) {
            Count::Open
        } else {
            Count::OutOfReach
        }
    }

    /// How long until a majority would say yes, if `yes` do now and the others are free after `remaining` (`None`: never
    /// by themselves). `None`: not by waiting.
    pub fn free_after(self, yes: usize, mut remaining: Vec<Option<Duration>>) -> Option<Duration> {
        let Some(more) = self.needed().checked_sub(yes).filter(|more| *more > 0) else {
            return Some(Duration::ZERO);
        };
        remaining.sort_unstable_by_key(|left| left.unwrap_or(Duration::MAX));
        remaining.get(more - 1).copied().flatten()
    }

    /// How long a majority goes on saying what each of `remaining` says for so long (`None`: for ever). `None` where
    /// that is for ever, or nothing is said by a majority.
    pub fn lasts(self, mut remaining: Vec<Option<Duration>>) -> Option<Duration> {
        remaining.sort_unstable_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
        remaining.get(self.needed() - 1).copied().flatten()
    }
}

impl Majority {
    /// The fence of a grant by servers that answered `firsts`, and how many of them are that far already: it is a fence only
    /// once a majority is.
    ///
    /// It is the greatest of the smallest answers that make a majority. Greater than every earlier fence, because one of
    /// these servers has had that one; and no greater than needed, so that servers that agree have nothing to be told.
    /// `None`: fewer than a majority answered.
    pub fn fence(self, mut firsts: Vec<Fence>) -> Option<(Fence, usize)> {
        firsts.sort_unstable();
        let fence = *firsts.get(self.needed() - 1)?;
        Some((fence, firsts.iter().filter(|first| **first >= fence).count()))
    }
}

/// What a server's marker says: under which of its runs nothing that was promised is forgotten, and to whom that
/// matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The run of the server under which it was written.
    pub run: String,
    /// The longest lease that was waited for.
    pub max_lease: Duration,
    /// How many servers the quorum has.
    pub nodes: usize,
    /// A server that still has its marker after a restart votes at once.
    pub persistent: bool,
    /// Of which servers; see [`Membership`].
    pub of: Membership,
}

/// Which servers make up a quorum: a short digest of their names, or of a name that all clients agree on.
///
/// Two lists that overlap would each have a majority, so a server belongs to one of them. It is what clients call the
/// servers, because a server that was restarted empty knows nothing of itself that was so before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership(u64);

impl Membership {
    /// Of these servers, in any order.
    pub fn of_servers<S: Into<String>>(places: impl IntoIterator<Item = S>) -> Self {
        let mut places: Vec<String> =
            places.into_iter().map(|place| place.into().to_ascii_lowercase()).collect();
        places.sort_unstable();
        Self::digest("servers", &places.join(" "))
    }

    /// Of the servers that go by this name together.
    pub fn named(name: &str) -> Self {
        Self::digest("name", name)
    }

    fn digest(kind: &str, text: &str) -> Self {
        let digest = sha1_smol::Sha1::from(format!("{kind} {text}")).digest().bytes();
        Self(digest.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }
}

impl fmt::Display for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Marker {
    /// As it is kept.
    pub fn to_text(&self) -> String {
        let (max_lease, kept) = (self.max_lease.as_millis(), if self.persistent { "kept" } else { "-" });
        format!("1 {} {max_lease} {} {kept} {}", self.run, self.nodes, self.of)
    }

    /// `None`: no marker of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (version, run) = (words.next()?, words.next()?);
        let (max_lease, nodes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (kept, of) = (words.next()?, words.next()?);
        let of = Membership(u64::from_str_radix(of, 16).ok()?);
        let marker = Self {
            run: run.to_owned(),
            max_lease: Duration::from_millis(max_lease),
            nodes,
            persistent: kept == "kept",
            of,
        };
        let is_ours = version == "1" && words.next().is_none() && (1..=128).contains(&run.len());
        (is_ours && marker.to_text() == text).then_some(marker)
    }
}

/// What is known of a server when it is asked whether it may vote.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// The run that answers now.
    pub run: &'a str,
    /// Its marker, if it has one that can be read.
    pub marker: Option<&'a Marker>,
    /// For how long it has been up, by its own word.
    pub uptime: Duration,
    /// For how long this client has known it in this state.
    pub known: Duration,
}

/// Whether a server may vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has forgotten nothing.
    Votes,
    /// Whatever it may have forgotten has ended by now: it votes as soon as its marker is written.
    VotesOnceMarked,
    /// It may have forgotten leases. For so long yet.
    Abstains(Duration),
    /// Its marker is that of a quorum of other servers, or with other numbers.
    OfAnotherQuorum,
}

/// What a quorum is configured to be, as far as its servers' memory goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The longest lease.
    pub max_lease: Duration,
    /// How many servers.
    pub nodes: usize,
    /// The operator declares that a server keeps every write over a restart.
    pub persistent: bool,
    /// Which servers.
    pub of: Membership,
}

impl Rule {
    /// The marker of one of its servers, for this run.
    pub fn marker(&self, run: &str) -> Marker {
        let Self { max_lease, nodes, persistent, of } = *self;
        Marker { run: run.to_owned(), max_lease, nodes, persistent, of }
    }

    /// Whether the marker is of this quorum, of whatever run.
    pub fn is_ours(&self, marker: &Marker) -> bool {
        *marker == self.marker(&marker.run)
    }

    /// Whether a server whose memory has ended may be marked, by the markers of those of the quorum's servers that are
    /// there (`None`: without).
    ///
    /// So that nobody with other numbers, or a list that overlaps, opens a quorum of its own: a majority has our marker; or
    /// nobody has another's, and either one has ours and a majority is there, or all are there and have none.
    pub fn may_mark(&self, there: &[Option<&Marker>]) -> bool {
        let ours = there.iter().flatten().filter(|marker| self.is_ours(marker)).count();
        let others = there.iter().flatten().count() - ours;
        let needed = self.nodes / 2 + 1;
        ours >= needed || (others == 0 && (there.len() >= self.nodes || (ours > 0 && there.len() >= needed)))
    }

    /// The amnesia rule: a server that was restarted may have forgotten leases, so it abstains until all that it may have
    /// promised have ended.
    pub fn standing(&self, of: Memory<'_>) -> Standing {
        match of.marker {
            Some(marker) if !self.is_ours(marker) => Standing::OfAnotherQuorum,
            Some(marker) if !of.run.is_empty() && marker.run == of.run => Standing::Votes,
            Some(_) if self.persistent && !of.run.is_empty() => Standing::VotesOnceMarked,
            _ => self.waits(of),
        }
    }

    /// The longest lease and the drift of two clocks over it: after that nothing of it is left.
    fn waits(&self, of: Memory<'_>) -> Standing {
        let drift = (self.max_lease / 100).saturating_add(Duration::from_millis(2));
        let whole = self.max_lease.saturating_add(drift);
        let left = whole.saturating_sub(of.uptime.min(of.known));
        // Without the name of its run nobody can say which run the marker is of.
        if of.run.is_empty() {
            return Standing::Abstains(left.max(self.max_lease));
        }
        if left.is_zero() { Standing::VotesOnceMarked } else { Standing::Abstains(left) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    proptest! {
        #[test]
        fn two_majorities_always_have_a_server_in_common(nodes in 2usize..=15, one in 0u16.., other in 0u16..) {
            let majority = Majority::of(nodes).unwrap();
            let mask = (1u16 << nodes) - 1;
            let (one, other) = (one & mask, other & mask);
            let reached = |set: u16| majority.is_reached(set.count_ones() as usize);
            if reached(one) && reached(other) {
                prop_assert_ne!(one & other, 0);
            }
            // And no fewer would do: a set and its complement are never both one.
            prop_assert!(!(reached(one) && reached(mask & !one)));
        }

        #[test]
        fn a_count_is_closed_exactly_when_the_rest_cannot_change_it(nodes in 2usize..=15, yes in 0usize..=15, open in 0usize..=15) {
            prop_assume!(yes + open <= nodes);
            let majority = Majority::of(nodes).unwrap();
            let ends: Vec<bool> = (0..=open).map(|more| majority.is_reached(yes + more)).collect();
            let expected = match (ends[0], ends[open]) {
                (true, _) => Count::Reached,
                (false, true) => Count::Open,
                (false, false) => Count::OutOfReach,
            };
            prop_assert_eq!(majority.count(yes, open), expected);
        }

        /// Servers with numbers of their own; majority after majority, each written back to a majority.
        #[test]
        fn fences_grow_over_every_history_of_majorities(
            nodes in 2usize..=7,
            history in prop::collection::vec((any::<u64>(), prop::collection::vec(0u64..50, 7)), 1..40),
        ) {
            let majority = Majority::of(nodes).unwrap();
            let (mut kept, mut last) = (vec![0u64; nodes], 0);
            for (seed, ahead) in history {
                let mut order: Vec<usize> = (0..nodes).collect();
                order.sort_by_key(|node| seed.rotate_left(*node as u32 * 9) ^ (*node as u64 * 0x9e37_79b9));
                let granted = &order[..majority.needed() + (seed as usize % (nodes - majority.needed() + 1))];
                for node in granted {
                    kept[*node] += 1 + ahead[*node];
                }
                let firsts = granted.iter().map(|node| Fence::new(kept[*node])).collect();
                let (fence, mut told) = majority.fence(firsts).unwrap();
                // Told one after another, and no more of them than a majority.
                for node in granted.iter().filter(|node| kept[**node] < fence.get()).copied().collect::<Vec<_>>() {
                    if !majority.is_reached(told) {
                        kept[node] = fence.get();
                        told += 1;
                    }
                }
                prop_assert!(majority.is_reached(told));
                prop_assert!(fence.get() > last, "{fence} after {last}");
                last = fence.get();
            }
        }

        #[test]
        fn a_marker_is_read_back_and_nothing_else_is_a_marker(
            run in "[0-9a-f]{1,40}", ms in 0u64.., nodes in 0usize.., persistent: bool, name in ".*", noise in ".*"
        ) {
            let of = Membership::named(&name);
            let marker = Marker { run, max_lease: Duration::from_millis(ms), nodes, persistent, of };
            prop_assert_eq!(Marker::parse(&marker.to_text()), Some(marker.clone()));
            prop_assert_eq!(Marker::parse(&format!("{} {noise}", marker.to_text())), None);
        }
    }

    #[test]
    fn a_quorum_has_two_to_fifteen_servers() {
        for (nodes, needed) in [(2, 2), (3, 2), (4, 3), (5, 3), (15, 8)] {
            assert_eq!(Majority::of(nodes).unwrap().needed(), needed);
        }
        for bad in [0, 1, 16] {
            assert!(Majority::of(bad).unwrap_err().to_string().contains("2 to 15"));
        }
    }

    #[test]
    fn the_time_to_a_majority_is_that_of_the_server_that_completes_it() {
        let of_five = Majority::of(5).unwrap();
        let left = |all: &[u64]| all.iter().map(|left| Some(secs(*left))).collect::<Vec<_>>();
        assert_eq!(of_five.free_after(1, left(&[9, 3, 5])), Some(secs(5)));
        assert_eq!(of_five.free_after(3, vec![]), Some(Duration::ZERO));
        assert_eq!(of_five.free_after(0, left(&[1, 2])), None, "two do not make a majority");
        assert_eq!(of_five.free_after(0, vec![None, None, Some(secs(1))]), None, "no expiry is not zero");
        assert_eq!(of_five.lasts(left(&[9, 3, 5, 1])), Some(secs(3)));
        assert_eq!(of_five.lasts(vec![None, None, None]), None);
    }

    #[test]
    fn a_maximum_is_no_fence_before_a_majority_has_it() {
        let fences = [7, 9, 9, 3].map(Fence::new);
        let of_five = Majority::of(5).unwrap();
        assert_eq!(of_five.fence(fences.to_vec()), Some((Fence::new(9), 2)));
        assert_eq!(of_five.fence(vec![Fence::new(7); 2]), None);
        // Three agree, and two are ahead of them: nobody has to be told.
        let agreed = [7, 7, 7, 9, 9].map(Fence::new).to_vec();
        assert_eq!(of_five.fence(agreed), Some((Fence::new(7), 5)));
    }

    #[test]
    fn a_server_that_may_have_forgotten_abstains_until_all_has_ended() {
        let rule = Rule { max_lease: secs(60), nodes: 5, persistent: false, of: Membership::named("q") };
        let marker = rule.marker("a");
        let of = |run, marker, uptime, known| rule.standing(Memory { run, marker, uptime, known });
        let long = secs(3600);
        assert_eq!(of("a", Some(&marker), secs(0), secs(0)), Standing::Votes);
        let whole = secs(60) + Duration::from_millis(602);
        assert_eq!(of("b", Some(&marker), secs(0), long), Standing::Abstains(whole));
        assert_eq!(of("b", None, long, secs(59)), Standing::Abstains(whole - secs(59)));
        assert_eq!(of("b", None, long, whole), Standing::VotesOnceMarked);
        assert_eq!(of("b", Some(&marker), whole - secs(1), long), Standing::Abstains(secs(1)));
        assert!(matches!(of("", None, long, long), Standing::Abstains(_)), "a run without a name");
        let other = Marker { max_lease: secs(10), ..marker.clone() };
        assert_eq!(of("a", Some(&other), long, long), Standing::OfAnotherQuorum);
        let smaller = Marker { nodes: 3, ..marker.clone() };
        assert_eq!(of("a", Some(&smaller), long, long), Standing::OfAnotherQuorum);
        let elsewhere = Marker { of: Membership::named("r"), ..marker.clone() };
        assert_eq!(of("a", Some(&elsewhere), long, long), Standing::OfAnotherQuorum);

        let kept = Rule { persistent: true, ..rule };
        let forgetful = kept.standing(Memory { run: "a", marker: Some(&marker), uptime: long, known: long });
        assert_eq!(forgetful, Standing::OfAnotherQuorum, "who counts on its memory, and who does not");
        let marker = kept.marker("a");
        let of = |marker| kept.standing(Memory { run: "b", marker, uptime: secs(0), known: secs(0) });
        assert_eq!(of(Some(&marker)), Standing::VotesOnceMarked);
        assert!(matches!(of(None), Standing::Abstains(_)), "what kept everything would have kept its marker");
    }

    #[test]
    fn a_quorum_is_the_same_servers_in_any_order() {
        let of = |all: &[&str]| Membership::of_servers(all.iter().copied());
        assert_eq!(of(&["a:1", "b:1", "C:1"]), of(&["c:1", "a:1", "b:1"]));
        assert_ne!(of(&["a:1", "b:1", "c:1"]), of(&["a:1", "b:1", "d:1"]));
        assert_ne!(of(&["a"]), Membership::named("a"));
    }

    #[test]
    fn only_who_knows_the_quorum_marks_its_servers() {
        let rule = Rule { max_lease: secs(60), nodes: 5, persistent: false, of: Membership::named("q") };
        let (ours, other) = (rule.marker("a"), Marker { nodes: 3, ..rule.marker("b") });
        let (ours, other) = (Some(&ours), Some(&other));
        assert!(rule.may_mark(&[None; 5]) && !rule.may_mark(&[None; 4]), "a new one needs all its servers");
        assert!(rule.may_mark(&[ours, None, None]) && !rule.may_mark(&[ours, None]));
        assert!(rule.may_mark(&[ours, ours, ours, other, None]), "a majority knows better");
        assert!(!rule.may_mark(&[ours, ours, other, None, None]));
        assert!(!rule.may_mark(&[None, None, None, None, other]));
    }
}
