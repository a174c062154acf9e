//! The button, where the script does not run: a form, answered with a redirect to the page.

use axum::Form;
use axum::extract::State;
use axum::extract::rejection::FormRejection;
use axum::response::Redirect;
use http::HeaderMap;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::who::who;
use crate::web::{Reason, Shop, attempt};

/// What the form sends.
#[derive(Deserialize)]
pub(crate) struct Fields {
    account: Option<String>,
}

/// Buys, and goes back to the page, which says what came of it.
pub(crate) async fn buy(
    State(shop): State<Shop>,
    headers: HeaderMap,
    fields: Result<Form<Fields>, FormRejection>,
) -> Redirect {
    let typed = fields.ok().and_then(|Form(fields)| fields.account);
    let Ok(Some(buyer)) = who(&headers, typed.as_deref()) else {
        shop.tally().refuse(Reason::BadAccount);
        return Redirect::to(&format!("/?said={}", Reason::BadAccount.as_str()));
    };
    let account = utf8_percent_encode(buyer.as_str(), NON_ALPHANUMERIC);
    match attempt(&shop, shop.featured(), &buyer).await {
        Ok(_) => Redirect::to(&format!("/?account={account}")),
        Err(problem) => {
            let reason = problem.reason;
            shop.tally().refuse(reason);
            Redirect::to(&format!("/?account={account}&said={}", reason.as_str()))
        }
    }
}
