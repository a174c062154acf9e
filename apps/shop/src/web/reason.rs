//! Why a request is refused: a closed set, so that every refusal can be explained and counted.

use http::StatusCode;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The request does not say who asks.
    NoAccount,
    /// It says so in a way that is no account.
    BadAccount,
    /// The name in the path is none.
    BadName,
    /// The body is not what is expected.
    BadBody,
    /// The idempotency key is none.
    BadKey,
    /// A request with this idempotency key is being run.
    KeyRunning,
    /// The idempotency key belongs to another request.
    KeyDiffers,
    /// What became of the request with this idempotency key is not known any more.
    KeyUnknown,
    /// The request with this idempotency key was done before, and its answer was not kept.
    DoneBefore,
    /// The request was done, and its claim on the idempotency key was lost meanwhile.
    AttemptLost,
    /// The sale's token bucket is empty.
    SaleBusy,
    /// This buyer tries too often.
    BuyerBusy,
    /// This account orders too often.
    OrdersBusy,
    /// Nothing is left.
    SoldOut,
    /// The sale has not begun.
    NotOpen,
    /// The sale is over.
    Closed,
    /// There is no such sale.
    UnknownSale,
    /// There is no such order of this account.
    UnknownOrder,
    /// There is nothing at this path.
    UnknownPath,
    /// The path has no such method.
    BadMethod,
    /// Another request works on the same order.
    OrderUnderWay,
    /// The number belongs to somebody else's order.
    OrderTaken,
    /// The same number was used for something else.
    OrderDiffers,
    /// The order was refused before.
    OrderRefused,
    /// The payment was declined.
    Declined,
    /// The lock was lost, and somebody else wrote first.
    StaleFence,
    /// The payment provider gave no answer.
    PaymentUnknown,
    /// The store or the database is away.
    StoreAway,
    /// The answer took too long.
    TooSlow,
    /// A mistake of the shop's.
    Broken,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 30] = [
        Self::NoAccount,
        Self::BadAccount,
        Self::BadName,
        Self::BadBody,
        Self::BadKey,
        Self::KeyRunning,
        Self::KeyDiffers,
        Self::KeyUnknown,
        Self::DoneBefore,
        Self::AttemptLost,
        Self::SaleBusy,
        Self::BuyerBusy,
        Self::OrdersBusy,
        Self::SoldOut,
        Self::NotOpen,
        Self::Closed,
        Self::UnknownSale,
        Self::UnknownOrder,
        Self::UnknownPath,
        Self::BadMethod,
        Self::OrderUnderWay,
        Self::OrderTaken,
        Self::OrderDiffers,
        Self::OrderRefused,
        Self::Declined,
        Self::StaleFence,
        Self::PaymentUnknown,
        Self::StoreAway,
        Self::TooSlow,
        Self::Broken,
    ];

    /// In answers, reports and counts.
    pub fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The reason of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }

    /// How it is answered, unless the request says more closely (413 and 415 are bad bodies, too).
    pub fn status(self) -> StatusCode {
        self.row().1
    }

    /// In a few words.
    pub fn title(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (&'static str, StatusCode, &'static str) {
        use StatusCode as S;
        match self {
            Self::NoAccount => ("no-account", S::UNAUTHORIZED, "Who asks is not said"),
            Self::BadAccount => ("bad-account", S::BAD_REQUEST, "This is no account"),
            Self::BadName => ("bad-name", S::BAD_REQUEST, "This is no name"),
            Self::BadBody => ("bad-body", S::BAD_REQUEST, "The body is not what is expected"),
            Self::BadKey => ("bad-key", S::BAD_REQUEST, "This is no idempotency key"),
            Self::KeyRunning => ("key-running", S::CONFLICT, "This request is being worked on"),
            Self::KeyDiffers => {
                ("key-differs", S::UNPROCESSABLE_ENTITY, "This key belongs to another request")
            }
            Self::KeyUnknown => ("key-unknown", S::CONFLICT, "What became of this request is not known"),
            Self::DoneBefore => ("done-before", S::CONFLICT, "This was done before"),
            Self::AttemptLost => {
                ("attempt-lost", S::SERVICE_UNAVAILABLE, "Whose answer counts is not known yet")
            }
            Self::SaleBusy => ("sale-busy", S::TOO_MANY_REQUESTS, "Too many people want this right now"),
            Self::BuyerBusy => ("buyer-busy", S::TOO_MANY_REQUESTS, "This account tries too often"),
            Self::OrdersBusy => ("orders-busy", S::TOO_MANY_REQUESTS, "This account orders too often"),
            Self::SoldOut => ("sold-out", S::GONE, "Sold out"),
            Self::NotOpen => ("not-open", S::FORBIDDEN, "The sale has not begun"),
            Self::Closed => ("closed", S::GONE, "The sale is over"),
            Self::UnknownSale => ("unknown-sale", S::NOT_FOUND, "There is no such sale"),
            Self::UnknownOrder => ("unknown-order", S::NOT_FOUND, "There is no such order"),
            Self::UnknownPath => ("unknown-path", S::NOT_FOUND, "There is nothing here"),
            Self::BadMethod => ("bad-method", S::METHOD_NOT_ALLOWED, "This cannot be done here"),
            Self::OrderUnderWay => ("order-under-way", S::CONFLICT, "This order is being worked on"),
            Self::OrderTaken => ("order-taken", S::CONFLICT, "This order number is taken"),
            Self::OrderDiffers => {
                ("order-differs", S::CONFLICT, "This order number was used for something else")
            }
            Self::OrderRefused => ("order-refused", S::CONFLICT, "This order was refused"),
            Self::Declined => ("declined", S::PAYMENT_REQUIRED, "The payment was declined"),
            Self::StaleFence => ("stale-fence", S::CONFLICT, "Somebody else ended this order first"),
            Self::PaymentUnknown => {
                ("payment-unknown", S::SERVICE_UNAVAILABLE, "Whether it is paid is not known")
            }
            Self::StoreAway => ("store-away", S::SERVICE_UNAVAILABLE, "The shop cannot decide right now"),
            Self::TooSlow => ("too-slow", S::SERVICE_UNAVAILABLE, "The answer took too long"),
            Self::Broken => ("broken", S::INTERNAL_SERVER_ERROR, "The shop made a mistake"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_reason_has_a_name_of_its_own_and_its_place() {
        let names: HashSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!((reason as usize, Reason::named(reason.as_str())), (at, Some(reason)));
        }
        assert_eq!(Reason::Broken as usize + 1, Reason::ALL.len());
    }
}
