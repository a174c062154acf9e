//! Where looks go: a screen that is drawn anew, lines, or JSON.

use std::io;

use super::screen::Screen;
use super::show::write_line;

/// How looks are shown.
pub(crate) enum Form {
    Screen(Screen),
    Lines,
    Json,
}

impl Form {
    /// JSON where it was asked for, a screen on a terminal, else lines.
    pub(crate) fn new(json: bool) -> Self {
        match Screen::new() {
            _ if json => Self::Json,
            Some(screen) => Self::Screen(screen),
            None => Self::Lines,
        }
    }

    /// Draws, where it is a screen.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.draw(lines),
            Self::Lines | Self::Json => Ok(()),
        }
    }

    /// Leaves the terminal to what comes after.
    pub(crate) fn end(&self) {
        if let Self::Screen(_) = self {
            let _ = write_line("");
        }
    }
}
