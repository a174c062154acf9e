//! One line of the result.

use serde::Serialize;

use crate::pair::Compared;
use crate::spread::Spread;
use crate::units::Unit;

/// What was measured, and what it is held to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) unit: Unit,
    /// The arm that does without Lockkeeper, where there is one.
    pub(crate) bare: Option<Spread>,
    /// `None`: could not be measured; the note says why.
    pub(crate) lockkeeper: Option<Spread>,
    /// Lockkeeper's figure divided by the bare one, turn by turn.
    pub(crate) ratio: Option<Spread>,
    pub(crate) mark: Option<Mark>,
    pub(crate) reached: Option<bool>,
    pub(crate) note: Option<String>,
}

/// What a row is held to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "of", content = "limit")]
pub(crate) enum Mark {
    /// The ratio's median is at most this.
    RatioAtMost(f64),
    /// The ratio's median is at least this.
    RatioAtLeast(f64),
    /// Lockkeeper's median is at most this.
    AtMost(f64),
    /// Lockkeeper's median is at least this.
    AtLeast(f64),
    /// Lockkeeper's median is below this.
    Below(f64),
    /// Lockkeeper's median is exactly this.
    Exactly(f64),
}

impl Row {
    /// Lockkeeper alone.
    pub(crate) fn alone(work: impl Into<String>, unit: Unit, figure: Spread) -> Self {
        let lockkeeper = Some(figure);
        Self {
            work: work.into(),
            unit,
            bare: None,
            lockkeeper,
            ratio: None,
            mark: None,
            reached: None,
            note: None,
        }
    }

    /// Both arms.
    pub(crate) fn compared(work: impl Into<String>, unit: Unit, compared: Compared) -> Self {
        let row = Self::alone(work, unit, compared.lockkeeper);
        Self { bare: Some(compared.bare), ratio: Some(compared.ratio), ..row }
    }

    /// Lockkeeper alone, divided by something that is no arm; a note says what.
    pub(crate) fn divided(work: impl Into<String>, unit: Unit, figure: Spread, ratio: Spread) -> Self {
        Self { ratio: Some(ratio), ..Self::alone(work, unit, figure) }
    }

    /// The bare arm alone: there is nothing of Lockkeeper in it.
    pub(crate) fn bare_alone(work: impl Into<String>, unit: Unit, figure: Spread) -> Self {
        let row = Self::alone(work, unit, figure);
        Self { bare: row.lockkeeper, lockkeeper: None, ..row }
    }

    /// What could not be measured here, and why.
    pub(crate) fn missing(work: impl Into<String>, unit: Unit, why: impl Into<String>) -> Self {
        let row = Self::alone(work, unit, Spread::single(0.0));
        Self { lockkeeper: None, note: Some(format!("NOT MEASURED: {}", why.into())), ..row }
    }

    #[must_use]
    pub(crate) fn mark(mut self, mark: Mark) -> Self {
        self.mark = Some(mark);
        self.reached = mark.is_reached(self.lockkeeper, self.ratio);
        self
    }

    #[must_use]
    pub(crate) fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

impl Mark {
    /// `None`: nothing was measured that could be held to it.
    fn is_reached(self, figure: Option<Spread>, ratio: Option<Spread>) -> Option<bool> {
        let (figure, ratio) = (figure.map(|spread| spread.median), ratio.map(|spread| spread.median));
        match self {
            Self::RatioAtMost(limit) => ratio.map(|ratio| ratio <= limit),
            Self::RatioAtLeast(limit) => ratio.map(|ratio| ratio >= limit),
            Self::AtMost(limit) => figure.map(|figure| figure <= limit),
            Self::AtLeast(limit) => figure.map(|figure| figure >= limit),
            Self::Below(limit) => figure.map(|figure| figure < limit),
            Self::Exactly(wanted) => figure.map(|figure| figure == wanted),
        }
    }

    pub(crate) fn show(self, unit: Unit) -> String {
        match self {
            Self::RatioAtMost(limit) => format!("ratio ≤ {limit:.2}"),
            Self::RatioAtLeast(limit) => format!("ratio ≥ {limit:.2}"),
            Self::AtMost(limit) => format!("≤ {}", unit.show(limit)),
            Self::AtLeast(limit) => format!("≥ {}", unit.show(limit)),
            Self::Below(limit) => format!("< {}", unit.show(limit)),
            Self::Exactly(wanted) => format!("= {}", unit.show(wanted)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_reaches_nothing() {
        let missing = Row::missing("x", Unit::Nanoseconds, "no server").mark(Mark::Below(5.0));
        assert_eq!(missing.reached, None);
        let alone = Row::alone("x", Unit::Nanoseconds, Spread::single(4.0));
        assert_eq!(alone.clone().mark(Mark::RatioAtMost(1.0)).reached, None);
        assert_eq!(alone.clone().mark(Mark::Below(5.0)).reached, Some(true));
        assert_eq!(alone.mark(Mark::Below(4.0)).reached, Some(false));
    }
}
