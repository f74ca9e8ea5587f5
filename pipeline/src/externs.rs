//! Computations that programs use: CRCs, ones'-complement checksums, hashes, random numbers.
//!
//! Pure functions over bytes and numbers, shared by both engines. Nothing here depends on a packet, a program or a
//! clock.

pub mod checksum;
pub mod crc;
pub mod hash;
pub mod random;
