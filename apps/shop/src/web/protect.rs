//! What stands before `POST /orders`: an account, its limit, and its idempotency keys.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{request, response};
use lockkeeper::{Error, Keeper, Limiter, Subject};
use lockkeeper_tower::RateLimitLayer;
use lockkeeper_tower::idempotency::{self, IdempotencyLayer, Outcome};
use lockkeeper_tower::rate_limit::{Refusal, RefusalKind, Respond, Rule, Who};

use super::account::account_of;
use super::body::MAX_BODY;
use super::problem::Problem;
use super::reason::Reason;

const RECORDS: &str = "orders";
const REPLAYED: &str = "idempotent-replayed";

/// Nobody without an account is counted, or let in.
pub(super) async fn known(request: Request, next: Next) -> Response {
    match account_of(request.headers()) {
        Ok(_) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn account(parts: &request::Parts) -> Option<Subject> {
    Subject::of("account", account_of(&parts.headers).ok()?.as_str()).ok()
}

/// How fast one account may order.
pub(super) fn limit(
    limiter: Limiter,
) -> Result<RateLimitLayer<impl Respond<axum::body::Body> + Clone>, Error> {
    let rule = Rule::new(limiter, Who::by(account));
    Ok(RateLimitLayer::new([rule])?.respond_with(too_fast))
}

fn too_fast(refusal: &Refusal) -> Response {
    let limit = refusal.limit().map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let problem = match refusal.kind() {
        RefusalKind::Denied | RefusalKind::Never => {
            Problem::new(Reason::OrdersBusy, format!("The limit is {limit}."))
        }
        _ => Problem::new(Reason::StoreAway, "Whether a limit is exceeded is not known."),
    };
    told(problem, refusal.retry_after()).status(refusal.status()).into_response()
}

/// An order with an idempotency key runs once, and its answer is replayed to the same account. Without one it passes: its
/// number says the same, but is answered as it stands by then.
pub(super) fn once(keeper: &Keeper) -> Result<IdempotencyLayer, Error> {
    IdempotencyLayer::builder(keeper.once(RECORDS)?)
        .scope_by(account)
        .optional()
        .max_request(MAX_BODY)
        .outcome_by(outcome)
        .respond_with(not_again)
        .build()
}

/// What ended the order for good; asked again, it would be the same.
const KEPT: [Reason; 2] = [Reason::Declined, Reason::OrderRefused];

/// What becomes of the key. Only what was refused by looking leaves it open for another order. Wherever the money may have
/// been taken, by this attempt or by an earlier one with the same key, it stays this order's, and asking again goes on with
/// that.
fn outcome(response: &response::Parts) -> Outcome {
    match response.extensions.get::<Reason>() {
        None if response.status.is_success() => Outcome::Kept,
        Some(reason) if KEPT.contains(reason) => Outcome::Kept,
        Some(
            Reason::NoAccount
            | Reason::BadAccount
            | Reason::BadBody
            | Reason::OrderTaken
            | Reason::OrderDiffers
            | Reason::OrdersBusy,
        ) => Outcome::NoEffect,
        // Under way counts as well: an earlier attempt with this key may be what is under way.
        _ => Outcome::Crashed,
    }
}

/// Says of a refusal that is replayed why it was, so that it is counted like the first one.
pub(super) async fn recognized(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let (is_replayed, status) = (response.headers().contains_key(REPLAYED), response.status());
    if is_replayed
        && response.extensions().get::<Reason>().is_none()
        && let Some(reason) = KEPT.into_iter().find(|reason| reason.status() == status)
    {
        response.extensions_mut().insert(reason);
    }
    response
}

fn not_again(refusal: &idempotency::Refusal) -> Response<Bytes> {
    use idempotency::RefusalKind as Kind;
    let (reason, detail) = match refusal.kind() {
        Kind::KeyMissing | Kind::KeyMalformed | Kind::CallerUnknown => {
            (Reason::BadKey, "Idempotency-Key has 1 to 255 printable characters, once.")
        }
        Kind::BodyTooLarge | Kind::BodyUnreadable => (Reason::BadBody, "The body is too large, or no JSON."),
        Kind::Running => (Reason::KeyRunning, "Ask again with the same key: it is done once."),
        Kind::DifferentRequest => (Reason::KeyDiffers, "Use a new key for a new order."),
        Kind::OutcomeUnknown => (Reason::KeyUnknown, "Look at the order itself."),
        Kind::AnswerNotKept => (Reason::DoneBefore, "Its answer was not kept. Look at the order itself."),
        // Whether another attempt has the key or nobody knows of it any more: ask for the order.
        Kind::AttemptLost | Kind::RecordLost | Kind::CutOff => (
            Reason::AttemptLost,
            "It may be done, perhaps by another attempt too. Ask again: it is charged once.",
        ),
        _ => (Reason::StoreAway, "Whether this was asked before is not known."),
    };
    let problem = Problem::new(reason, detail).status(refusal.status());
    told(problem, refusal.retry_after()).response().map(Bytes::from)
}

fn told(problem: Problem, retry_after: Option<u64>) -> Problem {
    match retry_after {
        Some(seconds) => problem.after(Duration::from_secs(seconds)),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(reason: Option<Reason>) -> Outcome {
        let mut response = Response::new(());
        if let Some(reason) = reason {
            *response.status_mut() = reason.status();
            response.extensions_mut().insert(reason);
        }
        outcome(&response.into_parts().0)
    }

    /// An attempt before may have charged.
    #[test]
    fn a_key_is_open_for_another_order_only_where_nothing_can_have_happened() {
        assert_eq!(of(None), Outcome::Kept);
        for reason in Reason::ALL {
            let expected = match reason.as_str() {
                "declined" | "order-refused" => Outcome::Kept,
                "no-account" | "bad-account" | "bad-body" | "order-taken" | "order-differs"
                | "orders-busy" => Outcome::NoEffect,
                _ => Outcome::Crashed,
            };
            assert_eq!(of(Some(reason)), expected, "{reason:?}");
        }
        assert_eq!(
            KEPT.map(Reason::status).iter().collect::<std::collections::HashSet<_>>().len(),
            KEPT.len()
        );
    }
}
