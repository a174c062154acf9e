//! A cluster: its state, its slots, its servers one by one.

use lockkeeper::redis::RedisStore;

use super::clock;
use super::facts::{Facts, LOOK, words};
use super::finding::{Finding, Level};
use super::{eviction, persistence, replication};

const SLOTS: u64 = 16_384;

/// A server that keeps slots, with what it says of itself.
pub(super) struct Server {
    pub(super) name: String,
    pub(super) store: RedisStore,
    facts: Facts,
    ahead_us: Option<i64>,
}

impl Server {
    /// It answers from here.
    pub(super) fn is_there(&self) -> bool {
        self.ahead_us.is_some()
    }
}

/// Asks each of them.
pub(super) async fn servers(all: Vec<(String, RedisStore)>) -> Vec<Server> {
    let mut servers = Vec::with_capacity(all.len());
    for (name, store) in all {
        let is_there = store.heartbeat(LOOK).await.is_ok();
        let ahead_us = is_there.then(|| store.server_ahead_us());
        let facts = if is_there { Facts::gather(&store).await } else { Facts::default() };
        servers.push(Server { name, store, facts, ahead_us });
    }
    servers
}

/// What was found of all of them.
pub(super) async fn check(servers: &[Server]) -> Vec<Finding> {
    let mut found = vec![state(servers).await];
    found.extend(reached(servers));
    let there = || servers.iter().filter(|server| server.is_there());
    let each = |look: fn(&Facts) -> Option<Finding>| {
        let seen = there().filter_map(|server| Some((server.name.as_str(), look(&server.facts)?)));
        merged(seen.collect(), servers.len())
    };
    found.extend(each(|facts| persistence::check(facts).into_iter().next()));
    found.extend(each(|facts| eviction::check(facts).into_iter().next()));
    found.extend(each(replication::of_watched));
    found.extend(each(Facts::refused));
    let clocks = there().filter_map(|server| Some((server.name.as_str(), clock::check(server.ahead_us?))));
    found.extend(merged(clocks.collect(), servers.len()));
    found
}

/// By the map of the first server that answers.
async fn state(servers: &[Server]) -> Finding {
    let mut refusal = String::new();
    for Server { name, store, .. } in servers {
        match store.query::<String>(&["CLUSTER", "INFO"], LOOK).await {
            Ok(text) => return read_state(name, &text, servers.len()),
            Err(error) => refusal = words(&error),
        }
    }
    Finding::new("cluster", Level::Note, "The state of the cluster was not told").seen(format!("{refusal}."))
}

fn read_state(name: &str, text: &str, servers: usize) -> Finding {
    let field = |wanted: &str| {
        let mut fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        fields.find_map(|(name, value)| (name == wanted).then_some(value))
    };
    let served = field("cluster_slots_ok").and_then(|slots| slots.parse().ok()).unwrap_or(0);
    let title = format!("A cluster: {served} of {SLOTS} slots served by {servers} servers");
    let state = field("cluster_state").unwrap_or("unknown");
    if state == "ok" && served == SLOTS {
        return Finding::new("cluster", Level::Ok, title);
    }
    Finding::new("cluster", Level::Problem, title)
        .seen(format!(
            "{name} says that its state is `{state}`. Locks whose slot nobody serves cannot be taken."
        ))
        .advice("Look for servers that are down and slots without a server (redis-cli --cluster check).")
}

fn reached(servers: &[Server]) -> Option<Finding> {
    let away: Vec<String> =
        servers.iter().filter(|server| server.ahead_us.is_none()).map(|server| server.name.clone()).collect();
    let title = format!("{} of {} servers cannot be reached from here", away.len(), servers.len());
    let finding = Finding::new("servers", Level::Problem, title)
        .seen("The cluster names them by these addresses. Every client must reach every server.")
        .advice("Open the way to them, or have the cluster announce addresses that lead there (cluster-announce-ip).");
    (!away.is_empty()).then(|| finding.items(away))
}

/// The same finding of several servers is one; it names them unless it is all of them.
pub(super) fn merged(seen: Vec<(&str, Finding)>, servers: usize) -> Vec<Finding> {
    let mut merged: Vec<(Finding, Vec<String>)> = vec![];
    for (name, finding) in seen {
        match merged.iter_mut().find(|(known, _)| *known == finding) {
            Some((_, names)) => names.push(name.to_owned()),
            None => merged.push((finding, vec![name.to_owned()])),
        }
    }
    let named = |(finding, names): (Finding, Vec<String>)| {
        if names.len() == servers {
            return finding;
        }
        let items = finding.items.iter().cloned().chain(names.into_iter().map(|name| format!("on {name}")));
        let items = items.collect();
        finding.items(items)
    };
    merged.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_servers_say_alike_is_said_once() {
        let one = || Finding::new("a", Level::Ok, "one");
        let other = Finding::new("a", Level::Note, "other");
        assert_eq!(merged(vec![("x", one()), ("y", one())], 2), [one()]);
        let both = merged(vec![("x", one()), ("y", other), ("z", one())], 3);
        assert_eq!(both[0].items, ["on x", "on z"]);
        assert_eq!(both[1].items, ["on y"]);
    }

    #[test]
    fn a_cluster_is_well_when_every_slot_is_served() {
        let level = |state: &str, slots: u64| {
            read_state("x", &format!("cluster_state:{state}\r\ncluster_slots_ok:{slots}\r\n"), 3).level
        };
        assert_eq!(level("ok", SLOTS), Level::Ok);
        assert_eq!((level("fail", SLOTS), level("ok", SLOTS - 1)), (Level::Problem, Level::Problem));
    }
}
