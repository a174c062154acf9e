//! What is done when: the life of one child.
//!
//! ```text
//!            SIGTSTP to us               stopped, or 1 s later        100 ms later: SIGSTOP to all,
//! Running ───────────────────▶ Stopping ───────────────────▶ Settling  then we stop ourselves
//!    ▲ ▲     stopped by the terminal (Ctrl-Z, SIGTTIN)          ▲            │
//!    │ └──────────────────────────────────────────────────── (SIGCONT)       │ SIGCONT to us
//!    └───────────────────────────── Asking ◀─────────────────────────────────┘
//!          "still held": SIGCONT to all
//! ```
//!
//! Why *settling*: the child stopped, but others of its group may still be putting the terminal in order, or ignore
//! Ctrl-Z. The former need a moment; the latter must be stopped, for while we are stopped nobody renews the lease.
//!
//! Across all states: once the child is to be *ending*, it gets SIGTERM and, so that it can act on that even if it
//! is stopped, SIGCONT. At the latest instant its group gets SIGKILL. From then on nothing stops us.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::group::{Change, Group, named};
use super::sys::BeforeExec;
use super::terminal::Terminal;
use crate::run::supervisor::{Desk, Event, Order, Question};
use crate::run::{Ended, Interrupt};

/// How long the child may take to stop before it is stopped by SIGSTOP.
const STOP_BOUND: Duration = Duration::from_secs(1);

/// How long the rest of its group may take, after the child stopped.
const SETTLE: Duration = Duration::from_millis(100);

/// SIGKILL is sent this much early: timers are late by a tick, and dying takes a moment.
const KILL_EARLY: Duration = Duration::from_millis(10);

/// How often the group is looked at after the child ended: while it is to end, and while it may take its time.
const POLL_ENDING: Duration = Duration::from_millis(20);
const POLL: Duration = Duration::from_millis(100);

/// How long a group that got SIGKILL is looked at. The kernel may keep a member; we do not wait for that.
const KILLED_BOUND: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// The child runs, or somebody else stopped it behind our back, without the terminal: the lease is kept, and
    /// it is not ours to continue it.
    Running,
    /// We want to stop, and asked the child to stop first.
    Stopping { until: Instant },
    /// The child stopped by `signal`, and soon we do, with `job` our whole job.
    Settling { until: Instant, signal: i32, job: bool },
    /// We were continued. The child is still stopped.
    Asking { question: u64 },
}

/// The child is to end.
#[derive(Clone, Copy, Debug)]
struct Ending {
    kill_at: Instant,
    killed: bool,
}

/// One child, and all that is known about it.
struct Control {
    desk: Desk,
    terminal: Terminal,
    group: Group,
    state: State,
    ending: Option<Ending>,
    /// How the child itself ended, while others of its group are still there, and when to look at them next.
    left: Option<(Change, Instant)>,
    /// Whether the child should have the terminal whenever we are the foreground.
    wants_terminal: bool,
    /// Whether a SIGINT was passed to the child.
    interrupted: bool,
    questions: u64,
}

/// What wakes us up.
enum Input {
    Order(Order),
    Signal(i32),
    Time,
}

/// Starts the child and looks after it to its end.
pub(super) async fn supervise(desk: Desk) -> Ended {
    let mut terminal = Terminal::open();
    let wants_terminal = terminal.is_wanted_at_once();
    let given = if wants_terminal { terminal.for_child() } else { None };
    let before_exec = BeforeExec { terminal: given, reset_ttou: !desk.signals.ttou_was_ignored() };
    let group = match Group::spawn(&desk.spec, before_exec) {
        Ok(group) => group,
        Err(error) => {
            // It may have taken the terminal before the system found that there is no such program.
            if wants_terminal {
                terminal.take_back(None);
            }
            return Ended::from_spawn_error(error);
        }
    };
    let control = Control {
        desk,
        terminal,
        group,
        state: State::Running,
        ending: None,
        left: None,
        wants_terminal,
        interrupted: false,
        questions: 0,
    };
    control.run().await
}

impl Control {
    async fn run(mut self) -> Ended {
        loop {
            // Before anything else: a child that ended must not be signalled as if it lived.
            while let Some(change) = self.group.change() {
                self.on_change(change);
            }
            if let Some(end) = self.end() {
                return self.finish(end);
            }
            match self.input().await {
                Input::Order(Order::StopBy(deadline)) => self.stop_by(deadline),
                Input::Order(Order::GoOn(question)) => self.go_on(question),
                Input::Signal(signal) => self.on_signal(signal),
                Input::Time => self.on_time(Instant::now()),
            }
        }
    }

    async fn input(&mut self) -> Input {
        let due = self.due();
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = timer => Input::Time,
            Some(order) = self.desk.inbox.recv() => Input::Order(order),
            signal = self.desk.signals.recv() => Input::Signal(signal),
        }
    }

    /// When there is something to do even if nothing happens.
    fn due(&self) -> Option<Instant> {
        let kill = self.ending.filter(|ending| !ending.killed).map(|ending| ending.kill_at);
        let state = match self.state {
            State::Stopping { until } | State::Settling { until, .. } => Some(until),
            State::Running | State::Asking { .. } => None,
        };
        let look = self.left.map(|(_, look)| look);
        [kill, state, look].into_iter().flatten().min()
    }

    fn on_time(&mut self, now: Instant) {
        if let Some(ending) = &mut self.ending
            && !ending.killed
            && now >= ending.kill_at
        {
            ending.killed = true;
            self.group.signal(Signal::KILL);
        }
        match self.state {
            State::Stopping { until } if now >= until => {
                self.group.signal(Signal::STOP);
                self.settle(libc::SIGTSTP, false);
            }
            State::Settling { until, signal, job } if now >= until => self.suspend(signal, job),
            _ => {}
        }
        if let Some((_, look)) = &mut self.left
            && now >= *look
        {
            *look = now + if self.ending.is_some() { POLL_ENDING } else { POLL };
        }
    }

    fn on_change(&mut self, change: Change) {
        match change {
            Change::Exited(_) | Change::Killed(_) => self.left = Some((change, Instant::now())),
            Change::Stopped(signal) => self.on_stopped(signal),
            Change::Continued => {
                if let State::Settling { .. } = self.state {
                    self.state = State::Running;
                }
            }
        }
    }

    fn on_stopped(&mut self, signal: i32) {
        let for_terminal = matches!(signal, libc::SIGTTIN | libc::SIGTTOU);
        self.wants_terminal |= for_terminal;
        if for_terminal && self.terminal.give(self.group.id()) {
            self.group.signal(Signal::CONT);
            return;
        }
        if self.ending.is_some() {
            return;
        }
        match self.state {
            State::Running => {
                let had_terminal = self.terminal.is_held_by(self.group.id());
                match signal {
                    // Whoever sent this to the child alone will continue it alone: if we stopped too, it would
                    // then run while nobody renews the lease.
                    libc::SIGSTOP if !had_terminal => {}
                    libc::SIGSTOP => self.settle(libc::SIGTSTP, true),
                    signal => self.settle(signal, had_terminal),
                }
            }
            State::Stopping { .. } => self.settle(libc::SIGTSTP, false),
            State::Settling { .. } | State::Asking { .. } => {}
        }
    }

    fn on_signal(&mut self, signal: i32) {
        match (signal, self.state) {
            (libc::SIGCHLD, _) => {}
            (libc::SIGTSTP, _) if self.ending.is_some() => {}
            (libc::SIGTSTP, State::Asking { .. }) => self.suspend(signal, false),
            (libc::SIGTSTP, State::Running) => {
                self.group.signal(Signal::TSTP);
                let until = Instant::now() + STOP_BOUND;
                self.state = State::Stopping { until };
            }
            (libc::SIGTSTP, State::Stopping { .. } | State::Settling { .. }) => {}
            // Only the answer continues the child.
            (libc::SIGCONT, State::Asking { .. }) => {}
            (libc::SIGCONT, _) => {
                self.state = State::Running;
                self.group.signal(Signal::CONT);
            }
            (signal, _) => {
                self.interrupted |= signal == libc::SIGINT;
                if let Some(signal) = named(signal) {
                    self.group.signal(signal);
                }
            }
        }
    }

    fn settle(&mut self, signal: i32, job: bool) {
        self.state = State::Settling { until: Instant::now() + SETTLE, signal, job };
    }

    /// Stops ourselves, and asks when we are continued.
    fn suspend(&mut self, signal: i32, job: bool) {
        self.group.signal(Signal::STOP);
        self.terminal.take_back(Some(self.group.id()));
        let continued = self.desk.signals.stop_self(signal, job);
        if !continued && matches!(signal, libc::SIGTTIN | libc::SIGTTOU) {
            // Nobody can continue us or give us the terminal, so the child would stop for ever. The system does
            // this to the stopped members of a group that loses the last one who could continue it.
            self.group.signal(Signal::HUP);
            self.resume();
            return;
        }
        self.questions += 1;
        self.state = State::Asking { question: self.questions };
        let question = Question::new(self.questions, self.desk.orders.clone(), self.desk.spec.grace);
        let _ = self.desk.events.send(Event::Resumed(question));
    }

    /// The answer to a question. An older one than the last was asked before we stopped once more.
    fn go_on(&mut self, question: u64) {
        if self.state == (State::Asking { question }) {
            self.resume();
        }
    }

    fn resume(&mut self) {
        if self.wants_terminal {
            self.terminal.give(self.group.id());
        }
        self.state = State::Running;
        self.group.signal(Signal::CONT);
    }

    fn stop_by(&mut self, deadline: Instant) {
        let now = Instant::now();
        let latest = deadline.checked_sub(KILL_EARLY).unwrap_or(now).min(now + self.desk.spec.grace).max(now);
        if let Some(ending) = &mut self.ending {
            ending.kill_at = ending.kill_at.min(latest);
            return;
        }
        self.ending = Some(Ending { kill_at: latest, killed: false });
        self.state = State::Running;
        // In this order: a stopped child acts on SIGTERM as the first thing when it is continued.
        self.group.signal(Signal::TERM);
        self.group.signal(Signal::CONT);
    }

    /// How the child ended, if nobody is left to wait for.
    fn end(&self) -> Option<Change> {
        let (end, _) = self.left?;
        let waits = match self.ending {
            Some(Ending { kill_at, killed: true }) => Instant::now() < kill_at + KILLED_BOUND,
            Some(_) => true,
            None => self.desk.spec.wait_group,
        };
        (!waits || !self.group.is_alive()).then_some(end)
    }

    /// Takes the terminal back and says how it ended.
    fn finish(&self, end: Change) -> Ended {
        let held = self.terminal.take_back(Some(self.group.id()));
        match end {
            Change::Killed(signal) => {
                if held {
                    self.terminal.restore_modes();
                }
                Ended::Signalled { signal, interrupt: self.interrupt(signal, held) }
            }
            Change::Exited(code) => Ended::Exited(code),
            Change::Stopped(_) | Change::Continued => unreachable!("not an end"),
        }
    }

    fn interrupt(&self, signal: i32, held: bool) -> Interrupt {
        if signal != libc::SIGINT || !self.terminal.is_ours() {
            Interrupt::None
        } else if held && !self.interrupted {
            Interrupt::ChildAlone
        } else if self.interrupted {
            Interrupt::Job
        } else {
            Interrupt::None
        }
    }
}
