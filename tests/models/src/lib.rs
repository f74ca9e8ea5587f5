//! Small concurrent parts, the files that the switch is built of, run by loom through every order of their steps and everything that the
//! memory model of C11 lets them see.
//!
//! Here are the parts that are not a library's: the depot of free chunks ([`depot`]), the counts of a program's packets ([`passing`]), the
//! signal between a worker and those who listen ([`signal`]), and the sleep of a worker ([`sleep`]). `./ci.sh models` runs them, in
//! seconds. `--cfg loom` is not needed: a part takes its atomics from a module `sync` beside it, which is loom's here.

#[cfg(test)]
mod depot;
#[cfg(test)]
mod passing;
#[cfg(test)]
mod signal;
#[cfg(test)]
mod sleep;
