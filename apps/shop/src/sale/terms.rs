//! The terms of a sale: what is sold, how much of it, from when until when, and in how many parts.

use std::time::Duration;

use lockkeeper_core::{Error, Timestamp};

use super::names::{Buyer, Sku};

/// The most units of one sale.
pub const MAX_UNITS: u32 = 10_000_000;
/// The most shards of one sale.
pub const MAX_SHARDS: u8 = 64;
/// The longest sale, and the latest moment (by the server's clock) at which one may begin is this far ahead of its own.
pub const MAX_LENGTH: Duration = Duration::from_secs(366 * 86_400);
/// How long the store keeps a sale after it closed. Then all of its keys go by themselves.
pub const KEPT_AFTER_CLOSING: Duration = Duration::from_secs(3 * 86_400);

/// What is fixed when a sale is opened. It never changes afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What is sold.
    pub sku: Sku,
    /// How many units.
    pub initial: u32,
    /// From this moment, by the server's clock.
    pub opens_at: Timestamp,
    /// Until just before this moment, by the server's clock.
    pub closes_at: Timestamp,
    /// Into how many parts the stock is split, so that one server (or one core) is not asked for all of it.
    pub shards: u8,
}

impl Terms {
    /// # Errors
    /// No unit or more than [`MAX_UNITS`], no shard or more than [`MAX_SHARDS`], or a sale that closes before it opens
    /// or after [`MAX_LENGTH`].
    pub fn check(&self) -> Result<(), Error> {
        let refused = |detail: String| Err(Error::bad_argument("open", detail).with_key(&self.sku));
        if !(1..=MAX_UNITS).contains(&self.initial) {
            return refused(format!("{} units; 1 to {MAX_UNITS}", self.initial));
        }
        if !(1..=MAX_SHARDS).contains(&self.shards) {
            return refused(format!("{} shards; 1 to {MAX_SHARDS}", self.shards));
        }
        let length = self.closes_at.since(self.opens_at);
        if length.is_zero() || length > MAX_LENGTH {
            return refused(format!("it lasts {length:?}; more than nothing, and at most a year"));
        }
        Ok(())
    }

    /// When the store forgets the sale; whole milliseconds, because keys expire at those.
    pub(crate) fn until(&self) -> Timestamp {
        let until = self.closes_at.after(KEPT_AFTER_CLOSING).as_micros();
        Timestamp::from_micros(until.next_multiple_of(1000))
    }

    /// The shard where a buyer is served, and remembered, always.
    pub fn home(&self, buyer: &Buyer) -> u8 {
        let hash = buyer
            .as_str()
            .bytes()
            .fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        // The low bits of this hash alone are weak.
        ((hash ^ hash >> 32) % u64::from(self.shards.max(1))) as u8
    }

    pub(crate) fn all_shards(&self) -> std::ops::Range<u8> {
        0..self.shards
    }
}

/// What the part of this index has of `units`: equal parts, and the first ones get what remains.
pub(crate) fn part(units: u64, parts: u64, index: u64) -> u64 {
    units / parts.max(1) + u64::from(index < units % parts.max(1))
}

/// FNV-1a of 64 bits: the same in every process and version.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(initial: u32, shards: u8) -> Terms {
        let opens_at = Timestamp::from_micros(1_000_000);
        let closes_at = Timestamp::from_micros(2_000_001);
        Terms { sku: "sku".parse().unwrap(), initial, opens_at, closes_at, shards }
    }

    #[test]
    fn parts_add_up_and_differ_by_one_at_most() {
        for (units, many) in [(0, 1), (1, 1), (10, 4), (3, 8), (u64::from(MAX_UNITS), 63)] {
            let parts: Vec<u64> = (0..many).map(|index| part(units, many, index)).collect();
            assert_eq!(parts.iter().sum::<u64>(), units);
            assert!(parts.iter().max().unwrap() - parts.iter().min().unwrap() <= 1, "{parts:?}");
        }
    }

    #[test]
    fn every_shard_is_home_to_about_as_many_buyers() {
        let terms = terms(1, 8);
        let mut homes = [0u32; 8];
        (0..8000).for_each(|n| homes[usize::from(terms.home(&format!("buyer-{n}").parse().unwrap()))] += 1);
        assert!(homes.iter().all(|many| (800..1200).contains(many)), "{homes:?}");
    }

    #[test]
    fn bad_terms_are_refused_and_the_store_keeps_good_ones_for_whole_milliseconds() {
        assert!(terms(1, 1).check().is_ok());
        for (initial, shards) in [(0, 1), (MAX_UNITS + 1, 1), (1, 0), (1, MAX_SHARDS + 1)] {
            assert!(terms(initial, shards).check().is_err());
        }
        let backwards = Terms { closes_at: Timestamp::from_micros(1_000_000), ..terms(1, 1) };
        let endless = Terms { closes_at: Timestamp::MAX, ..terms(1, 1) };
        assert!(backwards.check().is_err() && endless.check().is_err());
        assert_eq!(terms(1, 1).until().as_micros() % 1000, 0);
    }
}
