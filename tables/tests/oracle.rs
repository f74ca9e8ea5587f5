//! Every engine against the linear-scan oracle: random tables, random interleavings of batches that
//! succeed and fail, lookups in the current and in held old versions, and readback.

#[path = "oracle/linear.rs"]
mod linear;
#[path = "oracle/machine.rs"]
mod machine;

use machine::{run, spec, step};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..Default::default() })]

    #[test]
    fn engines_agree_with_the_oracle(
        a in spec(),
        b in spec(),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        run(&[a, b], &steps);
    }
}
