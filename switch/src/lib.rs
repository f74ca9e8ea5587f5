//! Wireyard switch: the device around a program.

pub mod cli;
pub mod config;
pub mod control;
pub mod core;
pub mod decode;
pub mod demo;
pub mod device;
pub mod folder;
pub mod frames;
pub mod host;
pub mod lab;
pub mod library;
pub mod link_type;
pub mod live;
pub mod metrics;
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
pub mod terminal;
pub mod tm;
pub mod units;

#[cfg(test)]
#[allow(unreachable_pub, reason = "public where it is a part of the other package")]
#[path = "../../tests/src/skip.rs"]
mod skip;
