//! What is a record: to the scripts exactly what it is to the model.

use std::time::Duration;

use lockkeeper::SystemClock;
use lockkeeper::core::idempotency::{
    Begin, BeginReply, Complete, HowAbandoned, InspectOnce, MAX_ENDS, MAX_STORED_BYTES, OnCrash, Phase,
    Record, Resolution, Stored,
};
use lockkeeper::core::lock::Fence;
use lockkeeper::core::{Apply, Clock, Error, ErrorKind, Keys};
use lockkeeper::redis::RedisStore;
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::arm::once_key;
use lockkeeper_testkit::once::ask::{abandon, begin, complete, keep_alive, resolve};

use super::{HOUR, WITHIN, servers, store};

const NAME: &str = "record";

/// The fields of a record, its token and its result.
fn record(fields: &[String; 10], token: &[u8], result: &[u8]) -> Vec<u8> {
    [format!("{} ", fields.join(" ")).as_bytes(), token, result].concat()
}

/// A running record whose lease has an hour; completed: with a `1` and a `c`.
fn fields() -> [String; 10] {
    let now = SystemClock.wall();
    let ends = now.after(HOUR).as_micros().to_string();
    let print = "0123456789abcdef".repeat(4);
    let fields =
        ["once1", "r", &now.as_micros().to_string(), "7", &ends, "0", "3600000000", &print, "0", "5"];
    fields.map(str::to_owned)
}

/// One field changed, and whether that is a record.
fn changes() -> Vec<(usize, String, bool)> {
    let zeros = |number: &str, digits: usize| format!("{number:0>digits$}");
    let mut changes = vec![
        (8, "0".to_owned(), true),
        (4, MAX_ENDS.to_string(), true),
        (4, (MAX_ENDS + 1).to_string(), false),
        (9, zeros("5", 16), true),
        (9, zeros("5", 17), false),
        (7, "0".repeat(63), false),
        (7, "0".repeat(65), false),
        (7, "A".repeat(64), false),
        (7, "g".repeat(64), false),
        (2, "9007199254695904".to_owned(), true),
        (2, "9007199254695905".to_owned(), false),
        (2, "9".repeat(16), false),
        (3, "1000000000".to_owned(), true),
        (3, "1000000001".to_owned(), false),
    ];
    for field in [5, 6] {
        changes.push((field, "31536000000000".to_owned(), true));
        changes.push((field, "31536000000001".to_owned(), false));
    }
    for field in 2..7 {
        let sound = zeros(&fields()[field], 16);
        changes.push((field, format!("0{sound}"), false));
        changes.push((field, sound, true));
        for bad in ["", "-1", "+1", "1.0", "1e3", "0x1", " 1", "1 ", "1\n", "x", "nan", "inf"] {
            changes.push((field, bad.to_owned(), false));
        }
    }
    for (field, bad) in [
        (0, "once2"),
        (0, "Once1"),
        (0, " once1"),
        (0, ""),
        (1, "x"),
        (1, "R"),
        (1, ""),
        (1, "rr"),
        (8, "1"),
        (8, "2"),
        (8, ""),
        (8, "00"),
        (9, "0"),
        (9, "4"),
        (9, "6"),
        (9, "257"),
        (9, "-5"),
        (9, ""),
    ] {
        changes.push((field, bad.to_owned(), false));
    }
    changes
}

/// Each with what it says of itself: is it a record?
fn texts() -> Vec<(Vec<u8>, bool)> {
    let token = b"a b\0c";
    let with = |changed: &[(usize, &str)], token: &[u8], result: &[u8]| {
        let mut fields = fields();
        changed.iter().for_each(|(at, to)| fields[*at] = (*to).to_owned());
        record(&fields, token, result)
    };
    let mut texts: Vec<_> =
        changes().iter().map(|(at, to, is_ours)| (with(&[(*at, to)], token, b""), *is_ours)).collect();
    let whole = with(&[], token, b"");
    texts.extend([0, 1, 5, 6, 100, whole.len() - 1].map(|length| (whole[..length].to_vec(), false)));
    let many = [b'x'; 1000];
    for (state, is_whole, result, is_ours) in [
        ("r", "0", &b"x"[..], false),
        ("t", "0", b"", true),
        ("t", "0", b"x", false),
        ("t", "1", b"", false),
        ("t", "0", &many, false),
        ("o", "0", b"", true),
        ("o", "0", b"x", false),
        ("o", "0", &many, false),
        ("r", "0", &many, false),
        ("o", "1", b"", false),
        ("c", "0", b"", true),
        ("c", "1", b"", true),
        ("c", "0", &many, true),
        ("c", "1", &many, true),
        ("c", "2", &many, false),
    ] {
        texts.push((with(&[(1, state), (8, is_whole)], token, result), is_ours));
    }
    // As long as a record gets without its result, and what lies beside 512 bytes.
    for (length, given, is_ours) in
        [("256", 256, true), ("256", 255, false), ("257", 257, false), ("1", 1, true)]
    {
        texts.push((with(&[(9, length)], &[0xfe; 300][..given], b""), is_ours));
    }
    let longest: Vec<String> = fields().iter().map(|field| format!("{field:0>16}")).collect();
    let long = [(2, &*longest[2]), (3, &longest[3]), (4, &longest[4]), (5, &longest[5]), (6, &longest[6])];
    let long = [&long[..], &[(1, "c"), (9, "0000000000000256")]].concat();
    for result in [0, 78, 79, 80, 81] {
        texts.push((with(&long, &[b' '; 256], &many[..result]), true));
    }
    texts
}

/// What each of the six decisions of a stranger says of the text.
async fn answers(store: &RedisStore, server: &RedisServer, text: &[u8]) -> Vec<Result<(), Error>> {
    let (at, key) = (Keys::from(once_key(NAME)), once_key(NAME));
    let mut answers = Vec::new();
    for decision in 0..6 {
        server.command_bytes(&[b"SET", key.as_bytes(), text]).unwrap();
        let answer = match decision {
            0 => store.apply(&at, begin("b", OnCrash::Rerun), WITHIN).await.map(drop),
            1 => store.apply(&at, keep_alive("b"), WITHIN).await.map(drop),
            2 => store.apply(&at, complete("b"), WITHIN).await.map(drop),
            3 => store.apply(&at, abandon("b", HowAbandoned::Undone), WITHIN).await.map(drop),
            4 => store.apply(&at, resolve(Fence::new(1), Resolution::Undone), WITHIN).await.map(drop),
            _ => store.apply(&at, InspectOnce, WITHIN).await.map(drop),
        };
        let kept = server.command_bytes(&[b"GET", key.as_bytes()]).unwrap();
        let is_same = kept.as_bytes() == Some(text);
        assert!(answer.is_ok() || is_same, "{}: it was written", text.escape_ascii());
        answers.push(answer);
    }
    answers
}

#[tokio::test]
async fn texts_are_records_to_the_scripts_where_they_are_to_the_model() {
    for (kind, server) in servers() {
        let store = store(&server).await;
        for (text, is_ours) in texts() {
            let shown = text.escape_ascii();
            assert_eq!(Record::from_bytes(&text).is_some(), is_ours, "the model: {shown}");
            for (decision, answer) in answers(&store, &server, &text).await.into_iter().enumerate() {
                match answer {
                    Ok(()) => assert!(is_ours, "{kind}: {decision}: {shown}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WrongType, "{kind}: {decision}: {error}");
                        assert!(!is_ours, "{kind}: {decision}: {shown}");
                    }
                }
            }
        }
    }
}

/// The largest result is kept and comes back; a byte more, which others may have written, is none of ours.
#[tokio::test]
async fn a_result_of_16_mib_is_kept_and_a_byte_more_is_none_of_ours() {
    for (kind, server) in servers() {
        let (store, at, key) = (store(&server).await, Keys::from(once_key(NAME)), once_key(NAME));
        let within = Duration::from_secs(30);
        let stored = Stored::whole(vec![b'x'; MAX_STORED_BYTES]).unwrap();
        store.apply(&at, begin("a", OnCrash::Rerun), within).await.unwrap();
        store.apply(&at, Complete { stored: stored.clone(), ..complete("a") }, within).await.unwrap();
        match store.apply(&at, Begin { seen: 1, ..begin("b", OnCrash::Rerun) }, within).await.unwrap().reply {
            BeginReply::Completed { stored: kept, .. } => assert!(kept == stored, "{kind}"),
            other => panic!("{kind}: {other:?}"),
        }
        let seen = store.apply(&at, InspectOnce, within).await.unwrap().reply.unwrap();
        assert_eq!((seen.phase, seen.result), (Phase::Completed, Some((MAX_STORED_BYTES as u64, true))));
        server.command_bytes(&[b"APPEND", key.as_bytes(), b"x"]).unwrap();
        let refused = [
            store.apply(&at, complete("a"), within).await.err(),
            store.apply(&at, begin("b", OnCrash::Rerun), within).await.err(),
            store.apply(&at, InspectOnce, within).await.err(),
        ];
        for error in refused {
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::WrongType), "{kind}");
        }
    }
}
