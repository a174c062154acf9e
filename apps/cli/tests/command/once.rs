//! `lockkeeper once`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockkeeper::core::idempotency::{Record, RecordState};
use lockkeeper::{Fence, Fingerprint, Keeper, OnCrash, OwnerToken, Stored};

use super::bench::{Bench, Output, Running};

const SECRET: &str = "AAAAAAAAAAAAAAAAAAAAAA";
const MINUTE_US: u64 = 60_000_000;

/// A record of attempt 2 with fence 7, whose times are from now.
fn record(state: RecordState, ends_us: i64, hold_us: u64) -> Record {
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap();
    Record {
        state,
        fence: 7,
        attempt: 2,
        ends: now.saturating_add_signed(ends_us),
        hold: hold_us,
        retain: 10 * MINUTE_US,
        fingerprint: Fingerprint::new([1; 32]),
        token: OwnerToken::given(format!("{SECRET}@web-1:4711:1767225600123")).unwrap(),
    }
}

const RUNS: RecordState = RecordState::Running { takeover: false };

fn running() -> Record {
    record(RUNS, 60_000_000, 0)
}

fn unknown() -> Record {
    record(RUNS, -1_000_000, 10 * MINUTE_US)
}

fn completed(result: &str) -> Record {
    let stored = Stored::whole(result.as_bytes()).unwrap();
    record(RecordState::Completed(stored), 600_000_000, 0)
}

fn put(bench: &Bench, key: &[u8], record: &Record) {
    bench.server.command_bytes(&[b"SET", key, &record.to_bytes(), b"PX", b"3600000"]).unwrap();
}

/// What is kept under `once:pay:k`.
fn kept(bench: &Bench) -> Record {
    let reply = bench.server.command(&["GET", "once:pay:k"]).unwrap();
    Record::from_bytes(reply.as_bytes().unwrap()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.code, Some(0), "{output:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn show_tells_what_a_record_means_and_neither_secrets_nor_results() {
    let Some(bench) = Bench::new() else { return };
    let lapsed = record(RUNS, -1_000_000, 0);
    let open = record(RecordState::Open, 600_000_000, 0);
    let rows = [
        ("running", running(), "is running"),
        ("lapsed", lapsed, "the next caller runs it again"),
        ("unknown", unknown(), "nobody runs it until it is resolved"),
        ("completed", completed("{\"paid\":5}"), "is completed"),
        ("open", open, "the next caller runs it"),
    ];
    for (phase, record, words) in rows {
        put(&bench, b"once:pay:k", &record);
        let text = bench.lockkeeper(&["once", "show", "pay", "k"]);
        let seen = bench.lockkeeper(&["once", "show", "--json", "pay", "k"]);
        assert!(text.stdout.starts_with("once:pay:k ") && text.stdout.contains(words), "{text:?}");
        for output in [&text, &seen] {
            assert!(!output.stdout.contains(SECRET) && !output.stdout.contains("paid"), "{output:?}");
            assert!(output.stdout.contains("web-1:4711:"), "{output:?}");
        }
        let seen = json(&seen);
        assert_eq!((seen["phase"].as_str(), seen["key"].as_str()), (Some(phase), Some("once:pay:k")));
        assert_eq!((seen["fence"].as_u64(), seen["attempt"].as_u64()), (Some(7), Some(2)));
        let bytes = (phase == "completed").then_some(10);
        assert_eq!((seen["result_bytes"].as_u64(), seen.get("result")), (bytes, None), "{phase}");
    }
    let none = bench.lockkeeper(&["once", "show", "pay", "none"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), "once:pay:none is not remembered\n"));
    assert_eq!(json(&bench.lockkeeper(&["once", "show", "--json", "pay", "none"]))["phase"], "absent");
}

#[test]
fn a_result_is_printed_where_it_is_asked_for() {
    let Some(bench) = Bench::new() else { return };
    put(&bench, b"once:pay:k", &completed("{\"paid\":5}"));
    let text = bench.lockkeeper(&["once", "show", "--result", "pay", "k"]);
    assert!(text.stdout.ends_with("\n{\"paid\":5}\n"), "{text:?}");
    let seen = json(&bench.lockkeeper(&["once", "show", "--json", "--result", "pay", "k"]));
    assert_eq!(
        (seen["result"].as_str(), seen["result_is_whole"].as_bool()),
        (Some("{\"paid\":5}"), Some(true))
    );
    put(&bench, b"once:pay:k", &running());
    let seen = json(&bench.lockkeeper(&["once", "show", "--json", "--result", "pay", "k"]));
    assert_eq!(seen.get("result"), None);
}

#[test]
fn what_is_no_record_is_said_to_be_none() {
    let Some(bench) = Bench::new() else { return };
    bench.server.command(&["SET", "once:pay:k", "{\"status\":201}"]).unwrap();
    for args in [
        &["once", "show", "pay", "k"][..],
        &["once", "show", "--result", "pay", "k"],
        &["once", "resolve", "pay", "k", "--fence", "7", "--undone"],
    ] {
        let output = bench.lockkeeper(args);
        assert_eq!((output.code, output.stdout.as_str()), (Some(65), ""), "{output:?}");
        assert!(output.stderr.contains("not a record of idempotency"), "{output:?}");
    }
    for args in [&["once", "show", "Pay Ment", "k"][..], &["once", "show", "pay", ""]] {
        assert_eq!(bench.lockkeeper(args).code, Some(64), "{args:?}");
    }
}

#[test]
fn c8_an_operator_resolves_the_attempt_that_was_shown_and_no_other() {
    let Some(bench) = Bench::new() else { return };
    let resolve =
        |rest: &[&str]| bench.lockkeeper(&[&["once", "resolve", "--json", "pay", "k"], rest].concat());
    let outcome = |output: &Output| {
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        (output.code, report["outcome"].as_str().unwrap().to_owned())
    };
    assert_eq!(outcome(&resolve(&["--fence", "7", "--undone"])), (Some(1), "gone".to_owned()));
    for (record, fence, expected) in [
        (running(), "7", (Some(75), "running")),
        (unknown(), "8", (Some(75), "changed")),
        (unknown(), "18446744073709551615", (Some(75), "changed")),
        (completed("x"), "7", (Some(1), "settled")),
    ] {
        put(&bench, b"once:pay:k", &record);
        let output = resolve(&["--fence", fence, "--undone"]);
        assert_eq!(outcome(&output), (expected.0, expected.1.to_owned()), "{output:?}");
        assert_eq!(kept(&bench), record, "{output:?}");
        assert!(!output.stdout.contains(SECRET), "{output:?}");
    }
    put(&bench, b"once:pay:k", &unknown());
    let output = bench.lockkeeper(&["once", "resolve", "pay", "k", "--fence", "7", "--undone"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "once:pay:k is resolved\n"), "{output:?}");
    assert_eq!(kept(&bench).state, RecordState::Open);
}

/// From the command line, a file and standard input: byte by byte. And that it was not kept.
#[test]
fn a_result_is_stored_as_it_was_given() {
    let Some(bench) = Bench::new() else { return };
    let args = ["once", "resolve", "pay", "k", "--fence", "7"];
    std::fs::write(bench.path("result.bin"), b"\x00\xff {").unwrap();
    let cases: [(&[&str], &[u8], Stored); 6] = [
        (&["--completed", "{\"paid\": 5}"], b"", Stored::whole(&b"{\"paid\": 5}"[..]).unwrap()),
        (&["--completed", "-3"], b"", Stored::whole(&b"-3"[..]).unwrap()),
        (&["--completed", "result.bin"], b"", Stored::whole(&b"\x00\xff {"[..]).unwrap()),
        (&["--completed", "-"], b"\"in\"\n", Stored::whole(&b"\"in\"\n"[..]).unwrap()),
        (&["--completed", "-"], b"", Stored::whole(&b""[..]).unwrap()),
        (&["--not-kept"], b"", Stored::not_kept(&b""[..]).unwrap()),
    ];
    for (rest, input, stored) in cases {
        put(&bench, b"once:pay:k", &unknown());
        let command = bench.command(&[&args[..], rest].concat());
        let output = Running::with_input(command, input).output();
        assert_eq!(output.code, Some(0), "{rest:?}: {output:?}");
        assert_eq!(kept(&bench).state, RecordState::Completed(stored), "{rest:?}");
    }
    put(&bench, b"once:pay:k", &unknown());
    for rest in [&[][..], &["--undone", "--not-kept"], &["--completed", "no-such-file"], &["--completed", ""]]
    {
        let output = bench.lockkeeper(&[&args[..], rest].concat());
        assert_eq!((output.code, output.stdout.as_str()), (Some(64), ""), "{rest:?}: {output:?}");
    }
    assert_eq!(kept(&bench).token, unknown().token, "a mistaken call changed the record");
}

#[test]
fn a_resolved_record_is_remembered_as_long_as_was_said() {
    let Some(bench) = Bench::new() else { return };
    for (retain, least, most) in [(None, 86_000_000, 86_400_000), (Some("48h"), 172_000_000, 172_800_000)] {
        put(&bench, b"once:pay:k", &unknown());
        let mut args = vec!["once", "resolve", "pay", "k", "--fence", "7", "--undone"];
        args.extend(retain.iter().flat_map(|retain| ["--retain", retain]));
        assert_eq!(bench.lockkeeper(&args).code, Some(0));
        let left = bench.server.command(&["PTTL", "once:pay:k"]).unwrap().as_int().unwrap();
        assert!((least..=most).contains(&left), "{retain:?}: {left}");
    }
    let args = ["once", "resolve", "pay", "k", "--fence", "7", "--undone", "--retain", "1ms"];
    assert_eq!(bench.lockkeeper(&args).code, Some(64));
}

/// The JSON of an operator is what later callers of a program are answered.
#[tokio::test]
async fn a_program_replays_what_an_operator_said() {
    let Some(bench) = Bench::new() else { return };
    let keeper = Keeper::connect(&bench.server.url()).await.unwrap();
    let pay = keeper.once("pay").unwrap().on_crash(OnCrash::Hold(Duration::from_secs(600)));
    let request = serde_json::json!({ "cents": 1999 });
    let started = tokio::sync::Notify::new();
    let runs = pay.run("k", &request, async |_| {
        started.notify_one();
        std::future::pending::<Result<String, std::io::Error>>().await
    });
    tokio::select! {
        result = runs => panic!("it ended: {result:?}"),
        () = started.notified() => {}
    }
    let unknown = until_unknown(&pay).await;
    let fence = unknown.get().to_string();
    let resolve = ["once", "resolve", "pay", "k", "--fence", &fence, "--completed", "\"receipt 7\""];
    assert_eq!(bench.lockkeeper(&resolve).code, Some(0));
    let replayed = pay.run("k", &request, async |_| Ok::<_, std::io::Error>("another".to_owned())).await;
    assert_eq!(replayed.unwrap(), "receipt 7");
}

/// Waits until the outcome of `k` is unknown; its fence.
async fn until_unknown(pay: &lockkeeper::Once) -> Fence {
    let end = std::time::Instant::now() + super::bench::BOUND;
    loop {
        match pay.inspect("k").await.unwrap() {
            Some(seen) if seen.phase == lockkeeper::OncePhase::Unknown => return seen.fence,
            seen => assert!(std::time::Instant::now() < end, "waited in vain for it to be unknown: {seen:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn furnished() -> Option<Bench> {
    let bench = Bench::new()?;
    put(&bench, b"once:pay:b", &running());
    put(&bench, b"once:pay:a", &completed("x"));
    put(&bench, b"once:pay:z~fence:1", &unknown());
    put(&bench, b"once:mail:\xff:1", &unknown());
    put(&bench, b"other:pay:c", &running());
    for key in ["once:pay:text", "once:", "once:nameless", "once:Pay:d", "once:pay:"] {
        bench.server.command(&["SET", key, "x"]).unwrap();
    }
    put(&bench, b"once:No Name:d", &running());
    bench.server.command(&["RPUSH", "once:pay:list", "x"]).unwrap();
    Some(bench)
}

fn listed(output: &Output) -> Vec<String> {
    let rows = json(output);
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| format!("{}/{}", row["name"].as_str().unwrap(), row["key"].as_str().unwrap())).collect()
}

#[test]
fn c94_ls_shows_unknown_outcomes_first() {
    let Some(bench) = furnished() else { return };
    let output = bench.lockkeeper(&["once", "ls"]);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[0].starts_with("NAME") && lines[0].trim_end().ends_with("HOLDER"), "{output:?}");
    for (line, parts) in lines[1..].iter().zip([
        ["mail", "\\xff:1", "unknown"],
        ["pay", "z~fence:1", "unknown"],
        ["pay", "a", "completed"],
        ["pay", "b", "running"],
    ]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[..3], parts, "{output:?}");
        assert!(!line.contains(SECRET) && line.contains("web-1:4711:"), "{output:?}");
    }
    assert_eq!(lines[5..], ["4 records"], "{output:?}");
}

#[test]
fn c89_ls_finds_by_name_phase_and_prefix_and_says_when_there_are_more() {
    let Some(bench) = furnished() else { return };
    let ls = |rest: &[&str]| bench.lockkeeper(&[&["once", "ls", "--json"], rest].concat());
    assert_eq!(listed(&ls(&[])), ["mail/\\xff:1", "pay/z~fence:1", "pay/a", "pay/b"]);
    assert_eq!(listed(&ls(&["pay"])), ["pay/z~fence:1", "pay/a", "pay/b"]);
    assert_eq!(listed(&ls(&["--unknown"])), ["mail/\\xff:1", "pay/z~fence:1"]);
    assert_eq!(listed(&ls(&["--unknown", "pay", "--limit", "1"])), ["pay/z~fence:1"]);
    assert_eq!(listed(&ls(&["--prefix", "other:"])), ["pay/c"]);
    assert_eq!(listed(&ls(&["pa"])), [""; 0]);
    assert_eq!(ls(&["Pa*"]).code, Some(64));
    let rows = json(&ls(&["mail"]));
    assert_eq!((rows[0]["key_hex"].as_str(), rows[0]["fence"].as_u64()), (Some("ff3a31"), Some(7)));
    assert_eq!((rows[0]["phase"].as_str(), rows[0].get("result")), (Some("unknown"), None));
    let more = ls(&["--limit", "3"]);
    assert_eq!(listed(&more).len(), 3);
    assert!(more.stderr.contains("the first 3 found; more exist"), "{more:?}");
    assert_eq!(ls(&["--limit", "4"]).stderr, "");
}
