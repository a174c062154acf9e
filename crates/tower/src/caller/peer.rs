//! The other end of the connection, as servers pass it on.

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;

/// Put into a request's extensions by servers that pass on the peer's address in no way that is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddress(pub SocketAddr);

/// The peer's address, if the server passed it on.
pub(super) fn peer_of(parts: &Parts) -> Option<IpAddr> {
    let extensions = &parts.extensions;
    let ours = extensions.get::<PeerAddress>().map(|peer| peer.0);
    let found = ours.or_else(|| of_axum(parts)).or_else(|| extensions.get::<SocketAddr>().copied());
    found.map(|peer| peer.ip())
}

#[cfg(feature = "axum")]
fn of_axum(parts: &Parts) -> Option<SocketAddr> {
    use axum::extract::connect_info::{ConnectInfo, MockConnectInfo};
    let real = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    real.or_else(|| parts.extensions.get::<MockConnectInfo<SocketAddr>>().map(|info| info.0))
}

#[cfg(not(feature = "axum"))]
fn of_axum(_: &Parts) -> Option<SocketAddr> {
    None
}
