//! Reading the answer to `CLUSTER SLOTS`. Whatever a server says there is checked before it is believed.

use redis::Value;

use super::redirect::MAX_HOST_BYTES;
use crate::layout::SLOTS;

/// The most servers that a cluster may have.
pub(crate) const MAX_NODES: usize = 2048;
/// The most replicas of one range that are looked at.
const MAX_REPLICAS: usize = 64;

/// One range of slots, and who keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) primary: Place,
    pub(super) replicas: Vec<Place>,
}

/// A server, as a cluster names it. An empty host is that of the server that was asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
}

/// The ranges of an answer; `None` where it makes no sense.
pub(super) fn read(value: Value) -> Option<Vec<Range>> {
    let Value::Array(ranges) = value else { return None };
    if ranges.len() > SLOTS {
        return None;
    }
    ranges.into_iter().map(range).collect()
}

fn range(value: Value) -> Option<Range> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.into_iter();
    let (first, last) = (slot(&parts.next()?)?, slot(&parts.next()?)?);
    let primary = place(parts.next()?)?;
    // A replica without a known address is passed over.
    let replicas = parts.take(MAX_REPLICAS).filter_map(place).collect();
    (first <= last).then_some(Range { first, last, primary, replicas })
}

fn slot(value: &Value) -> Option<u16> {
    let Value::Int(slot) = value else { return None };
    u16::try_from(*slot).ok().filter(|slot| usize::from(*slot) < SLOTS)
}

fn place(value: Value) -> Option<Place> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.into_iter();
    let host = match parts.next()? {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok()?,
        Value::SimpleString(text) => text,
        Value::Nil => String::new(),
        _ => return None,
    };
    let Value::Int(port) = parts.next()? else { return None };
    let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
    // `?`: the name is not known.
    (host.len() <= MAX_HOST_BYTES && host != "?").then_some(Place { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Vec<Range>> {
        read(redis::parse_redis_value(text.as_bytes()).unwrap())
    }

    #[test]
    fn ranges_are_read_with_their_servers() {
        let text =
            "*1\r\n*4\r\n:0\r\n:5460\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n*2\r\n$-1\r\n:7003\r\n";
        let place = |host: &str, port| Place { host: host.into(), port };
        let (primary, replicas) = (place("127.0.0.1", 7000), vec![place("", 7003)]);
        assert_eq!(parsed(text), Some(vec![Range { first: 0, last: 5460, primary, replicas }]));
        assert_eq!(parsed("*0\r\n"), Some(vec![]));
    }

    #[test]
    fn nonsense_is_not_believed() {
        let one = |first: i64, last: i64, host: &str, port: i64| {
            format!("*1\r\n*3\r\n:{first}\r\n:{last}\r\n*2\r\n${}\r\n{host}\r\n:{port}\r\n", host.len())
        };
        assert!(parsed(&one(0, 16383, "h", 1)).is_some());
        let long = "h".repeat(256);
        for bad in [
            one(0, 16384, "h", 1),
            one(-1, 5, "h", 1),
            one(5, 4, "h", 1),
            one(0, 1, "h", 0),
            one(0, 1, "h", 65536),
            one(0, 1, &long, 1),
            one(0, 1, "?", 1),
            "+OK\r\n".to_owned(),
            "*1\r\n:1\r\n".to_owned(),
            "*1\r\n*2\r\n:0\r\n:1\r\n".to_owned(),
        ] {
            assert_eq!(parsed(&bad), None, "{bad}");
        }
    }
}
