//! Processes that are killed, and processes that are stopped and come back.
//!
//! The tests start themselves again as the other process; see `once_child`.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use lockkeeper::{Begun, Fence, Keeper, OnCrash, Once};
use lockkeeper_faults::RedisServer;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{begin, claim, replay, request, running, whole};
use crate::support::{keeper, ms, secs, server};

const LEASE: Duration = ms(1500);
const URL: &str = "LOCKKEEPER_ONCE_URL";

fn described(keeper: &Keeper, policy: OnCrash) -> Once {
    keeper.once("process").unwrap().lease(LEASE).on_crash(policy)
}

/// Another process, in the middle of its work.
struct Other {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
    go_on: ChildStdin,
    fence: Fence,
}

impl Other {
    fn claims(server: &RedisServer) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "process::once_child", "--ignored", "--nocapture"]).env(URL, server.url());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let go_on = child.stdin.take().unwrap();
        let mut other = Self { child, said, go_on, fence: Fence::new(0) };
        other.fence = Fence::new(other.hears("claimed").parse().unwrap());
        other
    }

    /// What it says after `name=`.
    fn hears(&mut self, name: &str) -> String {
        let said = self
            .said
            .find_map(|line| line.unwrap().split_once(&format!("{name}=")).map(|(_, said)| said.to_owned()));
        said.unwrap()
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// C7: at once it runs elsewhere, as far as anybody knows; after the lease the next caller runs it, as the second attempt.
#[tokio::test]
async fn c7_what_a_killed_process_ran_is_run_again_after_its_lease() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let once = described(&keeper, OnCrash::Rerun);
    let other = Other::claims(&server);
    let fence = other.fence;
    other.kill();
    let killed = Instant::now();
    let hint = running(&once, "k").await;
    assert!(hint <= LEASE && !hint.is_zero(), "{hint:?}");
    let patient = once.clone().wait(secs(10));
    let Begun::Claimed(attempt) = begin(&patient, "k").await else { panic!() };
    assert!(killed.elapsed() < LEASE + secs(2), "{:?}", killed.elapsed());
    assert_eq!((attempt.attempt(), attempt.is_takeover()), (2, true));
    assert!(attempt.fence() > fence);
    attempt.complete(whole("second")).await.unwrap();
    assert_eq!(replay(&once, "k").await.stored, whole("second"));
}

/// C8: whether a withdrawal had its effect is not known, and nobody makes another.
#[tokio::test]
async fn c8_what_a_killed_process_ran_is_held_where_it_must_not_be_repeated() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let other = Other::claims(&server);
    let fence = other.fence;
    other.kill();
    // The policy is that of the claim, not of whoever asks; the child's key `held` is held.
    let once = described(&keeper, OnCrash::Rerun).wait(secs(10));
    let Begun::Unknown { fence: shown, .. } = begin(&once, "held").await else { panic!("it was run") };
    assert!(shown > fence, "of the claim that came after that of `k`");
    let done = lockkeeper::Resolution::Completed(whole("it was paid"));
    let resolved = once.resolve("held", shown, done).await.unwrap();
    assert_eq!(resolved, lockkeeper::ResolveReply::Resolved);
    assert_eq!(replay(&once, "held").await.stored, whole("it was paid"));
}

/// C13: stopped past its lease, taken over, and back again: told, and without any effect on the record.
#[tokio::test]
async fn c13_a_stopped_process_comes_back_to_a_claim_that_is_anothers() {
    let Some(server) = server() else { return };
    let keeper = keeper(&server).await;
    let once = described(&keeper, OnCrash::Rerun);
    let mut other = Other::claims(&server);
    other.send(Signal::STOP);
    let Begun::Claimed(attempt) = begin(&once.clone().wait(secs(10)), "k").await else { panic!() };
    assert!(attempt.is_takeover() && attempt.fence() > other.fence);
    other.send(Signal::CONT);
    other.go_on.write_all(b"\n").unwrap();
    assert_eq!(other.hears("valid"), "false", "it knows before it asks");
    let loss = other.hears("loss");
    assert!(loss.contains("ended") || loss.contains("held by another"), "{loss}");
    let completed = other.hears("completed");
    assert!(completed.contains("taken over by"), "{completed}");
    other.kill();
    assert!(attempt.is_valid(), "untouched by the other's end");
    running(&once, "k").await;
    attempt.complete(whole("of the second")).await.unwrap();
    assert_eq!(replay(&once, "k").await.stored, whole("of the second"));
}

#[tokio::test]
#[ignore = "a child of the tests above"]
async fn once_child() {
    let Ok(url) = std::env::var(URL) else { return };
    let keeper = Keeper::connect(&url).await.unwrap();
    let attempt = claim(&described(&keeper, OnCrash::Rerun), "k").await;
    let held = described(&keeper, OnCrash::Hold(secs(600))).begin("held", request()).await.unwrap();
    println!("claimed={}", attempt.fence());
    // Until somebody says so, or kills us.
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    println!("valid={}", attempt.is_valid());
    println!("loss={}", attempt.lost().await);
    println!(
        "completed={:?}",
        attempt.complete(whole("of the first")).await.map_err(|error| error.to_string())
    );
    drop(held);
}
