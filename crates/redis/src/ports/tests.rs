//! Headers say what scripts and ports do.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::idempotency::{
    Abandon, Begin, Complete, Fingerprint, HowAbandoned, InspectOnce, KeepAlive, MAX_ATTEMPTS, MAX_ENDS,
    MAX_RETENTION, MAX_STORED_BYTES, OnCrash, Resolution, Resolve, Retention, Stored,
};
use lockkeeper_core::limit::{Ask, Check, Limit, Peek, Quota, Refund, Reset};
use lockkeeper_core::lock::permit::{AcquirePermit, InspectPermits, PermitLimit, ReleasePermit, RenewPermit};
use lockkeeper_core::lock::{
    Acquire, FENCE_MAX, Fence, FenceRequest, ForceRelease, Holder, Inspect, KeeperName, Lease, Leave,
    MAX_FENCE_BLOCK, MAX_TOKEN_BYTES, OwnerToken, RaiseFence, Release, Renew, Swap, Waiter, Watch,
};
use lockkeeper_core::time::micros_of;
use lockkeeper_core::{Key, Prefix};

use lockkeeper_core::Timestamp;

use crate::port::{Cmd, Fields, Port, Script};
use crate::script;

/// What a script's header says after `label`.
fn header(script: &Script, label: &str) -> &'static str {
    let line = script.source.lines().find_map(|line| line.strip_prefix(&format!("-- {label}: ")));
    line.unwrap_or_else(|| panic!("{}: no `{label}` in the header", script.name))
}

/// The names in a list.
fn names(list: &str) -> Vec<&str> {
    list.split(", ").filter(|name| *name != "none" && !name.starts_with("and so on")).collect()
}

/// The arguments in groups: how often a group comes (`per key`; empty for once), and the names in it.
fn groups(script: &Script) -> Vec<(&'static str, Vec<&'static str>)> {
    let groups = header(script, "ARGV").split("; ").map(|group| match group.split_once(": ") {
        Some((times, list)) => (times, names(list)),
        None => ("", names(group)),
    });
    groups.collect()
}

/// The script and its port agree, where the groups of arguments come so many times.
fn check_repeated<D: Port>(decision: &D, times: &[(&str, usize)]) {
    let script = D::SCRIPT;
    assert_eq!(script.name, D::NAME);
    assert!(script.source.starts_with(&format!("-- {}: ", D::NAME)), "{}: purpose", D::NAME);
    let mut command = Cmd::new();
    decision.arguments(&mut command);
    let groups = groups(script);
    let of = |group: &str| match group {
        "" | "then" => 1,
        _ => times.iter().find(|(name, _)| *name == group).unwrap_or_else(|| panic!("{group}")).1,
    };
    let declared: usize = groups.iter().map(|(group, names)| of(group) * names.len()).sum();
    assert_eq!(command.args_iter().count(), declared, "{}: arguments", D::NAME);
    let parts: Vec<String> = D::KEYS.iter().map(|part| format!("{part:?}").to_lowercase()).collect();
    assert_eq!(names(header(script, "KEYS")), parts, "{}: keys", D::NAME);
    for label in ["Reply", "Invariants"] {
        assert!(!header(script, label).is_empty(), "{}: {label}", D::NAME);
    }
    // Where a repeated argument lies is computed; one that comes once has its number.
    let once = if groups[0].0.is_empty() { groups[0].1.len() } else { 0 };
    for number in 1..=once {
        let used = script.source.contains(&format!("ARGV[{number}]"));
        assert!(used, "{}: ARGV[{number}] is not used", D::NAME);
    }
}

fn check<D: Port>(decision: &D) {
    check_repeated(decision, &[]);
}

#[test]
fn headers_say_what_the_scripts_and_ports_do() {
    let token = OwnerToken::given("t").unwrap();
    let lease = Lease::new(Duration::from_secs(1)).unwrap();
    let (fences, not_after) = (FenceRequest::default(), Timestamp::MAX);
    let acquire = Acquire { token: token.clone(), lease, fences, not_after };
    check(&acquire);
    let keeper = KeeperName::new("k");
    check(&Watch { acquire, waiter: Waiter { keeper: keeper.clone(), count: 1 } });
    check(&Leave { keeper });
    check(&Renew { token: token.clone(), lease, not_after });
    check(&Release { token: token.clone() });
    check(&Swap { from: token.clone(), to: token.clone(), lease, fences, not_after });
    check(&ForceRelease { shown: Holder::new(b"t", 1), seen: 0, not_after });
    check(&RaiseFence { token: token.clone(), to: 1, not_after });
    check(&Inspect);
    let limit = PermitLimit::new(1).unwrap();
    check(&AcquirePermit { token: token.clone(), lease, limit, not_after });
    check(&RenewPermit { token: token.clone(), lease, not_after });
    check(&ReleasePermit { token });
    check(&InspectPermits);
}

const ONCE: [&Script; 6] = [
    &script::BEGIN,
    &script::KEEP_ALIVE,
    &script::COMPLETE,
    &script::ABANDON,
    &script::RESOLVE,
    &script::INSPECT_ONCE,
];

#[test]
fn headers_of_idempotency_say_what_the_scripts_and_ports_do() {
    let token = OwnerToken::given("t").unwrap();
    let lease = Lease::new(Duration::from_secs(1)).unwrap();
    let retain = Retention::new(Duration::from_secs(1)).unwrap();
    let (fingerprint, on_crash, not_after) = (Fingerprint::new([7; 32]), OnCrash::Rerun, Timestamp::MAX);
    check(&Begin { token: token.clone(), lease, on_crash, retain, fingerprint, seen: 0, not_after });
    check(&KeepAlive { token: token.clone(), lease, not_after });
    let stored = Stored::whole(&b"r"[..]).unwrap();
    check(&Complete { token: token.clone(), stored: stored.clone(), retain });
    for how in [HowAbandoned::Undone, HowAbandoned::Crashed] {
        check(&Abandon { token: token.clone(), how });
    }
    for resolution in [Resolution::Undone, Resolution::Completed(stored)] {
        check(&Resolve { fence: Fence::new(1), token: token.clone(), resolution, retain, not_after });
    }
    check(&InspectOnce);
}

/// Each repeats how a record is read, and all read it alike, within the bounds of the model.
#[test]
fn scripts_of_idempotency_read_a_record_alike_and_within_the_bounds_of_the_model() {
    let reading = |script: &Script| {
        let (from, to) = ("local state, fence, attempt", "kept_until = ends + hold + retain end");
        let rest = script.source.split_once(from).unwrap_or_else(|| panic!("{}", script.name)).1;
        let read = rest.split_once(to).unwrap_or_else(|| panic!("{}", script.name)).0;
        read.lines().map(str::trim).collect::<Vec<_>>().join("\n")
    };
    let expected = reading(&script::INSPECT_ONCE);
    for script in ONCE {
        assert_eq!(reading(script), expected, "{}", script.name);
    }
    let bounds = [
        ("fence <= ", FENCE_MAX - u64::from(MAX_FENCE_BLOCK)),
        ("attempt <= ", MAX_ATTEMPTS),
        ("ends <= ", MAX_ENDS),
        ("hold <= ", micros_of(MAX_RETENTION)),
        ("retain <= ", micros_of(MAX_RETENTION)),
        ("length <= ", MAX_TOKEN_BYTES as u64),
        ("rest <= ", MAX_STORED_BYTES as u64),
    ];
    for (name, bound) in bounds {
        let expected_text = format!("{name}{bound}");
        let ends = expected.split_once(&expected_text).unwrap_or_else(|| panic!("no {expected_text}")).1;
        assert!(!ends.starts_with(|next: char| next.is_ascii_digit()), "{expected_text}…");
    }
}

/// Every write carries its expiry in the same command, and no number is written as Lua would: `1e+15`.
#[test]
fn c46_scripts_of_idempotency_write_a_record_with_its_expiry_and_whole_decimal_numbers() {
    for script in ONCE {
        assert!(!script.source.contains("tostring"), "{}", script.name);
        let timed =
            script.source.lines().filter(|line| line.contains("call('SET'") || line.contains("call('PEX"));
        let timed: Vec<&str> = timed.collect();
        assert_eq!(timed.is_empty(), script.read_only, "{}", script.name);
        for line in timed {
            let is_timed = line.contains("'PXAT', string.format('%.0f', math.ceil(")
                || line.contains("'PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil(");
            assert!(is_timed, "{}: {line}", script.name);
        }
    }
}

#[test]
fn headers_of_limits_say_how_often_their_arguments_come() {
    let second = Duration::from_secs(1);
    let limits = [
        Limit::token_bucket(10).refill(3, second),
        Limit::fixed_window(100, second),
        Limit::token_bucket(20).refill(7, second),
        Limit::sliding_log(50, second),
    ];
    let quotas: Arc<[Quota]> = limits.into_iter().map(|limit| limit.unwrap().quota().unwrap()).collect();
    // Three of one (two bits), up to 40 of which 11 are asked for (four bits), and one that never fits (one bit).
    let asks = [1, 1, 1].map(Ask::whole).into_iter().chain([Ask::up_to(40), Ask::whole(60)]);
    let not_after = Timestamp::MAX;
    let check = Check { quotas: quotas.clone(), asks: asks.collect(), not_after };
    check_repeated(&check, &[("per key", 4), ("per run", 3), ("per bucket and bit", 2 * (2 + 4 + 1))]);
    check_repeated(&Peek { quotas: quotas.clone(), ask: Ask::whole(1) }, &[("per key", 4)]);
    check_repeated(&Refund { quotas: quotas.clone(), cost: 1, not_after }, &[("per key", 4)]);
    check_repeated(&Reset { quotas }, &[("per key", 4)]);
}

#[test]
fn l100_l101_r119_r121_scripts_touch_declared_keys_only_and_keys_are_only_keys() {
    for script in script::SCRIPTS {
        for call in script.source.split("call('").skip(1) {
            let call = &call[..call.find(')').unwrap()];
            let keyed = call.starts_with("TIME'") || call.contains("', KEYS[");
            assert!(keyed, "{}: `{call}` does not name KEYS[n]", script.name);
        }
    }
    let key = Key::new(&Prefix::new("lock:").unwrap(), "a").unwrap();
    let mut command = Cmd::new();
    Acquire::keys(&key.into(), &mut command);
    assert_eq!(
        command.get_packed_command(),
        redis::cmd("2").arg("lock:a").arg("lock:~fence:{lock:a}").get_packed_command()
    );
}

/// No number reaches a command as Lua would write it: `1e+15`, `1.7644214001235e+15`.
#[test]
fn r10_r67_r68_scripts_of_limits_write_whole_decimal_numbers() {
    // One for texts, one for logs; and the short way of a check.
    for (script, many) in [(&script::CHECK, 3), (&script::REFUND, 2)] {
        assert!(!script.source.contains("tostring"), "{}", script.name);
        let is_timed = |line: &&str| line.contains("call('SET'") || line.contains("call('PEXPIRE");
        let timed: Vec<&str> = script.source.lines().filter(is_timed).collect();
        assert_eq!(timed.len(), many, "{}", script.name);
        for line in timed {
            assert!(line.contains(", string.format('%.0f', "), "{}: {line}", script.name);
        }
    }
}

/// What a script granted and what the model makes of its reply are the same, or the reply is not believed.
#[test]
fn a_check_on_which_script_and_model_disagree_is_malformed() {
    let quota = Limit::fixed_window(3, Duration::from_secs(1)).unwrap().quota().unwrap();
    let check = Check { quotas: [quota].into(), asks: [Ask::whole(2)].into(), not_after: Timestamp::MAX };
    let read = |granted, repaired| {
        let reply = vec![
            redis::Value::Int(granted),
            redis::Value::Int(repaired),
            redis::Value::BulkString(Vec::new()),
        ];
        let fields = Fields::of(redis::Value::Array(reply)).unwrap();
        check.read(Timestamp::from_micros(1_000_000), b"checked", fields)
    };
    assert_eq!(read(2, 0).unwrap().granted(), 2);
    for (granted, repaired) in [(0, 0), (1, 0), (3, 0), (2, 1)] {
        assert!(read(granted, repaired).is_err(), "{granted} granted, {repaired} repaired");
    }
}

/// Invariant 5: what changes a limit says first until when it may.
#[test]
fn checks_and_refunds_of_limits_carry_their_not_after() {
    let quotas: Arc<[Quota]> =
        [Limit::fixed_window(3, Duration::from_secs(1)).unwrap().quota().unwrap()].into();
    let not_after = Timestamp::from_micros(1_767_225_600_000_000);
    let (mut check, mut refund) = (Cmd::new(), Cmd::new());
    Check { quotas: quotas.clone(), asks: [Ask::whole(1)].into(), not_after }.arguments(&mut check);
    Refund { quotas, cost: 1, not_after }.arguments(&mut refund);
    for command in [check, refund] {
        let first = command.args_iter().next();
        assert!(matches!(first, Some(redis::Arg::Simple(b"1767225600000000"))), "{first:?}");
    }
}
