//! Fingerprints: what tells one request from another under the same key.
//!
//! A fingerprint is a SHA-256 digest, and the ways of making one are kept apart: the JSON text `1` and the bytes `1` have nothing to
//! do with each other.
//!
//! Two JSON texts have the same fingerprint if they say the same:
//!
//! * The order of an object's members and white space do not count; that of an array does.
//! * Numbers are equal when their exact decimal values are: `1`, `1.0` and `1e0` are, 2^53 and 2^53 + 1 are not. No number goes
//!   through a float.
//! * `null` is not absence, and no string is a number. Strings are equal when their characters are, however they are escaped;
//!   nothing is normalised.
//!
//! A signed original wants [`of_bytes`].

use lockkeeper_core::Error;
use lockkeeper_core::idempotency::Fingerprint;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::json;
pub use super::json::MAX_DEPTH;

const OPERATION: &str = "fingerprint";
/// What a digest begins with says how it was made, and in which version of that.
const OF_JSON: &[u8] = b"lockkeeper:json:1:";
const OF_BYTES: &[u8] = b"lockkeeper:bytes:1:";
const OF_PARTS: &[u8] = b"lockkeeper:parts:1:";

/// Of a value, by its JSON. The same as [`of_json`] of what `serde_json` writes.
///
/// As there, a float that is no number is `null`.
///
/// # Errors
/// It cannot be written as JSON; it is nested deeper than [`MAX_DEPTH`]; it has an object with a member twice.
pub fn of_value<T: Serialize + ?Sized>(value: &T) -> Result<Fingerprint, Error> {
    let written = serde_json::to_vec(value);
    let written = written.map_err(|error| refused(format!("it cannot be written as JSON: {error}")))?;
    of_json(&written)
}

/// Of a JSON text.
///
/// # Errors
/// It is no valid JSON text in UTF-8; it is nested deeper than [`MAX_DEPTH`]; an object has a member twice, so that readers may
/// disagree on what it says; a number has an exponent of more than 18 digits.
pub fn of_json(text: &[u8]) -> Result<Fingerprint, Error> {
    let mut digest = Sha256::new_with_prefix(OF_JSON);
    json::digest(text, &mut digest).map_err(|error| refused(error.to_string()))?;
    Ok(finished(digest))
}

/// Of these bytes, exactly.
pub fn of_bytes(bytes: impl AsRef<[u8]>) -> Fingerprint {
    finished(Sha256::new_with_prefix(OF_BYTES).chain_update(bytes))
}

/// Of several byte strings, in this order: method, path and body of a request, or other fingerprints. Different parts never have
/// the same fingerprint because they are cut elsewhere.
pub fn of_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Fingerprint {
    let mut digest = Sha256::new_with_prefix(OF_PARTS);
    for part in parts {
        json::put(&mut digest, part.as_ref());
    }
    finished(digest)
}

fn finished(digest: Sha256) -> Fingerprint {
    Fingerprint::new(digest.finalize().into())
}

fn refused(detail: String) -> Error {
    Error::bad_argument(OPERATION, detail)
}
