//! What the shop asks of a payment provider.

use futures_util::future::BoxFuture;

use crate::orders::{Cents, OrderNo};

/// A payment provider.
///
/// # Contract
/// The reference is the provider's own idempotency: charges with one reference are one charge, and the later ones are answered
/// with it. After a [`void`](Self::void) there is no money under a reference, and never will be.
///
/// # Cancel safety
/// A call that is dropped may have happened.
pub trait Provider: Send + Sync + 'static {
    /// Takes `amount`, once for each reference, and answers the charge's name.
    ///
    /// # Errors
    /// Declined, also after a void; or no answer.
    fn charge<'a>(
        &'a self,
        reference: &'a OrderNo,
        amount: Cents,
    ) -> BoxFuture<'a, Result<String, PaymentError>>;

    /// Gives back what was charged, if anything was; later charges with this reference are declined.
    ///
    /// # Errors
    /// No answer.
    fn void<'a>(&'a self, reference: &'a OrderNo) -> BoxFuture<'a, Result<(), PaymentError>>;
}

/// What a provider may answer instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PaymentError {
    /// It did not happen, and will not.
    #[error("declined: {0}")]
    Declined(String),
    /// It did not happen; it may be tried again.
    #[error("the payment provider is away")]
    Unavailable,
    /// It may have happened. Ask again with the same reference.
    #[error("the payment provider gave no answer")]
    Unanswered,
}
