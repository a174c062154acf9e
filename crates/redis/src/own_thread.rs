//! A thread with a runtime of its own.

use std::future::Future;
use std::sync::mpsc;
use std::thread;

use tokio::runtime::{Builder, Handle};

/// Starts a thread called `name`, whose runtime ends with `work`.
///
/// The runtime is made on that thread, and never dropped on the caller's: inside of another runtime that would be a panic.
///
/// # Errors
/// No thread, or no runtime, could be made.
pub fn start(name: &str, work: impl Future<Output = ()> + Send + 'static) -> std::io::Result<Handle> {
    start_on(thread::Builder::new().name(name.to_owned()), work)
}

fn start_on(
    thread: thread::Builder,
    work: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<Handle> {
    let (tell, told) = mpsc::sync_channel(1);
    let run = move || match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let _ = tell.send(Ok(runtime.handle().clone()));
            runtime.block_on(work);
        }
        Err(error) => drop(tell.send(Err(error))),
    };
    thread.spawn(run)?;
    told.recv().map_err(std::io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_cannot_be_started_is_an_error_also_inside_a_runtime() {
        // More than there is.
        let thread = thread::Builder::new().stack_size(1 << 60);
        assert!(start_on(thread, async {}).is_err());
    }
}
