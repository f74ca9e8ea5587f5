//! Wireyard switch: the device around a program, and the laboratory of such devices.
//!
//! The `wireyard` binary is a thin command line over this library; a program of your own can use the same parts.
//!
//! | to | look at |
//! | --- | --- |
//! | read and check a program with its entries and configuration | [`program`] |
//! | build a device, add ports, move packets | [`core`], [`ports`] |
//! | control a running device | [`control`], over the network [`p4runtime`], by name [`management`] |
//! | let the kernel be a router's control plane | [`linux`] |
//! | run scenarios in virtual time and read figures | [`lab`] |
//!
//! Time is an argument everywhere except in live ports and the loop of [`live`]: a device that is polled with the same
//! frames at the same times does the same.
//!
//! # A device with two ports
//!
//! ```
//! use wireyard_switch::ports::{LinkType, PortNumber, memory};
//! use wireyard_switch::program::{DeviceOptions, from_text};
//! use wireyard_tables::time::Time;
//!
//! let program = "
//! pipeline: crossed
//! ingress: [ { if: std.ingress_port == 1, then: [ std.egress_port = 2 ], else: [ std.egress_port = 1 ] } ]
//! ";
//! let mut core = from_text("crossed.yaml", program)?.device(DeviceOptions::small())?;
//! let (one, mut far_one) = memory::pair(core.memory(), ("1", "far1"), LinkType::Ethernet, 16);
//! let (two, mut far_two) = memory::pair(core.memory(), ("2", "far2"), LinkType::Ethernet, 16);
//! core.add_port(PortNumber(1), Box::new(one))?;
//! core.add_port(PortNumber(2), Box::new(two))?;
//!
//! far_one.send_bytes(core.memory(), &[0xab; 60]);
//! let progress = core.poll(Time::from_ns(1000), None);
//! assert_eq!((progress.received, progress.sent), (1, 1));
//! assert_eq!(far_two.receive_bytes(core.memory()), [[0xab; 60]]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A port of your own, and queues
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use wireyard_pipeline::packet::PacketMemory;
//! use wireyard_switch::ports::{
//!     ChecksumStatus, LinkState, LinkType, Port, PortCaps, PortError, PortNumber, PortStats, RxFrame, TxDone, TxFrame,
//! };
//! use wireyard_switch::program::{DeviceOptions, from_text};
//! use wireyard_tables::time::Time;
//!
//! /// Sends frames of 1000 bytes at the beginning, and records when each received frame begins on the wire.
//! #[derive(Default)]
//! struct Probe { to_send: u32, begun: Arc<Mutex<Vec<Time>>> }
//!
//! impl Port for Probe {
//!     fn name(&self) -> &str { "probe" }
//!     fn caps(&self) -> PortCaps { PortCaps { link: LinkType::Ethernet, mtu_bytes: None } }
//!     fn rx_burst(
//!         &mut self, mem: &mut PacketMemory, now: Time, out: &mut Vec<RxFrame>, max: usize,
//!     ) -> Result<usize, PortError> {
//!         let before = out.len();
//!         while self.to_send > 0 && out.len() - before < max {
//!             let Some(buf) = mem.alloc_frame(&[0x5a; 1000]) else { break };
//!             let data_off = mem.config().headroom_bytes as u16;
//!             let checksum = ChecksumStatus::AsReceived;
//!             out.push(RxFrame { buf, data_off, len: 1000, wire_len: 1000, timestamp: now, checksum });
//!             self.to_send -= 1;
//!         }
//!         Ok(out.len() - before)
//!     }
//!     fn tx_burst(
//!         &mut self, mem: &mut PacketMemory, _: Time, frames: &mut Vec<TxFrame>,
//!     ) -> Result<TxDone, PortError> {
//!         let sent = frames.len();
//!         for frame in frames.drain(..) {
//!             self.begun.lock().unwrap().push(frame.start);
//!             mem.free(frame.buf);
//!         }
//!         Ok(TxDone { sent, dropped: 0 })
//!     }
//!     fn stats(&mut self) -> PortStats { PortStats::default() }
//!     fn link_state(&mut self, _: Time) -> LinkState { LinkState::Up }
//! }
//!
//! let program = "
//! pipeline: one_way
//! ingress: [ std.egress_port = 2 ]
//! ";
//! let config = "
//! ports: { 2: { rate: 1 Gbit/s } }
//! qos: { preset: plain }
//! ";
//! let loaded = from_text("one_way.yaml", program)?.with_config("switch.yaml", config)?;
//! let mut core = loaded.device(DeviceOptions::small())?;
//! let begun = Arc::default();
//! core.add_port(PortNumber(1), Box::new(Probe { to_send: 3, ..Probe::default() }))?;
//! core.add_port(PortNumber(2), Box::new(Probe { begun: Arc::clone(&begun), ..Probe::default() }))?;
//! loaded.set_queues(&mut core, &[PortNumber(1), PortNumber(2)])?;
//!
//! // The caller's time: each poll is at the instant of the next event.
//! let mut now = Time::ZERO;
//! core.poll(now, None);
//! while let Some(next) = core.next_event_at(now) {
//!     now = next;
//!     core.poll(now, None);
//! }
//! // 1000 bytes, FCS, preamble and gap at 1 Gbit/s are 8192 ns.
//! assert_eq!(*begun.lock().unwrap(), [0, 8192, 16384].map(Time::from_ns));
//! // Messages of ports and of the device, including errors of ports.
//! assert!(core.ports_mut().take_messages().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A scenario of the laboratory
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use wireyard_pipeline::source::Loader;
//! use wireyard_switch::lab::build::Options;
//! use wireyard_switch::lab::{results::About, scenario, sweep};
//! use wireyard_switch::library::LIBRARIES;
//! use wireyard_switch::program::EngineKind;
//!
//! let text = "
//! lab: two_to_one
//! duration: 200 us
//! sample: 10 us
//! link: { rate: 100 Gbit/s, delay: 1 us, mtu: 1500 B }
//! topology: { incast: { senders: 2 } }
//! switch: { qos: { preset: onyx_roce } }
//! host: { rate_control: dcqcn }
//! flows: { from: senders, to: sink, size: 100 KB }
//! ";
//! let path = Path::new("two_to_one.yaml");
//! let loader = Loader::in_memory([(path, text)], LIBRARIES);
//! let (scenario, _files) = scenario::read(path, &loader)?;
//! let options = Options { engine: EngineKind::Auto, ..Options::default() };
//! let about = About { version: "1".into(), engine: "auto".into() };
//! let run = sweep::run(&Arc::new(scenario), options, &about, &mut |_| true)?;
//! // Figures are in base units: bytes, seconds, bit/s. One that could not be measured is NaN.
//! let figure = |name: &str| run.report.find(name).map(|figure| figure.value);
//! assert_eq!(figure("flows.finished"), Some(2.0));
//! assert_eq!(figure("drops.total"), Some(0.0));
//! assert!(figure("bottleneck.queue_peak").is_some_and(|bytes| bytes > 0.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(
    not(feature = "command"),
    allow(dead_code, unused_imports, reason = "what the command alone uses")
)]

mod bit_set;
#[cfg(feature = "command")]
pub mod cli;
pub mod config;
pub mod confine;
pub mod control;
pub mod core;
pub mod decode;
#[cfg(feature = "lab")]
pub mod demo;
pub mod device;
#[cfg(feature = "command")]
pub mod doctor;
mod file_identity;
mod file_kind;
pub mod folder;
pub mod frames;
#[cfg(feature = "command")]
pub mod gnmi;
pub mod host;
#[cfg(feature = "lab")]
pub mod lab;
pub mod library;
pub mod link_type;
#[cfg(feature = "command")]
pub mod linux;
mod linux_words;
pub mod live;
#[cfg(feature = "command")]
pub mod management;
#[cfg(feature = "command")]
pub mod metrics;
mod output_file;
#[cfg(feature = "command")]
pub mod p4runtime;
pub mod pcap;
pub mod ports;
pub mod program;
pub mod recorder;
pub mod replay;
pub mod replicate;
pub mod report;
pub mod roce;
pub mod sandbox;
pub mod stats;
pub mod stf;
mod sync;
pub mod terminal;
mod time_of_day;
pub mod tm;
pub mod units;
#[cfg(feature = "command")]
pub mod web;

#[cfg(test)]
#[allow(unreachable_pub, reason = "public where it is a part of the other package")]
#[path = "../../tests/src/skip.rs"]
mod skip;
