//! Whose page it is.

use http::HeaderMap;

use crate::sale::Buyer;
use crate::web::{ACCOUNT, account_of};

/// The account of the header, where it is there, and what was typed has to be the same; or else what was typed. `Err`: it is
/// no account, or another one than the header's.
pub(super) fn who(headers: &HeaderMap, typed: Option<&str>) -> Result<Option<Buyer>, ()> {
    let typed = typed.map(|typed| typed.trim().parse::<Buyer>().map_err(drop)).transpose()?;
    if !headers.contains_key(ACCOUNT) {
        return Ok(typed);
    }
    let account = account_of(headers).map_err(drop)?;
    match typed {
        Some(typed) if typed != account => Err(()),
        _ => Ok(Some(account)),
    }
}
