//! For each command a call that changes nothing, by which it is seen whether it is allowed.

/// The hash of no script.
const NO_SCRIPT: &str = "0000000000000000000000000000000000000000";

/// A harmless call; nobody uses `key`. `None` for what cannot be tried here.
///
/// Permissions are checked after the number of words, and before everything else.
pub(super) fn call<'a>(command: &str, key: &'a str) -> Option<Vec<&'a str>> {
    Some(match command {
        "evalsha" => vec!["EVALSHA", NO_SCRIPT, "0"],
        "eval" => vec!["EVAL", "return 1", "0"],
        "evalsha_ro" => vec!["EVALSHA_RO", NO_SCRIPT, "0"],
        "eval_ro" => vec!["EVAL_RO", "return 1", "0"],
        "time" => vec!["TIME"],
        "get" => vec!["GET", key],
        // Only if it is there and not there: permissions are checked first, and then it is a mistake.
        "set" => vec!["SET", key, "x", "XX", "NX"],
        "del" => vec!["DEL", key],
        "unlink" => vec!["UNLINK", key],
        "pttl" => vec!["PTTL", key],
        "pexpire" => vec!["PEXPIRE", key, "1"],
        "pexpireat" => vec!["PEXPIREAT", key, "1"],
        "getrange" => vec!["GETRANGE", key, "0", "0"],
        "strlen" => vec!["STRLEN", key],
        // A value too few.
        "hset" => vec!["HSET", key, "x", "x", "x"],
        "hdel" => vec!["HDEL", key, "x"],
        "hgetall" => vec!["HGETALL", key],
        "hlen" => vec!["HLEN", key],
        "zadd" => vec!["ZADD", key, "XX", "1", "x"],
        "zcard" => vec!["ZCARD", key],
        "zcount" => vec!["ZCOUNT", key, "0", "1"],
        "zrange" => vec!["ZRANGE", key, "0", "0"],
        "zrangebyscore" => vec!["ZRANGEBYSCORE", key, "0", "1"],
        "zrem" => vec!["ZREM", key, "x"],
        "zremrangebyrank" => vec!["ZREMRANGEBYRANK", key, "0", "0"],
        "zremrangebyscore" => vec!["ZREMRANGEBYSCORE", key, "0", "1"],
        "zrevrange" => vec!["ZREVRANGE", key, "0", "0"],
        "zscore" => vec!["ZSCORE", key, "x"],
        "client|tracking" => vec!["CLIENT", "TRACKING", "OFF"],
        "client|trackinginfo" => vec!["CLIENT", "TRACKINGINFO"],
        "scan" => vec!["SCAN", "0", "COUNT", "1"],
        "info" => vec!["INFO", "server"],
        // No replica is waited for.
        "wait" => vec!["WAIT", "0", "1"],
        "waitaof" => vec!["WAITAOF", "0", "0", "1"],
        "role" => vec!["ROLE"],
        "delifeq" => vec!["DELIFEQ", key, "x"],
        "delex" => vec!["DELEX", key, "IFEQ", "x"],
        "cluster|slots" => vec!["CLUSTER", "SLOTS"],
        "asking" => vec!["ASKING"],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use lockkeeper::redis::access::Feature;

    use super::*;

    #[test]
    fn whatever_a_feature_needs_of_a_data_server_can_be_tried() {
        for feature in Feature::all().filter(|&feature| feature != Feature::Sentinels) {
            for command in feature.commands() {
                let words = call(command.name, "k").unwrap_or_else(|| panic!("{feature}: {}", command.name));
                assert_eq!(words[0].to_lowercase(), command.name.split('|').next().unwrap());
            }
        }
    }
}
