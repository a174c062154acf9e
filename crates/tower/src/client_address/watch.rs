//! Notices that the proxy is counted instead of the clients.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// After so many requests from one private address alone, something is probably wrong.
pub const WATCHED_REQUESTS: u32 = 1000;
/// Far enough from the end that counting on beyond it never wraps.
const OVER: u32 = u32::MAX / 2;

/// Warns once if the first [`WATCHED_REQUESTS`] requests all came from one private address.
///
/// Then a proxy probably stands in front that [`ClientAddress`](super::ClientAddress) was not told of, and the whole
/// site shares one limit. A second address, or a public one, ends the watch; afterwards a look costs a few nanoseconds.
#[derive(Debug, Default)]
pub struct SingleAddressWatch {
    first: OnceLock<IpAddr>,
    seen: AtomicU32,
}

impl SingleAddressWatch {
    /// Nothing seen yet.
    pub const fn new() -> Self {
        Self { first: OnceLock::new(), seen: AtomicU32::new(0) }
    }

    /// Takes note of a request's address, as [`find`](super::ClientAddress::find) gave it. True for the one request
    /// that made it warn.
    pub fn saw(&self, address: IpAddr) -> bool {
        if self.seen.load(Ordering::Relaxed) >= WATCHED_REQUESTS {
            return false;
        }
        if *self.first.get_or_init(|| address) != address || !is_private(address) {
            self.seen.store(OVER, Ordering::Relaxed);
            return false;
        }
        let looks_wrong = self.seen.fetch_add(1, Ordering::Relaxed) + 1 == WATCHED_REQUESTS;
        if looks_wrong {
            tracing::warn!(
                %address,
                requests = WATCHED_REQUESTS,
                "all requests came from one private address, so all clients share one limit: \
                 if it is a proxy, name it with `trusted_hops` or `trusted_networks`"
            );
        }
        looks_wrong
    }
}

/// Not routed on the Internet: private, loopback, link-local, or a carrier's own (100.64.0.0/10).
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_private() || v4.is_loopback() || v4.is_link_local() || is_shared(v4),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_loopback() || v6.is_unicast_link_local(),
    }
}

fn is_shared(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    first == 100 && second & 0b1100_0000 == 64
}
