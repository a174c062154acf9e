//! `ls` and `show`.

use super::bench::{Bench, HOLD, Output, Running, wait_for};

/// Four locks in no order, and keys that are none.
fn furnished() -> Option<Bench> {
    let bench = Bench::new()?;
    let set =
        |key: &[u8], value: &str| _ = bench.server.command_bytes(&[b"SET", key, value.as_bytes()]).unwrap();
    for key in ["lock:c", "lock:a", "lock:b", "other:d"] {
        set(key.as_bytes(), "somebody-else");
        bench.server.command(&["PEXPIRE", key, "90000"]).unwrap();
    }
    set(b"lock:\xff", "somebody-else");
    bench.server.command(&["RPUSH", "lock:list", "x"]).unwrap();
    Some(bench)
}

fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn ls_shows_a_sorted_table() {
    let Some(bench) = furnished() else { return };
    let output = bench.lockkeeper(&["ls"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[0].starts_with("KEY") && lines[0].contains("REMAINING"), "{output:?}");
    for (line, key) in lines[1..].iter().zip(["lock:a ", "lock:b ", "lock:c ", "lock:\\xff "]) {
        assert!(line.starts_with(key) && line.contains("foreign `somebody…` (13 bytes)"), "{output:?}");
    }
    assert!(lines[1].contains("1m 29s") && lines[4].contains("no expiry"), "{output:?}");
    assert_eq!(lines[5], "4 locks");
    assert!(!output.stdout.contains('\x1b'), "no colours without a terminal");
}

#[test]
fn ls_says_when_there_are_more() {
    let Some(bench) = furnished() else { return };
    let output = bench.lockkeeper(&["ls", "--limit", "2"]);
    assert!(output.stdout.ends_with("the first 2 found; more exist (see --limit)\n"), "{output:?}");
    assert_eq!(output.stdout.lines().count(), 4, "{output:?}");
    assert!(bench.lockkeeper(&["ls", "--limit", "4"]).stdout.ends_with("\n4 locks\n"));
    assert_eq!(bench.lockkeeper(&["ls", "--prefix", "other:"]).stdout.lines().last(), Some("1 lock"));
    assert_eq!(bench.lockkeeper(&["ls", "--prefix", "none:"]).stdout, "0 locks\n");
}

#[test]
fn ls_in_json_is_an_array_with_a_line_for_each_lock() {
    let Some(bench) = furnished() else { return };
    let output = bench.lockkeeper(&["ls", "--json"]);
    let rows = json(&output);
    assert_eq!(output.stdout.lines().count(), 6);
    let keys: Vec<&str> = rows.as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["lock:a", "lock:b", "lock:c", "lock:\\xff"]);
    let (first, last) = (&rows[0], &rows[3]);
    assert!(first["remaining_ms"].as_u64().unwrap() > 60_000 && first.get("key_hex").is_none());
    assert_eq!((last["key_hex"].as_str(), last["remaining_ms"].is_null()), (Some("6c6f636b3aff"), true));
    assert_eq!((first["ours"].as_bool(), first["acquired_ms"].is_null()), (Some(false), true));
    assert_eq!(json(&bench.lockkeeper(&["ls", "--json", "--prefix", "none:"])), serde_json::json!([]));
}

#[test]
fn a_lock_of_ours_is_shown_with_its_fence_and_without_its_secret() {
    let Some(bench) = Bench::new() else { return };
    let script =
        format!("printf %s \"$LOCKKEEPER_TOKEN\" >token; printf %s $LOCKKEEPER_FENCE >fence; {HOLD}");
    let running = bench.run(&["--owner", "billing", "k"], &script);
    bench.wait_for_file("holds");
    let secret = bench.read("token")[..22].to_owned();
    let (text, seen) = (bench.lockkeeper(&["show", "k"]), bench.lockkeeper(&["show", "--json", "k"]));
    let listed = bench.lockkeeper(&["ls", "--json"]);
    for output in [&text, &seen, &listed] {
        assert!(!output.stdout.contains(&secret), "{output:?}");
    }
    let (seen, listed) = (json(&seen), json(&listed));
    assert_eq!(seen["state"], "held");
    assert_eq!(seen["fence"].to_string(), bench.read("fence"));
    assert!(seen["holder"].as_str().unwrap().contains(&format!(":{}:", running.process().0)));
    assert_eq!(seen["holder_id"].as_str().unwrap().len(), 8);
    assert!(seen["ours"].as_bool().unwrap() && seen["acquired_ms"].as_u64().unwrap() > 1_600_000_000_000);
    for field in ["key", "holder", "holder_id", "ours", "acquired_ms", "fence"] {
        assert_eq!(seen[field], listed[0][field]);
    }
    for part in ["lock:k is held", "billing", seen["holder_id"].as_str().unwrap(), "ago)", "29s"] {
        assert!(text.stdout.contains(part), "{part}: {text:?}");
    }
    bench.touch("go");
    assert_eq!(running.output().code, Some(0));
    let output = bench.lockkeeper(&["show", "k"]);
    assert!(output.stdout.starts_with("lock:k is free\n") && output.code == Some(0), "{output:?}");
}

#[test]
fn show_tells_free_held_and_no_lock_apart() {
    let Some(bench) = furnished() else { return };
    let state = |args: &[&str]| json(&bench.lockkeeper(args))["state"].as_str().unwrap().to_owned();
    assert_eq!(state(&["show", "--json", "nobody"]), "free");
    assert_eq!(state(&["show", "--json", "a"]), "held");
    let list = bench.lockkeeper(&["show", "--json", "list"]);
    assert_eq!(list.code, Some(65), "{list:?}");
    assert!(list.stdout.contains("\"state\":\"not_a_lock\""), "{list:?}");
    assert_eq!(state(&["show", "--json", "--exact", "other:d"]), "held");
    assert_eq!(bench.lockkeeper(&["show", "nobody"]).stdout, "lock:nobody is free\n");
    assert!(bench.lockkeeper(&["show", "list"]).stdout.contains("is not a lock"));
}

/// Somebody holds `k`, and two callers of other processes wait for it.
fn contested(bench: &Bench) -> [Running; 3] {
    let holder = bench.run(&["k"], HOLD);
    bench.wait_for_file("holds");
    let waiters = [(); 2].map(|()| bench.run(&["--wait", "30s", "k"], "true"));
    wait_for("both to be noted", || waiting(bench) == 2);
    let [one, other] = waiters;
    [holder, one, other]
}

fn waiting(bench: &Bench) -> u64 {
    json(&bench.lockkeeper(&["show", "--json", "k"]))["waiting"].as_u64().unwrap()
}

#[test]
fn who_waits_is_listed_and_named() {
    let Some(bench) = Bench::new() else { return };
    let [holder, one, other] = contested(&bench);
    let listed = bench.lockkeeper(&["ls"]).stdout;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].trim_end().ends_with("WAITING") && lines[1].trim_end().ends_with(" 2"), "{listed}");
    let shown = bench.lockkeeper(&["show", "k"]).stdout;
    assert!(shown.contains("\n  waiting    2\n"), "{shown}");
    let (seen, row) =
        (json(&bench.lockkeeper(&["show", "--json", "k"])), &json(&bench.lockkeeper(&["ls", "--json"]))[0]);
    assert_eq!((&seen["waiters"], row["waiting"].as_u64()), (&row["waiters"], Some(2)));
    for waiter in [&one, &other] {
        let id = format!(":{}:", waiter.process().0);
        assert!(shown.lines().any(|line| line.trim().starts_with("1 in ") && line.contains(&id)), "{shown}");
        let found = seen["waiters"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["keeper"].as_str().unwrap().contains(&id));
        assert_eq!(found.unwrap()["count"].as_u64(), Some(1));
    }
    bench.touch("go");
    for running in [holder, one, other] {
        assert_eq!(running.output().code, Some(0));
    }
    let seen = json(&bench.lockkeeper(&["show", "--json", "k"]));
    assert_eq!((seen["waiting"].as_u64(), &seen["waiters"]), (Some(0), &serde_json::json!([])));
}
