//! The server is killed, or stopped, while it handles a request: a real process, in real time.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use axum::extract::Request;
use lockkeeper::{Keeper, OnCrash, Once};
use lockkeeper_faults::{RedisServer, ServerKind, available};
use lockkeeper_testkit::wait::until;
use lockkeeper_tower::idempotency::Claim;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

const URL: &str = "LOCKKEEPER_KILLED_URL";
const LEASE: Duration = Duration::from_secs(2);

fn leased(keeper: &Keeper) -> Once {
    orders(keeper).lease(LEASE)
}

/// Kills it in any case.
struct Victim {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Victim {
    fn start(url: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::victim", "--ignored", "--nocapture"]).stdout(Stdio::piped());
        let mut child = command.env(URL, url).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut victim = Self { child, said };
        victim.hears("runs");
        victim
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What it says after `name=`.
    fn hears(&mut self, name: &str) -> String {
        let name = format!("{name}=");
        self.said.find_map(|line| Some(line.unwrap().split_once(&name)?.1.to_owned())).unwrap()
    }

    fn kill(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Begins, and does not end before its claim is lost.
#[tokio::test]
#[ignore = "a child of the tests below"]
async fn victim() {
    let Ok(url) = std::env::var(URL) else { return };
    let keeper = Keeper::connect(&url).await.unwrap();
    let on_crash = if url.ends_with("/1") { OnCrash::Hold(secs(3600)) } else { OnCrash::Rerun };
    let once = leased(&keeper).on_crash(on_crash);
    let (router, _) = app(builder(once), |_, request: Request| async move {
        let claim = request.extensions().get::<Claim>().unwrap().clone();
        println!("runs={}", claim.attempt());
        claim.lost().await;
        "late"
    });
    let answer = send(&router, post("1", "")).await;
    println!("answer={} {}, {:?}", answer.status(), answer.problem_type(), answer.field("retry-after"));
}

/// A request whose server was killed while it ran, and what another server makes of that.
async fn killed_mid_handler(url: &str) -> (axum::Router, Runs, Instant) {
    let (mut victim, router, runs) = mid_handler(url).await;
    victim.kill();
    (router, runs, Instant::now())
}

/// A server that handles a request, and another one.
async fn mid_handler(url: &str) -> (Victim, axum::Router, Runs) {
    let victim = Victim::start(url);
    let keeper = Keeper::connect(url).await.unwrap();
    let (router, runs) = app(builder(leased(&keeper)), |_, request: Request| async move {
        let claim = request.extensions().get::<Claim>().unwrap();
        format!("attempt {}, takeover {}", claim.attempt(), claim.is_takeover())
    });
    (victim, router, runs)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_after_a_kill_it_is_running_until_the_lease_ends_and_then_runs_as_a_takeover() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let (router, runs, killed) = killed_mid_handler(&server.url()).await;
    let at_once = send(&router, post("1", "")).await;
    assert_eq!((at_once.status(), at_once.problem_type()), (409, "idempotency-running".to_owned()));
    let wait: u64 = at_once.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=LEASE.as_secs()).contains(&wait), "{wait}");
    until("the lease has ended", LIMIT, async || send(&router, post("1", "")).await.status() == 200).await;
    assert!(killed.elapsed() <= LEASE + secs(1), "with a second to spare: {:?}", killed.elapsed());
    let replay = send(&router, post("1", "")).await;
    assert_eq!((replay.text(), replay.is_replay()), ("attempt 2, takeover true", true));
    assert_eq!(runs.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c8_after_a_kill_a_held_outcome_is_unknown_and_nothing_runs() {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let (router, runs, _) = killed_mid_handler(&format!("{}/1", server.url())).await;
    let outcome_unknown = async || {
        let answer = send(&router, post("1", "")).await;
        answer.status() == 409 && answer.problem_type() == "idempotency-outcome-unknown"
    };
    until("the lease has ended", LIMIT, outcome_unknown).await;
    assert_eq!(send(&router, post("1", "other")).await.status(), 422, "the key is still that request's");
    assert_eq!(runs.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c13_a_server_that_was_stopped_past_its_lease_finds_its_claim_taken_and_says_so_without_asking_to_repeat_it()
 {
    if !available(ServerKind::Redis) {
        return;
    }
    let server = RedisServer::builder().start().unwrap();
    let (mut victim, router, runs) = mid_handler(&server.url()).await;
    victim.send(Signal::STOP);
    until("the lease has ended", LIMIT, async || send(&router, post("1", "")).await.status() == 200).await;
    victim.send(Signal::CONT);
    assert_eq!(victim.hears("answer"), "409 idempotency-attempt-lost, None");
    let replay = send(&router, post("1", "")).await;
    assert_eq!((replay.text(), replay.is_replay()), ("attempt 2, takeover true", true), "untouched");
    assert_eq!(runs.count(), 1);
}
