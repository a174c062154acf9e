//! What a server is started with, and the command line that it becomes.

use std::path::{Path, PathBuf};

use super::binary::ServerKind;
use super::client::Address;
use super::clock::FakeClock;

/// The name of the unix socket in the server's folder.
const SOCKET: &str = "server.sock";
/// The name of a Sentinel's file in its folder.
const SENTINEL_FILE: &str = "sentinel.conf";

/// Everything that a start and each restart uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) kind: ServerKind,
    pub(crate) listen: Listen,
    pub(crate) config: Vec<(String, String)>,
    pub(crate) password: Option<String>,
    pub(crate) tls: Option<Tls>,
    pub(crate) clock: Option<FakeClock>,
    pub(crate) persistent: bool,
    /// The lines of a Sentinel's file; `None` for a server that keeps data.
    pub(crate) sentinel: Option<String>,
}

/// On what a server listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Listen {
    /// A TCP port.
    #[default]
    Tcp,
    /// A TCP port and a unix socket.
    Both,
    /// A unix socket only.
    Unix,
}

/// The files of a server that speaks TLS.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) ca: PathBuf,
}

impl Settings {
    /// The unix socket, if there is one. A server with TLS always has one: it is how the guard talks to it.
    pub(crate) fn socket(&self, folder: &Path) -> Option<PathBuf> {
        (self.listen != Listen::Tcp || self.tls.is_some()).then(|| folder.join(SOCKET))
    }

    /// Where the guard reaches the server without TLS.
    pub(crate) fn address(&self, folder: &Path, port: u16) -> Address {
        match self.socket(folder) {
            Some(path) if self.listen == Listen::Unix || self.tls.is_some() => Address::Unix(path),
            _ => Address::Tcp(port),
        }
    }

    /// The file that a Sentinel is started with, and writes what it learns into.
    pub(crate) fn sentinel_file(&self, folder: &Path) -> Option<PathBuf> {
        self.sentinel.as_ref().map(|_| folder.join(SENTINEL_FILE))
    }

    /// The command line. What the caller configured comes last, so that it wins.
    pub(crate) fn arguments(&self, folder: &Path, port: u16) -> Vec<String> {
        let mut args = Arguments::default();
        if let Some(file) = self.sentinel_file(folder) {
            args.list.extend([file.to_string_lossy().into_owned(), "--sentinel".to_owned()]);
        }
        args.one("--bind", "127.0.0.1");
        args.one("--daemonize", "no");
        self.listening(&mut args, folder, port);
        if self.sentinel.is_none() {
            args.one("--save", "");
            args.one("--appendonly", if self.persistent { "yes" } else { "no" });
        }
        if self.persistent {
            args.one("--appendfsync", "everysec");
        }
        if let Some(password) = &self.password {
            args.one("--requirepass", password);
        }
        for (key, value) in &self.config {
            args.words(key, value);
        }
        args.list
    }

    fn listening(&self, args: &mut Arguments, folder: &Path, port: u16) {
        let tcp = if self.listen == Listen::Unix { 0 } else { port };
        let plain = if self.tls.is_some() { 0 } else { tcp };
        args.one("--port", &plain.to_string());
        if let Some(tls) = &self.tls {
            args.one("--tls-port", &tcp.to_string());
            args.one("--tls-cert-file", &tls.cert.to_string_lossy());
            args.one("--tls-key-file", &tls.key.to_string_lossy());
            args.one("--tls-ca-cert-file", &tls.ca.to_string_lossy());
            args.one("--tls-auth-clients", "no");
        }
        if let Some(path) = self.socket(folder) {
            args.one("--unixsocket", &path.to_string_lossy());
        }
    }
}

#[derive(Default)]
struct Arguments {
    list: Vec<String>,
}

impl Arguments {
    /// An option with exactly one value, whatever is in it.
    fn one(&mut self, option: &str, value: &str) {
        self.list.extend([option.to_owned(), value.to_owned()]);
    }

    /// An option with a value of several words, each of which the server wants as an argument of its own.
    fn words(&mut self, key: &str, value: &str) {
        self.list.push(format!("--{key}"));
        if value.trim().is_empty() {
            self.list.push(String::new());
        }
        self.list.extend(value.split_whitespace().map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_configuration_comes_last() {
        let config = vec![("client-output-buffer-limit".to_owned(), "normal 0 0 0".to_owned())];
        let settings = Settings { config, ..Settings::default() };
        let args = settings.arguments(Path::new("/x"), 7);
        assert_eq!(args[args.len() - 5..], ["--client-output-buffer-limit", "normal", "0", "0", "0"]);
        assert!(args.windows(2).any(|pair| pair == ["--port", "7"]));
        assert!(!args.iter().any(|arg| arg == "--unixsocket"));
    }

    #[test]
    fn a_sentinel_has_a_file_of_its_own_first_and_nothing_about_data() {
        let settings = Settings { sentinel: Some(String::new()), ..Settings::default() };
        let args = settings.arguments(Path::new("/x"), 7);
        assert_eq!(args[..2], ["/x/sentinel.conf", "--sentinel"]);
        assert!(!args.iter().any(|arg| arg == "--appendonly"));
    }

    #[test]
    fn a_unix_only_server_has_no_port() {
        let settings = Settings { listen: Listen::Unix, ..Settings::default() };
        let args = settings.arguments(Path::new("/x"), 7);
        assert!(args.windows(2).any(|pair| pair == ["--port", "0"]));
        assert!(args.windows(2).any(|pair| pair == ["--unixsocket", "/x/server.sock"]));
    }
}
