//! Independent servers, each behind a proxy of its own.

use std::time::Duration;

use lockkeeper::redis::{NodeStanding, QuorumConfig};
use lockkeeper::{Keeper, LockGuard};
use lockkeeper_faults::{FaultProxy, RedisServer};
use lockkeeper_testkit::wait::until;

use crate::support::{SOON, command, proxied, secs, server};

/// So many servers that know nothing of each other.
pub(crate) struct Servers {
    pub(crate) servers: Vec<RedisServer>,
    pub(crate) proxies: Vec<FaultProxy>,
}

impl Servers {
    /// `None`, after a loud line, where there is no binary.
    pub(crate) fn start(count: usize) -> Option<Self> {
        let servers = (0..count).map(|_| server()).collect::<Option<Vec<_>>>()?;
        let proxies = servers.iter().map(proxied).collect();
        Some(Self { servers, proxies })
    }

    pub(crate) fn url(&self, parameters: &str) -> String {
        let places: Vec<_> = self.proxies.iter().map(|proxy| proxy.addr().to_string()).collect();
        format!("redis+quorum://{}?{parameters}", places.join(","))
    }

    pub(crate) async fn keeper(&self, parameters: &str) -> Keeper {
        let config = QuorumConfig::from_url(&self.url(parameters)).unwrap();
        let keeper =
            Keeper::builder().quorum(config.connect_timeout(secs(1))).lazy().connect().await.unwrap();
        // Each test begins with nothing that anybody could have forgotten.
        if keeper.quorum_store().unwrap().status().await.iter().all(|node| node.marker.is_none()) {
            keeper.quorum_store().unwrap().init(false).await.unwrap();
        }
        keeper
    }

    /// Who keeps the lock `name`, by server.
    pub(crate) fn holds(&self, name: &str) -> Vec<bool> {
        let holds = |server: &RedisServer| {
            server.is_running() && command(server, &["EXISTS", &format!("lock:{name}")]).as_int() == Some(1)
        };
        self.servers.iter().map(holds).collect()
    }

    pub(crate) async fn nobody_holds(&self, name: &str) {
        let all = async || self.holds(name).iter().all(|holds| !holds);
        until(&format!("{name} is nowhere"), SOON, all).await;
    }

    pub(crate) async fn restart(&self, node: usize) {
        self.servers[node].kill().unwrap();
        self.servers[node].restart().unwrap();
    }
}

/// The keeper knows that `node` stands so.
pub(crate) async fn stands(keeper: &Keeper, node: usize, what: &str, is: impl Fn(&NodeStanding) -> bool) {
    let store = keeper.quorum_store().unwrap();
    let as_wanted = async || {
        let reports = store.status().await;
        is(&reports[node].standing)
    };
    until(&format!("server {node} {what}"), SOON, as_wanted).await;
}

pub(crate) async fn votes(keeper: &Keeper, node: usize) {
    stands(keeper, node, "votes", |standing| *standing == NodeStanding::Votes).await;
}

pub(crate) async fn is_away(keeper: &Keeper, node: usize) {
    stands(keeper, node, "is away", |standing| matches!(standing, NodeStanding::Away(_))).await;
}

pub(crate) async fn try_take(keeper: &Keeper, name: &str, lease: Duration) -> Option<LockGuard> {
    keeper.lock(name).unwrap().lease(lease).no_renewal().try_acquire().await.unwrap().or_busy().ok()
}
