//! One request, and what was answered.

use std::net::SocketAddr;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::backoff::told;
use crate::sale::Sku;

/// The largest answer that is read, in bytes.
pub const MAX_ANSWER: usize = 64 * 1024;
/// How long one answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

type Http = Client<HttpConnector, Empty<&'static [u8]>>;

/// Sends clicks; connections are kept and shared.
#[derive(Clone)]
pub(super) struct Clicks {
    http: Http,
    path: String,
}

/// What came of a click.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// One has it. True: by this click.
    Bought { ticket: String, is_first: bool },
    /// Not now; the reason, and when to come back, if that was told.
    NotNow { reason: String, told: Option<Duration> },
    /// Never; the reason.
    Never { reason: String },
    /// Nothing, or nothing that can be read.
    None,
}

#[derive(Default, Deserialize)]
struct Body {
    ticket: Option<String>,
    reason: Option<String>,
}

impl Clicks {
    pub(super) fn new(sku: &Sku, connections: usize) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        let http = builder.pool_max_idle_per_host(connections).build_http();
        Self { http, path: format!("/seckill/{}", utf8_percent_encode(sku.as_str(), NON_ALPHANUMERIC)) }
    }

    /// Clicks, and reads the answer.
    pub(super) async fn click(&self, server: SocketAddr, account: &str) -> Answer {
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.try_click(server, account)).await;
        answer.ok().flatten().unwrap_or(Answer::None)
    }

    async fn try_click(&self, server: SocketAddr, account: &str) -> Option<Answer> {
        let request = Request::post(format!("http://{server}{}", self.path)).header("x-account", account);
        let response = self.http.request(request.body(Empty::new()).ok()?).await.ok()?;
        let status = response.status().as_u16();
        let told = told(response.headers());
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.ok()?.to_bytes();
        let body: Body = serde_json::from_slice(&body).unwrap_or_default();
        Some(answer(status, told, body))
    }

    /// Clicks, and goes away as soon as everything is sent. False: it was not.
    pub(super) async fn click_and_leave(&self, server: SocketAddr, account: &str) -> bool {
        let click = async {
            let mut stream = TcpStream::connect(server).await?;
            let head = format!(
                "POST {} HTTP/1.1\r\nhost: {server}\r\nx-account: {account}\r\ncontent-length: 0\r\n\r\n",
                self.path
            );
            stream.write_all(head.as_bytes()).await
        };
        matches!(tokio::time::timeout(ANSWER_WITHIN, click).await, Ok(Ok(())))
    }
}

fn answer(status: u16, told: Option<Duration>, body: Body) -> Answer {
    let reason = body.reason.unwrap_or_else(|| format!("status-{status}"));
    match (status, body.ticket) {
        (202, Some(ticket)) => Answer::Bought { ticket, is_first: true },
        (200, Some(ticket)) => Answer::Bought { ticket, is_first: false },
        (429 | 503, _) => Answer::NotNow { reason, told },
        // Not open yet.
        (403, _) if told.is_some() => Answer::NotNow { reason, told },
        _ => Answer::Never { reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_told_to_come_back_comes_back_and_nobody_else() {
        let second = Some(Duration::from_secs(1));
        let body = |reason: &str| Body { ticket: None, reason: Some(reason.to_owned()) };
        for (status, told, again) in [
            (429, second, true),
            (503, None, true),
            (403, second, true),
            (403, None, false),
            (410, None, false),
        ] {
            let answer = answer(status, told, body("why"));
            assert_eq!(matches!(answer, Answer::NotNow { .. }), again, "{status}");
        }
        assert_eq!(answer(500, None, Body::default()), Answer::Never { reason: "status-500".to_owned() });
    }
}
