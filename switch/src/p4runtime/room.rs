//! Memory for requests and answers, bounded for all controllers together: a request takes room from its first byte until it is answered,
//! an answer until its controller has read it. Without a bound a few clients could use up the memory of the switch, whose packets
//! would stop with its process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes, Context, Pin, Poll, Service, http};
use tonic::server::NamedService;

/// Bytes of requests that are received or executed at the same time; in memory they take some times as many.
pub const REQUESTS_BYTES_MAX: usize = 256 << 20;
/// Bytes of answers of P4Runtime that are made or wait for their controllers.
pub const ANSWERS_BYTES_MAX: usize = 512 << 20;

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
    /// Takes more bytes; false if there is no room for them.
    pub fn take(&self, bytes: usize) -> bool {
        self.bytes.fetch_add(bytes, Relaxed);
        self.room.used.fetch_add(bytes, Relaxed) + bytes <= self.room.bytes_max
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
    share: Option<Arc<Share>>,
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
        let Poll::Ready(Some(Ok(data))) = &frame else { return frame };
        let bytes = data.data_ref().map_or(0, Bytes::len);
        if counted.share.as_ref().is_none_or(|share| share.take(bytes)) {
            return frame;
        }
        let text = "the requests under way take all memory there is for them: send it again when others are answered";
        Poll::Ready(Some(Err(Status::resource_exhausted(text))))
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
            return Box::pin(streams.call(request.map(|bytes| Counted { bytes, share: None })));
        }
        let share = Arc::new(self.room.share());
        let counted = |bytes| Counted { bytes, share: Some(Arc::clone(&share)) };
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
}
