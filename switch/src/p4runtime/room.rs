//! Memory for requests and answers, bounded for all controllers together: a request takes room from its first byte until it is answered,
//! an answer until its controller has read it, and both until they have stood still for [`PATIENCE`]. Without a bound a few clients could use up the memory of the switch, whose packets
//! would stop with its process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes, Context, Pin, Poll, Service, http};
use tonic::server::NamedService;

use super::patient::{PATIENCE, PROGRESS_BYTES};

/// Bytes of requests that are received or executed at the same time; in memory they take some times as many.
pub const REQUESTS_BYTES_MAX: usize = 256 << 20;
/// Bytes of answers of P4Runtime that are made or wait for their controllers.
pub const ANSWERS_BYTES_MAX: usize = 512 << 20;

/// So many bytes of a request or an answer may be in a reserve,
const SHORT_BYTES: usize = 64 << 10;
/// which is this part of the room.
const RESERVE_PART: usize = 16;

/// Room for this many bytes.
#[derive(Debug)]
pub struct Room {
    used: AtomicUsize,
    bytes_max: usize,
}

impl Room {
    /// Room for this many bytes.
    pub fn new(bytes_max: usize) -> Arc<Room> {
        Arc::new(Room { used: AtomicUsize::new(0), bytes_max })
    }

    /// A share of the room, which has no bytes yet.
    pub fn share(self: &Arc<Room>) -> Share {
        Share { room: Arc::clone(self), bytes: AtomicUsize::new(0) }
    }
}

/// The bytes of one request or answer; the room has them again when this is dropped.
#[derive(Debug)]
pub struct Share {
    room: Arc<Room>,
    bytes: AtomicUsize,
}

impl Share {
    /// Takes more bytes; false if there is no room for them. What is short has a reserve, which long ones
    /// use for no more than that.
    pub fn take(&self, bytes: usize) -> bool {
        let own = self.bytes.load(Relaxed) + bytes;
        let reserve = if own <= SHORT_BYTES { self.room.bytes_max / RESERVE_PART } else { 0 };
        let most = self.room.bytes_max.saturating_add(reserve);
        let has_room = self.room.used.fetch_add(bytes, Relaxed) + bytes <= most;
        match has_room {
            true => self.bytes.store(own, Relaxed),
            false => _ = self.room.used.fetch_sub(bytes, Relaxed),
        }
        has_room
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes.load(Relaxed), Relaxed);
    }
}

/// A service whose requests take room. Streams of requests do not: messages of `streams` are short.
#[derive(Clone, Debug)]
pub struct Bounded<S> {
    /// For calls with one request.
    pub calls: S,
    /// For calls with a stream of requests, by the ends of their paths, with a lower limit for a message.
    pub streams: Option<(&'static str, S)>,
    /// The room of all requests.
    pub room: Arc<Room>,
}

impl<S: NamedService> NamedService for Bounded<S> {
    const NAME: &'static str = S::NAME;
}

/// The bytes of a request on their way.
#[derive(Debug)]
pub struct Counted {
    bytes: Body,
    /// None for a stream of requests, which may be silent for as long as it likes.
    share: Option<Arc<Share>>,
    /// Ends when too little has arrived.
    patience: Option<Pin<Box<Sleep>>>,
    /// Bytes since it began.
    recent: usize,
}

impl Counted {
    /// The bytes that arrived are counted; time begins anew with each part of a long request.
    fn count(&mut self, bytes: usize) -> Result<(), Status> {
        let Some(share) = &self.share else { return Ok(()) };
        if !share.take(bytes) {
            let text = "the requests under way take all memory there is for them: send it again when others are answered";
            return Err(Status::resource_exhausted(text));
        }
        self.recent += bytes;
        if self.recent >= PROGRESS_BYTES {
            (self.recent, self.patience) = (0, None);
        }
        Ok(())
    }

    /// Ready when the client has sent too little for too long.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        if self.share.is_none() {
            return Poll::Pending;
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        patience.as_mut().poll(cx).map(|()| {
            let seconds = PATIENCE.as_secs();
            Status::deadline_exceeded(format!(
                "less than 1 MiB of the request arrived in {seconds} s: nothing was done; send it again"
            ))
        })
    }
}

impl tonic::codegen::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, Status>>> {
        let counted = self.get_mut();
        let frame = Pin::new(&mut counted.bytes).poll_frame(cx);
        match &frame {
            Poll::Pending => counted.poll_patience(cx).map(|status| Some(Err(status))),
            Poll::Ready(Some(Ok(data))) => {
                match counted.count(data.data_ref().map_or(0, Bytes::len)) {
                    Ok(()) => frame,
                    Err(status) => Poll::Ready(Some(Err(status))),
                }
            }
            Poll::Ready(_) => frame,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_end_stream()
    }
}

impl<S> Service<http::Request<Body>> for Bounded<S>
where
    S: Service<http::Request<Counted>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<S::Response, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.calls.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let streams = self.streams.as_mut().filter(|(end, _)| path.ends_with(*end));
        if let Some((_, streams)) = streams {
            let counted = |bytes| Counted { bytes, share: None, patience: None, recent: 0 };
            return Box::pin(streams.call(request.map(counted)));
        }
        let share = Arc::new(self.room.share());
        let counted =
            |bytes| Counted { bytes, share: Some(Arc::clone(&share)), patience: None, recent: 0 };
        let answer = self.calls.call(request.map(counted));
        Box::pin(async move {
            let answer = answer.await;
            drop(share);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::codegen::Body as _;

    use super::*;

    #[test]
    fn room_is_taken_together_and_comes_back() {
        let room = Room::new(10);
        let (one, two) = (room.share(), room.share());
        assert!(one.take(6) && two.take(4));
        assert!(!two.take(1));
        drop(two);
        assert!(one.take(4));
        drop(one);
        assert_eq!(room.used.load(Relaxed), 0);
    }

    #[test]
    fn what_is_short_finds_room_beside_what_is_long() {
        let room = Room::new(1 << 20);
        let long = room.share();
        assert!(long.take(1 << 20));
        assert!(!room.share().take(SHORT_BYTES + 1), "also long");
        let short = room.share();
        assert!(short.take(SHORT_BYTES));
        assert!(!room.share().take(1), "the reserve is used");
        drop(short);
        assert!(room.share().take(1));
    }

    #[test]
    fn a_request_that_stands_still_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let nothing = tokio_stream::pending::<Result<hyper::body::Frame<Bytes>, Status>>();
            let bytes = Body::new(http_body_util::StreamBody::new(nothing));
            let share = Some(Arc::new(Room::new(10).share()));
            let patience = Some(Box::pin(sleep(Duration::from_millis(10))));
            let mut counted = Counted { bytes, share, patience, recent: 0 };
            let ended = std::future::poll_fn(|cx| Pin::new(&mut counted).poll_frame(cx)).await;
            let status = ended.unwrap().unwrap_err();
            assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
        });
    }
}
