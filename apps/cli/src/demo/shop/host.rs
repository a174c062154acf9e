//! Who serves the shop: this process, or several that it starts, one of which it kills.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use lockkeeper_shop::sale::{Mode, Seen};
use lockkeeper_shop::serve::{Running, ServeArgs, start};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::outcome::WorkersSaw;
use super::stage::Stage;

/// What a process says before its address.
pub(super) const LISTENING: &str = "listening on ";
/// When the second worker takes what the first one left.
const CLAIM_AFTER: Duration = Duration::from_millis(500);

/// The shop of one act.
pub(super) struct Host {
    /// In this process; with processes, a part of the shop that nobody is sent to.
    running: Running,
    workers: Vec<JoinHandle<()>>,
    /// What they count, also those that crashed.
    seen: Vec<Arc<Seen>>,
    /// Ended with this when dropped.
    processes: Vec<(Child, SocketAddr)>,
}

impl Host {
    /// Starts serving.
    pub(super) async fn open(stage: &Stage, mode: Mode) -> anyhow::Result<Self> {
        let mut args = stage.serve_args(mode)?;
        // Its workers are in our hands: one of them will crash.
        args.no_worker = true;
        let listen = args.listen;
        let running = start(args).await?;
        let mut host = Self { running, workers: vec![], seen: vec![], processes: vec![] };
        for _ in 0..stage.processes {
            let mut args = stage.serve_args(mode)?;
            args.listen = SocketAddr::new(listen.ip(), 0);
            host.processes.push(process(&args).await?);
        }
        if host.processes.is_empty() {
            host.work("first");
        }
        Ok(host)
    }

    /// Where buyers go.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        match &self.processes[..] {
            [] => vec![self.running.address()],
            processes => processes.iter().map(|(_, address)| *address).collect(),
        }
    }

    /// The part of the shop that is in this process.
    pub(super) fn first(&self) -> SocketAddr {
        self.running.address()
    }

    pub(super) fn running(&self) -> &Running {
        &self.running
    }

    /// What happens midway: the first worker crashes, with the process that it is in where it has one, and another one goes
    /// on.
    pub(super) async fn crash(&mut self) -> anyhow::Result<()> {
        if self.processes.is_empty() {
            self.workers.drain(..).for_each(|worker| worker.abort());
            self.work("second");
        } else {
            let (mut process, _) = self.processes.remove(0);
            process.kill().await.context("killing a process of the shop")?;
        }
        Ok(())
    }

    /// What the workers of this process saw, those that crashed included. `None`: they are in other processes.
    pub(super) fn workers_saw(&self) -> Option<WorkersSaw> {
        let all = self.seen.iter().map(|seen| seen.tally());
        all.map(|tally| WorkersSaw { taken_over: tally.taken_over, written_before: tally.duplicates })
            .reduce(|one, other| one + other)
    }

    fn work(&mut self, name: &str) {
        let worker = self.running.shop().sales().worker(name).claim_after(CLAIM_AFTER);
        self.seen.push(worker.seen());
        self.workers.push(tokio::spawn(worker.run(std::future::pending())));
    }

    /// Ends everything.
    pub(super) async fn close(mut self) {
        self.workers.drain(..).for_each(|worker| worker.abort());
        for (mut process, _) in self.processes.drain(..) {
            let _ = process.kill().await;
        }
        self.running.stop().await;
    }
}

/// This program, started again. What it writes to standard error is nobody's business, unless somebody asked for a log.
async fn process(args: &ServeArgs) -> anyhow::Result<(Child, SocketAddr)> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args(["demo", "process", "--", "--listen", &args.listen.to_string(), "--sku", args.sku.as_str()]);
    command.args(["--stock", &args.stock.to_string()]);
    command.args([
        "--sale-limit",
        &args.sale_limit.to_string(),
        "--buyer-limit",
        &args.buyer_limit.to_string(),
    ]);
    if args.naive {
        command.arg("--naive");
    }
    // Not as arguments: others can read those, and they may contain passwords.
    command.env("LOCKKEEPER_URL", &args.url).env("LOCKKEEPER_DATABASE", &args.database);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().context("starting this program again")?;
    let output = child.stdout.take().context("a process without output")?;
    let line =
        BufReader::new(output).lines().next_line().await?.context("a process of the shop did not start")?;
    let address =
        line.strip_prefix(LISTENING).with_context(|| format!("a process of the shop says `{line}`"))?;
    Ok((child, address.parse()?))
}
