//! Limits: who is limited.

mod subject;

pub use subject::{IntoSubject, MAX_KIND_BYTES, MAX_SUBJECT_BYTES, MAX_VALUE_BYTES, Subject};
