//! Addresses as subjects: who has one IPv6 address usually has 2⁶⁴ of them.

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::encode::Encoded;
use super::value::Subject;
use crate::error::Error;

const V4_BITS: u8 = 32;
const V6_BITS: u8 = 128;
/// What one customer or one machine is commonly given.
const DEFAULT_V6_BITS: u8 = 64;

impl Subject {
    /// An address: IPv4 each on its own, IPv6 by its first 64 bits, an IPv4-mapped one (`::ffff:192.0.2.1`) as the
    /// IPv4 address that it is.
    pub fn ip(address: impl Into<IpAddr>) -> Self {
        network(address.into(), V4_BITS, DEFAULT_V6_BITS)
    }

    /// An address by its first bits: `v4_bits` of 1 to 32 for IPv4, `v6_bits` of 1 to 128 for IPv6.
    ///
    /// # Errors
    /// Either number is out of its bounds.
    pub fn ip_prefix(address: impl Into<IpAddr>, v4_bits: u8, v6_bits: u8) -> Result<Self, Error> {
        for (bits, most, family) in [(v4_bits, V4_BITS, "IPv4"), (v6_bits, V6_BITS, "IPv6")] {
            if !(1..=most).contains(&bits) {
                let detail = format!("{bits} bits of an {family} address; 1 to {most}");
                return Err(Error::bad_argument("subject", detail));
            }
        }
        Ok(network(address.into(), v4_bits, v6_bits))
    }
}

/// `v4_bits` of 1 to 32, `v6_bits` of 1 to 128.
fn network(address: IpAddr, v4_bits: u8, v6_bits: u8) -> Subject {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let kept = u32::MAX << (V4_BITS - v4_bits);
            shown(Ipv4Addr::from_bits(v4.to_bits() & kept), v4_bits, V4_BITS)
        }
        IpAddr::V6(v6) => {
            let kept = u128::MAX << (V6_BITS - v6_bits);
            shown(Ipv6Addr::from_bits(v6.to_bits() & kept), v6_bits, V6_BITS)
        }
    }
}

fn shown(address: impl Display, bits: u8, all: u8) -> Subject {
    let text = if bits == all { address.to_string() } else { format!("{address}/{bits}") };
    Subject::part("ip", &Encoded::value(text.as_bytes()))
}
