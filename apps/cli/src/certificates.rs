//! Certificates for TLS: from files that options or variables name.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use lockkeeper::redis::RedisConfig;

use crate::common::named_value;
use crate::exit::Failure;

/// No more of a file is read.
const MAX_BYTES: u64 = (1 << 20) + 1;

/// Options for TLS, of every command.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct Certificates {
    /// Trust the certificate authority in this file (PEM) instead of the system's, for rediss://.
    ///
    /// Without it, the environment's LOCKKEEPER_TLS_CA counts.
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Show the certificate in this file (PEM) to a server that asks for one. Needs --key.
    ///
    /// Without it, the environment's LOCKKEEPER_TLS_CERT counts.
    #[arg(long = "cert", id = "client_cert", global = true, value_name = "FILE")]
    cert: Option<PathBuf>,

    /// The key of that certificate (PEM, not encrypted).
    ///
    /// Without it, the environment's LOCKKEEPER_TLS_KEY counts.
    #[arg(long = "key", id = "client_key", global = true, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl Certificates {
    /// The command line names at least one.
    pub(crate) fn is_given(&self) -> bool {
        self.ca.is_some() || self.cert.is_some() || self.key.is_some()
    }

    /// The configuration with these certificates.
    ///
    /// # Errors
    /// A file cannot be read, or does not hold what it should; a certificate without a key, or a key without.
    pub(crate) fn apply(&self, mut config: RedisConfig) -> anyhow::Result<RedisConfig> {
        if let Some(ca) = Source::of("--ca", self.ca.as_deref(), "LOCKKEEPER_TLS_CA") {
            config = config.root_certificate(ca.read()?).with_context(|| ca.to_string())?;
        }
        let cert = Source::of("--cert", self.cert.as_deref(), "LOCKKEEPER_TLS_CERT");
        let key = Source::of("--key", self.key.as_deref(), "LOCKKEEPER_TLS_KEY");
        match (cert, key) {
            (None, None) => Ok(config),
            (Some(cert), Some(key)) => {
                config.client_certificate(cert.read()?, key.read()?).with_context(|| format!("{cert}, {key}"))
            }
            (Some(cert), None) => {
                Err(Failure::usage(format!("{cert}: a certificate needs its --key")).into())
            }
            (None, Some(key)) => Err(Failure::usage(format!("{key}: a key needs its --cert")).into()),
        }
    }
}

/// A file, and who named it.
struct Source {
    named_by: &'static str,
    file: PathBuf,
}

impl Source {
    fn of(option: &'static str, given: Option<&Path>, variable: &'static str) -> Option<Self> {
        match given {
            Some(file) => Some(Self { named_by: option, file: file.to_owned() }),
            None => named_value(variable)
                .map(|(named_by, file): (_, OsString)| Self { named_by, file: file.into() }),
        }
    }

    fn read(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![];
        let file = std::fs::File::open(&self.file);
        match file.and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes)) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(Failure::usage(format!("{self}: {error}")).into()),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.named_by, self.file.display())
    }
}
