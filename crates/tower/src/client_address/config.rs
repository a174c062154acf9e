//! How far a header is believed.

use std::sync::Arc;

use http::HeaderName;
use http::header::FORWARDED;
use ipnet::{IpNet, Ipv4Net};
use lockkeeper_core::Error;

use super::elements::MAX_ELEMENTS;

/// The most proxies that [`ClientAddress::trusted_hops`] counts.
pub const MAX_TRUSTED_HOPS: usize = MAX_ELEMENTS;
const MAPPED_BITS: u8 = 96;

/// How a request's client is found. Cheap to clone.
///
/// ```
/// use lockkeeper_tower::ClientAddress;
///
/// let mut headers = http::HeaderMap::new();
/// headers.insert("x-forwarded-for", "6.6.6.6, 192.0.2.1, 10.0.0.9".parse()?);
/// let peer = Some("10.0.0.1".parse()?);
/// // Two proxies of ours: 10.0.0.9, and 10.0.0.1, which is our peer. What the client itself sent (6.6.6.6) is not read.
/// assert_eq!(ClientAddress::trusted_hops(2)?.find(peer, &headers)?.to_string(), "192.0.2.1");
/// // The same by network.
/// let networks = ["10.0.0.0/8".parse::<ipnet::IpNet>()?];
/// assert_eq!(ClientAddress::trusted_networks(networks).find(peer, &headers)?.to_string(), "192.0.2.1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    pub(super) trust: Trust,
    pub(super) header: ForwardedHeader,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Peer,
    Hops(usize),
    Networks(Arc<[IpNet]>),
}

/// The header that the proxies write. Others are not read: a proxy passes on unchanged what it does not write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// `X-Forwarded-For: client, proxy`. The default.
    #[default]
    XForwardedFor,
    /// `Forwarded: for=client, for="[2001:db8::1]:4711";proto=https` (RFC 7239).
    Forwarded,
}

impl ClientAddress {
    /// The address at the other end of the socket. Right where no proxy is; behind one, all clients are one.
    pub fn peer() -> Self {
        Self::by(Trust::Peer)
    }

    /// Behind exactly `hops` proxies of ours, the nearest of which is our peer: the client is the entry `hops` from
    /// the right. 0 is [`peer`](Self::peer).
    ///
    /// Only where nobody reaches this server past the proxies: the peer is not checked, so who comes directly is
    /// believed. Where there are fewer entries than hops, the client is the left-most of them, and without any the peer.
    ///
    /// # Errors
    /// More than [`MAX_TRUSTED_HOPS`].
    pub fn trusted_hops(hops: usize) -> Result<Self, Error> {
        match hops {
            0 => Ok(Self::peer()),
            1..=MAX_TRUSTED_HOPS => Ok(Self::by(Trust::Hops(hops))),
            _ => {
                let detail = format!("{hops} trusted hops; at most {MAX_TRUSTED_HOPS}");
                Err(Error::bad_argument("client address", detail))
            }
        }
    }

    /// Behind any number of proxies in these networks (or at these addresses): the client is the first address from
    /// the right that is in none of them, beginning with the peer.
    ///
    /// A peer elsewhere is the client, whatever it sends. If all addresses are trusted, the client is the left-most of
    /// them. Nothing is trusted without being named: for a proxy on the same machine, name `127.0.0.0/8` and `::1`.
    /// An IPv4 network and an IPv4-mapped one are the same.
    pub fn trusted_networks<N: Into<IpNet>>(networks: impl IntoIterator<Item = N>) -> Self {
        Self::by(Trust::Networks(networks.into_iter().map(|network| unmapped(network.into())).collect()))
    }

    /// Read from this header; `X-Forwarded-For` unless it is said.
    #[must_use]
    pub fn header(self, header: ForwardedHeader) -> Self {
        Self { header, ..self }
    }

    fn by(trust: Trust) -> Self {
        Self { trust, header: ForwardedHeader::default() }
    }
}

impl ForwardedHeader {
    pub(super) fn name(self) -> HeaderName {
        match self {
            Self::XForwardedFor => HeaderName::from_static("x-forwarded-for"),
            Self::Forwarded => FORWARDED,
        }
    }
}

/// `::ffff:10.0.0.0/104` as `10.0.0.0/8`.
fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(v6) = network else { return network };
    let v4 = v6.network().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(MAPPED_BITS));
    v4.and_then(|(address, bits)| Ipv4Net::new(address, bits).ok()).map_or(network, IpNet::V4)
}
