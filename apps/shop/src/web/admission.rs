//! Who may try to buy right now: the sale's token bucket and the buyer's own limit, checked as one.

use std::time::Duration;

use http::StatusCode;
use lockkeeper::{Error, Joint, Keeper, Subject, Verdict};

use super::problem::Problem;
use super::reason::Reason;
use crate::config::Limits;
use crate::sale::{Buyer, Sku};

const SALE: &str = "seckill";
const BUYER: &str = "seckill_buyer";
const BOTH: &str = "seckill_admission";
/// A rush is what the bucket is for: it may answer a little later than limits usually do.
const DECIDE_WITHIN: Duration = Duration::from_secs(1);

/// The two limits on `POST /seckill/{sku}`. A try passes both or is charged by none: who clicks too often takes nothing
/// from the others.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    both: Joint,
}

impl Admission {
    pub(super) fn new(keeper: &Keeper, limits: &Limits) -> Result<Self, Error> {
        let sale = keeper.limiter(SALE, limits.sale)?.decide_within(DECIDE_WITHIN);
        let buyer = keeper.limiter(BUYER, limits.buyer)?.decide_within(DECIDE_WITHIN);
        // On a cluster the two lie on different servers.
        let both = match keeper.joint(BOTH, [sale.clone(), buyer.clone()]) {
            Err(error) if error.kind() == lockkeeper::ErrorKind::Unsupported => {
                keeper.joint_in_sequence([buyer, sale])?
            }
            both => both?,
        };
        Ok(Self { both })
    }

    pub(super) async fn ask(&self, sku: &Sku, buyer: &Buyer) -> Result<(), Problem> {
        let verdict = self.verdict(sku, buyer).await.map_err(|error| Problem::away(&error))?;
        let (by, detail) = match &verdict {
            Verdict::Allowed { .. } => return Ok(()),
            Verdict::Denied { by, detail, .. } | Verdict::Never { by, detail } => (*by, detail),
            _ => (0, verdict.detail()),
        };
        let limit = detail.state(by);
        let reason = match limit {
            Some(limit) if limit.limiter == BUYER => Reason::BuyerBusy,
            _ => Reason::SaleBusy,
        };
        let text = limit.map_or_else(|| "none".to_owned(), |state| state.limit.to_string());
        Err(match verdict.retry_after() {
            Some(wait) => {
                Problem::new(reason, format!("The limit is {text}. Nothing is lost: ask again.")).after(wait)
            }
            // Not 429, after which clients come back by themselves.
            None => Problem::new(reason, format!("The limit is {text}.")).status(StatusCode::FORBIDDEN),
        })
    }

    async fn verdict(&self, sku: &Sku, buyer: &Buyer) -> Result<Verdict, Error> {
        let of_sale = Subject::new(sku.as_str())?;
        let of_buyer = Subject::of("sku", sku.as_str())?.and("account", buyer.as_str())?;
        let subjects = self.both.limiters().iter().map(|limiter| match limiter.name() {
            BUYER => &of_buyer,
            _ => &of_sale,
        });
        self.both.check(subjects, 1).await
    }
}
