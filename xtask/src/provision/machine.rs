//! What this machine offers for installing packages: a manager and the right to use it.

use super::need::Need;
use crate::call::Call;
use crate::workspace::Workspace;

/// The package managers we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora and its kin.
    Dnf,
    /// Alpine.
    Apk,
    /// macOS; installs as the user.
    Brew,
}

/// How a package manager can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// We are root.
    Root,
    /// `sudo` lets us without a question.
    Sudo,
    /// Not as root.
    User,
}

/// A machine, as far as installing is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Its package manager.
    pub(crate) manager: Option<Manager>,
    /// What we may do.
    pub(crate) rights: Rights,
}

impl Machine {
    /// Finds out.
    pub(crate) fn look(workspace: &Workspace) -> Self {
        let output = |program, args| Call::new(program, args).output(&workspace.root);
        let known = [Manager::Apt, Manager::Dnf, Manager::Apk, Manager::Brew];
        let manager = known.into_iter().find(|manager| output(manager.program(), "--version").is_some());
        let rights = match output("id", "-u") {
            Some(id) if id.trim() == "0" => Rights::Root,
            _ if output("sudo", "-n true").is_some() => Rights::Sudo,
            _ => Rights::User,
        };
        Self { manager, rights }
    }

    /// The calls that install the package of `need`, if this machine can.
    pub(crate) fn install(self, need: Need) -> Option<Call> {
        let manager = self.manager?;
        self.with_rights(manager, &format!("{} {}", manager.install(), manager.package(need)?))
    }

    /// The call that refreshes the list of packages, where one is needed.
    pub(crate) fn refresh(self) -> Option<Call> {
        let manager = self.manager.filter(|&manager| manager == Manager::Apt)?;
        self.with_rights(manager, "update")
    }

    fn with_rights(self, manager: Manager, args: &str) -> Option<Call> {
        let words = format!("{} {args}", manager.program());
        match self.rights {
            _ if manager == Manager::Brew => Some(Call::new("brew", args)),
            Rights::Root => Some(Call::new("env", &format!("{QUIET} {words}"))),
            Rights::Sudo => Some(Call::new("sudo", &format!("-n env {QUIET} {words}"))),
            Rights::User => None,
        }
    }
}

/// Packages of Debian must not ask; through `env`, because sudo drops variables.
const QUIET: &str = "DEBIAN_FRONTEND=noninteractive";

impl Manager {
    fn program(self) -> &'static str {
        match self {
            Manager::Apt => "apt-get",
            Manager::Dnf => "dnf",
            Manager::Apk => "apk",
            Manager::Brew => "brew",
        }
    }

    fn install(self) -> &'static str {
        match self {
            Manager::Apt => "install -y --no-install-recommends",
            Manager::Dnf => "install -y",
            Manager::Apk => "add",
            Manager::Brew => "install",
        }
    }

    /// The package of a need; none for what no package manager brings.
    fn package(self, need: Need) -> Option<&'static str> {
        match (need, self) {
            (Need::RedisServer, Manager::Apt) => Some("redis-server"),
            (Need::RedisServer, _) => Some("redis"),
            (Need::Faketime, _) => Some("libfaketime"),
            (Need::Chromium, _) => Some("chromium"),
            (Need::Postgres, Manager::Dnf) => Some("postgresql-server"),
            (Need::Postgres, _) => Some("postgresql"),
            (Need::Pip, Manager::Apt | Manager::Dnf) => Some("python3-pip"),
            (Need::Pip, Manager::Apk) => Some("py3-pip"),
            (Need::Pip, Manager::Brew) => Some("python"),
            (Need::Rustfmt | Need::Clippy | Need::Server(_) | Need::Foreign(_) | Need::CargoDeny, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(manager: Manager, rights: Rights, need: Need) -> Option<String> {
        Machine { manager: Some(manager), rights }.install(need).map(|call| call.to_string())
    }

    #[test]
    fn debian_installs_as_root_without_questions() {
        let call = shown(Manager::Apt, Rights::Root, Need::RedisServer);
        let expected = "env DEBIAN_FRONTEND=noninteractive \
                        apt-get install -y --no-install-recommends redis-server";
        assert_eq!(call.as_deref(), Some(expected));
    }

    #[test]
    fn sudo_is_used_where_it_does_not_ask() {
        let call = shown(Manager::Dnf, Rights::Sudo, Need::RedisServer);
        let expected = "sudo -n env DEBIAN_FRONTEND=noninteractive dnf install -y redis";
        assert_eq!(call.as_deref(), Some(expected));
    }

    #[test]
    fn a_user_can_install_by_brew_only() {
        assert_eq!(shown(Manager::Apt, Rights::User, Need::Faketime), None);
        let call = shown(Manager::Brew, Rights::User, Need::Faketime);
        assert_eq!(call.as_deref(), Some("brew install libfaketime"));
    }

    #[test]
    fn nothing_is_installed_without_a_manager() {
        let machine = Machine { manager: None, rights: Rights::Root };
        assert_eq!(machine.install(Need::RedisServer), None);
        assert_eq!(machine.refresh(), None);
    }

    #[test]
    fn only_debian_needs_a_refresh() {
        let refresh = |manager| Machine { manager: Some(manager), rights: Rights::Root }.refresh();
        assert!(refresh(Manager::Apt).is_some());
        assert_eq!(refresh(Manager::Apk), None);
    }
}
