//! The database: SQLite in a file or in memory, or PostgreSQL, behind one kind of pool.
//!
//! Every statement of the shop is written for both: `$1` for arguments, `ON CONFLICT` for what may be there already, and
//! whole numbers for times (microseconds since the Unix epoch).

mod error;
mod migrations;
mod open;

pub use error::DatabaseError;
pub use open::Database;
pub(crate) use open::is_private;
