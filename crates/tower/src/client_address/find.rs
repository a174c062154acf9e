//! From a request to its client.

use std::fmt;
use std::net::IpAddr;

use http::HeaderMap;
use ipnet::IpNet;

use super::config::{ClientAddress, ForwardedHeader, Trust};
use super::elements::from_right;
use super::node::address_in;

/// Neither peer nor header says where a request came from.
///
/// That is so on a Unix socket, or where the server does not pass the peer's address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoAddress;

impl ClientAddress {
    /// The client's address. `peer` is the socket's other end, if it has an address.
    ///
    /// IPv4-mapped addresses come out as IPv4, ports and zones are dropped, several lines of the header count as one.
    /// At most 64 entries of at most 512 bytes are read, from the right; what stands further left costs nothing.
    ///
    /// An entry that is no address (`unknown`, `_hidden`, garbage) is never an error. Instead of it counts the nearest
    /// address to its right that is sure, in the end the peer. That is then a proxy's address, whose clients share one
    /// count: stricter than it should be, never a way past the limit.
    ///
    /// # Errors
    /// There is no address to fall back to, because `peer` is `None`. With trusted networks that is always so, since
    /// nobody can say whether to trust it; count hops behind a Unix socket.
    pub fn find(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Result<IpAddr, NoAddress> {
        let peer = peer.map(|peer| peer.to_canonical());
        let found = match &self.trust {
            Trust::Peer => peer,
            Trust::Hops(hops) => left_most_sure(*hops, addresses(headers, self.header)).or(peer),
            Trust::Networks(trusted) => {
                peer.map(|peer| first_untrusted(trusted, peer, addresses(headers, self.header)))
            }
        };
        found.ok_or(NoAddress)
    }
}

/// The entries from the right, each as an address if it is one.
fn addresses(headers: &HeaderMap, header: ForwardedHeader) -> impl Iterator<Item = Option<IpAddr>> {
    let quoting = header == ForwardedHeader::Forwarded;
    from_right(headers, header.name(), quoting).map(move |element| address_in(element, header))
}

/// An entry that cannot be read is counted all the same: a trusted proxy wrote it.
fn left_most_sure(hops: usize, entries: impl Iterator<Item = Option<IpAddr>>) -> Option<IpAddr> {
    entries.take(hops).flatten().last()
}

/// An entry that cannot be read ends the walk: who wrote what is left of it is not known.
fn first_untrusted(
    trusted: &[IpNet],
    peer: IpAddr,
    mut entries: impl Iterator<Item = Option<IpAddr>>,
) -> IpAddr {
    let mut sure = peer;
    while trusted.iter().any(|network| network.contains(&sure)) {
        match entries.next() {
            Some(Some(address)) => sure = address,
            Some(None) | None => break,
        }
    }
    sure
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the client's address is not known: the connection has none, and no trusted header names one",
        )
    }
}

impl std::error::Error for NoAddress {}
