//! The loop of a live switch: wall-clock time, sleep when idle, signals, clean end.
//!
//! It polls the device while packets come, spins a moment when a dense stream of packets stops, and then sleeps on the
//! ports, so that an idle switch costs nearly nothing and a busy one never waits. It has no forwarding rule and prints
//! nothing itself: messages go to the caller.

pub mod assembly;
pub mod clock;
pub mod delay;
mod error;
#[cfg(feature = "command")]
pub mod http;
#[cfg(feature = "command")]
pub mod metrics;
pub mod port_file;
pub mod private;
pub mod progress;
mod ready;
mod scheduling;
mod sleep;
#[cfg(test)]
mod tests;
mod workers;

/// Synchronisation types of `sleep`; `tests/models` substitutes others.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering, fence};
}

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;
use wireyard_tables::time::{Deadline, Span, Time};

use crate::core::{Core, Message, Progress};
use crate::ports::sys::{ending, heap};
use crate::ports::{self, PortError, PortNumber, PortSpec};
use assembly::AssemblyError;
pub use error::LiveError;
pub use scheduling::Scheduling;
use workers::Shared;
pub use workers::Workers;

/// How long the loop spins after a frame that followed the one before within this time. After a single frame it sleeps
/// at once: spinning would find nothing, and on a processor that it shares with the receiver it delays the frame by as
/// much.
const SPIN_FOR: Span = Span::from_us(50);
/// Longest sleep: how late a message about a link may be.
const LONGEST_SLEEP: Span = Span::from_ms(100);
/// Shorter waits are spent awake: the system takes this long to wake a thread.
const SPIN_BELOW: Span = Span::from_us(60);
/// Interval of polling a port that had no room.
const LOOK_FOR_ROOM: Span = Span::from_ms(1);
/// How long packets in queues may take to leave at the end.
const DRAIN_MOST: Span = Span::from_ms(500);
/// Interval of checking links and idle entries.
const CHECK_EVERY: Span = Span::from_ms(200);
/// When a run ends by itself: an hour before [`Time::MAX`]. At that time pauses would not expire, and timers would
/// stop.
const CLOCK_ENDS: Time = Time::from_ps(u64::MAX - 3_600_000_000_000_000);

/// What the loop reports to its caller.
#[derive(Debug)]
pub enum Event<'a> {
    /// A message of the device.
    Message(Message),
    /// SIGUSR1: the user requests the counters.
    Counters(&'a mut Core),
    /// SIGHUP: the user requests that changed files are read again.
    Reload {
        /// The device.
        core: &'a mut Core,
        /// The time of this poll.
        now: Time,
    },
    /// A poll is over: the caller may look at the device, give its ports work, or end the loop.
    Polled {
        /// The device.
        core: &'a mut Core,
        /// The time of this poll.
        now: Time,
        /// Set it to end the loop.
        stop: &'a mut bool,
    },
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("queued", &self.queued()).finish_non_exhaustive()
    }
}

/// Signals that were caught.
#[derive(Debug)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    counters: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// Catches them from now on. With `reloads`, SIGHUP is [`Event::Reload`]; it ends the run otherwise, unless the process
    /// was started with this signal ignored (nohup(1)).
    ///
    /// # Errors
    /// The system refuses.
    pub fn catch(reloads: bool) -> io::Result<Signals> {
        let signals =
            Signals { stop: Arc::default(), counters: Arc::default(), reload: Arc::default() };
        if reloads {
            flag::register(SIGHUP, Arc::clone(&signals.reload))?;
        }
        let ends_by_hangup = !reloads && !ending::is_ignored(SIGHUP);
        let all = [SIGINT, SIGTERM, SIGHUP];
        let ends = if ends_by_hangup { &all[..] } else { &all[..2] };
        ending::catch(ends, &signals.stop)?;
        flag::register(SIGUSR1, Arc::clone(&signals.counters))?;
        Ok(signals)
    }

    /// Set by a signal to end.
    pub fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// True after a signal to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Opens a port and gives it to the device, with all options of its specification. Returns notices for the user.
///
/// # Errors
/// The port or its capture file cannot be opened, or the number is taken.
pub fn attach(
    core: &mut Core,
    number: PortNumber,
    spec: &PortSpec,
) -> Result<Vec<String>, AssemblyError> {
    let opened = ports::open(spec, core.memory())?;
    Ok(core.add_opened(number, spec, opened)?)
}

/// Returns freed memory to the system: for a process that replaces programs for a year.
pub fn give_memory_back() {
    heap::give_back();
}

/// When a loop checks links, spins and sleeps.
#[derive(Debug, Default)]
struct Pace {
    check_at: Time,
    /// When frames last arrived.
    came_at: Time,
    /// They arrived soon after those before.
    is_busy: bool,
}

impl Pace {
    /// True when links and idle entries must be checked again.
    fn is_check_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.check_at;
        if is_due {
            self.check_at = now + CHECK_EVERY;
        }
        is_due
    }

    /// How long to sleep after a poll; `None`: not at all. `wait` is the time without an event.
    fn sleep_after(
        &mut self,
        now: Time,
        progress: &Progress,
        wait: impl FnOnce() -> Span,
    ) -> Option<Span> {
        let since = now.since(self.came_at);
        if progress.received + progress.handed > 0 {
            self.is_busy = since < SPIN_FOR;
            self.came_at = now;
            return None;
        }
        if progress.sent > 0 {
            return None;
        }
        let sleep = if self.is_busy && since < SPIN_FOR { Span::ZERO } else { wait() };
        if sleep < SPIN_BELOW {
            std::hint::spin_loop();
            return None;
        }
        Some(sleep)
    }
}

/// Runs the device, the first of `workers`, until a signal, the end of `duration`, or the end of all
/// input. The other workers have ended then, and all queues were given time to drain.
///
/// # Errors
/// The system refuses to catch signals; otherwise as [`run_until`].
pub fn run(
    core: &mut Core,
    workers: &mut Workers,
    duration: Option<Span>,
    on_event: &mut dyn FnMut(Event<'_>, &Workers),
) -> Result<(), LiveError> {
    let signals = Signals::catch(false)?;
    run_until(core, workers, duration, &signals, on_event)
}

/// The same with signals that were caught before. However the loop ends, the other workers end, queues drain and ports
/// are closed.
///
/// # Errors
/// The system refuses to wait, another worker failed, or the clock comes to its end ([`LiveError::ClockEnds`]).
pub fn run_until(
    core: &mut Core,
    workers: &mut Workers,
    duration: Option<Span>,
    signals: &Signals,
    on_event: &mut dyn FnMut(Event<'_>, &Workers),
) -> Result<(), LiveError> {
    let ended = poll_until(core, workers, duration, signals, on_event);
    let finished = workers.finish(core);
    for message in
        core.ports_mut().take_messages().into_iter().chain(workers.shared().take_messages())
    {
        on_event(Event::Message(message), workers);
    }
    ended.and(finished)
}

/// The loop of the first worker; the others continue after it.
fn poll_until(
    core: &mut Core,
    workers: &Workers,
    duration: Option<Span>,
    signals: &Signals,
    on_event: &mut dyn FnMut(Event<'_>, &Workers),
) -> Result<(), LiveError> {
    let end = Deadline::from(duration.map(|span| workers.shared().now() + span));
    core.captures().files.set_origin(workers.shared().began_ns());
    Shared::wakes(workers.shared(), 0, core);
    let mut pace = Pace::default();
    let mut ready = workers.shared().ready(0)?;
    while !signals.is_stopped() && !workers.shared().is_stopped() {
        let shared = workers.shared();
        let now = shared.now();
        if end.is_by(now) {
            break;
        }
        let progress = shared.poll(0, core, now, &mut ready)?;
        if signals.counters.swap(false, Ordering::Relaxed) {
            on_event(Event::Counters(core), workers);
        }
        if signals.reload.swap(false, Ordering::Relaxed) {
            on_event(Event::Reload { core, now }, workers);
        }
        if pace.is_check_due(now) {
            check_clock(now)?;
            core.check_links(now);
            ready.watch(core, true)?;
            core.age(now);
            core.check_tables();
            if shared.finished(0, core.is_finished(now)) {
                break;
            }
        } else if core.ageing_is_put_off() {
            core.age(now);
        }
        for message in core.ports_mut().take_messages().into_iter().chain(shared.take_messages()) {
            on_event(Event::Message(message), workers);
        }
        let mut stop = false;
        on_event(Event::Polled { core, now, stop: &mut stop }, workers);
        if stop {
            break;
        }
        let sleep = pace.sleep_after(now, &progress, || next_wait(core, now).min(end.left(now)));
        if let Some(sleep) = sleep {
            shared.sleep(0, core, sleep, &mut ready)?;
        }
    }
    Ok(())
}

/// Checks that the clock of the run can continue.
///
/// # Errors
/// [`LiveError::ClockEnds`] from [`CLOCK_ENDS`] on.
fn check_clock(now: Time) -> Result<(), LiveError> {
    if now < CLOCK_ENDS { Ok(()) } else { Err(LiveError::ClockEnds) }
}

/// Gives queues time to drain, with all workers in one thread now, and closes the ports. Returns the first error of an
/// output file; a missing interface loses no result.
fn drain(core: &mut Core, others: &mut [Core], clock: impl Fn() -> Time) -> Option<PortError> {
    let limit = clock() + DRAIN_MOST;
    core.generators().end(false);
    others.iter_mut().for_each(|other| other.generators().end(false));
    loop {
        let now = clock();
        let queued = core.queued() + others.iter().map(Core::queued).sum::<usize>();
        if queued == 0 || now >= limit {
            break;
        }
        core.poll_timers(now, None);
        for other in others.iter_mut() {
            other.poll_timers(now, None);
        }
    }
    let now = clock();
    let mut errors = core.drain(now);
    others.iter_mut().for_each(|other| errors.extend(other.drain(now)));
    errors.into_iter().find(|error| matches!(error, PortError::Capture { .. }))
}

/// The time without any event except frames that arrive on live ports. The system wakes late: the last part of a wait
/// for a timer is spent awake.
fn next_wait(core: &mut Core, now: Time) -> Span {
    let next = core.next_event_at(now);
    let timer = next.map_or(LONGEST_SLEEP, |at| (at - SPIN_BELOW).since(now));
    // A port without room does not report when it has room again.
    let room = if core.ports().is_waiting_for_room() { LOOK_FOR_ROOM } else { LONGEST_SLEEP };
    timer.min(room).min(LONGEST_SLEEP)
}
