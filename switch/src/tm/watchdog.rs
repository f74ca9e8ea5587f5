//! The PFC storm watchdog, as in SONiC (`pfcwd`, `pfc_detect_*.lua`).
//!
//! A queue that is kept paused and sends nothing for the detection time is in a storm. Per poll, a queue is stuck when
//! it sent nothing, and either it has packets and pauses continue to arrive (or it was paused throughout), or it is
//! empty and was paused for more than 80 % of the poll. Stuck polls in a row add up to the detection time, polls
//! without pause add up to the restoration time.
//!
//! The actions in a storm are in `tm/timers.rs`: drop discards the queue and the ingress of its priorities, forward
//! ignores the pause, alert only reports it.

use wireyard_tables::time::{Deadline, Span, Time};

use super::id::CLASSES;
use super::scheduler::mask;

/// What to do with a queue in a storm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StormAction {
    /// Discard its packets and those arriving for it.
    #[default]
    Drop,
    /// Send although paused.
    Forward,
    /// Only report.
    Alert,
}

impl StormAction {
    /// The action, in the words of messages.
    pub const fn name(self) -> &'static str {
        match self {
            StormAction::Drop => "its packets are dropped until it ends",
            StormAction::Forward => "its pauses are ignored until it ends",
            StormAction::Alert => "nothing is done about it",
        }
    }
}

/// Watchdog of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// Queues watched, bit n for queue n (SONiC `pfcwd_sw_enable`); `None` for those of the priorities that have PFC.
    pub queues: Option<u8>,
    /// Time without progress that makes a storm.
    pub detection: Span,
    /// Time without pause that ends it.
    pub restoration: Span,
    /// Time between polls.
    pub poll: Span,
    /// What to do during the storm.
    pub action: StormAction,
}

/// Watchdog counters of one queue (SONiC `PFC_WD_QUEUE_STATS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchdogCounters {
    /// Storms detected (`DEADLOCK_DETECTED`).
    pub detected: u64,
    /// Storms that ended (`DEADLOCK_RESTORED`).
    pub restored: u64,
    /// Packets discarded at egress during storms (`TX_DROPPED_PACKETS`).
    pub tx_dropped: u64,
    /// Packets discarded at ingress during storms (`RX_DROPPED_PACKETS`).
    pub rx_dropped: u64,
}

/// The state of a queue that a poll reads; totals since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight {
    pub(crate) holds_packets: bool,
    pub(crate) sent: u64,
    pub(crate) pauses: u64,
    pub(crate) paused: Span,
}

/// The result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    None,
    Storm,
    Restored,
}

#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    storm: bool,
    run: Span,
    last: Sight,
}

/// The watchdog of a port.
#[derive(Clone, Debug)]
pub(crate) struct Watchdog {
    pub(crate) config: WatchdogConfig,
    pub(crate) counters: [WatchdogCounters; CLASSES],
    /// Next poll; never while nothing is paused.
    pub(crate) poll_at: Deadline,
    watches: [Watch; CLASSES],
}

impl Watchdog {
    pub(crate) fn new(config: WatchdogConfig) -> Watchdog {
        // A poll interval of zero would never advance.
        let config = WatchdogConfig { poll: config.poll.max(Span::from_us(1)), ..config };
        Watchdog {
            config,
            counters: Default::default(),
            poll_at: Deadline::NEVER,
            watches: Default::default(),
        }
    }

    /// Starts polling from `now`; `see` returns the current totals of each queue.
    pub(crate) fn arm(&mut self, now: Time, see: impl Fn(u8) -> Sight) {
        if self.poll_at.is_never() {
            self.poll_at = Deadline::at(now + self.config.poll);
            for (queue, watch) in (0u8..).zip(&mut self.watches) {
                watch.last = see(queue);
            }
        }
    }

    /// Evaluates one queue at the end of a poll interval.
    pub(crate) fn look(&mut self, queue: u8, sight: Sight, is_watched: bool) -> Change {
        let q = usize::from(queue) % CLASSES;
        let (config, watch) = (&self.config, &mut self.watches[q]);
        let last = std::mem::replace(&mut watch.last, sight);
        if !is_watched {
            return Change::None;
        }
        let paused_ps = sight.paused.as_ps().saturating_sub(last.paused.as_ps());
        let pauses = sight.pauses > last.pauses;
        let throughout = paused_ps >= config.poll.as_ps();
        let stuck = sight.sent == last.sent
            && match sight.holds_packets {
                true => pauses || throughout,
                false => paused_ps / 80 > config.poll.as_ps() / 100,
            };
        let advancing = if watch.storm { !pauses && paused_ps == 0 } else { stuck };
        watch.run = if advancing { watch.run + config.poll } else { Span::ZERO };
        let needed = if watch.storm { config.restoration } else { config.detection };
        if !advancing || watch.run < needed {
            return Change::None;
        }
        watch.run = Span::ZERO;
        watch.storm = !watch.storm;
        match watch.storm {
            true => {
                self.counters[q].detected += 1;
                Change::Storm
            }
            false => {
                self.counters[q].restored += 1;
                Change::Restored
            }
        }
    }

    /// Watches these queues anew; returns those that were in a storm, which counts as over.
    pub(crate) fn restart(&mut self, queues: u8) -> u8 {
        let ended = self.storms() & queues;
        for q in (0..CLASSES).filter(|q| queues & 1 << q != 0) {
            self.counters[q].restored += u64::from(ended & 1 << q != 0);
            (self.watches[q].storm, self.watches[q].run) = (false, Span::ZERO);
        }
        ended
    }

    /// Queues in a storm.
    pub(crate) fn storms(&self) -> u8 {
        mask(|q| self.watches[q].storm)
    }

    /// True while some queue has begun to be stuck or is in a storm.
    pub(crate) fn is_busy(&self) -> bool {
        self.watches.iter().any(|watch| watch.storm || !watch.run.is_zero())
    }
}
