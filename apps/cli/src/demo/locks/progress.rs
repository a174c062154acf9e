//! A bar that shows how far it is, on terminals only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const TEMPLATE: &str = "[{bar:40}] {pos} of {len}";

/// Drawn on standard error, wiped when dropped.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Of `whole` steps; draws nothing unless it is wanted and seen.
    pub(super) fn new(whole: u64, wanted: bool) -> Self {
        let target = if wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::with_draw_target(Some(whole), target).with_style(style.progress_chars("#>.")))
    }

    /// So many more steps are done.
    pub(super) fn add(&mut self, steps: u64) {
        self.0.inc(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
