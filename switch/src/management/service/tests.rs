//! Limits of the service, where clients cancel their calls.

use std::sync::mpsc::channel;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::p4runtime::persist::Begun;
use crate::program::{DeviceOptions, from_text};

const PROGRAM: &str = "pipeline: drops\ningress: [ drop ]\n";
const A_MOMENT: Duration = Duration::from_millis(100);
/// More than the two seconds in which a worker answers.
const SOON: Duration = Duration::from_secs(20);

/// Waits until a limit has so many permits again.
async fn await_permits(limit: &Semaphore, permits: usize) {
    let deadline = Instant::now() + SOON;
    while limit.available_permits() != permits {
        assert!(Instant::now() < deadline, "{} permits", limit.available_permits());
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn the_work_of_a_cancelled_call_counts_until_it_ends() {
    let loaded = from_text("drops.yaml", PROGRAM).unwrap_or_else(|rejected| panic!("{rejected}"));
    // Its worker is not polled, so that statistics take two seconds.
    let core = loaded.device(DeviceOptions::small()).unwrap();
    let control = Control::of(&core).unwrap().clone();
    let device = Device::new(1, control, &loaded.parsed, Begun::default());
    let service = Management::new(Arc::new(device), "drops");
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (end, ended) = channel::<()>();
        let call = service.list(move |_| {
            let _ = ended.recv();
            Ok(Vec::new())
        });
        assert!(timeout(A_MOMENT, call).await.is_err(), "it waits");
        assert_eq!(service.reads.available_permits(), READS_MAX - 1);
        drop(end);
        await_permits(&service.reads, READS_MAX).await;

        let call = DeviceService::statistics(&service, Request::new(Default::default()));
        assert!(timeout(A_MOMENT, call).await.is_err(), "it waits");
        assert_eq!(service.statistics.available_permits(), 0);
        await_permits(&service.statistics, 1).await;
    });
}
