//! Traces and samples of packets that pass.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};

use wireyard_pipeline::ir::Program;
use wireyard_tables::time::Span;

use super::{Control, ControlError};
use crate::core::live_trace::TraceTask;
use crate::core::{DeviceError, PassTrace, Samples, TraceRequest, TraceShared};

/// Passes that wait for the reader; more are lost.
const WAITING_MAX: usize = 256;
/// The longest that a trace may take.
const LONGEST: Span = Span::from_ms(3_600_000);

/// A trace that goes on until this is dropped, its time is over, or the program is replaced.
#[derive(Debug)]
pub struct LiveTrace {
    passes: Receiver<PassTrace>,
    shared: Arc<TraceShared>,
}

impl LiveTrace {
    /// Where the passes come.
    pub fn passes(&self) -> &Receiver<PassTrace> {
        &self.passes
    }

    /// Packets that were not looked at, because more than the rate had to be.
    pub fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Relaxed)
    }

    /// Passes for which the reader had no room.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}

impl Drop for LiveTrace {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }
}

impl Control {
    /// Traces packets that pass from now on, for `duration` at most: see [`TraceRequest`]. Those that are looked at are done by the interpreter, all others as ever.
    /// `None`: packets are traced already.
    ///
    /// # Errors
    /// [`ControlError::FailedPrecondition`]: the program is another one; [`ControlError::Unavailable`]: a worker does not answer.
    pub fn trace(
        &self,
        request: TraceRequest,
        duration: Span,
    ) -> Result<Option<LiveTrace>, ControlError> {
        let (to, passes) = sync_channel(WAITING_MAX);
        let shared = Arc::<TraceShared>::default();
        let trace = LiveTrace { passes, shared: Arc::clone(&shared) };
        let until = self.now() + duration.min(LONGEST);
        let task = TraceTask { request, until, to, shared };
        for worker in 0..self.workers() {
            let task = task.clone();
            let begun = self.ask(worker, move |core, now| core.start_trace(task, now))?;
            // Those that began end with `trace`.
            match begun {
                Ok(()) => {}
                Err(DeviceError::Traced) => return Ok(None),
                Err(error) => return Err(ControlError::FailedPrecondition(error.to_string())),
            }
        }
        Ok(Some(trace))
    }

    /// The program that new packets meet, as it was loaded and as the engine runs it.
    pub fn program_forms(&self) -> (Arc<Program>, Arc<Program>) {
        let current = self.shared.loader().current();
        (Arc::clone(&current.program), Arc::clone(current.engine.program()))
    }

    /// Goes on sampling where packets go, for some seconds, into `known`, if these are of the program that runs; else into new ones. A trace
    /// that begins ends it.
    ///
    /// # Errors
    /// [`ControlError::FailedPrecondition`]: packets are traced, or the program was replaced meanwhile; [`ControlError::Unavailable`].
    pub fn sample(&self, known: Option<Arc<Samples>>) -> Result<Arc<Samples>, ControlError> {
        let (source, program) = self.program_forms();
        let known = known.filter(|known| Arc::ptr_eq(known.source(), &source));
        let samples = known.unwrap_or_else(|| Arc::new(Samples::new(source, program)));
        for worker in 0..self.workers() {
            let samples = Arc::clone(&samples);
            let begun = self.ask(worker, move |core, now| core.sample(&samples, now))?;
            begun.map_err(|error| ControlError::FailedPrecondition(error.to_string()))?;
        }
        Ok(samples)
    }
}
