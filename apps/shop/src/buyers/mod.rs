//! A crowd of simulated buyers, over real HTTP: they click twice, come back as told, and now and then go away before the
//! answer. Bounded in number, connections, tries and time.

mod backoff;
mod buyer;
mod click;
mod crowd;
mod customers;
mod notes;
mod report;

pub use click::MAX_ANSWER;
pub use crowd::{Crowd, MAX_BUYERS, MAX_CONNECTIONS, PROGRESS_PACE, Progress, rush};
pub use customers::{MAX_CUSTOMERS, Ordered, order_twice};
pub use report::{Latency, Report};
