//! How far the crowd is, on terminals only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lockkeeper_shop::buyers::Progress;

const TEMPLATE: &str = "{prefix:<10} [{bar:40}] {pos} of {len} buyers, {msg} clicks";

/// Drawn on standard error, wiped when dropped.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// Draws nothing unless it is wanted and seen.
    pub(super) fn new(name: &'static str, whole: u32, wanted: bool) -> Self {
        let target = if wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(u64::from(whole)), target);
        Self(bar.with_style(style.progress_chars("#>.")).with_prefix(name))
    }

    pub(super) fn show(&self, progress: Progress) {
        self.0.set_position(u64::from(progress.finished));
        self.0.set_message(progress.requests.to_string());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
