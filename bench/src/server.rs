//! The server of a row, and what it knows about itself.

use anyhow::{Context as _, Result, bail};
use lockkeeper::redis::SCRIPTS;
use lockkeeper_faults::{RedisServer, Reply};

/// Starts one that knows the scripts.
pub(crate) fn start() -> Result<RedisServer> {
    let server =
        RedisServer::builder().start().context("a Redis server is needed: redis-server on the PATH")?;
    for script in SCRIPTS {
        ask(&server, &["SCRIPT", "LOAD", script.source])?;
    }
    Ok(server)
}

/// Forgets all keys; the scripts stay.
pub(crate) fn clear(server: &RedisServer) -> Result<()> {
    ask(server, &["FLUSHALL", "SYNC"]).map(drop)
}

/// One command; an error reply is an error.
pub(crate) fn ask(server: &RedisServer, command: &[&str]) -> Result<Reply> {
    match server.command(command)? {
        Reply::Error(error) => bail!("{}: {error}", command[0]),
        reply => Ok(reply),
    }
}

/// The number behind `field:` in a section of `INFO`, or of the part `key=` of it.
pub(crate) fn info(server: &RedisServer, section: &str, field: &str) -> Result<f64> {
    let reply = ask(server, &["INFO", section])?;
    let text = reply.as_str().context("INFO: no text")?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = value.with_context(|| format!("INFO {section} has no {field}"))?;
    value.trim().parse().with_context(|| format!("INFO {section}: {field} is not a number"))
}

/// How often the server ran this command since its start, by itself or inside of scripts.
pub(crate) fn calls_of(server: &RedisServer, command: &str) -> Result<u64> {
    calls_of_any(server, &[command])
}

/// The same for several commands together.
pub(crate) fn calls_of_any(server: &RedisServer, commands: &[&str]) -> Result<u64> {
    let reply = ask(server, &["INFO", "commandstats"])?;
    let text = reply.as_str().context("INFO: no text")?;
    let wanted = text.lines().filter_map(command_calls).filter(|(command, _)| commands.contains(command));
    wanted.map(|(_, calls)| Ok(calls.parse::<u64>()?)).sum()
}

/// The command and its calls, from a line of `INFO commandstats`.
fn command_calls(line: &str) -> Option<(&str, &str)> {
    let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    Some((command, rest.split(',').next()?))
}

/// The version, for the heading.
pub(crate) fn version(server: &RedisServer) -> Result<String> {
    let reply = ask(server, &["INFO", "server"])?;
    let version =
        reply.as_str().and_then(|text| text.lines().find_map(|line| line.strip_prefix("redis_version:")));
    Ok(version.unwrap_or("unknown").to_owned())
}

/// The connections that were used within the last `seconds`, this question's own not counted.
pub(crate) fn busy_connections(server: &RedisServer, seconds: u64) -> Result<usize> {
    let reply = ask(server, &["CLIENT", "LIST"])?;
    let text = reply.as_str().context("CLIENT LIST: no text")?;
    let is_busy = |line: &&str| {
        let field =
            |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let idle = field("idle").and_then(|idle| idle.parse::<u64>().ok());
        idle.is_some_and(|idle| idle <= seconds) && !field("cmd").is_some_and(|cmd| cmd.starts_with("client"))
    };
    Ok(text.lines().filter(is_busy).count())
}
