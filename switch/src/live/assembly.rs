//! The ports of a switch on its workers: their owners, captures and queues.
//!
//! A port belongs to one worker, its owner: ports are assigned round-robin. The further queues of a port with several
//! belong to the workers after its owner, one each. Every other worker has the port's place. It starts no thread and
//! moves nothing; that is [`super::Workers`].

use std::thread;
use std::time::Duration;

use wireyard_tables::time::Time;

use crate::config::qos::WorkerShare;
use crate::core::{Core, DeviceError, UNCHARGED_MAX};
use crate::ports::PortNumber;
use crate::ports::absent::AbsentPort;
use crate::ports::{self, Opened, PortError, PortSpec, Spread};
use crate::program::{BuildError, Loaded};

/// Interval and number of checks of a link without a carrier before the switch runs: a second and a half, as the kernel
/// may report a carrier a second late.
const CARRIER_LOOK: Duration = Duration::from_millis(10);
const CARRIER_LOOKS: usize = 150;

/// Why a switch does not get its ports.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssemblyError {
    /// More workers than queues that the ports may have: one would have no work.
    #[error(
        "--workers {workers}: each worker serves a queue of a port at least, and {ports} ports have {queues} together: use --workers {queues}"
    )]
    Idle {
        /// The requested number of workers.
        workers: usize,
        /// Number of ports.
        ports: usize,
        /// Most queues that they have.
        queues: usize,
    },
    /// The same, as the interfaces have fewer queues than they may.
    #[error(
        "--workers {workers}: the ports have queues for {queues}: use --workers {queues}, or interfaces with more queues (ethtool -L, ethtool -l)"
    )]
    FewQueues {
        /// The requested number of workers.
        workers: usize,
        /// Number of workers that have a queue.
        queues: usize,
    },
    /// Two workers would write one capture file.
    #[error(
        "ports {one} and {two} belong to different workers and cannot share a capture \
         file: give each its own (1=veth0,capture=FILE), or use --workers 1"
    )]
    SharedCapture {
        /// A port.
        one: PortNumber,
        /// The port after it.
        two: PortNumber,
    },
    /// A port that cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A port or a capture that the device refuses.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Queues that do not fit these ports.
    #[error(transparent)]
    Queues(#[from] BuildError),
}

/// Takes a message, and the port that it is of.
pub type Notice<'a> = dyn FnMut(Option<PortNumber>, &str) + 'a;

/// Numbered ports, to be divided among workers.
#[derive(Clone, Copy, Debug)]
pub struct Assembly<'a> {
    specs: &'a [(PortNumber, PortSpec)],
    workers: usize,
}

impl<'a> Assembly<'a> {
    /// These ports on `workers` workers; nothing is opened.
    ///
    /// # Errors
    /// A worker would have no work, or two workers would have one capture file.
    pub fn new(
        specs: &'a [(PortNumber, PortSpec)],
        workers: usize,
    ) -> Result<Assembly<'a>, AssemblyError> {
        let most = |(_, spec): &(PortNumber, PortSpec)| match spec.queues {
            _ if spec.capture.is_some() => 1,
            Some(queues) => (queues as usize).min(workers),
            None if spec.kind.takes_queues() => workers,
            None => 1,
        };
        // A switch may start without ports, which `--ports` adds later.
        let all = specs.iter().map(most).sum::<usize>().max(1);
        if workers > all {
            return Err(AssemblyError::Idle { workers, ports: specs.len(), queues: all });
        }
        let assembly = Assembly { specs, workers };
        assembly.check_captures()?;
        Ok(assembly)
    }

    /// Opens each port at its worker, and then gives every worker its queues and begins capture files. `notice` gets
    /// messages for the user, with the port that they are of.
    ///
    /// # Errors
    /// A port or its capture file cannot be opened, or the queues do not fit these ports.
    pub fn build(
        &self,
        loaded: &Loaded,
        cores: &mut [Core],
        notice: &mut Notice<'_>,
    ) -> Result<(), AssemblyError> {
        self.open(cores, notice)?;
        self.report_lossy(loaded, cores, notice);
        await_carriers(cores);
        self.set_queues(loaded, cores)?;
        // Last: this empties files.
        for (place, (number, spec)) in self.specs.iter().enumerate() {
            cores[self.owner(place)].captures().record_as(*number, spec)?;
        }
        Ok(())
    }

    /// The worker of the port with this index. With fewer ports than workers, owners are as far apart as possible.
    fn owner(&self, place: usize) -> usize {
        match self.specs.len() {
            ports if ports < self.workers => place * self.workers / ports,
            _ => place % self.workers.max(1),
        }
    }

    /// True for the ports of a worker, and for those without one yet: it may get them when they are added.
    fn may_own(&self, worker: usize, number: PortNumber) -> bool {
        let place = self.specs.iter().position(|(known, _)| *known == number);
        place.is_none_or(|place| self.owner(place) == worker)
    }

    /// Opens each port at its worker, and its further queues at the next ones; the others get its place.
    fn open(&self, cores: &mut [Core], notice: &mut Notice<'_>) -> Result<(), AssemblyError> {
        let spread = Spread::of(self.specs.len(), self.workers);
        let workers = cores.len();
        let mut has_queue = vec![false; workers];
        for (place, (number, spec)) in self.specs.iter().enumerate() {
            let mine = self.owner(place);
            let opened = ports::open_spread(spec, cores[mine].memory(), spread);
            let Opened { port, queues, notices } = opened?;
            for text in notices {
                notice(Some(*number), &text);
            }
            let absent = AbsentPort::like(port.as_ref());
            cores[mine].add_port(*number, port)?;
            has_queue[mine] = true;
            let mut queues = queues.into_iter();
            for worker in (1..workers).map(|after| (mine + after) % workers) {
                match queues.next() {
                    Some(queue) => {
                        cores[worker].add_queue(*number, mine as u8, queue)?;
                        has_queue[worker] = true;
                    }
                    None => cores[worker].add_elsewhere(*number, mine as u8, absent.clone())?,
                }
            }
        }
        // The first worker waits for ports if there are none yet.
        match has_queue.iter().filter(|has| **has).count().max(1) {
            all if all == workers => Ok(()),
            queues => Err(AssemblyError::FewQueues { workers, queues }),
        }
    }

    /// Reports where several workers weaken a lossless guarantee: parts of egress pools that are too small, and lossless
    /// ports that several workers serve, as packets that wait between workers are not charged yet when a pause is
    /// decided.
    fn report_lossy(&self, loaded: &Loaded, cores: &mut [Core], notice: &mut Notice<'_>) {
        let numbers: Vec<PortNumber> = self.specs.iter().map(|(number, _)| *number).collect();
        let queues = loaded.config.as_ref().and_then(|config| config.queues(&numbers));
        let Some(Ok(qos)) = queues else { return };
        for shortage in WorkerShare::egress_shortages(&qos, self.workers) {
            notice(None, &shortage);
        }
        for number in numbers {
            let others =
                cores.iter().filter(|core| core.ports().served().contains(&number)).count();
            let port = qos.ports.iter().find(|port| port.number == number);
            let groups = port.iter().flat_map(|port| &port.tm.groups);
            if others == 0 || !groups.into_iter().any(|group| group.lossless.is_some()) {
                continue;
            }
            let frames = UNCHARGED_MAX * others;
            notice(
                None,
                &format!(
                    "port {number} is lossless and served by {} workers: up to {UNCHARGED_MAX} frames of each other worker are received and not \
                 charged yet, so its headroom may be short by {frames} frames: open it with queues=1, or raise its headroom",
                    others + 1
                ),
            );
        }
    }

    /// Ports of several workers cannot write into one capture file.
    fn check_captures(&self) -> Result<(), AssemblyError> {
        for (place, (number, spec)) in self.specs.iter().enumerate() {
            let same = |(other, (_, known)): &(usize, &(PortNumber, PortSpec))| {
                known.capture == spec.capture && self.owner(*other) != self.owner(place)
            };
            let earlier = self.specs.iter().enumerate().take(place).find(same);
            if let (Some(_), Some((_, (earlier, _)))) = (&spec.capture, earlier) {
                return Err(AssemblyError::SharedCapture { one: *earlier, two: *number });
            }
        }
        Ok(())
    }

    /// Gives every worker its queues.
    fn set_queues(&self, loaded: &Loaded, cores: &mut [Core]) -> Result<(), AssemblyError> {
        let numbers: Vec<PortNumber> = self.specs.iter().map(|(number, _)| *number).collect();
        for (worker, core) in cores.iter_mut().enumerate() {
            let owns = |number: PortNumber| self.may_own(worker, number);
            let part =
                (self.workers > 1).then_some(WorkerShare { workers: self.workers, owns: &owns });
            loaded.set_queues_of(core, &numbers, part.as_ref())?;
        }
        Ok(())
    }
}

/// Waits a moment for the carriers of new links: the system reports a carrier with a delay, and a port without one
/// drops its frames. It waits no longer for a link whose peer is down.
fn await_carriers(cores: &mut [Core]) {
    for _ in 0..CARRIER_LOOKS {
        // Every port is called each time: the call makes it check its carrier.
        let waiting = cores
            .iter_mut()
            .filter_map(|core| core.ports_mut().is_waiting_for_carrier(Time::ZERO).then_some(()));
        if waiting.count() == 0 {
            return;
        }
        thread::sleep(CARRIER_LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_may_own_its_ports_and_those_to_come() {
        let texts = ["1=raw:a", "2=raw:b", "7=raw:c"].map(str::to_owned);
        let specs = PortSpec::list(&texts, |_| None, None).unwrap();
        let assembly = Assembly::new(&specs, 2).unwrap();
        let may_own = |worker| {
            let numbers = [1, 2, 7, 9].map(PortNumber);
            numbers.map(|number| assembly.may_own(worker, number))
        };
        assert_eq!(may_own(0), [true, false, true, true]);
        assert_eq!(may_own(1), [false, true, false, true]);
    }
}
