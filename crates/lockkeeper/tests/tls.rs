//! TLS with an authority of one's own, and with certificates of both sides.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod support;

use std::path::Path;
use std::time::Instant;

use lockkeeper::{Error, ErrorKind, Keeper, RedisConfig, Released};
use lockkeeper_faults::RedisServer;
use lockkeeper_testkit::pki::{Authority, Of, Signed, save};
use support::{is_busy, secs, server, take};

/// A server that shows a certificate for `of`, and asks its clients for one of the same authority.
fn mutual(authority: &Authority, folder: &Path, of: Of) -> RedisServer {
    let (certificate, key) = authority.sign(of).save(folder, "server");
    let ca = save(folder, "ca.pem", &authority.certificate);
    RedisServer::builder().tls(&certificate, &key, &ca).config("tls-auth-clients", "yes").start().unwrap()
}

async fn connect(config: RedisConfig) -> Result<Keeper, Error> {
    let started = Instant::now();
    let connected = Keeper::builder().redis(config.connect_timeout(secs(2))).connect().await;
    assert!(started.elapsed() < secs(4), "beyond the connect time-out: {:?}", started.elapsed());
    connected
}

fn config(server: &RedisServer, trusted: &Authority) -> RedisConfig {
    // A password, to see that no error shows it.
    let url = server.url().replace("rediss://", "rediss://:hunter2@");
    RedisConfig::from_url(&url).unwrap().root_certificate(trusted.certificate.clone()).unwrap()
}

fn presenting(config: RedisConfig, client: &Signed) -> RedisConfig {
    config.client_certificate(client.certificate.clone(), client.key.clone()).unwrap()
}

/// The error says one of these, and nothing secret.
#[track_caller]
fn is_told(result: Result<Keeper, Error>, words: &str) {
    let error = result.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{shown}");
    assert!(shown.contains(words), "{words}: {shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("PRIVATE"), "{shown}");
}

#[tokio::test]
async fn with_certificates_of_both_sides_it_locks_and_without_them_says_what_is_wrong() {
    let Some(_plain) = server() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = mutual(&ours, folder.path(), Of::Server);
    let config = config(&server, &ours);

    let url =
        RedisConfig::from_url(&server.url()).unwrap().root_certificate(ours.certificate.clone()).unwrap();
    let keeper = connect(presenting(url, &ours.sign(Of::Server))).await.unwrap();
    let guard = take(&keeper, "a", secs(10)).await;
    assert!(is_busy(&keeper, "a").await);
    assert_eq!(guard.release().await.unwrap(), Released::Released);

    is_told(connect(config.clone()).await, "ertificate");
    is_told(connect(presenting(config.clone(), &theirs.sign(Of::Server))).await, "nknown");
    is_told(connect(presenting(config, &ours.sign(Of::Expired))).await, "xpired");
}

#[tokio::test]
async fn a_server_that_is_not_trusted_is_not_talked_to() {
    let Some(_plain) = server() else { return };
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let client = ours.sign(Of::Server);
    for (of, trusted, words) in [
        (Of::Server, &theirs, "UnknownIssuer"),
        (Of::Expired, &ours, "xpired"),
        (Of::Elsewhere, &ours, "not valid for name"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = mutual(&ours, folder.path(), of);
        is_told(connect(presenting(config(&server, trusted), &client)).await, words);
    }
}

#[test]
fn certificates_are_checked_when_they_are_given() {
    let authority = Authority::new("ours");
    let (one, other) = (authority.sign(Of::Server), authority.sign(Of::Server));
    let config = RedisConfig::from_url("rediss://h").unwrap();
    let cut = |pem: &str| pem[..pem.len() / 2].to_owned();
    let damaged = |pem: &str| pem.replace('M', "!");
    let refusals = [
        (config.clone().root_certificate("hunter2"), "the certificate authority is not PEM"),
        (config.clone().root_certificate(""), "the certificate authority is not PEM"),
        (config.clone().root_certificate(one.key.clone()), "the certificate authority is not PEM"),
        (config.clone().root_certificate(damaged(&one.certificate)), "the certificate authority is damaged"),
        (config.clone().root_certificate(vec![b'x'; 2 << 20]), "larger than"),
        (config.clone().client_certificate("", one.key.clone()), "the client's certificate is not PEM"),
        (
            config.clone().client_certificate(cut(&one.certificate), one.key.clone()),
            "the client's certificate",
        ),
        (
            config.clone().client_certificate(one.certificate.clone(), "hunter2"),
            "the client's key is not PEM",
        ),
        (config.clone().client_certificate(one.certificate.clone(), cut(&one.key)), "the client's key"),
        (
            config.clone().client_certificate(one.certificate.clone(), one.certificate.clone()),
            "the client's key is not PEM",
        ),
        (
            config.clone().client_certificate(one.certificate.clone(), other.key.clone()),
            "the client's key is not that of its certificate",
        ),
        (
            config.clone().client_certificate(
                one.certificate.clone(),
                one.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
            ),
            "the client's key is encrypted",
        ),
    ];
    for (result, words) in refusals {
        let error = result.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(error.kind() == ErrorKind::BadArgument && shown.contains(words), "{words}: {shown}");
        assert!(!shown.contains("hunter2") && !shown.contains("BEGIN"), "{shown}");
    }
    let good = presenting(config.root_certificate(authority.certificate).unwrap(), &one);
    let shown = format!("{good:?}");
    assert!(shown.contains("client: true") && !shown.contains("BEGIN"), "{shown}");
}
