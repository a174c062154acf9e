//! A hot lock split into shards: work on different shards goes on side by side, and work on everything takes them all.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use lockkeeper_core::key::{Escaped, MAX_KEYS};
use lockkeeper_core::{Error, Key, Keys};
use parking_lot::Mutex;

use super::builder::Lock;
use super::class::LockClass;
use crate::keeper::Keeper;
use crate::telemetry::Class;

/// The most shards of one lock: taking all of them is one decision.
pub const MAX_SHARDS: usize = MAX_KEYS;
/// A keeper remembers the number of shards of so many names; then it forgets the oldest.
const MOST_REMEMBERED: usize = 4096;

/// A lock in shards. See [`Keeper::segmented`].
///
/// # Which shard
/// The one of the caller's sub-key, always: SHA-1 of its bytes, the first eight bytes as a big-endian number, modulo
/// the number of shards. Any language can compute it. There is no "any free shard": two callers with the same sub-key
/// must meet.
///
/// # Fences
/// Compare them per shard. A fence of all shards is greater than every earlier one of each shard; those of two
/// different shards say nothing about each other.
///
/// # The number of shards
/// It is part of what the lock is. Processes that count differently take different keys and exclude **nobody**, which
/// no server would notice; so the number is part of each key, where a listing shows it. Inside one keeper the second
/// number is refused (for the last 4096 names). To change it while the work goes on, deploy twice: first everybody
/// takes both, with [`lock_all`](Keeper::lock_all) on two [`shard_name`]s, which lie in one slot; then the new one
/// alone.
#[derive(Clone)]
pub struct Segmented {
    keeper: Keeper,
    class: Class,
    shards: Arc<[Key]>,
    all: Keys,
}

impl Keeper {
    /// The lock `name` in `shards` parts.
    ///
    /// ```
    /// # async fn example() -> Result<(), lockkeeper::Error> {
    /// # let keeper = lockkeeper::Keeper::connect("memory://").await?;
    /// let stock = keeper.segmented("stock:sku-9", 16)?;
    /// let one = stock.shard("warehouse-3").acquire().await?.or_busy()?; // others take other shards meanwhile
    /// one.release().await?;
    /// let all = stock.all_shards().acquire().await?.or_busy()?; // nobody takes any
    /// all.release().await?;
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// Shard 3 of 16 of `stock:sku-9` is the lock `{stock:sku-9}:shard-3-of-16`: the braces put all shards into one
    /// cluster slot. A name that has a hash tag, such as `{sku-9}:stock`, keeps it: `{sku-9}:stock::shard-3-of-16`.
    /// See [`shard_name`].
    ///
    /// # Errors
    /// As [`lock`](Self::lock); no shard, or more than 128; braces that are no hash tag; or this keeper has used the
    /// name with another number.
    pub fn segmented(&self, name: impl AsRef<[u8]>, shards: usize) -> Result<Segmented, Error> {
        Segmented::new(self, Class::default(), name.as_ref(), shards)
    }
}

impl LockClass {
    /// As [`Keeper::segmented`], in this class.
    ///
    /// # Errors
    /// As there.
    pub fn segmented(&self, name: impl AsRef<[u8]>, shards: usize) -> Result<Segmented, Error> {
        Segmented::new(&self.keeper, self.class, name.as_ref(), shards)
    }
}

impl Segmented {
    fn new(keeper: &Keeper, class: Class, name: &[u8], shards: usize) -> Result<Self, Error> {
        let prefix = &keeper.inner.prefix;
        Key::new(prefix, name)?;
        let base = Base::new(name, shards)?;
        let keys: Result<Vec<Key>, Error> =
            (0..shards).map(|shard| Key::new(prefix, base.shard(shard))).collect();
        let shards: Arc<[Key]> = keys?.into();
        let all = Keys::new(shards.iter().cloned())?;
        keeper.inner.segments.check(name, shards.len())?;
        Ok(Self { keeper: keeper.clone(), class, shards, all })
    }

    /// The shard of `sub_key`. The answer is a [`Lock`] like any other; taking it is one round trip.
    ///
    /// # Redis
    /// As [`Lock::try_acquire`], with one key.
    pub fn shard(&self, sub_key: impl AsRef<[u8]>) -> Lock {
        self.lock(self.shards[self.shard_of(sub_key)].clone().into())
    }

    /// All shards at once, all or nothing. While it waits, shards are not kept back for it: where some shard is always
    /// taken, it may wait for long.
    ///
    /// # Redis
    /// As [`Lock::try_acquire`], with a key per shard in one `EVALSHA`.
    pub fn all_shards(&self) -> Lock {
        self.lock(self.all.clone())
    }

    /// The number of the shard of `sub_key`, from zero.
    pub fn shard_of(&self, sub_key: impl AsRef<[u8]>) -> usize {
        shard_of(sub_key.as_ref(), self.shards.len())
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    fn lock(&self, keys: Keys) -> Lock {
        Lock::new(self.keeper.inner.clone(), keys).in_class(self.class)
    }
}

impl fmt::Debug for Segmented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segmented").field("first", &self.shards[0]).finish_non_exhaustive()
    }
}

/// The name of the lock that is the shard of `sub_key`, of `name` in `shards` parts.
///
/// ```
/// let name = lockkeeper::shard_name("stock:sku-9", 16, "warehouse-3")?;
/// assert_eq!(name, b"{stock:sku-9}:shard-10-of-16");
/// # Ok::<(), lockkeeper::Error>(())
/// ```
///
/// # Errors
/// No shard, or more than 128; braces that are no hash tag.
pub fn shard_name(
    name: impl AsRef<[u8]>,
    shards: usize,
    sub_key: impl AsRef<[u8]>,
) -> Result<Vec<u8>, Error> {
    Ok(Base::new(name.as_ref(), shards)?.shard(shard_of(sub_key.as_ref(), shards)))
}

/// The first eight bytes of the SHA-1, big-endian, modulo the number of shards.
fn shard_of(sub_key: &[u8], shards: usize) -> usize {
    let digest = sha1_smol::Sha1::from(sub_key).digest().bytes();
    let number = digest[..8].iter().fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
    (number % shards as u64) as usize
}

/// What all shards of a name share. Different names never share a shard: after a tag of ours stands one colon, after
/// a name that brought its own stand two.
struct Base {
    bytes: Vec<u8>,
    shards: usize,
}

impl Base {
    fn new(name: &[u8], shards: usize) -> Result<Self, Error> {
        if !(1..=MAX_SHARDS).contains(&shards) {
            let detail = format!("`{}`: {shards} shards; 1 to {MAX_SHARDS}", Escaped(name));
            return Err(Error::bad_argument("segmented", detail));
        }
        let bytes = if has_hash_tag(name) {
            [name, b":"].concat()
        } else if !name.iter().any(|byte| matches!(byte, b'{' | b'}')) {
            [b"{", name, b"}"].concat()
        } else {
            let detail = format!(
                "`{}`: its braces are no hash tag such as {{sku}}, so its shards would lie in different slots",
                Escaped(name)
            );
            return Err(Error::bad_argument("segmented", detail));
        };
        Ok(Self { bytes, shards })
    }

    fn shard(&self, number: usize) -> Vec<u8> {
        [&self.bytes[..], format!(":shard-{number}-of-{}", self.shards).as_bytes()].concat()
    }
}

/// The first `{` is followed by something and then by `}`: what a cluster hashes.
fn has_hash_tag(name: &[u8]) -> bool {
    let open = name.iter().position(|&byte| byte == b'{');
    let length = |open: usize| name[open + 1..].iter().position(|&byte| byte == b'}');
    open.and_then(length).is_some_and(|length| length > 0)
}

/// The numbers of shards that a keeper has used, by name; bounded.
#[derive(Default)]
pub(crate) struct Segments(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    shards: HashMap<Arc<[u8]>, usize>,
    oldest: VecDeque<Arc<[u8]>>,
}

impl Segments {
    fn check(&self, name: &[u8], shards: usize) -> Result<(), Error> {
        let mut remembered = self.0.lock();
        match remembered.shards.get(name) {
            Some(&known) if known == shards => return Ok(()),
            Some(known) => {
                let detail = format!(
                    "`{}` has {known} shards in this keeper; with {shards} it would exclude nobody",
                    Escaped(name)
                );
                return Err(Error::bad_argument("segmented", detail));
            }
            None => {}
        }
        if remembered.oldest.len() >= MOST_REMEMBERED
            && let Some(oldest) = remembered.oldest.pop_front()
        {
            remembered.shards.remove(&oldest);
        }
        let name: Arc<[u8]> = name.into();
        remembered.oldest.push_back(name.clone());
        remembered.shards.insert(name, shards);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn name_of(name: &str) -> Result<String, Error> {
        Ok(String::from_utf8(Base::new(name.as_bytes(), 16)?.shard(3)).unwrap())
    }

    #[test]
    fn shard_names_are_what_the_documents_say() {
        assert_eq!(name_of("stock:sku-9").unwrap(), "{stock:sku-9}:shard-3-of-16");
        assert_eq!(name_of("{sku-9}:stock").unwrap(), "{sku-9}:stock::shard-3-of-16");
    }

    #[test]
    fn different_names_never_share_a_shard() {
        let names = ["a", "{a}", "{a}:", "{a}:shard-3-of-16", "a:", "a:shard-3-of-16", "{a}{b}", "{a:}"];
        let shards: HashSet<_> = names.iter().map(|name| name_of(name).unwrap()).collect();
        assert_eq!(shards.len(), names.len(), "{shards:?}");
    }

    #[test]
    fn braces_that_are_no_tag_and_numbers_out_of_bounds_are_refused() {
        for bad in ["{", "a}", "{}", "a{b", "}{", "{}x{y}"] {
            assert!(name_of(bad).unwrap_err().to_string().contains("no hash tag"), "{bad}");
        }
        for bad in [0, MAX_SHARDS + 1] {
            assert!(Base::new(b"a", bad).err().unwrap().to_string().contains("1 to 128"), "{bad}");
        }
    }

    /// Known values, so that other languages can check theirs: `sha1("")` begins with da39a3ee5e6b4b0d, `sha1("abc")`
    /// with a9993e364706816a.
    #[test]
    fn the_shard_of_a_sub_key_is_fixed() {
        assert_eq!(shard_of(b"", 100), (0xda39_a3ee_5e6b_4b0d_u64 % 100) as usize);
        assert_eq!(shard_of(b"abc", 128), 0x6a);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let segments = Segments::default();
        segments.check(b"first", 2).unwrap();
        let error = segments.check(b"first", 3).unwrap_err().to_string();
        assert!(error.contains("2 shards") && error.contains("with 3"), "{error}");
        for number in 0..MOST_REMEMBERED {
            segments.check(number.to_string().as_bytes(), 2).unwrap();
        }
        assert!(segments.check(b"first", 3).is_ok(), "forgotten");
        let remembered = segments.0.lock();
        assert_eq!((remembered.shards.len(), remembered.oldest.len()), (MOST_REMEMBERED, MOST_REMEMBERED));
    }
}
