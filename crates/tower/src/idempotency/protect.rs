//! A request with a key: read, looked up, and run, replayed or refused.

use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use lockkeeper::{Begun, Fingerprint, Replay};
use tower_service::Service;

use super::answer::KeptAnswer;
use super::body::IdempotencyBody;
use super::claim::Claim;
use super::collect::{Collected, Whole, collect};
use super::refusal::{Refusal, RefusalKind};
use super::replayed::{IDEMPOTENT_REPLAYED, TRUE, announce};
use super::run::run;
use super::settings::Settings;

/// Calls `service`, which is ready, unless the key's record says otherwise.
pub(super) async fn protect<S, B, R>(
    settings: Arc<Settings>,
    mut service: S,
    key: String,
    request: Request<B>,
) -> Result<Response<IdempotencyBody<R>>, S::Error>
where
    S: Service<Request<IdempotencyBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Send,
    R: Body + Send + 'static,
    R::Data: Send,
    R::Error: Send,
{
    let (parts, body) = request.into_parts();
    let (whole, fingerprint) = match read(&settings, &parts, body).await {
        Ok(read) => read,
        Err(refusal) => return Ok(settings.refused(&refusal)),
    };
    let request = Request::from_parts(parts, IdempotencyBody::whole(whole.bytes, whole.trailers));
    let refusal = match settings.once.begin(&key, fingerprint).await {
        Ok(Begun::Claimed(attempt)) => {
            let claim = Claim::new(attempt, settings.once.name(), key);
            return run(settings, service, claim, request).await;
        }
        Ok(Begun::Completed(replay)) => return Ok(replayed(&settings, &replay)),
        Ok(Begun::Running { retry_after, .. }) => Refusal::running(retry_after),
        Ok(Begun::DifferentRequest) => Refusal::new(RefusalKind::DifferentRequest),
        Ok(Begun::Unknown { remaining, .. }) => Refusal::outcome_unknown(remaining),
        Err(error) => match settings.without_store(&error) {
            Some(refusal) => refusal,
            None => return Ok(service.call(request).await?.map(IdempotencyBody::passing)),
        },
    };
    Ok(settings.refused(&refusal))
}

/// Its body, and what it is compared by.
async fn read<B: Body>(settings: &Settings, parts: &Parts, body: B) -> Result<(Whole, Fingerprint), Refusal> {
    let whole = match collect(body, settings.max_request, pending()).await {
        Collected::Whole(whole) => whole,
        Collected::Begun { .. } => {
            let detail =
                format!("Requests with an idempotency key have at most {} bytes.", settings.max_request);
            return Err(Refusal::new(RefusalKind::BodyTooLarge).because(detail));
        }
        Collected::Broken { .. } => return Err(Refusal::new(RefusalKind::BodyUnreadable)),
    };
    let fingerprint = settings.compared.fingerprint(parts, &whole.bytes)?;
    Ok((whole, fingerprint))
}

fn replayed<R: Body>(settings: &Settings, replay: &Replay) -> Response<IdempotencyBody<R>> {
    let mut response = match KeptAnswer::read(&replay.stored) {
        Some(KeptAnswer { status, headers, body: Some(body), trailers }) => {
            let trailers = (!trailers.is_empty()).then_some(trailers);
            let mut response = Response::new(IdempotencyBody::whole(body, trailers));
            (*response.status_mut(), *response.headers_mut()) = (status, headers);
            response
        }
        Some(head) => not_kept(settings, head),
        None => settings.refused(&Refusal::new(RefusalKind::AnswerNotKept)),
    };
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, TRUE);
    announce(response.headers_mut(), replay.remaining);
    response
}

/// The status that it had, and problem details for its body, where there may be one.
fn not_kept<R: Body>(settings: &Settings, head: KeptAnswer) -> Response<IdempotencyBody<R>> {
    let status = if head.status.is_informational() { StatusCode::CONFLICT } else { head.status };
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    let mut response = settings.refused(&Refusal::new(RefusalKind::AnswerNotKept).with_status(status));
    if bodiless.contains(&status) {
        response = Response::new(IdempotencyBody::whole(Bytes::new(), None));
        *response.status_mut() = status;
    }
    response.headers_mut().extend(head.headers);
    response
}
