//! Replaces the running program by one that was read. The effect on the device is in [`control`](crate::control::Swap),
//! which uses no files.

use super::Loaded;
use crate::control::{Control, ControlError, Keep, ObjectFate, Swap};

impl Control {
    /// Prepares a program to replace the running one: checks the size of its state, compiles it, and fills its tables
    /// with its entries. The device does not change; dropping the result is a dry run. Its `qos:` and ports are
    /// ignored: those of the device stay.
    ///
    /// # Errors
    /// The program or its entries cannot be loaded, or it has no machine code and the engine is [`EngineKind::Jit`]
    /// ([`ControlError::InvalidArgument`]); its state takes too much memory ([`ControlError::ResourceExhausted`]).
    ///
    /// [`EngineKind::Jit`]: super::EngineKind::Jit
    pub fn prepare(&self, loaded: &Loaded, keep: Keep) -> Result<Swap, ControlError> {
        let state = loaded.check_state(self.workers());
        state.map_err(|error| ControlError::ResourceExhausted(error.to_string()))?;
        self.prepare_program(&loaded.program, loaded.entries.as_ref(), keep)
    }

    /// Replaces the program: [`Control::prepare`], then [`Swap::commit`].
    ///
    /// # Errors
    /// As these; then nothing has changed.
    pub fn swap(&self, loaded: &Loaded, keep: Keep) -> Result<Vec<ObjectFate>, ControlError> {
        let swap = self.prepare(loaded, keep)?;
        let report = swap.report().to_vec();
        swap.commit()?;
        Ok(report)
    }
}
