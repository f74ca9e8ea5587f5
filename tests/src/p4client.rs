//! A P4Runtime controller: gRPC over loopback, as other controllers speak it.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use wireyard_switch::p4runtime::proto::google::rpc::Status as RpcStatus;
use wireyard_switch::p4runtime::proto::p4::config::v1::P4Info;
use wireyard_switch::p4runtime::proto::p4::v1 as p4;

use p4::entity::Entity as Message;
use p4::p4_runtime_client::P4RuntimeClient;
use p4::stream_message_request::Update as ToDevice;
use p4::stream_message_response::Update as FromDevice;

/// The longest that a test waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A controller with a stream to device 1.
#[derive(Debug)]
pub struct Controller {
    runtime: Runtime,
    client: P4RuntimeClient<Channel>,
    requests: mpsc::UnboundedSender<p4::StreamMessageRequest>,
    messages: Streaming<p4::StreamMessageResponse>,
    election: Option<p4::Uint128>,
    /// What the device says that its program is.
    pub info: P4Info,
}

impl Controller {
    /// Connects, with an election id, and takes the answer: `Err` is the status that ended the stream.
    ///
    /// # Panics
    /// Nobody listens.
    pub fn connect(address: &str, election: u64) -> Result<(Controller, i32), Status> {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (requests, outgoing) = mpsc::unbounded_channel();
        let (client, messages) = runtime.block_on(async {
            let client = P4RuntimeClient::connect(format!("http://{address}")).await;
            let mut client = client.expect("somebody listens").max_decoding_message_size(64 << 20);
            let outgoing = UnboundedReceiverStream::new(outgoing);
            let messages = client.stream_channel(outgoing).await?.into_inner();
            Ok::<_, Status>((client, messages))
        })?;
        let election = Some(p4::Uint128 { high: 0, low: election });
        let info = P4Info::default();
        let mut controller = Controller { runtime, client, requests, messages, election, info };
        controller.arbitrate(election);
        let answer = match controller.next_message()? {
            FromDevice::Arbitration(update) => update.status.map_or(0, |status| status.code),
            other => panic!("the first message is {other:?}"),
        };
        // A device without a program has none.
        controller.info = controller.try_pipeline().ok().and_then(|c| c.p4info).unwrap_or_default();
        Ok((controller, answer))
    }

    /// Asks to be primary with another election id; requests have it from now on.
    pub fn claim(&mut self, election: u64) {
        self.election = Some(p4::Uint128 { high: 0, low: election });
        self.arbitrate(self.election);
    }

    fn arbitrate(&self, election_id: Option<p4::Uint128>) {
        let update =
            p4::MasterArbitrationUpdate { device_id: 1, election_id, ..Default::default() };
        self.send(ToDevice::Arbitration(update));
    }

    /// Sends a message on the stream.
    pub fn send(&self, update: ToDevice) {
        let _ = self.requests.send(p4::StreamMessageRequest { update: Some(update) });
        // The connection moves only while something is waited for.
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
    }

    /// The next message of the stream.
    ///
    /// # Panics
    /// None comes.
    pub fn next_message(&mut self) -> Result<FromDevice, Status> {
        let Controller { runtime, messages, .. } = self;
        let next =
            runtime.block_on(async { tokio::time::timeout(PATIENCE, messages.message()).await });
        let message = next.expect("a message in time")?;
        message.and_then(|message| message.update).ok_or(Status::cancelled("the stream has ended"))
    }

    /// The next message of the stream, if one comes this soon.
    pub fn message_within(&mut self, timeout: Duration) -> Option<FromDevice> {
        let Controller { runtime, messages, .. } = self;
        let next =
            runtime.block_on(async { tokio::time::timeout(timeout, messages.message()).await });
        next.ok()?.ok()??.update
    }

    /// The configuration of the device.
    ///
    /// # Panics
    /// It has none.
    pub fn pipeline(&mut self) -> p4::ForwardingPipelineConfig {
        self.try_pipeline().expect("a configuration")
    }

    /// The configuration of the device, if it has one.
    pub fn try_pipeline(&mut self) -> Result<p4::ForwardingPipelineConfig, Status> {
        let request = p4::GetForwardingPipelineConfigRequest { device_id: 1, response_type: 0 };
        let Controller { runtime, client, .. } = self;
        let answer = runtime.block_on(client.get_forwarding_pipeline_config(request));
        Ok(answer?.into_inner().config.unwrap_or_default())
    }

    /// Pushes a program.
    pub fn push(
        &mut self,
        action: p4::set_forwarding_pipeline_config_request::Action,
        config: Option<p4::ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = p4::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: self.election,
            action: action as i32,
            config,
            ..Default::default()
        };
        let Controller { runtime, client, .. } = self;
        runtime.block_on(client.set_forwarding_pipeline_config(request)).map(|_| ())
    }

    /// A request of this controller.
    pub fn write_request(&self, updates: Vec<p4::Update>) -> p4::WriteRequest {
        let election_id = self.election;
        p4::WriteRequest { device_id: 1, election_id, updates, ..Default::default() }
    }

    /// Writes.
    pub fn write(&mut self, updates: Vec<p4::Update>) -> Result<(), Status> {
        let request = self.write_request(updates);
        self.request(request)
    }

    /// Sends a request as it is.
    pub fn request(&mut self, request: p4::WriteRequest) -> Result<(), Status> {
        let Controller { runtime, client, .. } = self;
        runtime.block_on(client.write(request)).map(|_| ())
    }

    /// Sends requests without waiting for one answer before the next: how many succeeded.
    pub fn pipelined(&mut self, requests: Vec<p4::WriteRequest>, at_once: usize) -> usize {
        let Controller { runtime, client, .. } = self;
        runtime.block_on(async {
            let (mut under_way, mut done) = (tokio::task::JoinSet::new(), 0);
            for request in requests {
                if under_way.len() >= at_once {
                    done += usize::from(matches!(under_way.join_next().await, Some(Ok(true))));
                }
                let mut client = client.clone();
                under_way.spawn(async move { client.write(request).await.is_ok() });
            }
            while let Some(result) = under_way.join_next().await {
                done += usize::from(matches!(result, Ok(true)));
            }
            done
        })
    }

    /// Reads.
    pub fn read(&mut self, wanted: Vec<Message>) -> Result<Vec<Message>, Status> {
        let entities = wanted.into_iter().map(|entity| p4::Entity { entity: Some(entity) });
        let request =
            p4::ReadRequest { device_id: 1, entities: entities.collect(), ..Default::default() };
        let Controller { runtime, client, .. } = self;
        runtime.block_on(async {
            let mut answers = client.read(request).await?.into_inner();
            let mut all = Vec::new();
            while let Some(answer) = answers.message().await? {
                all.extend(answer.entities.into_iter().filter_map(|entity| entity.entity));
            }
            Ok(all)
        })
    }

    /// The id of an object of the program, by its name.
    ///
    /// # Panics
    /// There is none.
    #[track_caller]
    pub fn id(&self, name: &str) -> u32 {
        let info = &self.info;
        let preambles = (info.tables.iter().map(|one| &one.preamble))
            .chain(info.actions.iter().map(|one| &one.preamble))
            .chain(info.action_profiles.iter().map(|one| &one.preamble))
            .chain(info.counters.iter().map(|one| &one.preamble))
            .chain(info.meters.iter().map(|one| &one.preamble))
            .chain(info.value_sets.iter().map(|one| &one.preamble))
            .chain(info.registers.iter().map(|one| &one.preamble))
            .chain(info.digests.iter().map(|one| &one.preamble));
        let mut preambles = preambles.flatten();
        preambles.find(|one| one.name == name).unwrap_or_else(|| panic!("no {name}")).id
    }

    /// An action with its parameters.
    pub fn action(&self, name: &str, params: &[&[u8]]) -> p4::Action {
        let param = |(param_id, value): (u32, &&[u8])| p4::action::Param {
            param_id,
            value: value.to_vec(),
        };
        p4::Action { action_id: self.id(name), params: (1..).zip(params).map(param).collect() }
    }

    /// An entry of a table with one exact key.
    pub fn exact(&self, table: &str, key: &[u8], action: p4::Action) -> p4::TableEntry {
        use p4::field_match::{Exact, FieldMatchType};
        let exact = FieldMatchType::Exact(Exact { value: key.to_vec() });
        let does = p4::table_action::Type::Action(action);
        p4::TableEntry {
            table_id: self.id(table),
            r#match: vec![p4::FieldMatch { field_id: 1, field_match_type: Some(exact) }],
            action: Some(p4::TableAction { r#type: Some(does) }),
            ..Default::default()
        }
    }
}

/// An update of a request.
pub fn update(kind: p4::update::Type, entity: Message) -> p4::Update {
    p4::Update { r#type: kind as i32, entity: Some(p4::Entity { entity: Some(entity) }) }
}

/// A new entity.
pub fn insert(entity: Message) -> p4::Update {
    update(p4::update::Type::Insert, entity)
}

/// The code of each update, from the details of a status.
pub fn codes(status: &Status) -> Vec<Code> {
    use prost::Message as _;
    let details = RpcStatus::decode(status.details()).expect("details").details;
    let error = |any: &prost_types::Any| p4::Error::decode(any.value.as_slice()).expect("an error");
    details.iter().map(|any| Code::from_i32(error(any).canonical_code)).collect()
}
