//! Whose permissions are looked at, for what, and on which servers.

use lockkeeper::core::Error;
use lockkeeper::redis::RedisStore;
use lockkeeper::redis::access::Feature;

use super::access::Trial;
use super::facts::{LOOK, words};
use super::finding::{Finding, Level};
use super::{Patient, cluster, permissions};
use crate::common::is_majority;

impl Patient<'_> {
    /// On each of these: users are not copied from one server to another.
    pub(super) async fn permissions(&self, servers: &[(String, RedisStore)]) -> Result<Vec<Finding>, Error> {
        let of_servers = |feature: &Feature| *feature != Feature::Sentinels;
        let named: Vec<Feature> = self.features.iter().copied().filter(of_servers).collect();
        if named.is_empty() && !self.features.is_empty() {
            return Ok(vec![]);
        }
        let usual = self.usual();
        let mut seen = vec![];
        for (name, store) in servers {
            let found = match self.permissions_at(store, &named, &usual).await {
                Err(error) if servers.len() > 1 => vec![not_examined(&error)],
                found => found?,
            };
            seen.extend(found.into_iter().map(|finding| (name.as_str(), finding)));
        }
        Ok(cluster::merged(seen, servers.len()))
    }

    async fn permissions_at(
        &self,
        store: &RedisStore,
        named: &[Feature],
        usual: &[Feature],
    ) -> Result<Vec<Finding>, Error> {
        let asked = permissions::Asked {
            features: named,
            usual,
            has_others: !is_majority(self.url) && !self.common.does_without_scripts(),
            prefixes: self.prefixes,
            version: store.server_info(LOOK).await?.compatible_with,
        };
        match Trial::new(store, self.prefixes, self.user, user_of(self.url)).await {
            Ok(trial) => permissions::check(&trial, &asked).await,
            Err(error) => Ok(vec![
                self.user.and_then(|user| no_such(user, &error)).unwrap_or_else(|| not_examined(&error)),
            ]),
        }
    }

    /// What is needed by whoever names no feature: that of locks, and that of the URL's form.
    fn usual(&self) -> Vec<Feature> {
        let mut usual = match self.common.does_without_scripts() {
            true => permissions::OF_PLAIN_LOCKS.to_vec(),
            false => permissions::OF_LOCKS.to_vec(),
        };
        let scheme = self.url.split(':').next().unwrap_or_default();
        usual.extend(match scheme.split_once('+').map(|(_, form)| form) {
            Some("cluster") => Some(Feature::Cluster),
            Some("sentinel") => Some(Feature::Sentinel),
            Some("quorum") => Some(Feature::Quorum),
            _ => None,
        });
        usual
    }
}

/// The server knows no such user.
fn no_such(user: &str, error: &Error) -> Option<Finding> {
    let is_absent = words(error).contains(&format!("User '{user}' not found"));
    let title = format!("There is no user {user}");
    let advice = "Look at the users (ACL LIST). A rule for one is printed by --rules.";
    is_absent.then(|| Finding::new("permissions", Level::Problem, title).advice(advice))
}

fn not_examined(error: &Error) -> Finding {
    let title = "The permissions were not examined";
    Finding::new("permissions", Level::Note, title).seen(format!("{}.", words(error)))
}

/// The user that a URL names, or `default`.
fn user_of(url: &str) -> &str {
    let place = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    let user = place.rsplit_once('@').and_then(|(credentials, _)| credentials.split(':').next());
    user.filter(|user| !user.is_empty()).unwrap_or("default")
}

/// The user that a URL names for the Sentinels, or `default`.
pub(super) fn sentinel_user_of(url: &str) -> &str {
    let parameters = url.split_once('?').map_or("", |(_, rest)| rest);
    let user = parameters.split('&').find_map(|pair| pair.strip_prefix("sentinel_user="));
    user.filter(|user| !user.is_empty()).unwrap_or("default")
}

#[cfg(test)]
mod tests {
    use super::{sentinel_user_of, user_of};

    #[test]
    fn the_user_is_read_without_the_password() {
        assert_eq!(user_of("redis://app:secret@host:6379/0"), "app");
        assert_eq!(user_of("redis://:secret@host"), "default");
        assert_eq!(user_of("unix:///run/redis.sock"), "default");
        let url = "redis+sentinel://app:secret@h/main?sentinel_password=secret&sentinel_user=watcher";
        assert_eq!((user_of(url), sentinel_user_of(url)), ("app", "watcher"));
        assert_eq!(sentinel_user_of("redis+sentinel://h/main"), "default");
    }
}
