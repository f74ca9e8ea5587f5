//! Meters: single rate three colour (RFC 2697) and two rate three colour (RFC 2698), colour-blind and
//! colour-aware, in integers.
//!
//! A bucket holds whole tokens; one token is one byte or one packet. Between two packets `rate * dt`
//! tokens arrive, and what is not a whole token is kept as a remainder in units of 10^-12 token
//! (`rate` is per second, `dt` in picoseconds), so nothing is rounded away however small the steps.
//! A full bucket keeps no remainder.
//!
//! A meter is shared by all workers, and its state is more than one machine word, so one worker at a
//! time may be inside: the others look again for some microseconds, a thousand times as long as it
//! takes, and then leave the colour as it is. The control plane is never inside: it publishes a
//! configuration beside the meter, and the next packet puts it in place. So no worker waits for a
//! thread that the system has preempted. With one worker there is nothing to wait for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use arc_swap::ArcSwapOption;

use crate::time::Time;

/// What a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterUnit {
    /// Rates in bytes per second, bursts in bytes.
    Bytes,
    /// Rates in packets per second, bursts in packets.
    Packets,
}

/// The colour of a packet, in P4's (PSA's) numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Color {
    /// Within the committed rate or burst.
    Green = 0,
    /// Above it, within the excess burst or peak rate.
    Yellow = 1,
    /// Above everything.
    Red = 2,
}

/// Rates (tokens per second) and bursts (tokens).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterConfig {
    /// RFC 2697.
    SingleRate {
        /// Committed information rate.
        cir: u64,
        /// Committed burst size.
        cbs: u64,
        /// Excess burst size.
        ebs: u64,
    },
    /// RFC 2698.
    TwoRate {
        /// Committed information rate.
        cir: u64,
        /// Committed burst size.
        cbs: u64,
        /// Peak information rate, at least the committed one.
        pir: u64,
        /// Peak burst size.
        pbs: u64,
    },
}

impl std::fmt::Display for MeterConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MeterConfig::SingleRate { cir, cbs, ebs } => {
                write!(f, "cir {cir}/s, cbs {cbs}, ebs {ebs}")
            }
            MeterConfig::TwoRate { cir, cbs, pir, pbs } => {
                write!(f, "cir {cir}/s, cbs {cbs}, pir {pir}/s, pbs {pbs}")
            }
        }
    }
}

/// An invalid meter configuration or index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MeterError {
    /// The index is beyond the array.
    #[error("there is no meter {index}; the array has {size}")]
    NoSuchMeter {
        /// The index found.
        index: usize,
        /// Meters in the array.
        size: usize,
    },
    /// Both bursts of a single rate meter are 0, or one of a two rate meter's is: RFC 2697 requires at least one of
    /// them, RFC 2698 both, above 0 (and no smaller than the largest packet).
    #[error("burst 0 lets nothing through; give a burst of at least the largest packet")]
    NoBurst,
    /// The peak rate is below the committed rate (RFC 2698 section 2).
    #[error("peak rate {pir} is below the committed rate {cir}; raise the peak rate")]
    PeakBelowCommitted {
        /// Committed rate.
        cir: u64,
        /// Peak rate.
        pir: u64,
    },
}

const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// A token bucket with an exact remainder below one token.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    tokens: u64,
    size: u64,
}

/// Whole tokens that arrive in `dt_ps` at `rate`; `rest` has the part below a token.
#[inline]
fn arrived(rate: u64, dt_ps: u64, rest: &mut u64) -> u64 {
    if let Some(parts) = rate.checked_mul(dt_ps).and_then(|parts| parts.checked_add(*rest)) {
        *rest = parts % PS_PER_SECOND;
        return parts / PS_PER_SECOND;
    }
    let parts = u128::from(rate) * u128::from(dt_ps) + u128::from(*rest);
    *rest = (parts % u128::from(PS_PER_SECOND)) as u64;
    u64::try_from(parts / u128::from(PS_PER_SECOND)).unwrap_or(u64::MAX)
}

impl Bucket {
    /// Adds tokens and returns those that do not fit.
    fn fill(&mut self, tokens: u64) -> u64 {
        let taken = tokens.min(self.size - self.tokens);
        self.tokens += taken;
        tokens - taken
    }

    fn is_full(&self) -> bool {
        self.tokens == self.size
    }

    fn take(&mut self, tokens: u64) -> bool {
        let enough = self.tokens >= tokens;
        if enough {
            self.tokens -= tokens;
        }
        enough
    }
}

/// One meter.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    kind: Kind,
    cir: u64,
    /// Of a two rate meter.
    pir: u64,
    committed: Bucket,
    /// Excess bucket of a single rate meter, peak bucket of a two rate meter.
    second: Bucket,
    committed_rest: u64,
    peak_rest: u64,
    updated: Time,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    SingleRate,
    TwoRate,
}

impl Meter {
    /// A meter with full buckets.
    ///
    /// # Errors
    /// [`MeterError::NoBurst`], [`MeterError::PeakBelowCommitted`].
    pub fn new(config: MeterConfig, now: Time) -> Result<Meter, MeterError> {
        let (kind, cir, pir, cbs, second) = match config {
            MeterConfig::SingleRate { cbs, ebs, .. } if cbs == 0 && ebs == 0 => {
                return Err(MeterError::NoBurst);
            }
            MeterConfig::SingleRate { cir, cbs, ebs } => (Kind::SingleRate, cir, 0, cbs, ebs),
            MeterConfig::TwoRate { cbs, pbs, .. } if cbs == 0 || pbs == 0 => {
                return Err(MeterError::NoBurst);
            }
            MeterConfig::TwoRate { cir, pir, .. } if pir < cir => {
                return Err(MeterError::PeakBelowCommitted { cir, pir });
            }
            MeterConfig::TwoRate { cir, cbs, pir, pbs } => (Kind::TwoRate, cir, pir, cbs, pbs),
        };
        Ok(Meter {
            kind,
            cir,
            pir,
            committed: Bucket { tokens: cbs, size: cbs },
            second: Bucket { tokens: second, size: second },
            committed_rest: 0,
            peak_rest: 0,
            updated: now,
        })
    }

    /// Colours a packet of `tokens` that arrives at `now` with colour `before` (green for
    /// colour-blind use: the two RFCs' colour-aware rules then equal the blind ones). An earlier `now`
    /// than the last adds no tokens.
    pub fn color(&mut self, tokens: u64, before: Color, now: Time) -> Color {
        let dt_ps = now.since(self.updated).as_ps();
        self.updated = self.updated.max(now);
        match self.kind {
            Kind::SingleRate => {
                let new = arrived(self.cir, dt_ps, &mut self.committed_rest);
                let over = self.committed.fill(new);
                self.second.fill(over);
                if self.committed.is_full() && self.second.is_full() {
                    self.committed_rest = 0;
                }
                if before == Color::Green && self.committed.take(tokens) {
                    Color::Green
                } else if before <= Color::Yellow && self.second.take(tokens) {
                    Color::Yellow
                } else {
                    Color::Red
                }
            }
            Kind::TwoRate => {
                self.committed.fill(arrived(self.cir, dt_ps, &mut self.committed_rest));
                self.second.fill(arrived(self.pir, dt_ps, &mut self.peak_rest));
                if self.committed.is_full() {
                    self.committed_rest = 0;
                }
                if self.second.is_full() {
                    self.peak_rest = 0;
                }
                if before == Color::Red || !self.second.take(tokens) {
                    Color::Red
                } else if before == Color::Yellow || !self.committed.take(tokens) {
                    Color::Yellow
                } else {
                    Color::Green
                }
            }
        }
    }
}

/// Attempts of a packet to get into a meter.
const LOOKS_MAX: u32 = 1024;

/// A meter of an array.
#[derive(Debug, Default)]
struct SharedMeter {
    /// What the control plane configured last.
    set: ArcSwapOption<Change>,
    /// No packet has put it in place yet.
    is_changed: AtomicBool,
    /// Only threads that forward packets take this lock.
    running: Mutex<Running>,
}

/// A configuration, and when it was made.
#[derive(Debug)]
struct Change {
    /// Tells apart the changes of an array.
    number: u64,
    config: MeterConfig,
    at: Time,
}

#[derive(Debug, Default)]
struct Running {
    /// The change that it is of.
    number: u64,
    meter: Option<Meter>,
}

impl SharedMeter {
    /// Exclusive access; `None` if another worker has it for too long.
    fn enter(&self) -> Option<MutexGuard<'_, Running>> {
        for _ in 0..LOOKS_MAX {
            match self.running.try_lock() {
                Ok(running) => return Some(running),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    /// Puts the configuration in place. A change that is published meanwhile may be seen already now, and once more by
    /// the next packet: so it has a number.
    #[cold]
    fn take_change(&self, running: &mut Running) {
        self.is_changed.swap(false, Ordering::Acquire);
        match &*self.set.load() {
            Some(change) if change.number == running.number => {}
            Some(change) => {
                let Change { number, config, at } = **change;
                *running = Running { number, meter: Meter::new(config, at).ok() };
            }
            None => *running = Running::default(),
        }
    }
}

/// Bytes of a meter of an array.
pub(crate) const METER_BYTES: usize = size_of::<SharedMeter>() + size_of::<Change>();

/// An array of meters, direct (one per entry) or indirect. A meter without configuration leaves the colour as it is.
#[derive(Debug)]
pub struct MeterArray {
    unit: MeterUnit,
    meters: Box<[SharedMeter]>,
    /// Configurations so far.
    changes: AtomicU64,
}

impl MeterArray {
    /// `size` meters without configuration.
    pub fn new(size: usize, unit: MeterUnit) -> MeterArray {
        let meters = (0..size).map(|_| SharedMeter::default()).collect();
        MeterArray { unit, meters, changes: AtomicU64::new(0) }
    }

    /// What a token stands for.
    pub fn unit(&self) -> MeterUnit {
        self.unit
    }

    /// Number of meters.
    pub fn size(&self) -> usize {
        self.meters.len()
    }

    /// Colours a packet. An index that does not exist leaves the colour as it was.
    pub fn execute(&self, index: usize, bytes: u64, before: Color, now: Time) -> Color {
        let tokens = match self.unit {
            MeterUnit::Bytes => bytes,
            MeterUnit::Packets => 1,
        };
        let Some(shared) = self.meters.get(index) else { return before };
        let Some(mut running) = shared.enter() else { return before };
        if shared.is_changed.load(Ordering::Relaxed) {
            shared.take_change(&mut running);
        }
        match &mut running.meter {
            Some(meter) => meter.color(tokens, before, now),
            None => before,
        }
    }

    /// Sets or removes a configuration, for the next packet; the buckets start full. Waits for no packet.
    ///
    /// # Errors
    /// See [`Meter::new`], and [`MeterError::NoSuchMeter`].
    pub fn configure(
        &self,
        index: usize,
        config: Option<MeterConfig>,
        now: Time,
    ) -> Result<(), MeterError> {
        config.map(|config| Meter::new(config, now)).transpose()?;
        let error = MeterError::NoSuchMeter { index, size: self.size() };
        let shared = self.meters.get(index).ok_or(error)?;
        let change = config.map(|config| {
            let number = self.changes.fetch_add(1, Ordering::Relaxed) + 1;
            Arc::new(Change { number, config, at: now })
        });
        // Most entries of a table have no rates before and after.
        if change.is_some() || shared.set.load().is_some() {
            shared.set.store(change);
            shared.is_changed.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The configuration of a meter.
    pub fn config(&self, index: usize) -> Option<MeterConfig> {
        self.meters.get(index)?.set.load().as_ref().map(|change| change.config)
    }
}

#[cfg(test)]
mod tests;
