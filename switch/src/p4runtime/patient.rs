//! An answer of several messages, for as long as its client reads it: a client that takes none of them for some time gets an error in the
//! place of the rest, so that memory which all clients share does not stay with one.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_stream::Stream;
use tonic::Status;

use crate::sync::lock;

/// Time in which a client takes at least one message of an answer, and sends at least [`PROGRESS_BYTES`] of a request.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// What of a request arrives in [`PATIENCE`], unless it is shorter.
pub const PROGRESS_BYTES: usize = 1 << 20;

type Messages<T> = Box<dyn Iterator<Item = Result<T, Status>> + Send>;

/// The messages that are left.
struct Left<T> {
    messages: Messages<T>,
    taken: u64,
    gave_up: bool,
}

/// The answer.
pub struct Patient<T> {
    left: Arc<Mutex<Left<T>>>,
    watch: Option<AbortHandle>,
}

impl<T> Drop for Patient<T> {
    fn drop(&mut self) {
        self.watch.iter().for_each(AbortHandle::abort);
    }
}

impl<T> fmt::Debug for Patient<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Patient").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Patient<T> {
    /// These messages, and `held` for as long as they are there. A single message is taken at once. Needs a runtime of tokio.
    pub fn new(
        messages: impl Iterator<Item = Result<T, Status>> + Send + 'static,
        held: impl Send + 'static,
        patience: Duration,
    ) -> Patient<T> {
        let is_long = messages.size_hint().1.is_none_or(|most| most > 1);
        let messages = Box::new(messages.inspect(move |_| _ = &held));
        let left = Arc::new(Mutex::new(Left { messages, taken: 0, gave_up: false }));
        let spawn = || tokio::spawn(watch(Arc::downgrade(&left), patience)).abort_handle();
        let watch = is_long.then(spawn);
        Patient { left, watch }
    }
}

/// Drops the messages when none of them was taken in a whole interval.
async fn watch<T: 'static>(left: Weak<Mutex<Left<T>>>, patience: Duration) {
    let mut before = 0;
    loop {
        tokio::time::sleep(patience).await;
        let Some(left) = left.upgrade() else { return };
        let mut left = lock(&left);
        if left.taken == before {
            (left.messages, left.gave_up) = (Box::new(std::iter::empty()), true);
            return;
        }
        before = left.taken;
    }
}

impl<T> Stream for Patient<T> {
    type Item = Result<T, Status>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut left = lock(&self.left);
        if std::mem::take(&mut left.gave_up) {
            let text = "the rest of the answer was dropped: none of it was read for some time, and its memory is that of all clients";
            return Poll::Ready(Some(Err(Status::aborted(text))));
        }
        left.taken += 1;
        Poll::Ready(left.messages.next())
    }
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;

    use super::*;

    #[test]
    fn who_stops_reading_gets_an_error_and_keeps_no_memory() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let memory = Arc::new(());
            let messages = || (0..3).map(Ok);
            let patience = Duration::from_millis(20);
            let mut read = Patient::new(messages(), Arc::clone(&memory), patience);
            let mut left_alone = Patient::new(messages(), Arc::clone(&memory), patience);
            assert_eq!(left_alone.next().await.unwrap().unwrap(), 0);
            while Arc::strong_count(&memory) == 3 {
                let _ = read.next().await;
                tokio::time::sleep(patience / 4).await;
            }
            let error = left_alone.next().await.unwrap().unwrap_err();
            assert_eq!(error.code(), tonic::Code::Aborted);
            assert!(left_alone.next().await.is_none());
            drop(read);
            assert_eq!(Arc::strong_count(&memory), 1);
        });
    }

    #[test]
    fn who_reads_gets_everything() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let read = Patient::new((0..3).map(Ok), (), Duration::from_secs(60));
            let all: Vec<i32> = read.map(Result::unwrap).collect().await;
            assert_eq!(all, [0, 1, 2]);
        });
    }
}
