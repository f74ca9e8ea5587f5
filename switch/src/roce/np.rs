//! The notification point: for congestion marks it sends at most one CNP per interval.
//!
//! The rule (Zhu et al., SIGCOMM 2015, section 3.1): the first marked packet of a flow causes a CNP at once; during the
//! next interval N further marked packets are only recorded; when the interval ends with a recorded one, one CNP is
//! sent and the interval starts again.
//!
//! State: one entry per *open* window and nothing else, because an entry whose window has passed with nothing pending
//! is equivalent to none. All windows have one length, so the order in which they close is the order in which they were
//! opened, and a queue serves as the timer wheel. The table is bounded: when it is full, the window that would close
//! first is evicted. Its pending CNP, if any, is sent at once, so a congestion signal is never lost; the price is one
//! CNP earlier than N, counted in [`NpCounters::evicted`].
//!
//! The address of the CNP is set in `frames`; the sender's reaction is in [`super::rp`].

use std::collections::{HashMap, VecDeque};

use wireyard_tables::time::{Deadline, Span, Time};

#[cfg(test)]
mod tests;

/// Multicast destination queue pair; marks on multicast never cause a CNP (hfi1 `process_ecn`).
const MULTICAST_QP: u32 = 0x00ff_ffff;

/// A flow of the notification point, with the addresses of the marked packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Source address: IPv6, IPv4-mapped, GID or LID, big-endian.
    pub src: u128,
    /// Destination address, same form.
    pub dst: u128,
    /// Destination queue pair number, 24 bits.
    pub dest_qp: u32,
}

/// The kind of mark; it decides the form of the CNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// IP ECN = CE (RoCEv2): the CNP has BTH opcode 0x81 with 16 reserved bytes (IBTA A17).
    IpCe,
    /// FECN of native InfiniBand or Omni-Path: the CNP has BTH opcode 0x80, BECN set, no payload.
    Fecn,
}

/// Fields of the CNP that are copied from the marked packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Partition key of its BTH: a CNP of another partition would be dropped (IBTA A17.9.3).
    pub pkey: u16,
    /// Service level of its LRH; zero on Ethernet.
    pub sl: u8,
}

/// A marked packet.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// Its flow.
    pub flow: FlowKey,
    /// Its BTH opcode: CNPs and ACKs never cause a CNP.
    pub opcode: u8,
    /// Its ingress port.
    pub port: u16,
    /// The kind of mark.
    pub mark: Mark,
    /// Fields for its CNP.
    pub marked: Marked,
    /// The sender's queue pair. It is not in the packet: a NIC takes it from its queue pair, a switch must have learned
    /// it. With `None` no CNP can be addressed.
    pub sender_qp: Option<u32>,
}

/// The place of the notification point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// In the receiving NIC.
    Nic,
    /// In a switch on the path: the CNP leaves before the receiver gets the packet ("fast CNP").
    Switch,
}

/// The scope of the interval. Real NICs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// One window per (source, destination, queue pair), as in the paper.
    PerFlow,
    /// One window per address pair.
    PerPair,
    /// One window per port.
    PerPort,
}

/// The treatment of a mark inside an open window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEnd {
    /// The first flow marked inside the window gets its CNP when the window ends (the paper).
    SendPending,
    /// It is dropped: the window only limits the CNP rate (ConnectX `MIN_TIME_BETWEEN_CNPS`).
    Forget,
}

/// Settings of the notification point.
#[derive(Clone, Copy, Debug)]
pub struct NpConfig {
    /// N: the least time between two CNPs of one window. With zero every mark causes a CNP.
    pub interval: Span,
    /// The scope of a window.
    pub pacing: Pacing,
    /// The treatment of marks inside a window.
    pub window_end: WindowEnd,
    /// NIC or switch.
    pub role: Role,
    /// Largest number of open windows.
    pub max_windows: usize,
}

impl Default for NpConfig {
    /// The SIGCOMM 2015 notification point of a NIC: 50 us per flow, 65,536 windows.
    fn default() -> Self {
        NpConfig {
            interval: Span::from_us(50),
            pacing: Pacing::PerFlow,
            window_end: WindowEnd::SendPending,
            role: Role::Nic,
            max_windows: 65_536,
        }
    }
}

/// A CNP to send. Addresses are those of the marked packet: the CNP travels from `flow.dst` to `flow.src`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cnp {
    /// The congested flow.
    pub flow: FlowKey,
    /// DestQP of the CNP.
    pub sender_qp: u32,
    /// The port that received the marked packet and that sends the CNP.
    pub port: u16,
    /// Form of the packet.
    pub mark: Mark,
    /// The fields copied from the marked packet.
    pub marked: Marked,
    /// The sender of the CNP.
    pub role: Role,
}

/// Counters of the notification point. `ce_seen = cnp_sent + cnp_suppressed + cnp_no_qp_pair + ignored` + the CNPs that
/// wait for the end of their windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NpCounters {
    /// Marked packets reported.
    pub ce_seen: u64,
    /// CNPs handed out, immediate and deferred.
    pub cnp_sent: u64,
    /// Marked packets without a CNP: they arrived in an open window, and are not the one that waits for its end.
    pub cnp_suppressed: u64,
    /// Marked packets of flows whose sender queue pair is not known.
    pub cnp_no_qp_pair: u64,
    /// Marks on CNPs, ACKs and multicast, which never cause a CNP.
    pub ignored: u64,
    /// Windows closed early because the table was full.
    pub evicted: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum WindowKey {
    Flow(FlowKey),
    Pair(u128, u128),
    Port(u16),
}

/// The notification point, which stores an `R` for each CNP: its return path. The end times are read for every packet
/// and come first.
#[derive(Debug)]
#[repr(C)]
pub struct NotificationPoint<R = ()> {
    /// Windows in the order in which they close.
    closing: VecDeque<(Time, WindowKey)>,
    ready: VecDeque<(Cnp, R)>,
    /// Open windows and the CNP that waits for each end. Only looked up, never iterated.
    windows: HashMap<WindowKey, Option<(Cnp, R)>>,
    counters: NpCounters,
    config: NpConfig,
}

impl<R> NotificationPoint<R> {
    /// A notification point with no open window. `max_windows` of zero counts as one.
    pub fn new(mut config: NpConfig) -> Self {
        config.max_windows = config.max_windows.max(1);
        NotificationPoint {
            config,
            windows: HashMap::new(),
            closing: VecDeque::new(),
            ready: VecDeque::new(),
            counters: NpCounters::default(),
        }
    }

    /// The settings in force.
    pub fn config(&self) -> &NpConfig {
        &self.config
    }

    /// Counters since the start.
    pub fn counters(&self) -> NpCounters {
        self.counters
    }

    /// Handles a marked packet, whose CNP is returned with `reply`. [`Self::poll`] returns the CNPs, an immediate one
    /// at once.
    pub fn on_congestion(&mut self, now: Time, seen: &Congestion, reply: R) {
        self.close_windows(now);
        self.counters.ce_seen += 1;
        if never_answered(seen) {
            self.counters.ignored += 1;
            return;
        }
        let Some(sender_qp) = seen.sender_qp else {
            self.counters.cnp_no_qp_pair += 1;
            return;
        };
        let cnp = Cnp {
            flow: seen.flow,
            sender_qp,
            port: seen.port,
            mark: seen.mark,
            marked: seen.marked,
            role: self.config.role,
        };
        if self.config.interval.is_zero() {
            self.emit((cnp, reply));
            return;
        }
        let key = self.window_key(seen);
        match self.windows.get_mut(&key) {
            Some(pending)
                if self.config.window_end == WindowEnd::SendPending && pending.is_none() =>
            {
                *pending = Some((cnp, reply));
            }
            Some(_) => self.counters.cnp_suppressed += 1,
            None => {
                self.make_room();
                self.emit((cnp, reply));
                self.open(now, key);
            }
        }
    }

    /// When [`Self::poll`] next has work to do: a CNP, or a window that closes with nothing pending.
    pub fn next_deadline(&self) -> Deadline {
        if !self.ready.is_empty() {
            return Deadline::NOW;
        }
        self.closing.front().map(|&(at, _)| at).into()
    }

    /// The next CNP due at `now`; call until `None`.
    pub fn poll(&mut self, now: Time) -> Option<(Cnp, R)> {
        self.close_windows(now);
        self.ready.pop_front()
    }

    fn close_windows(&mut self, now: Time) {
        while let Some(&(at, key)) = self.closing.front() {
            if at > now {
                break;
            }
            self.closing.pop_front();
            if let Some(Some(cnp)) = self.windows.remove(&key) {
                self.emit(cnp);
                // The next window starts when the CNP really leaves: a late poll must not shorten it.
                self.open(now, key);
            }
        }
    }

    fn make_room(&mut self) {
        if self.windows.len() < self.config.max_windows {
            return;
        }
        if let Some((_, key)) = self.closing.pop_front() {
            self.counters.evicted += 1;
            if let Some(Some(cnp)) = self.windows.remove(&key) {
                self.emit(cnp);
            }
        }
    }

    fn open(&mut self, now: Time, key: WindowKey) {
        self.windows.insert(key, None);
        self.closing.push_back((now + self.config.interval, key));
    }

    fn emit(&mut self, cnp: (Cnp, R)) {
        self.counters.cnp_sent += 1;
        self.ready.push_back(cnp);
    }

    fn window_key(&self, seen: &Congestion) -> WindowKey {
        match self.config.pacing {
            Pacing::PerFlow => WindowKey::Flow(seen.flow),
            Pacing::PerPair => WindowKey::Pair(seen.flow.src, seen.flow.dst),
            Pacing::PerPort => WindowKey::Port(seen.port),
        }
    }
}

/// CNPs (service 100), ACKs (operation 0x11) and multicast (hfi1 `process_ecn`, `return_cnp`).
fn never_answered(seen: &Congestion) -> bool {
    let (service, operation) = (seen.opcode >> 5, seen.opcode & 0x1f);
    service == 0b100
        || (operation == 0x11 && service != 0b011)
        || seen.flow.dest_qp & MULTICAST_QP == MULTICAST_QP
}
