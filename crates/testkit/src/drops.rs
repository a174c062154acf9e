//! Dropping a future after its n-th poll, for every n.

use std::future::Future;
use std::task::Poll;

/// A future that was polled so often has a loop in it.
const MOST_POLLS: usize = 200;

/// Polls `future` at most `polls` times (not at all, if zero), each time when it was woken, and drops it. `Some` if it finished.
pub async fn poll_times<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    if polls == 0 {
        return None;
    }
    let mut done = 0;
    std::future::poll_fn(move |context| {
        done += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if done >= polls => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// For n = 0, 1, 2, … makes a future, drops it after its n-th poll, and runs `check`, until one finishes by itself.
/// Returns how many polls that took.
pub async fn drop_at_every_poll<T, F, Fut, C>(mut make: F, mut check: C) -> usize
where
    F: FnMut() -> Fut,
    Fut: Future<Output = T>,
    C: AsyncFnMut(usize, Option<T>),
{
    for polls in 0..=MOST_POLLS {
        let output = poll_times(make(), polls).await;
        let finished = output.is_some();
        check(polls, output).await;
        if finished {
            return polls;
        }
    }
    panic!("not finished after {MOST_POLLS} polls");
}
