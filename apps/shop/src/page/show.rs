//! The page, on request.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Html;
use http::HeaderMap;
use serde::Deserialize;

use super::live::Numbers;
use super::view::{self, Said};
use super::who::who;
use crate::sale::{Buyer, Outcome};
use crate::web::{NOT_WRITTEN, Problem, Reason, Shop};

/// What the address says. Whatever it says: nothing of it is shown but an account, and reasons that are ours.
#[derive(Default, Deserialize)]
pub(crate) struct Asked {
    account: Option<String>,
    said: Option<String>,
}

pub(crate) async fn show(
    State(shop): State<Shop>,
    headers: HeaderMap,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Html<String>, Problem> {
    let Asked { account, said } = asked.map(|Query(asked)| asked).unwrap_or_default();
    let buyer = who(&headers, account.as_deref());
    let is_other = buyer.is_err();
    let buyer = buyer.unwrap_or_default();
    let numbers = Numbers::of(&shop).await?;
    let refusal = said.as_deref().and_then(Reason::named).or(is_other.then_some(Reason::BadAccount));
    let said = match (&buyer, refusal) {
        (_, Some(reason)) => Said::Refused(reason.title()),
        (Some(buyer), None) => said_to(&shop, buyer).await?,
        (None, None) => Said::Nothing,
    };
    Ok(Html(view::page(shop.featured(), buyer.as_ref(), &numbers, &said).into_string()))
}

async fn said_to(shop: &Shop, buyer: &Buyer) -> Result<Said, Problem> {
    Ok(match shop.sales().outcome(shop.featured(), buyer).await? {
        Outcome::Pending(ticket) => Said::Pending(ticket),
        Outcome::Ordered(ticket) => Said::Ordered(ticket),
        Outcome::Refused { .. } => Said::Refused(NOT_WRITTEN),
        Outcome::None => Said::Nothing,
    })
}
