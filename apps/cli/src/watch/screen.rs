//! A few lines on a terminal, written over again.

use std::io::{self, Write};

use console::{Term, truncate_str};

/// Lines that replace those before them, without flicker: all at once, and only what is longer is wiped.
pub(crate) struct Screen {
    terminal: Term,
    drawn: usize,
}

impl Screen {
    /// Where standard output is a terminal that can move its cursor.
    pub(crate) fn new() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        let terminal = Term::buffered_stdout();
        (terminal.is_term() && !is_dumb).then_some(Self { terminal, drawn: 0 })
    }

    /// Shows these lines, cut to the terminal's size.
    pub(crate) fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let (rows, columns) = self.terminal.size();
        let lines = &lines[..lines.len().min(usize::from(rows).saturating_sub(1).max(1))];
        if self.drawn > 0 {
            self.terminal.move_cursor_up(self.drawn)?;
        }
        for line in lines {
            self.terminal.write_str(&truncate_str(line, usize::from(columns), "…"))?;
            self.terminal.write_all(b"\x1b[K\r\n")?;
        }
        self.terminal.clear_to_end_of_screen()?;
        self.drawn = lines.len();
        self.terminal.flush()
    }
}
