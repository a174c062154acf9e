//! The arms of what runs once: Lockkeeper's, and the same calls by hand.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use lockkeeper::core::idempotency::{Fingerprint, Stored};
use lockkeeper::{Begun, Keeper, Once};
use redis::aio::MultiplexedConnection;

use crate::arm::Arm;
use crate::bare::{expect, token};
use crate::runtime::on;
use crate::stage::Stage;
use crate::words::Words;

const NAME: &str = "bench";
const RESULT: &[u8] = b"{\"receipt\":\"ch_0123456789abcdef\",\"cents\":1999}";

/// What runs once, as a service makes it.
pub(crate) fn once(keeper: &Keeper) -> Result<Once> {
    Ok(keeper.once(NAME)?)
}

/// The same request every time; hashing one is no part of the comparison.
pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint::new([0xab; 32])
}

fn caller_key(number: u64) -> String {
    format!("order:{number:012}")
}

/// Lockkeeper: claims and completes, a new key each time.
pub(crate) struct Runs(pub(crate) Once);

impl Arm for Runs {
    async fn cycle(&mut self, number: u64) -> Result<()> {
        let Begun::Claimed(attempt) = self.0.begin(caller_key(number), fingerprint()).await? else {
            bail!("Lockkeeper's arm: it was to be claimed");
        };
        attempt.complete(Stored::whole(RESULT)?).await?;
        Ok(())
    }
}

/// The same two scripts with the same arguments through the same client.
#[derive(Clone)]
pub(crate) struct BareRuns {
    connection: MultiplexedConnection,
    begin: Arc<Words>,
    complete: Arc<Words>,
    prefix: Arc<str>,
}

impl BareRuns {
    /// Looks at one run of `once`, and remembers what it sends.
    pub(crate) fn like(once: &Once, stage: &Stage) -> Result<Self> {
        let mut arm = Runs(once.clone());
        let run = async move { arm.cycle(0).await };
        let calls = Words::all_of(&stage.server, || on(&stage.runtime, run))?;
        let [begin, complete] = <[Words; 2]>::try_from(calls).ok().context("a run is two calls")?;
        let prefix = begin.parts().1.strip_suffix(&caller_key(0)).context("a key ends with its name")?.into();
        let connection = stage.bare.connection();
        Ok(Self { connection, begin: Arc::new(begin), complete: Arc::new(complete), prefix })
    }
}

impl Arm for BareRuns {
    async fn cycle(&mut self, number: u64) -> Result<()> {
        let key = [&*self.prefix, &*caller_key(number)].concat();
        let token = token(number);
        for (words, expected) in [(&self.begin, "claimed"), (&self.complete, "completed")] {
            let (head, _, arguments) = words.parts();
            let mut command = redis::cmd("EVALSHA");
            // The token is the first argument of both.
            command.arg(head).arg(&key).arg(&token).arg(&arguments[1..]);
            expect(&command.query_async(&mut self.connection).await?, expected)?;
        }
        Ok(())
    }
}
