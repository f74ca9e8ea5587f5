//! Integration tests of the whole product.
mod captures;
mod cli;
mod differ;
mod errors;
mod frames;
mod ir;
mod packets;
mod ports;
mod programs;
mod replay;
mod run;
mod tidy;
mod vectors;
