//! How the demo and its processes talk: one line at a time, over standard input and output.

use std::io::{BufRead, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A process is ready to begin.
pub(super) const READY: &str = "ready";
/// It shall begin, or go on.
pub(super) const GO: &str = "go";
/// So many more updates are done: `did UPDATES`.
pub(super) const DID: &str = "did";
/// All its workers are done: `done UPDATES LONGEST_WAIT_US`.
pub(super) const DONE: &str = "done";
/// It holds the lock: `held FENCE`.
pub(super) const HELD: &str = "held";
/// Its lease has ended: `lost REASON`.
pub(super) const LOST: &str = "lost";
/// It writes, late: `write FENCE`.
pub(super) const WRITE: &str = "write";

/// Says one line to the demo.
pub(super) fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Waits until the demo says that it may go on. Its end is an error, so that no process outlives it for long.
pub(super) fn wait_for_go() -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    anyhow::ensure!(line.trim() == GO, "the demo has ended");
    Ok(())
}

/// Ends this process when the demo has ended, unless it is `done` by then.
pub(super) fn end_with_the_demo(done: &Arc<AtomicBool>) {
    let done = done.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        if !done.load(Ordering::Acquire) {
            std::process::exit(1);
        }
    });
}

/// What follows `word` in `line`.
pub(super) fn after<'a>(line: &'a str, word: &str) -> anyhow::Result<&'a str> {
    let rest = line.strip_prefix(word);
    rest.map(str::trim)
        .ok_or_else(|| anyhow::anyhow!("a process of the demo says `{line}` instead of `{word}`"))
}

/// The number that follows `word` in `line`.
pub(super) fn number<N: FromStr>(line: &str, word: &str) -> anyhow::Result<N> {
    let text = after(line, word)?;
    text.parse().map_err(|_| anyhow::anyhow!("a process of the demo says `{line}`, without a number"))
}
