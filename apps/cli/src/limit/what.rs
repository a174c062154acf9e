//! Which limits are meant, and whom they count.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::time::Duration;

use lockkeeper::{IntoLimits as _, Keeper, Limit, Limiter, Subject};

use crate::common::{Common, bytes_of};
use crate::exit::Failure;

/// One call to the server gets half of it. Nobody at a shell wants a decision within milliseconds and no other.
const PATIENCE: Duration = Duration::from_secs(4);

/// Which limits.
#[derive(Debug, clap::Args)]
pub(super) struct Rules {
    /// The limits' name: 1 to 64 of a-z, 0-9 and _.
    name: String,

    /// A limit, such as '100/20s token-bucket burst=150'; several are checked as one, all or nothing.
    ///
    /// COUNT/WINDOW [ALGORITHM] [burst=N]. The window is in us, ms, s, min, h, d, w, mo (30 days) or y (365 days). The
    /// algorithm is token-bucket (without another), fixed-window, fixed-window-from-first, sliding-log or
    /// sliding-counter. Also `unlimited` and `none`.
    #[arg(long = "limit", value_name = "LIMIT", required = true, allow_hyphen_values = true, value_parser = limit)]
    limits: Vec<Limit>,

    /// What limit keys begin with on the server.
    #[arg(long, value_name = "PREFIX", default_value = "limit:")]
    prefix: OsString,
}

/// Whom.
#[derive(Debug, clap::Args)]
pub(super) struct Whom {
    /// Who or what is counted, such as user:42.
    key: OsString,

    #[command(flatten)]
    manner: Manner,
}

/// How keys are meant.
#[derive(Debug, clap::Args)]
pub(super) struct Manner {
    /// KEY is of this kind, such as `user`, and apart from equal keys of other kinds. With `ip` it is an address, and
    /// IPv6 counts by its /64.
    #[arg(long, value_name = "KIND", conflicts_with = "encoded")]
    kind: Option<String>,

    /// KEY is encoded as `limit watch` shows it, such as @user:42@route:/login.
    #[arg(long)]
    encoded: bool,
}

/// The error's own words, without what clap says beside it.
fn limit(text: &str) -> Result<Limit, String> {
    if text.contains(';') {
        return Err("these are several: give --limit once for each".to_owned());
    }
    text.parse().map_err(|error: lockkeeper::Error| error.detail().to_owned())
}

impl Rules {
    /// The limiter, on a keeper that connects when it is first asked.
    pub(super) async fn open(&self, common: &Common) -> anyhow::Result<(Keeper, Limiter)> {
        let limits = self.limits.clone().into_limits()?;
        let prefix = bytes_of(&self.prefix, "the prefix")?;
        let keeper = common.builder()?.limit_prefix(prefix)?.lazy().connect().await?;
        let limiter = keeper.limiter(&self.name, limits)?.exact().decide_within(PATIENCE);
        Ok((keeper, limiter))
    }
}

impl Whom {
    pub(super) fn subject(&self) -> anyhow::Result<Subject> {
        self.manner.subject(&self.key)
    }
}

impl Manner {
    pub(super) fn subject(&self, key: &OsStr) -> anyhow::Result<Subject> {
        let key = bytes_of(key, "the key")?;
        Ok(match &self.kind {
            _ if self.encoded => Subject::from_encoded(key)?,
            None => Subject::new(key)?,
            Some(kind) if kind == "ip" => Subject::ip(address(key)?),
            Some(kind) => Subject::of(kind, key)?,
        })
    }
}

fn address(key: &[u8]) -> Result<IpAddr, Failure> {
    let text = String::from_utf8_lossy(key);
    text.parse().map_err(|_| Failure::usage(format!("`{}` is no IP address", text.escape_debug())))
}
