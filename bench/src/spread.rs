//! The median of several figures and their range.

use serde::Serialize;

/// Figures, summed up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// One figure, measured once.
    pub(crate) fn single(figure: f64) -> Self {
        Self { median: figure, least: figure, most: figure }
    }

    /// `None` of nothing.
    pub(crate) fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (least, most) = (*figures.first()?, *figures.last()?);
        let (low, high) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
        Some(Self { median: f64::midpoint(low, high), least, most })
    }

    /// Was measured more than once.
    pub(crate) fn has_range(&self) -> bool {
        self.least < self.most
    }
}

/// The value below which `part` of the values lie, to the nearest rank; sorts them. Zero of nothing.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * part).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.5, least: 1.0, most: 4.0 });
        assert_eq!(Spread::of(vec![3.0, 9.0, 1.0]).unwrap().median, 3.0);
        assert!(Spread::of(vec![]).is_none());
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!((quantile(&mut values, 0.5), quantile(&mut values, 0.99)), (50.0, 99.0));
    }
}
