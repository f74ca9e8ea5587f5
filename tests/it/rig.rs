//! The rig of tests on real interfaces: a private network namespace, veth pairs, ports as bytes in and out.
//!
//! Needs root and `ip`; says so and lets the test pass otherwise, or fail where nothing may be skipped. A
//! namespace has no name and ends with the test's thread, so nothing is left behind.

use std::process::Command;
use std::time::{Duration, Instant};

use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
use wireyard_switch::config::room::CHUNK_BYTES;
use wireyard_switch::ports::sys::netns::{PrivateNetwork, enter_private_network};
use wireyard_switch::ports::{LinkState, Port, PortError, PortSpec, RxFrame, TxFrame, open};
use wireyard_tables::time::Time;

/// A private network namespace; `None` (with the reason printed) where there cannot be one.
pub(crate) fn private_network(test: &str) -> Option<PrivateNetwork> {
    if !wireyard_tests::has_tool("ip") {
        wireyard_tests::skip(test, "there is no `ip` (Debian package iproute2)");
        return None;
    }
    match enter_private_network() {
        Ok(network) => {
            // The kernel's own neighbour discovery would be frames that nobody expects.
            for scope in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
                let _ = std::fs::write(path, "1");
            }
            Some(network)
        }
        Err(error) => {
            let why = format!("no private network namespace (root is needed): {error}");
            wireyard_tests::skip(test, &why);
            None
        }
    }
}

pub(crate) fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split_whitespace()).output().expect("ip runs");
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A veth pair that carries frames of 9,216 bytes.
pub(crate) fn veth(one: &str, two: &str) {
    ip(&format!("link add {one} mtu 9202 type veth peer name {two} mtu 9202"));
    ip(&format!("link set {one} up"));
    ip(&format!("link set {two} up"));
}

/// Large chunks of a port's memory.
const LARGE: u32 = 64;

/// A port with its memory, as bytes in and out. Packet memory is as `run` has it, but for how much there is.
pub(crate) struct Wire {
    pub(crate) mem: PacketMemory,
    chunks: u32,
    pub(crate) port: Box<dyn Port>,
    started: Instant,
}

impl Wire {
    pub(crate) fn open(spec: &str) -> Wire {
        Wire::with_chunks(spec, 2048)
    }

    pub(crate) fn with_chunks(spec: &str, chunks: u32) -> Wire {
        let config = MemoryConfig { chunks, chunk_bytes: CHUNK_BYTES, ..MemoryConfig::default() };
        let mem = PacketMemory::with_large(config, LARGE).unwrap();
        let opened = open(&PortSpec::parse(spec).unwrap(), &mem);
        let opened = opened.unwrap_or_else(|error| panic!("{error}"));
        let asked = spec.split(',').next().unwrap_or(spec);
        assert_eq!(opened.port.name(), asked, "{:?}", opened.notices);
        let port = opened.port;
        Wire { mem, chunks: chunks + LARGE, port, started: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_ns(self.started.elapsed().as_nanos() as u64)
    }

    pub(crate) fn poll(&mut self) -> Result<Vec<RxFrame>, PortError> {
        let mut frames = Vec::new();
        let now = self.now();
        self.port.rx_burst(&mut self.mem, now, &mut frames, 64)?;
        Ok(frames)
    }

    pub(crate) fn bytes(&mut self, frame: RxFrame) -> Vec<u8> {
        let bytes = self.mem.frame(&frame.buf, frame.data_off, frame.len).to_vec();
        assert_eq!(bytes.len(), frame.len as usize);
        self.mem.free(frame.buf);
        bytes
    }

    /// Receives until `count` frames came or a second passed.
    pub(crate) fn receive(&mut self, count: usize) -> Vec<Vec<u8>> {
        let deadline = Instant::now() + Duration::from_secs(1);
        let mut all = Vec::new();
        while all.len() < count && Instant::now() < deadline {
            for frame in self.poll().expect("the port works") {
                all.push(self.bytes(frame));
            }
        }
        all
    }

    /// The next frame, if there is one.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let (mut frames, now) = (Vec::new(), self.now());
        self.port.rx_burst(&mut self.mem, now, &mut frames, 1).expect("the port works");
        frames.pop().map(|frame| self.bytes(frame))
    }

    /// Takes what is there, unlooked at; how many frames that was.
    pub(crate) fn take(&mut self) -> u64 {
        let frames = self.poll().expect("the port works");
        let count = frames.len() as u64;
        frames.into_iter().for_each(|frame| self.mem.free(frame.buf));
        count
    }

    /// What arrives although nothing should.
    pub(crate) fn receive_unexpected(&mut self) -> Vec<Vec<u8>> {
        std::thread::sleep(Duration::from_millis(20));
        let frames = self.poll().expect("the port works");
        frames.into_iter().map(|frame| self.bytes(frame)).collect()
    }

    pub(crate) fn frame(&mut self, bytes: &[u8]) -> TxFrame {
        let buf = self.mem.alloc_frame(bytes).expect("a free chunk");
        let len = bytes.len() as u32;
        TxFrame::at_once(buf, self.mem.config().headroom_bytes as u16, len, Time::ZERO)
    }

    pub(crate) fn send(&mut self, frames: &[Vec<u8>]) {
        let mut burst: Vec<TxFrame> = frames.iter().map(|bytes| self.frame(bytes)).collect();
        let deadline = Instant::now() + Duration::from_secs(1);
        while !burst.is_empty() {
            let now = self.now();
            let done = self.port.tx_burst(&mut self.mem, now, &mut burst).expect("the port works");
            self.port.flush(&mut self.mem).expect("the port works");
            assert_eq!(done.dropped, 0, "{:?}", self.port.stats());
            assert!(Instant::now() < deadline, "{} frames found no room", burst.len());
        }
    }

    /// Polls until the link is up; the kernel takes up to a second to say so.
    pub(crate) fn await_link_up(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(3);
        while self.port.link_state(self.now()) != LinkState::Up {
            assert!(Instant::now() < deadline, "{} did not come up", self.port.name());
            assert!(self.poll().expect("no second error").is_empty());
        }
    }

    /// The same, with frames that come meanwhile left where they are.
    pub(crate) fn await_link_up_quietly(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(3);
        while self.port.link_state(self.now()) != LinkState::Up {
            assert!(Instant::now() < deadline, "{} did not come up", self.port.name());
        }
    }

    /// The first error within two seconds.
    pub(crate) fn error(&mut self) -> PortError {
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            if let Err(error) = self.poll() {
                return error;
            }
        }
        panic!("{}: no error within two seconds", self.port.name());
    }

    /// Closes the port and checks that every chunk came back.
    pub(crate) fn close(mut self) {
        self.port.close(&mut self.mem);
        assert_eq!(self.mem.free_chunks(), self.chunks, "{} holds chunks", self.port.name());
    }
}

pub(crate) const TAGGED: &[u8] = &[0x81, 0x00, 0x60, 0x64];
pub(crate) const SERVICE_TAGGED: &[u8] = &[0x88, 0xa8, 0x20, 0x0a];
pub(crate) const DOUBLE_TAGGED: &[u8] = &[0x88, 0xa8, 0x20, 0x0a, 0x81, 0x00, 0xe0, 0x64];

/// A frame of `len` bytes with `tags` behind the addresses and a private EtherType.
pub(crate) fn frame(tags: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2];
    bytes.extend(tags);
    bytes.extend([0x88, 0xb5]);
    let start = bytes.len();
    bytes.extend((start..len).map(|i| (i * 7 + len) as u8));
    bytes
}
