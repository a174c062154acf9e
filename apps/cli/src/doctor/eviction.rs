//! Whether the server may throw locks, and records of what has run, away to make room.

use super::facts::Facts;
use super::finding::{Finding, Level};

const CHECK: &str = "eviction";

/// The eviction policy, the memory limit, and what was evicted so far. Nothing where INFO is refused.
pub(super) fn check(facts: &Facts) -> Option<Finding> {
    let policy = facts.info("maxmemory_policy")?;
    let limit = facts.number("maxmemory").unwrap_or(0);
    let evicted = facts.number("evicted_keys").unwrap_or(0);
    if policy == "noeviction" {
        return Some(safe(limit, evicted));
    }
    let title = match (limit, evicted) {
        (0, 0) => format!("The policy {policy} would evict locks and records if memory were limited"),
        (_, 0) => format!("The policy {policy} can evict locks and records"),
        (_, count) => {
            format!("The policy {policy} can evict locks and records, and {} evicted so far", were(count))
        }
    };
    let level = if limit == 0 && evicted == 0 { Level::Warning } else { Level::Problem };
    let finding = Finding::new(CHECK, level, title)
        .seen(format!(
            "maxmemory-policy {policy}, maxmemory {}. Locks, fences, and records of operations that run once have an \
             expiry, so every policy but noeviction may remove them: locks while they are held, and records before their time, \
             so that an operation runs a second time.",
            size(limit)
        ))
        .advice("Keep locks and records on a server that evicts nothing, apart from caches; here as well as in its configuration:")
        .command("CONFIG SET maxmemory-policy noeviction")
        .command("CONFIG REWRITE");
    Some(finding)
}

fn safe(limit: u64, evicted: u64) -> Finding {
    let finding = Finding::new(CHECK, Level::Ok, "Nothing is evicted");
    let seen = match (limit, evicted) {
        (_, 1..) => format!("But {} evicted since the server started, under another policy.", were(evicted)),
        (0, 0) => String::new(),
        _ => format!("With {} in use, taking locks is refused (OOM); releasing works.", size(limit)),
    };
    finding.seen(seen)
}

fn were(count: u64) -> String {
    if count == 1 { "1 key was".to_owned() } else { format!("{count} keys were") }
}

fn size(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    match bytes {
        0 => "unlimited".to_owned(),
        bytes if bytes >= MIB => format!("{} MiB", bytes / MIB),
        bytes => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_problem_once_it_can_act() {
        let level = |info| check(&Facts::of(info, &[])).map(|found| found.level);
        assert_eq!(
            level("maxmemory:0\r\nmaxmemory_policy:noeviction\r\nevicted_keys:0\r\n"),
            Some(Level::Ok)
        );
        assert_eq!(
            level("maxmemory:0\r\nmaxmemory_policy:volatile-ttl\r\nevicted_keys:0"),
            Some(Level::Warning)
        );
        assert_eq!(
            level("maxmemory:1\r\nmaxmemory_policy:volatile-ttl\r\nevicted_keys:0"),
            Some(Level::Problem)
        );
        assert_eq!(
            level("maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\nevicted_keys:3"),
            Some(Level::Problem)
        );
        assert_eq!(level(""), None);
    }
}
