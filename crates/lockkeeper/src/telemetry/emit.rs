//! Emitting, and names that become labels.
//!
//! The recorder is asked for at each emission, so that one that is installed later is honoured.

use std::time::Duration;

use lockkeeper_core::Error;
use lockkeeper_core::key::Escaped;
use metrics::{Key, Label, Level, Metadata, with_recorder};

use super::table::{self, Metric};

/// The longest name that is a label.
pub(super) const MAX_NAME_BYTES: usize = 64;

static METADATA: Metadata<'static> = Metadata::new(table::TARGET, Level::INFO, None);

pub(super) fn show_counter(key: &Key) {
    with_recorder(|recorder| _ = recorder.register_counter(key, &METADATA));
}

pub(super) fn show_gauge(key: &Key) {
    with_recorder(|recorder| _ = recorder.register_gauge(key, &METADATA));
}

pub(super) fn count(key: &Key) {
    count_many(key, 1);
}

pub(super) fn count_many(key: &Key, so_many: u64) {
    with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(so_many));
}

pub(super) fn observe(key: &Key, time: Duration) {
    record(key, time.as_secs_f64());
}

pub(super) fn record(key: &Key, value: f64) {
    with_recorder(|recorder| recorder.register_histogram(key, &METADATA).record(value));
}

pub(super) fn shift(key: &Key, change: i32) {
    with_recorder(|recorder| recorder.register_gauge(key, &METADATA).increment(f64::from(change)));
}

/// The labels of `metric` with these values, in its order. Leaked: who is named stays for good.
pub(super) fn key<const N: usize>(metric: Metric, values: [&'static str; N]) -> Key {
    debug_assert_eq!(metric.labels.len(), N, "{}", metric.name);
    let labels = metric.labels.iter().zip(values);
    let labels: Vec<Label> = labels.map(|(label, value)| Label::from_static_parts(label, value)).collect();
    Key::from_static_labels(metric.name, labels.leak())
}

/// # Errors
/// Not a name that a label may have; `what` says what it would be.
pub(super) fn check_name(operation: &'static str, what: &str, name: &str) -> Result<(), Error> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    let shown = Escaped(name.as_bytes());
    let detail = format!("`{shown}` is no {what}: 1 to {MAX_NAME_BYTES} of a-z, 0-9 and _");
    Err(Error::bad_argument(operation, detail))
}
