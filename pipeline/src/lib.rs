//! Wireyard pipeline: a YAML program in, an executable packet processor out.
//!
//! The stages, and their results:
//!
//! * [`source`] reads YAML and its includes into a syntax tree ([`ast`]) with the place of every word.
//! * [`check`] makes a typed program of it ([`ir`]), or reports all errors ([`diag`]).
//! * [`passes`] remove code without effect.
//! * [`state`] is the program's state from packet to packet: tables, registers, counters, meters.
//! * [`interp`] runs a program, [`jit`] compiles it to machine code; both are an [`engine::Engine`], over bursts of
//!   packets ([`exec`]) in [`packet`] memory.
//! * [`generation`] replaces a program and its state by another one while packets flow.
//!
//! It is not a switch: ports, queues and the meaning of port numbers are the caller's. It has no notion of a protocol,
//! a socket or a clock.
//!
//! # Example
//! A program that swaps two addresses and counts, checked and run over two frames:
//!
//! ```
//! use std::sync::Arc;
//! use wireyard_pipeline::check::{ExternRegistry, compile};
//! use wireyard_pipeline::diag::Rejected;
//! use wireyard_pipeline::engine::{Context, Engine, NoDevice};
//! use wireyard_pipeline::exec::{Descriptor, Intrinsic, Verdict};
//! use wireyard_pipeline::jit::{Codes, Options};
//! use wireyard_pipeline::packet::{MemoryConfig, PacketMemory};
//! use wireyard_pipeline::source::{Loader, parse_program};
//! use wireyard_pipeline::state::{State, StateOptions};
//!
//! const PROGRAM: &str = "
//! pipeline: swap
//! headers: { pair: { fields: { to: 16, from: 16 } } }
//! counters: { seen: { size: 256 } }
//! parser: { start: { extract: pair } }
//! deparser: { emit: [pair] }
//! ingress:
//!   - count(seen, 7)
//!   - let keep = pair.to
//!   - pair.to = pair.from
//!   - pair.from = keep
//!   - std.egress_port = std.ingress_port
//! ";
//!
//! // Check it: all errors come with their place, and are printed with the lines that they refer to.
//! let loader = Loader::in_memory([("swap.yaml", PROGRAM)], &[]);
//! let parsed = parse_program("swap.yaml".as_ref(), &loader)?;
//! let rejected = |diagnostics| Rejected { diagnostics, files: parsed.files.clone() };
//! let compiled = compile(&parsed, &ExternRegistry::new()).map_err(rejected)?;
//! let program = Arc::new(compiled.program);
//!
//! // Its state, and its engine: machine code. Where that is refused, `interp::Interp` runs the program.
//! let state = State::new(&program, StateOptions::default())?;
//! let codes = Codes::default();
//! let engine = codes.engine(&program, &state, Options::default()).map_err(|(refused, _)| refused)?;
//!
//! // A burst of two frames that came in by port 3.
//! let mut memory = PacketMemory::new(MemoryConfig::for_frames(64, 2048, 128))?;
//! let headroom = memory.config().headroom_bytes as u16;
//! let (mut packets, mut meta) = (Vec::new(), Vec::new());
//! for frame in [[0, 1, 0, 2, 0xaa], [0, 3, 0, 4, 0xbb]] {
//!     let buf = memory.alloc_frame(&frame).ok_or("no free chunk")?;
//!     packets.push(Descriptor::received(buf, headroom, frame.len() as u32, 3, 0));
//!     meta.push(Intrinsic::default());
//! }
//! let mut worker = state.worker(0);
//! let mut device = NoDevice;
//! let mut cx = Context {
//!     state: &state,
//!     worker: &mut worker,
//!     memory: &mut memory,
//!     device: &mut device,
//!     trace: None,
//! };
//! engine.ingress(&mut cx, &mut packets, &mut meta);
//!
//! for (packet, meta) in packets.iter().zip(&meta) {
//!     assert_eq!((meta.verdict(), packet.egress_port), (Verdict::Forward, 3));
//! }
//! let first = packets[0].buf.as_ref().ok_or("taken")?;
//! assert_eq!(memory.frame(first, packets[0].data_off, packets[0].len), [0, 2, 0, 1, 0xaa]);
//! packets.into_iter().filter_map(|packet| packet.buf).for_each(|buf| memory.free(buf));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod ast;
pub mod bmv2;
pub mod check;
pub mod decode;
pub mod diag;
pub mod engine;
pub mod entries;
pub mod exec;
pub mod externs;
pub mod generation;
pub mod graph;
pub mod ids;
pub mod interp;
pub mod ir;
pub mod jit;
pub mod p4;
pub mod p4info;
pub mod packet;
pub mod passes;
mod phv;
pub mod schema;
pub mod source;
pub mod state;
pub mod syntax;
pub mod trace;
