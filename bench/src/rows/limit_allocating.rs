//! How often a check allocates, in the whole process.

use std::time::Duration;

use anyhow::Result;
use lockkeeper::{Keeper, LeasedLimiter, Limit, Limiter, Source};

use super::allocating::counted;
use crate::arm::Arm;
use crate::limits::{BareCall, Checks, Subjects, ensure_allowed, limiter, plenty, subject};
use crate::pair::{Compared, Plan};
use crate::row::Row;
use crate::runtime::{Flavour, on};
use crate::spread::Spread;
use crate::stage::Stage;
use crate::units::Unit;

const SUBJECTS: Subjects = Subjects::InTurn(16);
const HOUR: Duration = Duration::from_secs(3600);

/// Refused by the store once, and then remembered.
struct Refused(Limiter);

/// Out of leased tokens.
struct Leased(LeasedLimiter);

impl Arm for Refused {
    async fn cycle(&mut self, number: u64) -> Result<()> {
        let verdict = self.0.check(subject(0)).await?;
        let source = verdict.detail().source();
        anyhow::ensure!(number < 2 || !verdict.is_allowed() && source != Source::Leased, "{verdict:?}");
        Ok(())
    }
}

impl Arm for Leased {
    async fn cycle(&mut self, _number: u64) -> Result<()> {
        ensure_allowed(&self.0.check(subject(0)).await?)
    }
}

pub(crate) fn measure(_plan: &Plan) -> Result<Vec<Row>> {
    let stage = Stage::set(Flavour::OneThread)?;
    let limiter = limiter(&stage.keeper, plenty()?)?;
    let exact = limiter.clone().exact();
    let bare = BareCall::like(&exact, &stage)?;
    let counts = Compared::of(&[(
        on(&stage.runtime, counted(bare.on(SUBJECTS)))?,
        on(&stage.runtime, counted(Checks(exact, SUBJECTS)))?,
    )])?;
    let leased = on(&stage.runtime, counted(Leased(limiter.leased()?)))?;
    let refusing = crate::limits::limiter(&stage.keeper, Limit::fixed_window_from_first(1, HOUR)?)?;
    let remembered = on(&stage.runtime, counted(Refused(refusing)))?;
    stage.strike()?;
    let work = |what: &str| format!("allocations per check: {what}");
    let alone = |what: &str, count: f64| Row::alone(work(what), Unit::Allocations, Spread::single(count));
    Ok(vec![
        Row::compared(work("Redis"), Unit::Allocations, counts).note("the subject is made anew for each: 1"),
        alone("memory store", in_memory()?),
        alone("leased", leased),
        alone("denied and remembered", remembered),
    ])
}

fn in_memory() -> Result<f64> {
    let runtime = Flavour::OneThread.start()?;
    on(&runtime, async {
        let keeper = Keeper::connect("memory://").await?;
        counted(Checks(limiter(&keeper, plenty()?)?, SUBJECTS)).await
    })
}
