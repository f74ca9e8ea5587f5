//! Which argument a parameter gets, by number or by name.

use super::super::tree::*;
use super::check::Checker;
use crate::diag::{codes, counted};
use crate::ir::SourceSpan;

impl Checker<'_> {
    /// Says why arguments do not fit.
    pub(super) fn misfit(&mut self, span: SourceSpan, name: &str, params: &[Param], args: &[Arg]) {
        let names: Vec<&str> = params.iter().map(|param| &*param.name.value).collect();
        let unknown = args
            .iter()
            .filter_map(|arg| arg.name.as_ref())
            .find(|arg| !names.contains(&&*arg.value));
        if let Some(unknown) = unknown {
            let text = format!("`{name}` has no parameter `{}`", unknown.value);
            self.report
                .error(codes::ARGUMENTS, unknown.span, text)
                .did_you_mean(&unknown.value, names);
            return;
        }
        if let Some((first, again)) = given_twice(args) {
            let text = format!("`{}` is given twice", again.value);
            self.error(codes::TWICE, again.span, text).label(first.span, "first here");
            return;
        }
        let named = args.iter().filter(|arg| arg.name.is_some()).count();
        let missing = params.iter().find(|param| {
            let is_it =
                |arg: &Arg| arg.name.as_ref().is_some_and(|given| given.value == param.name.value);
            !may_be_left_out(param) && !args.iter().any(is_it)
        });
        let text = match missing {
            _ if named != 0 && named != args.len() => {
                "either all arguments have names or none".to_owned()
            }
            Some(missing) if named != 0 => {
                format!("`{name}` is not given `{}`", missing.name.value)
            }
            _ => {
                let takes = counted(params.len(), "argument");
                format!("`{name}` takes {takes}, not {}", args.len())
            }
        };
        let help = format!("its parameters: {}", names.join(", "));
        self.error(codes::ARGUMENTS, span, text).help(help);
    }
}

/// For each parameter its argument; `None` if they do not fit by number and names, or only some have names.
pub(super) fn order(params: &[Param], args: &[Arg]) -> Option<Vec<Option<usize>>> {
    let mut order = vec![None; params.len()];
    let named = args.iter().filter(|arg| arg.name.is_some()).count();
    if named != 0 && named != args.len() {
        return None;
    }
    for (at, arg) in args.iter().enumerate() {
        let position = match &arg.name {
            Some(name) => params.iter().position(|param| param.name.value == name.value)?,
            None => at,
        };
        let slot = order.get_mut(position)?;
        if slot.is_some() {
            return None;
        }
        *slot = Some(at);
    }
    let complete =
        params.iter().zip(&order).all(|(param, at)| at.is_some() || may_be_left_out(param));
    complete.then_some(order)
}

fn may_be_left_out(param: &Param) -> bool {
    param.default.is_some() || annotation(&param.annotations, "optional").is_some()
}

/// A name that two arguments have.
fn given_twice(args: &[Arg]) -> Option<(&Ident, &Ident)> {
    let names: Vec<&Ident> = args.iter().filter_map(|arg| arg.name.as_ref()).collect();
    names.iter().enumerate().find_map(|(at, again)| {
        let first = names[..at].iter().find(|first| first.value == again.value)?;
        Some((*first, *again))
    })
}
