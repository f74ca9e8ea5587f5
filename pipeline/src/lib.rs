//! Wireyard pipeline: a YAML program in, an executable packet processor out.

pub mod ast;
pub mod check;
pub mod decode;
pub mod diag;
pub mod engine;
pub mod entries;
pub mod exec;
pub mod externs;
pub mod generation;
pub mod graph;
pub mod ids;
pub mod interp;
pub mod ir;
pub mod jit;
pub mod packet;
pub mod passes;
mod phv;
pub mod schema;
pub mod source;
pub mod state;
pub mod syntax;
pub mod trace;
