//! Clients that watch and do not read.

use wireyard_tables::time::Time;

use super::*;
use crate::control::Keep;
use crate::program::{DeviceOptions, one_way};

#[test]
fn a_client_that_takes_nothing_is_given_up() {
    let loaded = one_way();
    let mut core = loaded.device(DeviceOptions::small()).unwrap();
    let control = Control::of(&core).unwrap().clone();
    let wanted = wire::WatchRequest { events: true, ..Default::default() };
    let stream = listen(&control, &wanted).unwrap();
    core.poll(Time::from_ns(1), None);
    // A swap is an event.
    control.prepare(&loaded, Keep::Nothing).unwrap().commit().unwrap();
    core.poll(Time::from_ns(2), None);
    let (sender, _list) = mpsc::channel(1);
    sender.try_send(Ok(wire::Documents::default())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let passes = pass_on(stream, sender, Duration::from_millis(1));
        tokio::time::timeout(Duration::from_secs(10), passes).await.unwrap();
    });
}
