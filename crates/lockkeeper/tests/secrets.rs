//! Passwords are in no error, no `Debug`, and no log line of any level, whatever goes wrong.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::fmt::Debug;
use std::io::Write;
use std::sync::{Arc, Mutex};

use lockkeeper::redis::CredentialProvider;
use lockkeeper::{Credentials, Error, Keeper, RedisConfig};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_testkit::fake::{Fake, FakeServer, greeting};
use support::{command, ms, secs, waits};
use tracing_subscriber::filter::LevelFilter;

/// As it is, and as it stands in a URL.
const SECRETS: [&str; 3] = ["hunter2/secret", "hunter2%2Fsecret", "hunter2"];
const IN_URL: &str = "hunter2%2Fsecret";

/// All that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// All that was shown so far.
#[derive(Default)]
struct Shown(Vec<String>);

impl Shown {
    fn add(&mut self, what: &dyn Debug) {
        self.0.push(format!("{what:?} {what:#?}"));
    }

    fn error(&mut self, what: &str, error: &Error) {
        self.0.push(format!("{what}: {error} {error:?} {error:#?}"));
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            self.0.push(format!("{what}, because: {cause} {cause:?}"));
            source = cause.source();
        }
    }
}

/// Connects, locks and waits as far as it goes.
async fn goes_wrong(what: &str, config: Result<RedisConfig, Error>, shown: &mut Shown) {
    let config = match config {
        Ok(config) => config.connect_timeout(ms(400)).response_timeout(ms(400)),
        Err(error) => return shown.error(what, &error),
    };
    shown.add(&config);
    let eager = Keeper::builder().redis(config.clone()).connect().await;
    let keeper = Keeper::builder().redis(config).lazy().connect().await.unwrap();
    shown.add(&keeper);
    let lock = keeper.lock("a").unwrap();
    shown.add(&lock);
    let tried = lock.try_acquire().await;
    let waited = waits(lock.wait(ms(300))).await.unwrap();
    shown.add(&keeper.health().await);
    let errors = [eager.err(), tried.err(), waited.err()];
    assert!(errors.iter().any(Option::is_some), "{what}: nothing went wrong");
    errors.iter().flatten().for_each(|error| shown.error(what, error));
}

/// The same by the front door, which knows every form of URL. Nothing need go wrong that is not told within the limits.
async fn goes_wrong_there(what: &str, url: &str, shown: &mut Shown) {
    let builder = || Keeper::builder().url(url).map(|builder| builder.response_timeout(ms(300)));
    match builder() {
        Ok(builder) => {
            let eager = tokio::time::timeout(secs(10), builder.connect()).await.expect("it ends");
            shown.error(what, &eager.expect_err("nothing there is a store"));
        }
        Err(error) => return shown.error(what, &error),
    }
    let keeper = builder().unwrap().lazy().connect().await.unwrap();
    let tried = keeper.lock("a").unwrap().try_acquire().await;
    shown.error(what, &tried.expect_err("nothing there is a store"));
    shown.add(&keeper.health().await);
    if let Some(store) = keeper.redis_store() {
        shown.add(&store.sentinels().await);
    }
    if let Some(store) = keeper.quorum_store() {
        shown.add(&store.status().await);
    }
}

fn refusing_provider() -> impl CredentialProvider {
    struct Refusing;
    impl CredentialProvider for Refusing {
        fn credentials(&self) -> lockkeeper::redis::CredentialFuture<'_> {
            Box::pin(std::future::ready(Err("the vault is sealed".into())))
        }
    }
    Refusing
}

/// A server that repeats whatever it is told, as one does that does not know a command.
fn echo(form: fn(&[String]) -> String) -> FakeServer {
    FakeServer::start(move |_, words| Fake::Say(form(words)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_failure_shows_a_password() {
    if !available(ServerKind::Redis) {
        return;
    }
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let mut shown = Shown::default();

    let server = RedisServer::builder().password("right").start().unwrap();
    let right = server.url().replace("redis://", "redis://:right@");
    command(&server, &["ACL", "SETUSER", "least", "on", ">hunter2/secret", "~other:*", "+@all"]);
    let at = |user: &str| server.url().replace("redis://", &format!("redis://{user}:{IN_URL}@"));
    for (what, url) in [
        ("a wrong password", at("")),
        ("a wrong user", at("nobody")),
        ("no permission", at("least")),
        ("nobody there", format!("redis://:{IN_URL}@127.0.0.1:1")),
        ("no TLS there", server.url().replace("redis://", &format!("rediss://:{IN_URL}@"))),
        ("no socket", format!("unix:///nowhere/socket?pass={IN_URL}")),
        ("a port", format!("redis://:{IN_URL}@h:99999")),
        ("a slash", "redis://:hunter2/secret@h".to_owned()),
        ("a parameter", format!("redis://:{IN_URL}@h?x=1")),
        ("no UTF-8", format!("redis://:{IN_URL}%ff@h")),
        ("a scheme", format!("http://:{IN_URL}@h")),
        ("a Sentinel", format!("redis+sentinel://:{IN_URL}@127.0.0.1:1/main?sentinel_password={IN_URL}")),
        ("a Sentinel's parameter", format!("redis+sentinel://h/main?sentinel_password={IN_URL}&x=1")),
        (
            "the rest of a Sentinel's password",
            "redis+sentinel://h/main?sentinel_password=abc&hunter2".to_owned(),
        ),
        ("the rest of a socket's password", "unix:///s?pass=abc&hunter2".to_owned()),
        ("a Sentinel with TLS", format!("rediss+sentinel://u:{IN_URL}@127.0.0.1:1/main")),
        ("a cluster", format!("redis+cluster://:{IN_URL}@127.0.0.1:1,127.0.0.1:2")),
        ("a cluster with TLS", format!("rediss+cluster://:{IN_URL}@127.0.0.1:1")),
        ("a cluster's database", format!("redis+cluster://:{IN_URL}@h/1")),
        ("a majority", format!("redis+quorum://:{IN_URL}@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?max_lease=60s")),
        ("a majority's parameter", format!("redis+quorum://:{IN_URL}@a,b,c?max_lease=soon")),
    ] {
        goes_wrong(what, RedisConfig::from_url(&url), &mut shown).await;
        // The same by the front door, which may know more forms.
        let connecting = async { Keeper::builder().url(&url)?.connect().await };
        match tokio::time::timeout(secs(5), connecting).await {
            Ok(Err(error)) => shown.error(what, &error),
            Ok(Ok(keeper)) => shown.add(&keeper),
            Err(_) => panic!("{what}: no end"),
        }
    }

    let wrong = || Credentials { user: Some("app".to_owned()), password: SECRETS[0].to_owned() };
    shown.add(&wrong());
    let config = || RedisConfig::from_url(&server.url());
    goes_wrong("a wrong password provided", config().map(|one| one.credentials(wrong)), &mut shown).await;
    let refusing = config().map(|one| one.credentials(refusing_provider()));
    goes_wrong("no password provided", refusing, &mut shown).await;

    for form in [
        |words: &[String]| {
            let arguments = words[1..].join("' '");
            format!("-ERR unknown command '{}', with args beginning with: '{arguments}' ", words[0])
        },
        |words: &[String]| format!("-ERR what is `{}`?", words.join(" ")),
        |words: &[String]| format!("-WRONGPASS invalid {}", words.join(" ")),
        |words: &[String]| format!("-NOPERM {}", words.join(" ")),
        |words: &[String]| format!("+{}", words.join(" ")),
        |words: &[String]| words.join(" "),
        |words: &[String]| format!("-LOADING what is {}?", words.join(" ")),
        |words: &[String]| format!("-ERR what is {}?", words.join(" ")),
    ] {
        let fake = echo(form);
        let place = fake.url().replace("redis://", "");
        for url in [
            format!("redis+sentinel://app:{IN_URL}@{place}/main?sentinel_password={IN_URL}"),
            format!("redis+sentinel://{place}/main?sentinel_user=app&sentinel_password={IN_URL}"),
            format!("redis+cluster://app:{IN_URL}@{place}"),
            format!("redis+quorum://app:{IN_URL}@{place},127.0.0.1:1"),
        ] {
            goes_wrong_there("several servers that repeat it", &url, &mut shown).await;
        }
        let url = fake.url().replace("redis://", &format!("redis://app:{IN_URL}@"));
        goes_wrong("a server that repeats it", RedisConfig::from_url(&url), &mut shown).await;
    }

    // Who waits asks in another protocol, whose greeting has the password in it.
    let fake = FakeServer::start(|_, words| match words[0].as_str() {
        "AUTH" => Fake::Say("+OK".to_owned()),
        "HELLO" => Fake::Say(format!("-ERR unknown command: {}", words.join(" "))),
        _ => greeting(words).unwrap_or_else(|| Fake::Say("-ERR no".to_owned())),
    });
    let url = fake.url().replace("redis://", &format!("redis://app:{IN_URL}@"));
    goes_wrong("a greeting that is repeated", RedisConfig::from_url(&url), &mut shown).await;
    let deaf = RedisServer::builder().password("hunter2/secret").config("rename-command", "HELLO \"\"");
    if let Ok(deaf) = deaf.start() {
        let url = deaf.url().replace("redis://", &format!("redis://:{IN_URL}@"));
        let keepers = [Keeper::connect(&url).await.unwrap(), Keeper::connect(&url).await.unwrap()];
        let guard = support::take(&keepers[0], "a", secs(10)).await;
        let waiting = waits(keepers[1].lock("a").unwrap().wait(ms(300)));
        let busy = waiting.await.unwrap().unwrap().or_busy().unwrap_err();
        shown.error("busy", &busy);
        drop(guard);
    }
    let keeper = Keeper::connect(&right).await.unwrap();
    shown.add(&keeper);

    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("redis connection failed"), "nothing was logged:\n{logged}");
    assert!(logged.contains("who waits for a lock polls"), "the refusal was not said:\n{logged}");
    for text in shown.0.iter().map(String::as_str).chain(logged.lines()) {
        assert!(!SECRETS.iter().any(|secret| text.contains(secret)), "a password is shown: {text}");
    }
    assert!(shown.0.len() > 80, "{} things were shown", shown.0.len());
}
