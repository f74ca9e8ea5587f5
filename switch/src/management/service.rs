//! The service: threads, streams and limits. The modules beside this one execute requests.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use wireyard_pipeline::entries::{Purpose, Setting};

use super::{change, describe, ports, queues, restore, save, show, statistics, swap, trace, watch};
use crate::control::{Control, ControlError, Entity, Mode, Query, Unit};
use crate::p4runtime::device::Device;
use crate::p4runtime::patient::{PATIENCE, Patient};
use crate::p4runtime::persist::settings::SHUT;
use crate::p4runtime::proto::wireyard::v1 as wire;
use crate::p4runtime::room::{Bounded, Room};
use crate::p4runtime::status::status_within;
use crate::ports::PortNumber;
use wire::device_server::{Device as DeviceService, DeviceServer};
use wire::port_request::Kind;

/// Maximum length of a request: entries files and packed programs.
pub const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Maximum length of the text of an error, which is sent in a header: clients accept at least 8 KiB of headers.
const MESSAGE_BYTES_MAX: usize = 5 << 10;
/// Number of documents of a list in one message.
const TOGETHER: usize = 256;
/// Maximum number of messages that wait for a client.
const WAITING_MAX: usize = 4;
/// Maximum number of lists that are read at a time: each uses memory for all of its objects.
const READS_MAX: usize = 8;
/// Maximum number of clients that watch digests, packets or events.
const WATCHES_MAX: usize = 32;
/// Minimum time between two reads of all statistics, for which workers stop forwarding for a moment.
const STATISTICS_APART: Duration = Duration::from_millis(5);

type Result<T> = std::result::Result<T, ControlError>;
type Answer<T> = std::result::Result<Response<T>, Status>;
type Lists = Pin<Box<dyn Stream<Item = std::result::Result<wire::Documents, Status>> + Send>>;

/// The service of one device.
#[derive(Clone, Debug)]
pub struct Management {
    device: Arc<Device>,
    name: Arc<str>,
    reads: Arc<Semaphore>,
    statistics: Arc<Semaphore>,
    swaps: Arc<Semaphore>,
    port_changes: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

impl Management {
    /// The service of a device of this name.
    pub fn new(device: Arc<Device>, name: &str) -> Management {
        let (reads, statistics) = (Semaphore::new(READS_MAX), Semaphore::new(1));
        let (reads, statistics) = (Arc::new(reads), Arc::new(statistics));
        let (swaps, watches) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(WATCHES_MAX)));
        let port_changes = Arc::new(Semaphore::new(1));
        Management { device, name: name.into(), reads, statistics, swaps, port_changes, watches }
    }

    /// The service as routes of a server, with the room for requests of all its services.
    pub fn routes(self, room: &Arc<Room>) -> Routes {
        let calls = DeviceServer::new(self).max_decoding_message_size(REQUEST_BYTES_MAX);
        Routes::new(Bounded { calls, streams: None, room: Arc::clone(room) })
    }

    /// Executes work that may wait for a worker of the device.
    ///
    /// # Errors
    /// The errors of the work.
    pub async fn do_it<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Management) -> Result<T> + Send + 'static,
    ) -> std::result::Result<T, Status> {
        let (me, long) = (self.clone(), self.device.begin_long());
        let done = tokio::task::spawn_blocking(move || {
            let _long = long;
            work(&me)
        });
        let done = done.await;
        let done = done.map_err(|error| Status::internal(error.to_string()))?;
        done.map_err(|error| status_within(&error, MESSAGE_BYTES_MAX))
    }

    async fn document(
        &self,
        work: impl FnOnce(&Management) -> Result<Value> + Send + 'static,
    ) -> Answer<wire::Document> {
        let value = self.do_it(work).await?;
        Ok(Response::new(wire::Document { json: value.to_string() }))
    }

    /// Sends a list in pieces. At most [`READS_MAX`] lists are in memory at once; others wait.
    async fn list(
        &self,
        work: impl FnOnce(&Management) -> Result<Vec<String>> + Send + 'static,
    ) -> Answer<Lists> {
        let permit = Arc::clone(&self.reads).acquire_owned().await;
        let permit = permit.map_err(|error| Status::internal(error.to_string()))?;
        // The work continues when the client cancels its call, and keeps its permit.
        let (all, permit) = self.do_it(move |me| Ok((work(me)?, permit))).await?;
        let mut all = all.into_iter().peekable();
        let piece = move || {
            all.peek()?;
            Some(Ok(wire::Documents { json: all.by_ref().take(TOGETHER).collect() }))
        };
        let pieces = std::iter::from_fn(piece);
        Ok(Response::new(Box::pin(Patient::new(pieces, permit, PATIENCE))))
    }

    fn write_all(&self, request: &wire::WriteRequest) -> Result<Value> {
        use wire::change::Kind;
        let control = &self.device.control;
        if let [one] = request.changes.as_slice()
            && one.kind == Kind::Clear as i32
        {
            return Ok(json!({ "deleted": change::clear(control, &one.name)? }));
        }
        let program = control.program();
        let updates = change::updates(control, &program, &request.changes)?;
        // A table without entries has no counts to clear.
        let clears = request.changes.iter().any(|change| !change.cells.is_empty());
        if updates.is_empty() && !clears {
            return Err(ControlError::invalid("the request changes nothing"));
        }
        control.write_of(&program, &updates, Mode::Atomic).map_err(|refused| {
            let first = refused.first().and_then(|(at, error)| Some((updates.get(at)?, error)));
            match first {
                Some((update, error)) => change::named(&program, update.entity(), error.clone()),
                None => refused.into(),
            }
        })?;
        Ok(json!({ "changed": updates.len() }))
    }

    /// Changes settings of queues, and stores them if there is a store.
    fn change_queue(&self, request: &wire::QueueRequest) -> Result<Value> {
        let control = &self.device.control;
        if request.settings.is_empty() {
            return queues::change(control, request);
        }
        let unit = control.unit()?;
        let done = queues::change(control, request)?;
        let port = request.port.map(ports::number).transpose()?.unwrap_or_default();
        let queue = request.queue.and_then(|queue| u8::try_from(queue).ok());
        self.keep(unit, port, queue, &request.settings)?;
        Ok(done)
    }

    /// Changes a port; groups that depend on links follow a port that comes or goes.
    fn change_port(&self, request: &wire::PortRequest) -> Result<Value> {
        use wire::port_request::Kind;
        let done = self.change_and_keep(request);
        if matches!(Kind::try_from(request.kind), Ok(Kind::Add | Kind::Remove)) {
            self.device.look_at_links();
        }
        done
    }

    /// Changes a port, and stores whether it is shut down.
    fn change_and_keep(&self, request: &wire::PortRequest) -> Result<Value> {
        use wire::port_request::Kind;
        let control = &self.device.control;
        let shut = match Kind::try_from(request.kind).unwrap_or_default() {
            Kind::Down => format!("{SHUT}=true"),
            Kind::Up => format!("{SHUT}="),
            Kind::Remove => {
                let unit = control.unit()?;
                let done = ports::change(control, request)?;
                self.device.forget_port(unit, ports::number(request.port)?)?;
                return Ok(done);
            }
            _ => return ports::change(control, request),
        };
        let unit = control.unit()?;
        let done = ports::change(control, request)?;
        self.keep(unit, ports::number(request.port)?, None, &[shut])?;
        Ok(done)
    }

    /// Shuts a port down or brings it up, and stores that.
    ///
    /// # Errors
    /// There is no such port, or it cannot be stored.
    pub fn shut_port(&self, port: PortNumber, is_shut: bool) -> Result<()> {
        use wire::port_request::Kind;
        let kind = if is_shut { Kind::Down } else { Kind::Up } as i32;
        self.change_port(&wire::PortRequest { kind, port: port.0.into(), ..Default::default() })?;
        Ok(())
    }

    /// The device.
    pub fn control(&self) -> &Control {
        &self.device.control
    }

    /// Restores a file, and stores its settings.
    fn restore(&self, entries: &str, name: &str) -> Result<Value> {
        let control = &self.device.control;
        let (done, settings) = restore::restore(control, entries, name)?;
        tracing::info!(
            event = "restore",
            "{name} was restored: {} objects, and {} were removed",
            done["restored"],
            done["removed"]
        );
        for Setting { port, queue, set, .. } in settings {
            self.keep(control.unit()?, PortNumber(port), queue, &set)?;
        }
        Ok(done)
    }

    fn keep(
        &self,
        mut unit: Unit<'_>,
        port: PortNumber,
        queue: Option<u8>,
        settings: &[String],
    ) -> Result<()> {
        unit.note(self.device.settings().set(port, queue, settings));
        unit.end().wait()
    }

    /// The objects that a request selects, with their program, each as the text that is sent, which is smaller than a
    /// tree of values.
    fn read_all(&self, request: &wire::ReadRequest) -> Result<Vec<String>> {
        let control = &self.device.control;
        loop {
            let program = control.program();
            let mut all = Vec::new();
            for query in self.queries(request)? {
                control
                    .visit(&query, &mut |entity: Entity| {
                        if request.all || !entity.is_blank() || request.index.is_some() {
                            let shown = show::entity(&program, &entity);
                            all.extend(shown.map(|shown| shown.to_string()));
                        }
                    })
                    .map_err(|error| match &query {
                        Query::Entry(key) => change::no_entry(&program, key, error),
                        _ => error,
                    })?;
            }
            if Arc::ptr_eq(&program, &control.program()) {
                return Ok(all);
            }
        }
    }

    fn queries(&self, request: &wire::ReadRequest) -> Result<Vec<Query>> {
        use wire::read_request::Kind;
        let control = &self.device.control;
        let (name, index) = (request.name.as_str(), request.index);
        let all = name.is_empty();
        let table = || if all { Ok(None) } else { control.table(name).map(Some) };
        let small = || {
            let fits =
                |n: u64| u32::try_from(n).map_err(|_| ControlError::OutOfRange(n.to_string()));
            index.map(fits).transpose()
        };
        let number = || {
            let fits =
                |n: u64| u16::try_from(n).map_err(|_| ControlError::OutOfRange(n.to_string()));
            index.map(fits).transpose()
        };
        let none = ControlError::invalid("the request does not say what to read");
        Ok(vec![match Kind::try_from(request.kind).unwrap_or_default() {
            Kind::Unspecified => return Err(none),
            Kind::Entries if !request.entries.is_empty() => return self.entries(&request.entries),
            Kind::Entries => Query::Entries { table: table()? },
            Kind::Defaults => Query::DefaultActions { table: table()? },
            Kind::Members => Query::Members { table: table()?, id: small()? },
            Kind::Groups => Query::Groups { table: table()?, id: small()? },
            Kind::Counters => {
                let counter = if all { None } else { Some(control.counter(name)?) };
                Query::Counters { counter, index }
            }
            Kind::Meters => {
                let meter = if all { None } else { Some(control.meter(name)?) };
                Query::Meters { meter, index }
            }
            Kind::Registers => {
                let register = if all { None } else { Some(control.register(name)?) };
                Query::Registers { register, index }
            }
            Kind::ValueSets => {
                let set = if all { None } else { Some(control.value_set(name)?) };
                Query::ValueSets { set }
            }
            Kind::MulticastGroups => Query::Multicast { id: number()? },
            Kind::MirrorSessions => Query::Mirrors { id: number()? },
        }])
    }

    /// Queries for the entries that a text selects.
    fn entries(&self, text: &str) -> Result<Vec<Query>> {
        use wireyard_tables::Update;
        let resolved = change::resolve(&self.device.control.program(), text, "", Purpose::Remove)?;
        let keys = resolved.updates.into_iter().filter_map(|update| match update {
            Update::Insert(table, entry) => Some(Query::Entry(crate::control::EntryKey {
                table: wireyard_pipeline::ids::TableId(table.0),
                matches: entry.matches,
                priority: entry.priority,
            })),
            _ => None,
        });
        Ok(keys.collect())
    }
}

#[tonic::async_trait]
impl DeviceService for Management {
    type ReadStream = Lists;
    type WatchStream = Lists;
    type TraceStream = Lists;
    type SaveStream = Lists;

    async fn describe(&self, _: Request<wire::DescribeRequest>) -> Answer<wire::Document> {
        self.document(|me| describe::describe(&me.device.control, &me.name)).await
    }

    async fn write(&self, request: Request<wire::WriteRequest>) -> Answer<wire::Document> {
        let request = request.into_inner();
        self.document(move |me| me.write_all(&request)).await
    }

    async fn read(&self, request: Request<wire::ReadRequest>) -> Answer<Self::ReadStream> {
        let request = request.into_inner();
        self.list(move |me| me.read_all(&request)).await
    }

    async fn statistics(
        &self,
        request: Request<wire::StatisticsRequest>,
    ) -> Answer<wire::Document> {
        let request = request.into_inner();
        let permit = Arc::clone(&self.statistics).acquire_owned().await;
        let permit = permit.map_err(|error| Status::internal(error.to_string()))?;
        self.document(move |me| {
            let answer = statistics::read(&me.device.control, Some(&me.device), &request);
            tokio::spawn(async move {
                tokio::time::sleep(STATISTICS_APART).await;
                drop(permit);
            });
            answer
        })
        .await
    }

    async fn change_queue(&self, request: Request<wire::QueueRequest>) -> Answer<wire::Document> {
        let request = request.into_inner();
        self.document(move |me| me.change_queue(&request)).await
    }

    async fn capture(&self, request: Request<wire::CaptureRequest>) -> Answer<wire::Document> {
        let request = request.into_inner();
        self.document(move |me| ports::capture(&me.device.control, &request)).await
    }

    async fn swap(&self, request: Request<wire::SwapRequest>) -> Answer<wire::Document> {
        let request = request.into_inner();
        let one_at_a_time = Arc::clone(&self.swaps).acquire_owned().await;
        self.document(move |me| {
            let _one_at_a_time = one_at_a_time;
            swap::swap(&me.device, &request)
        })
        .await
    }

    async fn send_packet(&self, request: Request<wire::PacketRequest>) -> Answer<wire::Document> {
        let request = request.into_inner();
        self.document(move |me| ports::send(&me.device.control, &request)).await
    }

    async fn watch(&self, request: Request<wire::WatchRequest>) -> Answer<Self::WatchStream> {
        let wanted = request.into_inner();
        let Ok(permit) = Arc::clone(&self.watches).try_acquire_owned() else {
            let text = format!("{WATCHES_MAX} clients listen already");
            return Err(Status::resource_exhausted(text));
        };
        let stream = self.do_it(move |me| watch::listen(&me.device.control, &wanted)).await?;
        let (sender, list) = mpsc::channel(WAITING_MAX);
        tokio::spawn(async move {
            watch::pass_on(stream, sender, PATIENCE).await;
            drop(permit);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(list))))
    }

    async fn save(&self, _: Request<wire::SaveRequest>) -> Answer<Self::SaveStream> {
        let json = |line: String| Value::from(line).to_string();
        self.list(move |me| {
            let settings = me.device.settings().clone();
            let as_written = |entity| me.device.as_written(entity);
            let all = save::lines(&me.device.control, &settings, &as_written)?;
            Ok(all.into_iter().map(json).collect())
        })
        .await
    }

    async fn restore(&self, request: Request<wire::RestoreRequest>) -> Answer<wire::Document> {
        let wire::RestoreRequest { entries, name } = request.into_inner();
        self.document(move |me| me.restore(&entries, &name)).await
    }

    async fn trace(&self, request: Request<wire::TraceRequest>) -> Answer<Self::TraceStream> {
        let request = request.into_inner();
        let traced =
            self.do_it(move |me| trace::begin(&me.device.control, &request, PATIENCE)).await?;
        let (sender, list) = mpsc::channel(WAITING_MAX);
        tokio::task::spawn_blocking(move || traced.pass_on(&sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(list))))
    }

    async fn change_port(&self, request: Request<wire::PortRequest>) -> Answer<wire::Document> {
        let request = request.into_inner();
        let opens = matches!(request.kind(), Kind::Add | Kind::Remove);
        // Those that wait have no thread: others need the threads.
        let one_at_a_time = match opens {
            true => Some(Arc::clone(&self.port_changes).acquire_owned().await),
            false => None,
        };
        self.document(move |me| {
            let _one_at_a_time = one_at_a_time;
            me.change_port(&request)
        })
        .await
    }
}

#[cfg(test)]
mod tests;
