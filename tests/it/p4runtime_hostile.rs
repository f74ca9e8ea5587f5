//! Controllers that open thousands of streams, send a gigabyte or read nothing: packets pass meanwhile, others are served, and the memory
//! of the switch stays within bounds.
//!
//! On veth pairs in a private namespace; needs root and skips loudly otherwise.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{self, Sender};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use wireyard_switch::p4runtime::proto::p4::v1 as p4;
use wireyard_tests::p4client::{Controller, insert};

use crate::p4runtime::{PROGRAM, Rig, forward, frame, rig};
use crate::rig::private_network;
use p4::entity::Entity as Message;
use p4::p4_runtime_client::P4RuntimeClient;
use p4::stream_message_request::Update;

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
const MIB: u64 = 1 << 20;

/// A switch that forwards A to port 2, and its primary.
fn start() -> (Rig, Controller) {
    let rig = rig(PROGRAM, &[]);
    let mut controller = rig.primary();
    controller.write(vec![insert(Message::TableEntry(forward(&controller, A, 2)))]).unwrap();
    (rig, controller)
}

/// A packet passes, and the primary is answered.
#[track_caller]
fn all_is_well(rig: &mut Rig, primary: &mut Controller) {
    let packet = frame(A, B, 0x1234);
    let started = Instant::now();
    assert_eq!(rig.passes(&packet), std::slice::from_ref(&packet));
    let passed = started.elapsed();
    let entry = forward(primary, A, 2);
    primary
        .write(vec![wireyard_tests::p4client::update(
            p4::update::Type::Modify,
            Message::TableEntry(entry),
        )])
        .unwrap();
    println!("a packet after {passed:?}, an answer after {:?}", started.elapsed() - passed);
}

/// The most memory that the switch had so far, in bytes.
fn peak_bytes(rig: &Rig) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", rig.switch.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

async fn connect(address: &str) -> P4RuntimeClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    let channel = endpoint.connect().await.expect("somebody listens");
    P4RuntimeClient::new(channel).max_encoding_message_size(256 << 20)
}

#[test]
fn thousands_of_streams_leave_the_switch_to_others() {
    let Some(_network) = private_network("P4Runtime: thousands of streams") else { return };
    let (mut rig, mut primary) = start();
    let (runtime, before) = (runtime(), peak_bytes(&rig));
    let address = rig.address.clone();
    let (streams, refused): (Vec<_>, Vec<_>) = runtime.block_on(async {
        let mut opening = JoinSet::new();
        for _ in 0..50 {
            let client = connect(&address).await;
            for _ in 0..200 {
                let mut client = client.clone();
                opening.spawn(async move {
                    let stream = client.stream_channel(tokio_stream::pending()).await;
                    stream.map_err(|status| status.code())
                });
            }
        }
        opening.join_all().await.into_iter().partition(Result::is_ok)
    });
    // The primary has one of 64.
    assert_eq!((streams.len(), refused.len()), (63, 10_000 - 63));
    assert!(refused.iter().all(|code| matches!(code, Err(Code::ResourceExhausted))));
    all_is_well(&mut rig, &mut primary);
    let more = peak_bytes(&rig) - before;
    assert!(more < 256 * MIB, "10,000 streams took {} MiB", more / MIB);
    drop((streams, runtime));
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(full) = Controller::connect(&rig.address, 9) {
        assert!(Instant::now() < deadline, "{full:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    rig.switch.end("TERM").expect(0, &[]);
}

/// Requests of 120 MiB each, `count` at once; how they ended.
async fn large(address: &str, count: usize) -> Vec<Result<(), Status>> {
    let mut sending = JoinSet::new();
    for _ in 0..count {
        let mut client = connect(address).await;
        sending.spawn(async move {
            let entry = p4::TableEntry { metadata: vec![0; 120 << 20], ..Default::default() };
            let updates = vec![insert(Message::TableEntry(entry))];
            let election_id = Some(p4::Uint128 { high: 0, low: 1 });
            let request =
                p4::WriteRequest { device_id: 1, election_id, updates, ..Default::default() };
            client.write(request).await.map(|_| ())
        });
    }
    sending.join_all().await
}

#[test]
fn a_gigabyte_of_requests_delays_nobody() {
    let Some(_network) = private_network("P4Runtime: a gigabyte") else { return };
    let (mut rig, mut primary) = start();
    let (before, address) = (peak_bytes(&rig), rig.address.clone());
    let sending = std::thread::spawn(move || runtime().block_on(large(&address, 9)));
    while !sending.is_finished() {
        all_is_well(&mut rig, &mut primary);
        std::thread::sleep(Duration::from_millis(200));
    }
    let ended = sending.join().expect("the clients end");
    assert!(ended.iter().all(Result::is_err), "{ended:?}");
    println!("{:?}", ended.iter().map(|e| e.as_ref().unwrap_err().to_string()).collect::<Vec<_>>());
    let more = peak_bytes(&rig) - before;
    assert!(more < 768 * MIB, "a gigabyte took {} MiB", more / MIB);
    all_is_well(&mut rig, &mut primary);
    rig.switch.end("TERM").expect(0, &[]);
}

#[test]
fn answers_that_nobody_reads_are_bounded() {
    let Some(_network) = private_network("P4Runtime: answers that nobody reads") else { return };
    let (mut rig, mut primary) = start();
    // An answer of 32 MB, most of which is metadata.
    for batch in 0..40 {
        let entry = |n| {
            let entry = forward(&primary, [4, 0, 0, 0, batch, n], 2);
            Message::TableEntry(p4::TableEntry { metadata: vec![n; 16 << 10], ..entry })
        };
        let updates = (0..50).map(|n| insert(entry(n))).collect();
        primary.write(updates).unwrap();
    }
    let (runtime, before) = (runtime(), peak_bytes(&rig));
    let address = rig.address.clone();
    let answers = runtime.block_on(async {
        let mut reading = JoinSet::new();
        let client = connect(&address).await;
        for _ in 0..60 {
            let mut client = client.clone();
            reading.spawn(async move {
                let entity = Some(Message::TableEntry(p4::TableEntry::default()));
                let entities = vec![p4::Entity { entity }];
                let request = p4::ReadRequest { device_id: 1, entities, ..Default::default() };
                client.read(request).await
            });
        }
        reading.join_all().await
    });
    let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
    let refused: Vec<Code> = refused.map(Status::code).collect();
    assert!(refused.contains(&Code::ResourceExhausted), "{refused:?}");
    let more = peak_bytes(&rig) - before;
    println!("{} of {} reads refused, {} MiB more", refused.len(), answers.len(), more / MIB);
    assert!(more < 1024 * MIB, "answers that nobody reads took {} MiB", more / MIB);
    all_is_well(&mut rig, &mut primary);
    drop((answers, runtime));
    rig.switch.end("TERM").expect(0, &[]);
}

/// A stream with this election id, and what is sent to it.
async fn stream(
    address: &str,
    election: u64,
) -> (Sender<p4::StreamMessageRequest>, Streaming<p4::StreamMessageResponse>) {
    let (requests, outgoing) = mpsc::channel(1);
    let mut client = connect(address).await;
    let messages = client.stream_channel(ReceiverStream::new(outgoing)).await.expect("a stream");
    let election_id = Some(p4::Uint128 { high: 0, low: election });
    let update = p4::MasterArbitrationUpdate { device_id: 1, election_id, ..Default::default() };
    let update = Some(Update::Arbitration(update));
    requests.send(p4::StreamMessageRequest { update }).await.expect("it is open");
    (requests, messages.into_inner())
}

/// Its client reads nothing, so the notice that another one is primary finds no room: the stream ends, and is not
/// silent for ever.
#[test]
fn a_primary_that_reads_nothing_loses_its_stream_with_its_standing() {
    let Some(_network) = private_network("P4Runtime: a primary that reads nothing") else { return };
    let rig = rig(PROGRAM, &[]);
    let ended = runtime().block_on(async {
        let (requests, mut messages) = stream(&rig.address, 1).await;
        // Each is refused, and comes back: more than wait for a controller.
        let metadata = p4::PacketMetadata { metadata_id: 99, value: vec![1; 1500] };
        let packet = p4::PacketOut { payload: vec![0; 10], metadata: vec![metadata] };
        for _ in 0..12_000 {
            let update = Some(Update::Packet(packet.clone()));
            requests.send(p4::StreamMessageRequest { update }).await.expect("it is open");
        }
        let (_other, mut of_other) = stream(&rig.address, 2).await;
        assert!(matches!(of_other.message().await, Ok(Some(_))), "it is primary");
        let until_end = async { while let Ok(Some(_)) = messages.message().await {} };
        tokio::time::timeout(Duration::from_secs(30), until_end).await
    });
    assert!(ended.is_ok(), "the stream is open, and nothing is sent to it");
    rig.switch.end("TERM").expect(0, &[]);
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn http2(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Takes a whole frame from the front: its kind, flags, stream and payload.
fn next_frame(bytes: &mut Vec<u8>) -> Option<(u8, u8, u32, Vec<u8>)> {
    let head: [u8; 9] = *bytes.first_chunk()?;
    let [a, b, c, kind, flags, stream @ ..] = head;
    let end = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
    let payload = bytes.get(9..end)?.to_vec();
    bytes.drain(..end);
    Some((kind, flags, u32::from_be_bytes(stream), payload))
}

/// A field of a header, literal and not indexed (RFC 7541, section 6.2.2).
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// Its client sends a part of a write and then nothing, so that no library ends the call.
#[test]
fn a_request_that_stands_still_ends() {
    let Some(_network) = private_network("p4runtime stalled") else { return };
    let (mut rig, mut primary) = start();
    let mut client = TcpStream::connect(&rig.address).expect("the switch listens");
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/p4.v1.P4Runtime/Write"),
        (":authority", "switch"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let fields: Vec<u8> = fields.iter().flat_map(|(name, value)| field(name, value)).collect();
    let begun = [&[0][..], &(100_u32 << 20).to_be_bytes(), &[7; 1000]].concat();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend([http2(4, 0, 0, &[]), http2(1, 4, 1, &fields), http2(0, 0, 1, &begun)].concat());
    client.write_all(&sent).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let (started, mut received, mut has_ended) = (Instant::now(), Vec::new(), false);
    while !has_ended {
        assert!(started.elapsed() < Duration::from_secs(60), "it stays");
        let mut some = [0; 4096];
        match client.read(&mut some) {
            Ok(0) => panic!("the connection ended"),
            Ok(count) => received.extend(&some[..count]),
            Err(_) => all_is_well(&mut rig, &mut primary),
        }
        while let Some((kind, flags, stream, payload)) = next_frame(&mut received) {
            // A connection that answers pings is alive.
            if (kind, flags & 1) == (6, 0) {
                client.write_all(&http2(6, 1, 0, &payload)).unwrap();
            }
            // HEADERS that end the stream of the call: the status.
            has_ended |= (kind, flags & 1, stream) == (1, 1, 1);
        }
    }
    assert!(started.elapsed() > Duration::from_secs(25), "{:?}", started.elapsed());
}
