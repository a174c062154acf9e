//! Two arms in turns, so that whatever else the machine does hits both.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::spread::Spread;
use crate::turn::Turn;

/// How often and how long, and with which program where it takes several processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) turns: u32,
    pub(crate) turn: Duration,
    pub(crate) peer: &'static str,
}

/// What two arms did, turn by turn: bare, Lockkeeper.
#[derive(Debug)]
pub(crate) struct Pairs(Vec<(Turn, Turn)>);

/// A figure of two arms, summed up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    pub(crate) bare: Spread,
    pub(crate) lockkeeper: Spread,
    pub(crate) ratio: Spread,
}

impl Plan {
    /// Each arm runs for the time it is given. The first turn of both only warms up; then who goes first changes from
    /// turn to turn.
    pub(crate) fn compare(
        &self,
        mut bare: impl FnMut(Duration) -> Result<Turn>,
        mut lockkeeper: impl FnMut(Duration) -> Result<Turn>,
    ) -> Result<Pairs> {
        bare(self.turn)?;
        lockkeeper(self.turn)?;
        let mut pairs = Vec::new();
        for turn in 0..self.turns {
            if turn % 2 == 0 {
                let first = bare(self.turn)?;
                pairs.push((first, lockkeeper(self.turn)?));
            } else {
                let first = lockkeeper(self.turn)?;
                pairs.push((bare(self.turn)?, first));
            }
        }
        Ok(Pairs(pairs))
    }

    /// The same for one arm that has no other.
    pub(crate) fn repeat(&self, mut arm: impl FnMut(Duration) -> Result<f64>) -> Result<Spread> {
        arm(self.turn)?;
        let figures: Result<Vec<f64>> = (0..self.turns).map(|_| arm(self.turn)).collect();
        Spread::of(figures?).context("no turn was taken")
    }
}

impl Pairs {
    /// Compares one figure of the turns.
    pub(crate) fn by(&self, figure: fn(&Turn) -> f64) -> Result<Compared> {
        let figures: Vec<_> = self.0.iter().map(|(bare, ours)| (figure(bare), figure(ours))).collect();
        Compared::of(&figures)
    }
}

impl Compared {
    /// From pairs of figures: bare, Lockkeeper.
    pub(crate) fn of(pairs: &[(f64, f64)]) -> Result<Self> {
        ensure!(pairs.iter().all(|(bare, _)| *bare > 0.0), "the bare arm did nothing");
        let summed = |figure: fn(&(f64, f64)) -> f64| {
            Spread::of(pairs.iter().map(figure).collect()).context("no turn was taken")
        };
        Ok(Self {
            bare: summed(|pair| pair.0)?,
            lockkeeper: summed(|pair| pair.1)?,
            ratio: summed(|pair| pair.1 / pair.0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_taken_turn_by_turn() {
        let compared = Compared::of(&[(10.0, 11.0), (100.0, 110.0), (1000.0, 1200.0)]).unwrap();
        assert!((compared.ratio.median - 1.1).abs() < 1e-9 && (compared.ratio.most - 1.2).abs() < 1e-9);
        assert!(Compared::of(&[(0.0, 1.0)]).is_err() && Compared::of(&[]).is_err());
    }

    #[test]
    fn arms_alternate_after_a_warm_up() {
        let order = std::cell::RefCell::new(String::new());
        let plan = Plan { turns: 2, turn: Duration::ZERO, peer: "" };
        let arm = |letter| {
            let order = &order;
            move |_| {
                order.borrow_mut().push(letter);
                Ok(Turn { cycles: 1, elapsed: Duration::ZERO, cpu: Duration::ZERO })
            }
        };
        plan.compare(arm('b'), arm('l')).unwrap();
        assert_eq!(*order.borrow(), "blbllb");
    }
}
