//! Records as bytes.

use super::*;
use crate::idempotency::record::RecordState;

const RUNS: RecordState = RecordState::Running { takeover: false };

fn record(state: RecordState) -> Record {
    let (fence, attempt, ends) = (START.as_micros(), 7, START.as_micros() + 1);
    let (hold, retain, fingerprint) = (0, 3_600_000_000, print(0xab));
    Record { state, fence, attempt, ends, hold, retain, fingerprint, token: token("a b\0c") }
}

#[test]
fn a_record_survives_its_bytes_and_they_are_as_documented() {
    let states = [
        RUNS,
        RecordState::Running { takeover: true },
        RecordState::Open,
        RecordState::Completed(Stored::whole(&b"a b\0\n"[..]).unwrap()),
        RecordState::Completed(Stored::not_kept(&b""[..]).unwrap()),
    ];
    for state in states {
        let record = record(state);
        assert_eq!(Record::from_bytes(&record.to_bytes()), Some(record));
    }
    let start = format!(
        "once1 r {} 7 {} 0 3600000000 {} 0 5 a b\0c",
        START.as_micros(),
        START.as_micros() + 1,
        "ab".repeat(32)
    );
    assert_eq!(record(RUNS).to_bytes(), start.as_bytes());
    let takeover = record(RecordState::Running { takeover: true });
    assert_eq!(takeover.to_bytes(), start.replacen(" r ", " t ", 1).as_bytes());
}

#[test]
fn anything_else_is_no_record() {
    let good = String::from_utf8(record(RUNS).to_bytes()).unwrap();
    let changes = [
        ("once1", "once2"),
        (" r ", " x "),
        (" 7 ", " -7 "),
        (" 7 ", " 7.5 "),
        (" 7 ", " 12345678901234567 "),
        (" 7 ", " 1000000001 "),
        (" 0 3600000000", " 0 360000000000000"),
        (" 0 5 ", " 1 5 "),
        (" 0 5 ", " 0 0 "),
        (" 0 5 ", " 0 6 "),
        (" 0 5 ", " 0 257 "),
        (" 0 5 ", " 0 4 "),
        ("abab", "ABab"),
    ];
    for (from, to) in changes {
        assert!(good.contains(from), "{from}");
        assert_eq!(Record::from_bytes(good.replacen(from, to, 1).as_bytes()), None, "{from} -> {to}");
    }
    for bad in ["", "once1", "once1 r", "value", &good[..good.len() - 1]] {
        assert_eq!(Record::from_bytes(bad.as_bytes()), None, "{bad}");
    }
}
