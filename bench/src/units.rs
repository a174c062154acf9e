//! Figures for people.

use serde::Serialize;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    Nanoseconds,
    PerSecond,
    PercentOfACore,
    Bytes,
    Connections,
    Allocations,
    Commands,
    Tokens,
}

impl Unit {
    pub(crate) fn show(self, figure: f64) -> String {
        match self {
            Self::Nanoseconds if figure >= 1_000_000.0 => format!("{:.2} ms", figure / 1_000_000.0),
            Self::Nanoseconds if figure >= 1_000.0 => format!("{:.1} µs", figure / 1_000.0),
            Self::Nanoseconds => format!("{figure:.0} ns"),
            Self::PerSecond => format!("{figure:.0} /s"),
            Self::PercentOfACore => format!("{figure:.2} %"),
            Self::Bytes => format!("{figure:.0} bytes"),
            Self::Connections | Self::Tokens => format!("{figure:.0}"),
            Self::Commands => format!("{figure:.2}"),
            Self::Allocations => format!("{figure:.1}"),
        }
    }
}
