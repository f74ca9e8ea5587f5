//! Requests of P4Runtime with random bytes in them: no panic, what is done can be read, and what is refused has changed nothing
//! (`wireyard_tests::fuzz::control`). `WIREYARD_FUZZ_REQUESTS` says how many.

use wireyard_tests::differ::random::Random;
use wireyard_tests::fuzz::control;
use wireyard_tests::seeds;

fn count() -> usize {
    let asked = std::env::var("WIREYARD_FUZZ_REQUESTS").ok();
    let most = if std::env::var_os("CI").is_some() { 20_000 } else { 2_000 };
    asked.map_or(most, |text| text.parse().expect("a number of requests"))
}

#[test]
fn requests_with_random_bytes_are_done_whole_or_change_nothing() {
    let ended = control::requests(Random::new(seeds::first()), count());
    println!("{ended:?}");
    assert!(ended.done >= 50 && ended.refused >= 50, "{ended:?}");
    assert!(ended.there >= 20 && ended.gone >= 5, "{ended:?}");
}
