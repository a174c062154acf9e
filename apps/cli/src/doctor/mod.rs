//! `lockkeeper doctor`: examines a server and says what endangers locks.

mod access;
mod clock;
mod eviction;
mod facts;
mod finding;
mod keys;
mod limits;
mod majority;
mod permissions;
mod persistence;
mod print;
mod replication;
mod server;

use std::process::ExitCode;
use std::time::Duration;

use lockkeeper::core::{Error, Prefix};
use lockkeeper::redis::{RedisStore, ServerInfo};
use lockkeeper::{Health, Keeper};

use crate::common::Common;
use access::Trial;
use facts::{Facts, words};
use finding::{Finding, Level, Report};
pub(crate) use permissions::escaped;

/// At least one finding is a problem.
const PROBLEMS: u8 = 2;

/// Examine a server and say what endangers locks.
///
/// Looks at version, persistence, eviction, replication, clocks, permissions and the keys under the prefixes. It changes
/// nothing. Exit code 0: no problem (there may be warnings); 2: at least one problem; 69: unreachable.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// What lock keys begin with on the server.
    #[arg(long, value_name = "PREFIX", default_value = "lock:")]
    prefix: String,

    /// What limit keys begin with on the server.
    #[arg(long, value_name = "PREFIX", default_value = "limit:")]
    limit_prefix: String,

    /// Examine the permissions of this ACL user rather than one's own (needs ACL DRYRUN, Redis 7.0).
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// Runs it.
///
/// # Errors
/// Bad URL or prefix; unreachable; wrong credentials.
pub async fn run(args: DoctorArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let url = common.url()?;
    if url.starts_with("memory:") {
        print::nothing(common.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let prefix = Prefix::new(&args.prefix)?;
    // A majority is examined whatever its servers say; of one server there is nothing to say when it is away.
    let builder = common.builder()?.prefix(prefix.as_bytes())?;
    let is_majority = url.starts_with("redis+quorum:") || url.starts_with("rediss+quorum:");
    let keeper = if is_majority { builder.lazy() } else { builder }.connect().await?;
    let (user, limit_prefix) = (args.user.as_deref(), &args.limit_prefix);
    let patient = Patient { url: &url, keeper: &keeper, prefix: &prefix, limit_prefix, user };
    let report = patient.examine().await;
    keeper.close(Duration::ZERO).await;
    print::report(&report?, common.json)
}

/// Who is examined.
struct Patient<'a> {
    url: &'a str,
    keeper: &'a Keeper,
    prefix: &'a Prefix,
    limit_prefix: &'a str,
    user: Option<&'a str>,
}

impl Patient<'_> {
    async fn examine(&self) -> anyhow::Result<Report> {
        if let Some(store) = self.keeper.quorum_store() {
            return Ok(majority::examine(self.keeper, store).await);
        }
        let Some(store) = self.keeper.redis_store() else { anyhow::bail!("the store is not a Redis server") };
        let info = store.server_info(facts::LOOK).await?;
        let health = self.keeper.health().await;
        if let Some(found) = server::sentinel(&info) {
            return Ok(Report::new(health.address, server::describe(&info), None, vec![found]));
        }
        let facts = Facts::gather(store).await;
        let mut found = self.of_server(&info, &health, &facts);
        found.extend(self.clocks(&health, &facts).await);
        found.push(self.permissions(store, &info).await?);
        found.extend(keys::check(self.keeper, store, self.prefix).await);
        found.extend(limits::check(store, self.limit_prefix).await);
        let round_trip = health.round_trip.ok().and_then(|time| u64::try_from(time.as_micros()).ok());
        Ok(Report::new(health.address, server::describe(&info), round_trip, found))
    }

    fn of_server(&self, info: &ServerInfo, health: &Health, facts: &Facts) -> Vec<Finding> {
        let prefix = String::from_utf8_lossy(self.prefix.as_bytes());
        let mut found: Vec<Finding> = server::version(info).into_iter().collect();
        found.extend(server::mode(info, facts, &prefix));
        found.extend(persistence::check(facts));
        found.extend(eviction::check(facts));
        found.extend(replication::check(facts));
        found.extend(facts.refused());
        if health.round_trip.is_ok() {
            found.push(clock::check(health.server_ahead_us));
        }
        found
    }

    async fn clocks(&self, health: &Health, facts: &Facts) -> Option<Finding> {
        clock::replicas(self.url, &replication::listed(facts), health.server_ahead_us).await
    }

    async fn permissions(&self, store: &RedisStore, info: &ServerInfo) -> Result<Finding, Error> {
        let prefix = String::from_utf8_lossy(self.prefix.as_bytes());
        match Trial::new(store, self.prefix, self.user, user_of(self.url)).await {
            Ok(trial) => permissions::check(&trial, &prefix, info.read_only_scripts).await,
            Err(error) => Ok(Finding::new("permissions", Level::Note, "The permissions were not examined")
                .seen(format!("{}.", words(&error)))),
        }
    }
}

/// The user that a URL names, or `default`.
fn user_of(url: &str) -> &str {
    let place = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    let user = place.rsplit_once('@').and_then(|(credentials, _)| credentials.split(':').next());
    user.filter(|user| !user.is_empty()).unwrap_or("default")
}

#[cfg(test)]
mod tests {
    use super::user_of;

    #[test]
    fn the_user_is_read_without_the_password() {
        assert_eq!(user_of("redis://app:secret@host:6379/0"), "app");
        assert_eq!(user_of("redis://:secret@host"), "default");
        assert_eq!(user_of("unix:///run/redis.sock"), "default");
    }
}
