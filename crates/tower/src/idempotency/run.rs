//! Running a request that has the right to run, and keeping its answer.

use std::sync::Arc;

use http::{Request, Response, response};
use http_body::Body;
use lockkeeper::{Attempt, Completed, Error};
use tower_service::Service;
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;

use super::answer::KeptAnswer;
use super::body::IdempotencyBody;
use super::claim::Claim;
use super::collect::{Collected, Whole, collect};
use super::outcome::Outcome;
use super::refusal::{Refusal, RefusalKind};
use super::replayed::{announce, may_be_replayed};
use super::settings::Settings;

const MAYBE_LOST: &str = "It was carried out, and whether its record is lost cannot be told right now; sending it again \
                          may carry it out again.";

/// Calls `service` on a task of its own, so that it ends whatever becomes of the caller. A panic goes on in the caller.
pub(super) async fn run<S, B, R>(
    settings: Arc<Settings>,
    service: S,
    claim: Claim,
    request: Request<IdempotencyBody<B>>,
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
    let running = settings.detached.one_more();
    let work = work(settings.clone(), service, claim, request);
    let work = async move {
        // Until the claim has ended, too.
        let _running = running;
        work.await
    };
    let task = tokio::spawn(work.in_current_span().with_current_subscriber());
    match task.await {
        Ok(answer) => answer,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down.
            Err(_) => Ok(settings.refused(&Refusal::new(RefusalKind::CutOff))),
        },
    }
}

async fn work<S, B, R>(
    settings: Arc<Settings>,
    mut service: S,
    claim: Claim,
    mut request: Request<IdempotencyBody<B>>,
) -> Result<Response<IdempotencyBody<R>>, S::Error>
where
    S: Service<Request<IdempotencyBody<B>>, Response = Response<R>>,
    B: Body,
    R: Body,
{
    // Whichever way this ends, without an end of the claim it counts as crashed.
    let ended = Ended(claim.clone());
    request.extensions_mut().insert(claim.clone());
    let answered = async {
        let answer = service.call(request).await?;
        Ok(keep(&settings, &ended.0, answer).await)
    };
    tokio::select! {
        biased;
        answer = answered => answer,
        never = claim.watch() => match never {},
    }
}

/// Drops the attempt, also where a handler keeps the claim.
struct Ended(Claim);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// Records what became of it, before anybody sees the whole answer.
async fn keep<R: Body>(
    settings: &Settings,
    claim: &Claim,
    response: Response<R>,
) -> Response<IdempotencyBody<R>> {
    let (head, body) = response.into_parts();
    match Outcome::of(&head, &*settings.outcome) {
        Outcome::NoEffect => {
            abandon(claim).await;
            Response::from_parts(head, IdempotencyBody::passing(body))
        }
        Outcome::Crashed => {
            drop(claim.take());
            Response::from_parts(head, IdempotencyBody::passing(body))
        }
        Outcome::HeadKept => {
            let kept = head_of(settings, &head);
            complete(settings, claim, kept, head, IdempotencyBody::passing(body)).await
        }
        Outcome::Kept => {
            let collected = collect(body, settings.max_answer, too_long(settings, claim)).await;
            let kept = match &collected {
                // Nobody knows what it would have been: the attempt crashed, and its caller sees the same.
                Collected::Broken { .. } => {
                    return Response::from_parts(head, IdempotencyBody::resumed(collected));
                }
                Collected::Begun { .. } => head_of(settings, &head),
                Collected::Whole(whole) => whole_of(settings, &head, whole),
            };
            complete(settings, claim, kept, head, IdempotencyBody::resumed(collected)).await
        }
    }
}

/// Who waits for the rest of a body holds back its beginning. Without the claim, it is not kept in any case.
async fn too_long(settings: &Settings, claim: &Claim) {
    tokio::select! {
        _ = claim.lost() => (),
        () = tokio::time::sleep(settings.keep_within) => (),
    }
}

fn whole_of(settings: &Settings, head: &response::Parts, whole: &Whole) -> KeptAnswer {
    KeptAnswer {
        status: head.status,
        headers: settings.replayed.kept(&head.headers),
        body: Some(whole.bytes.clone()),
        trailers: whole.trailers.as_ref().map(may_be_replayed).unwrap_or_default(),
    }
}

fn head_of(settings: &Settings, head: &response::Parts) -> KeptAnswer {
    let headers = settings.replayed.kept_of_head(&head.headers);
    KeptAnswer { headers, ..KeptAnswer::without_body(head.status) }
}

async fn complete<R: Body>(
    settings: &Settings,
    claim: &Claim,
    kept: KeptAnswer,
    mut head: response::Parts,
    body: IdempotencyBody<R>,
) -> Response<IdempotencyBody<R>> {
    let Some(attempt) = claim.take() else { return Response::from_parts(head, body) };
    match record(attempt, &kept).await {
        Ok(completed) => announce(&mut head.headers, completed.remaining),
        Err(error) if error.is_lost() => return settings.refused(&lost(settings, claim).await),
        // It is done. No answer came from the store, and it goes on being recorded; or it was refused for good, and never
        // will be. To withhold the answer would ask for a second run.
        Err(error) => settings.note_unrecorded(&error),
    }
    Response::from_parts(head, body)
}

/// It was carried out, and the claim is somebody else's: whose answer counts, the record says, if there is one.
async fn lost(settings: &Settings, claim: &Claim) -> Refusal {
    match settings.once.inspect(claim.key()).await {
        Ok(Some(_)) => Refusal::new(RefusalKind::AttemptLost),
        Ok(None) => Refusal::new(RefusalKind::RecordLost),
        Err(_) => Refusal::new(RefusalKind::RecordLost).because(MAYBE_LOST),
    }
}

/// Of an answer with too large a head, the status alone.
async fn record(attempt: Attempt, kept: &KeptAnswer) -> Result<Completed, Error> {
    let stored = kept.to_stored().or_else(|_| KeptAnswer::without_body(kept.status).to_stored())?;
    attempt.complete(stored).await
}

async fn abandon(claim: &Claim) {
    if let Some(attempt) = claim.take()
        && let Err(error) = attempt.abandon().await
    {
        // It goes on in the background, or the key is not this request's any more.
        tracing::debug!(kind = ?error.kind(), detail = error.detail(), "idempotency_not_abandoned");
    }
}
