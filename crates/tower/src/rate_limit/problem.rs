//! Problem details (RFC 9457), with the types of the IETF draft for limits.

use serde::Serialize;

use super::refusal::{Refusal, RefusalKind};

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

#[derive(Serialize)]
struct Problem<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(rename = "violated-policies", skip_serializing_if = "<[_]>::is_empty")]
    violated_policies: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

pub(super) fn text(refusal: &Refusal) -> String {
    let (r#type, title) = match refusal.kind() {
        RefusalKind::Denied => (QUOTA_EXCEEDED, "Too many requests"),
        RefusalKind::Never => (QUOTA_EXCEEDED, "This request can never be allowed"),
        RefusalKind::ReducedCapacity => (REDUCED_CAPACITY, "Capacity is reduced for now"),
        RefusalKind::Unavailable => (REDUCED_CAPACITY, "Limits cannot be checked right now"),
    };
    let problem = Problem {
        r#type,
        title,
        status: refusal.status().as_u16(),
        detail: detail(refusal),
        violated_policies: refusal.violated_policies(),
        policy: refusal.policy(),
        limit: refusal.limit().map(|limit| limit.to_string()),
        retry_after: refusal.retry_after(),
    };
    // Text and numbers alone: there is nothing in it that could fail.
    serde_json::to_string(&problem).unwrap_or_default()
}

fn detail(refusal: &Refusal) -> String {
    let limit = refusal.limit().map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let wait = refusal.retry_after().unwrap_or_default();
    match refusal.kind() {
        RefusalKind::Denied => format!("The limit is {limit}. Try again in {wait} s."),
        RefusalKind::Never if refusal.limit().is_none() => "The limit lets nothing pass.".to_owned(),
        RefusalKind::Never => {
            format!("The request costs more than the limit, {limit}, can ever hold. Waiting does not help.")
        }
        RefusalKind::ReducedCapacity => {
            format!("Limits are kept by each server alone for now. Try again in {wait} s.")
        }
        RefusalKind::Unavailable => {
            format!("Whether a limit is exceeded is not known. Try again in {wait} s.")
        }
    }
}
