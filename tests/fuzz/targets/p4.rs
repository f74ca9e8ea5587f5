//! Target `p4` of libFuzzer: what it does is in `wireyard_tests::fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wireyard_tests::fuzz::run("p4", data));
