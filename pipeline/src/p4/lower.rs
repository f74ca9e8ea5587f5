//! Lowering.
use crate::ast::Unit;
use crate::diag::Diagnostics;
pub(super) fn program(_c: &super::types::Checked, _name: &str, _r: &mut Diagnostics) -> Option<Unit> { None }
