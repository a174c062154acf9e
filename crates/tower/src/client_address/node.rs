//! One element of a header, read as an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::config::ForwardedHeader;

const LONGEST_PORT: usize = 5;

/// The address in an element, if there is exactly one; IPv4-mapped ones as IPv4, without port and zone.
pub(super) fn address_in(element: &[u8], header: ForwardedHeader) -> Option<IpAddr> {
    let text = std::str::from_utf8(element).ok()?;
    let address = match header {
        ForwardedHeader::XForwardedFor => address(&unquoted(text)?)?,
        ForwardedHeader::Forwarded => address(&unquoted(only_for(text)?)?)?,
    };
    Some(address.to_canonical())
}

/// The value of the one `for` parameter. Two of them are as good as none.
fn only_for(element: &str) -> Option<&str> {
    let mut found = None;
    for parameter in parameters(element) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if name.trim().eq_ignore_ascii_case("for") && found.replace(value.trim()).is_some() {
            return None;
        }
    }
    found
}

/// Split at semicolons outside of quotes.
fn parameters(element: &str) -> impl Iterator<Item = &str> {
    let (mut inside, mut escaped) = (false, false);
    element.split(move |c| {
        let this_is_escaped = escaped;
        escaped = inside && c == '\\' && !this_is_escaped;
        if c == '"' && !this_is_escaped {
            inside = !inside;
        }
        c == ';' && !inside
    })
}

/// What a quoted string says, or the text itself if it is not quoted.
fn unquoted(text: &str) -> Option<String> {
    let Some(rest) = text.strip_prefix('"') else { return Some(text.to_owned()) };
    let mut chars = rest.strip_suffix('"')?.chars();
    let mut said = String::new();
    while let Some(c) = chars.next() {
        said.push(if c == '\\' { chars.next()? } else { c });
    }
    Some(said)
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `fe80::1%eth0`, `[2001:db8::1]`, `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (inside, after) = bracketed.split_once(']')?;
        let well_ended = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        return if well_ended { v6(inside) } else { None };
    }
    match text.split_once(':') {
        None => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        Some((v4, port)) if is_port(port) => v4.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        Some(_) => v6(text),
    }
}

/// The zone means something on the proxy's machine only.
fn v6(text: &str) -> Option<IpAddr> {
    let (address, zone) = text.split_once('%').unwrap_or((text, "none"));
    if zone.is_empty() {
        return None;
    }
    address.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

/// Digits, or an obfuscated one (`_x`, RFC 7239).
fn is_port(text: &str) -> bool {
    let digits = |text: &str| text.len() <= LONGEST_PORT && text.bytes().all(|byte| byte.is_ascii_digit());
    let hidden = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    !text.is_empty() && (digits(text) || text.strip_prefix('_').is_some_and(hidden))
}
