//! What a caller may hand in as a subject.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::value::Subject;
use crate::error::Error;

/// What can be made into a [`Subject`]: one itself, text, bytes, a whole number, an address.
///
/// Text, bytes and numbers become plain subjects ([`Subject::new`]), addresses typed ones ([`Subject::ip`]). The
/// result of a constructor does as well, so that `check(Subject::user(id))` reports a wrong `id` as its own error.
pub trait IntoSubject {
    /// # Errors
    /// There is nothing in it, or it was an error already.
    fn into_subject(self) -> Result<Subject, Error>;
}

impl IntoSubject for Subject {
    fn into_subject(self) -> Result<Subject, Error> {
        Ok(self)
    }
}

impl IntoSubject for &Subject {
    fn into_subject(self) -> Result<Subject, Error> {
        Ok(self.clone())
    }
}

impl IntoSubject for Result<Subject, Error> {
    fn into_subject(self) -> Result<Subject, Error> {
        self
    }
}

macro_rules! plain_bytes {
    ($($type:ty),*) => {$(
        impl IntoSubject for $type {
            fn into_subject(self) -> Result<Subject, Error> {
                Subject::new(self)
            }
        }
    )*};
}

macro_rules! plain_numbers {
    ($($type:ty),*) => {$(
        impl IntoSubject for $type {
            fn into_subject(self) -> Result<Subject, Error> {
                Subject::new(self.to_string())
            }
        }
    )*};
}

macro_rules! addresses {
    ($($type:ty),*) => {$(
        impl IntoSubject for $type {
            fn into_subject(self) -> Result<Subject, Error> {
                Ok(Subject::ip(self))
            }
        }
    )*};
}

plain_bytes!(&str, String, &String, &[u8], Vec<u8>, &Vec<u8>);
plain_numbers!(u32, u64, u128, i32, i64);
addresses!(IpAddr, Ipv4Addr, Ipv6Addr);

impl<const N: usize> IntoSubject for &[u8; N] {
    fn into_subject(self) -> Result<Subject, Error> {
        Subject::new(self)
    }
}
