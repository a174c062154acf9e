//! Starting the servers of a cluster and introducing them to each other.

use super::{ClusterServers, NODE_TIMEOUT_MS, SLOTS, START_ATTEMPTS, ask, has_bus_port, until};
use crate::server::{RedisServer, ServerBuilder, ServerError, free_port};

/// A server and the port of its bus.
type Member = (RedisServer, u16);

pub(super) fn form(
    builder: &ServerBuilder,
    primaries: usize,
    replicas: usize,
) -> Result<ClusterServers, ServerError> {
    let members: Result<Vec<Member>, ServerError> =
        (0..primaries + replicas).map(|_| start_one(builder)).collect();
    let members = members?;
    introduce(&members, primaries)?;
    let nodes: Vec<RedisServer> = members.into_iter().map(|(node, _)| node).collect();
    let ids: Result<Vec<String>, ServerError> = nodes.iter().map(id_of).collect();
    let all = ClusterServers { nodes, ids: ids?, primaries };
    for replica in 0..replicas {
        let id = &all.ids[replica % primaries];
        all.ask(primaries + replica, &["CLUSTER", "REPLICATE", id])?;
    }
    all.wait_ok()?;
    until("replicate", || is_in_sync(&all))?;
    Ok(all)
}

fn start_one(builder: &ServerBuilder) -> Result<Member, ServerError> {
    let mut attempt = 1;
    loop {
        match try_start(builder) {
            Err(_) if attempt < START_ATTEMPTS => attempt += 1,
            result => return result,
        }
    }
}

fn try_start(builder: &ServerBuilder) -> Result<Member, ServerError> {
    let bus = free_port().map_err(ServerError::io("looking for a free port"))?;
    let mut builder = builder
        .clone()
        .config("cluster-enabled", "yes")
        .config("cluster-node-timeout", NODE_TIMEOUT_MS)
        .config("cluster-replica-validity-factor", "0")
        .config("repl-diskless-sync-delay", "0");
    if has_bus_port(builder.kind_of()) {
        builder = builder.config("cluster-port", bus.to_string());
        return Ok((builder.start()?, bus));
    }
    let server = builder.start()?;
    let bus = server.port().checked_add(10_000);
    Ok((server, bus.ok_or(ServerError::Unresponsive { what: "find a port for its bus" })?))
}

/// Slots, numbers of their own, and each other's addresses.
fn introduce(members: &[Member], primaries: usize) -> Result<(), ServerError> {
    for (number, (node, _)) in members.iter().enumerate() {
        ask(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
        if number < primaries {
            give_slots(node, share(number, primaries))?;
        }
    }
    let (first, _) = &members[0];
    for (node, bus) in &members[1..] {
        ask(first, &["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string(), &bus.to_string()])?;
    }
    let all = format!("cluster_known_nodes:{}\r", members.len());
    until("know each other", || {
        let mut infos = members.iter().map(|(node, _)| cluster_info(node));
        infos.try_fold(true, |know, info| Ok(know && info?.contains(&all)))
    })?;
    // Known is not yet met: a node that is still in handshake cannot be followed.
    until("meet each other", || {
        let mut lists = members.iter().map(|(node, _)| ask(node, &["CLUSTER", "NODES"]));
        lists.try_fold(true, |met, list| {
            Ok(met && !list?.as_str().is_none_or(|text| text.contains("handshake")))
        })
    })
}

fn share(number: usize, primaries: usize) -> std::ops::Range<usize> {
    let end = |number: usize| usize::from(SLOTS) * number / primaries;
    end(number)..end(number + 1)
}

fn give_slots(node: &RedisServer, slots: std::ops::Range<usize>) -> Result<(), ServerError> {
    let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
    let words: Vec<&str> =
        ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
    ask(node, &words).map(drop)
}

/// Every replica follows its primary, and everybody knows it.
fn is_in_sync(all: &ClusterServers) -> Result<bool, ServerError> {
    for node in &all.nodes[all.primaries..] {
        let replication = info(node, "replication")?;
        if !replication.contains("role:slave") || !replication.contains("master_link_status:up") {
            return Ok(false);
        }
    }
    let replicas = all.nodes.len() - all.primaries;
    for node in &all.nodes {
        let map = ask(node, &["CLUSTER", "SLOTS"])?;
        let known = map.as_array().into_iter().flatten().filter_map(|range| range.as_array());
        if known.map(|parts| parts.len().saturating_sub(3)).sum::<usize>() < replicas {
            return Ok(false);
        }
    }
    Ok(true)
}

fn id_of(node: &RedisServer) -> Result<String, ServerError> {
    let id = ask(node, &["CLUSTER", "MYID"])?;
    id.as_str().map(str::to_owned).ok_or_else(|| ServerError::Protocol(format!("{id:?} for a node's id")))
}

pub(super) fn cluster_info(node: &RedisServer) -> Result<String, ServerError> {
    let info = ask(node, &["CLUSTER", "INFO"])?;
    Ok(info.as_str().unwrap_or_default().to_owned())
}

pub(super) fn info(node: &RedisServer, section: &str) -> Result<String, ServerError> {
    let info = ask(node, &["INFO", section])?;
    Ok(info.as_str().unwrap_or_default().to_owned())
}
