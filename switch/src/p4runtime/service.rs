//! The service: the six gRPC calls.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Once};

use tokio::sync::{Notify, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::arbitration::{Arbitration, StreamId, of_role};
use super::counts::{Kind, add};
use super::device::{API_VERSION, Device, election};
use super::patient::{PATIENCE, Patient};
use super::proto::p4::v1 as p4;
use super::proto::p4::v1::p4_runtime_server::P4Runtime;
use super::room::{ANSWERS_BYTES_MAX, Room};
use super::status::{of_each, status};
use super::stream::{Message, Streams, WAITING_MAX};
use super::{packets, pipeline, read, write};
use crate::control::{ControlError, Mode, Ticket};
use p4::stream_message_request::Update;
use p4::write_request::Atomicity;

/// Maximum number of updates that are executed on the thread of the request; more are passed to another thread.
const INLINE_MAX: usize = 64;

/// The service of one device.
#[derive(Clone, Debug)]
pub struct Service {
    pub(super) device: Arc<Device>,
    pub(super) streams: Arc<Streams>,
    /// For answers to reads.
    answers: Arc<Room>,
    /// Notices of the device are subscribed: from the first stream on, packets and digests are collected for
    /// controllers.
    listens: Arc<Once>,
}

type Answer<T> = Result<Response<T>, Status>;
type Messages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Service {
    /// The service of a device.
    pub fn new(device: Arc<Device>) -> Service {
        let answers = Room::new(ANSWERS_BYTES_MAX);
        Service { device, streams: Arc::default(), answers, listens: Arc::new(Once::new()) }
    }

    fn counted<T>(&self, kind: Kind, answer: Answer<T>) -> Answer<T> {
        self.device.counts.request(kind, &answer);
        if let Err(status) = &answer {
            let (code, why) = (status.code(), status.message());
            // A wrong program is shown by default: scripts that push often do not print the status.
            match (kind, code) {
                (Kind::SetPipeline, Code::InvalidArgument) => {
                    tracing::warn!(event = "refused", "a pushed program was refused: {why}");
                }
                _ => {
                    tracing::debug!(event = "refused", ?kind, ?code, "{kind:?} was refused: {why}");
                }
            }
        }
        answer
    }

    /// Executes work that may wait for a worker of the device.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Device) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let long = self.device.begin_long();
        let device = self.device.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _long = long;
            work(&device)
        });
        done.await.map_err(|error| Status::internal(error.to_string()))
    }

    /// Counts and logs changes of primaries.
    fn arbitrated(&self, before: &Primaries, now: &Arbitration) {
        self.device.counts.arbitration(now);
        for (role, stream) in before.changes(&Primaries::of(now)) {
            add(&self.device.counts.primary_changes, 1);
            match stream {
                Some(stream) => tracing::info!(
                    event = "primary",
                    role,
                    stream = stream.0,
                    "controller {} is primary{}",
                    stream.0,
                    of_role(&role)
                ),
                None => tracing::warn!(
                    event = "primary",
                    role,
                    "no controller is primary{}",
                    of_role(&role)
                ),
            }
        }
    }

    /// Closes a stream that ended for any reason.
    fn close(&self, id: StreamId) {
        self.streams.remove(id);
        tracing::info!(event = "controller", stream = id.0, "controller {} has gone", id.0);
        let mut arbitration = self.device.arbitrate();
        let primaries = Primaries::of(&arbitration);
        let notices = arbitration.close(id);
        self.arbitrated(&primaries, &arbitration);
        // Sent under the lock, so that streams receive changes in order.
        self.streams.notify(self.device.id, notices);
    }

    /// Handles one message of a controller; an error ends its stream.
    fn message(&self, id: StreamId, update: Update) -> Result<(), Status> {
        match update {
            Update::Arbitration(update) => {
                let of_device = self.device.check_id(update.device_id);
                let role = update.role.as_ref().map_or("", |role| &role.name);
                let election = election(update.election_id.as_ref());
                let mut arbitration = self.device.arbitrate();
                arbitration.check_device(id, of_device).map_err(|error| status(&error))?;
                let primaries = Primaries::of(&arbitration);
                let notices =
                    arbitration.update(id, role, election).map_err(|error| status(&error))?;
                self.arbitrated(&primaries, &arbitration);
                // Sent under the lock, so that streams receive changes in order.
                self.streams.notify(self.device.id, notices);
            }
            Update::Packet(packet) => packets::packet_out(self, id, packet),
            Update::DigestAck(ack) => packets::digest_ack(self, id, ack),
            Update::Other(other) => packets::other(self, id, other),
        }
        Ok(())
    }

    async fn serve(
        self,
        id: StreamId,
        mut incoming: Streaming<p4::StreamMessageRequest>,
        outgoing: mpsc::Sender<Message>,
        closed: Arc<Notify>,
    ) {
        loop {
            let message = tokio::select! {
                // The receiver of the queue was dropped: the connection has ended.
                () = outgoing.closed() => break,
                // A notice of a change of primaries found no room in the queue.
                () = closed.notified() => break,
                message = incoming.message() => message,
            };
            let message = match message {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => {
                    // As of a message that is too long: the controller learns why.
                    let _ = outgoing.try_send(Err(error));
                    break;
                }
            };
            let Some(update) = message.update else { continue };
            let service = self.clone();
            let done = self.blocking(move |_| service.message(id, update)).await;
            if let Ok(Err(error)) = done {
                let _ = outgoing.try_send(Err(error));
                break;
            }
        }
        let service = self.clone();
        let _ = self.blocking(move |_| service.close(id)).await;
    }
}

/// The primary of each role, by its stream.
struct Primaries(BTreeMap<String, StreamId>);

impl Primaries {
    fn of(arbitration: &Arbitration) -> Primaries {
        Primaries(arbitration.by_role().collect())
    }

    /// Roles with another primary, or now without one.
    fn changes(&self, now: &Primaries) -> Vec<(String, Option<StreamId>)> {
        let new = now.0.iter().filter(|(role, id)| self.0.get(*role) != Some(id));
        let new = new.map(|(role, id)| (role.clone(), Some(*id)));
        let gone = self.0.keys().filter(|role| !now.0.contains_key(*role));
        new.chain(gone.map(|role| (role.clone(), None))).collect()
    }
}

fn refuse<T>(error: ControlError) -> Result<T, Status> {
    Err(status(&error))
}

/// Executes a write; the answer may be sent when the ticket reports it as stored.
fn write_to(
    device: &Device,
    request: &p4::WriteRequest,
) -> Result<(Ticket, Result<(), Status>), Status> {
    let arbitration = device.arbitration();
    let election = election(request.election_id.as_ref());
    arbitration.may_write(&request.role, election).map_err(|error| status(&error))?;
    let mode = match Atomicity::try_from(request.atomicity) {
        Ok(Atomicity::ContinueOnError) => Mode::Continue,
        Ok(Atomicity::RollbackOnError | Atomicity::DataplaneAtomic) => Mode::Atomic,
        Err(_) => {
            let unknown = ControlError::invalid("unknown atomicity");
            return Err(status(&unknown));
        }
    };
    if let Some(saved) = device.saved() {
        let done = saved.write(&request.updates, mode);
        return Ok((Ticket::default(), done.map_err(|results| of_each("updates", &results))));
    }
    let pipeline = device.pipeline();
    pipeline.check().map_err(|error| status(&error))?;
    let (ticket, done) = write::write(device, &pipeline.schema, &request.updates, mode);
    Ok((ticket, done.map_err(|results| of_each("updates", &results))))
}

/// True if all updates are of table entries, which need no worker, and few.
fn is_short(request: &p4::WriteRequest) -> bool {
    use p4::entity::Entity;
    let of_tables = |update: &p4::Update| {
        let entity = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
        matches!(entity, Some(Entity::TableEntry(_)))
    };
    request.updates.len() <= INLINE_MAX && request.updates.iter().all(of_tables)
}

impl Service {
    async fn do_write(&self, request: Request<p4::WriteRequest>) -> Answer<p4::WriteResponse> {
        let request = request.into_inner();
        self.device.check_id(request.device_id).or_else(refuse)?;
        add(&self.device.counts.updates, request.updates.len() as u64);
        let is_short = is_short(&request) && self.device.saved().is_none();
        let (ticket, done) = match is_short && !self.device.is_long_held() {
            true => write_to(&self.device, &request)?,
            false => self.blocking(move |device| write_to(device, &request)).await??,
        };
        ticket.kept().await.or_else(refuse)?;
        done?;
        Ok(Response::new(p4::WriteResponse {}))
    }

    async fn do_read(
        &self,
        request: Request<p4::ReadRequest>,
    ) -> Answer<Messages<p4::ReadResponse>> {
        let request = request.into_inner();
        self.device.check_id(request.device_id).or_else(refuse)?;
        let share = self.answers.share();
        let answers = self.blocking(move |device| {
            if let Some(saved) = device.saved() {
                return (saved.read(&request.entities, &share), share);
            }
            let pipeline = device.pipeline();
            if let Err(error) = pipeline.check() {
                return ((Vec::new(), Err(vec![Err(error)])), share);
            }
            (read::read(device, &pipeline.schema, &request.entities, &share), share)
        });
        let ((answers, done), share) = answers.await?;
        let refused = done.err().map(|results| match results.as_slice() {
            [Err(error)] => status(error),
            results => of_each("reads", results),
        });
        match refused {
            Some(status) if answers.is_empty() => Err(status),
            refused => {
                let answers = answers.into_iter().map(Ok).chain(refused.map(Err));
                Ok(Response::new(Box::pin(Patient::new(answers, share, PATIENCE))))
            }
        }
    }

    async fn do_set(
        &self,
        request: Request<p4::SetForwardingPipelineConfigRequest>,
    ) -> Answer<p4::SetForwardingPipelineConfigResponse> {
        let request = request.into_inner();
        self.device.check_id(request.device_id).or_else(refuse)?;
        let done = self.blocking(move |device| pipeline::set(device, request)).await?;
        done.or_else(refuse)?;
        Ok(Response::new(p4::SetForwardingPipelineConfigResponse {}))
    }

    fn do_get(
        &self,
        request: Request<p4::GetForwardingPipelineConfigRequest>,
    ) -> Answer<p4::GetForwardingPipelineConfigResponse> {
        let request = request.into_inner();
        self.device.check_id(request.device_id).or_else(refuse)?;
        let config = pipeline::get(&self.device, request.response_type).or_else(refuse)?;
        Ok(Response::new(p4::GetForwardingPipelineConfigResponse { config: Some(config) }))
    }

    async fn do_stream(
        self,
        request: Request<Streaming<p4::StreamMessageRequest>>,
    ) -> Answer<Messages<p4::StreamMessageResponse>> {
        // Waits for writes in progress.
        let opened = self.blocking(|device| {
            let mut arbitration = device.arbitrate();
            let id = arbitration.open();
            device.counts.arbitration(&arbitration);
            id
        });
        let id = opened.await?.or_else(refuse)?;
        let peer = request.remote_addr().map(|peer| peer.to_string());
        tracing::info!(
            event = "controller",
            stream = id.0,
            peer,
            "controller {} has connected",
            id.0
        );
        self.listens.call_once(|| super::events::start(self.clone()));
        let (outgoing, messages) = mpsc::channel(WAITING_MAX);
        let closed = self.streams.add(id, outgoing.clone());
        tokio::spawn(self.serve(id, request.into_inner(), outgoing, closed));
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }
}

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = Messages<p4::ReadResponse>;
    type StreamChannelStream = Messages<p4::StreamMessageResponse>;

    async fn write(&self, request: Request<p4::WriteRequest>) -> Answer<p4::WriteResponse> {
        self.counted(Kind::Write, self.do_write(request).await)
    }

    async fn read(&self, request: Request<p4::ReadRequest>) -> Answer<Self::ReadStream> {
        self.counted(Kind::Read, self.do_read(request).await)
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<p4::SetForwardingPipelineConfigRequest>,
    ) -> Answer<p4::SetForwardingPipelineConfigResponse> {
        self.counted(Kind::SetPipeline, self.do_set(request).await)
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<p4::GetForwardingPipelineConfigRequest>,
    ) -> Answer<p4::GetForwardingPipelineConfigResponse> {
        self.counted(Kind::GetPipeline, self.do_get(request))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<p4::StreamMessageRequest>>,
    ) -> Answer<Self::StreamChannelStream> {
        // In a separate task, so that a stream is closed properly if its client disconnects while it is opened.
        let opened = tokio::spawn(self.clone().do_stream(request)).await;
        let opened = opened.unwrap_or_else(|error| Err(Status::internal(error.to_string())));
        self.counted(Kind::Stream, opened)
    }

    async fn capabilities(
        &self,
        _: Request<p4::CapabilitiesRequest>,
    ) -> Answer<p4::CapabilitiesResponse> {
        let p4runtime_api_version = API_VERSION.to_owned();
        let answer = p4::CapabilitiesResponse { p4runtime_api_version, experimental: None };
        self.counted(Kind::Capabilities, Ok(Response::new(answer)))
    }
}
