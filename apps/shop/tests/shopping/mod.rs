//! Shops under test, and a client that speaks to them.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_shop::serve::{Running, ServeArgs, start};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const SOON: Duration = Duration::from_secs(10);
/// Limits that refuse nobody.
pub(crate) const WIDE: &str = "--sale-limit 1000000/s --buyer-limit 1000000/s --order-limit 1000000/s";

type Bytes = Full<std::collections::VecDeque<u8>>;

/// A Redis and a folder for a database; shops on them are processes of one shop.
pub(crate) struct Place {
    pub(crate) redis: RedisServer,
    pub(crate) folder: TempDir,
}

impl Place {
    /// None where there is no Redis to start.
    pub(crate) fn new() -> Option<Self> {
        if !available(ServerKind::Redis) {
            return None;
        }
        let redis = RedisServer::builder().start().unwrap();
        Some(Self { redis, folder: TempDir::new().unwrap() })
    }

    pub(crate) fn database(&self) -> String {
        format!("sqlite://{}?mode=rwc", self.folder.path().join("shop.db").display())
    }

    pub(crate) fn args(&self, more: &str) -> String {
        format!("--listen 127.0.0.1:0 --url {} --database {} {more}", self.redis.url(), self.database())
    }

    pub(crate) async fn shop(&self, more: &str) -> Running {
        start(typed(&self.args(more))).await.unwrap()
    }
}

/// The words of a line; a `+` in them is a space.
pub(crate) fn words(line: &str) -> impl Iterator<Item = String> {
    line.split_whitespace().map(|word| word.replace('+', " "))
}

fn typed(line: &str) -> ServeArgs {
    let words: Vec<_> = words(line).collect();
    ServeArgs::typed(words.iter().map(String::as_str)).unwrap()
}

/// A shop without a server, whose limits refuse nobody unless `more` says so.
pub(crate) async fn memory_shop(more: &str) -> Running {
    start(typed(&format!("--listen 127.0.0.1:0 {more}"))).await.unwrap()
}

/// Speaks to one shop.
#[derive(Clone)]
pub(crate) struct Customer {
    http: Client<HttpConnector, Bytes>,
    pub(crate) address: SocketAddr,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The status and the reason. Checks what every refusal has.
    pub(crate) fn refusal(&self) -> (u16, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let json = self.json();
        assert_eq!(json["status"], self.status, "{self:?}");
        for member in ["type", "title", "detail", "reason"] {
            assert!(json[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {self:?}");
        }
        (self.status, json["reason"].as_str().unwrap().to_owned())
    }

    pub(crate) fn retry_after(&self) -> u64 {
        self.headers["retry-after"].to_str().unwrap().parse().unwrap()
    }
}

impl Customer {
    pub(crate) fn of(shop: &Running) -> Self {
        Self::at(shop.address())
    }

    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { http: Client::builder(TokioExecutor::new()).build_http(), address }
    }

    pub(crate) async fn send(&self, request: Request<Vec<u8>>) -> Answer {
        self.try_send(request).await.unwrap()
    }

    pub(crate) async fn try_send(&self, request: Request<Vec<u8>>) -> Option<Answer> {
        let (mut parts, body) = request.into_parts();
        parts.uri = format!("http://{}{}", self.address, parts.uri).parse().unwrap();
        let request = Request::from_parts(parts, Bytes::new(body.into()));
        let response = tokio::time::timeout(SOON, self.http.request(request)).await.unwrap().ok()?;
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.ok()?.to_bytes().to_vec()).unwrap();
        Some(Answer { status: parts.status.as_u16(), headers: parts.headers, text })
    }

    pub(crate) async fn get(&self, path: &str, account: Option<&str>) -> Answer {
        let mut request = Request::get(path);
        if let Some(account) = account {
            request = request.header("x-account", account);
        }
        self.send(request.body(Vec::new()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, account: Option<&str>, json: &str) -> Answer {
        let mut request = Request::post(path).header("content-type", "application/json");
        if let Some(account) = account {
            request = request.header("x-account", account);
        }
        self.send(request.body(json.as_bytes().to_vec()).unwrap()).await
    }

    pub(crate) async fn order(&self, account: &str, order_no: &str) -> Answer {
        self.post("/orders", Some(account), &order(order_no)).await
    }

    pub(crate) async fn order_with_key(&self, account: &str, key: &str, json: &str) -> Answer {
        let request = Request::post("/orders").header("content-type", "application/json");
        let request = request.header("x-account", account).header("idempotency-key", key);
        self.send(request.body(json.as_bytes().to_vec()).unwrap()).await
    }

    pub(crate) async fn click(&self, sku: &str, account: &str) -> Answer {
        self.post(&format!("/seckill/{sku}"), Some(account), "").await
    }

    pub(crate) async fn stock(&self, sku: &str) -> Value {
        let answer = self.get(&format!("/seckill/{sku}/stock"), None).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        answer.json()
    }
}

/// An order as JSON.
pub(crate) fn order(order_no: &str) -> String {
    format!(r#"{{"order_no":"{order_no}","sku":"lantern","amount_cents":1250}}"#)
}
