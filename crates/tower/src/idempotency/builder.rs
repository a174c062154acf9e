//! What can be set.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderName;
use http::request::Parts;
use http::{Method, Response, StatusCode, response};
use lockkeeper::core::idempotency::MAX_STORED_BYTES;
use lockkeeper::{Error, Fingerprint, Once};

use super::answer::MAX_HEAD_BYTES;
use super::detached::Detached;
use super::fingerprint::Compared;
use super::layer::IdempotencyLayer;
use super::outcome::{Outcome, not_kept, usual};
use super::record_key::target;
use super::refusal::Refusal;
use super::replayed::{Replayed, is_never};
use super::settings::{Notices, Settings, problem_details, refuse};
use crate::caller::Who;

/// The most that is read of a request's body, in bytes, unless it is said.
pub const DEFAULT_MAX_REQUEST: usize = 1024 * 1024;
/// The most that is kept of an answer's body, in bytes, unless it is said.
pub const DEFAULT_MAX_ANSWER: usize = 256 * 1024;
/// For so long an answer's body is waited for, so that it can be kept, unless it is said.
pub const DEFAULT_KEEP_WITHIN: Duration = Duration::from_secs(30);
/// The most that can be kept of an answer's body, in bytes.
pub const MAX_ANSWER: usize = MAX_STORED_BYTES - MAX_HEAD_BYTES - 1;

/// Makes an [`IdempotencyLayer`].
#[must_use = "a builder makes a layer with `build`"]
pub struct IdempotencyBuilder {
    caller: Option<Who>,
    settings: Settings,
}

impl IdempotencyBuilder {
    pub(super) fn new(once: Once) -> Self {
        let policy = once.crash_policy();
        let settings = Settings {
            once,
            caller: Who::everyone(),
            unknown_caller: StatusCode::BAD_REQUEST,
            methods: vec![Method::POST, Method::PATCH],
            is_required: Arc::new(|_| true),
            max_request: DEFAULT_MAX_REQUEST,
            max_answer: DEFAULT_MAX_ANSWER,
            keep_within: DEFAULT_KEEP_WITHIN,
            target: Arc::new(|request| target(request).to_owned()),
            compared: Compared::Content,
            replayed: Replayed::default(),
            outcome: Arc::new(move |answer| usual(policy, answer)),
            is_fail_open: false,
            respond: Arc::new(problem_details),
            notices: Notices::default(),
            detached: Detached::new(),
        };
        Self { caller: None, settings }
    }

    /// Whose keys they are. Two callers who send the same key have nothing to do with each other. A request of whom this
    /// cannot tell is refused.
    ///
    /// Of what the server has checked: the account that logged in, in an [extension](Who::extension) that an outer layer
    /// put there, or the credential itself ([`Who::bearer_token`], [`Who::secret_header`]), which is digested. With
    /// [`Who::address`], all that come from one address share their keys, and are answered each other's answers.
    ///
    /// **A credential that is renewed is another caller.** A client that sends an order, gets no answer, gets a new access token
    /// and repeats the order with the same key has placed two. Where credentials are shorter-lived than
    /// [`Once::retain`], let it be the account that they stand for.
    pub fn scope(mut self, caller: Who) -> Self {
        self.caller = Some(caller);
        self
    }

    /// As [`scope`](Self::scope), in your own way; see [`Who::by`].
    pub fn scope_by<F, I>(self, find: F) -> Self
    where
        F: Fn(&Parts) -> Option<I> + Send + Sync + 'static,
        I: lockkeeper::IntoSubject,
    {
        self.scope(Who::by(find))
    }

    /// All callers share their keys: whoever sends another one's key and request gets the other one's answer. For a service
    /// with one caller, or whose clients all use random keys and whose answers are nobody's secret.
    pub fn shared_scope(self) -> Self {
        self.scope(Who::everyone())
    }

    /// How requests are answered whose caller cannot be told, instead of 400: say 401, if an inner or outer layer adds the
    /// `WWW-Authenticate` that belongs to it.
    pub fn unknown_caller(mut self, status: StatusCode) -> Self {
        self.settings.unknown_caller = status;
        self
    }

    /// For which methods, instead of POST and PATCH. Requests with other methods pass.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.settings.methods = methods.into_iter().collect();
        self
    }

    /// Requests without a key pass, as if there were no layer, instead of being refused.
    pub fn optional(self) -> Self {
        self.require_if(|_| false)
    }

    /// Requests without a key for which this is true are refused, and others pass.
    pub fn require_if(mut self, is_required: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.settings.is_required = Arc::new(is_required);
        self
    }

    /// How long a request waits for the end of one with its key that runs, instead of being refused at once. See
    /// [`Once::wait`].
    pub fn wait(mut self, limit: Duration) -> Self {
        self.settings.once = self.settings.once.wait(limit);
        self
    }

    /// The most that is read of a request's body, in bytes, instead of [`DEFAULT_MAX_REQUEST`]. A larger request with a key
    /// is refused with 413.
    pub fn max_request(mut self, bytes: usize) -> Self {
        self.settings.max_request = bytes;
        self
    }

    /// The most that is kept of an answer's body, in bytes, instead of [`DEFAULT_MAX_ANSWER`]; at most [`MAX_ANSWER`].
    pub fn max_answer(mut self, bytes: usize) -> Self {
        self.settings.max_answer = bytes;
        self
    }

    /// For so long an answer's body is waited for, instead of [`DEFAULT_KEEP_WITHIN`]: the client sees nothing of the answer
    /// before. One that has not ended by then passes as it comes, and is not kept; that the request was carried out is. See
    /// [`Outcome::HeadKept`] for answers that are not to be waited for at all.
    pub fn keep_within(mut self, limit: Duration) -> Self {
        self.settings.keep_within = limit;
        self
    }

    /// What was asked for, as the client sent it: path and query, and the host where several are served. Requests of one caller
    /// and method with one key and different targets are different operations.
    ///
    /// By default, path and query as this layer sees them, and inside of axum's nested routers as axum's `OriginalUri` says,
    /// which is known **with the feature `axum` only**. Where anything else takes a part off the path before the layer
    /// (`nest` without that feature, a reverse proxy, `Uri` rewriting), requests to `/a/items` and `/b/items` share their
    /// records, and **one is answered the other one's answer**: then say here what tells them apart.
    pub fn target_by(mut self, find: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.settings.target = Arc::new(find);
        self
    }

    /// Compares bodies byte by byte, JSON too. For signed requests.
    pub fn compare_bytes(mut self) -> Self {
        self.settings.compared = Compared::Bytes;
        self
    }

    /// Compares requests in your own way: method and path are compared already.
    pub fn compare_by<F>(mut self, fingerprint: F) -> Self
    where
        F: Fn(&Parts, &[u8]) -> Fingerprint + Send + Sync + 'static,
    {
        self.settings.compared = Compared::By(Arc::new(fingerprint));
        self
    }

    /// Replays these headers, too.
    pub fn replay_headers(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.settings.replayed.more.extend(names);
        self
    }

    /// Keeps every answer, also those that say that the server could not. A retry gets the same error again.
    pub fn store_all(self) -> Self {
        self.store_if(|_| true)
    }

    /// Keeps the answers for which this is true, instead of all but 5xx, 401, 407, 408, 425 and 429. The others had no effect:
    /// the key is open. Under [`OnCrash::Hold`](lockkeeper::OnCrash::Hold), 5xx other than 503 may have had one: the attempt
    /// crashed.
    pub fn store_if(self, is_done: impl Fn(&response::Parts) -> bool + Send + Sync + 'static) -> Self {
        let policy = self.settings.once.crash_policy();
        self.outcome_by(move |answer| if is_done(answer) { Outcome::Kept } else { not_kept(policy, answer) })
    }

    /// What becomes of a key after each answer, as far as the handler does not say it.
    pub fn outcome_by(mut self, find: impl Fn(&response::Parts) -> Outcome + Send + Sync + 'static) -> Self {
        self.settings.outcome = Arc::new(find);
        self
    }

    /// While the store is away, runs requests without protection instead of refusing them with 503. For routes where twice
    /// is better than not at all. [`IdempotencyLayer::unprotected_runs`] counts them.
    pub fn fail_open(mut self) -> Self {
        self.settings.is_fail_open = true;
        self
    }

    /// How refusals are answered, instead of with problem details. `Retry-After` is added unless it is there.
    pub fn respond_with(
        mut self,
        respond: impl Fn(&Refusal) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.settings.respond = Arc::new(respond);
        self
    }

    /// The layer.
    ///
    /// # Errors
    /// It was not said whose keys they are ([`scope`](Self::scope)); no method; more than [`MAX_ANSWER`] to keep; a header to
    /// replay that belongs to one exchange, such as `Set-Cookie`; a setting of the [`Once`] that is out of its bounds.
    pub fn build(mut self) -> Result<IdempotencyLayer, Error> {
        let Some(caller) = self.caller else {
            let detail = "whose keys they are is not said: `scope`, or `shared_scope` if all callers are to share them";
            return Err(refuse(detail));
        };
        let settings = &mut self.settings;
        settings.caller = caller;
        if settings.methods.is_empty() {
            return Err(refuse("no method is given"));
        }
        if settings.max_answer > MAX_ANSWER {
            let detail = format!("answers of {} bytes: at most {MAX_ANSWER}", settings.max_answer);
            return Err(refuse(detail));
        }
        if let Some(name) = settings.replayed.more.iter().find(|name| is_never(name)) {
            return Err(refuse(format!("the header `{name}` belongs to one exchange, and is not replayed")));
        }
        settings.once = settings.once.clone().max_result(settings.max_answer + MAX_HEAD_BYTES + 1);
        settings.once.check()?;
        Ok(IdempotencyLayer::new(self.settings))
    }
}

impl fmt::Debug for IdempotencyBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyBuilder")
            .field("caller", &self.caller)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
