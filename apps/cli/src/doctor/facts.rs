//! What the server says about itself: INFO, and a few settings. Either may be refused.

use std::collections::HashMap;
use std::time::Duration;

use lockkeeper::Error;
use lockkeeper::redis::RedisStore;

use super::finding::{Finding, Level};

/// How long one look may take.
pub(super) const LOOK: Duration = Duration::from_secs(2);

const SETTINGS: [&str; 6] = [
    "appendonly",
    "appendfsync",
    "save",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "replica-serve-stale-data",
];

/// INFO and CONFIG, as far as they were answered.
#[derive(Debug, Default)]
pub(super) struct Facts {
    info: HashMap<String, String>,
    settings: HashMap<String, String>,
    /// What was not answered, and why.
    refused: Vec<(&'static str, String)>,
}

impl Facts {
    pub(super) async fn gather(store: &RedisStore) -> Self {
        let mut facts = Self::default();
        match store.query::<String>(&["INFO"], LOOK).await {
            Ok(text) => facts.info = read_info(&text),
            Err(error) => facts.refused.push(("INFO", words(&error))),
        }
        for name in SETTINGS {
            match store.query::<HashMap<String, String>>(&["CONFIG", "GET", name], LOOK).await {
                Ok(found) => facts.settings.extend(found),
                Err(error) => {
                    facts.refused.push(("CONFIG GET", words(&error)));
                    break;
                }
            }
        }
        facts
    }

    /// What could not be looked at. Managed services refuse CONFIG, some INFO.
    pub(super) fn refused(&self) -> Option<Finding> {
        let items: Vec<String> = self.refused.iter().map(|(what, why)| format!("{what}: {why}")).collect();
        let names: Vec<&str> = self.refused.iter().map(|&(what, _)| what).collect();
        let finding = Finding::new("diagnosis", Level::Note, format!("{} refused", names.join(" and ")));
        let unseen = match names[..] {
            ["CONFIG GET"] => "persistence and replication could not be looked at in full",
            _ => "version, persistence, eviction and replication could not be looked at",
        };
        let finding = finding.seen(format!("Locks do not need that, but {unseen}."));
        let finding = finding.items(items).advice(
            "Run this as an administrator, or ask whoever runs the server: is maxmemory-policy noeviction? What does a \
             crash forget? Are there replicas, and what does a failover lose?",
        );
        (!names.is_empty()).then_some(finding)
    }

    /// A field of INFO.
    pub(super) fn info(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    /// A field of INFO that is a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.info(name)?.parse().ok()
    }

    /// A setting.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    #[cfg(test)]
    pub(super) fn of(info: &str, settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { info: read_info(info), settings, ..Self::default() }
    }
}

/// The server's own words, or what else went wrong.
pub(super) fn words(error: &Error) -> String {
    if error.detail().is_empty() { error.to_string() } else { error.detail().to_owned() }
}

fn read_info(text: &str) -> HashMap<String, String> {
    let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
