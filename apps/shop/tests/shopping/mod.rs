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

pub const SOON: Duration = Duration::from_secs(10);
/// Limits that refuse nobody.
pub const WIDE: &str = "--sale-limit 1000000/s --buyer-limit 1000000/s --order-limit 1000000/s";

type Bytes = Full<std::collections::VecDeque<u8>>;

/// A Redis and a folder for a database; shops on them are processes of one shop.
pub struct Place {
    pub redis: RedisServer,
    pub folder: TempDir,
}

impl Place {
    /// None where there is no Redis to start.
    pub fn new() -> Option<Self> {
        if !available(ServerKind::Redis) {
            return None;
        }
        let redis = RedisServer::builder().start().unwrap();
        Some(Self { redis, folder: TempDir::new().unwrap() })
    }

    pub fn database(&self) -> String {
        format!("sqlite://{}?mode=rwc", self.folder.path().join("shop.db").display())
    }

    pub fn args(&self, more: &str) -> String {
        format!("--listen 127.0.0.1:0 --url {} --database {} {more}", self.redis.url(), self.database())
    }

    pub async fn shop(&self, more: &str) -> Running {
        start(ServeArgs::typed(&self.args(more)).unwrap()).await.unwrap()
    }
}

/// A shop without a server, whose limits refuse nobody unless `more` says so.
pub async fn memory_shop(more: &str) -> Running {
    start(ServeArgs::typed(&format!("--listen 127.0.0.1:0 {more}")).unwrap()).await.unwrap()
}

/// Speaks to one shop.
#[derive(Clone)]
pub struct Customer {
    http: Client<HttpConnector, Bytes>,
    pub address: SocketAddr,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The status and the reason. Checks what every refusal has.
    pub fn refusal(&self) -> (u16, String) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let json = self.json();
        assert_eq!(json["status"], self.status, "{self:?}");
        for member in ["type", "title", "detail", "reason"] {
            assert!(json[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {self:?}");
        }
        (self.status, json["reason"].as_str().unwrap().to_owned())
    }

    pub fn retry_after(&self) -> u64 {
        self.headers["retry-after"].to_str().unwrap().parse().unwrap()
    }
}

impl Customer {
    pub fn of(shop: &Running) -> Self {
        Self::at(shop.address())
    }

    pub fn at(address: SocketAddr) -> Self {
        Self { http: Client::builder(TokioExecutor::new()).build_http(), address }
    }

    pub async fn send(&self, request: Request<Vec<u8>>) -> Answer {
        self.try_send(request).await.unwrap()
    }

    pub async fn try_send(&self, request: Request<Vec<u8>>) -> Option<Answer> {
        let (mut parts, body) = request.into_parts();
        parts.uri = format!("http://{}{}", self.address, parts.uri).parse().unwrap();
        let request = Request::from_parts(parts, Bytes::new(body.into()));
        let response = tokio::time::timeout(SOON, self.http.request(request)).await.unwrap().ok()?;
        let (parts, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.ok()?.to_bytes().to_vec()).unwrap();
        Some(Answer { status: parts.status.as_u16(), headers: parts.headers, text })
    }

    pub async fn get(&self, path: &str, account: Option<&str>) -> Answer {
        let mut request = Request::get(path);
        if let Some(account) = account {
            request = request.header("x-account", account);
        }
        self.send(request.body(Vec::new()).unwrap()).await
    }

    pub async fn post(&self, path: &str, account: Option<&str>, json: &str) -> Answer {
        let mut request = Request::post(path).header("content-type", "application/json");
        if let Some(account) = account {
            request = request.header("x-account", account);
        }
        self.send(request.body(json.as_bytes().to_vec()).unwrap()).await
    }

    pub async fn order(&self, account: &str, order_no: &str) -> Answer {
        self.post("/orders", Some(account), &order(order_no)).await
    }

    pub async fn click(&self, sku: &str, account: &str) -> Answer {
        self.post(&format!("/seckill/{sku}"), Some(account), "").await
    }

    pub async fn stock(&self, sku: &str) -> Value {
        let answer = self.get(&format!("/seckill/{sku}/stock"), None).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        answer.json()
    }
}

/// An order as JSON.
pub fn order(order_no: &str) -> String {
    format!(r#"{{"order_no":"{order_no}","sku":"lantern","amount_cents":1250}}"#)
}
