//! Names of things and people: bounded, and parsed once, where they come in.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::Error;

/// The longest name of a thing, a person or a ticket, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

const OPERATION: &str = "name";

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $noun:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Its text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = Error;

            /// # Errors
            /// Empty, longer than [`MAX_NAME_BYTES`], or with anything but printable ASCII (a space is none).
            fn from_str(text: &str) -> Result<Self, Error> {
                check($noun, text)?;
                Ok(Self(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    )*};
}

names! {
    /// A thing for sale.
    Sku = "a sku";
    /// Who buys.
    Buyer = "a buyer";
    /// What a buyer gets when a unit was set aside for them; becomes an order.
    Ticket = "a ticket";
    /// One movement of units from one shard of a sale to another.
    Transfer = "a transfer";
}

const RANDOM_CHARS: usize = 22;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

impl Ticket {
    /// A new one, of 110 random bits.
    pub fn random() -> Self {
        Self(random().into())
    }
}

impl Transfer {
    pub(crate) fn random() -> Self {
        Self(random().into())
    }
}

fn random() -> String {
    (0..RANDOM_CHARS).map(|_| char::from(ALPHABET[rand::random_range(0..ALPHABET.len())])).collect()
}

fn check(noun: &str, text: &str) -> Result<(), Error> {
    if text.is_empty() || text.len() > MAX_NAME_BYTES {
        let detail = format!("{noun} has 1 to {MAX_NAME_BYTES} bytes, and this one has {}", text.len());
        return Err(Error::bad_argument(OPERATION, detail));
    }
    match text.bytes().position(|byte| !byte.is_ascii_graphic()) {
        None => Ok(()),
        Some(at) => {
            let detail = format!("{noun} is printable ASCII without spaces; byte {at} of this one is not");
            Err(Error::bad_argument(OPERATION, detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_printable() {
        for good in ["a", "sku-9", "a{b}c", &"x".repeat(MAX_NAME_BYTES)] {
            assert_eq!(good.parse::<Sku>().unwrap().as_str(), good);
        }
        for bad in ["", " ", "a b", "a\n", "ä", "\u{7f}", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(bad.parse::<Buyer>().is_err(), "{bad:?}");
        }
        let error = "a b".parse::<Buyer>().unwrap_err().to_string();
        assert!(error.contains("a buyer is printable ASCII without spaces; byte 1"), "{error}");
    }

    #[test]
    fn random_tickets_are_names_and_differ() {
        let (one, other) = (Ticket::random(), Ticket::random());
        assert_ne!(one, other);
        assert_eq!(one.as_str().parse::<Ticket>().unwrap(), one);
    }
}
