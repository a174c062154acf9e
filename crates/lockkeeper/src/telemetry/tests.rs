//! What is emitted, compared with the table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::idempotency::{CompleteReply, HowAbandoned, Resolution, ResolveReply, Stored, Strayed};
use lockkeeper_core::lock::{Fence, Holder, Identity, OwnerToken};
use lockkeeper_core::{Error, ErrorKind, Key, Keys, Prefix, Timestamp, Uptime};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use super::class::Classes;
use super::emit::MAX_NAME_BYTES;
use super::events::OfAttempt;
use super::limit::{LimitClass, Limiters, word};
use super::once::{MAX_ONCES, OnceClass, Onces};
use super::{
    Class, Decided, EVENTS, LIMIT_TARGET, MAX_CLASSES, MAX_LIMITERS, METRICS, MetricKind, ONCE_TARGET,
    Reason, Way, circuit_closed, circuit_opened, describe, events, waiting_fell_back,
};
use crate::Keeper;
use crate::limit::{Source, Verdict, WhenAway};
use crate::lock::{Busy, LossReason, Released};
use crate::once::{Begun, Replay};

const SECOND: Duration = Duration::from_secs(1);

/// What `work` emits: `name{label=value,…}` and its value.
fn emitted(work: impl FnOnce()) -> BTreeMap<String, DebugValue> {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        describe();
        work();
    });
    let seen = recorder.snapshotter().snapshot().into_vec();
    let series = seen.into_iter().map(|(key, unit, help, value)| {
        let key = key.key();
        assert!(unit.is_some() && help.is_some(), "{} was not described", key.name());
        let metric = METRICS.iter().find(|metric| metric.name == key.name()).unwrap();
        let labels: Vec<_> = key.labels().map(|label| label.key().to_owned()).collect();
        assert_eq!(labels, metric.labels, "{}", metric.name);
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        (format!("{}{{{}}}", key.name(), labels.join(",")), value)
    });
    series.collect()
}

fn emit_everything(class: Class) {
    class.acquired(SECOND);
    class.refused(Reason::Busy, SECOND);
    class.released(Reason::from(&Released::Released), SECOND);
    class.released(Reason::from(&Released::Expired), SECOND);
    class.lost(&LossReason::KeyGone);
    class.lost(&LossReason::Released);
    class.renewed();
    class.renewal_failed(Reason::from(&Error::new(ErrorKind::Unreachable, "renew", "")));
    class.waiting(2);
    class.waiting(-1);
    class.held(1);
    class.handed_over(Way::Server);
    class.degraded();
    waiting_fell_back();
}

/// An allowance by a memory store.
async fn verdict() -> Verdict {
    let keeper = Keeper::connect("memory://").await.unwrap();
    keeper.limiter("verdicts", "5/s").unwrap().check("a").await.unwrap()
}

fn emit_everything_of_limits(class: LimitClass, verdict: &Verdict) {
    class.decided(verdict, || SECOND);
    class.decided_many(Decided::Denied, Source::Remembered, 7);
    class.failed(SECOND);
    class.answered(3);
    class.repaired(2, Uptime::from_micros(1));
    circuit_opened("redis://h", &Error::new(ErrorKind::Unreachable, "check", ""));
    circuit_closed("redis://h");
}

/// An answer that was kept by a memory store.
async fn replay() -> Replay {
    let once = Keeper::connect("memory://").await.unwrap().once("replays").unwrap();
    let request = crate::fingerprint::of_bytes("request");
    let Begun::Claimed(attempt) = once.begin("a", request).await.unwrap() else { panic!() };
    attempt.complete(Stored::nothing()).await.unwrap();
    let Begun::Completed(replay) = once.begin("a", request).await.unwrap() else { panic!() };
    replay
}

fn emit_everything_of_once(class: OnceClass, replay: Replay, keys: &Keys, token: &OwnerToken) {
    let of = OfAttempt { once: class.name(), keys, token, fence: Fence::new(42), attempt: 2 };
    let error = Error::new(ErrorKind::Unreachable, "begin", "nobody there").with_key(keys);
    let (stored, holder) = (Stored::nothing(), token.holder());
    class.claimed(of, true);
    class.begun(keys, &Begun::Completed(replay));
    class.begun(keys, &Begun::Running { holder: holder.clone(), attempt: 1, retry_after: SECOND });
    class.failed(&error);
    class.renewal_failed(of, &error, true);
    class.lost(of, &LossReason::KeyGone, SECOND);
    class.lost(of, &LossReason::Released, SECOND);
    class.completed(of, &stored, &Ok(CompleteReply::Completed { remaining: SECOND }), SECOND);
    class.completed(of, &stored, &Ok(CompleteReply::Strayed(Strayed::Gone)), SECOND);
    class.abandoned(of, HowAbandoned::Crashed, SECOND);
    events::once_resolved("order", keys, &holder, of.fence, &Resolution::Undone, &ResolveReply::Resolved);
    events::once_may_be_evicted("allkeys-lru");
    class.renewed();
    class.renewal_strayed(&Strayed::TakenOver(holder));
    class.running(2);
    class.running(-1);
    class.waiting(1);
}

#[tokio::test]
async fn every_metric_is_emitted_with_the_labels_of_the_table() {
    let class = Class::named("order").unwrap();
    let (limit, verdict) = (LimitClass::named("order").unwrap(), verdict().await);
    let (once, replay) = (OnceClass::named("order").unwrap(), replay().await);
    let keys = Keys::from(Key::new(&Prefix::empty(), "a").unwrap());
    let seen = emitted(|| {
        emit_everything(class);
        emit_everything_of_limits(limit, &verdict);
        emit_everything_of_once(once, replay, &keys, &token());
    });
    let names: BTreeSet<_> = seen.keys().map(|series| series.split('{').next().unwrap()).collect();
    assert_eq!(names, METRICS.iter().map(|metric| metric.name).collect());
    let count = |series: &str| match &seen[series] {
        DebugValue::Counter(count) => *count,
        other => panic!("{series}: {other:?}"),
    };
    assert_eq!(count("redis_lock_acquire_total{class=order,result=success,reason=none}"), 1);
    assert_eq!(count("redis_lock_acquire_total{class=order,result=failed,reason=busy}"), 1);
    assert_eq!(count("redis_lock_release_total{class=order,result=failed,reason=expired}"), 1);
    assert_eq!(count("redis_lock_watchdog_extend_total{class=order,result=failed,reason=unreachable}"), 1);
    assert_eq!(count("redis_lock_lost_total{class=order,reason=key_gone}"), 1);
    assert_eq!(count("redis_lock_late_releases_total{class=order}"), 1);
    assert_eq!(count("redis_lock_handovers_total{class=order,way=server}"), 1);
    assert_eq!(seen["redis_lock_waiters{class=order}"], DebugValue::Gauge(1.0.into()));
    let took = &seen["redis_lock_acquire_duration_seconds{class=order,result=success}"];
    assert_eq!(*took, DebugValue::Histogram(vec![1.0.into()]));
    let losses = seen.keys().filter(|series| series.starts_with("redis_lock_lost_total{class=order,"));
    assert_eq!(losses.map(|series| count(series)).sum::<u64>(), 1, "a wanted release is no loss");
    assert_eq!(count("redis_limit_decisions_total{limit=order,result=allowed,source=store}"), 1);
    assert_eq!(count("redis_limit_decisions_total{limit=order,result=denied,source=remembered}"), 7);
    assert_eq!(count("redis_limit_decisions_total{limit=order,result=failed,source=none}"), 1);
    assert_eq!(count("redis_limit_repairs_total{limit=order}"), 2);
    assert_eq!(count("redis_limit_circuit_opened_total{}"), 1);
    let one = |value: f64| DebugValue::Histogram(vec![value.into()]);
    assert_eq!(seen["redis_limit_batch_size{limit=order}"], one(3.0));
    for source in ["store", "none"] {
        let series = format!("redis_limit_decision_duration_seconds{{limit=order,source={source}}}");
        assert_eq!(seen[&series], one(1.0));
    }
    let timed = seen.keys().filter(|series| series.starts_with("redis_limit_decision_duration"));
    assert_eq!(timed.count(), 2, "what memory decides has no duration");
    for series in [
        "begin_total{once=order,result=replayed,reason=none}",
        "begin_total{once=order,result=running,reason=none}",
        "begin_total{once=order,result=failed,reason=unreachable}",
        "takeovers_total{once=order}",
        "complete_total{once=order,result=success,reason=none}",
        "complete_total{once=order,result=failed,reason=lost}",
        "abandoned_total{once=order,how=crashed}",
        "lost_total{once=order,reason=key_gone}",
        "watchdog_extend_total{once=order,result=success,reason=none}",
        "watchdog_extend_total{once=order,result=failed,reason=held_by_another}",
    ] {
        assert_eq!(count(&format!("redis_once_{series}")), 1, "{series}");
    }
    assert_eq!(seen["redis_once_running{once=order}"], DebugValue::Gauge(1.0.into()));
}

#[test]
fn each_source_stands_at_its_number_and_the_page_names_it() {
    let page = include_str!("../guide/telemetry.md");
    let (store, share) = (Source::Store, Source::Share);
    let all = [store, Source::Remembered, Source::Leased, share, Source::Unchecked, Source::Constant];
    for (at, source) in all.into_iter().enumerate() {
        assert_eq!(source as usize, at);
        assert_eq!(word(source), format!("{source:?}").to_lowercase());
        assert!(page.contains(&format!("`{}`", word(source))), "{source:?}");
    }
}

#[test]
fn a_limiter_and_a_lock_class_of_one_name_have_nothing_in_common() {
    let seen = emitted(|| _ = LimitClass::named("apart").unwrap());
    assert!(!seen.keys().any(|series| series.contains("class=apart")), "{seen:?}");
    let of_limit: Vec<_> = seen.iter().filter(|(series, _)| series.contains("limit=apart")).collect();
    assert!(of_limit.iter().all(|(_, value)| **value == DebugValue::Counter(0)), "{of_limit:?}");
    let at_zero = |labels: &str| {
        assert!(
            seen.contains_key(&format!("redis_limit_decisions_total{{limit=apart,{labels}}}")),
            "{labels}"
        );
    };
    for result in ["allowed", "denied", "never"] {
        at_zero(&format!("result={result},source=store"));
    }
    at_zero("result=failed,source=none");
    at_zero("result=allowed,source=unchecked");
    assert_eq!(of_limit.len(), 9);
}

/// What was counted, by the values of the labels.
fn decisions(recorder: &DebuggingRecorder) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for (key, _, _, value) in recorder.snapshotter().snapshot().into_vec() {
        let labels: Vec<_> = key.key().labels().map(metrics::Label::value).collect();
        assert!(!labels.contains(&"somebody"), "{labels:?}");
        match value {
            DebugValue::Counter(count) if count > 0 => _ = counted.insert(labels.join(" "), count),
            _ => {}
        }
    }
    counted
}

#[tokio::test]
async fn an_outage_is_said_once_and_each_degraded_decision_is_counted() {
    let (recorder, log) = (DebuggingRecorder::new(), Log::default());
    let _local = metrics::set_default_local_recorder(&recorder);
    let _written = tracing::subscriber::set_default(tracing_subscriber::registry().with(log.clone()));
    let keeper = Keeper::builder().url("redis://127.0.0.1:1").unwrap().lazy().connect().await.unwrap();
    let away = keeper.limiter("away", "5/s").unwrap();
    let allowing = away.clone().when_away(WhenAway::Allow);
    for _ in 0..10 {
        assert!(allowing.check("somebody").await.unwrap().is_degraded());
    }
    away.check("somebody").await.unwrap_err();
    let counted = decisions(&recorder);
    assert_eq!((counted["away allowed unchecked"], counted["away failed none"]), (10, 1), "{counted:?}");
    assert_eq!(counted[""], 1, "the circuit opened");
    let written = std::mem::take(&mut *log.0.lock());
    let names: Vec<_> = written.iter().map(|(_, fields)| fields["message"].as_str()).collect();
    let times = |name: &str| names.iter().filter(|written| **written == name).count();
    assert_eq!((times("limit_degraded"), times("limit_circuit_opened")), (1, 1), "{names:?}");
    assert!(!format!("{written:?}").contains("somebody"), "{written:?}");
}

#[tokio::test]
async fn what_is_spent_out_of_leased_tokens_is_counted() {
    let recorder = DebuggingRecorder::new();
    let _local = metrics::set_default_local_recorder(&recorder);
    let keeper = Keeper::connect("memory://").await.unwrap();
    let leased = keeper.limiter("rented", "100000/h").unwrap().leased().unwrap();
    for _ in 0..100 {
        assert!(leased.check("somebody").await.unwrap().is_allowed());
    }
    keeper.close(SECOND).await;
    assert_eq!(decisions(&recorder), [("rented allowed leased".to_owned(), 100)].into());
}

#[tokio::test]
async fn refusals_of_leased_limiters_are_counted_as_those_of_others() {
    let recorder = DebuggingRecorder::new();
    let _local = metrics::set_default_local_recorder(&recorder);
    let keeper = Keeper::connect("memory://").await.unwrap();
    let leased = keeper.limiter("lent", "1/h").unwrap().leased().unwrap();
    assert!(leased.check("somebody").await.unwrap().is_allowed());
    assert!(!leased.check("somebody").await.unwrap().is_allowed());
    keeper.close(SECOND).await;
    let expected = [("lent allowed leased", 1), ("lent denied store", 1)];
    assert_eq!(decisions(&recorder), expected.map(|(labels, count)| (labels.to_owned(), count)).into());
}

#[tokio::test]
async fn limiters_count_what_they_decide_and_never_the_subject() {
    let recorder = DebuggingRecorder::new();
    let _local = metrics::set_default_local_recorder(&recorder);
    let keeper = Keeper::connect("memory://").await.unwrap();
    let limiter = keeper.limiter("counted", "2/h").unwrap();
    for _ in 0..3 {
        let _ = limiter.check("somebody").await.unwrap();
    }
    let _ = limiter.check_cost("somebody", 9).await.unwrap();
    let _ = limiter.peek("somebody", 1).await.unwrap();
    let _ = keeper.limiter("free", "unlimited").unwrap().check("somebody").await.unwrap();
    let counted = decisions(&recorder);
    let expected = [
        ("counted allowed store", 2),
        ("counted denied store", 1),
        ("counted never store", 1),
        ("free allowed constant", 1),
    ];
    assert_eq!(counted, expected.map(|(labels, count)| (labels.to_owned(), count)).into());
}

#[test]
fn names_of_limiters_are_bounded_short_words() {
    let mut limiters = Limiters::new();
    for number in 0..MAX_LIMITERS {
        limiters.named(&format!("l{number}")).unwrap();
    }
    let error = limiters.named("one_more").unwrap_err();
    assert!(error.to_string().contains("at most 256"), "{error}");
    assert!(limiters.named("l1").is_ok());
    let error = LimitClass::named("user:42").unwrap_err();
    assert!(error.to_string().contains("`user:42` is no name of a limiter"), "{error}");
}

#[test]
fn names_of_what_runs_once_are_bounded_short_words() {
    let mut onces = Onces::new();
    for number in 0..MAX_ONCES {
        onces.named(&format!("o{number}")).unwrap();
    }
    let error = onces.named("one_more").unwrap_err();
    assert!(error.to_string().contains("at most 256"), "{error}");
    assert!(onces.named("o1").is_ok());
}

#[test]
fn a_declared_class_begins_at_zero() {
    let seen = emitted(|| {
        let _ = OnceClass::named("idle").unwrap();
        let _ = LimitClass::named("idle").unwrap();
        let _ = Class::named("idle").unwrap();
    });
    let again = emitted(|| ());
    let of_class = |seen: &BTreeMap<String, DebugValue>| -> Vec<String> {
        seen.keys().filter(|series| series.contains("class=idle")).cloned().collect()
    };
    assert_eq!(of_class(&seen), of_class(&again), "a recorder that comes later is told as well");
    assert!(seen.keys().all(|series| !series.contains("class=default")), "nobody declares `default`");
    let is_zero = |series: &str| match &seen[series] {
        DebugValue::Counter(count) => *count == 0,
        DebugValue::Gauge(value) => value.0 == 0.0,
        DebugValue::Histogram(_) => false,
    };
    assert!(of_class(&seen).iter().all(|series| is_zero(series)), "{seen:?}");
    for metric in METRICS.iter().filter(|metric| metric.kind != MetricKind::Histogram) {
        assert!(
            seen.keys().any(|series| series.starts_with(&format!("{}{{", metric.name))),
            "{}",
            metric.name
        );
    }
}

#[test]
fn a_recorder_that_is_installed_later_is_honoured() {
    let class = Class::named("early").unwrap();
    class.acquired(SECOND);
    let seen = emitted(|| class.acquired(SECOND));
    let series = "redis_lock_acquire_total{class=early,result=success,reason=none}";
    assert_eq!(seen[series], DebugValue::Counter(1));
}

#[test]
fn a_class_is_a_short_word_and_the_same_name_is_the_same_class() {
    for bad in ["", "Order", "order:1", "a-b", "ä", &"x".repeat(MAX_NAME_BYTES + 1)] {
        let error = Class::named(bad).unwrap_err();
        assert!(error.to_string().contains("1 to 64"), "{error}");
    }
    assert!(Class::named(&"x".repeat(MAX_NAME_BYTES)).is_ok());
    let name = Class::named("same").unwrap().name();
    assert!(std::ptr::eq(name, Class::named("same").unwrap().name()));
    assert_eq!(Class::default().name(), "default");
}

#[test]
fn classes_are_bounded_and_the_error_names_the_bound() {
    let mut classes = Classes::new();
    for number in 1..MAX_CLASSES {
        classes.named(&format!("c{number}")).unwrap();
    }
    let error = classes.named("one_more").unwrap_err();
    assert!(error.to_string().contains("at most 256"), "{error}");
    assert!(classes.named("c1").is_ok() && classes.named("default").is_ok());
    assert!(classes.named("one_more").is_err());
}

/// An event: level, and its fields by name.
type Written = (String, BTreeMap<String, String>);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Written>>>);

struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl<S: tracing::Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        let known = EVENTS.iter().find(|event| event.name == fields.0["message"]);
        if !event.metadata().target().starts_with("lockkeeper::") {
            return;
        }
        assert_eq!(Some(event.metadata().target()), known.map(|event| event.target));
        self.0.lock().push((event.metadata().level().as_str().to_lowercase(), fields.0));
    }
}

fn token() -> OwnerToken {
    let identity = Identity::new("web-1", 7);
    OwnerToken::generate([7; 16], &identity, Timestamp::from_micros(1_000_000))
}

fn write_everything(keys: &Keys, token: &OwnerToken) {
    let of = events::Of { keys, token, fence: Fence::new(42) };
    let error = Error::new(ErrorKind::Unreachable, "renew", "nobody there");
    let holder = Holder::new(b"someone", 7);
    let busy = Busy { key: keys.at(0).clone(), holder, remaining: Some(SECOND) };
    events::acquire_start(keys, &Identity::new("web-1", 7).keeper(0xab));
    events::acquire_success(of, SECOND, 30 * SECOND);
    events::acquire_refused(keys, Some(token), &busy, SECOND);
    events::acquire_failed(keys, &error, SECOND);
    events::renew_failed(of, &error, true);
    events::lost(of, &LossReason::KeyGone, SECOND);
    events::lost(of, &LossReason::Released, SECOND);
    events::released(of, Reason::Expired, SECOND);
    events::degraded(keys, &error);
    let error = error.with_key(keys);
    let limit = LimitClass::named("written").unwrap();
    events::limit_denied("written", keys, 2, Some(Duration::from_micros(1)), Source::Remembered);
    events::limit_refund_failed("written", 5, &error);
    for _ in 0..3 {
        limit.degraded(&error, Uptime::from_micros(1));
    }
    for _ in 0..3 {
        limit.repaired(2, Uptime::from_micros(1));
    }
    circuit_opened("redis://h", &error);
    circuit_closed("redis://h");
}

#[tokio::test]
async fn every_event_is_written_with_the_fields_and_the_level_of_the_table() {
    let replay = replay().await;
    let log = Log::default();
    let keys = Keys::from(Key::new(&Prefix::new("lock:").unwrap(), "a").unwrap());
    let token = token();
    let subscriber = tracing_subscriber::registry().with(log.clone());
    tracing::subscriber::with_default(subscriber, || {
        write_everything(&keys, &token);
        emit_everything_of_once(OnceClass::named("written").unwrap(), replay, &keys, &token);
    });
    let written = std::mem::take(&mut *log.0.lock());
    assert_eq!(written.len(), EVENTS.len());
    for ((level, fields), event) in written.iter().zip(EVENTS) {
        let (name, mut expected) = (event.name, BTreeSet::from(["message"]));
        expected.extend(event.fields);
        assert_eq!((fields["message"].as_str(), level.as_str()), (name, event.level));
        assert_eq!(fields.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{name}");
        let named: Vec<_> =
            fields.iter().filter(|(_, value)| value.contains("lock:a")).map(|(name, _)| name).collect();
        let key = match event.target {
            LIMIT_TARGET => "limit_key",
            ONCE_TARGET => "once_key",
            _ => "lock_key",
        };
        let expected: &[&str] = if event.fields.contains(&key) { &[key] } else { &[] };
        assert_eq!(named, expected, "{name}");
        if let Some(client) = fields.get("client_id") {
            let expected = if name == "lock_acquire_start" { "web-1:7:000000ab" } else { "web-1:7:1000" };
            assert_eq!(client, expected, "{name}: the holder, never the secret");
        }
    }
}

#[test]
fn repeated_renewal_failures_are_no_warnings() {
    let log = Log::default();
    let keys = Keys::from(Key::new(&Prefix::empty(), "a").unwrap());
    let error = Error::new(ErrorKind::Unreachable, "renew", "");
    let subscriber = tracing_subscriber::registry().with(log.clone());
    tracing::subscriber::with_default(subscriber, || {
        let of = events::Of { keys: &keys, token: &token(), fence: Fence::new(1) };
        events::renew_failed(of, &error, true);
        events::renew_failed(of, &error, false);
    });
    let levels: Vec<_> = log.0.lock().iter().map(|(level, _)| level.clone()).collect();
    assert_eq!(levels, ["warn", "debug"]);
}
