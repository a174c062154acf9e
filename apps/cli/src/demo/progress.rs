//! A line that shows how far it is, on terminals only.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const WIDTH: u64 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// Drawn on standard error, wiped when dropped.
pub(super) struct Progress {
    whole: u64,
    done: u64,
    drawn: Instant,
    shown: bool,
}

impl Progress {
    /// Of `whole` steps; draws nothing unless it is wanted and seen.
    pub(super) fn new(whole: u64, wanted: bool) -> Self {
        let shown = wanted && std::io::stderr().is_terminal();
        let progress = Self { whole: whole.max(1), done: 0, drawn: Instant::now(), shown };
        progress.draw();
        progress
    }

    /// So many more steps are done.
    pub(super) fn add(&mut self, steps: u64) {
        self.done = (self.done + steps).min(self.whole);
        if self.drawn.elapsed() >= PAUSE {
            self.drawn = Instant::now();
            self.draw();
        }
    }

    fn draw(&self) {
        if self.shown {
            let full = self.done * WIDTH / self.whole;
            let bar: String = (0..WIDTH).map(|at| if at < full { '#' } else { '.' }).collect();
            let _ = write!(std::io::stderr(), "\r[{bar}] {} of {}", self.done, self.whole);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
