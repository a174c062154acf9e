//! The handle on a running child, and what passes between it and the thread that looks after the child.

use std::io;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::platform::{self, Signals};
use super::{ChildSpec, Ended};

/// Looks after one child.
///
/// Dropping it before [`Event::Ended`] asks the child to end, with its grace period; it does not wait for that.
#[derive(Debug)]
pub struct Supervisor {
    orders: UnboundedSender<Order>,
    events: UnboundedReceiver<Event>,
    grace: Duration,
}

/// What happened to the child.
#[derive(Debug)]
pub enum Event {
    /// We were stopped together with the child and are now told to go on. The child is still stopped; it goes on
    /// when the question is answered.
    Resumed(Question),
    /// The child ended, and the terminal is ours again. The last event.
    Ended(Ended),
}

/// "Is the lock still held?" A question dropped without an answer ends the child.
#[derive(Debug)]
#[must_use = "the child stays stopped until this is answered"]
pub struct Question {
    id: u64,
    orders: UnboundedSender<Order>,
    grace: Duration,
    answered: bool,
}

/// What the thread is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// End the child by then.
    StopBy(Instant),
    /// The lock is still held: continue the child, if this is the latest question.
    GoOn(u64),
}

/// What the thread works with.
pub(super) struct Desk {
    pub(super) spec: ChildSpec,
    pub(super) signals: Signals,
    pub(super) inbox: UnboundedReceiver<Order>,
    pub(super) orders: UnboundedSender<Order>,
    pub(super) events: UnboundedSender<Event>,
}

impl Supervisor {
    /// Starts the child. That there is no such program is not an error here but the way it [`Ended`].
    ///
    /// The child is started by a thread of its own, which lives as long as the child: to Linux, the "parent" whose
    /// death kills the child is the thread that forked.
    ///
    /// # Errors
    ///
    /// When the system refuses the thread.
    pub fn start(spec: ChildSpec, signals: Signals) -> io::Result<Self> {
        let (orders, inbox) = unbounded_channel();
        let (teller, events) = unbounded_channel();
        let grace = spec.grace;
        let desk = Desk { spec, signals, inbox, orders: orders.clone(), events: teller };
        std::thread::Builder::new().name("supervise".into()).spawn(move || platform::supervise(desk))?;
        Ok(Self { orders, events, grace })
    }

    /// The next event. Cancel safe; not to be called again after [`Event::Ended`].
    pub async fn event(&mut self) -> Event {
        let gone = || Event::Ended(Ended::Failed(io::Error::other("the child is not looked after any more")));
        self.events.recv().await.unwrap_or_else(gone)
    }

    /// Ends the child: SIGTERM now, SIGKILL after the grace period and at the latest shortly before `deadline`,
    /// both to its whole process group. Returns at once; the end is told by [`Event::Ended`].
    ///
    /// Of several calls the earliest instant counts.
    pub fn stop_by(&self, deadline: Instant) {
        // Fails only when the child has ended.
        let _ = self.orders.send(Order::StopBy(deadline));
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop_by(Instant::now() + self.grace);
    }
}

impl Question {
    pub(super) fn new(id: u64, orders: UnboundedSender<Order>, grace: Duration) -> Self {
        Self { id, orders, grace, answered: false }
    }

    /// Yes: the child may go on.
    pub fn go_on(mut self) {
        self.answer(Order::GoOn(self.id));
    }

    /// No: the child is ended as by [`Supervisor::stop_by`].
    pub fn stop_by(mut self, deadline: Instant) {
        self.answer(Order::StopBy(deadline));
    }

    fn answer(&mut self, order: Order) {
        self.answered = true;
        let _ = self.orders.send(order);
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(Order::StopBy(Instant::now() + self.grace));
        }
    }
}
