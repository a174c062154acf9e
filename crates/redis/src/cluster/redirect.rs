//! Where a cluster node sends a client: `MOVED slot host:port` for good, `ASK slot host:port` for this time.

use crate::error::ServerWords;
use crate::layout::SLOTS;

/// The longest host name that is believed.
pub(super) const MAX_HOST_BYTES: usize = 255;

/// A redirection, as a server worded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) kind: Kind,
    pub(super) slot: u16,
    /// Empty: the host that said so.
    pub(super) host: String,
    pub(super) port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Moved,
    Ask,
}

impl Redirect {
    /// `None`: it is none, or makes no sense.
    pub(super) fn read(words: &ServerWords) -> Option<Self> {
        let kind = match words.code() {
            "MOVED" => Kind::Moved,
            "ASK" => Kind::Ask,
            _ => return None,
        };
        let mut parts =
            words.text().split_ascii_whitespace().skip_while(|part| !matches!(*part, "MOVED" | "ASK"));
        let (slot, place) = (parts.nth(1)?, parts.next()?);
        let slot = slot.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
        let (host, port) = place.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_host = host.len() <= MAX_HOST_BYTES && host != "?";
        is_host.then(|| Self { kind, slot, host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: &str, rest: &str) -> Option<Redirect> {
        let value = redis::parse_redis_value(format!("-{code} {rest}\r\n").as_bytes()).unwrap();
        let error = value.extract_error().unwrap_err();
        Redirect::read(&ServerWords::new(&error))
    }

    #[test]
    fn both_kinds_are_read_and_nonsense_is_not() {
        let at = |kind, host: &str| Some(Redirect { kind, slot: 3999, host: host.into(), port: 6381 });
        assert_eq!(read("MOVED", "3999 127.0.0.1:6381"), at(Kind::Moved, "127.0.0.1"));
        assert_eq!(read("ASK", "3999 ::1:6381"), at(Kind::Ask, "::1"));
        assert_eq!(read("MOVED", "3999 :6381"), at(Kind::Moved, ""));
        for bad in ["16384 h:1", "-1 h:1", "1 h", "1 h:0", "1 h:99999", "1", "", "x h:1", "1 ?:1"] {
            assert_eq!(read("MOVED", bad), None, "{bad}");
        }
        assert_eq!(read("MOVED", &format!("1 {}:1", "h".repeat(256))), None);
        assert_eq!(read("CLUSTERDOWN", "3999 127.0.0.1:6381"), None);
    }
}
