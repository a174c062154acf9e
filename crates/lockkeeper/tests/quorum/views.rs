//! Independent servers, which each keeper sees through proxies of its own.

use lockkeeper::Keeper;
use lockkeeper::redis::QuorumConfig;
use lockkeeper_faults::{FaultProxy, RedisServer};

use crate::support::{proxied, secs, server};

/// The servers, and what each keeper sees of them.
pub(crate) struct Views {
    pub(crate) servers: Vec<RedisServer>,
    /// By keeper, then by server.
    pub(crate) proxies: Vec<Vec<FaultProxy>>,
    pub(crate) keepers: Vec<Keeper>,
}

impl Views {
    /// Five servers and so many keepers; `None`, after a loud line, where there is no binary.
    pub(crate) async fn start(keepers: usize, parameters: &str) -> Option<Self> {
        let servers = (0..5).map(|_| server()).collect::<Option<Vec<_>>>()?;
        let mut views = Self { servers, proxies: Vec::new(), keepers: Vec::new() };
        for number in 0..keepers {
            let proxies: Vec<_> = views.servers.iter().map(proxied).collect();
            let keeper = Keeper::builder().quorum(config(&url(&proxies, parameters))).lazy();
            let keeper = keeper.connect().await.unwrap();
            if number == 0 {
                keeper.quorum_store().unwrap().init(false).await.unwrap();
            }
            views.proxies.push(proxies);
            views.keepers.push(keeper);
        }
        Some(views)
    }

    /// Does the same to all that one keeper sees.
    pub(crate) fn of(&self, keeper: usize, what: impl Fn(&FaultProxy)) {
        self.proxies[keeper].iter().for_each(what);
    }

    /// How many servers keep the lock `name`. Those that cannot answer do not count.
    pub(crate) fn holding(&self, name: &str) -> usize {
        let key = format!("lock:{name}");
        let holds = |server: &&RedisServer| {
            server.command(&["EXISTS", &key]).is_ok_and(|reply| reply.as_int() == Some(1))
        };
        self.servers.iter().filter(holds).count()
    }
}

/// By one name, because each keeper knows the servers by addresses of its own.
pub(crate) fn url(proxies: &[FaultProxy], parameters: &str) -> String {
    let places: Vec<_> = proxies.iter().map(|proxy| proxy.addr().to_string()).collect();
    format!("redis+quorum://{}?name=views&{parameters}", places.join(","))
}

pub(crate) fn config(url: &str) -> QuorumConfig {
    QuorumConfig::from_url(url).unwrap().connect_timeout(secs(1))
}
