//! The table: a feature's name, purpose, keys, channels, commands and scripts.

use super::Feature;
use super::KeysOf::{self, Limits, Locks, Marker, Once};
use crate::script::{self as scripts, Script};
use crate::sentinel::EVENTS;

/// What is known of a feature.
pub(super) struct Row {
    pub(super) feature: Feature,
    pub(super) name: &'static str,
    pub(super) purpose: &'static str,
    pub(super) keys: &'static [KeysOf],
    pub(super) channels: &'static [&'static str],
    /// Commands without which it does not work.
    pub(super) must: &'static [&'static str],
    /// Commands without which it works in some other way, which is said.
    pub(super) may: &'static [(&'static str, &'static str)],
    pub(super) scripts: &'static [&'static Script],
}

const EVALSHA: (&str, &str) = ("evalsha", "each call carries the script's source");
const EVALSHA_RO: (&str, &str) = ("evalsha_ro", "looking waits while writes are paused");
const EVAL_RO: (&str, &str) = ("eval_ro", "looking waits while writes are paused");
const TRACKING: (&str, &str) = ("client|tracking", "who waits is not told, and polls");
const HGETALL: (&str, &str) = ("hgetall", "it is not seen who waits");
const HLEN: (&str, &str) = ("hlen", "it is not seen who waits");
const SHORTENED: &str = "a lock that is released stays for a millisecond";

const NONE: Row = Row {
    feature: Feature::Locks,
    name: "",
    purpose: "",
    keys: &[],
    channels: &[],
    must: &[],
    may: &[],
    scripts: &[],
};

pub(super) static ROWS: [Row; 16] = [
    Row {
        feature: Feature::Locks,
        name: "locks",
        purpose: "taking, renewing and releasing locks",
        keys: &[Locks],
        must: &["eval", "time", "get", "set", "del", "pttl", "pexpire"],
        may: &[EVALSHA],
        scripts: &[
            &scripts::ACQUIRE,
            &scripts::RENEW,
            &scripts::RELEASE,
            &scripts::SWAP,
            &scripts::FORCE_RELEASE,
        ],
        ..NONE
    },
    Row {
        feature: Feature::Waiting,
        name: "waiting",
        purpose: "being told of releases",
        keys: &[Locks],
        must: &["eval", "time", "get", "set", "del", "pttl", "pexpire"],
        may: &[EVALSHA, TRACKING],
        scripts: &[&scripts::ACQUIRE, &scripts::RENEW, &scripts::RELEASE, &scripts::SWAP],
        ..NONE
    },
    Row {
        feature: Feature::Waiters,
        name: "waiters",
        purpose: "seeing who waits, and taking turns with other keepers",
        keys: &[Locks],
        must: &["eval", "time", "get", "set", "pttl", "pexpire", "hset", "hdel", "hgetall", "hlen"],
        may: &[EVALSHA, EVAL_RO, EVALSHA_RO, ("unlink", "notes that are too many stay for their time")],
        scripts: &[&scripts::WATCH, &scripts::LEAVE, &scripts::INSPECT],
        ..NONE
    },
    Row {
        feature: Feature::Inspecting,
        name: "inspecting",
        purpose: "looking at locks",
        keys: &[Locks],
        must: &["eval", "time", "get", "pttl"],
        may: &[EVALSHA, EVAL_RO, EVALSHA_RO, HGETALL, HLEN],
        scripts: &[&scripts::INSPECT],
        ..NONE
    },
    Row {
        feature: Feature::Listing,
        name: "listing",
        purpose: "listing locks",
        keys: &[Locks],
        must: &["eval", "time", "get", "pttl", "scan"],
        may: &[EVALSHA, EVAL_RO, EVALSHA_RO, HGETALL, HLEN],
        scripts: &[&scripts::INSPECT],
        ..NONE
    },
    Row {
        feature: Feature::Probing,
        name: "probing",
        purpose: "finding out what the server is",
        may: &[
            ("info", "version, mode and eviction policy are not known"),
            ("client|trackinginfo", "`health` does not know whether tracking is allowed"),
        ],
        ..NONE
    },
    Row {
        feature: Feature::Permits,
        name: "permits",
        purpose: "concurrency limits",
        keys: &[Locks],
        must: &[
            "eval",
            "time",
            "pttl",
            "pexpireat",
            "zadd",
            "zcard",
            "zrange",
            "zrangebyscore",
            "zrem",
            "zremrangebyscore",
            "zrevrange",
            "zscore",
        ],
        may: &[EVALSHA, EVAL_RO, EVALSHA_RO],
        scripts: &[
            &scripts::ACQUIRE_PERMIT,
            &scripts::RENEW_PERMIT,
            &scripts::RELEASE_PERMIT,
            &scripts::INSPECT_PERMITS,
        ],
        ..NONE
    },
    Row {
        feature: Feature::Limits,
        name: "limits",
        purpose: "limits by token bucket and by windows",
        keys: &[Limits],
        must: &["eval", "time", "get", "set", "pttl", "del"],
        may: &[EVALSHA, EVAL_RO, EVALSHA_RO],
        scripts: &[&scripts::CHECK, &scripts::PEEK, &scripts::REFUND, &scripts::RESET],
        ..NONE
    },
    Row {
        feature: Feature::SlidingLogs,
        name: "sliding-logs",
        purpose: "limits by sliding log",
        keys: &[Limits],
        must: &[
            "eval",
            "time",
            "pttl",
            "del",
            "pexpireat",
            "zadd",
            "zcard",
            "zcount",
            "zrange",
            "zremrangebyrank",
            "zremrangebyscore",
        ],
        may: &[EVALSHA, EVAL_RO, EVALSHA_RO],
        scripts: &[&scripts::CHECK, &scripts::PEEK, &scripts::REFUND, &scripts::RESET],
        ..NONE
    },
    Row {
        feature: Feature::Once,
        name: "once",
        purpose: "operations that run once",
        keys: &[Once],
        must: &["eval", "time", "get", "getrange", "strlen", "set", "pttl", "pexpireat"],
        may: &[EVALSHA, EVAL_RO, EVALSHA_RO, TRACKING, ("scan", "records cannot be listed")],
        scripts: &[
            &scripts::BEGIN,
            &scripts::KEEP_ALIVE,
            &scripts::COMPLETE,
            &scripts::ABANDON,
            &scripts::RESOLVE,
            &scripts::INSPECT_ONCE,
        ],
        ..NONE
    },
    Row {
        feature: Feature::Durability,
        name: "durability",
        purpose: "waiting for replicas or the disk, in addition to locks",
        must: &["wait"],
        may: &[("waitaof", "nothing can wait for the disk"), ("role", "nothing can wait for all replicas")],
        ..NONE
    },
    Row {
        feature: Feature::Sentinel,
        name: "sentinel",
        purpose: "following a primary, in addition to what is used on it",
        must: &["role"],
        ..NONE
    },
    Row {
        feature: Feature::Sentinels,
        name: "sentinels",
        purpose: "following a primary: what the Sentinels' own user needs",
        channels: &EVENTS,
        must: &["sentinel|master", "sentinel|get-master-addr-by-name"],
        may: &[
            ("subscribe", "a failover is found by asking once a second, and not told"),
            ("sentinel|ckquorum", "`doctor` does not see whether a failover is possible"),
        ],
        ..NONE
    },
    Row {
        feature: Feature::Cluster,
        name: "cluster",
        purpose: "a cluster, in addition to what is used on it",
        must: &["cluster|slots", "asking"],
        ..NONE
    },
    Row {
        feature: Feature::Quorum,
        name: "quorum",
        purpose: "a majority of independent servers, in addition to locks",
        keys: &[Locks, Marker],
        must: &["info", "eval", "time", "get", "set", "pttl"],
        may: &[EVALSHA],
        scripts: &[&scripts::RAISE_FENCE],
        ..NONE
    },
    Row {
        feature: Feature::Plain,
        name: "plain",
        purpose: "locks where scripts are forbidden",
        keys: &[Locks],
        must: &["time", "get", "set", "pttl"],
        may: &[TRACKING, ("delifeq", SHORTENED), ("delex", SHORTENED)],
        ..NONE
    },
];
