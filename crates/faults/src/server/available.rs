//! Whether a test can run here. A test that needs a server which is not installed has to be skipped on a
//! contributor's machine, but a skipped test looks like a passed one. So every skip prints a loud line, and
//! where nobody reads the output, in CI, it is a failure.

use std::env;

use super::binary::{ServerKind, find_binary};
use super::libfaketime::find_library;

/// Whether a server of this kind can be started; if not, says so on standard error.
///
/// A test that needs one starts with `if !available(kind) { return; }`.
///
/// # Panics
///
/// When the binary is missing and the environment variable `CI` is `true`.
pub fn available(kind: ServerKind) -> bool {
    let found = find_binary(kind).is_some();
    found || skip(&format!("{kind}, set {} or run cargo xtask test", kind.variable()))
}

/// Whether a server's wall clock can be faked; if not, says so on standard error.
///
/// # Panics
///
/// When libfaketime is missing and the environment variable `CI` is `true`.
pub fn faketime_available() -> bool {
    let found = find_library().is_some();
    found || skip("libfaketime, install it, set LOCKKEEPER_LIBFAKETIME or run cargo xtask test")
}

/// Says on standard error that this test is skipped, and what it needs; the answer is always no.
///
/// # Panics
///
/// When the environment variable `CI` is `true`.
pub fn skip(needs: &str) -> bool {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("SKIPPED: {test} needs {needs}");
    eprintln!("{line}");
    assert!(env::var("CI").as_deref() != Ok("true"), "{line} (a skipped test is a failure when CI is true)");
    false
}
