//! `lockkeeper doctor`: examines a server and says what endangers locks.

mod access;
mod clock;
mod cluster;
mod eviction;
mod facts;
mod finding;
mod keys;
mod lack;
mod limits;
mod majority;
mod permissions;
mod persistence;
mod print;
mod replication;
mod rights;
mod rules;
mod sentinels;
mod server;
mod trials;

use std::process::ExitCode;
use std::time::Duration;

use lockkeeper::core::{Error, Prefix};
use lockkeeper::redis::access::{Feature, Prefixes};
use lockkeeper::redis::{RedisStore, ServerInfo};
use lockkeeper::{Health, Keeper};

use crate::common::{Common, is_found_by_asking, is_majority};
use facts::Facts;
use finding::{Finding, Level, Report};
pub(crate) use permissions::escaped;
use rights::sentinel_user_of;

/// At least one finding is a problem.
const PROBLEMS: u8 = 2;

/// Examine a server and say what endangers locks.
///
/// Looks at version, persistence, eviction, replication, clocks, permissions and the keys under the prefixes. It changes
/// nothing. Exit code 0: no problem (there may be warnings); 2: at least one problem, also where a server of several is
/// away; 69: nobody can be asked.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// What lock keys begin with on the server.
    #[arg(long, value_name = "PREFIX", default_value = "lock:")]
    prefix: String,

    /// What limit keys begin with on the server.
    #[arg(long, value_name = "PREFIX", default_value = "limit:")]
    limit_prefix: String,

    /// What keys of operations that run once begin with on the server.
    #[arg(long, value_name = "PREFIX", default_value = "once:")]
    once_prefix: String,

    /// Examine, or print, the permissions for these features only, for example locks,limits.
    #[arg(long = "feature", value_name = "NAME,…", value_delimiter = ',', value_parser = feature)]
    features: Vec<Feature>,

    /// Print the whole ACL rule of each feature, and examine nothing. Asks no server.
    #[arg(long, conflicts_with = "user")]
    rules: bool,

    /// With --rules: for a server that is compatible with this Redis version; by default the newest.
    #[arg(long, value_name = "VERSION", requires = "rules", value_parser = rules::version)]
    redis_version: Option<(u32, u32)>,

    /// Examine the permissions of this ACL user rather than one's own (needs ACL DRYRUN, Redis 7.0).
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// Runs it.
///
/// # Errors
/// Bad URL or prefix; unreachable; wrong credentials.
pub async fn run(args: DoctorArgs, common: &Common) -> anyhow::Result<ExitCode> {
    let prefix = Prefix::new(&args.prefix)?;
    let prefixes = Prefixes {
        locks: prefix.as_bytes().into(),
        limits: args.limit_prefix.clone().into(),
        once: args.once_prefix.clone().into(),
    };
    if args.rules {
        rules::print(&args.features, &prefixes, args.redis_version, common.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let url = common.url()?;
    if url.starts_with("memory:") {
        print::nothing(common.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Of several servers there is something to say when one is away; of one server there is nothing.
    let builder = common.builder()?.prefix(prefix.as_bytes())?;
    let is_lazy = is_majority(&url) || is_found_by_asking(&url);
    let keeper = if is_lazy { builder.lazy() } else { builder }.connect().await?;
    let (user, limit_prefix) = (args.user.as_deref(), &args.limit_prefix);
    let (prefixes, features) = (&prefixes, &args.features[..]);
    let patient = Patient {
        common,
        url: &url,
        keeper: &keeper,
        prefix: &prefix,
        limit_prefix,
        prefixes,
        features,
        user,
    };
    let report = patient.examine().await;
    keeper.close(Duration::ZERO).await;
    print::report(&report?, common.json)
}

/// Who is examined.
struct Patient<'a> {
    common: &'a Common,
    url: &'a str,
    keeper: &'a Keeper,
    prefix: &'a Prefix,
    limit_prefix: &'a str,
    prefixes: &'a Prefixes,
    features: &'a [Feature],
    user: Option<&'a str>,
}

impl Patient<'_> {
    async fn examine(&self) -> anyhow::Result<Report> {
        if let Some(store) = self.keeper.quorum_store() {
            let servers: Vec<_> = store.each().map(|(name, server)| (name, server.clone())).collect();
            let stores: Vec<RedisStore> = servers.iter().map(|(_, store)| store.clone()).collect();
            let mut found = self.permissions(&servers).await?;
            found.extend(keys::check(self.keeper, &stores, self.prefix).await);
            found.extend(self.names_sentinels().then(sentinels::not_here));
            return Ok(majority::examine(self.keeper, store, found).await);
        }
        let Some(store) = self.keeper.redis_store() else { anyhow::bail!("the store is not a Redis server") };
        let members = match store.servers(facts::LOOK).await? {
            Some(all) => Some(cluster::servers(all).await),
            None => None,
        };
        let there = members.iter().flatten().find(|server| server.is_there());
        let info = match there.map_or(store, |server| &server.store).server_info(facts::LOOK).await {
            Ok(info) => info,
            Err(error) => return self.of_absent(store, error).await,
        };
        let health = self.keeper.health().await;
        if let Some(found) = server::sentinel(&info) {
            return Ok(Report::new(health.address, server::describe(&info), None, vec![found]));
        }
        let (mut found, servers) = match members {
            Some(servers) => {
                let mut found: Vec<Finding> = server::version(&info).into_iter().collect();
                found.extend(cluster::check(&servers).await);
                found.extend(self.names_sentinels().then(sentinels::not_here));
                let there = servers.into_iter().filter(cluster::Server::is_there);
                (found, there.map(|server| (server.name, server.store)).collect())
            }
            None => (self.of_one(store, &info, &health).await, vec![(health.address.clone(), store.clone())]),
        };
        found.extend(self.permissions(&servers).await?);
        let stores: Vec<RedisStore> = servers.into_iter().map(|(_, store)| store).collect();
        found.extend(keys::check(self.keeper, &stores, self.prefix).await);
        found.extend(limits::check(&stores, self.limit_prefix).await);
        let round_trip = health.round_trip.ok().and_then(|time| u64::try_from(time.as_micros()).ok());
        Ok(Report::new(health.address, server::describe(&info), round_trip, found))
    }

    /// The primary cannot be asked. What its Sentinels say is all there is to say, and more than nothing.
    async fn of_absent(&self, store: &RedisStore, error: Error) -> anyhow::Result<Report> {
        let views = store.sentinels().await.unwrap_or_default();
        if !error.is_transient() || views.iter().all(|view| view.primary.is_err()) {
            return Err(error.into());
        }
        let away = Finding::new("primary", Level::Problem, "The primary cannot be reached from here")
            .seen(format!(
                "{}. Until it is back, or a replica takes its place, no lock is taken.",
                facts::words(&error)
            ))
            .advice("Look at the server that the Sentinels name, and at the way to it.");
        let mut found = vec![away, sentinels::check(&views)];
        found.extend(sentinels::rights(&views, sentinel_user_of(self.url), self.names_sentinels()));
        let server = "a primary that Sentinels watch".to_owned();
        Ok(Report::new(self.keeper.health().await.address, server, None, found))
    }

    async fn of_one(&self, store: &RedisStore, info: &ServerInfo, health: &Health) -> Vec<Finding> {
        let facts = Facts::gather(store).await;
        let views = store.sentinels().await;
        let mut found = self.of_server(info, health, &facts, views.is_some());
        found.extend(self.clocks(health, &facts).await);
        if let Some(views) = views {
            found.push(sentinels::check(&views));
            found.extend(sentinels::rights(&views, sentinel_user_of(self.url), self.names_sentinels()));
            found.extend(sentinels::lag(&facts));
        } else if self.names_sentinels() {
            found.push(sentinels::not_here());
        }
        found
    }

    fn of_server(&self, info: &ServerInfo, health: &Health, facts: &Facts, is_watched: bool) -> Vec<Finding> {
        let prefix = String::from_utf8_lossy(self.prefix.as_bytes());
        let mut found: Vec<Finding> = server::version(info).into_iter().collect();
        found.extend(server::mode(info, facts, &prefix));
        found.extend(persistence::check(facts));
        found.extend(eviction::check(facts));
        found.extend(if is_watched { replication::of_watched(facts) } else { replication::check(facts) });
        found.extend(facts.refused());
        if health.round_trip.is_ok() {
            found.push(clock::check(health.server_ahead_us));
        }
        found
    }

    async fn clocks(&self, health: &Health, facts: &Facts) -> Option<Finding> {
        clock::replicas(self.common, self.url, &replication::listed(facts), health.server_ahead_us).await
    }

    fn names_sentinels(&self) -> bool {
        self.features.contains(&Feature::Sentinels)
    }
}

/// A feature as typed.
fn feature(text: &str) -> Result<Feature, String> {
    text.parse().map_err(|error: Error| error.detail().to_owned())
}
