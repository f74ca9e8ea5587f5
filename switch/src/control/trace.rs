//! Traces and samples of packets.

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
/// Maximum duration of a trace.
const LONGEST: Span = Span::from_ms(3_600_000);

/// A trace that continues until this is dropped, its time is over, or the program is replaced.
#[derive(Debug)]
pub struct LiveTrace {
    passes: Receiver<PassTrace>,
    shared: Arc<TraceShared>,
}

impl LiveTrace {
    /// The receiver of the passes.
    pub fn passes(&self) -> &Receiver<PassTrace> {
        &self.passes
    }

    /// Packets that were not examined, because the rate was reached.
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
    /// Traces packets from now on, for at most `duration`: see [`TraceRequest`]. Packets that are examined are run by
    /// the interpreter, all others as usual. `None`: another trace is in progress.
    ///
    /// # Errors
    /// [`ControlError::FailedPrecondition`]: the program was replaced; [`ControlError::Unavailable`]: a worker does not
    /// respond.
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
            let begun = self.ask(worker, move |core, now| core.tracing().start(task, now))?;
            // Traces begun at other workers end when `trace` is dropped.
            match begun {
                Ok(()) => {}
                Err(DeviceError::Traced) => return Ok(None),
                Err(error) => return Err(ControlError::FailedPrecondition(error.to_string())),
            }
        }
        Ok(Some(trace))
    }

    /// The program that new packets run, as it was loaded and as the engine runs it.
    pub fn program_forms(&self) -> (Arc<Program>, Arc<Program>) {
        let current = self.shared.loader().current();
        (Arc::clone(&current.program), Arc::clone(current.engine.program()))
    }

    /// Samples the paths of packets for some more seconds: into `known` if that is of the running program, or else into
    /// new samples. A trace ends it.
    ///
    /// # Errors
    /// [`ControlError::FailedPrecondition`]: packets are traced, or the program was replaced meanwhile;
    /// [`ControlError::Unavailable`].
    pub fn sample(&self, known: Option<Arc<Samples>>) -> Result<Arc<Samples>, ControlError> {
        let (source, program) = self.program_forms();
        let known = known.filter(|known| Arc::ptr_eq(known.source(), &source));
        let samples = known.unwrap_or_else(|| Arc::new(Samples::new(source, program)));
        let shared = Arc::clone(&samples);
        for begun in self.ask_all(move |core, now| core.tracing().sample(&shared, now))? {
            begun.map_err(|error| ControlError::FailedPrecondition(error.to_string()))?;
        }
        Ok(samples)
    }
}
