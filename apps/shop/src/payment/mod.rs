//! The payment provider: somebody else's service, which may be slow, fail, or take the money and lose its answer.

mod fake;
mod ledger;
mod provider;

pub use fake::{FakeProvider, Trouble};
pub use ledger::{Ledger, Taken};
pub use provider::{PaymentError, Provider};
