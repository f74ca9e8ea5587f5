//! The Portable Switch Architecture.

use std::rc::Rc;

use super::Lower;
use super::env::BlockVal;

impl Lower<'_> {
    /// Not yet: its programs are checked, and refused here.
    pub(super) fn psa(&mut self, main: &Rc<BlockVal>) -> Option<()> {
        let text = "programs of the Portable Switch Architecture are checked, but cannot run";
        self.unsupported(main.decl.name.span, text).note("V1Switch of v1model.p4 runs");
        None
    }
}
