//! Frames of several segments, as a sender's kernel hands them to a veth pair: the ports cut them, and TCP runs at speed.
//!
//! Two network namespaces with a switch between them; needs root, one test tshark and one Python too. Skips loudly otherwise.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use wireyard_switch::ports::sys::netns::PrivateNetwork;
use wireyard_tests::live::Switch;
use wireyard_tests::{has_tool, skip};

use crate::many_ports::cables;
use crate::rig::{Wire, frame, ip, private_network, veth};

const PROGRAM: &str = "programs/rocev2_lossless";
const LATEST: Duration = Duration::from_secs(60);

/// A switch between this namespace, where host 1 is, and another, where host 2 is.
pub(crate) struct Rig {
    switch: Switch,
    far: Option<JoinHandle<()>>,
    work: Option<Sender<Box<dyn FnOnce() + Send>>>,
    _network: PrivateNetwork,
}

impl Rig {
    pub(crate) fn new(test: &str, kind: &str, more: &[&str]) -> Option<Rig> {
        let network = private_network(test)?;
        cables(2);
        let (work, jobs): (_, Receiver<Box<dyn FnOnce() + Send>>) = channel();
        let (sender, receiver) = channel();
        let name = test.to_owned();
        let far = thread::spawn(move || {
            let network = private_network(&name);
            let thread = std::fs::read_link("/proc/thread-self").expect("/proc");
            let number = thread.file_name().expect("a number").to_str().expect("digits").to_owned();
            sender.send(number).expect("the test waits");
            jobs.into_iter().for_each(|job| job());
            drop(network);
        });
        let there = receiver.recv().expect("the thread runs");
        ip(&format!("link set host2 netns {there}"));
        ip("addr add 192.0.2.1/24 dev host1");
        let (one, two) = (format!("1={kind}:sw1"), format!("2={kind}:sw2"));
        let switch = Switch::on(PROGRAM, &[&one, &two], &[&["--json"], more].concat());
        let rig = Rig { switch, far: Some(far), work: Some(work), _network: network };
        rig.at_host_2(|| {
            ip("addr add 192.0.2.2/24 dev host2");
            ip("link set host2 up");
        });
        Some(rig)
    }

    /// Runs something in the namespace of host 2 and waits for what it gives.
    pub(crate) fn at_host_2<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.start_at_host_2(job).recv_timeout(LATEST).expect("it ends")
    }

    fn start_at_host_2<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Receiver<T> {
        let (sender, receiver) = channel();
        let job = Box::new(move || {
            let _ = sender.send(job());
        });
        self.work.as_ref().expect("it runs").send(job).expect("the thread runs");
        receiver
    }

    /// Sends so many bytes by TCP from host 1 to host 2, who sees them unharmed; bits a second.
    fn transfer(&self, bytes: usize) -> f64 {
        self.transfer_to("192.0.2.2", bytes)
    }

    /// The same to another address of host 2.
    pub(crate) fn transfer_to(&self, address: &'static str, bytes: usize) -> f64 {
        let listener = self.at_host_2(move || TcpListener::bind((address, 0)).expect("a port"));
        let port = listener.local_addr().expect("an address").port();
        let got = self.start_at_host_2(move || {
            let (mut stream, _) = listener.accept().expect("a caller");
            stream.set_read_timeout(Some(LATEST)).unwrap();
            let (mut buffer, mut got) = (vec![0; 1 << 16], 0usize);
            loop {
                let count = stream.read(&mut buffer).expect("bytes in time");
                if count == 0 {
                    return got;
                }
                let is_right = |(i, byte): (usize, &u8)| *byte == ((got + i) % 251) as u8;
                assert!(buffer[..count].iter().enumerate().all(is_right), "at {got}");
                got += count;
            }
        });
        let began = Instant::now();
        let mut stream = TcpStream::connect((address, port)).expect("the switch bridges");
        stream.set_write_timeout(Some(LATEST)).unwrap();
        let block: Vec<u8> = (0..251 * 1024).map(|i| (i % 251) as u8).collect();
        let mut left = bytes;
        while left > 0 {
            let count = left.min(block.len());
            stream.write_all(&block[..count]).expect("bytes leave in time");
            left -= count;
        }
        drop(stream);
        assert_eq!(got.recv_timeout(LATEST).expect("it ends"), bytes);
        bytes as f64 * 8.0 / began.elapsed().as_secs_f64()
    }

    pub(crate) fn end(mut self) -> (Value, String) {
        drop(self.work.take());
        self.far.take().expect("once").join().expect("the far side");
        let ended = self.switch.end("INT");
        ended.expect(0, &[]);
        (serde_json::from_str(&ended.out).expect("JSON counters"), ended.err)
    }
}

pub(crate) fn medium(report: &Value, port: usize, counter: &str) -> u64 {
    report["ports"][port - 1]["medium"][counter].as_u64().expect("a counter")
}

/// Far more than frames that are dropped leave of it (0.3 Mbit/s), also on a busy machine. Alone it is above 500 Mbit/s.
#[test]
fn tcp_runs_at_speed() {
    for (kind, least) in [("raw", 100e6), ("pnet", 30e6)] {
        let Some(rig) = Rig::new("tcp_runs_at_speed", kind, &[]) else { return };
        rig.transfer(1 << 20);
        let rate = rig.transfer(48 << 20);
        println!("{kind}: {:.0} Mbit/s", rate / 1e6);
        let (report, err) = rig.end();
        assert!(rate > least, "{kind}: {:.1} Mbit/s: {report:#}", rate / 1e6);
        assert!(medium(&report, 1, "rx_segmented") > 100, "{kind}: {report:#}");
        assert_eq!(medium(&report, 1, "rx_gso"), 0, "{kind}: {report:#}");
        assert!(!err.contains("GSO"), "{err}");
    }
}

/// Lines that tshark prints of a capture with checksums looked at; of their status, 0 is bad and 1 is good.
pub(crate) fn tshark(capture: &Path, filter: &str) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.args(["-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
    command
        .args(["-o", "ip.check_checksum:TRUE", "-o", "sctp.checksum:CRC 32c", "-Y", filter, "-r"])
        .arg(capture);
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{filter}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// An independent reader finds no frame that is too long, and no checksum, identification or sequence that is wrong.
#[test]
fn segments_are_right_to_tshark() {
    let test = "segments_are_right_to_tshark";
    if !has_tool("tshark") || !has_tool("python3") {
        return skip(test, "there is no tshark, or no python3");
    }
    for kind in ["raw", "pnet"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("all.pcapng");
        let more = ["--capture", file.to_str().unwrap()];
        let Some(rig) = Rig::new(test, kind, &more) else { return };
        rig.transfer(2 << 20);
        let udp = rig.at_host_2(|| UdpSocket::bind("192.0.2.2:7").expect("a port"));
        udp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // 103 is UDP_SEGMENT: the kernel leaves 5 datagrams in one frame.
        let script = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(17, 103, 1000)
s.sendto(bytes(range(250)) * 19, ('192.0.2.2', 7))";
        let sent = Command::new("python3").args(["-c", script]).status().expect("python3 runs");
        assert!(sent.success());
        let mut buffer = [0; 4096];
        let lengths: Vec<usize> =
            (0..5).map(|_| udp.recv(&mut buffer).expect("a datagram")).collect();
        assert_eq!(lengths, [1000, 1000, 1000, 1000, 750]);
        let (report, _) = rig.end();
        assert!(medium(&report, 1, "rx_segmented") > 10, "{kind}: {report:#}");
        let data = tshark(&file, "tcp.len > 1000");
        assert!(data.len() > 1400, "{} segments", data.len());
        let wrong = "frame.len > 1514 || tcp.checksum.status == 0 || udp.checksum.status == 0 || \
                     ip.checksum.status == 0 || _ws.malformed";
        assert_eq!(tshark(&file, wrong), Vec::<String>::new(), "{kind}");
        // Each in and out once.
        assert_eq!(tshark(&file, "udp.length == 1008 && udp.checksum.status == 1").len(), 8);
    }
}

/// A frame whose segments are longer than any chunk is dropped, and what comes behind it is received.
#[test]
fn segments_that_fit_no_chunk_do_not_stop_a_port() {
    let test = "segments_that_fit_no_chunk_do_not_stop_a_port";
    if !has_tool("python3") {
        return skip(test, "there is no python3");
    }
    for kind in ["raw", "pnet"] {
        let Some(rig) = Rig::new(test, kind, &[]) else { return };
        ip("link set host1 mtu 60000");
        let udp = rig.at_host_2(|| UdpSocket::bind("192.0.2.2:7").expect("a port"));
        udp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // 103 is UDP_SEGMENT.
        // What waits for the neighbour may be overtaken when it is known.
        let script = "import socket, time
plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
plain.sendto(b'before', ('192.0.2.2', 7))
time.sleep(0.5)
large = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
large.setsockopt(17, 103, 20000)
large.sendto(bytes(50000), ('192.0.2.2', 7))
for _ in range(50):
    plain.sendto(b'behind', ('192.0.2.2', 7))";
        let sent = Command::new("python3").args(["-c", script]).status().expect("python3 runs");
        assert!(sent.success());
        let mut buffer = [0; 4096];
        for want in [&b"before"[..]].into_iter().chain([&b"behind"[..]; 50]) {
            let len = udp.recv(&mut buffer).unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert_eq!(&buffer[..len], want, "{kind}");
        }
        let (report, _) = rig.end();
        assert_eq!(medium(&report, 1, "rx_gso"), 1, "{kind}: {report:#}");
        assert_eq!(medium(&report, 1, "rx_no_memory"), 0, "{kind}: {report:#}");
    }
}

/// Frames that fit no chunk of 2 KiB, and those that just do, through the compiled engine in order and unharmed.
fn frames_of_every_length_pass(test: &str, kind: &str) {
    let Some(_network) = private_network(test) else { return };
    veth("sw1", "host1");
    veth("sw2", "host2");
    let (one, two) = (format!("1={kind}:sw1"), format!("2={kind}:sw2"));
    let switch = Switch::on("programs/rocev2_lossless", &[&one, &two], &["--json"]);
    let mut hosts = [1, 2].map(|n| Wire::open(&format!("raw:host{n}")));
    let lengths = [60, 1514, 1787, 1788, 1791, 1792, 1793, 2048, 3840, 4096, 9014, 9216];
    let frames: Vec<Vec<u8>> = lengths.iter().map(|len| frame(&[], *len)).collect();
    for _ in 0..20 {
        hosts[0].send(&frames);
        assert_eq!(hosts[1].receive(frames.len()), frames);
    }
    let report: Value =
        serde_json::from_str(&switch.end("INT").expect(0, &[]).out).expect("JSON counters");
    let sent = 20 * lengths.len();
    assert_eq!(report["ports"][0]["medium"]["rx_frames"], sent, "{report:#}");
    assert_eq!(report["ports"][1]["medium"]["tx_frames"], sent, "{report:#}");
    assert_eq!(report["total"]["balanced"], true, "{report:#}");
}

#[test]
fn xdp_ports_carry_frames_of_every_length() {
    frames_of_every_length_pass("xdp_ports_carry_frames_of_every_length", "xdp");
}

#[test]
fn raw_ports_carry_frames_of_every_length() {
    frames_of_every_length_pass("raw_ports_carry_frames_of_every_length", "raw");
}
