//! What servers and Sentinels say of themselves and each other.

use crate::server::{RedisServer, Reply};

/// It takes writes, by its own account.
pub(super) fn is_primary(server: &RedisServer) -> bool {
    server.is_running() && field(server, "role").as_deref() == Some("master")
}

/// How many replicas are attached.
pub(super) fn replicas_of(server: &RedisServer) -> Option<u64> {
    field(server, "connected_slaves")?.parse().ok()
}

/// How much it has written, as a primary.
pub(super) fn written(server: &RedisServer) -> u64 {
    number(server, "master_repl_offset")
}

/// How much it has read, as a replica.
pub(super) fn has_read(server: &RedisServer) -> u64 {
    if field(server, "master_link_status").as_deref() == Some("up") {
        number(server, "slave_repl_offset")
    } else {
        0
    }
}

/// The Sentinel names this primary, so many replicas that are well, and so many other Sentinels that are.
pub(super) fn is_settled(sentinel: &RedisServer, primary: u16, replicas: usize, others: usize) -> bool {
    let service = super::SERVICE;
    let named = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", service]);
    let is_named = named.is_ok_and(|reply| {
        reply.as_array().and_then(|parts| parts.get(1)?.as_int()) == Some(i64::from(primary))
    });
    is_named
        && well(sentinel, "REPLICAS", "slave") >= replicas
        && well(sentinel, "SENTINELS", "sentinel") >= others
}

/// How many instances the Sentinel lists with these flags and no trouble.
fn well(sentinel: &RedisServer, what: &str, flags: &str) -> usize {
    let Ok(reply) = sentinel.command(&["SENTINEL", what, super::SERVICE]) else { return 0 };
    let listed = reply.as_array().unwrap_or_default();
    listed
        .iter()
        .filter(|one| {
            let is_linked = pair(one, "master-link-status").is_none_or(|status| status == "ok");
            pair(one, "flags") == Some(flags) && is_linked
        })
        .count()
}

fn pair<'a>(of: &'a Reply, name: &str) -> Option<&'a str> {
    let parts = of.as_array()?;
    let at = parts.iter().step_by(2).position(|part| part.as_str() == Some(name))?;
    parts.get(at * 2 + 1)?.as_str()
}

fn number(server: &RedisServer, name: &str) -> u64 {
    field(server, name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn field(server: &RedisServer, name: &str) -> Option<String> {
    let info = server.command(&["INFO", "replication"]).ok()?;
    let lines = info.as_str()?.lines();
    lines
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
        .next()
}
