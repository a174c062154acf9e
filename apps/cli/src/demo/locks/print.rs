//! The outcome for people and for programs.

use std::time::Duration;

use super::line::{HOLD, ROUNDS};
use super::outcome::{Counted, Line, Outcome, Stalled, Trouble};
use super::stall::{FIRST, LATE, SECOND, SHORT_LEASE};
use super::trouble::HELD;
use crate::common;

const CONCLUSION: &str = "\
What to conclude: a lock is a lease. It keeps workers apart as long as each of
them is done before its lease ends; one that is paused, cut off or suspended
does not notice in time, and no lock can stop it. So let the resource check the
fence that comes with every lock (guard.fence()?), and refuse a smaller one.";

pub(super) fn outcome(outcome: &Outcome, json: bool) -> anyhow::Result<()> {
    if json {
        return common::print_json(outcome);
    }
    common::print(&text(outcome))
}

fn text(outcome: &Outcome) -> String {
    let parts = [
        heading(outcome),
        counted("Without a lock", &outcome.without_lock),
        format!("{}\n{}", counted("Under a lock", &outcome.under_lock), speed(&outcome.under_lock)),
        waiting(&outcome.line),
        stalled(&outcome.stalled),
        trouble(&outcome.trouble),
        CONCLUSION.to_owned(),
    ];
    parts.join("\n\n")
}

fn heading(outcome: &Outcome) -> String {
    let Outcome { store, processes, workers, rounds, .. } = outcome;
    let (who, counter) = match processes {
        1 => (format!("{workers} tasks"), "a counter"),
        _ => (format!("{workers} tasks in {processes} processes"), "a counter in a file"),
    };
    format!(
        "Locks on {store}\n\
         {who} add one to {counter}, {rounds} times each:\n\
         read it, give way, write it."
    )
}

fn counted(title: &str, counted: &Counted) -> String {
    let verdict = match counted.lost() {
        0 => "none lost".to_owned(),
        1 => "1 update lost".to_owned(),
        lost => format!("{lost} updates lost"),
    };
    format!("{title:<16}{} updates, the counter says {}: {verdict}", counted.updates, counted.counter)
}

fn speed(counted: &Counted) -> String {
    format!(
        "{:16}{} for all, {:.0} per second, longest wait {}",
        "",
        seconds(counted.took),
        counted.per_second(),
        seconds(counted.longest_wait)
    )
}

fn waiting(line: &Line) -> String {
    let Line { first_keeper, of_these_with_another_lease, second_keeper, acquisitions, .. } = line;
    let waited = &line.waited;
    format!(
        "Waiting in line: {first_keeper} tasks of this process want one lock, {of_these_with_another_lease} of them with \
         another\nlease, and {second_keeper} of a second keeper, as in another process; {ROUNDS} times each,\n\
         for {} every time: {acquisitions} in all.\n\
         \x20 handed over  {} inside the process, {} by a swap, {} by the store\n\
         \x20 waited       half {} at most, 90 % {}, 99 % {}, longest {}",
        seconds(HOLD),
        line.in_process,
        line.by_swap,
        line.by_server,
        seconds(waited.p50),
        seconds(waited.p90),
        seconds(waited.p99),
        seconds(waited.longest),
    )
}

fn trouble(trouble: &Trouble) -> String {
    let Trouble { refused, renewals, lost, late_release, degraded, .. } = trouble;
    format!(
        "Trouble, as it is counted (see --metrics):\n\
         \x20 refused   a try: {refused}\n\
         \x20 renewed   {renewals} times, a lease of {} held for {}\n\
         \x20 lost      a lease that was not renewed: {lost}\n\
         \x20 late      its release: {late_release}\n\
         \x20 degraded  {degraded}: taken inside this process only",
        seconds(SHORT_LEASE),
        seconds(HELD),
    )
}

fn stalled(stalled: &Stalled) -> String {
    let lease_ms = SHORT_LEASE.as_millis();
    let verdict = |accepted| if accepted { "accepted" } else { "refused" };
    format!(
        "A stalled worker: its lease of {lease_ms} ms is not renewed and runs out.\n\
         \x20 first   takes the lock, fence {}, and writes \"{FIRST}\"\n\
         \x20 first   stalls ({})\n\
         \x20 second  takes the lock, fence {}, and writes \"{SECOND}\"\n\
         \x20 first   wakes up and writes \"{LATE}\" with its fence {}\n\
         \x20 A resource that checks fences: {}, holds \"{}\"\n\
         \x20 One that does not:             {}, holds \"{}\"",
        stalled.first_fence,
        stalled.first_lost,
        stalled.second_fence,
        stalled.first_fence,
        verdict(stalled.fenced_accepted),
        stalled.fenced_holds,
        verdict(stalled.plain_accepted),
        stalled.plain_holds,
    )
}

fn seconds(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}
