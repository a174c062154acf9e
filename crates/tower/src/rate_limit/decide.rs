//! From a request to pass or refuse.

use std::sync::Arc;

use futures_util::future::join_all;
use http::request::Parts;
use lockkeeper::{Source, Verdict};

use super::headers::Fields;
use super::layer::Settings;
use super::outcome::{RateLimited, Said};
use super::refusal::Refusal;
use super::route::Route;
use super::rule::{Question, Rule};

/// What is to be done with a request.
pub(super) struct Decision {
    pub(super) refusal: Option<Refusal>,
    /// For the answer.
    pub(super) fields: Fields,
    said: Vec<Said>,
}

struct Answer<'a> {
    question: &'a Question,
    rule: &'a Rule,
    verdict: Verdict,
}

impl Decision {
    /// Tells the handlers.
    pub(super) fn tell(self, extensions: &mut http::Extensions) -> Fields {
        extensions.get_or_insert_default::<RateLimited>().add(self.said);
        self.fields
    }
}

/// What is to be asked for this request.
pub(super) fn questions(settings: &Settings, parts: &Parts) -> Vec<Question> {
    if settings.skip.as_ref().is_some_and(|skip| skip(parts)) {
        return Vec::new();
    }
    let route = Route::of(parts, settings.route.as_ref());
    let rules = settings.rules.iter().enumerate();
    rules.filter_map(|(at, rule)| rule.question(at, parts, &route)).collect()
}

/// Asks, one rule after another, up to the first that refuses. What the earlier ones took is then given back.
pub(super) async fn decide(settings: Arc<Settings>, questions: Vec<Question>) -> Decision {
    let mut answers = Vec::with_capacity(questions.len());
    let mut refusal = None;
    for question in &questions {
        let rule = &settings.rules[question.rule];
        refusal = ask(rule, question, &mut answers).await;
        if refusal.is_some() {
            give_back(&answers).await;
            break;
        }
    }
    concluded(&settings, &questions, answers, refusal)
}

async fn ask<'a>(rule: &'a Rule, question: &'a Question, answers: &mut Vec<Answer<'a>>) -> Option<Refusal> {
    let verdict = match rule.check(question).await {
        Ok(verdict) => verdict,
        Err(error) => {
            rule.note_failure(&error);
            return (!rule.is_shadow()).then(|| Refusal::unavailable(rule));
        }
    };
    let refusal = (!verdict.is_allowed()).then(|| Refusal::of(rule, &verdict));
    answers.push(Answer { question, rule, verdict });
    match refusal {
        Some(refusal) if rule.is_shadow() => {
            let (policy, kind) = (refusal.policy(), refusal.kind());
            tracing::debug!(limiter = rule.name(), policy, ?kind, "rate_limit_shadow_refusal");
            None
        }
        refusal => refusal,
    }
}

/// What the store charged.
async fn give_back(answers: &[Answer<'_>]) {
    let is_charged = |answer: &&Answer<'_>| {
        let source = answer.verdict.detail().source();
        answer.verdict.granted() > 0 && matches!(source, Source::Store | Source::Leased)
    };
    join_all(answers.iter().filter(is_charged).map(|answer| answer.rule.give_back(answer.question))).await;
}

fn concluded(
    settings: &Settings,
    questions: &[Question],
    answers: Vec<Answer<'_>>,
    refusal: Option<Refusal>,
) -> Decision {
    let jitter = settings.jitter.draw();
    let refusal = refusal.map(|refusal| refusal.lengthened(jitter));
    let asked =
        questions.iter().map(|question| &settings.rules[question.rule]).filter(|rule| !rule.is_shadow());
    // Of a refusal, the rule that refused alone is shown: what the others say was given back.
    let is_shown = |answer: &&Answer<'_>| {
        !answer.rule.is_shadow() && (refusal.is_none() || !answer.verdict.is_allowed())
    };
    let shown = answers.iter().filter(is_shown).map(|answer| (answer.rule, &answer.verdict));
    let fields = Fields::new(settings.headers, asked, shown, refusal.as_ref(), jitter);
    let said = answers.into_iter().map(|answer| Said {
        limiter: answer.rule.name().into(),
        verdict: answer.verdict,
        is_shadow: answer.rule.is_shadow(),
    });
    Decision { refusal, fields, said: said.collect() }
}
