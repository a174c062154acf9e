//! Who or what a limit counts: its encoding, and what can be made into one.

mod address;
mod encode;
mod into;
mod text;
mod value;

#[cfg(test)]
mod tests;

pub use encode::MAX_VALUE_BYTES;
pub use into::IntoSubject;
pub use text::MAX_SUBJECT_BYTES;
pub use value::{MAX_KIND_BYTES, Subject};
