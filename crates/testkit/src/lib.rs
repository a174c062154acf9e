//! What Lockkeeper's own tests share: one contract run on every store, histories compared between a store and the
//! model, histories of critical sections checked for overlap, and futures dropped at every poll.

pub mod arm;
pub mod conformance;
pub mod contest;
pub mod differential;
pub mod drops;
pub mod fake;
pub mod history;
pub mod limits;
pub mod once;
pub mod permits;
pub mod pki;
pub mod runs;
pub mod wait;
