//! An end point driven by commands, one JSON object per line: the input and output of `wireyard host`.
//!
//! The commands are the verbs of a small program: register memory, create and connect a queue pair, post work, wait for
//! completions. The data that two ends must exchange (queue pair, key, address) is in the answers; a user or a test
//! transfers it, as `ibv_rc_pingpong` does over TCP. Time is an argument; files are read and written only where a
//! command names one.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use wireyard_pipeline::source::read_bytes;
use wireyard_tables::time::{Span, Time};

use crate::frames::envelope::{Address, Encap, mapped, udp_src_port, unmapped};
use crate::output_file;
use crate::roce::memory::{Access, Bytes};
use crate::roce::opcode::Service;
use crate::roce::qp::{PathMtu, QpConfig, QpCounters};
use crate::roce::verbs::{Completion, CompletionOp, RecvWr, Remote, SendOp, SendWr, Sge};

use super::connect::{ConnectOptions, Peer};
use super::port::EndPointPort;

/// Virtual address of the first region; each gets its own 2^32.
const FIRST_VA: u64 = 1 << 32;
/// Interval of requests for a neighbour, and their total time.
const ASK_EVERY: Span = Span::from_ms(200);
const ASK_FOR: Span = Span::from_ms(5_000);
/// Most bytes of a region.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// A command.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    Memory { bytes: u64, file: Option<PathBuf> },
    Save { key: u32, file: PathBuf },
    QueuePair {},
    Connect(Connect),
    Recv(Work),
    Send(Work),
    Write(Work),
    Read(Work),
    FetchAdd(Work),
    CmpSwap(Work),
    Wait { completions: usize, seconds: Option<f64> },
    Counters {},
    End {},
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Connect {
    qp: u32,
    ip: IpAddr,
    peer_qp: u32,
    #[serde(default)]
    peer_psn: u32,
    #[serde(default)]
    psn: u32,
    mtu: Option<u32>,
    timeout: Option<u8>,
    vlan: Option<u16>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Work {
    qp: u32,
    id: u32,
    key: u32,
    va: u64,
    bytes: u32,
    #[serde(default)]
    remote_key: u32,
    #[serde(default)]
    remote_va: u64,
    #[serde(default)]
    add: u64,
    #[serde(default)]
    compare: u64,
    #[serde(default)]
    swap: u64,
}

impl Work {
    fn local(&self) -> Sge {
        Sge { key: self.key, va: self.va, len: self.bytes }
    }

    fn remote(&self) -> Remote {
        Remote { va: self.remote_va, rkey: self.remote_key }
    }
}

/// The condition that an unfinished command waits for.
#[derive(Debug)]
enum Pending {
    Neighbour { connect: Connect, until: Time, ask_at: Time },
    Completions { count: usize, until: Time },
}

/// The state between commands.
#[derive(Debug)]
pub struct Session {
    qp: QpConfig,
    regions: u64,
    pending: Option<Pending>,
    done: Vec<Completion>,
    ended: bool,
}

impl Session {
    /// A session whose queue pairs have this configuration.
    pub fn new(qp: QpConfig) -> Session {
        Session { qp, regions: 0, pending: None, done: Vec::new(), ended: false }
    }

    /// True after the command `end`.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// True when it can take the next command.
    pub fn is_ready(&self) -> bool {
        self.pending.is_none() && !self.ended
    }

    /// Executes a command; `None` when [`Self::poll`] will return its answer later.
    pub fn command(&mut self, end: &mut EndPointPort, now: Time, line: &str) -> Option<Value> {
        let answer = match serde_json::from_str(line) {
            Ok(command) => self.act(end, now, command).transpose()?,
            Err(error) => Err(format!("{error}; the commands are in `wireyard host --help`")),
        };
        Some(answer.unwrap_or_else(|error| json!({ "error": error })))
    }

    /// The answer of a command that had to wait, once available.
    pub fn poll(&mut self, end: &mut EndPointPort, now: Time) -> Option<Value> {
        while let Some(done) = end.poll_cq() {
            self.done.push(done);
        }
        let answer = match self.pending.take()? {
            Pending::Completions { count, until } if self.done.len() < count && now < until => {
                self.pending = Some(Pending::Completions { count, until });
                return None;
            }
            Pending::Completions { .. } => {
                let done: Vec<Value> = self.done.drain(..).map(|done| completion(&done)).collect();
                Ok(json!({ "completions": done }))
            }
            Pending::Neighbour { connect, until, ask_at } => {
                match (end.neighbour(address_of(connect.ip)), now >= until) {
                    (Some(_), _) => self.connect(end, &connect),
                    (None, true) => Err(format!("{} does not answer", connect.ip)),
                    (None, false) => {
                        let mut next = ask_at;
                        if now >= ask_at {
                            end.ask(address_of(connect.ip), connect.vlan);
                            next = now + ASK_EVERY;
                        }
                        self.pending = Some(Pending::Neighbour { connect, until, ask_at: next });
                        return None;
                    }
                }
            }
        };
        Some(answer.unwrap_or_else(|error| json!({ "error": error })))
    }

    fn act(
        &mut self,
        end: &mut EndPointPort,
        now: Time,
        command: Command,
    ) -> Result<Option<Value>, String> {
        match command {
            Command::Memory { bytes, file } => self.memory(end, bytes, file.as_deref()).map(Some),
            Command::Save { key, file } => save(end, key, &file).map(Some),
            Command::QueuePair {} => {
                let qp = end.roce_mut().create_qp(Service::Rc, &self.qp);
                qp.map(|qp| Some(json!({ "qp": qp }))).ok_or_else(|| "no number is left".into())
            }
            Command::Connect(connect) => {
                self.pending =
                    Some(Pending::Neighbour { connect, until: now + ASK_FOR, ask_at: now });
                Ok(self.poll(end, now))
            }
            Command::Recv(work) => {
                let wr = RecvWr { wr_id: work.id.into(), local: work.local() };
                posted(end.roce_mut().post_recv(work.qp, wr)).map(Some)
            }
            Command::Send(work) => post(end, &work, SendOp::Send).map(Some),
            Command::Write(work) => post(end, &work, SendOp::Write(work.remote())).map(Some),
            Command::Read(work) => post(end, &work, SendOp::Read(work.remote())).map(Some),
            Command::FetchAdd(work) => {
                let op = SendOp::FetchAdd { remote: work.remote(), add: work.add };
                post(end, &work, op).map(Some)
            }
            Command::CmpSwap(work) => {
                let (compare, swap) = (work.compare, work.swap);
                post(end, &work, SendOp::CmpSwap { remote: work.remote(), compare, swap }).map(Some)
            }
            Command::Wait { completions, seconds } => {
                let seconds = seconds.unwrap_or(30.0).clamp(0.0, 3600.0);
                let until = now + Span::from_ms((seconds * 1e3) as u64);
                self.pending = Some(Pending::Completions { count: completions, until });
                Ok(self.poll(end, now))
            }
            Command::Counters {} => Ok(Some(counters(end))),
            Command::End {} => {
                self.ended = true;
                Ok(Some(json!({})))
            }
        }
    }

    fn memory(
        &mut self,
        end: &mut EndPointPort,
        bytes: u64,
        file: Option<&Path>,
    ) -> Result<Value, String> {
        if bytes > MEMORY_BYTES_MAX {
            return Err(format!("{bytes} bytes of memory: at most {MEMORY_BYTES_MAX}"));
        }
        let mut content = match file {
            Some(path) => {
                let content = read_bytes(path, MEMORY_BYTES_MAX)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                if content.len() as u64 > bytes {
                    let (path, has) = (path.display(), content.len());
                    return Err(format!("{path}: {has} bytes do not fit in {bytes}"));
                }
                content
            }
            None => Vec::new(),
        };
        content.resize(bytes as usize, 0);
        self.regions += 1;
        let va = FIRST_VA * self.regions;
        let memory = end.roce_mut().memory_mut();
        let key = memory.register(va, Access::ALL, Box::new(Bytes(content)));
        let key = key.ok_or("no key is left")?;
        Ok(json!({ "key": key, "local_key": key, "va": va }))
    }

    fn connect(&mut self, end: &mut EndPointPort, to: &Connect) -> Result<Value, String> {
        let peer = address_of(to.ip);
        let four = unmapped(peer).is_some();
        let own = end.config().addresses.iter().find(|own| unmapped(**own).is_some() == four);
        let own = *own.ok_or_else(|| format!("this host has no address to reach {}", to.ip))?;
        let mac = end.neighbour(peer).ok_or_else(|| format!("{} does not answer", to.ip))?;
        let encap = if four { Encap::RoceV2Ipv4 } else { Encap::RoceV2Ipv6 };
        let address = Address {
            vlan: to.vlan,
            udp_src_port: udp_src_port(to.qp, to.peer_qp),
            ..Address::new(encap, end.config().mac, mac, own, peer)
        };
        let mtu = to.mtu.unwrap_or(1024);
        let options = ConnectOptions {
            psn: to.psn,
            path_mtu: PathMtu::new(mtu).ok_or_else(|| format!("mtu {mtu}: 256 to 4096"))?,
            timeout: to.timeout.unwrap_or(14),
            ..ConnectOptions::default()
        };
        let path = end.add_path(&address).map_err(|e| e.to_string())?;
        let peer = Peer { qpn: to.peer_qp, psn: to.peer_psn, path };
        end.connect(to.qp, &peer, &options).map_err(|e| e.to_string())?;
        Ok(json!({}))
    }
}

fn address_of(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(four) => mapped(four),
        IpAddr::V6(six) => six.to_bits(),
    }
}

fn save(end: &EndPointPort, key: u32, file: &Path) -> Result<Value, String> {
    let backing = end.roce().memory().backing(key).ok_or_else(|| format!("no memory {key}"))?;
    let mut bytes = vec![0; backing.len_bytes() as usize];
    backing.read(0, &mut bytes);
    output_file::write(file, &bytes, &[]).map_err(|error| error.to_string())?;
    Ok(json!({}))
}

fn post(end: &mut EndPointPort, work: &Work, op: SendOp) -> Result<Value, String> {
    let wr = SendWr::new(work.id.into(), op, work.local());
    posted(end.roce_mut().post_send(work.qp, wr))
}

fn posted<E: std::fmt::Display>(result: Option<Result<(), E>>) -> Result<Value, String> {
    result.ok_or("no such queue pair")?.map_err(|e| e.to_string())?;
    Ok(json!({}))
}

fn completion(done: &Completion) -> Value {
    let op = match done.op {
        CompletionOp::Send => "send",
        CompletionOp::Write => "write",
        CompletionOp::Read => "read",
        CompletionOp::Atomic => "atomic",
        CompletionOp::Recv => "recv",
        CompletionOp::RecvWriteImm => "recv_write_imm",
    };
    let status = done.status.name();
    json!({ "id": done.wr_id, "qp": done.qp, "op": op, "status": status, "bytes": done.len_bytes })
}

fn counters(end: &EndPointPort) -> Value {
    let mut sum = QpCounters::default();
    for qp in end.roce().qps() {
        let one = qp.counters();
        sum.sent_packets += one.sent_packets;
        sum.retransmitted_packets += one.retransmitted_packets;
        sum.received_packets += one.received_packets;
        sum.dropped_packets += one.dropped_packets;
        sum.out_of_sequence += one.out_of_sequence;
        sum.duplicate_requests += one.duplicate_requests;
        sum.sequence_naks_sent += one.sequence_naks_sent;
        sum.sequence_naks_received += one.sequence_naks_received;
        sum.rnr_naks_received += one.rnr_naks_received;
        sum.implied_naks += one.implied_naks;
        sum.timeouts += one.timeouts;
        sum.cnps_received += one.cnps_received;
    }
    let host = end.counters();
    json!({
        "sent_packets": sum.sent_packets,
        "retransmitted_packets": sum.retransmitted_packets,
        "received_packets": sum.received_packets,
        "dropped_packets": sum.dropped_packets,
        "out_of_sequence": sum.out_of_sequence,
        "duplicate_requests": sum.duplicate_requests,
        "sequence_naks_sent": sum.sequence_naks_sent,
        "sequence_naks_received": sum.sequence_naks_received,
        "rnr_naks_received": sum.rnr_naks_received,
        "implied_naks": sum.implied_naks,
        "timeouts": sum.timeouts,
        "cnps_received": sum.cnps_received,
        "cnps_sent": host.cnps_sent,
        "neighbour_answers": host.neighbour_answers,
        "not_for_us": host.not_for_us,
        "unknown_queue_pair": end.roce().unknown_qp_packets(),
        "refused": host.refused.iter().sum::<u64>(),
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use crate::frames::{Frames, Mac};
    use crate::host::HostConfig;
    use crate::roce::rp::RateAlgorithm;

    use super::*;

    fn start() -> (EndPointPort, Session) {
        let address = mapped(Ipv4Addr::new(10, 0, 0, 1));
        let config = HostConfig::ethernet("host", Mac([2; 6]), address);
        let rate = RateAlgorithm::by_name("fixed", 1e9).unwrap();
        let end = EndPointPort::new(config, Frames::shared().unwrap());
        (end, Session::new(QpConfig::new(rate)))
    }

    #[test]
    fn commands_have_answers_and_wrong_ones_say_why() {
        let (mut end, mut session) = start();
        let mut ask = |line: &str| session.command(&mut end, Time::ZERO, line).unwrap();
        assert_eq!(ask(r#"{"do":"queue_pair"}"#), json!({ "qp": 17 }));
        let memory = ask(r#"{"do":"memory","bytes":64}"#);
        assert_eq!(memory["va"], FIRST_VA);
        for (line, why) in [
            ("{", "EOF"),
            (r#"{"do":"dance"}"#, "unknown variant `dance`"),
            (r#"{"do":"memory","bytes":64,"colour":1}"#, "unknown field `colour`"),
            (r#"{"do":"memory","bytes":99999999999}"#, "at most"),
            (r#"{"do":"memory","bytes":1,"file":"/nowhere/at/all"}"#, "/nowhere/at/all"),
            (r#"{"do":"memory","bytes":8,"file":"Cargo.toml"}"#, "bytes do not fit in 8"),
            (r#"{"do":"save","key":99,"file":"/tmp/x"}"#, "no memory 99"),
            (r#"{"do":"send","qp":99,"id":1,"key":1,"va":0,"bytes":1}"#, "no such queue pair"),
            (r#"{"do":"send","qp":17,"id":1,"key":1,"va":0,"bytes":1}"#, "state"),
        ] {
            let answer = ask(line);
            let error = answer["error"].as_str().unwrap_or_default();
            assert!(error.contains(why), "{line}: {answer}");
        }
        assert_eq!(ask(r#"{"do":"end"}"#), json!({}));
        assert!(session.is_ended() && !session.is_ready());
    }

    #[test]
    fn what_does_not_come_is_not_waited_for_longer_than_asked() {
        let (mut end, mut session) = start();
        let line = r#"{"do":"wait","completions":1,"seconds":2}"#;
        assert_eq!(session.command(&mut end, Time::ZERO, line), None);
        assert!(!session.is_ready());
        assert_eq!(session.poll(&mut end, Time::from_ns(1_999_000_000)), None);
        let late = session.poll(&mut end, Time::from_ns(2_000_000_000));
        assert_eq!(late, Some(json!({ "completions": [] })));
        session.command(&mut end, Time::ZERO, r#"{"do":"queue_pair"}"#).unwrap();
        let connect = r#"{"do":"connect","qp":17,"ip":"10.0.0.9","peer_qp":5}"#;
        assert_eq!(session.command(&mut end, Time::ZERO, connect), None);
        let answer = session.poll(&mut end, Time::from_ns(5_000_000_000)).unwrap();
        assert_eq!(answer, json!({ "error": "10.0.0.9 does not answer" }));
    }
}
